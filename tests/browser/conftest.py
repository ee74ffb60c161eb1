"""A JupyterLab server and a headless Chromium for the tests of this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_server import FLAGS, LabPage, LabServer, OpenNotebook

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ARTIFACTS = Path(__file__).parents[2] / ".artifacts"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A server with its own settings."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium here (apt-get install chromium, or name one in CHROMIUM)")
    made = LabServer(tmp_path_factory.mktemp("lab"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def lab(server: LabServer) -> Iterator[LabPage]:
    """JupyterLab in Chromium; it ends with the module, since playwright's loop would be in the way of other tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield LabPage(browser, server)
        browser.close()


@pytest.fixture
def opened(lab: LabPage) -> Iterator[Callable[..., OpenNotebook]]:
    """`opened("name.ipynb", cells)`: a notebook of these cells, or one that lies there, open in the page."""
    notebooks: list[OpenNotebook] = []

    def open_notebook(name: str, cells: list[str] | None = None) -> OpenNotebook:
        if cells is not None:
            lab.server.write(name, cells)
        notebooks.append(OpenNotebook(lab, name))
        return notebooks[-1]

    yield open_notebook
    for notebook in notebooks:
        notebook.close()


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """Where pictures are kept for a person to look at; git ignores it."""
    return ARTIFACTS
