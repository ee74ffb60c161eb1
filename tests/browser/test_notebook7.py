"""agentnb in Notebook 7: the same steps, streaming and Stop as in JupyterLab."""

from __future__ import annotations

import time

import pytest
from cell_sources import GET_WEATHER, WAIT
from conftest import opener

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(180)]

SET_UP = (
    """
%load_ext agentnb
import time
from pathlib import Path
from agentnb import calls, tool
"""
    + GET_WEATHER
    + WAIT
    + """
def model(request):
    "One look-up, then words that come one by one, the last of them when the reader says so."
    last = request.messages[-1]
    if last["role"] == "user":
        return calls("wait", seconds=30) if "wait" in last["content"] else calls("get_weather", city="Beijing")
    return words()

def shop(request):
    "Asks for the price of tea and tells it."
    last = request.messages[-1]
    return f"It costs {last['content']}." if last["role"] == "tool" else calls("price", item="tea")

def words():
    yield "It is "
    yield "31.0 "
    while not Path("go-on").exists():
        time.sleep(0.02)
    yield "degrees."
"""
).strip()
ASK = "%%agent -m model -o run\nHow warm is Beijing?"
ITS_OWN = ("'schema'", "/static/notebook/")
"""What Notebook 7 itself logs: an error of its settings, a font that it may not load."""
AGAIN = "%agent rerun sale -o again"
TOOL = '''%%tool
def price(item: str) -> float:
    """What an item costs today.

    Args:
        item: Its name, such as "tea".
    """
    return 1.0
'''
SALE = "%%agent -m shop -t price -o sale\nWhat does tea cost?"
LONG_WAIT = "%%agent -m model -t wait -o other\nNow wait long."


@pytest.fixture(scope="module")
def notebook(notebook7):
    """One notebook for this module, open, its tools and model defined."""
    for open_notebook in opener(notebook7):
        made = open_notebook(
            "seven.ipynb", [SET_UP, ASK, "run.answer", LONG_WAIT, "other.stop.value", TOOL, SALE, AGAIN]
        )
        made.run_cell(0)
        yield made


def test_streaming_is_seen_and_what_is_open_stays_open(notebook, artifacts):
    """Words appear before the reply is complete; a step that was opened meanwhile is open afterwards, too."""
    notebook.start_cell(1)
    cell = notebook.cell(1)
    cell.locator("pre").filter(has_text="It is 31.0").first.wait_for()
    assert cell.get_by_role("button", name="Stop").count() == 1
    cell.locator("summary").first.click()
    notebook.lab.picture(artifacts / "notebook7-streaming.png")
    (notebook.path.parent / "go-on").touch()
    notebook.wait_for_cells()

    step = cell.locator("details").first
    assert step.evaluate("each => each.open")
    assert cell.get_by_role("button", name="Stop").count() == 0
    assert "It is 31.0 degrees." in cell.inner_text()
    step.locator("summary").first.click()
    assert not step.evaluate("each => each.open")


def test_a_tool_is_edited_and_the_run_made_again(notebook):
    """The edited cell says what changed; the run that was made keeps its record, the one made again has the new tool."""
    notebook.run_cell(5)
    notebook.run_cell(6)
    notebook.edit(5, TOOL.replace("return 1.0", "return 2.5"))
    notebook.run_cell(5)
    notebook.run_cell(7)

    assert "changed" in notebook.cell(5).text_content()
    assert "It costs 1.0." in notebook.cell(6).text_content()
    assert "It costs 2.5." in notebook.cell(7).text_content()


def test_run_all(notebook, artifacts):
    """Every cell runs, in order; the steps are there; Stop ends a tool of 30 s within a second and a half."""
    (notebook.path.parent / "go-on").touch()
    notebook.start_all()
    notebook.page.get_by_text("wait runs").first.wait_for()
    began = time.time()
    notebook.cell(3).get_by_role("button", name="Stop").click()
    notebook.wait_for_cells()
    seconds = notebook.ended(3) - began
    notebook.lab.picture(artifacts / "notebook7.png")

    assert None not in notebook.counts()
    assert "get_weather for city='Beijing'" in notebook.cell(1).locator("summary").first.inner_text()
    assert notebook.outputs(2)[0]["data"]["text/plain"] == "'It is 31.0 degrees.'"
    assert notebook.outputs(4)[0]["data"]["text/plain"] == "'cancelled'"
    assert seconds < 1.5
    assert "widget-view" not in str(notebook.save())
    assert [each for each in notebook.lab.errors if not any(its in each for its in ITS_OWN)] == []
