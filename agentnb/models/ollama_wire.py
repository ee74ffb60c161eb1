"""Messages in the form of Ollama's own API: each encoded once, then joined.

The form is close to chat completions; arguments are objects, a result names its tool, and ids are sent only where the
server gave one. What the model itself said goes back as it came, its thinking included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentnb.core.messages import Message, ToolCall
from agentnb.models import think_tags
from agentnb.models.chat_assembly import dicts_in
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.sent import Sent

INVENTED = "ollama"
"""Begins the ids that are made for calls which came without one; they are never sent."""
_INVENTED = re.compile(rf"{INVENTED}(_\d+){{2,}}")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How messages are written for one model."""

    origin: str
    """Whose own messages go back unchanged."""

    @property
    def key(self) -> str:
        """Names this encoding where a message keeps its bytes."""
        return self.origin

    def encode(self, message: Message) -> bytes:
        """The message as JSON."""
        return encode_strictly(self.wire(message))

    def wire(self, message: Message) -> dict[str, Any]:
        """The message as this API takes it."""
        if message.role == "tool" and not message.plain:
            return _result(message)
        if message.role == "assistant" and not message.plain:
            return self._own(message) or _assistant(message)
        return message.wire

    def _own(self, message: Message) -> dict[str, Any] | None:
        """The model's own message; its calls carry the ids that their results answer. None where they do not fit."""
        if message.raw is None or message.origin != self.origin:
            return None
        wire = {"role": "assistant", "content": "", **message.raw}
        if isinstance(wire["content"], str) and think_tags.split(wire["content"])[0] == message.reasoning != "":
            wire["content"] = message.content or ""
        theirs = dicts_in(wire.pop("tool_calls", None))
        if len(theirs) != len(message.calls):
            return None
        if theirs:
            wire["tool_calls"] = [_own_call(*pair) for pair in zip(theirs, message.calls, strict=True)]
        return wire


def _assistant(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
    if message.calls:
        wire["tool_calls"] = [{**_id("id", call.id), "function": _function(call)} for call in message.calls]
    return wire


def _function(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name or "unknown", "arguments": json.loads(call.wire_arguments)}


def _own_call(theirs: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    """Unchanged but for the id, and for arguments that were no object; `index` belongs to streams alone."""
    function = theirs.get("function")
    kept = {key: value for key, value in function.items() if key != "index"} if isinstance(function, Mapping) else {}
    others = {key: value for key, value in theirs.items() if key != "id"}
    return {**others, **_id("id", call.id), "function": {**kept, **_function(call)}}


def _result(message: Message) -> dict[str, Any]:
    named = {"role": "tool", "tool_name": message.name or "unknown", **_id("tool_call_id", message.call_id or "")}
    return {**named, "content": message.content or "(empty)"}


def _id(field: str, id: str) -> dict[str, str]:
    """The id, where the call came with one."""
    return {} if not id or _INVENTED.fullmatch(id) else {field: id}


class SentOllama(Sent):
    """A request to Ollama's own API."""

    __slots__ = ()
