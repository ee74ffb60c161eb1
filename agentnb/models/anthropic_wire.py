"""Messages and tools in the form of Anthropic Messages: each message encoded once, then joined.

This dialect wants turns of user and assistant in alternation, and all results of one assistant message in one user
message, before any other text. So the fragment of a message is the inside of a turn (content blocks, joined), and a
turn is opened where the speaker changes. The system prompt stands apart.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.messages import Message, ToolCall
from agentnb.core.tool import ToolSpec
from agentnb.models.chat_assembly import dicts_in
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.sent import Sent

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST_NAME = 64
# What opens a turn, and what closes the last one and opens the next.
_FIRST = {"user": b'{"role":"user","content":[', "assistant": b'{"role":"assistant","content":['}
_NEXT = {role: b"]}," + opening for role, opening in _FIRST.items()}


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
        """The content blocks of the message, joined; of a system message its text, as a JSON string."""
        if message.role == "system":
            return encode_strictly(message.content or "")
        return encode_strictly(self.blocks(message))[1:-1]

    def blocks(self, message: Message) -> list[dict[str, Any]]:
        """The content blocks of the message; none when it says nothing."""
        if message.role == "tool" and not message.plain:
            return [_result(message)]
        if message.role == "assistant" and not message.plain:
            return self._own(message) or [*_text(message.content), *map(_call, message.calls)]
        return _text(message.wire["content"])

    def _own(self, message: Message) -> list[dict[str, Any]] | None:
        """The provider's own blocks; its calls carry the ids that their results answer. None where they do not fit."""
        if message.raw is None or message.origin != self.origin:
            return None
        blocks = [block for block in dicts_in(message.raw.get("content")) if not _is_empty_text(block)]
        places = [place for place, block in enumerate(blocks) if block.get("type") == "tool_use"]
        if len(places) != len(message.calls):
            return None
        for place, call in zip(places, message.calls, strict=True):
            blocks[place] = {**blocks[place], **_call(call)}
        return blocks


def _text(text: str | None) -> list[dict[str, Any]]:
    """A text block; none for white space alone, which the API refuses."""
    return [{"type": "text", "text": text}] if text and text.strip() else []


def _is_empty_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and not block.get("text")


def _call(call: ToolCall) -> dict[str, Any]:
    name, arguments = legal_name(call.name), json.loads(call.wire_arguments)
    return {"type": "tool_use", "id": legal_id(call.id), "name": name, "input": arguments}


def _result(message: Message) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": legal_id(message.call_id or "")}
    told = {**result, "content": message.content or "(empty)"}
    return {**told, "is_error": True} if message.failed else told


def legal_name(name: str) -> str:
    """The name with every character that providers refuse replaced; the model sees the same in its next turn."""
    return _ILLEGAL.sub("_", name)[:_LONGEST_NAME] or "unknown"


def legal_id(id: str) -> str:
    """The id itself where providers take it, else a fit one that is always the same for the same id."""
    if _LEGAL_ID.fullmatch(id):
        return id
    digest = base64.b32encode(hashlib.blake2b(id.encode("utf-8", "replace"), digest_size=20).digest())
    return "call_" + digest.decode().lower()


def encode_tools(specs: Sequence[ToolSpec], strict: bool | None) -> bytes:
    """The tools as JSON; `strict` is sent only when it was set."""
    more = {} if strict is None else {"strict": strict}
    return encode_strictly(
        [
            {"name": spec.name, "description": spec.description, "input_schema": dict(spec.parameters), **more}
            for spec in specs
        ]
    )


@dataclass(frozen=True, slots=True)
class SentMessages(Sent):
    """A request in Anthropic Messages."""

    begun: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """Content blocks of a turn that the provider paused: they go back to it as the last message."""

    def body(self) -> bytes:
        """The exact bytes; each message is encoded once in its life."""
        parts, systems, speaker = [self.head, b'"messages":['], [], ""
        messages = self.messages
        for message, fragment in zip(messages, self.fragments(messages), strict=True):
            role = message.role
            if role == "system":
                systems.append(fragment)
            elif fragment:
                role = "assistant" if role == "assistant" else "user"
                parts.append(b"," if role == speaker else _NEXT[role] if speaker else _FIRST[role])
                parts.append(fragment)
                speaker = role
        if self.begun:
            opening = (_NEXT if speaker else _FIRST)["assistant"]
            parts += (opening, encode_strictly(list(self.begun))[1:-1])
        parts.append(b"]}]" if speaker or self.begun else b"]")
        return b"".join((*parts, _system(systems), self.tail))


def _system(texts: Sequence[bytes]) -> bytes:
    """The system prompt: one text as it is, several as text blocks, an empty one not at all."""
    told = [text for text in texts if text != b'""']
    if len(told) > 1:
        return b',"system":[' + b",".join(b'{"type":"text","text":' + text + b"}" for text in told) + b"]"
    return b',"system":' + told[0] if told else b""
