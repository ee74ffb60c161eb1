"""An agent as another agent's tool: `as_tool(agent)`. A nested run is a State inside a State.

    call ──▶ task ──▶ the other agent's run ──▶ its answer is the content, its State the value, its counters `used`

A call that ends without an answer is an error result that says why and keeps the State all the same. So does one in
which the nested run waits for approval: the outer model reads which call waits, and a person goes on with

    child = run.steps[-1].results[0].value
    done = worker.run(child.approve(child.open_calls[0].id))
    run = agent.run(run.with_result(call_id, done.answer))
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from agentnb.agent import Agent
from agentnb.core.limits import Limits, StopReason
from agentnb.core.messages import ToolResult
from agentnb.core.state import State
from agentnb.errors import Interrupted, SettingsError, ToolError
from agentnb.team.shared_budget import SharedBudget, budget_around, spending
from agentnb.text import counted, shorten
from agentnb.tools.results import error_text, traceback_text
from agentnb.tools.tool import Tool, tool

MOST_DEPTH = 5
"""How deep runs may be nested in each other."""
_MOST_ERROR = 4_000


def as_tool(agent: Agent, name: str = "", description: str = "", **options: Any) -> Tool:
    """The agent as a tool of other agents: `Agent(tools=[as_tool(researcher)])`.

    Each call is a run of its own, from the task that the other model writes; `result.value` is its State. It is bounded
    by the agent's own limits and by what is left of the tokens and the cost of the run around it.

    Args:
        agent: Does the task.
        name: Of the tool; "" takes the agent's name.
        description: When to use it, for the other model; "" takes the beginning of the agent's system prompt.
        options: Those of `@tool`; without `timeout=` only the limits end it.

    Raises:
        SettingsError: It is no agent.
        ToolDefinitionError: The name is illegal, or an option is unknown.
    """
    if not isinstance(agent, Agent):
        what = f"as_tool() got {shorten(repr(agent))}, expected an Agent"
        raise SettingsError(what, layer="team", remedy="A function is a tool as it is.")
    chosen = {"name": name or legal_name(agent.name), "description": description or about(agent), "timeout": None}
    made: Tool = tool(**(chosen | options))(partial(run_nested, Worker(agent)))
    return made


def legal_name(name: str) -> str:
    """An agent's name as the name of a tool: other characters become "_"."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")[:64] or "agent"


def about(agent: Agent) -> str:
    """What another model is told of an agent: the first paragraph of its system prompt, or its tools."""
    first = shorten(agent.system_prompt.strip().partition("\n\n")[0], 300)
    tools = ", ".join(tool.spec.name for tool in agent.tools)
    return f"Another agent, {agent.name}. " + (first or (f"Its tools: {tools}." if tools else "It has no tools."))


class Worker(NamedTuple):
    """An agent that shows what decides its answers, so that the tool's version tells one from another."""

    agent: Agent

    def __repr__(self) -> str:
        return f"<{self.agent.name} {self.agent.id}>"


async def run_nested(worker: Worker, task: str) -> ToolResult:
    """Give a task to another agent.

    Args:
        task: What is to be done, with all that must be known for it: the other agent sees nothing else.
    """
    agent, start = worker.agent, State.start(task)
    if not task.strip():
        raise ToolError("the task is empty: say what is to be done")
    around = budget_around()
    if around is not None and (stop := around.used_up()):
        raise ToolError(f"{agent.name} was not asked: no {stop[0].removeprefix('max_')} are left for it")
    limits: Limits = around.capped(agent.limits) if around else agent.limits  # type: ignore[arg-type, assignment]
    with _inside(agent, task), spending(shared := SharedBudget(limits, start, outer=around)):
        return await _Nested(agent, start, shared).run(limits)


class _Nested:
    """One nested run; its newest State is in hand whatever ends it."""

    def __init__(self, agent: Agent, start: State, shared: SharedBudget) -> None:
        self.agent, self.state, self.shared = agent, start, shared

    async def run(self, limits: Limits) -> ToolResult:
        """Run to the end and tell what came of it; cancelled it still tells, so that nothing it used is lost."""
        try:
            await self._follow(limits)
        except Interrupted:
            raise
        except asyncio.CancelledError:
            return self._result(f"{self.agent.name} was stopped before it had an answer.", "cancelled")
        except Exception as error:
            text = f"{self.agent.name} failed: {error_text(error, _MOST_ERROR)}"
            return self._result(text, "error", traceback_text(error))
        if self.state.answer is not None:
            return self._result(self.state.answer, "ok")
        return self._result(_why(self.agent, self.state), "error")

    async def _follow(self, limits: Limits) -> None:
        async with aclosing(self.agent.states(self.state, limits=limits)) as made:
            async for state in made:
                if not _is_told(state):
                    self.shared.spend(self.state.counters, state.counters)
                self.state = state
                if not (state.finished or state.open_calls) and (stop := self.shared.used_up()):
                    self.state = state.stopped(*stop)
                    return

    def _result(self, content: str, status: str, traceback: str = "") -> ToolResult:
        state = self.state
        tokens = "tokens unknown" if state.usage.total is None else counted(state.usage.total, "token")
        note = f"nested run of {self.agent.name}: {counted(state.counters.steps, 'step')}, {tokens}"
        return ToolResult("", "", content, status, state, traceback=traceback, notes=(note,), used=state.counters)


def _is_told(state: State) -> bool:
    """Whether this State only brought the result of a run nested in it, which has told what it used on its own."""
    return state.kind == "act" and isinstance(state.results[-1].value, State)


def _why(agent: Agent, state: State) -> str:
    """Why a run has no answer, and what it had said so far, for the model of the run around it."""
    if state.stop is StopReason.PAUSED and state.open_calls:
        waiting = ", ".join(f"{call.name}({shorten(call.arguments, 200)})" for call in state.open_calls)
        return f"{agent.name} has no answer yet: a person must approve {waiting}, which was not run."
    said = state.step.reply.text if state.step and state.step.reply else ""
    so_far = f" It had said: {shorten(said, 500)}" if said.strip() else ""
    return f"{agent.name} ended without an answer: {state.detail or 'no reason given'} ({state.stop}).{so_far}"


# ── depth and cycles ─────────────────────────────────────────────────────────────────────────────────────────────────

_chain: ContextVar[tuple[tuple[str, str, str], ...]] = ContextVar("agentnb_nested", default=())


@contextmanager
def _inside(agent: Agent, task: str) -> Iterator[None]:
    """While the block runs, this agent works on this task.

    Raises:
        ToolError: It works on that already, or the runs are nested too deeply.
    """
    around, this = _chain.get(), (agent.id, task, agent.name)
    way = " > ".join([*(name for *_, name in around), agent.name])
    if this in around:
        raise ToolError(f"{agent.name} is working on exactly this task already ({way}): do it yourself")
    if len(around) >= MOST_DEPTH:
        raise ToolError(f"agents may be nested {MOST_DEPTH} deep and this would be deeper ({way}): do it yourself")
    token = _chain.set((*around, this))
    try:
        yield
    finally:
        _chain.reset(token)
