"""Middleware wraps, the first outermost; listeners only look, in order, and can't hurt a run."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from typing import Any

import pytest
from fakes import FunctionTool, add, check_state, collect, runtime_for, says, several, states_of

from agentnb.core.limits import Limits, StopReason
from agentnb.core.messages import Message, ToolCall, ToolResult, user
from agentnb.core.middleware import Middleware, StateMade, StepStarted, Streamed, ToolFinished, ToolStarted, budget
from agentnb.core.model import ModelReply
from agentnb.errors import ApprovalNeeded, ModelError
from agentnb.models.scripted import CallableModel, ScriptedModel, calls

ONE_CALL = [calls("add", a=1, b=2), says("3")]


class Noting(Middleware):
    """Writes down when it is entered and left."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    async def before(self, state: Any) -> Any:
        """Note only."""
        self.log.append(f"{self.name} before {state.counters.steps + 1}")
        return state

    async def model(self, request: Any, next: Any) -> ModelReply:
        """Note, onward, note."""
        self.log.append(f"{self.name} model")
        reply = await next(request)
        self.log.append(f"{self.name} /model")
        return reply

    async def tool(self, call: Any, state: Any, next: Any) -> ToolResult:
        """Note, onward, note."""
        self.log.append(f"{self.name} {call.name}")
        result = await next(call, state)
        self.log.append(f"{self.name} /{call.name}")
        return result


def test_the_first_is_the_outermost():
    """before runs in order; around model and tool the first comes in first and goes out last."""
    log: list[str] = []
    states_of(runtime_for(list(ONE_CALL), [add], middleware=[Noting("A", log), Noting("B", log)]))
    first_step = [
        "A before 1",
        "B before 1",
        "A model",
        "B model",
        "B /model",
        "A /model",
        "A add",
        "B add",
        "B /add",
        "A /add",
    ]

    assert log[: len(first_step)] == first_step
    assert log[len(first_step) :] == ["A before 2", "B before 2", "A model", "B model", "B /model", "A /model"]


def test_a_middleware_need_not_derive():
    """An object with just the one method that it needs is enough."""

    class OnlyTool:
        async def tool(self, call: ToolCall, state: Any, next: Any) -> ToolResult:
            return replace(await next(call, state), content="changed")

    run = states_of(runtime_for(list(ONE_CALL), [add], middleware=[OnlyTool()]))[-1]

    assert run.tool_results[0].content == "changed"


def test_before_may_change_the_state():
    """What is planned from is the State that `before` returns; the history keeps its parent."""

    class Reminder(Middleware):
        async def before(self, state: Any) -> Any:
            return state.say("remember the units")

    model = ScriptedModel(["done"])
    run = states_of(runtime_for(model, middleware=[Reminder()]))[-1]

    assert model.requests[0].messages[-1]["content"] == "remember the units"
    assert [state.kind for state in run.path()] == ["start", "say", "plan"]
    assert run.at(1).messages[-1].content == "remember the units"


def test_before_that_returns_nothing_changes_nothing():
    """Who only looks may leave the return out."""

    class Looking(Middleware):
        async def before(self, state: Any) -> Any:
            seen.append(state.kind)

    seen: list[str] = []
    assert states_of(runtime_for(ScriptedModel(["done"]), middleware=[Looking()]))[-1].answer == "done"
    assert seen == ["start"]


def test_before_may_shorten_what_is_sent():
    """A compaction puts a shorter prompt in place; the run goes on from it and the record stays whole."""

    class Short(Middleware):
        async def before(self, state: Any) -> Any:
            if state.counters.steps != 2:
                return state
            return state.compacted([Message("user", state.goal), user("so far: 3, 7")])

    model = ScriptedModel([calls("add", a=1, b=2), calls("add", a=3, b=4), calls("add", a=3, b=7), "10"])
    run = states_of(runtime_for(model, [add], middleware=[Short()]))[-1]

    assert [len(request.messages) for request in model.requests] == [2, 4, 3, 5]
    assert len(run.messages) == 8
    assert [result.content for result in run.tool_results] == ["3", "7", "10"]


