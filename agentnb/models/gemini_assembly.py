"""Read an answer of Gemini's own API; a streamed one is put together to the body that a whole one would have had.

Every chunk of a stream has the form of a whole answer with a piece of its parts. Neighbouring texts of the same kind
are joined; a part with a signature, a call, or anything else stays by itself, as it must go back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.core.model import Delta, OnDelta
from agentnb.models.chat_assembly import dicts_in, word
from agentnb.models.event_reader import Body, Reader
from agentnb.models.faults import as_json
from agentnb.models.http_errors import body_error, unreadable
from agentnb.text import clean

_ADVICE = "Check the base URL, and that the server speaks Gemini's own API."


class GeminiAssembly:
    """One answer in the making. No chunk is marked as the last one: a finish reason completes it, more may follow."""

    ended = False

    def __init__(self, tell: OnDelta) -> None:
        self.complete = False
        self._tell = tell
        self._fields: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._parts: list[_Part] = []
        self._begun = False

    @property
    def text(self) -> str:
        """The visible text so far."""
        return "".join("".join(part.texts) for part in self._parts if not part.start.get("thought"))

    def add(self, kind: str, chunk: dict[str, Any]) -> None:
        """The next chunk."""
        _update(self._fields, chunk)
        if type(usage := chunk.get("usageMetadata")) is dict:
            _update(self._usage, usage)
        if "promptFeedback" in chunk:
            self.complete = self.complete or bool(block_reason(chunk))
        candidates = chunk.get("candidates")
        for candidate in candidates if type(candidates) is list else ():
            if type(candidate) is dict and not candidate.get("index"):
                self._grow(candidate)

    def body(self) -> Body:
        """The answer, with everything that came."""
        content = {"role": "model", "parts": [part.whole() for part in self._parts]}
        candidates = [{**self._candidate, "content": content}] if self._begun else []
        return {**self._fields, "usageMetadata": self._usage or None, "candidates": candidates}

    def tell_whole(self, body: Body) -> None:
        """Tell of every part of an answer that came in one piece."""
        for part in parts_in(body):
            self._tell_part(part)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _grow(self, candidate: dict[str, Any]) -> None:
        self._begun = True
        content = candidate.get("content")
        parts = content.get("parts") if type(content) is dict else None
        for part in parts if type(parts) is list else ():
            if type(part) is dict:
                self._add(part)
        if len(candidate) > ("content" in candidate) + ("index" in candidate):
            _update(self._candidate, candidate)
            self.complete = self.complete or bool(candidate.get("finishReason"))

    def _add(self, part: dict[str, Any]) -> None:
        text = part.get("text")
        kind = _kind(part) if type(text) is str else ""
        if kind and text:
            self._add_text(kind, text, part)
        elif part and not kind:
            self._parts.append(_Part(part, ""))
            self._tell_part(part)

    def _add_text(self, kind: str, text: str, part: dict[str, Any]) -> None:
        if self._parts and self._parts[-1].kind == kind:
            self._parts[-1].texts.append(text)
        else:
            self._parts.append(_Part(part, kind))
        self._tell(Delta(kind, clean(text)))

    def _tell_part(self, part: dict[str, Any]) -> None:
        text = part.get("text")
        if type(text) is str and text:
            self._tell(Delta("reasoning" if part.get("thought") else "text", clean(text)))
        elif isinstance(call := part.get("functionCall"), Mapping) and (name := word(call.get("name"))):
            self._tell(Delta("call", clean(name)))


class _Part:
    """One part in the making; one of a plain kind may grow."""

    def __init__(self, start: dict[str, Any], kind: str) -> None:
        self.start = start
        self.kind = kind
        self.texts = [start["text"]] if isinstance(start.get("text"), str) else []

    def whole(self) -> dict[str, Any]:
        """The part as a whole answer has it."""
        return {**self.start, "text": "".join(self.texts)} if self.texts else self.start


def _kind(part: dict[str, Any]) -> str:
    """What a part with text is: "text" or "reasoning", or "" when there is more in it than that."""
    if len(part) == 1:
        return "text"
    if len(part) > 2 or "thought" not in part:
        return ""
    return "reasoning" if part["thought"] else "text"


def _update(known: dict[str, Any], said: dict[str, Any]) -> None:
    """What is said last holds; null says nothing."""
    if None in said.values():
        said = {key: value for key, value in said.items() if value is not None}
    known.update(said)


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
            raise unreadable(self.target, "with no candidates", as_json(body), remedy=_ADVICE)
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
