"""A Jupyter server and a headless Chromium for the tests of this folder, which share them and come last of all tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_server import FLAGS, LabPage, LabServer, Notebook7Page, OpenNotebook

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ARTIFACTS = Path(__file__).parents[2] / ".artifacts"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: they share a browser, and while playwright's loop is there no test can make its own."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A server with its own settings."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium here (apt-get install chromium, or name one in CHROMIUM)")
    made = LabServer(tmp_path_factory.mktemp("lab"))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


@pytest.fixture(scope="session")
def lab(server: LabServer, browser: Any) -> LabPage:
    """JupyterLab in a page."""
    return LabPage(browser, server)


@pytest.fixture(scope="session")
def notebook7(server: LabServer, browser: Any) -> Notebook7Page:
    """Notebook 7 in a page."""
    return Notebook7Page(browser, server)


@pytest.fixture
def opened(lab: LabPage) -> Iterator[Callable[..., OpenNotebook]]:
    """`opened("name.ipynb", cells)`: a notebook of these cells, or one that lies there, open in the page."""
    yield from opener(lab)


def opener(page: LabPage) -> Iterator[Callable[..., OpenNotebook]]:
    """A function that opens notebooks in a page; they are closed at the end."""
    notebooks: list[OpenNotebook] = []

    def open_notebook(name: str, cells: list[str] | None = None) -> OpenNotebook:
        if cells is not None:
            page.server.write(name, cells)
        notebooks.append(OpenNotebook(page, name))
        return notebooks[-1]

    yield open_notebook
    for notebook in notebooks:
        notebook.close()


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """Where pictures are kept for a person to look at; git ignores it."""
    return ARTIFACTS