def test_a_wrapper_may_answer_for_the_tool():
    """A cache answers without the tool."""
    tool = FunctionTool(add)

    class Cache(Middleware):
        async def tool(self, call: Any, state: Any, next: Any) -> ToolResult:
            return ToolResult(call.id, call.name, "from the cache")

    run = states_of(runtime_for(list(ONE_CALL), [tool], middleware=[Cache()]))[-1]

    assert (run.tool_results[0].content, tool.started) == ("from the cache", [])


class Doubting(Middleware):
    """Wants every call of `add` with a large number approved."""

    async def tool(self, call: Any, state: Any, next: Any) -> ToolResult:
        """Ask about the large ones."""
        if "100" in call.arguments and call.id not in dict(state.approvals):
            raise ApprovalNeeded
        return await next(call, state)


def test_a_wrapper_may_ask_for_approval():
    """The doubtful call stays open and the run pauses; the other one runs; approved, the doubtful one runs, too."""
    script = [several(calls("add", a=100, b=1), calls("add", a=1, b=2), ids=["big", "small"]), says("done")]
    tool, events = FunctionTool(add), []
    runtime = runtime_for(script, [tool], middleware=[Doubting(), events.append])
    paused = states_of(runtime)[-1]

    assert (paused.stop, [call.id for call in paused.open_calls]) == (StopReason.PAUSED, ["big"])
    assert [event.call.id for event in events if isinstance(event, ToolStarted)] == ["small"]

    done = states_of(runtime, paused.approve("big"))[-1]
    assert [result.content for result in done.tool_results] == ["101", "3"]
    assert len(tool.started) == 2
    check_state(done)


def test_a_wrapper_may_approve_what_a_tool_asks_for():
    """A policy lets a call of an approve=True tool through: it hands on a State in which the call is approved."""

    class Policy(Middleware):
        async def tool(self, call: Any, state: Any, next: Any) -> ToolResult:
            return await next(call, state.approve(call.id))

    run = states_of(runtime_for(list(ONE_CALL), [FunctionTool(add, approve=True)], middleware=[Policy()]))[-1]

    assert (run.answer, run.tool_results[0].content) == ("3", "3")


def test_the_budget_is_in_sight_of_every_door():
    """A middleware sees the limits of this call of run and where it started; outside of a run there is none."""
    seen: list[Any] = []

    class Seeing(Middleware):
        async def before(self, state: Any) -> Any:
            seen.append(budget())
            return state

        async def model(self, request: Any, next: Any) -> ModelReply:
            seen.append(budget())
            return await next(request)

        async def tool(self, call: Any, state: Any, next: Any) -> ToolResult:
            seen.append(budget())
            return await next(call, state)

    heard: list[Any] = []
    listener = lambda event: heard.append((budget(), getattr(event, "state", None)))
    runtime = runtime_for(list(ONE_CALL), [add], middleware=[Seeing(), listener], limits=Limits(steps=7))
    run = states_of(runtime)[-1]

    (one,) = {id(each) for each in seen} | {id(each) for each, _ in heard}
    assert (id(seen[0]), seen[0].limits.steps, seen[0].base, seen[0].state) == (one, 7, run.at(1), run)
    assert (len(seen), len(heard), budget()) == (5, 7, None)


def test_a_run_that_raises_is_told():
    """A bug in a middleware travels up, and a log hears how far the run had come."""
    events: list[Any] = []

    class Broken(Middleware):
        async def before(self, state: Any) -> Any:
            if state.counters.steps:
                raise ZeroDivisionError("a bug")
            return state

    with pytest.raises(ZeroDivisionError):
        states_of(runtime_for(list(ONE_CALL), [add], middleware=[events.append, Broken()]))

    assert heard(events)[-1] == "RunFailed"
    assert (events[-1].state.tool_results[0].content, str(events[-1].error)) == ("3", "a bug")


def test_a_result_kept_from_another_call_is_paired_all_the_same():
    """A cache may hand out the result of an earlier call as it is; each call has its own result in the history."""

    class Cache(Middleware):
        kept: ToolResult | None = None

        async def tool(self, call: Any, state: Any, next: Any) -> ToolResult:
            self.kept = self.kept or await next(call, state)
            return self.kept

    script = [several(calls("add", a=1, b=2), ids=["x"]), several(calls("add", a=1, b=2), ids=["y"]), "3"]
    made = asyncio.run(collect(runtime_for(script, [add], middleware=[Cache()])))

    for state in made:
        check_state(state)
    assert [result.content for result in made[-1].tool_results] == ["3", "3"]


