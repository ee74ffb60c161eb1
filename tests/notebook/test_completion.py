"""Completion of magic lines: what is offered where, from the notebook's variables alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from agentnb import Agent, ScriptedModel, State, tool
from agentnb.notebook.completion import complete, options_of
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.prompt_cells import Prompt


@tool
def get_weather(city: str) -> float:
    """Current temperature."""
    return 31.0


SPACE: dict[str, Any] = {
    "get_weather": get_weather,
    "model": ScriptedModel(["hello"]),
    "cheap": "openai:gpt-5-mini",
    "city": "Oslo",
    "ask": Prompt("ask", "{{city}} {{days}} {{goal}}"),
    "brief": Prompt("brief", "Be brief."),
    "agent": Agent(model=ScriptedModel(["hello"])),
    "run": State.start("hello"),
    "_hidden": State.start("hello"),
    "ScriptedModel": ScriptedModel,
}
OPTIONS = {"agent": options_of(AgentMagics.agent), "compare": options_of(AgentMagics.compare)}


def offered(before: str) -> list[str]:
    """What may stand at the end of this text."""
    found = complete(before, SPACE, OPTIONS)
    return found[1] if found else []


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("%agent pl", ["plot"]),
        ("  %agent pl", ["plot"]),
        ("x = 1\n%agent pl", ["plot"]),
        ("%agent plot ", ["run"]),
        ("%agent tool get", ["get_weather"]),
        ("%agent show ", ["run"]),
        ("%agent help fo", ["fork"]),
        ("%agent try ", ["get_weather"]),
        ("%agent try get_weather ", ["city="]),
        ("%agent try get_weather city=Oslo ", []),
        ("%agent panel ", ["agent", "run"]),
        ("%agent resume ", ["run"]),
        ("%agent resume run --st", ["--steps"]),
        ("%agent resume run -m m", ["model", "mistral:"]),
        ("%agent fork run --", ["--at", "--state", "--out"]),
        ("%agent recording file.jsonl re", ["replay", "record"]),
        ("%%agent --tool", ["--tools", "--tool-calls"]),
        ("%%agent -t ", ["get_weather", "none"]),
        ("%%agent --agent ", ["agent"]),
        ("%%agent --from ", ["run"]),
        ("%%agent --planner j", ["json"]),
        ("%%agent --prompt ", ["ask", "brief"]),
        ("%%agent --prompt ask,", ["brief"]),
        ("%%agent --prompt ask --set ", ["city=", "days="]),
        ("%%agent --show ", ["steps", "answer", "none"]),
        ("%%agent -m c", ["cheap"]),
        ("%%agent -m cheap,mo", ["model"]),
        ("%%agent -m model --mo", []),
        ("%%compare --mod", ["--models"]),
        ("%%agent -m model\nimp", []),
        ("x\n%%agent --to", []),
        ("import o", []),
    ],
)
def test_what_is_offered(before, expected):
    """Commands, options that are not there yet, and values that fit."""
    assert offered(before) == expected


def test_only_the_last_of_several_words_is_replaced():
    """After a comma the words before it stay."""
    assert complete("%%agent -m cheap,mo", SPACE, OPTIONS) == ("mo", ["model"])


def test_hidden_names_and_classes_are_not_offered():
    """A variable that begins with a line is the notebook's own."""
    assert "_hidden" not in offered("%agent plot ")
    assert "ScriptedModel" not in offered("%%agent -m ")


@settings(max_examples=50, deadline=None)
@given(some.text(max_size=40), some.sampled_from(["%agent ", "%%agent ", "%%compare ", "%%prompt ", ""]))
def test_any_text_can_be_completed(text, head):
    """Half-typed lines with open quotes and strange letters never fail; what is offered fits what is there."""
    found = complete(head + text, SPACE, OPTIONS)

    assert found is None or all(word.startswith(found[0]) for word in found[1])
