"""What the panel has in hand: the fields, the agent that they describe, the runs, the State that is looked at.

    fields ──words──▶ the options of a magic line ──▶ the Agent
    runs   name ▶ newest State; `shown` and `position` choose the State that is looked at

The Agent is read from the words that the panel's cells would hold, and every run and fork of the panel is a variable of
the notebook, so the panel can do nothing that a cell can't. No widget and no loop in here.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from agentnb import settings
from agentnb.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.state import State, Step
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.names import tools_of
from agentnb.notebook.options import LIMITS, assemble, parse, quoted


@dataclass
class Fields:
    """What stands in the fields of the panel, as text."""

    goal: str = ""
    model: str = ""
    """A name or a variable; "" is the agent's own."""
    planner: str = ""
    tools: dict[str, bool] = field(default_factory=dict)
    """Tool name to whether its box is checked."""
    limits: dict[str, str] = field(default_factory=dict)
    """Limit to its number as text; "" is none."""
    message: str = ""
    call: str = ""
    """The id of the call that is being edited."""
    arguments: str = ""
    result: str = ""
    reason: str = ""


class Bench:
    """One panel's work.

    Args:
        space: The notebook's variables.
        agent_name: The variable that holds the agent; "" for the notebook's default model and all its tools.
        model: The notebook's default model.
        name: What the first run is called.
        goal: Stands in the goal's field at first.
    """

    def __init__(
        self,
        space: MutableMapping[str, Any],
        agent_name: str = "",
        model: Any = None,
        name: str = "run",
        goal: str = "",
    ) -> None:
        self.space = space
        self.agent_name = agent_name
        self.default_model = model
        self.name = name
        self.runs: dict[str, State] = {}
        self.shown = ""
        """The run that is looked at; "" while there is none."""
        self.position: int | None = None
        """Which State of it, from 0; None follows the newest."""
        self._goal_then = goal
        """What stood in the goal's field when that run came to be looked at."""
        self._base: tuple[tuple[Any, ...], tuple[Any, ...], Agent] | None = None
        base = self.base
        self.fields = Fields(goal, planner=base.planner if isinstance(base.planner, str) else "")
        self.fields.limits = _limit_texts(base)

    # ── the agent ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def base(self) -> Agent:
        """The agent before the fields change it; made again only when what it is made of has changed."""
        made_of = (self.space.get(self.agent_name), *tools_of(self.space))
        key = (settings.whole("MAX_ITERATIONS"), *map(id, made_of))
        if self._base is None or self._base[0] != key:
            agent = self.agent(f"--agent {self.agent_name}" if self.agent_name else "")
            self._base = key, made_of, agent  # kept, so that each id stays its own
        return self._base[2]

    def agent(self, words: str | None = None) -> Agent:
        """The Agent that the fields, or these words of a magic line, describe.

        Raises:
            AgentnbError: A word makes no sense.
        """
        return assemble(
            parse(AgentMagics.agent, self.words() if words is None else words), self.default_model, self.space
        )

    @property
    def tools(self) -> dict[str, Any]:
        """Name to tool, newest definition: those of the agent, then the others of the notebook."""
        own = {tool.spec.name: tool for tool in self.base.tools}
        return {**own, **{tool.spec.name: tool for tool in tools_of(self.space) if tool.spec.name not in own}}

    @property
    def versions(self) -> dict[str, str]:
        """Tool name to the version that the agent in its variable was made with."""
        agent = self.space.get(self.agent_name)
        return {tool.spec.name: tool.spec.version for tool in agent.tools} if isinstance(agent, Agent) else {}

    @property
    def checked(self) -> tuple[Any, ...]:
        """The tools that the agent may use; at first those that it came with."""
        own = {tool.spec.name for tool in self.base.tools}
        return tuple(tool for name, tool in self.tools.items() if self.fields.tools.get(name, name in own))

    def words(self, **limits: str) -> str:
        """The options that make the agent of the fields: what differs from the agent in its variable.

        Args:
            limits: Instead of those in the fields.
        """
        base, words = self.base, [f"--agent {self.agent_name}"] if self.agent_name else []
        if self.fields.model.strip():
            words.append(f"-m {quoted(self.fields.model.strip())}")
        if self.fields.planner and self.fields.planner != base.planner:
            words.append(f"--planner {self.fields.planner}")
        words += self._tool_words(base)
        before = _limit_texts(base)
        for name, text in {**self.fields.limits, **limits}.items():
            if text.strip() != before[name]:
                words.append(f"--{name.replace('_', '-')} {quoted(text.strip() or 'none')}")
        return " ".join(words)

    def _tool_words(self, base: Agent) -> list[str]:
        chosen = self.checked
        if [tool.spec.version for tool in chosen] == [tool.spec.version for tool in base.tools]:
            return []
        return [f"-t {','.join(tool.spec.name for tool in chosen) or 'none'}"]

    # ── the runs ─────────────────────────────────────────────────────────────────────────────────────────────────

    def keep(self, name: str, state: State) -> None:
        """This is the newest State of that run, here and in the notebook's variable."""
        self.runs[name] = self.space[name] = state

    def show(self, name: str, position: int | None = None) -> None:
        """Look at a State of a run, or follow its newest."""
        if name != self.shown:
            self._goal_then = self.fields.goal
        self.shown, self.position = name, position

    @property
    def states(self) -> tuple[State, ...]:
        """Every State of the run that is looked at."""
        return self.runs[self.shown].path() if self.shown else ()

    @property
    def newest(self) -> State | None:
        """The newest State of that run."""
        return self.runs.get(self.shown)

    @property
    def state(self) -> State | None:
        """The State that is looked at."""
        if self.position is None:
            return self.newest
        states = self.states
        return states[min(self.position, len(states) - 1)] if states else None

    @property
    def has_new_goal(self) -> bool:
        """Whether a goal was written since this run came to be looked at, and it is another than the run's."""
        goal = self.fields.goal.strip()
        return self.newest is not None and goal not in ("", self._goal_then.strip(), self.newest.goal.strip())

    @property
    def step(self) -> Step | None:
        """The step to which that State belongs, as far as it had come by then."""
        return self.state.step if self.state is not None else None

    @property
    def call(self) -> ToolCall | None:
        """The call that is being edited: the chosen one of that step, else the first that is open, else the first."""
        calls = self.step.calls if self.step else ()
        chosen = next((call for call in calls if call.id == self.fields.call), None)
        return chosen or next((call for call in calls if self.is_open(call)), calls[0] if calls else None)

    def is_open(self, call: ToolCall) -> bool:
        """Whether the call has no result yet in the State that is looked at."""
        return self.state is not None and call in self.state.open_calls

    def fresh_name(self) -> str:
        """A variable that is still free: run, run_2, run_3."""
        number, name = 1, self.name
        while name in self.space:
            number += 1
            name = f"{self.name}_{number}"
        return name

    @property
    def before_step(self) -> int | None:
        """k, when `run.at(k)` is the State that is looked at."""
        states = self.states
        after = states[self.position + 1] if self.position is not None and self.position + 1 < len(states) else None
        return after.counters.steps if after is not None and after.kind == "plan" else None


def _limit_texts(agent: Agent) -> dict[str, str]:
    values = {name: getattr(agent.limits, name) for name in LIMITS}
    return {name: "" if value is None else str(value) for name, value in values.items()}
