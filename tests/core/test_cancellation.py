"""A run that is stopped at any moment ends at once, keeps what it has, and never runs an answered call again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from fakes import FunctionTool, add, cancel_when, check_state, collect, runtime_for, several, states_of

from agentnb.core.limits import StopReason
from agentnb.core.middleware import Middleware, StateMade
from agentnb.core.state import State
from agentnb.models.scripted import CallableModel, ScriptedModel, calls


class Hanging:
    """A tool (or model) that sets `started` and never comes back; it notes when it was cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = 0
        self.tool = FunctionTool(self.wait, "slow")

    async def wait(self, *_: Any) -> str:
        """Hang."""
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "never"


def left_tasks() -> set[asyncio.Task[Any]]:
    """The tasks that still run beside this one."""
    return asyncio.all_tasks() - {asyncio.current_task()}


# ── where it is cancelled ────────────────────────────────────────────────────────────────────────────────────────────


def test_during_a_model_call():
    """The State of before, marked cancelled; no step was made, and going on asks the same again."""

    async def play() -> list[State]:
        hang = Hanging()
        return await cancel_when(hang.started, runtime_for(CallableModel(hang.wait)))

    (last,) = asyncio.run(play())
    model = ScriptedModel(["done"])

    assert (last.stop, last.counters.steps, len(last.messages)) == (StopReason.CANCELLED, 0, 1)
    assert states_of(runtime_for(model), last)[-1].answer == "done"
    assert [message["role"] for message in model.requests[0].messages] == ["system", "user"]


def test_during_the_second_model_call():
    """The finished steps and their counters are kept."""

    async def play() -> list[State]:
        hang = Hanging()
        return await cancel_when(hang.started, runtime_for(ScriptedModel([calls("add", a=1, b=2), hang.wait]), [add]))

    last = asyncio.run(play())[-1]

    assert (last.stop, last.counters.steps, last.counters.tool_calls) == (StopReason.CANCELLED, 1, 1)
    assert last.tool_results[0].content == "3"


def test_during_a_tool():
    """The call in flight is answered "cancelled, may have taken effect", then comes the cancelled State."""

    async def play() -> tuple[list[State], Hanging]:
        hang = Hanging()
        return await cancel_when(hang.started, runtime_for([calls("slow")], [hang.tool])), hang

    made, hang = asyncio.run(play())

    assert [state.kind for state in made] == ["plan", "act", "stop"]
    assert (made[-1].stop, made[-1].open_calls, hang.cancelled) == (StopReason.CANCELLED, (), 1)
    assert made[-1].tool_results[0].status == "cancelled"
    assert "may have taken effect" in made[-1].tool_results[0].content


def test_during_parallel_tools():
    """Answered calls keep their answers, calls in flight are cancelled; going on runs none of them again."""
    quick, model = FunctionTool(add), ScriptedModel(["I see"])

    async def play() -> tuple[list[State], Hanging]:
        hang = Hanging()
        reply = several(calls("slow"), calls("add", a=1, b=2), calls("slow"))
        return await cancel_when(hang.started, runtime_for([reply], [hang.tool, quick])), hang

    made, hang = asyncio.run(play())
    done = states_of(runtime_for(model, [hang.tool, quick]), made[-1])[-1]

    assert [result.status for result in made[-1].tool_results] == ["cancelled", "ok", "cancelled"]
    assert (done.answer, len(quick.started), len(hang.tool.started)) == ("I see", 1, 2)
    assert "may have taken effect" in model.requests[0].messages[-1]["content"]


def test_calls_that_had_not_started_stay_open():
    """What waits behind a tool that runs alone was never started: it stays open and runs on resume."""
    later = FunctionTool(add)

    async def play() -> tuple[list[State], Hanging]:
        hang = Hanging()
        hang.tool = FunctionTool(hang.wait, "slow", parallel=False)
        reply = several(calls("slow"), calls("add", a=1, b=2))
        return await cancel_when(hang.started, runtime_for([reply], [hang.tool, later])), hang

    made, hang = asyncio.run(play())
    last = made[-1]

    assert [call.name for call in last.open_calls] == ["add"]
    assert later.started == []
    done = states_of(runtime_for(["fine"], [hang.tool, later]), last)[-1]
    assert [result.status for result in done.tool_results] == ["cancelled", "ok"]
    assert len(hang.tool.started) == 1


def test_a_message_after_the_cancel_answers_what_is_open():
    """Who says something instead of resuming leaves the open calls not run."""

    async def play() -> list[State]:
        hang = Hanging()
        hang.tool = FunctionTool(hang.wait, "slow", parallel=False)
        return await cancel_when(
            hang.started, runtime_for([several(calls("slow"), calls("add", a=1, b=2))], [hang.tool, add])
        )

    said = asyncio.run(play())[-1].say("never mind")

    assert [result.status for result in said.tool_results] == ["cancelled", "not run"]
    check_state(said)


