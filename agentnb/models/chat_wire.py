"""Messages and tools as one provider takes them in chat completions: each encoded once, then joined.

An Encoding belongs to one model. A message that this model's provider wrote goes back as it came, down to fields that
we do not know; what stands for others is made from the parsed values. Only what no server takes is changed: ids that
were empty or twice, arguments that are no JSON object, names with letters that are not allowed.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.messages import Message, ToolCall
from agentnb.core.tool import ToolSpec
from agentnb.models import think_tags
from agentnb.models.chat_assembly import dicts_in
from agentnb.models.profiles import Profile
from agentnb.models.sent import Sent
from agentnb.strict_json import encode
from agentnb.text import clean

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_LONGEST_ID = 40


@dataclass(frozen=True, slots=True)
class Encoding:
    """How messages are written for one model."""

    origin: str
    """Whose own messages go back unchanged."""
    profile: Profile
    key: str = field(init=False, repr=False)
    """Names this encoding where a message keeps its bytes; text, since that is compared fastest."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.origin} {self.profile}")

    def encode(self, message: Message) -> bytes:
        """The message as JSON."""
        return encode_strictly(self.wire(message))

    def wire(self, message: Message) -> dict[str, Any]:
        """The message as this provider takes it."""
        own = _own(message) if message.origin == self.origin and not message.plain else None
        wire = own or message.wire
        if message.role == "system":
            wire["role"] = self.profile.system_role
        elif wire["role"] == "tool":
            wire["tool_call_id"] = self._id(message.call_id or "")
            wire["content"] = wire["content"] or "(empty)"
        elif wire.get("tool_calls"):
            self._fit_calls(wire)
            if own is None:
                wire["tool_calls"][0].update(self.profile.first_call_fields)
        return wire

    def _fit_calls(self, wire: dict[str, Any]) -> None:
        for call in wire["tool_calls"]:
            call["id"] = self._id(call["id"])
            call["function"]["name"] = _legal_name(call["function"]["name"])
        for name, value in self.profile.fields_with_calls.items():
            wire.setdefault(name, value)
        if not wire["content"] and self.profile.empty_content != "keep":
            wire["content"] = "" if self.profile.empty_content == "text" else None

    def _id(self, id: str) -> str:
        """The id itself where this provider takes it, else a fit one that is always the same for the same id."""
        length = self.profile.id_length
        fits = len(id) <= _LONGEST_ID if length is None else len(id) == length and id.isascii() and id.isalnum()
        if fits:
            return id
        digest = base64.b32encode(hashlib.blake2b(id.encode("utf-8", "replace"), digest_size=20).digest())
        return digest.decode().lower()[: length or _LONGEST_ID]


def _own(message: Message) -> dict[str, Any] | None:
    """The provider's own message; its calls carry the ids that their results answer. None where they do not fit.

    What no server takes back, such as a content that is a number, is replaced by the parsed value.
    """
    if message.raw is None:
        return None
    theirs = dicts_in(message.raw.get("tool_calls"))
    if len(theirs) != len(message.calls):
        return None
    wire = {key: value for key, value in message.raw.items() if key != "tool_calls" or theirs}
    wire["role"] = message.role
    wire.setdefault("content", None if message.calls else "")
    if not _is_content(wire["content"]) or _is_split(wire["content"], message.reasoning):
        wire["content"] = message.content
    if theirs:
        wire["tool_calls"] = [_own_call(*pair) for pair in zip(theirs, message.calls, strict=True)]
    return wire


def _is_content(value: Any) -> bool:
    """Whether servers take it: nothing, a text, or parts that each say what they are."""
    if isinstance(value, list):
        return all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in value)
    return value is None or isinstance(value, str)


def _is_split(content: Any, reasoning: str) -> bool:
    """Whether the reasoning was taken out of this text."""
    return isinstance(content, str) and think_tags.split(content)[0] == reasoning != ""


def _own_call(theirs: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    """Unchanged but for the id, and for arguments that are no JSON object; `index` belongs to streams alone."""
    said, kind = theirs.get("function"), theirs.get("type")
    function = dict(said) if isinstance(said, Mapping) else {}
    function["name"] = _text_or(function.get("name"), call.name)
    function["arguments"] = call.wire_arguments
    others = {key: value for key, value in theirs.items() if key != "index"}
    return {**others, "id": call.id, "type": _text_or(kind, "function"), "function": function}


def _text_or(value: Any, other: str) -> str:
    return value if isinstance(value, str) and value else other


def _legal_name(name: str) -> str:
    return _ILLEGAL.sub("_", name)[:_LONGEST_NAME] or "unknown"


def encode_tools(specs: Sequence[ToolSpec], strict: bool | None) -> bytes:
    """The tools as JSON; `strict` is sent only when it was set."""
    wires = [spec.wire for spec in specs]
    if strict is not None:
        for wire in wires:
            wire["function"]["strict"] = strict
    return encode_strictly(wires)


def encode_strictly(value: Any) -> bytes:
    """JSON that every server takes: a number that is none becomes null, half an emoji U+FFFD."""
    try:
        return encode(value)
    except ValueError:
        return encode(_strict(value))


def _strict(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean(str(key)): _strict(each) for key, each in value.items()}
    return [_strict(each) for each in value] if isinstance(value, list | tuple) else value


class SentChat(Sent):
    """A request in chat completions."""

    __slots__ = ()
