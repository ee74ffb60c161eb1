"""A planner without a model: a list or a function decides."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agentnb.core.limits import StopReason
from agentnb.core.model import ModelReply
from agentnb.core.planner import Ask, Decision
from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.models.scripted import read_answer
from agentnb.planners.tool_calling import read_reply

Script = Sequence[Any] | Callable[[State, Sequence[Tool]], Any]


class ScriptedPlanner:
    """Plays its script by the number of the step, so a run that goes on from an older State plays the same again.

    Args:
        script: A list, whose first entry is for step 1; or a function of (state, tools), sync or async, that returns an
            entry. An entry is a Decision, an answer (str), an assistant message such as `calls("add", a=1, b=2)`, or
            a ModelReply. An exception in a list is raised.
    """

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self.script = script if callable(script) else list(script)

    async def plan(self, state: State, tools: Sequence[Tool], ask: Ask) -> Decision:
        """The entry for this step; when the script is out, the run stops."""
        if callable(self.script):
            entry = self.script(state, tools)
            return await _decision(await entry if inspect.isawaitable(entry) else entry, state)
        if state.counters.steps >= len(self.script):
            detail = f"the script of {len(self.script)} decisions is played out"
            return Decision(stop=StopReason.ERROR, detail=f"planners: {detail}")
        return await _decision(self.script[state.counters.steps], state)


async def _decision(entry: Any, state: State) -> Decision:
    if isinstance(entry, Decision):
        return entry
    if isinstance(entry, BaseException):
        raise entry
    decision = read_reply(await read_answer(entry, state.request(), "script", None), state)
    return decision if isinstance(entry, ModelReply) else replace(decision, reply=None)
