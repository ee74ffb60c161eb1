"""The panel's plots without a kernel: when they are drawn, and what is said where they can't be."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import ipywidgets
import pytest

from agentnb.core.state import State
from agentnb.notebook.panel_plots import PanelPlots


def opened(plots: PanelPlots, until: str) -> str:
    """What the fold shows as soon as it holds these words."""

    async def open_it() -> str:
        here = asyncio.Event()
        plots.picture.observe(lambda change: until in change["new"] and here.set(), "value")
        plots.look(True)
        await asyncio.wait_for(here.wait(), 20)
        return plots.picture.value

    return asyncio.run(open_it())


@pytest.fixture
def plots() -> PanelPlots:
    """The plots of a panel with one run."""
    return PanelPlots(ipywidgets, SimpleNamespace(runs={"run": State.start("goal")}), lambda function: function())


def test_the_first_kind_is_chosen_at_first(plots):
    """A dropdown whose value is None would show nothing as chosen."""
    assert (plots.kind.label, plots.kind.index) == ("Tokens and steps", 0)
    assert None not in dict(plots.kind.options).values()


@pytest.mark.slow
def test_a_missing_library_is_told_and_tried_again(plots, monkeypatch):
    """The fold says what is wrong and what to do, and works once it is put right and opened again."""
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "matplotlib", None)
        told = opened(plots, "matplotlib")

    assert "be imported" in told
    assert "Run %pip install -U matplotlib and restart the kernel." in told
    assert "<img" in opened(plots, "<img")


@pytest.mark.slow
def test_a_picture_that_fails_is_told_and_tried_again(plots):
    """Whatever goes wrong in drawing, the fold says so; it works once the cause is gone."""
    plots.bench.runs["run"] = "no run"
    told = opened(plots, "no run")
    plots.bench.runs["run"] = State.start("goal")

    assert "plot str" in told
    assert "<img" in opened(plots, "<img")


@pytest.mark.slow
def test_a_picture_comes_after_all_else(plots):
    """What waits in the loop when the panel is refreshed goes first, so a Stop is not held up by drawing."""

    async def turns() -> list[bool]:
        plots.look(True)
        await plots._loading
        seen = []
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append("<img" in plots.picture.value)
        return seen

    assert asyncio.run(turns()) == [False] * 3
