"""Read an answer of Ollama's own API; a streamed one is put together to the body that a whole one would have had.

A stream is a JSON object a line, each with a piece of the message; calls come whole. The last line is marked as done
and holds the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentnb.core.model import Delta, OnDelta
from agentnb.models import think_tags
from agentnb.models.chat_assembly import dicts_in, word
from agentnb.models.event_reader import Body, Reader
from agentnb.models.faults import as_json
from agentnb.models.http_errors import body_error, unreadable
from agentnb.models.sse import Event, EventSplitter
from agentnb.text import clean

_ADVICE = "Check the base URL, and that the server speaks Ollama's own API (/api/chat)."


class LineSplitter(EventSplitter):
    """Takes bytes as they arrive and gives the lines that are complete; empty ones say nothing."""

    def __init__(self) -> None:
        self._rest = []

    def feed(self, data: bytes) -> list[Event]:
        """The lines that these bytes complete, in order."""
        if b"\n" not in data:
            self._rest.append(data)
            return []
        *lines, rest = self._with_rest(data).split(b"\n")
        self._rest = [rest]
        return [("", line.decode("utf-8", "replace")) for line in lines if not line.isspace() and line]

    def close(self) -> list[Event]:
        """The last line, when it has no line end."""
        return self.feed(b"\n")


class OllamaAssembly:
    """One answer in the making.

    Args:
        tell: Told of the pieces.
        split_thoughts: Text that begins with <think>...</think> is told as reasoning.
    """

    def __init__(self, tell: OnDelta, split_thoughts: bool = False) -> None:
        self.complete = False
        self.ended = False
        self._tell = tell
        self._thoughts = think_tags.Splitter() if split_thoughts else None
        self._fields: dict[str, Any] = {}
        self._others: dict[str, Any] = {}
        self._content: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._begun = False

    @property
    def text(self) -> str:
        """The content so far."""
        return "".join(self._content)

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """The next line."""
        message = line.get("message")
        if type(message) is dict:
            self._begun = True
            if len(message) == 2 and message.get("role") == "assistant" and type(message.get("content")) is str:
                self._add_text(message["content"])
            else:
                self._grow(message)
                self._tell_message(message)
        if line.get("done"):
            self.complete = self.ended = True
            self._fields = line
            self._tell_held()

    def body(self) -> Body:
        """The answer, with everything that came."""
        made: dict[str, Any] = {"role": "assistant", "content": self.text, **self._others}
        if self._thinking:
            made["thinking"] = "".join(self._thinking)
        if self._calls:
            made["tool_calls"] = self._calls
        return {**self._fields, "message": made if self._begun else None}

    def tell_whole(self, body: Body) -> None:
        """Tell of an answer that came in one piece."""
        self._tell_message(body["message"])
        self._tell_held()

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _add_text(self, text: str) -> None:
        """What by far the most lines hold."""
        if text:
            self._content.append(text)
            self._tell_text(text)

    def _grow(self, message: dict[str, Any]) -> None:
        for key, value in message.items():
            if key == "content":
                self._content += [value] if type(value) is str else []
            elif key == "thinking":
                self._thinking += [value] if type(value) is str and value else []
            elif key == "tool_calls":
                self._calls += dicts_in(value)
            elif key != "role" and value is not None:
                self._others[key] = value

    def _tell_message(self, message: dict[str, Any]) -> None:
        thinking, content = message.get("thinking"), message.get("content")
        if type(thinking) is str and thinking:
            self._tell(Delta("reasoning", clean(thinking)))
        if type(content) is str and content:
            self._tell_text(content)
        for call in dicts_in(message.get("tool_calls")):
            for function in dicts_in([call.get("function")]):
                if name := word(function.get("name")):
                    self._tell(Delta("call", clean(name)))

    def _tell_text(self, text: str) -> None:
        if self._thoughts is None:
            self._tell(Delta("text", clean(text)))
            return
        for kind, piece in self._thoughts.feed(text):
            self._tell(Delta(kind, clean(piece)))
            if kind == "text":  # then all that follows is text
                self._thoughts = None

    def _tell_held(self) -> None:
        """What could have become a tag until now."""
        for kind, piece in self._thoughts.close() if self._thoughts is not None else ():
            self._tell(Delta(kind, clean(piece)))


class OllamaReader(Reader):
    """Reads one answer, whole or streamed, into the body of a whole one."""

    def __init__(self, target: str, on_delta: OnDelta | None, split_thoughts: bool = False) -> None:
        super().__init__(target, lambda tell: OllamaAssembly(tell, split_thoughts), "message", on_delta)
        self._events = LineSplitter()

    def _is_announced(self) -> bool:
        return "event-stream" in self._type

    def _settle(self, streamed: bool) -> None:
        """Events (some servers in between make them), lines, or one body."""
        if streamed:
            self._events = EventSplitter()
        lines = "ndjson" in self._type or "jsonl" in self._type or (not self._type and self._on_delta is not None)
        super()._settle(streamed or lines)

    def finish(self) -> Body:
        """The body. Lines that were not announced as such are read as lines."""
        self._end_head()
        data = b"".join(self._parts)
        if not self._streamed and _are_lines(data):
            self._streamed = True
            self.feed(data)
        return super().finish()

    def _checked(self, value: Any) -> Body:
        if isinstance(value, Mapping) and value.get("error"):
            raise body_error(self.target, value)
        if not isinstance(value, dict) or not isinstance(value.get("message"), dict):
            raise unreadable(self.target, "without a message", as_json(value), remedy=_ADVICE)
        return value


def _are_lines(data: bytes) -> bool:
    """Whether these are several lines, the first an object by itself."""
    first, *others = data.split(b"\n", 1)
    try:
        return any(others) and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False
