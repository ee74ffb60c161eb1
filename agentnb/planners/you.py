"""The planner in which a person plays the model: `Agent(planner="you")`, or `You(...)` with the decisions at hand.

    You()                            a form in a notebook; where nobody can be asked the run ends paused and says why
    You(function)                    function(state, tools), sync or async, is asked
    You([calls("add", a=1, b=2)])    decided beforehand

What a person decides is what a model could: `calls("add", a=1, b=2)`, or the answer as text. The tools run, their
results come back and the limits hold as ever; no model is asked, so there are no tokens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agentnb.core.limits import StopReason
from agentnb.core.planner import Ask, Decision
from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.errors import SettingsError
from agentnb.planners.scripted import ScriptedPlanner
from agentnb.threads import is_async, run_in_thread

NOBODY = (
    "waits for your decision, and nobody can be asked here: a %%agent cell in a live notebook shows a form, elsewhere "
    "write planner=You(function)"
)
USED_UP = "waits for your decision: the decisions given to You are used up"
NOT_YET = "waits for your decision"
form: Callable[[State, Sequence[Tool]], Awaitable[Any]] | None = None
"""Asks the person who sits in front; the notebook puts its own here. It raises Unasked where nobody can be asked."""


class Unasked(Exception):
    """Nobody is there to be asked; reaches nobody."""


class You:
    """A person decides.

    Args:
        decide: A list of decisions, in order; or a function, sync or async, of (state, tools) that returns one. A
            decision is an answer (str), an assistant message such as `calls("add", a=1, b=2)`, a `Decision`, or None
            to leave the run paused. None: a form asks.

    Raises:
        SettingsError: `decide` is neither.
    """

    name = "you"

    def __init__(self, decide: Sequence[Any] | Callable[[State, Sequence[Tool]], Any] | None = None) -> None:
        if isinstance(decide, str) or not (decide is None or callable(decide) or isinstance(decide, Sequence)):
            what = f"You({decide!r}): expected a list of decisions, or a function"
            raise SettingsError(what, layer="planners", remedy='Write You([calls("add", a=1, b=2), "It is 3."]).')
        self.decide = decide

    async def plan(self, state: State, tools: Sequence[Tool], ask: Ask) -> Decision:
        """What the person decides; the run is paused when there is no decision."""
        try:
            entry = await self._entry(state, tools)
        except Unasked as why:
            return Decision(stop=StopReason.PAUSED, detail=str(why))
        if entry is None:
            return Decision(stop=StopReason.PAUSED, detail=NOT_YET)
        return await ScriptedPlanner(lambda state, tools: entry).plan(state, tools, ask)

    async def _entry(self, state: State, tools: Sequence[Tool]) -> Any:
        if self.decide is None:
            if form is None:
                raise Unasked(NOBODY)
            return await form(state, tools)
        if callable(self.decide):
            decided = self.decide
            return await decided(state, tools) if is_async(decided) else await run_in_thread(decided, state, tools)
        place = sum(step.decision.stop is not StopReason.PAUSED for step in state.steps)
        if place >= len(self.decide):
            raise Unasked(USED_UP)
        return self.decide[place]
