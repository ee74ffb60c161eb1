"""A call that once paused a run for approval stays open until a person, or a policy, decides it.

So a paused run may go on with another agent, or out of a file, without the middleware that had paused it, and nothing
that nobody approved runs.
"""

from __future__ import annotations

from agentnb.core.limits import StopReason
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.middleware import Middleware, NextTool
from agentnb.core.state import State
from agentnb.errors import ApprovalNeeded


class Undecided(Middleware):
    """The innermost door of a run that goes on from a pause: these calls wait on.

    Args:
        step: The step that made them.
        ids: Theirs.
    """

    def __init__(self, step: int, ids: frozenset[str]) -> None:
        self.step = step
        self.ids = ids

    async def tool(self, call: ToolCall, state: State, next: NextTool) -> ToolResult:
        """Ask for approval where it is missing."""
        waits = call.id in self.ids and state.counters.steps == self.step and not call.problem
        if waits and call.id not in dict(state.approvals):
            raise ApprovalNeeded
        return await next(call, state)


def undecided(state: State) -> Undecided | None:
    """What keeps the calls open that the newest pause of this round left undecided; None when nothing waits."""
    above: State | None = state
    while above is not None and state.open_calls:
        if above.stop is StopReason.PAUSED:
            return Undecided(state.counters.steps, frozenset(call.id for call in state.open_calls))
        if above.kind == "plan":
            break
        above = above.parent
    return None
