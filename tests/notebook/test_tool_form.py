"""Tools as cells: what changed, trying one, runs made with older ones, tracebacks at the right line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

import pytest
from kernel import VIEW, Kernel, started

from agentnb import Agent, ScriptedModel, calls, tool
from agentnb.core.messages import ToolCall
from agentnb.errors import UsageError
from agentnb.notebook import tool_history
from agentnb.notebook.changed import tool_changes
from agentnb.notebook.tool_cells import describe
from agentnb.notebook.tool_form import arguments_of, fields_of, form_block, result_block, try_tool
from agentnb.text import plain

SET_UP = """
%load_ext agentnb
import time
from agentnb import Agent, ScriptedModel, calls, tool
def asks(request):
    last = request.messages[-1]
    return f"It is {last['content']}." if last["role"] == "tool" else calls("price", item="tea")
"""
PRICE = '%%tool\ndef price(item: str) -> float:\n    """Price of an item in the shop."""\n    return {}\n'


@tool
def book(
    city: str, nights: int, rate: Literal["low", "high"] = "low", late: bool = False, names: list[str] | None = None
) -> str:
    """Book a room.

    Args:
        city: English name.
        nights: How many.
    """
    if nights < 1:
        raise ValueError("<b>no nights</b>")
    return f"{city} {nights} {rate} {late} {names}"


@pytest.fixture
def history() -> Iterator[None]:
    """An empty history of tools, before and after."""
    tool_history.forget()
    yield
    tool_history.forget()


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One kernel for this module."""
    yield from started(SET_UP)


# ── trying ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_form_has_a_field_for_each_argument():
    """By the schema: text, number, choice, yes or no, JSON; with defaults and descriptions."""
    fields = {field.name: field for field in fields_of(book)}

    assert [field.kind for field in fields.values()] == ["text", "number", "choice", "yes or no", "JSON"]
    assert [name for name, field in fields.items() if field.required] == ["city", "nights"]
    assert (fields["rate"].choices, fields["rate"].default, fields["late"].default) == (("low", "high"), "low", "false")
    assert fields["city"].description == "English name."


@pytest.mark.parametrize(
    ("texts", "given"),
    [
        ({"city": "12", "nights": "2"}, {"city": "12", "nights": 2}),
        ({"city": "", "nights": "", "rate": "", "late": ""}, {"city": ""}),
        ({"city": "a", "nights": "two"}, {"city": "a", "nights": "two"}),
        ({"city": "a", "names": '["b", "c"]', "late": "true"}, {"city": "a", "names": ["b", "c"], "late": True}),
        ({"town": "a"}, {"town": "a"}),
    ],
)
def test_texts_become_what_a_model_would_write(texts, given):
    """Text stays text, the rest is JSON where it is JSON; the tool itself reads or refuses it."""
    assert json.loads(arguments_of(book, texts)) == given


def test_a_try_shows_cast_arguments_and_result():
    """The values that the function got, with defaults; an error with its traceback; nothing is live HTML."""
    result = try_tool(book, {"city": "Oslo", "nights": "2"})
    assert (result.content, result.arguments["nights"]) == ("Oslo 2 low False None", 2)
    shown = result_block(ToolCall("try", "book", "{}"), result)
    assert "as cast   book(city='Oslo', nights=2, rate='low', late=False, names=None)" in shown.text

    failed = result_block(ToolCall("try", "book", "{}"), try_tool(book, '{"city": "Oslo", "nights": 0}'))
    assert "ValueError: <b>no nights</b>" in failed.text
    assert "<b>no" not in failed.html
    assert "traceback" in failed.html

    refused = result_block(ToolCall("try", "book", "{}"), try_tool(book, {"nights": "two"}))
    assert "not called" in refused.text


def test_the_plain_form_says_how_to_call():
    """Without widgets: each argument and the line."""
    text = form_block(book).text

    assert "  city: text. English name." in text
    assert "  rate: one of low, high, default low" in text
    assert text.endswith("%agent try book city=... nights=...")


# ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def price(item: str) -> float:
    """Price of an item."""
    return 7.0


def renamed(thing: str, currency: str = "EUR") -> float:
    """Price of a thing in the shop."""
    return 7.0


def test_what_changed_is_told():
    """Description, parameters, flags, or only the code."""
    before, now = tool(price), tool(renamed, name="price", approve=True)

    assert tool_changes(before, now) == [
        "description changed",
        "parameter item removed",
        "parameter thing added",
        "parameter currency added",
        "approve is True",
    ]
    assert tool_changes(before, tool(price)) == []
    shown = describe(now, before)
    assert "-    return" not in shown.text
    assert "+def renamed(thing: str" in shown.text
    assert "parameter currency added" in shown.html


def other_price(item: str) -> float:
    """Price of an item."""
    return 8.0


