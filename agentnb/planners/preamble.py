"""What stands before every conversation: the system prompt and the worked examples, made once and kept."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentnb.core.messages import Message, ToolCall, user
from agentnb.core.planner import Example

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
