"""Two doors into the loop: a Middleware wraps and may change; a Listener only looks.

Middleware are called in their order, the first is the outermost. Leave out the methods that you don't need.
A Listener is any callable that takes one event; if it raises, that is logged once and it is dropped. One object may be
both.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.model import Delta, ModelReply, ModelRequest, Next

if TYPE_CHECKING:
    from agentnb.core.limits import Limits
    from agentnb.core.state import State

log = logging.getLogger("agentnb")


@dataclass(slots=True)
class Budget:
    """What one call of `run` may use, and how far it has come; one object for all of the call."""

    limits: Limits
    base: State
    """Where the call started: what counts is the difference to its counters."""
    state: State
    """The newest State of the call."""


current_budget: ContextVar[Budget | None] = ContextVar("agentnb_budget", default=None)
budget = current_budget.get
"""The Budget of the run around the caller: in a middleware, a listener, a planner, a tool; None outside of runs."""

NextTool = Callable[[ToolCall, "State"], Awaitable[ToolResult]]


class Middleware:
    """Derive from it and override what you need."""

    async def before(self, state: State) -> State:
        """Called before each plan; the State that it returns is planned from, this one when it returns none."""
        return state

    async def model(self, request: ModelRequest, next: Next) -> ModelReply:
        """Around each model call."""
        return await next(request)

    async def tool(self, call: ToolCall, state: State, next: NextTool) -> ToolResult:
        """Around each tool call; to raise ApprovalNeeded leaves the call open, and the run pauses."""
        return await next(call, state)


class StepStarted(NamedTuple):
    """The model is about to be asked for step `number`."""

    number: int
    state: State


class Streamed(NamedTuple):
    """A piece of the reply arrived."""

    delta: Delta


class ToolStarted(NamedTuple):
    """A tool is about to run."""

    call: ToolCall


class ToolFinished(NamedTuple):
    """A tool has answered."""

    call: ToolCall
    result: ToolResult


class StateMade(NamedTuple):
    """The run went on to this State."""

    state: State


class RunFailed(NamedTuple):
    """The run ended with an error that travels up to the caller: a setting, a recording, a bug in a middleware."""

    state: State
    """How far it had come."""
    error: Exception


Event = StepStarted | Streamed | ToolStarted | ToolFinished | StateMade | RunFailed
Listener = Callable[[Event], Any]


def overriding(middleware: Sequence[Any], method: str) -> list[Any]:
    """The bound `method` of each middleware that has its own, in order."""
    stock = getattr(Middleware, method)
    return [getattr(each, method) for each in middleware if getattr(type(each), method, stock) is not stock]


def is_middleware(each: Any) -> bool:
    """Whether it wraps (has before, model or tool) rather than only listens."""
    methods = [getattr(each, name, None) for name in ("before", "model", "tool")]
    return not isinstance(each, type) and any(map(callable, methods))


def chain(wrappers: Sequence[Any], innermost: Any) -> Any:
    """One callable that goes through every wrapper, the first outermost; each gets the rest as `next`."""
    for wrapper in reversed(wrappers):
        innermost = partial(wrapper, next=innermost)
    return innermost


class Listeners:
    """Hands each event to every listener; one that fails is logged once and dropped.

    A listener with `wants_deltas = False` does not ask for pieces of a reply while it arrives.
    """

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.live = list(listeners)
        self.streaming = any(getattr(each, "wants_deltas", True) for each in listeners)

    def tell(self, event: Event, around: Budget | None = None) -> None:
        """Tell everyone, in order; `around` is the Budget where none stands around the caller."""
        for listener in tuple(self.live):
            token = current_budget.set(around or budget())
            try:
                listener(event)
            except Exception:
                with suppress(ValueError):  # another run, in another thread, was quicker
                    self.live.remove(listener)
                log.warning("runtime: listener %r failed and is dropped for this run", listener, exc_info=True)
            finally:
                current_budget.reset(token)
