"""What a request says, apart from how it is written: the form in which a recording keeps and compares requests.

A message is known by its content and all that was said before it, so a conversation is one id and a long run is stored
once. Not part of it: the order of JSON keys, whether the reply is streamed, the ids of calls, headers and secrets.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.messages import Message
from agentnb.core.model import ModelReply, ModelRequest, Prompt
from agentnb.text import clean, mask

START = ""
"""The id of the empty conversation."""
_HOW_SENT = ("stream", "stream_options", "headers", "extra_headers", "extra_query", "timeout", "prompt_cache_key")
_WHO_AND_WHEN = ("metadata", "user", "safety_identifier", "session_id", "request_id", "trace_id", "traceparent")
NOT_CONTENT = frozenset((*_HOW_SENT, *_WHO_AND_WHEN, "idempotency_key", "timestamp"))
"""Parameters that do not change what is asked."""
_PRIVATE = re.compile(r"(?i)(proxy-)?authorization|(x-)?api[-_]?key|(set-)?cookie")
_OF_RUNS = ("decision", "reasoning", "arguments", "counters", "approvals", "traceback", "tool_seconds", "model_seconds")
_OF_REPLIES = ("value_is_text", "left_out", "answered_as", "cache_write", "cached_input", "complete", "known_cost")
_OF_REQUESTS = (
    "messages",
    "tool_calls",
    "tool_call_id",
    "function",
    "parameters",
    "description",
    "properties",
    "required",
)
_OTHERS = ("preamble", "encoding", "unpriced", "retryable", "retry_after")
_OUR_NAMES = frozenset((*_OF_RUNS, *_OF_REPLIES, *_OF_REQUESTS, *_OTHERS))
"""Names of our files that are long enough to be taken for a piece of a secret."""
_KEPT_PROMPTS = 64
HUGE_BITS = 14_000
"""From so many bits on Python may refuse a number's decimal digits."""


def tidy(value: Any) -> Any:
    """The value as strict JSON without secrets: what JSON can't say becomes text, headers that hold keys are hidden."""
    if isinstance(value, str):
        return mask(clean(value))
    if isinstance(value, Mapping):
        return {_tidy_key(key): _hidden_or_tidy(str(key), each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [tidy(each) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() >= HUGE_BITS:
        return hex(value)
    text = clean(str(value))
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_number and mask(text) == text else mask(text)


def _tidy_key(key: Any) -> str:
    text = clean(str(key))
    return text if text in _OUR_NAMES else mask(text)


def _hidden_or_tidy(key: str, value: Any) -> Any:
    return "[hidden]" if isinstance(value, str) and _PRIVATE.fullmatch(key) else tidy(value)


def encode(value: Any) -> str:
    """One line of JSON with sorted keys: equal text for equal content."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)


def digest(value: Any) -> str:
    """A short name for this content: 16 hex digits."""
    return hashlib.sha256(encode(value).encode()).hexdigest()[:16]


@dataclass(slots=True)
class _Told:
    """A shared prompt, as far as it has been named; `places` are the calls of its newest assistant message."""

    preamble: tuple[Message, ...]
    prompt: Prompt
    ids: list[str] = field(default_factory=lambda: [START])
    places: dict[str, int] = field(default_factory=dict)


class Conversations:
    """Every message by its id: what it says and the id of the one before it.

    Naming the next request of a run looks only at the messages that were added.
    """

    def __init__(self) -> None:
        self.messages: dict[str, tuple[str, dict[str, Any]]] = {}
        self._told: OrderedDict[tuple[int, int], _Told] = OrderedDict()

    def id_of(self, request: ModelRequest) -> str:
        """The id of the request's last message."""
        told = self._known(request)
        position = len(request.preamble) + request.end
        while len(told.ids) <= position:
            number = len(told.ids) - 1
            inside = number - len(request.preamble)
            message = request.preamble[number] if inside < 0 else request.prompt.items[inside]
            told.ids.append(self.add(told.ids[-1], _canonical_message(message, told.places)))
        return told.ids[position]

    def add(self, after: str, message: dict[str, Any]) -> str:
        """The id of a message that follows the one with the id `after`."""
        name = digest([after, message])
        self.messages.setdefault(name, (after, message))
        return name

    def replied(self, after: str, reply: ModelReply) -> set[str]:
        """The ids that a message of this reply has there, be its calls told as calls or as text."""
        messages = (reply.message(reply.calls, plain) for plain in (False, True))
        return {digest([after, _canonical_message(message, {})]) for message in messages}

    def following(self, names: set[str]) -> set[str]:
        """Those of these messages that are here, and all that were said after them."""
        found = set[str]()
        for name, (after, _) in self.messages.items():  # each stands behind the one that it follows
            if name in names or after in found:
                found.add(name)
        return found

    def path(self, name: str) -> list[str]:
        """The ids from the first message to this one."""
        names = []
        while name != START:
            names.append(name)
            name = self.messages[name][0]
        return names[::-1]

    def said(self, name: str) -> list[dict[str, Any]]:
        """The messages up to this one."""
        return [self.messages[each][1] for each in self.path(name)]

    def _known(self, request: ModelRequest) -> _Told:
        key = (id(request.preamble), id(request.prompt))
        told = self._told.get(key)
        if told is None:
            told = self._told[key] = _Told(request.preamble, request.prompt)
            if len(self._told) > _KEPT_PROMPTS:
                self._told.popitem(last=False)
        self._told.move_to_end(key)
        return told


def _canonical_message(message: Message, places: dict[str, int]) -> dict[str, Any]:
    """The message in chat form; its calls are numbered by their place, since ids differ from one run to the next."""
    wire = message.wire
    if message.role == "assistant":
        places.clear()
        places.update({call.id: number for number, call in enumerate(message.calls, 1)})
    if "tool_calls" in wire:
        wire["tool_calls"] = [_canonical_call(call) for call in wire["tool_calls"]]
    if "tool_call_id" in wire:
        wire["tool_call_id"] = places.get(wire["tool_call_id"], 0)
    tidied: dict[str, Any] = tidy(wire)
    return tidied


def _canonical_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"name": function["name"], "arguments": json.loads(function["arguments"])}


def canonical_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that change what is asked."""
    return {name: tidy(value) for name, value in sorted(parameters.items()) if name not in NOT_CONTENT}
