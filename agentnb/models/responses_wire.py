"""Messages and tools in the form of OpenAI Responses: each message encoded once, then joined.

The conversation is a flat list of items: a message, each call, each result. So the fragment of a message is its items,
joined. The output that the provider itself sent goes back item by item as it came, reasoning included, since nothing
is stored on its side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.messages import Message, ToolCall
from agentnb.core.tool import ToolSpec
from agentnb.models.anthropic_wire import legal_id, legal_name
from agentnb.models.chat_assembly import dicts_in
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.sent import Sent

_LONGEST_ID = 64


@dataclass(frozen=True, slots=True)
class Encoding:
    """How messages are written for one model."""

    origin: str
    """Whose own output goes back unchanged."""
    system_role: str
    """The role of a system message that is not the first message."""
    typed: bool = False
    """Write what the assistant said as typed parts: some servers take no plain text there."""
    key: str = field(init=False, repr=False)
    """Names this encoding where a message keeps its bytes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.origin} {self.system_role} {self.typed}")

    def encode(self, message: Message) -> bytes:
        """The items of the message, joined."""
        return encode_strictly(self.items(message))[1:-1]

    def items(self, message: Message) -> list[dict[str, Any]]:
        """The items of the message; none when it says nothing."""
        if message.role == "tool" and not message.plain:
            output = message.content or "(empty)"
            return [{"type": "function_call_output", "call_id": _fit(message.call_id or ""), "output": output}]
        if message.role == "assistant" and not message.plain:
            return self._own(message) or [*self._said("assistant", message.content), *map(_call, message.calls)]
        role = self.system_role if message.role == "system" else message.wire["role"]
        return self._said(role, message.wire["content"])

    def _said(self, role: str, text: str | None) -> list[dict[str, Any]]:
        if not text:
            return []
        if role == "assistant" and self.typed:
            return [{"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]}]
        return [{"role": role, "content": text}]

    def _own(self, message: Message) -> list[dict[str, Any]] | None:
        """The provider's own items; its calls carry the ids that their results answer. None where they do not fit."""
        if message.raw is None or message.origin != self.origin:
            return None
        items = dicts_in(message.raw.get("output"))
        places = [place for place, item in enumerate(items) if item.get("type") == "function_call"]
        if len(places) != len(message.calls):
            return None
        for place, call in zip(places, message.calls, strict=True):
            items[place] = {**items[place], **_call(call)}
        return items


def _call(call: ToolCall) -> dict[str, Any]:
    name, arguments = legal_name(call.name), call.wire_arguments
    return {"type": "function_call", "call_id": _fit(call.id), "name": name, "arguments": arguments}


def _fit(id: str) -> str:
    return id if 0 < len(id) <= _LONGEST_ID else legal_id(id)


def _instructions(message: Message) -> bytes:
    return encode_strictly(message.content or "")


def encode_tools(specs: Sequence[ToolSpec], strict: bool | None) -> bytes:
    """The tools as JSON, flat; `strict` is sent only when it was set."""
    more = {} if strict is None else {"strict": strict}
    return encode_strictly([{**_tool(spec), **more} for spec in specs])


def _tool(spec: ToolSpec) -> Mapping[str, Any]:
    parameters = dict(spec.parameters)
    return {"type": "function", "name": spec.name, "description": spec.description, "parameters": parameters}


class SentResponses(Sent):
    """A request in Responses; its first system message becomes `instructions`."""

    __slots__ = ()

    def body(self) -> bytes:
        """The exact bytes; each message is encoded once in its life."""
        messages, instructions = self.messages, b""
        if messages and messages[0].role == "system":
            text = messages[0].fragment(f"{self.encoding.key} instructions", _instructions)
            instructions = b'"instructions":' + text + b"," if text != b'""' else b""
            messages = messages[1:]
        parts = b",".join(filter(None, self.fragments(messages)))
        return b"".join((self.head, instructions, b'"input":[', parts, b"]", self.tail))
