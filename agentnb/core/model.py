"""What a model is: `reply(request, on_delta) -> ModelReply`; and `ask`, the one door of every model call.

A ModelRequest points into the shared prompt of a State; nothing is copied until a model reads it. Recording and
logging of model calls stand at the door (`doors`), so no model and no caller knows of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, Protocol

from agentnb.core.messages import Message, ToolCall, Usage
from agentnb.core.tool import ToolSpec

_growing = Lock()


class Prompt:
    """The shared, append-only list of messages of which each State owns the first `end`."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Message] = ()) -> None:
        self.items = list(items)

    def grown(self, end: int, added: tuple[Message, ...]) -> Prompt:
        """A prompt of the first `end` messages and then `added`; itself when nothing stands there yet."""
        with _growing:
            if len(self.items) == end:
                self.items.extend(added)
                return self
        return Prompt([*self.items[:end], *added])


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request, whatever the provider: what is said, what may be called, what the user wants sent."""

    preamble: tuple[Message, ...] = ()
    """System prompt and worked examples, sent before the prompt."""
    prompt: Prompt = field(default_factory=Prompt)
    end: int = 0
    """How many messages of `prompt` belong to this request."""
    specs: tuple[ToolSpec, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Sent as they are, such as {"temperature": 0}; nothing else is added."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema that the reply's text should follow, by the best means that the provider has."""

    @property
    def history(self) -> tuple[Message, ...]:
        """Every message of this request, oldest first."""
        return (*self.preamble, *self.prompt.items[: self.end])

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in chat-completions form, made afresh."""
        return [message.wire for message in self.history]

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools in chat-completions form."""
        return [spec.wire for spec in self.specs]

    def json(self) -> dict[str, Any]:
        """The request in chat-completions form: what a model without a wire of its own was asked."""
        body: dict[str, Any] = {"messages": self.messages, **self.parameters}
        if self.specs:
            body["tools"] = self.tools
        return body if self.schema is None else {**body, "schema": self.schema}


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model answered, read from one body or one stream."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    finish: str = "stop"
    """"stop", "tool_calls", "length", "content_filter" or "refusal"."""
    refusal: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    """US dollars, where the provider says it or the price is known."""
    raw: Mapping[str, Any] | None = field(default=None, compare=False)
    """The provider's own assistant message."""
    origin: str = field(default="", compare=False)
    """The provider that `raw` belongs to and that alone gets it back."""
    model: str = ""
    """The model's name as it was asked, such as "openai:gpt-5-mini"."""
    answered_as: str = ""
    """The name that the provider gave in its answer."""
    request: Any = field(default=None, compare=False, repr=False)
    """What was sent: the ModelRequest, or a small picklable value whose `json()` rebuilds the exact body on demand."""
    seconds: float = field(default=0.0, compare=False)
    """Without the waits before a retry and for a free place, which are in `notes`."""
    notes: tuple[str, ...] = ()
    """What happened on the way: retries, "recovered from text"."""

    def message(self, calls: tuple[ToolCall, ...], plain: bool = False) -> Message:
        """This reply as the assistant message of the history, with these calls (their ids made unique)."""
        # null and "" go back as they came
        content = self.text or self.refusal or ("" if not calls or (self.raw or {}).get("content") == "" else None)
        return Message("assistant", content, calls, None, "", self.reasoning, plain, self.raw, self.origin)


class Delta(NamedTuple):
    """A piece of a reply while it arrives.

    `kind` is "text", "reasoning", "call" (a tool call takes shape: its name), "note" (waiting, retrying, in words) or
    "restart" (the call begins again: drop what was shown).
    """

    kind: str
    text: str = ""


OnDelta = Callable[[Delta], None]
Next = Callable[[ModelRequest], Awaitable[ModelReply]]


class Model(Protocol):
    """Anything that answers a request."""

    name: str

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Answer, or raise ModelError. With `on_delta` pieces are reported while they arrive."""
        ...


class Door(Protocol):
    """Stands in front of every model call of this process: a recording, a log."""

    async def reply(self, model: Model, request: ModelRequest, on_delta: OnDelta | None, onward: Next) -> ModelReply:
        """Answer itself, or `await onward(request)`."""
        ...


doors: list[Door] = []
"""The doors that stand open now, outermost first."""


async def ask(model: Model, request: ModelRequest, on_delta: OnDelta | None = None, inner: Any = None) -> ModelReply:
    """Ask a model once, through every open door; every model call of the product comes through here.

    `inner` is for the doors themselves: those that are still to pass.
    """
    if not (waiting := doors if inner is None else inner):
        return await model.reply(request, on_delta)
    first, *rest = waiting
    return await first.reply(model, request, on_delta, lambda onward: ask(model, onward, on_delta, rest))