def test_a_run_made_with_older_tools_says_so(history):
    """The notebook's newest definition takes the place of the one it defined before; the old one can run again."""
    old, new = tool(price), tool(other_price, name="price")
    agent = Agent(model=ScriptedModel([calls("price", item="tea"), "7"]), tools=[old])
    tool_history.see({"price": old})
    run = agent.run("How much?")
    assert tool_history.older(run, agent.tools) == ""
    newest = tool_history.with_newest_tools(agent, {"price": new})

    assert newest.tools == (new,)
    told = tool_history.older(run, newest.tools)
    assert told.startswith("made with price (version ")
    assert ", now price (version " in told
    assert tool_history.with_tools_of(newest, run).tools == (old,)
    assert tool_history.with_newest_tools(agent, {"price": old}) is agent


def test_a_tool_made_for_an_agent_is_left_alone(history):
    """A copy with other options never stood in a variable, so no definition takes its place."""
    old, new = tool(price), tool(other_price, name="price")
    tool_history.see({"price": old})
    agent = Agent(model=ScriptedModel([]), tools=[old.replace(approve=True)])

    assert tool_history.with_newest_tools(agent, {"price": new}) is agent


def test_an_old_source_that_is_gone_is_named(history):
    """After a restart of the kernel there is nothing to run again."""
    old, new = tool(price), tool(other_price, name="price")
    run = Agent(model=ScriptedModel([calls("price", item="tea"), "7"]), tools=[old]).run("How much?")

    with pytest.raises(UsageError, match=r"price .* is not at hand"):
        tool_history.with_tools_of(Agent(model=ScriptedModel([]), tools=[new]), run)


# ── in a kernel ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_changed_tool_runs_from_then_on_and_the_old_one_on_request(kernel):
    """Resume and rerun take the newest definition and say so; `--old-tools` takes the one that ran."""
    kernel.run(PRICE.format("7"))
    kernel.run("%%agent -m asks -o run\nHow much?")
    shown = kernel.run(PRICE.format("8"))
    assert "(code changed)" in shown.text
    assert "-    return 7" in shown.text
    assert "made with price (version " in kernel.run("%agent status").text

    new, old = kernel.run("%agent rerun run -o again"), kernel.run("%agent rerun run --old-tools -o then")
    assert new.text.startswith("run: made with price (version ")
    assert "made with" not in old.text
    assert kernel.value("run.answer, again.answer, then.answer") == "('It is 7.', 'It is 8.', 'It is 7.')"
    assert kernel.value("[t.split('·')[0] for t in again.steps[0].tool_versions.values()]") == "['price@2']"

    kernel.run("agent = Agent(model=asks, tools=[price])")
    kernel.run(PRICE.format("9"))
    kernel.run("%%agent --agent agent -o third\nHow much?")
    assert "9" in kernel.value("third.answer")


@pytest.mark.slow
def test_trying_on_the_line_and_in_a_form(kernel):
    """The line works without a person; the form calls the tool and leaves ordinary output."""
    kernel.run(PRICE.format("len(item)"))
    line = kernel.run("%agent try price item=tea")
    assert "as cast   price(item='tea')" in line.text
    assert "result    3" in line.text
    plain = kernel.run("%agent try price")
    assert plain.text.endswith("%agent try price item=...")

    live = kernel.run("%agent try price", live=True)
    assert any(VIEW in each.get("data", {}) for each in live.outputs)
    kernel.run("from agentnb.notebook.widget_cell import owners\nform = owners()[-1]")
    pressed = kernel.run("form.inputs['item'].value = 'water'\nawait form.press()\nNone", live=True)
    assert "price(item='water')" in pressed.displays[0]["text/plain"]
    assert set(pressed.displays[0]) == {"text/html", "text/plain"}
    closed = kernel.run("form.close()")
    assert any(each["type"] == "update_display_data" and not each["data"] for each in closed.outputs)


@pytest.mark.slow
def test_a_traceback_points_at_the_line_of_the_cell(kernel):
    """Also when the tool is called from another cell, and after the cell was run again."""
    for value in ("1 // 0", "{}['no']"):
        kernel.run(PRICE.format(value))
        shown = plain("\n".join(kernel.run("price('tea')").errors[0]["traceback"]))
        assert f"----> 4     return {value}" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%agent try", "%agent try takes a tool's name"),
        ("%agent try nothing", "no tool is named 'nothing'. The tools of this notebook: price"),
        ("%agent try price tea", "'tea' is no argument"),
        ("%agent rerun nothing", "'nothing'"),
        ("%%agent -m asks --old-tools\nhello", "--old-tools needs a run"),
    ],
)
def test_bad_lines_are_short_errors(kernel, line, words):
    """Four lines at most."""
    kernel.run(PRICE.format("7"))
    shown = kernel.run(line)

    assert words in shown.text
    assert len("\n".join(shown.errors[0]["traceback"]).split("\n")) <= 4
