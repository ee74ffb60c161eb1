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

from agentnb.core.limits import Limits, StopReason, repeated
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.middleware import (
    Listeners,
    StateMade,
    StepStarted,
    Streamed,
    ToolFinished,
    ToolStarted,
    chain_model,
    chain_tool,
    is_middleware,
    overriding,
)
from agentnb.core.model import Delta, Model, ModelReply, ModelRequest, ask
from agentnb.core.planner import Ask, Decision, Instructions, Planner
from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.errors import AgentnbError, ModelError, ToolDefinitionError
from agentnb.text import mask, shorten

REPEATING = (
    "You are repeating yourself: the last calls were the same and brought nothing new. "
    "Try another tool or other arguments, or answer with what you know."
)
INTERRUPTED = "The call was cancelled by the user. It may have taken effect."
_STOPS = {
    "context_too_long": StopReason.CONTEXT_TOO_LONG,
    "connection": StopReason.CONNECTION_LOST,
    "refused": StopReason.REFUSED,
}
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
        if len(self._by_name) < len(self.tools):
            names = [tool.spec.name for tool in self.tools]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ToolDefinitionError(f"two tools are named {twice[0]!r}", remedy="Give one of them another name.")
        self._listeners = Listeners([each for each in middleware if not is_middleware(each)])
        wrapping = [each for each in middleware if is_middleware(each)]
        self._before = overriding(wrapping, "before")
        self._ask = Ask(chain_model(overriding(wrapping, "model"), self._call_model), instructions or Instructions())
        self._call_tool = chain_tool(overriding(wrapping, "tool"), self._answer)

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
        if self._listeners:
            self._listeners.tell(StepStarted(state.counters.steps + 1, state))
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
            detail = f"stopped after {self.limits.seconds} seconds, in a model call"
            decision = Decision(stop=StopReason.MAX_SECONDS, detail=detail)
        return state.planned(decision, self.clock() - began)

    async def _call_model(self, request: ModelRequest) -> ModelReply:
        try:
            return await ask(self.model, request, self._on_delta if self._listeners.streaming else None)
        except ModelError as error:
            error.request = request
            raise
        except AgentnbError:
            raise
        except Exception as error:
            text = f"the model raised {type(error).__name__}: {mask(str(error))}"
            failure = ModelError(text, kind="callable", remedy="Its traceback is the cause of this error.")
            failure.request = request
            raise failure from error

    def _on_delta(self, delta: Delta) -> None:
        self._listeners.tell(Streamed(delta))

    # ── act ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _act(self, state: State, base: State) -> AsyncGenerator[State, None]:
        guarded = not any(self._is(call, "poll") for call in state.calls)
        while batch := self._startable(state, base):
            run = self._run_one if len(batch) == 1 and self.limits.seconds is None else self._run_batch
            async with aclosing(run(batch, state, base, guarded)) as made:
                async for state in made:
                    yield state

    async def _run_one(
        self, batch: list[ToolCall], state: State, base: State, guarded: bool
    ) -> AsyncGenerator[State, None]:
        call, began = batch[0], self.clock()
        try:
            result = await self._run(call, state)
        except asyncio.CancelledError:
            yield state.answered(ToolResult(call.id, call.name, INTERRUPTED, "cancelled"), self.clock() - began)
            raise
        yield state.answered(result, self.clock() - began, guarded)

    def _startable(self, state: State, base: State) -> list[ToolCall]:
        """The open calls that may start now: the first, with those beside it that run in parallel."""
        if self._out_of_time(state, base):
            return []
        approved = dict(state.approvals)
        ready = [call for call in state.open_calls if call.id in approved or not self._is(call, "approve")]
        if self.limits.tool_calls is not None:
            ready = ready[: max(0, self.limits.tool_calls - (state.counters.tool_calls - base.counters.tool_calls))]
        if not ready or not self._is(ready[0], "parallel"):
            return ready[:1]
        return list(takewhile(lambda call: self._is(call, "parallel"), ready))

    async def _run_batch(
        self, batch: list[ToolCall], state: State, base: State, guarded: bool
    ) -> AsyncGenerator[State, None]:
        began = self.clock()
        tasks = {asyncio.ensure_future(self._run(call, state)): call for call in batch}
        waiting = set(tasks)
        try:
            while waiting:
                left = self._seconds_left(state, base)
                done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                for task in [task for task in tasks if task in done]:
                    result = task.result()
                    del tasks[task]
                    now = self.clock()
                    state, began = state.answered(result, now - began, guarded), now
                    yield state
            for result in await _abandon(tasks, "The call was cancelled: the time limit was reached."):
                state = state.answered(result, self.clock() - began)
                yield state
        except asyncio.CancelledError:
            for result in await _abandon(tasks, INTERRUPTED):
                state = state.answered(result, self.clock() - began)
                yield state
            raise
        finally:
            for task in tasks:
                task.cancel()

    async def _run(self, call: ToolCall, state: State) -> ToolResult:
        arguments = dict(state.approvals).get(call.id)
        if arguments is not None:
            call = replace(call, arguments=arguments)
        if not self._listeners:
            return await self._call_tool(call, state)
        self._listeners.tell(ToolStarted(call))
        result = await self._call_tool(call, state)
        self._listeners.tell(ToolFinished(call, result))
        return result

    async def _answer(self, call: ToolCall, state: State) -> ToolResult:
        tool = self._by_name.get(call.name)
        if call.problem:
            return ToolResult(call.id, call.name, call.problem, "error")
        if tool is None:
            return ToolResult(call.id, call.name, self._unknown(call.name), "error")
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
        reached = self.limits.reached(state.counters, base.counters)
        if state.open_calls:
            if reached and reached[0] in (StopReason.MAX_TOOL_CALLS, StopReason.MAX_SECONDS):
                return state.stopped(*reached)
            names = ", ".join(f"{call.name} ({call.id})" for call in state.open_calls)
            return state.stopped(StopReason.PAUSED, f"waits for approval of {names}")
        if reached:
            return state.stopped(*reached)
        repeats = self.limits.repeats
        if repeats is None or not state.calls:
            return None
        if repeated(state.ring, repeats):
            return state.stopped(StopReason.REPETITION, f"{repeats} equal rounds in a row brought nothing new")
        if not state.warned and repeated(state.ring, repeats - 1):
            return state.warn(REPEATING)
        return None

    def _seconds_left(self, state: State, base: State) -> float | None:
        if self.limits.seconds is None:
            return None
        return max(0.0, self.limits.seconds - (state.counters.seconds - base.counters.seconds))

    def _out_of_time(self, state: State, base: State) -> bool:
        return self._seconds_left(state, base) == 0.0

    def _told(self, state: State) -> State:
        if self._listeners:
            self._listeners.tell(StateMade(state))
        return state


def _failed(error: ModelError) -> Decision:
    """A failed model call as a decision: the run ends as data, with what had arrived."""
    reply = ModelReply(text=error.partial, finish="error", request=error.request, notes=error.notes)
    stop = _STOPS.get(error.kind, StopReason.ERROR)
    return Decision(reply, stop=stop, detail=str(error), error=error)


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
