"""What the items of a response's output mean: text, reasoning, refusal and calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentnb.core.messages import ToolCall
from agentnb.models.chat_assembly import as_text, dicts_in, word
from agentnb.text import clean

Item = dict[str, Any]


def text_in(items: Iterable[Item]) -> str:
    """The visible text; several messages are paragraphs."""
    return "\n\n".join(filter(None, map(text_of, items)))


def reasoning_in(items: Iterable[Item]) -> str:
    """The reasoning, as far as the provider shows it."""
    return "\n\n".join(filter(None, map(reasoning_of, items)))


def refusal_in(items: Iterable[Item]) -> str | None:
    """Why the model refuses; None when it does not."""
    said = "".join(_parts(item, "content", "refusal", "refusal") for item in items if item.get("type") == "message")
    return said or None


def text_of(item: Item) -> str:
    """The text of a message item, "" of any other."""
    if item.get("type") != "message":
        return ""
    content = item.get("content")
    return content if isinstance(content, str) else _parts(item, "content", "output_text", "text")


def reasoning_of(item: Item) -> str:
    """The summary of a reasoning item, or else its text; "" of any other."""
    if item.get("type") != "reasoning":
        return ""
    summary = [each["text"] for each in dicts_in(item.get("summary")) if isinstance(each.get("text"), str)]
    return "\n\n".join(filter(None, summary)) or _parts(item, "content", "reasoning_text", "text")


def _parts(item: Item, field: str, kind: str, name: str) -> str:
    found = (part.get(name) for part in dicts_in(item.get(field)) if part.get("type") == kind)
    return "".join(text for text in found if isinstance(text, str))


def read_calls(items: Iterable[Item]) -> tuple[ToolCall, ...]:
    """The function calls, in order; arguments that came as an object become text."""
    return tuple(_call(item) for item in items if item.get("type") == "function_call")


def _call(item: Item) -> ToolCall:
    id = word(item.get("call_id")) or word(item.get("id"))
    return ToolCall(clean(id), clean(word(item.get("name"))), clean(as_text(item.get("arguments"))))
