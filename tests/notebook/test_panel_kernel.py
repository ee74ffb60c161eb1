"""The panel in a real kernel: where it shows, what its cells do, how it ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from cell_sources import GET_WEATHER
from kernel import VIEW, Kernel, started

pytestmark = pytest.mark.slow

SET_UP = (
    """
%load_ext agentnb
import asyncio, time
from agentnb import Agent, Panel, ScriptedModel, calls, tool
from agentnb.notebook.panel_actions import action
"""
    + GET_WEATHER
    + """
@tool(approve=True)
def send(to: str) -> str:
    "Send a message."
    return f"sent to {to}"

@tool(timeout=None)
def slow() -> str:
    "Wait."
    time.sleep(30)

def says(request):
    last = request.messages[-1]
    if last["role"] == "tool":
        return f"It was {last['content']}."
    word = last["content"].split()[0]
    return {"Send": calls("send", to="ann"), "Wait": calls("slow")}.get(word, calls("get_weather", city="Beijing"))

agent = Agent(model=says, tools=[get_weather, send, slow])

def look(position):
    "As the scrubber does."
    panel.bench.position = position
    panel._widgets.refresh()

def put(**fields):
    "As the fields do."
    for name, value in fields.items():
        setattr(panel.bench.fields, name, value)

async def press(button):
    "As the buttons do; waits for the end."
    panel._widgets.press(button)
    while panel.run.task is not None:
        await asyncio.sleep(0.01)
    return panel.bench.state
"""
)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One kernel for this module."""
    yield from started(SET_UP)


@pytest.fixture
def panel(kernel: Kernel) -> Kernel:
    """The kernel, with a fresh panel in `panel`."""
    kernel.run("for name in [each for each in globals() if each.startswith('run')]: del globals()[name]")
    shown = kernel.run("panel = Panel(agent, goal='How warm is Beijing?')\npanel", live=True)
    assert shown.status == "ok", shown.text
    return kernel


@pytest.mark.parametrize("cell", ["%agent panel agent", "Panel(agent)"])
def test_headless_it_is_a_table(kernel, cell):
    """A program that runs the notebook gets one ordinary output and no widget."""
    shown = kernel.run(cell)

    [bundle] = shown.displays
    assert "static form" in bundle["text/plain"]
    assert "get_weather (version " in bundle["text/html"]
    assert not any(VIEW in each.get("data", {}) for each in shown.outputs)


def test_live_it_is_one_view_and_one_ordinary_output(kernel):
    """The view holds nothing else, so no front end takes it for the record."""
    shown = kernel.run("%agent panel agent", live=True)

    assert len(shown.displays) == 1
    views = [each["data"] for each in shown.outputs if VIEW in each.get("data", {})]
    assert [set(view) for view in views] == [{VIEW}]


@pytest.mark.parametrize(
    ("before", "button"),
    [
        ("", "run"),
        ("", "step"),
        ("await press('step')", "resume"),
        ("await press('run'); look(2)", "resume"),
        ("await press('run'); look(1)", "fork"),
        ("await press('run'); look(2); put(result='{x} $HOME')", "result"),
        ("""await press('run'); look(2); put(arguments='{"city": "Oslo"}')""", "arguments"),
        ("await press('run'); put(message='And now?')", "say"),
        ("await press('run'); look(2); put(message='And now?')", "say"),
        ("""put(goal='Send it.'); await press('run'); put(arguments='{"to": "bob"}')""", "approve"),
        ("put(goal='Send it.'); await press('run'); put(reason='not {now}')", "deny"),
    ],
)
def test_a_cell_does_what_its_button_does(panel, before, button):
    """The text behind a button, run as a cell, makes an equal run in the same variable."""
    assert not before or panel.run(f"{before};", live=True).status == "ok"
    panel.run(f"earlier, made = dict(panel.bench.runs), action(panel.bench, {button!r})")
    pressed = panel.run(f"pressed = await press({button!r})", live=True)
    assert pressed.errors == []
    panel.run("globals().update(earlier)\nif made.out not in earlier: del globals()[made.out]")
    shown = panel.run(ast.literal_eval(panel.value("made.cell")))

    assert shown.status == "ok", shown.text
    assert panel.value("pressed == globals()[made.out]") == "True"
    assert panel.value("pressed.stop == globals()[made.out].stop") == "True"


