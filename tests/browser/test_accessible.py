"""What is shown can be read and used by everyone: axe-core finds nothing serious, and the keyboard reaches every control."""

from __future__ import annotations

import json
import subprocess

import pytest
from axe import fetch_axe, serious
from cell_sources import GET_WEATHER, SEND
from conftest import opener
from lab_server import OpenNotebook

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(180)]

SET_UP = (
    """
%load_ext agentnb
from agentnb import Agent, calls, diff, loop_view, plot, tool
"""
    + GET_WEATHER
    + SEND
    + """
def says(request):
    last = request.messages[-1]
    if last["role"] == "tool":
        text = "It was **{}**, see [the page](https://example.org).\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |".format(last["content"])
        return {"content": text, "reasoning_content": "Now I know.", "usage": {"prompt_tokens": 120, "completion_tokens": 14}}
    if "message" in last["content"]:
        return calls("send", to="ann", text="hello")
    return calls("get_weather", city="Atlantis" if "Atlantis" in last["content"] else "Beijing")

other = says
agent = Agent(says, [get_weather, send])
"""
).strip()
CELLS = [
    SET_UP,
    "%%agent --agent agent -o run\nHow warm is Beijing?",
    "%%agent --agent agent -o failed\nHow warm is Atlantis?",
    "%%agent --agent agent -o waiting\nSend a message.",
    "%agent panel waiting",
    "%agent try send",
    "%%agent -m says,other -t get_weather -o both\nHow warm is Beijing?",
    "diff(run, failed)",
    "loop_view(run)",
    "plot(run)",
    "%%prompt ask\nHow warm is {{city}}?",
    '%%tool\ndef add(a: int, b: int) -> int:\n    """Add two numbers."""\n    return a + b\n',
    "%%agent --planner you -t get_weather\nHow warm is Oslo?",
]
PERSON = len(CELLS) - 1
PANEL = 4
RECORDS = (1, 2, 3, 6, 7, 8, 9, 10, 11)
"""The cells that leave ordinary output and nothing else."""
OPEN_ALL = "each => each.querySelectorAll('details').forEach(it => { it.open = true; })"
KNOWN = (
    'aria-input-field-name: <div class="noUi-handle',  # ipywidgets gives its slider no name; a field beside it has one
    'image-alt: <img src="data:image/png',  # JupyterLab drops the text that we give with a plot
)
CONTROLS = "button:not(:disabled), input, textarea, select, summary, [tabindex='0']"
FOLDS = ("Tokens and steps", "Cells behind the buttons", "Plots")
FOCUSED = """live => {
    const each = document.activeElement;
    return each.matches(live) ? each.textContent.trim() || each.labels?.[0]?.textContent || each.className : '';
}"""


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The source of axe-core."""
    try:
        return fetch_axe(tmp_path_factory.mktemp("axe"))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"axe-core can't be fetched with npm: {error}")


@pytest.fixture(scope="module")
def shown(lab):
    """A notebook with everything that we show, in JupyterLab; its last cell waits for a person."""
    yield from everything(lab, "accessible.ipynb")


@pytest.fixture(scope="module")
def shown_in_seven(notebook7):
    """The same in Notebook 7."""
    yield from everything(notebook7, "accessible-seven.ipynb")


def everything(page, name):
    """A notebook of all the cells, run in this page."""
    for open_notebook in opener(page):
        notebook = open_notebook(name, CELLS)
        notebook.start_all()
        notebook.page.get_by_text("You are the model. What do you do?").wait_for()
        yield notebook


def findings(notebook, axe, rules=()):
    """What axe-core finds serious in the output of any cell, every fold open."""
    notebook.page.evaluate(axe)
    found = []
    for number in range(1, len(CELLS)):
        notebook.show(number)
        outputs = notebook.cell(number).locator(".jp-Cell-outputArea")
        outputs.evaluate(OPEN_ALL)
        found += [f"cell {number}: {each}" for each in serious(outputs, rules) if not each.startswith(KNOWN)]
    return found


def test_nothing_serious_in_light_and_dark(shown, axe, artifacts):
    """Labels, roles, contrast of every output and form; contrast once more in JupyterLab's dark theme."""
    assert findings(shown, axe) == []
    shown.lab.use_theme("JupyterLab Dark")
    shown.lab.picture(artifacts / "accessible-dark.png")
    dark = findings(shown, axe, rules=["color-contrast"])
    shown.lab.use_theme("JupyterLab Light")

    assert dark == []


