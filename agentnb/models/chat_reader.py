"""Read a chat-completions answer, whole or streamed, into the same Answer.

A stream is put together to the assistant message that a whole answer would have held (`Assembly`), and both are then
read by the same code (`chat_completions.py`), so they can't differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentnb.core.model import Delta, OnDelta
from agentnb.models import think_tags
from agentnb.models.chat_assembly import Assembly, dicts_in, reasoning_of, text_of, word
from agentnb.models.faults import as_json
from agentnb.models.http_errors import body_error, ended_early, no_json, unreadable
from agentnb.models.sse import EventSplitter, is_stream, without_mark
from agentnb.strict_json import is_json
from agentnb.text import clean

_decode = json.JSONDecoder().decode
FILTERED = ("content_filter", "sensitive")
"""Why a reply ended that a provider's filter took away, in the words of the providers."""
_ADVICE = "Check the base URL, and that the server speaks chat completions."


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, before it is read as a reply."""

    message: dict[str, Any]
    """The assistant message, as sent."""
    finish: str
    """The server's word for why it ended, "" when it gave none."""
    usage: Any
    model: str


class WholeReader:
    """Reads one JSON body."""

    done = False
    complete = False
    shown = False
    partial = ""

    def __init__(self, target: str) -> None:
        self.target = target
        self._parts: list[bytes] = []
        self._type = ""

    def start(self, content_type: str) -> None:
        """Remember the content type."""
        self._type = content_type.lower()

    def feed(self, data: bytes) -> None:
        """Keep it."""
        self._parts.append(data)

    def finish(self) -> Answer:
        """Parse the body.

        Raises:
            ModelError: It is no JSON, an error, or holds no message.
        """
        data = without_mark(b"".join(self._parts))
        if is_stream(data, "event-stream" in self._type):
            return self._as_stream(data)
        text = data.decode("utf-8", "replace")
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            raise no_json(self.target, text, self._type, _ADVICE) from None
        return read_body(body, self.target)

    def _as_stream(self, data: bytes) -> Answer:
        """A server that streams although it was not asked to."""
        reader = StreamReader(self.target, None)
        reader.start(self._type)
        reader.feed(data)
        return reader.finish()


def read_body(body: Any, target: str) -> Answer:
    """The Answer in a parsed body.

    Raises:
        ModelError: It is an error, or has no choice with a message.
    """
    if isinstance(body, Mapping) and body.get("error"):
        raise body_error(target, body)
    choice = _first_choice(body) if isinstance(body, Mapping) else None
    message = choice.get("message") if choice else None
    if choice is not None and message is None and choice.get("finish_reason") in FILTERED:
        message = {"role": "assistant", "content": None}
    if choice is None or not isinstance(message, Mapping):
        what = "with no choices" if choice is None else "with a choice that has no message"
        raise unreadable(target, what, as_json(body), remedy=_ADVICE)
    _check_finish(choice.get("finish_reason"), target)
    usage = body.get("usage") or choice.get("usage")
    return Answer(dict(message), word(choice.get("finish_reason")), usage, word(body.get("model")))


