"""The request that went over the wire: the parts around the shared messages, joined again when asked for.

So the exact request of every step can be kept at no cost: the messages are those of the prompt, each encoded once.
Providers want every call to have its own id in the whole history, but some models begin to count anew in each reply,
and two providers may count alike. So an id that comes again is written otherwise, in the call and in its result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from agentnb.core.messages import Message
from agentnb.core.model import ModelRequest


class Encoding(Protocol):
    """How messages are written for one model."""

    @property
    def key(self) -> str:
        """Names this encoding where a message keeps its bytes; text, since that is compared fastest."""
        ...

    def encode(self, message: Message) -> bytes:
        """The bytes of one message."""
        ...


@dataclass(frozen=True, slots=True)
class Sent:
    """What is the same in every dialect; `body` joins the messages as the dialect wants them."""

    request: ModelRequest
    encoding: Encoding
    head: bytes
    tail: bytes
    curl: str = field(default="", kw_only=True)
    """The curl command that would send a body there, without its body; "" where nobody else could."""

    def body(self) -> bytes:
        """The exact bytes; each message is encoded once in its life."""
        return b"".join((self.head, b",".join(self.fragments(self.messages)), self.tail))

    def fragments(self, messages: Sequence[Message]) -> list[bytes]:
        """The bytes of each message, made once in its life as long as what stands before it stays the same."""
        key, encode = self.encoding.key, self.encoding.encode
        ids = [call.id for message in messages for call in message.calls]
        if len(set(ids)) == len(ids):
            return [message.fragment(key, encode) for message in messages]
        return [
            message.fragment(f"{key} {fresh}", lambda old, fresh=fresh: encode(_with_ids(old, fresh)))  # type: ignore[misc]
            if fresh
            else message.fragment(key, encode)
            for message, fresh in zip(messages, _fresh_ids(messages), strict=True)
        ]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every message of the request, oldest first."""
        return (*self.request.preamble, *self.request.prompt.items[: self.request.end])

    def json(self) -> dict[str, Any]:
        """The JSON body, as sent."""
        body: dict[str, Any] = json.loads(self.body())
        return body


def _fresh_ids(messages: Sequence[Message]) -> Iterator[Mapping[str, str]]:
    """For each message, old id to new: for the calls whose id an earlier message has, and for the results of those."""
    seen: dict[str, int] = {}
    fresh: dict[str, str] = {}
    for message in messages:
        if message.calls:
            again = [call.id for call in message.calls if call.id in seen]
            for call in message.calls:
                seen[call.id] = seen.get(call.id, 0) + 1
            fresh = {id: _unused(id, seen) for id in again}
        yield fresh if message.calls or message.call_id in fresh else {}


def _unused(id: str, seen: dict[str, int]) -> str:
    """The id with the number of its turn, or with the next number that makes it one of its own."""
    while (name := f"{id}_{seen[id]}") in seen:
        seen[id] += 1
    seen[name] = 1
    return name


def _with_ids(message: Message, fresh: Mapping[str, str]) -> Message:
    calls = tuple(replace(call, id=fresh.get(call.id, call.id)) for call in message.calls)
    answers = message.call_id
    return replace(message, calls=calls, call_id=answers and fresh.get(answers, answers))