@pytest.mark.parametrize("where", ["before", "model", "tool"])
def test_inside_a_middleware(where):
    """A middleware that waits can be cancelled like what it wraps."""

    async def play() -> list[State]:
        hang = Hanging()
        stop = {
            name: hang.wait if name == where else getattr(Middleware(), name) for name in ("before", "model", "tool")
        }
        return await cancel_when(
            hang.started, runtime_for([calls("add", a=1, b=2)], [add], middleware=[Wrapping(**stop)])
        )

    assert asyncio.run(play())[-1].stop is StopReason.CANCELLED


class Wrapping(Middleware):
    """A middleware made of functions."""

    def __init__(self, before: Any, model: Any, tool: Any) -> None:
        self._before, self._model, self._tool = before, model, tool

    async def before(self, state: Any) -> Any:
        """As given."""
        return await self._before(state)

    async def model(self, request: Any, next: Any) -> Any:
        """As given."""
        return await self._model(request, next)

    async def tool(self, call: Any, state: Any, next: Any) -> Any:
        """As given."""
        return await self._tool(call, state, next)


@pytest.mark.parametrize("ticks", range(40))
def test_at_any_tick(ticks):
    """Cancelled after any number of turns of the loop: one cancelled State at the end, a valid history, and on
    resume each call has run once."""
    tool = FunctionTool(add)

    async def slow(a: int, b: int) -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return a * b

    times = FunctionTool(slow, "times", parallel=False)

    async def model(request: Any) -> Any:
        await asyncio.sleep(0)
        number = sum(message["role"] == "assistant" for message in request.messages)
        both = several(calls("add", a=number, b=1), calls("times", a=number, b=2), calls("add", a=number, b=3))
        return both if number < 3 else "done"

    runtime = runtime_for(CallableModel(model), [tool, times])

    async def play() -> tuple[list[State], bool]:
        made: list[State] = []

        async def consume() -> None:
            async for state in runtime.states(State.start("go")):
                made.append(state)

        task = asyncio.create_task(consume())
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert left_tasks() == set()
        return made, task.cancelled()

    made, cancelled = asyncio.run(play())
    if made and cancelled:
        assert made[-1].stop is StopReason.CANCELLED
        assert not any(state.finished for state in made[:-1])
    for state in made:
        check_state(state)
    last = states_of(runtime, made[-1] if made else "go")[-1] if cancelled else made[-1]
    assert last.answer == "done"
    assert len(tool.started) + len(times.started) == len(last.tool_results) == 9


def test_before_it_began():
    """A task that is cancelled before its first turn makes no State."""

    async def play() -> None:
        task = asyncio.create_task(collect(runtime_for(["done"])))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())


# ── who is told ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_listeners_hear_of_the_cancelled_state():
    """The last event is the cancelled State, so that a display or a file knows how it ended."""
    heard: list[Any] = []

    async def play() -> list[State]:
        hang = Hanging()
        return await cancel_when(hang.started, runtime_for([calls("slow")], [hang.tool], middleware=[heard.append]))

    made = asyncio.run(play())

    assert [event.state for event in heard if isinstance(event, StateMade)] == made
    assert heard[-1].state.stop is StopReason.CANCELLED


# ── tools that don't come back when told to ──────────────────────────────────────────────────────────────────────────


