"""The panel as a person uses it: in JupyterLab, in a browser."""

from __future__ import annotations

import json
import re
import time

import pytest
from cell_sources import GET_WEATHER, SEND, WAIT

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(180)]

SET_UP = (
    """
%load_ext agentnb
import time
from agentnb import Agent, ScriptedModel, calls, tool
"""
    + GET_WEATHER
    + SEND
    + WAIT
    + """
def says(request):
    "Answers by what it is asked, so that every fork finds its reply."
    last = request.messages[-1]
    if last["role"] == "tool":
        text = f"It was <b>{last['content']}</b>. <img src=x onerror=alert(1)>"
        return {"content": text, "usage": {"prompt_tokens": 120, "completion_tokens": 14}}
    if "message" in last["content"]:
        return calls("send", to="ann", text="hello")
    if "wait" in last["content"]:
        return calls("wait", seconds=30)
    return calls("get_weather", city="Beijing")

agent = Agent(model=says, tools=[get_weather, send, wait])
"""
).strip()
PANEL = "%agent panel agent"
MANY_TOOLS = """
tools = [get_weather, *(get_weather.replace(name=f"get_weather_{number}") for number in range(299))]
many = Agent(model=says, tools=tools)
""".strip()


class PanelPage:
    """The panel of a notebook's cell, its second as a rule."""

    def __init__(self, notebook, number: int = 1) -> None:
        self.notebook = notebook
        self.page = notebook.page
        self.cell = notebook.cell(number)

    def button(self, name: str):
        """A button by its name."""
        return self.cell.locator("button").filter(has_text=re.compile(rf"^\s*{name}$")).first

    def press(self, name: str) -> None:
        """Press a button when it can be pressed."""
        self.button(name).click()

    def write(self, field: str, text: str) -> None:
        """Fill a field in and leave it."""
        box = self.cell.get_by_label(field, exact=True)
        box.fill(text)
        box.blur()

    def see(self, text: str) -> None:
        """Wait for a text in the panel or its record."""
        self.cell.get_by_text(text).first.wait_for()

    def value(self, field: str) -> str:
        """What stands in a field."""
        return self.cell.get_by_label(field, exact=True).input_value()

    def scrub(self, key: str) -> None:
        """Move the State slider by a key."""
        self.cell.get_by_role("slider").focus()
        self.page.keyboard.press(key)


@pytest.fixture
def panel(opened):
    """A panel on the screen."""
    notebook = opened("panel.ipynb", [SET_UP, PANEL, "1"])
    notebook.run_all()
    made = PanelPage(notebook)
    made.button("Run").wait_for()
    notebook.show(1)
    return made


def test_run_step_and_resume(panel, artifacts):
    """Run goes to the answer, Step makes one step, Resume the rest; each leaves its record; nothing is live HTML."""
    panel.write("Goal", "How warm is Beijing?")
    panel.press("Run")
    panel.see("run · answered · 2 new steps")
    panel.notebook.lab.picture(artifacts / "panel-run.png")
    panel.press("Step")
    panel.see("run_2 · stopped at the limit of 1 step · 1 new step")
    panel.press("Resume")
    panel.see("run_2 · answered · 1 new step")
    panel.notebook.lab.use_theme("JupyterLab Dark")
    panel.notebook.lab.picture(artifacts / "panel-dark.png")
    panel.notebook.lab.use_theme("JupyterLab Light")

    assert panel.cell.locator("img").count() == 0
    assert panel.notebook.lab.errors == []


def test_one_tap_after_typing_is_enough(panel, artifacts):
    """Run takes what was typed the moment before; pressed too early it says what is missing; Step takes a new goal."""
    panel.press("Run")
    panel.see("there is no goal yet: write one, then press Run or Step")
    panel.cell.get_by_label("Goal", exact=True).press_sequentially("How warm is Beijing?")
    panel.press("Step")
    panel.see("run · stopped at the limit of 1 step")
    assert panel.cell.get_by_text("there is no goal yet").count() == 0
    panel.cell.get_by_label("Goal", exact=True).fill("Send a message.")
    panel.cell.get_by_label("Goal", exact=True).blur()
    panel.see("Run and Step begin run_2 with the new goal; the other buttons go on with run.")
    panel.notebook.show(1)
    panel.notebook.lab.picture(artifacts / "panel-new-goal.png")
    panel.press("Step")
    panel.see("run_2 · waits for approval of send")

    assert panel.notebook.lab.errors == []


