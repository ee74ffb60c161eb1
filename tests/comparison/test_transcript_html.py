"""The grid of a comparison as folds: both transcripts and their diff one click away, bounded, nothing as markup."""

from __future__ import annotations

import re

import pytest

from agentnb import Agent, Limits, ScriptedModel, calls, compare, tool
from agentnb.comparison.transcript_html import furthest_apart, transcript_html

TASKS = [{"id": f"t{number}", "goal": f"What is {number} + 1?", "expected": number + 1} for number in range(1, 31)]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adds(wrong=()):
    """A model that calls the tool; the replies whose numbers are in `wrong` are one too many."""
    asked = []

    def model(request):
        if request.messages[-1]["role"] == "tool":
            return f"It is {request.messages[-1]['content']}."
        asked.append(1)
        number = int(request.messages[-1]["content"].split()[2])
        return calls("add", a=number, b=2 if len(asked) in wrong else 1)

    return model


@pytest.fixture(scope="module")
def shown():
    """Two tasks, two repeats; `odd` is wrong in the second repeat of one task. The result and its HTML."""
    odd = adds(wrong=(3,))
    return compare({"good": adds(), "odd": odd}, TASKS[:2], repeats=2, tools=[add], concurrency=1, first=None)


def test_a_disagreement_opens_to_both_transcripts_and_their_diff(shown):
    """They are of the repeat in which the two differ, not simply of the first."""
    (apart,) = [line for line in shown.grid if line["apart"]]
    fold = shown.html.split("<details>")[1]

    assert furthest_apart(apart, shown.variants) == (("good", "odd"), 2)
    assert "good, repeat 2" in fold
    assert "odd, repeat 2" in fold
    assert "add({&quot;a&quot;" in fold
    assert shown.html.count("where they part") == 1
    assert "good and odd part at step 1" in shown.html


def test_an_agreement_opens_to_the_task_alone(shown):
    """No transcript is written for it; the line of code shows one."""
    last = shown.html.rsplit("<details>", 1)[1]

    assert "Expected: " in last
    assert "result.diff(" in last
    assert "repeat 2" not in last


def test_no_widget_and_no_script_is_needed(shown):
    """Details, tables and text: what a saved notebook shows without a kernel."""
    assert set(re.findall(r"<([a-z]+)", shown.html)) <= set(
        ["a", "b", "code", "details", "div", "p", "span", "summary", "table", "tbody", "td", "th", "thead", "tr"]
    )


@pytest.mark.slow
def test_the_page_is_bounded():
    """Long answers and many disagreements end in less than 150 kB, and the first ones are there."""
    long = "<b>" + "x" * 20_000
    result = compare({"a": adds(), "b": lambda request: long}, TASKS, tools=[add], first=None)

    assert len(result.html) < 150_000
    assert "10 more tasks" in result.html
    assert "characters left out" in result.html
    assert "<b>x" not in result.html


def test_a_run_without_an_answer_says_why():
    """What stopped it stands at its end; messages beyond the bound are counted."""
    agent = Agent(ScriptedModel([calls("add", a=number, b=1) for number in range(20)]), tools=[add])
    told = transcript_html(agent.replace(limits=Limits(steps=9)).run("Go"))

    assert "max_steps: " in told
    assert "… 6 more messages" in told
