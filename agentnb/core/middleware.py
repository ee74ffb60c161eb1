"""Two doors into the loop: a Middleware wraps and may change; a Listener only looks.

Middleware are called in their order, the first is the outermost. Leave out the methods that you don't need.
A Listener is any callable that takes one event; if it raises, that is logged once and it is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.model import Delta, ModelReply, ModelRequest, Next

if TYPE_CHECKING:
    from agentnb.core.state import State

log = logging.getLogger("agentnb")

NextTool = Callable[[ToolCall, "State"], Awaitable[ToolResult]]


class Middleware:
    """Derive from it and override what you need."""

    async def before(self, state: State) -> State:
        """Called before each plan; the State that it returns is planned from."""
        return state

    async def model(self, request: ModelRequest, next: Next) -> ModelReply:
        """Around each model call."""
        return await next(request)

    async def tool(self, call: ToolCall, state: State, next: NextTool) -> ToolResult:
        """Around each tool call."""
        return await next(call, state)


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The model is about to be asked for step `number`."""

    number: int
    state: State


@dataclass(frozen=True, slots=True)
class Streamed:
    """A piece of the reply arrived."""

    delta: Delta


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool is about to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool has answered."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class StateMade:
    """The run went on to this State."""

    state: State


Event = StepStarted | Streamed | ToolStarted | ToolFinished | StateMade
Listener = Callable[[Event], Any]

_STOCK = {"before": Middleware.before, "model": Middleware.model, "tool": Middleware.tool}


def overriding(middleware: Sequence[Any], method: str) -> list[Any]:
    """The bound `method` of each middleware that has its own, in order."""
    found = []
    for each in middleware:
        own = getattr(each, method, None)
        if own is not None and getattr(type(each), method, None) is not _STOCK[method]:
            found.append(own)
    return found


def is_middleware(each: Any) -> bool:
    """Whether it wraps (has before, model or tool) rather than only listens."""
    return not isinstance(each, type) and any(callable(getattr(each, name, None)) for name in _STOCK)


def chain_model(wrappers: Sequence[Any], innermost: Next) -> Next:
    """One callable that goes through every wrapper, the first outermost."""
    for wrapper in reversed(wrappers):
        innermost = partial(wrapper, next=innermost)
    return innermost


def chain_tool(wrappers: Sequence[Any], innermost: NextTool) -> NextTool:
    """The same for tools."""
    for wrapper in reversed(wrappers):
        innermost = partial(wrapper, next=innermost)
    return innermost


class Listeners:
    """Hands each event to every listener; one that fails is logged once and dropped."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.live = list(listeners)

    def __bool__(self) -> bool:
        return bool(self.live)

    @property
    def streaming(self) -> bool:
        """Whether anyone wants pieces of a reply while it arrives; `wants_deltas = False` on a listener says no."""
        return any(getattr(listener, "wants_deltas", True) for listener in self.live)

    def tell(self, event: Event) -> None:
        """Tell everyone, in order."""
        for listener in tuple(self.live):
            try:
                listener(event)
            except Exception:
                self.live.remove(listener)
                log.warning("runtime: listener %r failed and is dropped for this run", listener, exc_info=True)
