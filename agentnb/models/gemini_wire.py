"""Messages and tools in the form of Gemini's own API: each message encoded once, then joined.

A message is a content (role and parts), but all results of one assistant message stand together in one content, in
call order: so the fragment of a result is a part, and a content is opened around neighbouring results. What the model
itself said goes back part by part as it came, since a signature belongs to the part that it came with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.messages import Message, ToolCall
from agentnb.core.tool import ToolSpec
from agentnb.models.anthropic_wire import legal_id
from agentnb.models.chat_assembly import dicts_in
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.profiles import ANY_SIGNATURE
from agentnb.models.sent import Sent

INVENTED = "gemini"
"""Begins the ids that are made for calls which came without one; they are never sent."""
_INVENTED = re.compile(rf"{INVENTED}(_\d+){{2,}}")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_.:-]")
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Encoding:
    """How messages are written for one model."""

    origin: str
    """Whose own parts go back unchanged."""
    signs: bool = False
    """Calls without a signature get the one that stands for any; for servers that refuse calls without."""
    key: str = field(init=False, repr=False)
    """Names this encoding where a message keeps its bytes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.origin} {self.signs}")

    def encode(self, message: Message) -> bytes:
        """The content of a message, the part of a result or of a system prompt; b"" when it says nothing."""
        if is_result(message):
            return encode_strictly(_result(message))
        parts = self.parts(message)
        if not parts:
            return b""
        if message.role == "system":
            return encode_strictly(parts[0])
        return encode_strictly({"role": "model" if message.role == "assistant" else "user", "parts": parts})

    def parts(self, message: Message) -> list[dict[str, Any]]:
        """The parts of the message; none when it says nothing."""
        if message.role != "assistant" or message.plain:
            return _text(message.wire["content"])
        parts = self._own(message) or [*_text(message.content), *({"functionCall": _call(c)} for c in message.calls)]
        return _signed(parts) if self.signs else parts

    def _own(self, message: Message) -> list[dict[str, Any]] | None:
        """The provider's own parts; its calls carry the ids that their results answer. None where they do not fit."""
        if message.raw is None or message.origin != self.origin:
            return None
        parts = [part for part in dicts_in(message.raw.get("parts")) if not is_empty(part)]
        places = [place for place, part in enumerate(parts) if "functionCall" in part]
        if len(places) != len(message.calls):
            return None
        for place, call in zip(places, message.calls, strict=True):
            parts[place] = {**parts[place], "functionCall": _own_call(parts[place]["functionCall"], call)}
        return parts


def is_result(message: Message) -> bool:
    """Whether this is the answer to a call, not one that is written as ordinary text."""
    return message.role == "tool" and not message.plain


def is_empty(part: Mapping[str, Any]) -> bool:
    """Whether nothing is in it, or a text without text, which the API refuses; one with a signature counts."""
    return not part or (part.get("text") == "" and part.keys() <= {"text", "thought"})


def _text(text: str | None) -> list[dict[str, Any]]:
    return [{"text": text}] if text else []


def _call(call: ToolCall) -> dict[str, Any]:
    return {**_id(call.id), "name": _name(call.name), "args": json.loads(call.wire_arguments)}


def _own_call(theirs: Any, call: ToolCall) -> dict[str, Any]:
    """Unchanged but for the id, and for arguments that were no object."""
    made = _call(call)
    if not isinstance(theirs, Mapping):
        return made
    if not made["args"] and "args" not in theirs:
        del made["args"]
    return {**{key: value for key, value in theirs.items() if key != "id"}, **made}


def _result(message: Message) -> dict[str, Any]:
    response = {"error" if message.failed else "output": message.content or "(empty)"}
    return {"functionResponse": {**_id(message.call_id or ""), "name": _name(message.name), "response": response}}


def _id(id: str) -> dict[str, str]:
    """The id, where the call came with one."""
    return {} if not id or _INVENTED.fullmatch(id) else {"id": legal_id(id)}


def _name(name: str) -> str:
    return _ILLEGAL.sub("_", name)[:_LONGEST_NAME] or "unknown"


def _signed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first call of a message carries the signature of all that follow it."""
    first = next((place for place, part in enumerate(parts) if "functionCall" in part), None)
    if first is not None and not parts[first].get("thoughtSignature"):
        parts[first] = {**parts[first], "thoughtSignature": ANY_SIGNATURE}
    return parts


def encode_tools(specs: Sequence[ToolSpec]) -> bytes:
    """The tools as JSON: one tool with a declaration for each."""
    return encode_strictly({"functionDeclarations": [_declared(spec) for spec in specs]})


def _declared(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "parametersJsonSchema": dict(spec.parameters)}


class SentGemini(Sent):
    """A request to Gemini's own API; the model's name is in the address."""

    __slots__ = ()

    def body(self) -> bytes:
        """The exact bytes; each message is encoded once in its life."""
        parts, systems = [self.head], []
        inside: bool | None = None
        messages = self.messages
        for message, fragment in zip(messages, self.fragments(messages), strict=True):
            if message.role == "system":
                systems.append(fragment)
            elif fragment:
                result = is_result(message)
                parts += (_JOINTS[inside, result], fragment)
                inside = result
        system = b",".join(filter(None, systems))
        parts.append(b"]}]" if inside else b"]")
        parts += (b',"systemInstruction":{"parts":[', system, b"]}") if system else ()
        return b"".join((*parts, self.tail))


_OPEN = b'{"role":"user","parts":['
_JOINTS = {
    (None, False): b"",
    (None, True): _OPEN,
    (False, False): b",",
    (False, True): b"," + _OPEN,
    (True, False): b"]},",
    (True, True): b",",
}
"""What stands before a fragment: (whether the last one was a result, or None; whether this one is)."""