def test_many_tools(opened, artifacts):
    """With 300 tools the panel is there soon, has 60 check boxes and runs at the first tap."""
    cells = [SET_UP, MANY_TOOLS, "%agent panel many", "1"]
    notebook = opened("panel-many.ipynb", cells)
    for number in (0, 1):
        notebook.run_cell(number)
    began = time.monotonic()
    notebook.run_cell(2)
    made = PanelPage(notebook, 2)
    made.see("… and 242 more, of which the agent has 240:")
    seconds = time.monotonic() - began
    made.cell.get_by_label("Goal", exact=True).press_sequentially("How warm is Beijing?")
    made.press("Run")
    made.see("run · answered")
    notebook.show(2)
    notebook.lab.picture(artifacts / "panel-many-tools.png")

    assert made.cell.get_by_role("checkbox").count() == 60
    assert seconds < 5
    assert notebook.lab.errors == []


def test_stop_while_a_tool_runs(panel, artifacts):
    """Stop ends a run that waits for a tool of 30 s within a second and a half; the run is kept."""
    panel.write("Goal", "wait")
    panel.press("Run")
    panel.see("wait runs")
    panel.notebook.lab.picture(artifacts / "panel-running.png")
    began = time.monotonic()
    panel.press("Stop")
    panel.see("run · cancelled by the user")
    seconds = time.monotonic() - began

    assert seconds < 1.5
    assert panel.notebook.lab.errors == []


def test_fork_from_a_step_and_edit_a_result(panel, artifacts):
    """The scrubber shows an earlier State; a fork from there, or another result, goes on in a variable of its own."""
    panel.write("Goal", "How warm is Beijing?")
    panel.press("Run")
    panel.see("run · answered")
    panel.see("run · State 4 of 4")
    panel.scrub("Home")
    panel.see("run · State 1 of 4 · start")
    panel.press("Fork from here")
    panel.see("run_2 · State 1 of 1 · start")
    panel.press("Resume")
    panel.see("run_2 · answered · 2 new steps")
    panel.see("run_2 · State 4 of 4")
    panel.scrub("ArrowLeft")
    panel.see("run_2 · State 3 of 4 · act")
    panel.write("Result", "-3.5")
    panel.notebook.lab.picture(artifacts / "panel-edit.png")
    panel.press("Go on with this result")
    panel.see("run_3 · answered · 1 new step")
    panel.see("It was <b>-3.5</b>.")
    panel.see("run_3 · State 4 of 4")
    panel.scrub("ArrowLeft")
    panel.see("run_3 · State 3 of 4 · act")
    panel.write("Arguments", '{"city": "Oslo"}')
    panel.press("Run with these arguments")
    panel.see("run_4 · answered")
    panel.see("4.0</b>.")

    assert panel.notebook.lab.errors == []


def test_approve_with_edited_arguments(panel, artifacts):
    """A call that waits is approved with other arguments; another one is denied."""
    panel.write("Goal", "Send a message.")
    panel.press("Run")
    panel.see("run · waits for approval of send")
    panel.write("Arguments", '{"to": "bob", "text": "bye"}')
    panel.notebook.lab.picture(artifacts / "panel-approve.png")
    panel.press("Approve")
    panel.see("sent to bob: bye</b>.")
    panel.press("Run")
    panel.see("run_2 · waits for approval of send")
    panel.write("Reason", "not now")
    panel.press("Deny")
    panel.see("It was <b>Denied by the user: not now</b>.")

    assert panel.notebook.lab.errors == []


