"""The loop: turn a State into the next State until one has an answer or a reason to stop.

    state ──before──▶ plan (one model call) ──▶ act (its tools) ──▶ check ──▶ plan …

`states` is the one verb; `run`, `steps`, the cell magic, batches and comparisons all use it. To fork, retry or resume,
start it from an older State. An open call is run first, so no request ever holds a call without its result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from agentnb.core import middleware as doors
from agentnb.core.limits import DIGEST, Limits, StopReason, repeated
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.model import Delta, Model, ModelReply, ModelRequest, ask
from agentnb.core.planner import Ask, Decision, Planner
from agentnb.core.state import State
from agentnb.core.tool import Tool, ToolSpec
from agentnb.errors import AgentnbError, ApprovalNeeded, Interrupted, ModelError, ToolDefinitionError
from agentnb.instructions import Instructions
from agentnb.text import clean, mask, no_such_tool

REPEATING = "You are repeating yourself: the last calls brought nothing new. Try another tool or arguments, or answer."
INTERRUPTED = "The call was cancelled by the user. It may have taken effect."
OUT_OF_TIME = "The call was cancelled: the time limit was reached. It may have taken effect."
_STOPS = {"context_too_long": "context_too_long", "connection": "connection_lost", "refused": "refused"}
_GRACE_SECONDS = 0.2
_FIRST = asyncio.FIRST_COMPLETED
_UNKNOWN = ToolSpec("")
_Tasks = dict[asyncio.Task[ToolResult | None], ToolCall]


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
        self.model, self.planner, self.clock = model, planner, clock
        self.tools, self.limits = tuple(tools), limits or Limits()
        self._by_name = {tool.spec.name: tool for tool in self.tools}
        names = [tool.spec.name for tool in self.tools]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ToolDefinitionError(f"two tools are named {twice[0]!r}", remedy="Give one of them another name.")
        self._listeners = doors.Listeners([each for each in middleware if callable(each)])
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
        around, state = doors.Budget(self.limits, state, state), state.continued()
        try:
            while not state.finished or state is around.base:
                if state.open_calls:
                    async with aclosing(self._act(state, around)) as made:
                        async for state in made:
                            yield self._told(state, around)
                state = self._check(state, around.base) or await self._plan(state, around)
                yield self._told(state, around)
        except asyncio.CancelledError:
            yield self._told(state.stopped(StopReason.CANCELLED, "cancelled by the user"), around)
            raise
        except Exception as error:
            self._listeners.tell(doors.RunFailed(state, error), around)
            raise

    # ── plan ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _plan(self, state: State, around: doors.Budget) -> State:
        began, token = self.clock(), doors.current_budget.set(around)
        try:
            async with asyncio.timeout(self._seconds_left(state, around)) as deadline:
                for before in self._before:
                    earlier, state = state, await before(state) or state
                    if state.finished and state is not earlier:
                        return state
                self._listeners.tell(doors.StepStarted(state.counters.steps + 1, state))
                decision = await self.planner.plan(state, self.tools, self._ask)
        except ModelError as error:
            stop = StopReason(_STOPS.get(error.kind, "error"))
            reply = ModelReply(text=error.partial, finish="error", request=error.request, notes=error.notes)
            decision = Decision(reply, stop=stop, detail=clean(mask(str(error))), error=error)
        except TimeoutError:
            if not deadline.expired():
                raise
            decision = Decision(stop=StopReason.MAX_SECONDS, detail="the time limit was reached in a model call")
        finally:
            doors.current_budget.reset(token)
        return state.planned(decision, self.clock() - began)

    async def _call_model(self, request: ModelRequest) -> ModelReply:
        try:
            return await ask(self.model, request, self._on_delta if self._listeners.streaming else None)
        except AgentnbError as error:
            error.request = error.request or request
            raise
        except Exception as error:
            text = f"the model raised {type(error).__name__}: {mask(str(error))}"
            raise ModelError(text, kind="callable", request=request) from error

    def _on_delta(self, delta: Delta) -> None:
        self._listeners.tell(doors.Streamed(delta))

    # ── act ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _act(self, state: State, around: doors.Budget) -> AsyncGenerator[State, None]:
        """Run the open calls, side by side where they may; a State for each answer, in finishing order."""
        guarded = not any(self._is(call, "poll") for call in state.calls)
        tasks, started, began = _Tasks(), set[str](), self.clock()
        try:
            while batch := self._startable(state, around, started):
                started |= {call.id for call in batch}
                tasks = {asyncio.ensure_future(self._run(call, state, around)): call for call in batch}
                await asyncio.sleep(0)  # a quick tool is done after this
                while tasks:
                    if not any(task.done() for task in tasks):
                        await asyncio.wait(tasks, timeout=self._seconds_left(state, around), return_when=_FIRST)
                    results = [task.result() for task in tasks if task.done()] or await _abandon(tasks, OUT_OF_TIME)
                    tasks = {task: call for task, call in tasks.items() if not task.done()}
                    for result in filter(None, results):  # None: it waits for approval
                        state, began = state.answered(result, (now := self.clock()) - began, guarded), now
                        yield state
        except BaseException as error:
            results = await _abandon(tasks, INTERRUPTED)
            for result in filter(None, results if isinstance(error, asyncio.CancelledError) else ()):
                state = state.answered(result, self.clock() - began)
                yield state
            raise

    def _startable(self, state: State, around: doors.Budget, started: set[str]) -> list[ToolCall]:
        """The open calls that may start now: the first, with those beside it that run in parallel."""
        ready = [call for call in state.open_calls if call.id not in started]
        if (limit := self.limits.tool_calls) is not None:
            ready = ready[: max(0, limit - state.counters.tool_calls + around.base.counters.tool_calls)]
        alone = next((n for n, call in enumerate(ready) if not self._is(call, "parallel")), len(ready))
        return [] if self._seconds_left(state, around) == 0.0 else ready[: max(1, alone)]

    async def _run(self, call: ToolCall, state: State, around: doors.Budget) -> ToolResult | None:
        doors.current_budget.set(around)
        if (other := dict(state.approvals).get(call.id)) is not None:
            call = replace(call, arguments=other)
        try:
            result: ToolResult = await self._call_tool(call, state)
        except ApprovalNeeded:
            return None
        if other is not None or result.call_id != call.id:  # a wrapper may hand out what another call got
            result = replace(result if other is None else result.ran_with(other), call_id=call.id, name=call.name)
        self._listeners.tell(doors.ToolFinished(call, result))
        return result

    async def _answer(self, call: ToolCall, state: State) -> ToolResult:
        tool = self._by_name.get(call.name)
        if tool is None or call.problem:
            unknown = f"tools: {no_such_tool(call.name, self._by_name)}"
            return ToolResult(call.id, call.name, call.problem or unknown, "error")
        if tool.spec.approve and call.id not in dict(state.approvals):
            raise ApprovalNeeded
        self._listeners.tell(doors.ToolStarted(call))
        try:
            return await tool.answer(call)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, Interrupted) or (task and task.cancelling()):
                raise
            text = f"{type(error).__name__}: {error}".removesuffix(": ")
            return ToolResult(call.id, call.name, clean(mask(text)), "error")

    def _is(self, call: ToolCall, flag: str) -> bool:
        return bool(getattr(self._by_name[call.name].spec if call.name in self._by_name else _UNKNOWN, flag))

    # ── check ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check(self, state: State, base: State) -> State | None:
        """The State in which the run stops or is warned; None to plan on."""
        stop = self.limits.reached(state.counters, base.counters)
        repeats, rounds = self.limits.repeats, state.counters.steps - base.counters.steps
        ring = state.ring[max(0, len(state.ring) - rounds * DIGEST) :]
        if state.open_calls and (stop is None or stop[0] not in (StopReason.MAX_TOOL_CALLS, StopReason.MAX_SECONDS)):
            names = ", ".join(f"{call.name} ({call.id})" for call in state.open_calls)
            stop = StopReason.PAUSED, f"waits for approval of {names}"
        elif stop is None and repeats is not None and state.calls:
            if repeated(ring, repeats):
                stop = StopReason.REPETITION, f"{repeats} equal rounds in a row brought nothing new"
            elif not state.warned and repeats > 2 and repeated(ring, repeats - 1):
                return state.warn(REPEATING)
        return state.stopped(*stop) if stop else None

    def _seconds_left(self, state: State, around: doors.Budget) -> float | None:
        used = state.counters.seconds - around.base.counters.seconds
        return None if self.limits.seconds is None else max(0.0, self.limits.seconds - used)

    def _told(self, state: State, around: doors.Budget) -> State:
        around.state = state
        self._listeners.tell(doors.StateMade(state), around)
        return state


async def _abandon(tasks: _Tasks, reason: str) -> list[ToolResult | None]:
    """Cancel what still runs and answer every call: with its result where it just came in, else with the reason."""
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError, ValueError):  # a second interrupt ends the grace; no tasks, no grace
        await asyncio.wait(tasks, timeout=_GRACE_SECONDS)
    results: list[ToolResult | None] = []
    for task, call in tasks.items():
        usable = task.done() and not task.cancelled() and task.exception() is None
        results.append(task.result() if usable else ToolResult(call.id, call.name, reason, "cancelled"))
    tasks.clear()
    return results
