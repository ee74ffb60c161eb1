"""Plan and delegate: `delegate(lead, workers)` splits a task, has the parts done side by side, and joins the results.

    goal ──▶ split (a typed plan: parts) ──▶ each part a nested run, in parallel ──▶ join ──▶ answer

It is an ordinary agent with another planner: the plan is its first step, the parts are that step's calls, the answer is
its second step. So limits, pauses, forks, saving and display work as for every run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from agentnb.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.planner import Ask, Decision, Planner
from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.errors import SettingsError
from agentnb.planners.preamble import system_text
from agentnb.planners.tool_calling import ToolCallingPlanner
from agentnb.planners.typed_answer import TypedAnswer
from agentnb.planners.typed_planner import TypedPlanner
from agentnb.team.nested import as_tool

SPLIT = (
    "Do not do the task yourself: split it into at most {most} parts that can be done at the same time, each by one of "
    "the workers below. A worker sees nothing but its part, so write into it all that it must know.\n"
    "Workers:\n{workers}"
)
JOIN = (
    "The parts of the task were done by others; their results follow the plan. Join them into one answer for the user. "
    "Say what is missing where a part failed or was not done."
)


def delegate(lead: Agent, workers: Sequence[Any], most_parts: int = 8) -> Agent:
    """An agent that splits each task among workers, who do the parts in parallel, and joins what they bring.

    Args:
        lead: Its model splits and joins; its limits bound all, the workers' tokens and cost included.
        workers: Agents, or `as_tool(agent, description=...)` of them.
        most_parts: In one plan.

    Raises:
        SettingsError: There are no workers, or the lead has tools of its own.
    """
    if not isinstance(lead, Agent):
        raise SettingsError("delegate() takes an agent and its workers", layer="team", remedy="delegate(lead, [first])")
    if lead.tools:
        what = f"the lead of a delegation calls its workers alone, but has {lead.tools[0].spec.name!r}"
        raise SettingsError(what, layer="team", remedy="Give its tools to a worker.")
    tools = [as_tool(each) if isinstance(each, Agent) else each for each in workers]
    if not tools:
        raise SettingsError("a delegation needs workers", layer="team", remedy="delegate(lead, [first, second])")
    return lead.replace(tools=tools, planner=DelegationPlanner(most_parts))


class DelegationPlanner:
    """Splits first; when every part has its result, joins.

    Args:
        most_parts: In one plan.
        join: Decides on the answer.
    """

    name = "delegate"

    def __init__(self, most_parts: int = 8, join: Planner | None = None) -> None:
        self.most_parts = most_parts
        self.join: Planner = join or ToolCallingPlanner()
        self._splits: dict[tuple[str, ...], TypedPlanner] = {}

    def typed(self, output: TypedAnswer) -> DelegationPlanner:
        """The same, with a typed answer."""
        return DelegationPlanner(self.most_parts, TypedPlanner(ToolCallingPlanner(), output))

    async def plan(self, state: State, tools: Sequence[Tool], ask: Ask) -> Decision:
        """Split, or join once the newest round has all its results."""
        if _parts_are_done(state):
            return await self.join.plan(state, (), _asking(ask, JOIN))
        workers = "\n".join(f"- {tool.spec.name}: {tool.spec.description}" for tool in tools)
        split = self._split(tuple(tool.spec.name for tool in tools))
        decision = await split.plan(state, (), _asking(ask, SPLIT.format(most=self.most_parts, workers=workers)))
        if decision.answer is None:
            return decision
        calls = tuple(ToolCall("", part.worker, json.dumps({"task": part.task})) for part in decision.value)
        return replace(decision, answer=None, value=None, calls=calls, plain=True)

    def _split(self, names: tuple[str, ...]) -> TypedPlanner:
        if names not in self._splits:
            self._splits[names] = TypedPlanner(ToolCallingPlanner(), TypedAnswer(_plan_type(names, self.most_parts)))
        return self._splits[names]


def _plan_type(names: tuple[str, ...], most: int) -> Any:
    """The type of a plan: a list of parts, each for one of these workers."""
    from pydantic import Field, create_model

    who: Any = Literal[names]
    part: Any = create_model("Part", worker=(who, ...), task=(str, Field(min_length=1)))
    return Annotated[list[part], Field(min_length=1, max_length=most)]


def _parts_are_done(state: State) -> bool:
    """Whether parts were done for which there is no answer yet."""
    each: State | None = state
    while each is not None and each.answer is None:
        if each.kind == "act":
            return True
        each = each.parent
    return False


def _asking(ask: Ask, rule: str) -> Ask:
    """The same door to the model, with one rule more in the system prompt."""
    given = ask.instructions
    return Ask(ask.call, replace(given, system_prompt=system_text(given.system_prompt, rule)))
