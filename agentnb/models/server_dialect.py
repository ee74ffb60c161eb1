"""What the scripted server asks of a dialect, and what the dialects share.

A dialect is a module: it reads a request into chat-completions form, and writes an Answer whole, as a stream or as an
error. `server_chat`, `server_responses`, `server_anthropic`, `server_gemini` and `server_ollama` are the five.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agentnb.core.messages import ToolCall, Usage
from agentnb.core.model import ModelReply
from agentnb.strict_json import encode

MODEL = "scripted"
"""The name in every answer."""
CREATED = 0
"""The time in every answer: none, so that two runs of a script give the same bytes."""
_PIECE = 8
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, in no dialect."""

    reply: ModelReply
    number: int
    """Counts the requests, from 0; makes the ids."""
    body: Mapping[str, Any]
    """The request."""
    calls: tuple[ToolCall, ...]
    """Those of the reply, each with an id."""
    usage: Usage | None
    """As the script says, else counted; None where the script says that it is unknown."""

    @property
    def refusal(self) -> str | None:
        """Why the model refuses; None when it does not."""
        if self.reply.finish == "refusal":
            return self.reply.refusal or self.reply.text or "refused"
        return self.reply.refusal


class Dialect(Protocol):
    """One way to speak; a module is one."""

    def messages(self, body: Mapping[str, Any]) -> list[Json]:
        """The messages of a request, in chat-completions form."""
        ...

    def tools(self, body: Mapping[str, Any]) -> list[Json]:
        """The tools of a request, in chat-completions form."""
        ...

    def whole(self, answer: Answer) -> Json:
        """The answer in one piece."""
        ...

    def frames(self, answer: Answer) -> list[bytes]:
        """The answer as a stream."""
        ...

    def failure(self, message: str, kind: str, status: int) -> Json:
        """An error body."""
        ...


def answer_of(reply: ModelReply, number: int, body: Mapping[str, Any], length: int) -> Answer:
    """The Answer that a reply makes to the request of this length in bytes."""
    named = tuple(
        ToolCall(call.id or f"call_{number}_{place}", call.name, call.arguments)
        for place, call in enumerate(reply.calls)
    )
    counted = Usage(length // 4, max(1, len(reply.text) // 4))
    usage = counted if reply.usage is None else reply.usage
    return Answer(reply, number, body, named, None if usage.total is None else usage)


def pieces(text: str) -> list[str]:
    """The text in small pieces, as a model writes it."""
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def frame(data: Mapping[str, Any], name: str = "") -> bytes:
    """One event of an event stream."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + encode(data) + b"\n\n"


def arguments_of(call: ToolCall) -> Any:
    """The arguments as a value; those that are no JSON as the text that they are."""
    try:
        return json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return call.arguments


def text_of(content: Any) -> str:
    """The text of a message's content: a str, or parts of which the texts count."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") for part in dicts(content))


def dicts(value: Any) -> Iterator[Json]:
    """The objects in what should be a list of them."""
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def chat_call(id: Any, name: Any, arguments: str) -> Json:
    """A tool call in chat-completions form."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_tool(tool: Mapping[str, Any], parameters: Any) -> Json:
    """A tool in chat-completions form."""
    described = {"name": tool.get("name"), "description": tool.get("description"), "parameters": parameters}
    return {"type": "function", "function": {key: value for key, value in described.items() if value is not None}}
