"""Read an answer whose stream is made of events with a type, whole or in pieces: the Reader of all dialects but one.

    bytes ──Reader──▶ events ──Assembly──▶ the body that a whole answer would have had

An Assembly is what a dialect adds: it puts the events together to that body. So whole and streamed answers are read by
the same code afterwards and can't differ. The first bytes tell a stream from one body, whatever was asked for and
whatever the answer is called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agentnb.core.model import Delta, OnDelta
from agentnb.models.faults import as_json
from agentnb.models.http_errors import body_error, ended_early, no_json, unreadable
from agentnb.models.sse import EventSplitter, is_stream, without_mark
from agentnb.strict_json import is_json
from agentnb.text import clean

Body = dict[str, Any]
_decode = json.JSONDecoder().decode
_ADVICE = "Check the base URL, and that the server speaks this dialect."


class Assembly(Protocol):
    """Puts the events of one stream together."""

    complete: bool
    """Nothing is missing, should the connection end here."""
    ended: bool
    """The last event has come."""

    @property
    def text(self) -> str:
        """The text so far."""
        ...

    def add(self, kind: str, event: Body) -> None:
        """The next event, of this type."""
        ...

    def body(self) -> Body:
        """What a whole answer would have held."""
        ...

    def tell_whole(self, body: Body) -> None:
        """Tell of everything at once: the server did not stream."""
        ...


class Reader:
    """Reads one answer, whole or streamed, into the body of a whole one.

    Args:
        target: Method and address, for errors.
        assembly: Makes the dialect's Assembly; it gets the function to tell of pieces.
        list_name: The field of a whole body that must be a list, such as "content".
        on_delta: Told of the pieces. None: the answer was asked for in one piece.
    """

    def __init__(
        self, target: str, assembly: Callable[[OnDelta], Assembly], list_name: str, on_delta: OnDelta | None
    ) -> None:
        self.target = target
        self.done = False
        self.complete = False
        self.shown = False
        self._list_name = list_name
        self._on_delta = on_delta
        self._assembly = assembly(self._tell)
        self._events = EventSplitter()
        self._streamed = False
        self._type = ""
        self._head: bytes | None = b""
        """What has come, until it tells how to read it."""
        self._parts: list[bytes] = []

    @property
    def partial(self) -> str:
        """The text so far."""
        return clean(self._assembly.text)

    def start(self, content_type: str) -> None:
        """Remember what the answer is called; it decides where its first bytes do not tell."""
        self._type = content_type.lower()

    def feed(self, data: bytes) -> None:
        """Take in the events that these bytes complete.

        Raises:
            ModelError: One of them is an error, or no JSON.
        """
        if self._head is not None:
            self._head += data
            streamed = is_stream(self._head, self._is_announced())
            if streamed is None:
                return
            self._settle(streamed)
            data, self._head = without_mark(self._head), None
        if not self._streamed:
            self._parts.append(data)
            return
        for name, payload in self._events.feed(data):
            self._event(name, payload)
        self.done, self.complete = self._assembly.ended, self._assembly.complete

    def finish(self) -> Body:
        """The body.

        Raises:
            ModelError: It is an error, no JSON, or a stream that ended early.
        """
        self._end_head()
        if not self._streamed:
            return self._whole()
        if not self.done:
            self._take_rest()
        if not self._assembly.complete:
            raise ended_early(self.target)
        return self._checked(self._assembly.body())

    # ── a stream ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _event(self, name: str, payload: str) -> None:
        try:
            event = _decode(payload)
        except (ValueError, RecursionError):
            if payload == "[DONE]":  # some servers end every stream so
                return
            raise unreadable(
                self.target, "with an event that is not JSON", payload, retryable=True, remedy=_ADVICE
            ) from None
        if type(event) is not dict:
            raise unreadable(self.target, "with an event that is no object", payload, remedy=_ADVICE)
        kind = event.get("type")
        if type(kind) is not str:
            kind = name
        if kind == "error" or event.get("error"):
            raise body_error(self.target, event)
        self._assembly.add(kind, event)

    def _is_announced(self) -> bool:
        return "event-stream" in self._type if self._type else self._on_delta is not None

    def _settle(self, streamed: bool) -> None:
        """From here on it is clear how to read."""
        self._streamed = streamed

    def _end_head(self) -> None:
        """Nothing more will come that could tell how to read."""
        if self._head is not None:
            head, self._head = self._head, None
            self._settle(self._is_announced())
            self.feed(head)

    def _take_rest(self) -> None:
        """An event without its last line end counts when it is whole."""
        for name, payload in self._events.close():
            if is_json(payload):
                self._event(name, payload)

    def _tell(self, delta: Delta) -> None:
        if self._on_delta is not None:
            self.shown = True
            self._on_delta(delta)

    # ── one body ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _whole(self) -> Body:
        text = b"".join(self._parts).decode("utf-8", "replace")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise no_json(self.target, text, self._type, _ADVICE) from None
        body = self._checked(value)
        if self._on_delta is not None:
            self._assembly.tell_whole(body)
        return body

    def _checked(self, value: Any) -> Body:
        if isinstance(value, Mapping) and value.get("error"):
            raise body_error(self.target, value)
        if isinstance(value, dict) and value.get(self._list_name, ()) is None and _says_how_it_ended(value):
            value = {**value, self._list_name: []}
        if not isinstance(value, dict) or not isinstance(value.get(self._list_name), list):
            shown = as_json(value)
            raise unreadable(self.target, f"without a list of {self._list_name}", shown, remedy=_ADVICE)
        return value


def _says_how_it_ended(body: Body) -> bool:
    return bool(body.get("stop_reason") or body.get("status"))
