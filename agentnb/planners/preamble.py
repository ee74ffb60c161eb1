"""What stands before every conversation: the system prompt and the worked examples, made once and kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentnb.core.messages import Message, ToolCall, user
from agentnb.errors import SettingsError
from agentnb.instructions import Example, ExampleStep

NO_REPEATS = (
    "Do not repeat a call that brought nothing new: after two such calls try another way, or answer with what you know."
)
LANGUAGE = "Answer in the language of the user."


def system_text(system_prompt: str, *more: str) -> str:
    """The agent's own prompt first, then the rules that every planner gives, one per line."""
    return "\n".join(part for part in (system_prompt, *more) if part)


def example_messages(examples: Sequence[Example]) -> tuple[Message, ...]:
    """Each example as the turns it would have been, with tool calls."""
    messages: list[Message] = []
    for number, example in enumerate(examples, 1):
        messages.append(user(example.goal))
        for position, step in enumerate(example.steps, 1):
            call = ToolCall(f"example_{number}_{position}", step.tool, json.dumps(dict(step.arguments)))
            messages.append(Message("assistant", None, (call,)))
            messages.append(Message("tool", step.result, call_id=call.id, name=step.tool))
        messages.append(Message("assistant", example.answer))
    return tuple(messages)


def to_example(given: Any) -> Example:
    """An Example from one, from (goal, [(tool, arguments, result), ...], answer), or from the same as a dict.

    Raises:
        SettingsError: It has another form.
    """
    if isinstance(given, Example):
        return given
    try:
        goal, steps, answer = (
            (given[key] for key in ("goal", "steps", "answer")) if isinstance(given, Mapping) else given
        )
        return Example(str(goal), tuple(_to_step(step) for step in steps), str(answer))
    except (KeyError, TypeError, ValueError) as error:
        raise SettingsError(
            f"{given!r} is not a worked example",
            layer="agent",
            remedy='Write (goal, [(tool, {"argument": value}, result), ...], answer).',
        ) from error


def _to_step(given: Any) -> ExampleStep:
    if isinstance(given, ExampleStep):
        return given
    keys = ("tool", "arguments", "result")
    tool, arguments, result = (given[key] for key in keys) if isinstance(given, Mapping) else given
    return ExampleStep(str(tool), dict(arguments), str(result))
