"""The page is loaded again in the middle of a run: the run goes on, and all of it can be shown afterwards."""

from __future__ import annotations

import time

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(180)]

SET_UP = """
%load_ext agentnb
import time
from pathlib import Path
from agentnb import ScriptedModel, calls, tool

for before in Path().glob("seen-*"):  # of another test
    before.unlink()

@tool(timeout=60)
def look(place: int) -> str:
    "Look."
    while not Path(f"seen-{place}").exists():
        time.sleep(0.02)
    return f"saw {place}"

model = ScriptedModel([calls("look", place=1), calls("look", place=2), calls("look", place=3), "Saw all three."])
""".strip()
ASK = "%%agent -m model -o run\nLook at three places."


def reloaded(opened, name):
    """A notebook whose page was loaded again in the second step of a run."""
    notebook = opened(name, [SET_UP, ASK, "%agent show run"])
    notebook.run_cell(0)
    notebook.start_cell(1)
    (notebook.path.parent / "seen-1").touch()
    notebook.page.get_by_text("Step 2: look runs").first.wait_for()
    notebook.save()
    notebook.reload()
    return notebook


def test_a_reload_costs_output_and_nothing_else(opened, artifacts):
    """JupyterLab drops what comes after it was loaded again; the run ends in the kernel, and `%agent show` gives it whole."""
    notebook = reloaded(opened, "reload.ipynb")
    assert "asked look for place=1" in notebook.cell(1).inner_text()
    for place in (2, 3):
        (notebook.path.parent / f"seen-{place}").touch()
    notebook.wait_for_kernel()
    notebook.run_cell(2)
    notebook.lab.picture(artifacts / "reloaded.png")
    whole = notebook.cell(2).inner_text()

    assert [f"place={place} · got saw {place}" in whole for place in (1, 2, 3)] == [True] * 3
    assert "Saw all three." in whole
    assert "cancelled" not in whole
    assert "Error displaying widget" not in notebook.page.inner_text("body")


def test_the_stop_button_comes_back_after_a_reload(opened, artifacts):
    """The page finds the run's button again, with what goes on now; it ends the run, which is kept."""
    notebook = reloaded(opened, "reload-stop.ipynb")
    stop = notebook.cell(1).locator("button").filter(has_text="Stop")
    stop.wait_for()
    notebook.page.get_by_text("Step 2: look runs").first.wait_for()
    notebook.lab.picture(artifacts / "reloaded-stop.png")
    began = time.monotonic()
    stop.click()
    stop.wait_for(state="detached")
    seconds = time.monotonic() - began
    notebook.wait_for_kernel()
    notebook.run_cell(2)

    assert seconds < 1.5
    assert "No answer (cancelled)" in notebook.cell(2).inner_text()


def test_the_panel_after_a_reload(opened, artifacts):
    """Its buttons come back and run; their record no longer lands in the page, but `%agent show` gives it, as it says."""
    panel = 'Panel(Agent(lambda request: "Hello."), goal="Greet.")'
    notebook = opened(
        "reload-panel.ipynb", ["%load_ext agentnb\nfrom agentnb import Agent, Panel", panel, "%agent show run"]
    )
    for number in (0, 1):
        notebook.run_cell(number)
    button = notebook.cell(1).locator("button").filter(has_text="Run").first
    button.wait_for()
    notebook.cell(1).get_by_text("after a reload of the page JupyterLab records no more there").wait_for()
    notebook.save()
    notebook.reload()
    button.wait_for()
    button.click()
    notebook.cell(1).get_by_text("run · State 2 of 2 · plan").wait_for()
    notebook.lab.picture(artifacts / "reloaded-panel.png")
    recorded = notebook.cell(1).get_by_text("run · answered · 1 new step").count()
    notebook.run_cell(2)

    assert recorded == 0
    assert "Hello." in notebook.cell(2).inner_text()