def test_a_wrapper_may_change_the_request_and_the_reply():
    """What goes out and what comes back pass through its hands."""

    class Loud(Middleware):
        async def model(self, request: Any, next: Any) -> ModelReply:
            reply = await next(replace(request, parameters={"temperature": 0}))
            return replace(reply, text=reply.text.upper())

    model = ScriptedModel(["done"])
    run = states_of(runtime_for(model, middleware=[Loud()]))[-1]

    assert (run.answer, model.requests[0].parameters) == ("DONE", {"temperature": 0})


def test_a_wrapper_sees_a_failed_model_call():
    """It gets the ModelError, whatever the model raised, and may try again."""
    seen: list[Exception] = []

    class Retry(Middleware):
        async def model(self, request: Any, next: Any) -> ModelReply:
            try:
                return await next(request)
            except ModelError as error:
                seen.append(error)
                return await next(request)

    run = states_of(runtime_for([KeyError("x"), "done"], middleware=[Retry()]))[-1]

    assert (run.answer, run.counters.steps) == ("done", 1)
    assert isinstance(seen[0].__cause__, KeyError)


def test_a_wrapper_sees_a_failed_tool_as_its_result():
    """What the tool raised has become an error result by then."""
    seen: list[ToolResult] = []

    class Look(Middleware):
        async def tool(self, call: Any, state: Any, next: Any) -> ToolResult:
            seen.append(await next(call, state))
            return seen[-1]

    states_of(runtime_for([calls("add", a=1, b="x"), "sorry"], [add], middleware=[Look()]))

    assert seen[0].status == "error"
    assert "TypeError" in seen[0].content


def test_an_outer_wrapper_sees_the_exception_of_an_inner_one():
    """The outer may catch what the inner raises, as wrappers do."""

    class Inner(Middleware):
        async def tool(self, call: Any, state: Any, next: Any) -> ToolResult:
            raise LookupError("inner")

    class Outer(Middleware):
        async def tool(self, call: Any, state: Any, next: Any) -> ToolResult:
            try:
                return await next(call, state)
            except LookupError as error:
                return ToolResult(call.id, call.name, f"caught {error}", "error")

    run = states_of(runtime_for(list(ONE_CALL), [add], middleware=[Outer(), Inner()]))[-1]

    assert run.tool_results[0].content == "caught inner"


def test_a_wrapper_that_refuses_a_model_call_ends_the_run_as_data():
    """A ModelError from a wrapper is like one from the model."""

    class NoBudget(Middleware):
        async def model(self, request: Any, next: Any) -> ModelReply:
            raise ModelError("no budget left")

    run = states_of(runtime_for(["done"], middleware=[NoBudget()]))[-1]

    assert (run.stop, run.answer) == (StopReason.ERROR, None)
    assert "no budget left" in run.detail


@pytest.mark.parametrize("method", ["before", "model", "tool"])
def test_a_bug_in_a_middleware_travels_up(method):
    """It is a programming error; hiding it would help nobody."""

    async def fail(*args: Any, **more: Any) -> None:
        raise TypeError("a bug")

    broken = type("Broken", (), {method: staticmethod(fail)})()

    with pytest.raises((TypeError, ModelError), match="a bug"):
        states_of(runtime_for(list(ONE_CALL), [add], middleware=[broken]))


# ── listeners ────────────────────────────────────────────────────────────────────────────────────────────────────────


def heard(events: list[Any]) -> list[str]:
    """The names of the events."""
    return [type(event).__name__ for event in events]


def test_events_come_in_the_order_of_what_happens():
    """Step, pieces, State, tool, State, and again; every State is told of before it is seen."""
    events: list[Any] = []
    made = states_of(runtime_for(list(ONE_CALL), [add], middleware=[events.append]))

    assert heard(events) == [
        "StepStarted", "StateMade", "ToolStarted", "ToolFinished", "StateMade", "StepStarted", "StateMade",
    ]  # fmt: skip
    assert [event.state for event in events if isinstance(event, StateMade)] == made
    assert [event.number for event in events if isinstance(event, StepStarted)] == [1, 2]