def test_a_person_plays_the_model(panel, artifacts):
    """With planner "you" a form asks what comes next, a call and then the answer; the model is not asked."""
    panel.write("Goal", "How warm is Oslo?")
    panel.cell.get_by_label("Planner", exact=True).select_option("you: you decide")
    panel.press("Run")
    panel.see("You are the model. What do you do?")
    panel.see("Step 1: waits for you")
    panel.write("city", "Oslo")
    panel.notebook.lab.picture(artifacts / "panel-you.png")
    panel.press("Do it")
    panel.see("got 4.0")
    panel.cell.get_by_label("next", exact=True).select_option("finish: answer")
    panel.write("answer", "Four degrees.")
    panel.press("Do it")
    panel.see("run · answered · 2 new steps")

    assert panel.cell.get_by_text("You are the model. What do you do?").count() == 0
    assert "Four degrees." in panel.cell.inner_text()
    assert panel.notebook.lab.errors == []


def test_what_is_typed_while_a_cell_waits_arrives_whole(opened):
    """Letter by letter into a form below a cell that awaits it, with a correction: the call has the last words."""
    asks = "%%agent --planner you -t get_weather -o run\nHow warm is Oslo?"
    notebook = opened("typed.ipynb", [SET_UP, asks, "run.steps[0].calls[0].arguments"])
    notebook.run_cell(0)
    notebook.start_cell(1)
    made = PanelPage(notebook)
    made.see("You are the model. What do you do?")
    city = made.cell.get_by_label("city", exact=True)
    city.press_sequentially("Berlin", delay=20)
    city.fill("")
    city.press_sequentially("Oslo", delay=20)
    made.press("Do it")
    made.see("Step 2: waits for you")
    made.press("Pause")
    notebook.wait_for_cells()
    notebook.run_cell(2)

    assert "Oslo" in json.dumps(notebook.outputs(2))


def test_a_button_writes_its_cell(panel):
    """The cell behind a button appears below the next cell that runs; Enter on the fold's button closes it."""
    panel.write("Goal", "How warm is Beijing?")
    panel.cell.get_by_text("Cells behind the buttons").click()
    panel.see("%%agent --agent agent -o run")
    panel.press("Write as a cell")
    panel.see("It appears below the next cell that you run")
    panel.notebook.run_cell(2)
    panel.button("Cells behind the buttons").focus()
    panel.page.keyboard.press("Enter")
    panel.button("Write as a cell").wait_for(state="hidden")

    assert panel.notebook.model()[3]["source"] == "%%agent --agent agent -o run\nHow warm is Beijing?"


@pytest.mark.parametrize("closed", [True, False])
def test_a_saved_notebook_is_readable_without_the_panel(panel, opened, closed, artifacts):
    """Opened again, the record stands there whole; a panel that was closed leaves no widget behind."""
    panel.write("Goal", "How warm is Beijing?")
    panel.press("Run")
    panel.see("run · answered · 2 new steps")
    if closed:
        panel.press("Close panel")
        panel.button("Run").wait_for(state="detached")
    saved = panel.notebook.save()
    panel.notebook.close()
    again = opened("panel.ipynb")
    again.show(1)
    again.cell(1).get_by_text("run · answered · 2 new steps").wait_for()
    again.lab.picture(artifacts / f"panel-reopened-{'closed' if closed else 'open'}.png")

    assert "widgets" not in saved["metadata"]
    assert again.cell(1).locator("details").count() >= 3
    assert ("widget-view" in json.dumps(saved)) is not closed
    dead = again.page.get_by_text(re.compile("(Loading|Error displaying) widget"))
    if closed:
        assert dead.count() == 0
    else:
        again.page.get_by_text("Error displaying widget").first.wait_for()  # its error must not land in the next test


def test_a_tool_is_tried_in_a_form(opened, artifacts):
    """A field for each argument; the try is ordinary output; the completer offers what the notebook has."""
    notebook = opened("form.ipynb", [SET_UP, "%agent try get_weather"])
    notebook.run_all()
    cell = notebook.cell(1)
    field = cell.get_by_label("city", exact=True)
    field.fill("Oslo")
    field.blur()
    cell.locator("button").filter(has_text="Try it").click()
    cell.get_by_text("as cast: get_weather(city='Oslo')").wait_for()
    notebook.show(1)
    notebook.lab.picture(artifacts / "try-form.png")
    cell.locator("button").filter(has_text="Close form").click()
    cell.locator("button").filter(has_text="Try it").wait_for(state="detached")

    assert "4.0" in json.dumps(notebook.outputs(1))
    assert "widget-view" not in json.dumps(notebook.save())
    assert notebook.lab.errors == []
