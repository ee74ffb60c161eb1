"""The request that went over the wire: the parts around the shared messages, joined again when asked for.

So the exact request of every step can be kept at no cost: the messages are those of the prompt, each encoded once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
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
        key, encode = self.encoding.key, self.encoding.encode
        parts = [message.fragment(key, encode) for message in self.messages]
        return b"".join((self.head, b",".join(parts), self.tail))

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every message of the request, oldest first."""
        return (*self.request.preamble, *self.request.prompt.items[: self.request.end])

    def json(self) -> dict[str, Any]:
        """The JSON body, as sent."""
        body: dict[str, Any] = json.loads(self.body())
        return body