def test_events_of_parallel_tools():
    """Each tool has its start, its end with the result, and its State; all starts come first."""
    events: list[Any] = []
    reply = several(calls("add", a=1, b=2), calls("add", a=3, b=4))

    async def slow_add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    states_of(runtime_for([reply, "ok"], [FunctionTool(slow_add, "add")], middleware=[events.append]))
    tools = [event for event in events if isinstance(event, ToolStarted | ToolFinished)]

    assert heard(tools) == ["ToolStarted", "ToolStarted", "ToolFinished", "ToolFinished"]
    assert [event.result.content for event in tools[2:]] == ["3", "7"]


def test_pieces_of_a_reply_are_told_while_they_arrive():
    """A generator streams; a listener hears each piece before the State."""
    events: list[Any] = []
    states_of(runtime_for([lambda request: iter(["Hel", "lo"])], middleware=[events.append]))

    assert [event.delta.text for event in events if isinstance(event, Streamed)] == ["Hel", "lo"]
    assert heard(events) == ["StepStarted", "Streamed", "Streamed", "StateMade"]


def test_who_wants_no_pieces_costs_none():
    """When nobody wants pieces, the model is not asked to stream."""
    asked: list[Any] = []

    class Model:
        name = "m"

        async def reply(self, request: Any, on_delta: Any = None) -> ModelReply:
            asked.append(on_delta)
            return ModelReply("done", request=request)

    def listener(event: Any) -> None:
        pass

    listener.wants_deltas = False
    states_of(runtime_for(Model(), middleware=[listener]))
    states_of(runtime_for(Model()))
    states_of(runtime_for(Model(), middleware=[listener, lambda event: None]))

    assert [on_delta is None for on_delta in asked] == [True, True, False]


def test_a_failing_listener_is_logged_once_and_dropped(caplog):
    """The run is unhurt, the log says who failed with its traceback, and the others go on hearing everything."""
    tries, events = [], []

    def broken(event: Any) -> None:
        tries.append(event)
        raise RuntimeError("no disk")

    with caplog.at_level(logging.WARNING, "agentnb"):
        made = states_of(runtime_for(list(ONE_CALL), [add], middleware=[broken, events.append]))

    assert made[-1].answer == "3"
    assert (len(tries), len(caplog.records), len(events)) == (1, 1, 7)
    assert "broken" in caplog.text
    assert "no disk" in caplog.text


def test_a_listener_that_fails_in_two_runs_at_once_hurts_neither():
    """A runtime may serve two threads; the listener fails in both at the same moment."""
    gate = threading.Barrier(2)
    ends: list[Any] = []

    def broken(event: Any) -> None:
        gate.wait(5)
        raise RuntimeError("both")

    runtime = runtime_for(lambda_model(), middleware=[broken])

    def run() -> None:
        try:
            ends.append(asyncio.run(collect(runtime))[-1].answer)
        except ValueError as error:
            ends.append(error)

    workers = [threading.Thread(target=run) for _ in range(2)]
    [worker.start() for worker in workers]
    [worker.join(10) for worker in workers]

    assert ends == ["done", "done"]


def lambda_model() -> Any:
    """A model that always answers."""
    return CallableModel(lambda request: "done")


def test_a_failing_listener_does_not_break_a_stream():
    """Also a failure in the middle of a streamed reply is caught."""

    def broken(event: Any) -> None:
        if isinstance(event, Streamed):
            raise RuntimeError("display closed")

    assert states_of(runtime_for([lambda request: iter(["Hel", "lo"])], middleware=[broken]))[-1].answer == "Hello"


def test_events_can_not_be_changed():
    """A listener looks; it can't set anything on an event."""
    events: list[Any] = []
    states_of(runtime_for(list(ONE_CALL), [add], middleware=[events.append]))

    for event in events:
        with pytest.raises(AttributeError):
            event.state = None


def test_listeners_and_middleware_stand_in_one_list():
    """Whatever has before, model or tool wraps; any other callable listens."""
    log, events = [], []
    states_of(runtime_for(["done"], middleware=[events.append, Noting("A", log)]))

    assert log == ["A before 1", "A model", "A /model"]
    assert heard(events) == ["StepStarted", "Streamed", "StateMade"]