def test_the_keyboard_reaches_every_control(shown):
    """Tab goes through the panel in order; Space folds a step; Enter in the field and Space on a button do what a click does."""
    cell = shown.cell(PANEL)
    shown.show(PANEL)
    visible = [each for each in cell.locator(".jp-OutputArea-output").locator(CONTROLS).all() if each.is_visible()]
    cell.get_by_label("Goal", exact=True).focus()
    reached = []
    while len(reached) < len(visible) + 5 and (name := shown.page.evaluate(FOCUSED, CONTROLS)):
        reached.append(name)
        shown.page.keyboard.press("Tab")
    fold = cell.locator("details").first
    before = fold.evaluate("each => each.open")
    fold.locator("summary").first.focus()
    shown.page.keyboard.press("Space")
    after = fold.evaluate("each => each.open")
    cell.get_by_role("button", name="Fork from here").focus()
    shown.page.keyboard.press("Space")
    cell.get_by_text("run_2 · State 3 of 3").wait_for()

    assert len(reached) >= len(visible) - 1
    assert [title for title in FOLDS if title not in reached] == []
    assert after is not before


def test_the_keyboard_opens_a_fold_of_the_panel(shown, artifacts):
    """Tab leads to a fold's button, Space opens it, Tab leads on into it, and Enter presses what is there."""
    cell, keys = shown.cell(PANEL), shown.page.keyboard
    shown.show(PANEL)
    fold, write = (cell.get_by_role("button", name=name) for name in (FOLDS[1], "Write as a cell"))
    closed = write.is_visible()
    cell.get_by_role("button", name=FOLDS[0]).focus()
    keys.press("Tab")
    reached = shown.page.evaluate("() => document.activeElement.textContent.trim()")
    keys.press("Space")
    write.wait_for()
    keys.press("Tab")
    keys.press("Tab")
    keys.press("Enter")
    cell.get_by_text("It appears below the next cell that you run").wait_for()
    shown.lab.picture(artifacts / "panel-folds.png")
    fold.focus()
    keys.press("Enter")
    write.wait_for(state="hidden")

    assert closed is False
    assert reached == FOLDS[1]


def test_an_untrusted_notebook_without_a_kernel_reads_the_same(shown, artifacts):
    """Another person's file, opened to be read: every word of the record is there, light and dark, and no widget is missed."""
    saved = shown.save()
    before = [shown.cell(number).locator(".jp-Cell-outputArea").text_content() for number in RECORDS]
    saved["cells"] = [saved["cells"][number] for number in RECORDS]
    saved["metadata"]["from"] = "somebody else"  # so the server has not signed it
    (shown.path.parent / "untrusted.ipynb").write_text(json.dumps(saved), "utf-8")
    reader = OpenNotebook.unserved(shown.lab, "untrusted.ipynb")
    trusted = reader.page.evaluate(
        "() => [...jupyterapp.shell.currentWidget.content.widgets].map(each => each.model.trusted)"
    )
    after = [reader.cell(number).locator(".jp-Cell-outputArea").text_content() for number in range(len(RECORDS))]
    reader.cell(0).locator("summary").first.click()
    shown.lab.picture(artifacts / "untrusted-light.png")
    shown.lab.use_theme("JupyterLab Dark")
    shown.lab.picture(artifacts / "untrusted-dark.png")
    shown.lab.use_theme("JupyterLab Light")
    kernel = reader.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session")
    reader.page.evaluate("() => jupyterapp.shell.currentWidget.dispose()")

    assert kernel is None
    assert not any(trusted)
    assert after == before
    assert "It was 31.0" in after[0]


def test_nothing_serious_in_notebook_7(shown_in_seven, axe):
    """The same in Notebook 7."""
    assert findings(shown_in_seven, axe) == []
