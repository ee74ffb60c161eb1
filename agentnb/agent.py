"""One assembled agent: who it is, what it can do, how it decides, and three ways to run it.

    run     the whole run, from anywhere: a script, a cell, a thread, inside another agent's tool
    arun    the same, awaited
    steps   each State as it is made

All three drive `Runtime.states`; an Agent holds no progress and is a frozen value, so `replace` makes another one.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from agentnb import bridge, settings, strict_json
from agentnb.core.limits import Limits
from agentnb.core.middleware import StateMade, is_middleware
from agentnb.core.planner import Planner
from agentnb.core.runtime import Runtime
from agentnb.core.state import State
from agentnb.errors import AgentInterrupted, SettingsError, keep_state
from agentnb.instructions import Example, Instructions
from agentnb.middleware.undecided import undecided
from agentnb.models.named import to_model
from agentnb.planners.preamble import to_example
from agentnb.planners.tool_calling import ToolCallingPlanner
from agentnb.records.runnable import check_runnable
from agentnb.text import counted, shorten
from agentnb.threads import is_async
from agentnb.tools.tool import to_tools


@dataclass(frozen=True, repr=False)
class Agent:
    """Who runs: model, tools, prompt, planner and limits in one value."""

    model: Any = None
    """"provider:model", a Model, or any callable; None is chosen when it is first asked (README, "Who answers")."""
    tools: Sequence[Any] = ()
    """Tools, plain functions, and lists of them, such as the tools of an MCP server."""
    system_prompt: str = ""
    name: str = "assistant"
    planner: str | Planner = "tools"
    """"tools" (tool calling), "json" (a JSON plan), "you" (a person decides) or a Planner."""
    limits: Limits | None = None
    """None: `Limits()`, with MAX_ITERATIONS of the environment as its steps."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Sent with every request as they are: {"temperature": 0}. Nothing else is sent."""
    examples: Sequence[Any] = ()
    """Worked examples: `Example`, or (goal, [(tool, arguments, result), ...], answer), or the same as a dict."""
    middleware: Sequence[Any] = ()
    """Middleware and listeners; the first is outermost."""
    output: Any = None
    """The type of the answer (a pydantic model, a dataclass, list[str], int, ...): `run.value` is one."""

    def __post_init__(self) -> None:
        tools = to_tools(self.tools)
        put = object.__setattr__
        put(self, "tools", tools)
        put(self, "limits", _limits(self.limits))
        put(self, "middleware", tuple(map(_listening, self.middleware)))
        put(self, "_model", to_model(self.model))
        put(self, "_planner", _planner(self.planner) if self.output is None else _typed(self.planner, self.output))
        put(self, "_instructions", self._instruct(tools))
        self._runtime(None)

    def _instruct(self, tools: tuple[Any, ...]) -> Instructions:
        parameters = dict(self.parameters)
        temperature = settings.number("TEMPERATURE")
        if temperature is not None:
            parameters.setdefault("temperature", temperature)
        for name, value in parameters.items():
            _check_sendable(name, value)
        return Instructions(self.system_prompt, _examples(self.examples, tools), parameters)

    # ── to run ───────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, start: str | State, *, limits: Limits | None = None) -> State:
        """Run to an answer or another stop, and return the last State.

        Args:
            start: A goal, or a State to go on from (after a limit, a pause, an edit, a fork).
            limits: For this call, instead of the agent's own; counted from `start`.

        Raises:
            AgentInterrupted: A person interrupted; its `state` goes on with `agent.run(error.state)`.
            AgentnbError: A setting or a recording makes the run impossible; the run so far is its `state`, as it is
                for any error of a planner or a middleware.
        """
        kept = _Kept(self._start(start))
        try:
            return bridge.run_sync(self._follow(kept, limits))
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            raise AgentInterrupted(_interrupted(kept.state), kept.state) from error
        except Exception as error:
            error.state = kept.state  # type: ignore[attr-defined]
            raise

    async def arun(self, start: str | State, *, limits: Limits | None = None) -> State:
        """The same as `run`, awaited.

        Raises:
            asyncio.CancelledError: The task was cancelled; the error's `state` is the run so far.
        """
        kept = _Kept(self._start(start))
        try:
            return await bridge.together(self._follow(kept, limits))
        except asyncio.CancelledError as error:
            keep_state(error, kept.state)
            raise

    def steps(self, start: str | State, *, limits: Limits | None = None) -> Iterator[State]:
        """Each State as it is made, from a plan, a tool's answer or a stop. To leave early is to stop the run.

        Calls that had begun when the caller left are not in the State in hand: going on from it starts them again.

        Raises:
            AgentInterrupted: A person interrupted; the last State came before it.
        """
        return bridge.iterate(self.states(start, limits=limits))

    async def states(
        self, start: str | State, *, limits: Limits | None = None, listeners: Sequence[Any] = ()
    ) -> AsyncGenerator[State, None]:
        """Each State as it is made; what `run`, `steps` and the cell magic stand on.

        Args:
            start: A goal or a State.
            limits: For this call.
            listeners: Called with every event of this call, beside the agent's own.
        """
        state = self._start(start)
        async with aclosing(self._runtime(limits, listeners, undecided(state)).states(state)) as made:  # type: ignore[type-var]
            async for state in made:
                yield state

    def replace(self, **changes: Any) -> Agent:
        """This agent with other arguments: `agent.replace(model="anthropic:...").run(run.at(2))`."""
        return replace(self, **changes)

    @property
    def id(self) -> str:
        """A short fingerprint of everything that decides what is sent: equal agents have equal ids."""
        tools = [(tool.spec.name, tool.spec.version.rpartition("·")[2]) for tool in self.tools]
        planner = self.planner if isinstance(self.planner, str) else type(self.planner).__name__
        parts = [self.name, self._model.name, planner, self._instructions, tools]  # type: ignore[attr-defined]
        if self.output is not None:
            parts.append(self._planner.output.schema)  # type: ignore[attr-defined]
        return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=6).hexdigest()

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        tools = ", ".join(tool.spec.name for tool in self.tools) or "no tools"
        return f"<Agent {self.name!r}: {self._model.name or 'the default model'}, {tools}>"  # type: ignore[attr-defined]

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, start: str | State) -> State:
        if isinstance(start, State):
            check_runnable(start, self.tools)
            return start
        if not isinstance(start, str) or not start.strip():
            what = f"a run starts from a goal or a State, not from {start!r}"
            raise SettingsError(what, layer="agent", remedy='agent.run("What is ...?")')
        return State.start(start)

    async def _follow(self, kept: _Kept, limits: Limits | None) -> State:
        async with aclosing(self.states(kept.state, limits=limits)) as made:
            async for kept.state in made:
                pass
        return kept.state

    def _runtime(self, limits: Limits | None, listeners: Sequence[Any] = (), guard: Any = None) -> Runtime:
        more = (*filter(None, (guard,)), *listeners, *((debug_line,) if settings.debug() else ()))
        return Runtime(
            self._model,  # type: ignore[attr-defined]
            self._planner,  # type: ignore[attr-defined]
            self.tools,
            (*self.middleware, *more),
            limits or self.limits,
            instructions=self._instructions,  # type: ignore[attr-defined]
        )


