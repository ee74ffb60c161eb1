"""Prompts as cells: variables, versions, and what a prompt makes of a `%%agent` cell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from kernel import Kernel, started

from agentnb.errors import UsageError
from agentnb.notebook.agent_cell import spread
from agentnb.notebook.changed import changed_lines
from agentnb.notebook.prompt_cells import Prompt, check_used, describe, filled, set_values

SET_UP = """
%load_ext agentnb
from agentnb import ScriptedModel, calls, tool
def echo(request):
    said = [m["content"].removesuffix("Answer in the language of the user.").strip() for m in request.messages]
    return " / ".join(filter(None, said))
def shout(request):
    return echo(request).upper()
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One kernel for this module."""
    yield from started(SET_UP)


def test_only_named_variables_are_replaced():
    """Braces, dollars and percent signs around them are text, and what is put in is not read again."""
    text = "{{city}} {city} {{ city }} {{}} {{a.b}} {{{city}}} $city 100% {{city}}"

    assert Prompt("p", text).variables == ("city",)
    assert Prompt("p", text).fill({"city": "{{day}}\\1"}) == text.replace("{{city}}", "{{day}}\\1")


@settings(max_examples=40, deadline=None)
@given(some.text(), some.text(), some.text())
def test_a_value_is_put_in_as_it_is(before, value, after):
    """Whatever stands around the place and whatever the value is."""
    around = [text.replace("{", "(").replace("}", ")") for text in (before, after)]

    assert Prompt("p", f"{around[0]}{{{{x}}}}{around[1]}").fill({"x": value}) == around[0] + value + around[1]


def test_a_variable_without_a_value_is_an_error():
    """It names the variable and both ways to set it."""
    with pytest.raises(UsageError, match=r"'p' needs city.*--set city="):
        filled(Prompt("p", "{{city}}"), "", {}, {})


def test_values_come_from_the_line_before_the_notebook():
    """Text and numbers of the notebook count; other things are refused."""
    prompt = Prompt("p", "{{city}} {{days}}")

    assert filled(prompt, "", {"city": "Oslo"}, {"city": "Rome", "days": 3}) == (None, "Oslo 3")
    with pytest.raises(UsageError, match="'days' holds list"):
        filled(prompt, "", {"city": "Oslo"}, {"days": [3]})


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("Be brief.", "How warm?", ("Be brief.", "How warm?")),
        ("How warm?", "", (None, "How warm?")),
        ("How warm?", " \n", (None, "How warm?")),
        ("In one word: {{goal}}", "{{city}} {x}", (None, "In one word: {{city}} {x}")),
    ],
)
def test_what_a_prompt_makes_of_a_cell(text, body, expected):
    """With {{goal}} it is the goal around the body; else a system prompt, or the goal of an empty cell."""
    assert filled(Prompt("p", text), body, {}, {}) == expected


def test_a_goal_is_asked_for_where_the_prompt_has_its_place():
    """A prompt with {{goal}} needs a body."""
    with pytest.raises(UsageError, match="needs goal"):
        filled(Prompt("p", "In one word: {{goal}}"), "", {}, {"goal": "not this"})


def test_set_values_are_read():
    """Everything after the first "=" is the value."""
    assert set_values(["city=New York", "rule=a=b", "empty="]) == {"city": "New York", "rule": "a=b", "empty": ""}


@pytest.mark.parametrize("words", [["city"], ["=x"], ["a b=c"], ["a=1", "a=2"], ["goal=x"]])
def test_bad_set_values_are_errors(words):
    """No "=", no name, a name twice, the name that is taken."""
    with pytest.raises(UsageError, match="--set"):
        set_values(words)


def test_an_unknown_name_is_an_error():
    """A misspelt --set must not be lost in silence; with several prompts one that knows it is enough."""
    prompts = [Prompt("p", "{{city}}"), Prompt("q", "{{day}}")]

    check_used({"city": "x", "day": "y"}, prompts)
    with pytest.raises(UsageError, match=r"--set ctiy: .*variables: city, day"):
        check_used({"ctiy": "x"}, prompts)


def test_commas_make_every_combination():
    """The label holds the words that differ."""
    options = argparse.Namespace(model="a,b", prompt="p", planner="tools, json", out="runs")

    assert [label for label, _ in spread(options)] == ["a · tools", "a · json", "b · tools", "b · json"]
    assert [each.prompt for _, each in spread(options)] == ["p"] * 4
    assert spread(argparse.Namespace(model="a", prompt=None, planner=None))[0][0] == ""
    with pytest.raises(UsageError, match="twice"):
        spread(argparse.Namespace(model="a,a", prompt=None, planner=None))


def test_a_changed_prompt_shows_what_changed():
    """Lines that went and came; nothing where nothing changed."""
    before, now = Prompt("p", "a\nb\nc", "p@1·11"), Prompt("p", "a\nB\nc", "p@2·22")

    assert changed_lines(before.text, now.text) == [" a", "-b", "+B", " c"]
    assert "22 (changed)" in describe(now, before).text
    assert "(unchanged)" in describe(now, now).text
    assert "(new)" in describe(now, None).text
    assert "<b>x" not in describe(Prompt("p", "<b>x</b>"), None).html


@pytest.mark.slow
def test_a_prompt_cell_and_an_agent_cell(kernel):
    """The prompt is kept with its version; its variables come from the notebook or the line."""
    shown = kernel.run("%%prompt ask\nHow warm is it in {{city}} (100%, {x})?\n")
    assert shown.text.startswith("prompt ask · ")
    assert "(new) · variables: city" in shown.text
    kernel.run("city = 'Oslo'")
    kernel.run("%%agent -m echo --prompt ask -o run")
    assert kernel.value("run.answer") == "'How warm is it in Oslo (100%, {x})?'"
    kernel.run('%%agent -m echo --prompt ask --set city="New York" -o run\nBe brief.')
    assert kernel.value("run.goal, run.answer") == (
        "('Be brief.', 'How warm is it in New York (100%, {x})? / Be brief.')"
    )
    kernel.run("%%prompt ask\nHow cold is it in {{city}}?\n")
    assert kernel.value("ask.version.split('·')[0], ask.text") == "('ask@2', 'How cold is it in {{city}}?')"


@pytest.mark.slow
def test_several_prompts_and_models_side_by_side(kernel):
    """One table with answers, tokens and where they part; the runs are in a dict; the same bytes headless and live."""
    kernel.run("%%prompt brief\nBe brief: {{goal}}")
    kernel.run("%%prompt long\nBe long: {{goal}}")
    cells = [kernel.run("%%agent -m echo,shout --prompt brief,long -o runs\nWhy?", live=live) for live in (False, True)]

    assert cells[0].displays == cells[1].displays
    [bundle] = cells[0].displays
    assert list(bundle) == ["text/html", "text/plain"]
    assert kernel.value("{name: run.answer for name, run in runs.items()}") == (
        "{'echo · brief': 'Be brief: Why?', 'echo · long': 'Be long: Why?', "
        "'shout · brief': 'BE BRIEF: WHY?', 'shout · long': 'BE LONG: WHY?'}"
    )
    assert "part at step 1" in bundle["text/plain"]
    assert bundle["text/html"].count("<details") >= 8
    assert kernel.value("(__import__('agentnb').State, len({type(r) for r in runs.values()}))[1]") == "1"


@pytest.mark.slow
def test_one_that_fails_leaves_the_others_and_is_told(kernel):
    """A model without its key is named in the table and in the error; the other run is there."""
    shown = kernel.run("%%agent -m echo,openai:gpt-5-mini -o runs\nhello")

    assert shown.status == "error"
    assert "1 of 2 could not run; openai:gpt-5-mini: SettingsError" in shown.errors[0]["evalue"]
    assert "OPENAI_API_KEY" in shown.displays[0]["text/plain"]
    assert kernel.value("runs['echo'].answer") == "'hello'"


@pytest.mark.slow
def test_an_interrupt_keeps_every_run(kernel):
    """The cell ends at once; what was finished is there, the rest says so."""
    kernel.run("import time\ndef sleepy(request):\n    time.sleep(30)")
    shown = kernel.run("%%agent -m echo,sleepy -o runs\nhello", live=True, interrupt_after=1.0)

    assert shown.errors[0]["ename"] == "AgentInterrupted"
    assert shown.ended < 2.0
    assert kernel.value("{name: str(run.stop) for name, run in runs.items()}") == (
        "{'echo': 'answer', 'sleepy': 'cancelled'}"
    )
    assert "cancelled by the user" in shown.displays[0]["text/plain"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%prompt\nhello", "takes one name"),
        ("%%prompt a b\nhello", "takes one name"),
        ("%%prompt ask", "is empty"),
        ("%%prompt echo\nhello", "'echo' holds function"),
        ("%%prompt 1x\nhello", "can't be a variable"),
        ("%%agent -m echo --prompt nobody\nhello", "nothing is named 'nobody'"),
        ("%%agent -m echo --set city=x\nhello", "--set needs a prompt"),
        ("%%agent -m echo --prompt brief --set ctiy=x\nhello", "--set ctiy"),
        ("%%agent -m echo --prompt ask --system-prompt x --set city=y\nhello", "second system prompt"),
        ("%agent resume runs --prompt ask", "takes no prompt"),
    ],
)
def test_bad_prompts_are_short_errors(kernel, cell, words):
    """Four lines at most that say what to do."""
    kernel.run("%%prompt brief\nBe brief: {{goal}}")
    kernel.run("%%prompt ask\nHow cold is it in {{city}}?\n")
    shown = kernel.run(cell)

    assert shown.status == "error"
    assert words in shown.text
    assert len("\n".join(shown.errors[0]["traceback"]).split("\n")) <= 4