def test_records_land_below_the_panel(panel):
    """What a button has run is one ordinary output, with HTML and text."""
    cell = panel.run("await press('run')\nNone", live=True)

    [record] = cell.displays
    assert record["text/plain"].startswith("run · answered · 2 new steps")
    assert "It was 31.0." in record["text/html"]


def test_stop_is_quick(panel):
    """A run that waits for a tool ends within a second, from `%agent stop` as from the button."""
    panel.run("put(goal='Wait now.'); panel._widgets.press('run'); await asyncio.sleep(0.5)", live=True)
    stopped = panel.run("%agent stop")
    panel.run("began = time.time()\nwhile panel.run.task: await asyncio.sleep(0.01)\nseconds = time.time() - began")

    assert "stopped" in stopped.text
    assert float(panel.value("seconds")) < 1
    assert panel.value("str(run.stop)") == "'cancelled'"
    assert "no panel runs anything" in panel.run("%agent stop").text


def test_plots_follow_a_run_while_their_fold_is_open(panel):
    """Closed, nothing is drawn; open, a picture shows what there is, also in the middle of a run, with its words."""
    panel.run("plots = panel._widgets.plots\nawait press('run')", live=True)
    closed = panel.value("plots.picture.value")
    seen = "while not (text := plots.picture.value).count({!r}): await asyncio.sleep(0.05)\nprint(text)"
    opened = panel.run("panel._widgets.open_fold('Plots')\n" + seen.format("run: 2 steps"), live=True).text
    running = "put(goal='Wait now.'); panel._widgets.press('run')\n" + seen.format("run_2: 1 step")
    followed = panel.run(running, live=True).text
    panel.run("%agent stop")
    chosen = "for plots.kind.index, begins in ((1, 'Seconds'), (0, 'Tokens')):\n    "
    waits = "while f'alt=\"{begins}' not in plots.picture.value: await asyncio.sleep(0.05)\n    print(plots.kind.label)"
    kinds = panel.run(chosen + waits, live=True).text.split()

    assert "<img" not in closed
    assert kinds == ["Time", "Tokens", "and", "steps"]
    assert '<img alt="Tokens per step. run: 2 steps, 1 tool call' in opened
    assert "data:image/png;base64," in opened
    assert "not finished" in followed


def test_a_tool_that_changes_is_seen(panel):
    """After a cell has run, the check boxes show the newest versions, and the next run uses them."""
    panel.run('%%tool\ndef get_weather(city: str) -> float:\n    """Temperature of a city now."""\n    return 5.0\n')
    labels = panel.value("[box.description for box in panel._widgets.tools_box.children]")
    panel.run("await press('run')", live=True)

    assert "newer than the agent's get_weather (version " in labels
    assert panel.value("run.answer") == "'It was 5.0.'"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%agent fork", "%agent fork NAME"),
        ("%agent fork nothing", "nothing is named 'nothing'"),
        ("%agent fork run --at 9", "no step 9"),
        ("%agent fork run --state 9", "has 4 States"),
        ("%agent fork run --at two", "'two' is not a number"),
        ("%agent fork run --at", "lacks its value"),
        ("%agent fork run --bogus 1", "is not known"),
        ("%agent fork run -o 1x", "can't be a variable"),
        ("%agent panel 1x", "holds no Agent"),
        ("%agent panel agent --bogus", "--bogus"),
    ],
)
def test_bad_lines_are_short_errors(panel, line, words):
    """Four lines at most."""
    panel.run("await press('run');", live=True)
    shown = panel.run(line)

    assert words in shown.text
    assert len("\n".join(shown.errors[0]["traceback"]).split("\n")) <= 4


def test_unloading_takes_the_panel_away(kernel):
    """The view is emptied, no hook is left; loading again works."""
    shown = kernel.run("panel = Panel(agent)\npanel.show()\n%unload_ext agentnb", live=True)

    assert any(each["type"] == "update_display_data" and not each["data"] for each in shown.outputs)
    names = "[each.__name__ for each in get_ipython().events.callbacks['post_run_cell']]"
    assert "_after_cell" not in kernel.value(names)
    assert kernel.run("%load_ext agentnb").status == "ok"
