"""agentnb as a person meets it: in JupyterLab, in a browser."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(180)]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LOAD = "%load_ext agentnb"
TOOLS = """
from agentnb import ScriptedModel, calculator, calls, tool

@tool
def get_weather(city: str) -> float:
    "Current temperature of a city, in degrees Celsius."
    return {"Beijing": 31.0, "Shanghai": 27.5}[city]

model = ScriptedModel([
    calls("get_weather", city="Beijing"),
    calls("get_weather", city="Shanghai"),
    calls("calculator", expression="31.0 + 27.5"),
    "The temperatures add up to **58.5** degrees.",
])
""".strip()
ASK = "%%agent -m model -o run\nWhat do the temperatures of Beijing and Shanghai add up to?"
SLOW = """
import time
from agentnb import ScriptedModel, calls, tool

@tool(timeout=60)
def wait(seconds: float) -> str:
    "Wait."
    time.sleep(seconds)
    return "waited"

model = ScriptedModel([calls("wait", seconds=0), calls("wait", seconds=30), "done", "done"])
""".strip()
WAIT = "%%agent -m model -t wait -o run\nWait a little, then long."


@pytest.fixture
def weather(opened):
    """The notebook of the first task on a script, open."""
    return opened("weather.ipynb", [LOAD, TOOLS, ASK])


def test_steps_appear_and_can_be_opened(weather, artifacts):
    """Run All shows one collapsed block per step; a click opens it, another closes it."""
    weather.run_all()
    steps = weather.cell(2).locator("details")
    weather.lab.picture(artifacts / "steps-light.png")

    assert steps.count() >= 4
    assert "get_weather for city='Beijing'" in steps.first.locator("summary").first.inner_text()
    assert not steps.first.evaluate("each => each.open")
    steps.first.locator("summary").first.click()
    assert steps.first.evaluate("each => each.open")
    weather.lab.picture(artifacts / "steps-open.png")
    steps.first.locator("summary").first.click()
    assert not steps.first.evaluate("each => each.open")


def test_nothing_live_is_left_behind(weather):
    """After the run the control bar is gone from the page, the model and the file, and no error was logged."""
    weather.run_all()
    saved = weather.save()

    assert weather.cell(2).locator(".jupyter-widgets, .widget-button").count() == 0
    assert "widgets" not in saved["metadata"]
    assert "widget-view" not in weather.path.read_text("utf-8")
    assert weather.lab.errors == []


def test_a_saved_notebook_reads_the_same(weather, opened):
    """Opened again, before anything runs, every step is there and no widget is missed."""
    weather.run_all()
    weather.save()
    before = weather.cell(2).locator("details").count()
    weather.close()
    again = opened("weather.ipynb")

    again.cell(2).locator("details").first.wait_for()
    assert again.cell(2).locator("details").count() == before
    assert again.page.get_by_text("Error displaying widget").count() == 0


def test_dark_theme(weather, artifacts):
    """Text has the theme's own colour, so that it can be read in the dark."""
    weather.run_all()
    weather.lab.use_theme("JupyterLab Dark")
    weather.cell(2).locator("summary").first.click()
    weather.lab.picture(artifacts / "steps-dark.png")
    colour = weather.cell(2).locator("summary").first.evaluate("each => getComputedStyle(each).color")
    weather.lab.use_theme("JupyterLab Light")

    assert lightness(colour) > 128


def test_stop_button_ends_the_cell(opened, artifacts):
    """Stop during a tool of 30 s ends the cell at once and normally; the run is kept, with its answered call."""
    notebook = opened("stop.ipynb", [LOAD, SLOW, WAIT, "run.stop.value, len(run.steps), len(run.tool_results)"])
    notebook.start_all()
    stop = notebook.cell(2).get_by_role("button", name="Stop")
    notebook.page.get_by_text("wait runs").first.wait_for()
    notebook.lab.picture(artifacts / "stop-bar.png")
    began = time.time()
    stop.click()
    notebook.wait_for_cells()
    seconds = notebook.ended(2) - began
    notebook.lab.picture(artifacts / "stopped.png")
    print(f"Stop: {seconds:.2f} s")

    assert seconds < 1.5
    assert all(output["output_type"] != "error" for output in notebook.outputs(2))
    assert notebook.outputs(3)[0]["data"]["text/plain"] == "('cancelled', 2, 2)"
    assert stop.count() == 0


def test_interrupt_stops_run_all(opened, artifacts):
    """An interrupt ends the running cell at once, the cells after it don't run, and the next cell goes on."""
    notebook = opened("interrupt.ipynb", [LOAD, SLOW, WAIT, "after = True"])
    notebook.start_all()
    notebook.page.get_by_text("wait runs").first.wait_for()
    began = time.time()
    notebook.interrupt()
    notebook.wait_for_cells()
    seconds = notebook.ended(2) - began
    notebook.lab.picture(artifacts / "interrupted.png")
    print(f"interrupt: {seconds:.2f} s")

    assert seconds < 1.5
    assert notebook.counts() == [1, 2, 3, None]
    assert [output["ename"] for output in notebook.outputs(2) if output["output_type"] == "error"] == [
        "AgentInterrupted"
    ]


def test_queued_cells_all_run(opened):
    """Run All over several agent cells runs each of them, in order."""
    notebook = opened(
        "queue.ipynb", [LOAD, TOOLS, ASK, "first = run.answer", "model.requests.clear()", ASK, "len(run.steps)"]
    )
    notebook.run_all()

    assert notebook.counts() == [1, 2, 3, 4, 5, 6, 7]
    assert notebook.outputs(6)[0]["data"]["text/plain"] == "4"


def test_first_notebook(lab, opened, artifacts):
    """The first notebook runs from its recording, and its answer is there."""
    if not (NOTEBOOKS / "00_start_here.ipynb").exists():
        pytest.skip("the first notebook is not written yet")
    shutil.copytree(NOTEBOOKS, lab.server.folder, dirs_exist_ok=True)
    notebook = opened("00_start_here.ipynb")
    notebook.run_all()
    cells = notebook.model()
    first = next(number for number, cell in enumerate(cells) if "".join(cell["source"]).startswith("%%agent"))
    notebook.show(first)
    notebook.lab.picture(artifacts / "start-here.png")

    assert None not in notebook.counts()
    assert "58.5" in json.dumps(cells[first]["outputs"])
    assert notebook.cell(first).locator("details").count() >= 4
    assert notebook.lab.errors == []


def lightness(colour: str) -> float:
    """How bright `rgba(...)` is, from 0 to 255."""
    channels = [float(each) for each in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(channels) / 3
