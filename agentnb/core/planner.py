"""How an agent decides: a Planner turns a State and the tools into one Decision.

A Decision is an answer, calls, or "ask again"; whatever made it (tool calls on the wire, a JSON plan, a list, a
person) the loop does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agentnb.core.limits import StopReason
from agentnb.core.messages import ToolCall
from agentnb.core.model import ModelReply, ModelRequest
from agentnb.core.tool import Tool
from agentnb.instructions import Instructions

if TYPE_CHECKING:
    from agentnb.core.state import State


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do next: exactly one of `answer`, `calls`, `again` and `stop` is set."""

    reply: ModelReply | None = None
    """The model call behind it; None when no model was asked."""
    answer: str | None = None
    calls: tuple[ToolCall, ...] = ()
    again: str | None = None
    """Why the reply can't be used, for the model; "" asks again without a word."""
    stop: StopReason | None = None
    detail: str = ""
    """On a stop: what happened, in words."""
    reasoning: str = ""
    plain: bool = False
    """The calls were written as text (JSON plan), so the results go back as text."""
    notes: tuple[str, ...] = ()
    """What a reader should know: repaired JSON, several candidates, a cut reply."""
    error: Exception | None = field(default=None, compare=False)
    """On a failed model call: the error, with its cause."""
    value: Any = field(default=None, compare=False)
    """The typed answer, where one was asked for."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a planner is given to reach the model: `await ask(request)`, through middleware and recordings."""

    call: Callable[[ModelRequest], Awaitable[ModelReply]]
    instructions: Instructions = Instructions()

    async def __call__(self, request: ModelRequest) -> ModelReply:
        """Ask once; to fail raises ModelError, which ends the run."""
        return await self.call(request)


class Planner(Protocol):
    """Decides the next move."""

    async def plan(self, state: State, tools: Sequence[Tool], ask: Ask) -> Decision:
        """Make at most one model call and decide.

        Args:
            state: No call of it is open; `state.request(...)` builds the request.
            tools: In the order of registration.
            ask: The door to the model.
        """
        ...