def _first_choice(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The choice with index 0; where none is numbered so, the first."""
    choices = dicts_in(body.get("choices"))
    return next((each for each in choices if _is_first(each)), choices[0] if choices else None)


def _is_first(choice: Mapping[str, Any]) -> bool:
    """Whether it has the number 0, or none."""
    return choice.get("index") in (0, None, "0", "")


def _check_finish(finish: Any, target: str) -> None:
    if finish in ("error", "network_error", "insufficient_system_resource"):
        raise body_error(target, {"code": 500, "message": f"the reply ended with finish_reason {finish!r}"})


class StreamReader:
    """Reads an event stream, and tells of its pieces."""

    def __init__(self, target: str, on_delta: OnDelta | None, split_thoughts: bool = False) -> None:
        self.target = target
        self.done = False
        self.complete = False
        self.shown = False
        self._on_delta = on_delta
        self._thoughts = think_tags.Splitter() if split_thoughts else None
        self._events = EventSplitter()
        self._head: bytes | None = b""
        """What has come, until it tells how to read it."""
        self._type = ""
        self._others: list[dict[str, Any]] = []
        """Pieces of the choice that is read where none has the number 0."""
        self._in_messages = False
        """The pieces are called messages."""
        self._assembly = Assembly(self._call_begins)
        self._finish = ""
        self._usage: Any = None
        self._model = ""
        self._whole: WholeReader | None = None

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
                return None
            data = self._begin(streamed)
        if self._whole is not None:
            return self._whole.feed(data)
        for name, payload in self._events.feed(data):
            self._event(name, payload)

    def finish(self) -> Answer:
        """The whole answer.

        Raises:
            ModelError: The stream ended early, or held no choice.
        """
        if self._head is not None:
            self.feed(self._begin(self._is_announced()))
        if self._whole is not None:
            return self._tell_whole(self._whole.finish())
        if not self.done:
            self._take_rest()
        if not self._assembly.begun:
            self._take_other()
        if not self.complete:
            raise ended_early(self.target)
        if not self._assembly.begun:
            raise unreadable(self.target, "with a stream that has no choices", "", remedy=_ADVICE)
        self._tell_held()
        return Answer(self._assembly.message(), self._finish, self._usage, self._model)

    def _is_announced(self) -> bool:
        return "event-stream" in self._type or not self._type

    def _begin(self, streamed: bool) -> bytes:
        """From here on it is clear how to read; what has come so far. A server that does not stream sends one body."""
        data, self._head = without_mark(self._head or b""), None
        if not streamed:
            self._whole = WholeReader(self.target)
            self._whole.start(self._type)
        return data

    def _take_other(self) -> None:
        """No choice had the number 0: the one that came first counts, as in a whole answer."""
        for choice in self._others:
            if choice.get("index") == self._others[0].get("index"):
                self._choice(choice)

    def _take_rest(self) -> None:
        """An event without its last line end counts when it is whole."""
        for name, payload in self._events.close():
            if all(map(_parses, payload.split("\n"))) or _parses(payload):
                self._event(name, payload)

    def _event(self, name: str, payload: str) -> None:
        try:
            chunk = _decode(payload)
        except (ValueError, RecursionError):
            return self._odd_event(name, payload)
        if type(chunk) is dict:
            if name == "error" or chunk.get("error"):
                raise body_error(self.target, chunk)
            self._chunk(chunk)
        elif chunk != "":  # some servers send "" to keep the connection alive
            raise unreadable(self.target, "with an event that is no object", payload, remedy=_ADVICE)

    def _odd_event(self, name: str, payload: str) -> None:
        """The end mark; several events, from a server that forgets the blank lines between; else damage."""
        lines = payload.split("\n")
        if payload == "[DONE]":
            self.done = self.complete = True
        elif len(lines) > 1 and all(map(_parses, lines)):
            for line in lines:
                self._event(name, line)
        else:
            raise unreadable(
                self.target, "with an event that is not JSON", payload, retryable=True, remedy=_ADVICE
            ) from None

    def _chunk(self, chunk: dict[str, Any]) -> None:
        if not self._model:
            self._model = word(chunk.get("model"))
        self._usage = chunk.get("usage") or self._usage
        if "x_groq" in chunk:
            self._usage = next((each.get("usage") for each in dicts_in([chunk["x_groq"]])), None) or self._usage
        choices = chunk.get("choices")
        if not choices or type(choices) is not list:
            return
        choice = choices[0] if len(choices) == 1 else _first_choice(chunk)
        if type(choice) is not dict:
            return
        if not choice.get("index") or _is_first(choice):
            self._choice(choice)
        elif not self._assembly.begun:
            self._others.append(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        if finish := choice.get("finish_reason"):
            _check_finish(finish, self.target)
            self._finish, self.complete = word(finish), True
        if "usage" in choice:
            self._usage = choice["usage"] or self._usage
        delta = choice.get("delta") or self._message_of(choice)
        if type(delta) is dict:
            content = delta.get("content")
            if len(delta) == 1 and type(content) is str:  # by far the most frequent piece
                self._assembly.add_text(content)
                self._tell_text(content)
            else:
                self._assembly.add(delta)
                self._tell(delta)

    def _message_of(self, choice: dict[str, Any]) -> Any:
        """The piece of a server that calls pieces messages; of a whole message after its pieces, what they left out."""
        message = choice.get("message")
        if type(message) is not dict:
            return None
        if self._assembly.begun and not self._in_messages:
            return self._assembly.lacking(message)
        self._in_messages = True
        return message

    # ── telling of pieces ────────────────────────────────────────────────────────────────────────────────────────

    def _tell(self, delta: dict[str, Any]) -> None:
        if self._on_delta is not None and (thought := reasoning_of(delta)):
            self.shown = True
            self._on_delta(Delta("reasoning", clean(thought)))
        self._tell_text(text_of(delta.get("content")))

    def _tell_text(self, text: str) -> None:
        if not text or self._on_delta is None:
            return
        self.shown = True
        if self._thoughts is None:
            self._on_delta(Delta("text", clean(text)))
            return
        for kind, piece in self._thoughts.feed(text):
            self._on_delta(Delta(kind, clean(piece)))

    def _tell_held(self) -> None:
        """What could have become a tag until now."""
        if self._thoughts is not None and self._on_delta is not None:
            for kind, piece in self._thoughts.close():
                self._on_delta(Delta(kind, clean(piece)))

    def _call_begins(self, name: str) -> None:
        if self._on_delta is not None:
            self.shown = True
            self._on_delta(Delta("call", clean(name)))

    def _tell_whole(self, answer: Answer) -> Answer:
        """Everything at once, for those who wait for pieces."""
        for call in dicts_in(answer.message.get("tool_calls")):
            for function in dicts_in([call.get("function")]):
                self._call_begins(word(function.get("name")))
        self._tell(answer.message)
        self._tell_held()
        return answer


def _parses(payload: str) -> bool:
    return payload == "[DONE]" or is_json(payload)
