"""The loop: turn a State into the next State until one has an answer or a reason to stop.

    state ──before──▶ plan (one model call) ──▶ act (its tools) ──▶ check ──▶ plan …

`states` is the one verb; `run`, `steps`, the cell magic, batches and comparisons all use it. To fork, retry or resume,
start it from an older State. An open call is run first, so no request ever holds a call without its result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

from agentnb.core import middleware as doors
from agentnb.core.limits import Limits, StopReason, repeated
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.model import Model, ModelReply, ModelRequest, ask
from agentnb.core.planner import Ask, Decision, Planner
from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.errors import AgentnbError, ModelError, ToolDefinitionError
from agentnb.instructions import Instructions
from agentnb.text import mask, shorten

REPEATING = (
    "You are repeating yourself: the last calls were the same and brought nothing new. "
    "Try another tool or other arguments, or answer with what you know."
)
INTERRUPTED = "The call was cancelled by the user. It may have taken effect."
OUT_OF_TIME = "The call was cancelled: the time limit was reached. It may have taken effect."
_STOPS = {"context_too_long": "context_too_long", "connection": "connection_lost", "refused": "refused"}
_GRACE_SECONDS = 0.2


class Runtime:
    """One loop over one model, planner and set of tools; it holds no progress and may serve many runs at once.

    Args:
        model: Answers requests.
        planner: Decides from a State.
        tools: What may be called; names are unique.
        middleware: Middleware (wrap and change) and listeners (look), first is outermost.
        limits: Bound each call of `states`.
        clock: Seconds, for the counters.
        instructions: System prompt, examples and parameters that the planner puts into each request.
    """

    def __init__(
        self,
        model: Model,
        planner: Planner,
        tools: Sequence[Tool] = (),
        middleware: Sequence[Any] = (),
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        instructions: Instructions | None = None,
    ) -> None:
        self.model = model
        self.planner = planner
        self.tools = tuple(tools)
        self.limits = limits or Limits()
        self.clock = clock
        self._by_name = {tool.spec.name: tool for tool in self.tools}
        if twice := [tool.spec.name for tool in self.tools if self._by_name[tool.spec.name] is not tool]:
            raise ToolDefinitionError(f"two tools are named {twice[0]!r}", remedy="Give one of them another name.")
        self._listeners = doors.Listeners([each for each in middleware if not doors.is_middleware(each)])
        wrapping = [each for each in middleware if doors.is_middleware(each)]
        self._before = doors.overriding(wrapping, "before")
        call_model = doors.chain(doors.overriding(wrapping, "model"), self._call_model)
        self._ask = Ask(call_model, instructions or Instructions())
        self._call_tool = doors.chain(doors.overriding(wrapping, "tool"), self._answer)

    async def states(self, state: State) -> AsyncIterator[State]:
        """Each next State, until one is finished.

        A limit, a failed model call or a pause is a finished State, not an exception. When the task is cancelled, a
        State with stop "cancelled" comes first and then the CancelledError.

        Args:
            state: Where to start; an answered State yields nothing.

        Raises:
            AgentnbError: A setting or a recording makes the run impossible.
        """
        if state.stop is StopReason.ANSWER:
            return
        base, state = state, state.continued()
        try:
            while not state.finished or state is base:
                if state.open_calls:
                    async with aclosing(self._act(state, base)) as made:
                        async for state in made:
                            yield self._told(state)
                state = self._check(state, base) or await self._plan(state, base)
                yield self._told(state)
        except asyncio.CancelledError:
            yield self._told(state.stopped(StopReason.CANCELLED, "cancelled by the user"))
            raise

    # ── plan ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _plan(self, state: State, base: State) -> State:
        for before in self._before:
            state = await before(state)
        self._listeners.tell(doors.StepStarted(state.counters.steps + 1, state))
        began = self.clock()
        deadline = asyncio.timeout(self._seconds_left(state, base))
        try:
            async with deadline:
                decision = await self.planner.plan(state, self.tools, self._ask)
        except ModelError as error:
            decision = _failed(error)
        except TimeoutError:
            if not deadline.expired():
                raise
            decision = Decision(stop=StopReason.MAX_SECONDS, detail="the time limit was reached in a model call")
        return state.planned(decision, self.clock() - began)

    async def _call_model(self, request: ModelRequest) -> ModelReply:
        tell = self._listeners.tell
        on_delta = (lambda delta: tell(doors.Streamed(delta))) if self._listeners.streaming else None
        try:
            return await ask(self.model, request, on_delta)
        except AgentnbError as error:
            error.request = request
            raise
        except Exception as error:
            text = f"the model raised {type(error).__name__}: {mask(str(error))}"
            raise ModelError(text, kind="callable", request=request) from error

    # ── act ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _act(self, state: State, base: State) -> AsyncGenerator[State, None]:
        """Run the open calls, side by side where they may; a State for each answer, in finishing order."""
        guarded = not any(self._is(call, "poll") for call in state.calls)
        tasks: dict[asyncio.Task[ToolResult], ToolCall] = {}
        began = self.clock()
        try:
            while batch := self._startable(state, base):
                tasks = {asyncio.ensure_future(self._run(call, state)): call for call in batch}
                while tasks:
                    for result in await self._answers(tasks, self._seconds_left(state, base)):
                        now = self.clock()
                        state, began = state.answered(result, now - began, guarded), now
                        yield state
        except asyncio.CancelledError:
            for result in await _abandon(tasks, INTERRUPTED):
                state = state.answered(result, self.clock() - began)
                yield state
            raise
        finally:
            for task in tasks:
                task.cancel()

    async def _answers(
        self, tasks: dict[asyncio.Task[ToolResult], ToolCall], seconds: float | None
    ) -> list[ToolResult]:
        """Wait for the next answers and take their tasks out; when the time is over, answer all of them."""
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        results = {task: task.result() for task in tasks if task in done}
        for task in results:
            del tasks[task]
        return list(results.values()) or await _abandon(tasks, OUT_OF_TIME)

    def _startable(self, state: State, base: State) -> list[ToolCall]:
        """The open calls that may start now: the first, with those beside it that run in parallel."""
        if self._seconds_left(state, base) == 0.0:
            return []
        approved = dict(state.approvals)
        ready = [
            each for each in state.open_calls if each.problem or each.id in approved or not self._is(each, "approve")
        ]
        if self.limits.tool_calls is not None:
            ready = ready[: max(0, self.limits.tool_calls - (state.counters.tool_calls - base.counters.tool_calls))]
        if not ready or not self._is(ready[0], "parallel"):
            return ready[:1]
        return list(takewhile(lambda call: self._is(call, "parallel"), ready))

    async def _run(self, call: ToolCall, state: State) -> ToolResult:
        arguments = dict(state.approvals).get(call.id)
        if arguments is not None:
            call = replace(call, arguments=arguments)
        self._listeners.tell(doors.ToolStarted(call))
        result: ToolResult = await self._call_tool(call, state)
        self._listeners.tell(doors.ToolFinished(call, result))
        return result

    async def _answer(self, call: ToolCall, state: State) -> ToolResult:
        tool = self._by_name.get(call.name)
        if tool is None or call.problem:
            return ToolResult(call.id, call.name, call.problem or self._unknown(call.name), "error")
        try:
            return await tool.answer(call)
        except Exception as error:
            return ToolResult(call.id, call.name, mask(f"{type(error).__name__}: {error}"), "error")

    def _unknown(self, name: str) -> str:
        known = ", ".join(self._by_name) or "none"
        near = get_close_matches(name.rpartition(".")[2], self._by_name, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"tools: there is no tool named {shorten(name)!r}. The tools are: {known}.{hint}"

    def _is(self, call: ToolCall, flag: str) -> bool:
        tool = self._by_name.get(call.name)
        return flag == "parallel" if tool is None else bool(getattr(tool.spec, flag))

    # ── check ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check(self, state: State, base: State) -> State | None:
        """The State in which the run stops or is warned; None to plan on."""
        stop = self.limits.reached(state.counters, base.counters)
        repeats = self.limits.repeats
        if state.open_calls and (stop is None or stop[0] not in (StopReason.MAX_TOOL_CALLS, StopReason.MAX_SECONDS)):
            names = ", ".join(f"{call.name} ({call.id})" for call in state.open_calls)
            stop = StopReason.PAUSED, f"waits for approval of {names}"
        elif stop is None and repeats is not None and state.calls:
            if repeated(state.ring, repeats):
                stop = StopReason.REPETITION, f"{repeats} equal rounds in a row brought nothing new"
            elif not state.warned and repeated(state.ring, repeats - 1):
                return state.warn(REPEATING)
        return state.stopped(*stop) if stop else None

    def _seconds_left(self, state: State, base: State) -> float | None:
        limit, used = self.limits.seconds, state.counters.seconds - base.counters.seconds
        return None if limit is None else max(0.0, limit - used)

    def _told(self, state: State) -> State:
        self._listeners.tell(doors.StateMade(state))
        return state


def _failed(error: ModelError) -> Decision:
    """A failed model call as a decision: the run ends as data, with what had arrived."""
    reply = ModelReply(text=error.partial, finish="error", request=error.request, notes=error.notes)
    return Decision(reply, stop=StopReason(_STOPS.get(error.kind, "error")), detail=str(error), error=error)


async def _abandon(tasks: dict[asyncio.Task[ToolResult], ToolCall], reason: str) -> list[ToolResult]:
    """Cancel what still runs and answer every call: with its result where it just came in, else with the reason."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_GRACE_SECONDS)
    results = []
    for task, call in tasks.items():
        usable = task.done() and not task.cancelled() and task.exception() is None
        results.append(task.result() if usable else ToolResult(call.id, call.name, reason, "cancelled"))
    tasks.clear()
    return results