class _Kept:
    """The newest State of a run, in hand whatever stops it."""

    def __init__(self, state: State) -> None:
        self.state = state


def _planner(planner: str | Planner) -> Planner:
    if callable(getattr(planner, "plan", None)) and not isinstance(planner, str | type):
        return planner
    if planner == "tools":
        return ToolCallingPlanner()
    if planner == "json":
        from agentnb.planners.json_plan import JSONPlanner

        return JSONPlanner()
    if planner == "you":
        from agentnb.planners.you import You

        return You()
    remedy = 'Use "tools", "json", "you" or a Planner.'
    raise SettingsError(f"there is no planner {planner!r}", layer="agent", remedy=remedy)


def _typed(planner: str | Planner, output: Any) -> Planner:
    from agentnb.planners.typed_answer import TypedAnswer
    from agentnb.planners.typed_planner import TypedPlanner

    return TypedPlanner(_planner(planner), TypedAnswer(output))


def _listening(each: Any) -> Any:
    """A middleware or listener as it is.

    Raises:
        SettingsError: It is a class, nothing that can be called, or a listener that would have to be awaited.
    """
    if not is_middleware(each) and is_async(each):
        what = f"a listener is called, never awaited: {getattr(each, '__name__', each)!r} is async"
        raise SettingsError(what, layer="agent", remedy="Write it with def, or derive from Middleware.")
    if isinstance(each, type) or not (is_middleware(each) or callable(each)):
        name = getattr(each, "__name__", repr(each))
        raise SettingsError(f"middleware={name} is no middleware", layer="agent", remedy=f"Write {name}() for a class.")
    return each


def _check_sendable(name: str, value: Any) -> None:
    try:
        strict_json.encode({name: value})
    except (TypeError, ValueError) as error:
        what = f"parameter {name}={shorten(repr(value))} can't be sent: {error}"
        raise SettingsError(what, layer="agent", remedy="Give what JSON can hold.") from None


def _limits(given: Any) -> Limits:
    if given is not None:
        if not isinstance(given, Limits):
            raise SettingsError(f"limits={given!r} is no Limits", layer="agent", remedy="Write limits=Limits(steps=5).")
        return given
    steps = settings.whole("MAX_ITERATIONS")
    return Limits() if steps is None else Limits(steps=steps)


def _examples(given: Sequence[Any], tools: tuple[Any, ...]) -> tuple[Example, ...]:
    """The agent's examples, then those of its tools that use only tools at hand; each once."""
    names = {tool.spec.name for tool in tools}
    of_tools = [to_example(each) for tool in tools for each in getattr(tool, "examples", ())]
    usable = [each for each in of_tools if {step.tool for step in each.steps} <= names]
    found: list[Example] = []
    for example in [*map(to_example, given), *usable]:
        if example not in found:
            found.append(example)
    return tuple(found)


def _interrupted(state: State) -> str:
    return f"interrupted at step {state.counters.steps}; its `state` holds the run: agent.run(error.state) goes on"


def debug_line(event: Any) -> None:
    """With AGENT_DEBUG=1: one line per round on stderr."""
    if not isinstance(event, StateMade) or event.state.kind not in ("plan", "stop"):
        return
    state = event.state
    asked = ", ".join(call.name for call in state.calls) if state.kind == "plan" else ""
    tokens = "tokens unknown" if state.usage.total is None else counted(state.usage.total, "token")
    outcome = f"asked {asked}" if asked else str(state.stop or "asked again")
    what = "round" if state.kind == "plan" else "ended after round"
    print(f"agentnb: {what} {state.counters.steps} · {state.end} messages · {outcome} · {tokens}", file=sys.stderr)


debug_line.wants_deltas = False  # type: ignore[attr-defined]
