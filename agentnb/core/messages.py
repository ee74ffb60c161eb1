"""What is said in a run: Message, ToolCall, ToolResult, and the Usage that a model reports.

All are frozen. `Message.wire` is the chat-completions form of a message; a model that speaks another dialect, or that
wants its own words back, encodes the message itself and keeps the bytes with `Message.fragment`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from agentnb.strict_json import object_text
from agentnb.text import clean

if TYPE_CHECKING:
    from agentnb.core.state import Counters


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for one tool, once."""

    id: str
    """Unique in its message; the result carries the same id."""
    name: str
    """As the model wrote it; perhaps no tool has it."""
    arguments: str = "{}"
    """JSON text, as the model wrote it."""
    problem: str = ""
    """Why this call is not to be run (cut off, unreadable); "" when it may run."""

    @property
    def wire_arguments(self) -> str:
        """The arguments as valid JSON text of an object, for the history; `{}` where the model wrote none."""
        return object_text(self.arguments)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one call: what the model reads, and what the person keeps."""

    call_id: str
    name: str
    content: str
    """Bounded text for the model, never empty."""
    status: str = "ok"
    """"ok", "error", "timeout", "cancelled", "denied" or "not run"."""
    value: Any = field(default=None, compare=False)
    """The object that the tool returned; it lives as long as this process, a pickle leaves it out."""
    arguments: Mapping[str, Any] | None = None
    """The values that the function was called with, after casting; None when it was not called."""
    version: str = ""
    """Which source ran: `get_weather@2·3fa9c1d0` (name, how often defined, hash)."""
    seconds: float = field(default=0.0, compare=False)
    traceback: str = field(default="", compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What a reader should know: values changed by casting, text cut, code that may still run."""

    used: Counters | None = None
    """What the model calls behind this result used (those of a nested run); the run counts it as its own."""

    @property
    def ok(self) -> bool:
        """Whether the tool ran and returned."""
        return self.status == "ok"

    def ran_with(self, arguments: str) -> ToolResult:
        """This result of a call that a person, or a policy, gave other arguments: the model reads with which it ran."""
        note = f"run with other arguments: {arguments}"
        return replace(self, content=f"({note})\n{self.content}", notes=(note, *self.notes))

    def message(self, asked: str, plain: bool) -> Message:
        """This result as a message of the history; `asked` names the tool, or the whole call where it is plain text."""
        return Message("tool", self.content, (), self.call_id, asked, "", plain, failed=self.status != "ok")

    def __reduce__(self) -> Any:
        return ToolResult, tuple(getattr(self, name) if name != "value" else None for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or of a whole run. None is "the provider said nothing".

    A 0 was counted, or follows: the provider counted the whole and named no such part.
    """

    input: int | None = None
    """Prompt tokens, cached and cache-written ones included."""
    output: int | None = None
    """Reply tokens, reasoning included."""
    cached_input: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    complete: bool = True
    """False when this is a sum in which the numbers of some call are missing."""

    @property
    def total(self) -> int | None:
        """Input plus output, as far as known."""
        return _add(self.input, self.output)

    def plus(self, other: Usage | None) -> Usage:
        """The sum; what one side does not know is taken from the other and the sum is marked incomplete."""
        if other is None or (other.input is None and other.output is None):
            return replace(self, complete=False) if self.complete else self
        counts = ("input", "output", "cached_input", "cache_write", "reasoning")
        sums = {name: _add(getattr(self, name), getattr(other, name)) for name in counts}
        complete = self.complete and other.complete and None not in (other.input, other.output)
        return Usage(**sums, complete=complete)


def _add(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation."""

    role: str
    """"system", "user", "assistant" or "tool"."""
    content: str | None = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    """On a tool message: the call that it answers."""
    name: str = ""
    """On a tool message: the tool; written as text (JSON plan) the whole call."""
    reasoning: str = ""
    plain: bool = False
    """Calls and results written as ordinary text (JSON plan), not as tool calls."""
    raw: Mapping[str, Any] | None = field(default=None, compare=False)
    """The provider's own assistant message, which goes back to that provider unchanged."""
    origin: str = field(default="", compare=False)
    """The provider that `raw` belongs to."""
    failed: bool = False
    """On a tool message: the call brought an error instead of a result; some providers want to be told."""
    _cache: Any = field(default=None, compare=False, repr=False)

    @property
    def wire(self) -> dict[str, Any]:
        """This message in chat-completions form, made afresh from the parsed values."""
        if self.role == "tool":
            if self.plain:
                return {"role": "user", "content": f"Result of {self.name}:\n{self.content}"}
            return {"role": "tool", "tool_call_id": self.call_id, "content": self.content}
        if self.calls and not self.plain:
            return {"role": self.role, "content": self.content, "tool_calls": [_wire_call(call) for call in self.calls]}
        return {"role": self.role, "content": self.content or ""}

    def fragment(self, key: object, encode: Callable[[Message], bytes]) -> bytes:
        """The encoded message, made once for each encoder in use and kept.

        Args:
            key: Names the encoder; the last one used is remembered.
            encode: Makes the bytes.
        """
        if self._cache is None or self._cache[0] != key:
            object.__setattr__(self, "_cache", (key, encode(self)))
        return self._cache[1]  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return Message, tuple(getattr(self, name) if name != "_cache" else None for name in self.__slots__)


def _wire_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.wire_arguments}}


def user(text: str) -> Message:
    """A message from the person (or from the runtime to the model)."""
    return Message("user", clean(text))


def unique_ids(calls: tuple[ToolCall, ...], prefix: str) -> tuple[ToolCall, ...]:
    """The calls with every empty or repeated id replaced by a fresh one; ids that were unique stay.

    Args:
        calls: In the order of the reply.
        prefix: Makes the invented ids the same in every rerun, such as "call_3".
    """
    ids = [call.id for call in calls]
    fresh = (name for n in count(1) if (name := f"{prefix}_{n}") not in ids)
    kept = [bool(own) and own not in ids[:n] for n, own in enumerate(ids)]
    return tuple(c if keep else replace(c, id=next(fresh)) for c, keep in zip(calls, kept, strict=True))
