"""Hand a conversation over: `handoff(triage, billing, support)` is one agent that several stand behind.

    goal ──▶ triage ── handoff_to_billing ──▶ the same State ──▶ billing ── … ──▶ answer

Each agent may call `handoff_to_NAME`; when the round of that call is closed, its turn ends and the other goes on from
the very same State, with its own model, prompt and tools. Who is at work is read from the State alone, so a fork, a
resumed run and a run from a file go on with the right one. The limits are those of the first agent, for all together.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields, replace
from typing import Any

from agentnb.agent import Agent
from agentnb.core.limits import DIGEST, Limits, StopReason, repeated
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.middleware import Listeners, Middleware, NextTool, StateMade, is_middleware
from agentnb.core.state import State
from agentnb.errors import SettingsError
from agentnb.team.nested import about as told_of
from agentnb.team.nested import legal_name
from agentnb.tools.tool import Tool, ToolOptions

PREFIX = "handoff_to_"
ONE_ONLY = "Not done: another handoff of the same reply came first. The conversation can go to one agent only."
_FUSES = ("steps", "tokens", "cost", "seconds", "tool_calls")


def handoff(first: Agent, *others: Agent, about: Mapping[str, str] | None = None) -> Handoff:
    """One agent made of several: the first starts, each can hand the conversation over to each of the others.

    It runs like any agent: `run`, `arun`, `steps`, `%%agent --agent`, `as_tool`. Its limits are the first one's.

    Args:
        first: Starts.
        others: May take over.
        about: Agent name to when it should take over; left out, the beginning of its system prompt tells.

    Raises:
        SettingsError: There is no other agent, or two have the same name.
    """
    if not all(isinstance(each, Agent) for each in (first, *others)):
        raise SettingsError("handoff() takes agents", layer="team", remedy="handoff(triage, billing, support)")
    own = {each.name: getattr(first, each.name) for each in fields(Agent)}
    return Handoff(**own, others=others, about=dict(about or {}))


@dataclass(frozen=True, repr=False)
class Handoff(Agent):
    """The first agent, with those that it can hand over to."""

    others: Sequence[Agent] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    """Agent name to when it should take over."""

    def __post_init__(self) -> None:
        first = Agent(**{each.name: getattr(self, each.name) for each in fields(Agent)})
        object.__setattr__(self, "members", _members((first, *self.others), self.about))
        super().__post_init__()

    @property
    def id(self) -> str:
        """A fingerprint of all of them."""
        return "-".join(each.id for each in self.members.values())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, hands over to {', '.join(each.name for each in self.others)}>"

    def _runtime(self, limits: Limits | None, listeners: Sequence[Any] = (), guard: Any = None) -> Any:
        return _Turns(self.members, limits or self.limits, listeners)  # type: ignore[attr-defined]


class _Turns:
    """One call of `run`: the turns of the agents, one after the other, within one set of limits."""

    def __init__(self, members: Mapping[str, Agent], limits: Limits | None, listeners: Sequence[Any]) -> None:
        self.members, self.limits, self.listeners = members, limits or Limits(), listeners

    async def states(self, state: State) -> AsyncGenerator[State, None]:
        """Each next State, whoever makes it."""
        base = state
        at_work: str | None = at_work_in(state, self.members)
        while at_work is not None:
            limits, turn, at_work = _rest(self.limits, state, base), self.members[at_work], None
            async with aclosing(turn.states(state, limits=limits, listeners=self.listeners)) as made:
                async for state in made:
                    yield state
                    if (at_work := _handed_over(state, self.members)) is not None:
                        break
            if at_work is not None and (stop := self._check(state, base)):
                state = state.stopped(*stop)
                listening = [each for each in (*turn.middleware, *self.listeners) if not is_middleware(each)]
                Listeners(listening).tell(StateMade(state))
                yield state
                return

    def _check(self, state: State, base: State) -> tuple[StopReason, str] | None:
        """Why no further turn may begin: a limit, or the agents only hand over to each other."""
        repeats, rounds = self.limits.repeats, state.counters.steps - base.counters.steps
        ring = state.ring[max(0, len(state.ring) - rounds * DIGEST) :]
        if repeats is not None and repeated(ring, repeats):
            return StopReason.REPETITION, f"the agents handed over to each other {repeats} times without anything new"
        return self.limits.reached(state.counters, base.counters)


def at_work_in(state: State, members: Mapping[str, Agent]) -> str:
    """The name of the agent that a conversation was last handed over to; the first one's when it never was."""
    each: State | None = state
    while each is not None:
        if (name := _handed_over(each, members)) is not None:
            return name
        each = each.parent
    return next(iter(members))


def _handed_over(state: State, members: Mapping[str, Agent]) -> str | None:
    """To whom the round that this State closes hands over."""
    if state.kind != "act" or state.open_calls:
        return None
    called = {result.name for result in state.results if result.ok}
    return next((name for name in members if _door_name(name) in called), None)


def _rest(limits: Limits, state: State, base: State) -> Limits:
    """What is left of the limits; something is, else no turn would begin."""
    used = {name: state.counters.since(base.counters, name) or 0 for name in _FUSES}
    bounds = {name: limit for name in _FUSES if (limit := getattr(limits, name)) is not None}
    whole = {name: limit - used[name] for name, limit in bounds.items()}
    return replace(limits, **{name: left if name in ("cost", "seconds") else int(left) for name, left in whole.items()})


# ── the tools ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _members(agents: Sequence[Agent], about: Mapping[str, str]) -> dict[str, Agent]:
    """Name to agent, each with a tool for each of the others."""
    names = [legal_name(agent.name) for agent in agents]
    if len(agents) < 2 or len(set(names)) < len(names):
        what = f"a handoff is between agents of different names, not {', '.join(names)}"
        raise SettingsError(what, layer="team", remedy='Write Agent(name="billing", ...).')
    if unknown := [name for name in about if name not in [agent.name for agent in agents]]:
        raise SettingsError(f"about= names {unknown[0]!r}, which is none of the agents", layer="team")
    return {agent.name: _with_doors(agent, agents, about) for agent in agents}


def _with_doors(agent: Agent, agents: Sequence[Agent], about: Mapping[str, str]) -> Agent:
    doors = [_door(other, about.get(other.name) or told_of(other)) for other in agents if other.name != agent.name]
    return agent.replace(tools=[*agent.tools, *doors], middleware=[*agent.middleware, _OneOnly()])


def _door(other: Agent, about: str) -> Tool:
    def hand_over(reason: str = "") -> str:
        """Hand the conversation over.

        Args:
            reason: Why, and what the other should look at first.
        """
        return f"The conversation was handed over. You are {other.name} now: go on with it."

    return Tool(hand_over, ToolOptions(_door_name(other.name), f"Hand the conversation over. {about}", thread=False))


def _door_name(name: str) -> str:
    return f"{PREFIX}{legal_name(name)}"[:64]


class _OneOnly(Middleware):
    """Of several handoffs in one reply the first is done."""

    async def tool(self, call: ToolCall, state: State, next: NextTool) -> ToolResult:
        """Refuse a handoff that stands behind another one."""
        handoffs = [each.id for each in state.calls if each.name.startswith(PREFIX)]
        if call.id in handoffs[1:]:
            return ToolResult(call.id, call.name, ONE_ONLY, "error")
        return await next(call, state)