class Stubborn(Hanging):
    """A tool that goes on when it is cancelled, until `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.release = asyncio.Event()

    async def wait(self, *_: Any) -> str:
        """Ignore every cancellation."""
        self.started.set()
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        return "late"


def test_a_stubborn_tool_does_not_hold_up_the_end():
    """The run ends within a second although the tool does not; what it returns later is ignored."""

    async def play() -> list[State]:
        hang = Stubborn()
        made = await asyncio.wait_for(cancel_when(hang.started, runtime_for([calls("slow")], [hang.tool])), 1)
        hang.release.set()
        await asyncio.wait(left_tasks(), timeout=1)
        return made

    made = asyncio.run(play())

    assert made[-1].tool_results[0].status == "cancelled"


def test_a_second_interrupt_does_not_lose_the_answers():
    """Pressed twice: the started call is answered all the same, so that resuming does not run it again."""

    async def play() -> list[State]:
        hang, made = Stubborn(), []

        async def consume() -> None:
            async for state in runtime_for([calls("slow")], [hang.tool]).states(State.start("go")):
                made.append(state)

        task = asyncio.create_task(consume())
        await asyncio.wait_for(hang.started.wait(), 10)
        task.cancel()
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task}, timeout=2)
        hang.release.set()
        await asyncio.wait(left_tasks(), timeout=1)
        return made

    last = asyncio.run(play())[-1]

    assert last.stop is StopReason.CANCELLED
    assert last.open_calls == ()


def test_a_result_that_comes_in_with_the_cancel_counts():
    """A tool that finishes its work when it is cancelled has answered."""

    async def play() -> list[State]:
        started = asyncio.Event()

        async def tidy() -> str:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "saved in time"
            return "never"

        return await cancel_when(started, runtime_for([calls("tidy")], [FunctionTool(tidy)]))

    result = asyncio.run(play())[-1].tool_results[0]

    assert (result.status, result.content) == ("ok", "saved in time")


def test_an_answer_beside_a_cancelled_wrapper_is_kept():
    """Of two calls one was carried out while a wrapper of the other gave up: what was done is not done again."""

    class GivesUp(Middleware):
        """Cancelled from within, at the second call."""

        async def tool(self, call: Any, state: Any, next: Any) -> Any:
            """As told, or not at all."""
            if call.arguments == '{"a": 3, "b": 4}':
                raise asyncio.CancelledError
            return await next(call, state)

    async def play() -> list[State]:
        made: list[State] = []
        script = [several(calls("add", a=1, b=2), calls("add", a=3, b=4))]
        with suppress(asyncio.CancelledError):
            async for state in runtime_for(script, [add], middleware=[GivesUp()]).states(State.start("go")):
                made.append(state)
        return made

    last = asyncio.run(play())[-1]

    assert [result.status for result in last.tool_results] == ["ok", "cancelled"]
    assert last.open_calls == ()


# ── inside the structures of asyncio ─────────────────────────────────────────────────────────────────────────────────


def test_asyncio_timeout_around_a_run():
    """The time-out of the caller comes out as TimeoutError, and the last State is the cancelled one."""

    async def play() -> list[State]:
        hang, made = Hanging(), []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                async for state in runtime_for([calls("slow")], [hang.tool]).states(State.start("go")):
                    made.append(state)
        assert asyncio.current_task().cancelling() == 0
        assert left_tasks() == set()
        return made

    made = asyncio.run(play())

    assert made[-1].stop is StopReason.CANCELLED
    assert made[-1].tool_results[0].status == "cancelled"


def test_a_task_group_around_runs():
    """When one task of a group fails, the run beside it is cancelled and the group raises the failure."""

    async def play() -> list[State]:
        hang, made = Hanging(), []

        async def one() -> None:
            async for state in runtime_for([calls("slow")], [hang.tool]).states(State.start("go")):
                made.append(state)

        async def other() -> None:
            await hang.started.wait()
            raise LookupError("the other failed")

        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(one())
                group.create_task(other())
        assert caught.group_contains(LookupError, match="the other failed")
        return made

    assert asyncio.run(play())[-1].stop is StopReason.CANCELLED


def test_a_generator_that_is_closed_early_leaves_no_tool_running():
    """Who stops reading after a few States and closes the generator has no task left."""

    async def play() -> Hanging:
        hang = Hanging()
        states = runtime_for([several(calls("slow"), calls("add", a=1, b=2))], [hang.tool, add]).states(
            State.start("go")
        )
        async for state in states:
            if state.kind == "act":
                break
        await states.aclose()
        assert left_tasks() == set()
        return hang

    assert asyncio.run(play()).cancelled == 1


def test_a_reader_s_own_error_leaves_no_tool_running():
    """An exception in the loop over the States ends the tools, too, once the generator is closed."""

    async def play() -> Hanging:
        hang = Hanging()
        states = runtime_for([several(calls("slow"), calls("add", a=1, b=2))], [hang.tool, add]).states(
            State.start("go")
        )
        with pytest.raises(ZeroDivisionError):
            async for state in states:
                if state.kind == "act":
                    raise ZeroDivisionError
        await states.aclose()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert left_tasks() == set()
        return hang

    assert asyncio.run(play()).cancelled == 1


def test_a_bug_in_a_middleware_leaves_no_tool_running():
    """When a wrapper raises, the calls beside it are ended before the error comes out."""

    class Buggy(Middleware):
        async def tool(self, call: Any, state: Any, next: Any) -> Any:
            if call.name == "add":
                raise TypeError("a bug")
            return await next(call, state)

    async def play() -> None:
        hang = Hanging()
        runtime = runtime_for([several(calls("slow"), calls("add", a=1, b=2))], [hang.tool, add], middleware=[Buggy()])
        with pytest.raises(TypeError, match="a bug"):
            await collect(runtime)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert left_tasks() == set()

    asyncio.run(play())


def test_ten_times_in_a_row():
    """Cancel, resume, cancel, resume: each time the history stays whole and nothing runs twice."""
    done = FunctionTool(add)

    async def play(state: State | str, number: int) -> State:
        hang = Hanging()
        model = ScriptedModel([calls("add", a=number, b=2), hang.wait])
        return (await cancel_when(hang.started, runtime_for(model, [done]), state))[-1]

    state: State | str = "go"
    for number in range(10):
        state = asyncio.run(play(state, number))

    assert (len(done.started), state.counters.tool_calls, len(state.tool_results)) == (10, 10, 10)
