"""Read an answer of Gemini's own API; a streamed one is put together to the body that a whole one would have had.

Every chunk of a stream has the form of a whole answer with a piece of its parts. Neighbouring texts of the same kind
are joined; a part with a signature, a call, or anything else stays by itself, as it must go back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentnb.core.model import Delta, OnDelta
from agentnb.models.anthropic_events import Body, Reader
from agentnb.models.chat_assembly import dicts_in, word
from agentnb.models.gemini_wire import is_empty
from agentnb.models.http_errors import body_error, unreadable
from agentnb.text import clean

_PLAIN = {"text", "thought"}
_ADVICE = "Check the base URL, and that the server speaks Gemini's own API."


class GeminiAssembly:
    """One answer in the making. No chunk is marked as the last one: a finish reason completes it, more may follow."""

    ended = False

    def __init__(self, tell: OnDelta) -> None:
        self.complete = False
        self._tell = tell
        self._fields: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._candidate: dict[str, Any] | None = None
        self._parts: list[_Part] = []

    @property
    def text(self) -> str:
        """The visible text so far."""
        return "".join("".join(part.texts) for part in self._parts if not part.start.get("thought"))

    def add(self, kind: str, chunk: dict[str, Any]) -> None:
        """The next chunk."""
        for key, value in chunk.items():
            if key == "usageMetadata" and isinstance(value, dict):
                self._usage |= {name: number for name, number in value.items() if number is not None}
            elif key != "candidates" and value is not None:
                self._fields[key] = value
        self.complete = self.complete or bool(block_reason(chunk))
        for candidate in dicts_in(chunk.get("candidates")):
            if not candidate.get("index"):
                self._grow(candidate)

    def body(self) -> Body:
        """The answer, with everything that came."""
        made = {**self._fields, "usageMetadata": self._usage or None}
        if self._candidate is None:
            return made
        content = {"role": "model", "parts": [part.whole() for part in self._parts]}
        return {**made, "candidates": [{**self._candidate, "content": content}]}

    def tell_whole(self, body: Body) -> None:
        """Tell of every part of an answer that came in one piece."""
        for part in parts_in(body):
            self._tell_part(part)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _grow(self, candidate: dict[str, Any]) -> None:
        self._candidate = self._candidate or {}
        for key, value in candidate.items():
            if key == "content":
                for part in dicts_in(value.get("parts")) if isinstance(value, dict) else ():
                    self._add(part)
            elif value is not None:
                self._candidate[key] = value
        self.complete = self.complete or bool(candidate.get("finishReason"))

    def _add(self, part: dict[str, Any]) -> None:
        if is_empty(part):
            return
        last = self._parts[-1] if self._parts else None
        if last is not None and last.takes(part):
            last.texts.append(part["text"])
        else:
            self._parts.append(_Part(part))
        self._tell_part(part)

    def _tell_part(self, part: dict[str, Any]) -> None:
        text = part.get("text")
        if type(text) is str and text:
            self._tell(Delta("reasoning" if part.get("thought") else "text", clean(text)))
        elif isinstance(call := part.get("functionCall"), Mapping) and (name := word(call.get("name"))):
            self._tell(Delta("call", clean(name)))


class _Part:
    """One part in the making."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.plain = _is_plain(start)
        self.texts = [start["text"]] if isinstance(start.get("text"), str) else []

    def takes(self, part: dict[str, Any]) -> bool:
        """Whether the next part is more of this one."""
        return self.plain and _is_plain(part) and bool(part.get("thought")) == bool(self.start.get("thought"))

    def whole(self) -> dict[str, Any]:
        return {**self.start, "text": "".join(self.texts)} if self.texts else self.start


def _is_plain(part: dict[str, Any]) -> bool:
    return type(part.get("text")) is str and part.keys() <= _PLAIN


class GeminiReader(Reader):
    """Reads one answer, whole or streamed, into the body of a whole one."""

    def __init__(self, target: str, on_delta: OnDelta | None) -> None:
        super().__init__(target, GeminiAssembly, "candidates", on_delta)

    def _checked(self, value: Any) -> Body:
        """A body with a candidate, or one that tells why there is none; a list of chunks is a stream in one piece."""
        if isinstance(value, list) and dicts_in(value):
            value = self._joined(dicts_in(value))
        if isinstance(value, dict) and not value.get("error") and block_reason(value):
            return value
        body = super()._checked(value)
        if not dicts_in(body["candidates"]):
            raise unreadable(self.target, "with no candidates", json.dumps(body, ensure_ascii=False), remedy=_ADVICE)
        return body

    def _joined(self, chunks: list[dict[str, Any]]) -> Body:
        """What a server sends that was not asked for events; an error stands in a list, too."""
        assembly = GeminiAssembly(_nobody)
        for chunk in chunks:
            if chunk.get("error"):
                raise body_error(self.target, chunk)
            assembly.add("", chunk)
        return assembly.body()


def block_reason(body: Mapping[str, Any]) -> str:
    """Why the prompt was not answered at all; "" when it was."""
    feedback = body.get("promptFeedback")
    return word(feedback.get("blockReason")) if isinstance(feedback, Mapping) else ""


def candidate_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """The candidate with index 0, which is not always written; {} when there is none."""
    candidates = dicts_in(body.get("candidates"))
    return next((each for each in candidates if not each.get("index")), candidates[0] if candidates else {})


def parts_in(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of the answer."""
    content = candidate_in(body).get("content")
    return dicts_in(content.get("parts")) if isinstance(content, Mapping) else []


def _nobody(delta: Delta) -> None:
    """Nobody waits for the pieces."""
