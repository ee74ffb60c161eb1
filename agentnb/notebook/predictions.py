"""What a learner expects a model to do next, read from words or a form, and how well it came true."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentnb.core.messages import ToolCall
from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.errors import UsageError
from agentnb.notebook.tool_form import arguments_of
from agentnb.notebook.words import brief, parsed, spelled

FINISH = "finish"
USAGE = '--predictions "add, add(a=1, b=2), finish"'
_APART = re.compile(r",(?![^(]*\))")
_CALL = re.compile(r"([\w-]+)\s*(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A tool, perhaps with its arguments; or that the run finishes."""

    tool: str | None
    """None: the model answers."""
    arguments: Mapping[str, Any] | None = None
    """None: not predicted."""

    def __str__(self) -> str:
        if self.tool is None:
            return FINISH
        return self.tool if self.arguments is None else f"{self.tool}({spelled(self.arguments, 60)})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a prediction came true."""

    action: bool
    """Right about the tool, or that the run finishes."""
    arguments: bool | None = None
    """None: not predicted, or for another tool."""

    def __str__(self) -> str:
        if not self.action:
            return "not this time"
        told = {None: "right", True: "right, with its arguments", False: "right, but for the arguments"}
        return told[self.arguments]


def read_predictions(words: str, tools: Sequence[Tool]) -> list[Prediction]:
    """The predictions of `--predictions`, one for each step.

    Args:
        words: "finish", a tool's name, or a call of it such as "add(a=1, b=2)"; with commas between.
        tools: What may be named.

    Raises:
        UsageError: One of them is no tool of this agent.
    """
    by_name = {tool.spec.name: tool for tool in tools}
    return [_read(word.strip(), by_name) for word in _APART.split(words) if word.strip()]


def _read(word: str, tools: Mapping[str, Tool]) -> Prediction:
    if word == FINISH:
        return Prediction(None)
    found = _CALL.fullmatch(word)
    if found is None or found[1] not in tools:
        remedy = f"{USAGE}; the tools: {', '.join(tools) or 'none'}"
        raise UsageError(f"--predictions: {word!r} is neither finish nor a tool of this agent", remedy=remedy)
    if found[2] is None:
        return Prediction(found[1])
    pairs = [pair.partition("=") for pair in found[2].split(",") if pair.strip()]
    texts = {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}
    return Prediction(found[1], json.loads(arguments_of(tools[found[1]], texts)))


def from_decision(decision: Any) -> Prediction | None:
    """What was handed in with a form; None when it was left."""
    if decision is None or isinstance(decision, str):
        return None if decision is None else Prediction(None)
    function = decision["tool_calls"][0]["function"]
    return Prediction(function["name"], json.loads(function["arguments"]))


def judge(prediction: Prediction, state: State) -> Verdict | None:
    """How it came true in the State in which the planner decided; None where it decided nothing."""
    if state.answer is None and not state.calls:
        return None
    if prediction.tool is None:
        return Verdict(state.answer is not None)
    asked = [call for call in state.calls if call.name == prediction.tool]
    if not asked or prediction.arguments is None:
        return Verdict(bool(asked))
    return Verdict(True, any(_parsed(call) == prediction.arguments for call in asked))


def _parsed(call: ToolCall) -> dict[str, Any] | None:
    return parsed(call.arguments) if call.arguments.strip() else {}


def action_words(state: State) -> str:
    """What the model did: the calls that it asked for, "answered", or that it did neither."""
    if state.calls:
        return "asked " + ", ".join(f"{brief(call.name, 40)}({_arguments(call)})" for call in state.calls[:4])
    return "answered" if state.answer is not None else "neither called a tool nor answered"


def _arguments(call: ToolCall) -> str:
    values = _parsed(call)
    return brief(call.arguments if values is None else spelled(values, 60), 80)


def score_words(verdicts: Sequence[Verdict]) -> str:
    """The score: "Predictions · 2 of 3 right · 1 of 2 with the right arguments"."""
    right = sum(each.action for each in verdicts)
    told = f"Predictions · {right} of {len(verdicts)} right"
    with_arguments = [each.arguments for each in verdicts if each.arguments is not None]
    return told + (
        f" · {sum(with_arguments)} of {len(with_arguments)} with the right arguments" if with_arguments else ""
    )
