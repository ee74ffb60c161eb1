"""The loop: what each kind of reply leads to, parallel tools, approval, errors as data, doors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fakes import (
    FunctionTool,
    add,
    check_wire,
    collect,
    raw_call,
    runtime_for,
    says,
    several,
    states_of,
)

from agentnb.core import model as door_list
from agentnb.core.limits import Limits, StopReason
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.errors import ModelError, RecordingError, ToolDefinitionError
from agentnb.models.scripted import CallableModel, ScriptedModel, calls


def requests_of(model: ScriptedModel) -> list[list[dict[str, Any]]]:
    """The messages of each request that the model got, checked to be a valid history."""
    sent = [request.messages for request in model.requests]
    for messages in sent:
        check_wire(messages)
    return sent


# ── the two transitions ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_plans_and_acts_until_there_is_an_answer():
    """One model call, its tools, the next model call: the answer ends the run."""
    model = ScriptedModel([calls("add", a=1, b=2), calls("add", a=3, b=4), says("10")])
    made = states_of(runtime_for(model, [add]))

    assert [state.kind for state in made] == ["plan", "act", "plan", "act", "plan"]
    assert made[-1].answer == "10"
    assert [messages[-1]["content"] for messages in requests_of(model)] == ["the goal", "3", "7"]


def test_an_answered_state_has_nothing_left_to_do(scripted_run):
    """To run from an answer yields nothing and asks nobody."""
    run = scripted_run(["done"])

    assert states_of(runtime_for([]), run) == []


def test_a_message_after_the_answer_goes_on(scripted_run):
    """The conversation goes on after an answer with `say`."""
    first = scripted_run(["done"])
    more = scripted_run(["and more"], state=first.say("more?"))

    assert (more.answer, more.counters.steps) == ("and more", 2)


def test_open_calls_run_before_the_model_is_asked():
    """Started from a State with an open call, the call runs first, so no request lacks a result."""
    tool, model = FunctionTool(add), ScriptedModel(["3"])
    half = states_of(runtime_for([calls("add", a=1, b=2), "3"], [add]))[0]
    run = states_of(runtime_for(model, [tool]), half)[-1]

    assert (run.answer, len(tool.started)) == ("3", 1)
    assert requests_of(model)[0][-1]["content"] == "3"


@pytest.mark.parametrize("finish", ["stop", None, "tool_calls", "whatever"])
def test_calls_decide_and_not_the_finish_reason(finish, scripted_run):
    """A reply that holds a call is one, whatever its finish reason says."""
    run = scripted_run([{**calls("add", a=1, b=2), "finish_reason": finish}, "3"], [add])

    assert (run.answer, run.tool_results[0].content) == ("3", "3")


def test_one_runtime_serves_many_runs_at_once():
    """A Runtime holds no progress: runs that interleave don't see each other."""

    async def model(request: Any) -> Any:
        await asyncio.sleep(0)
        last = request.messages[-1]
        return (
            says(f"{last['content']}!")
            if last["role"] == "tool"
            else calls("echo", text=request.messages[-1]["content"])
        )

    async def echo(text: str) -> str:
        await asyncio.sleep(0)
        return text

    async def many() -> list[State]:
        runtime = runtime_for(CallableModel(model), [FunctionTool(echo)])
        return [made[-1] for made in await asyncio.gather(*[collect(runtime, f"goal {n}") for n in range(20)])]

    assert [run.answer for run in asyncio.run(many())] == [f"goal {n}!" for n in range(20)]


@pytest.mark.parametrize("tools", [(add, add), (FunctionTool(add), FunctionTool(lambda: 0, "add"))])
def test_two_tools_of_one_name_are_refused(tools):
    """A name is one tool's; the error says which is there twice."""
    with pytest.raises(ToolDefinitionError, match="two tools are named 'add'"):
        runtime_for([], tools)


def test_the_same_tool_twice_is_refused():
    """The same object listed twice would be sent twice, which servers refuse."""
    tool = FunctionTool(add)

    with pytest.raises(ToolDefinitionError, match="two tools are named 'add'"):
        runtime_for([], [tool, tool])


# ── replies that are no success ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "empty", [says(""), says("  \n"), {"content": None, "tool_calls": [], "finish_reason": "tool_calls"}]
)
def test_an_empty_reply_is_asked_again_once(empty):
    """Nothing is not an answer: one more try, then the run ends as "empty reply" with both replies on record."""
    model = ScriptedModel([empty, empty, says("too late")])
    run = states_of(runtime_for(model))[-1]

    assert (run.stop, run.answer) == (StopReason.EMPTY_REPLY, None)
    assert len(model.requests) == 2
    assert [step.reply.text.strip() for step in run.steps] == ["", ""]


def test_a_second_try_that_works_is_an_answer(scripted_run):
    """One empty reply hurts nobody; and a later one gets its own second try."""
    run = scripted_run(["", calls("add", a=1, b=2), "", "3"], [add])

    assert run.answer == "3"


def test_going_on_after_empty_replies():
    """After an empty-reply stop the model may be asked again."""
    stopped = states_of(runtime_for(["", ""]))[-1]
    run = states_of(runtime_for(["done"]), stopped)[-1]

    assert run.answer == "done"


@pytest.mark.parametrize(
    "arguments", ['{"path": "a.txt", "text": "chap', '{"path": "a.txt"}', "", '{"path": "a.txt", "text": "whole"}']
)
def test_nothing_of_a_cut_reply_is_run(arguments):
    """A reply that ended at the length limit runs no call, even one that can be read; the model is told why."""
    tool = FunctionTool(lambda path, text="": "written", "write_file")
    model = ScriptedModel([raw_call("write_file", arguments, finish_reason="length"), "sorry"])
    run = states_of(runtime_for(model, [tool]))[-1]

    assert (tool.started, run.answer) == ([], "sorry")
    assert run.tool_results[0].status == "error"
    assert "cut" in requests_of(model)[1][-1]["content"]
    assert any("truncated" in note for note in run.steps[0].notes)


def test_every_call_of_a_cut_reply_is_answered(scripted_run):
    """Also those that came before the cut."""
    reply = several(calls("add", a=1, b=2), raw_call("add", '{"a": 1'), finish_reason="length")
    run = scripted_run([reply, "ok"], [add])

    assert ["cut" in result.content for result in run.tool_results] == [True, True]


def test_a_cut_call_waits_for_no_approval(scripted_run):
    """A person is not asked about a call that can't run anyway."""
    tool = FunctionTool(add, approve=True)
    run = scripted_run([{**calls("add", a=1, b=2), "finish_reason": "length"}, "ok"], [tool])

    assert (run.answer, tool.started) == ("ok", [])


def test_a_cut_answer_is_no_answer(scripted_run):
    """Text that was cut is kept and shown, and the run is "truncated", not done."""
    run = scripted_run([{"content": "Once upon a", "finish_reason": "length"}])

    assert (run.stop, run.answer) == (StopReason.TRUNCATED, None)
    assert run.messages[-1].content == "Once upon a"


def test_going_on_after_a_cut_answer():
    """The model sees its own beginning and a message that asks it to go on."""
    stopped = states_of(runtime_for([{"content": "Once upon a", "finish_reason": "length"}]))[-1]
    model = ScriptedModel([" time."])
    run = states_of(runtime_for(model), stopped)[-1]

    assert run.answer == " time."
    assert [message["role"] for message in requests_of(model)[0]][1:] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"content": None, "finish_reason": "content_filter"}, "filter"),
        ({"content": None, "refusal": "I can't help with that"}, "I can't help with that"),
        ({"content": "I must decline.", "finish_reason": "refusal"}, "I must decline."),
    ],
)
def test_a_refusal_is_its_own_ending(reply, words):
    """Refused is told apart from done and from error, its words are visible, and it is asked once."""
    model = ScriptedModel([reply, "second try"])
    run = states_of(runtime_for(model))[-1]

    assert (run.stop, run.answer, len(model.requests)) == (StopReason.REFUSED, None, 1)
    assert words in run.detail


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (ModelError("too long", kind="context_too_long"), StopReason.CONTEXT_TOO_LONG),
        (ModelError("lost", kind="connection"), StopReason.CONNECTION_LOST),
        (ModelError("blocked", kind="refused"), StopReason.REFUSED),
        (ModelError("key", kind="auth", remedy="Set OPENAI_API_KEY."), StopReason.ERROR),
        (ValueError("my own bug"), StopReason.ERROR),
        (KeyError("x"), StopReason.ERROR),
    ],
)
def test_a_failed_model_call_is_data(error, stop, scripted_run):
    """A run ends with a State in hand that says what failed and what to do; nothing before it is lost."""
    run = scripted_run([calls("add", a=1, b=2), error], [add])

    assert (run.stop, run.tool_results[0].content) == (stop, "3")
    assert str(error.args[0]) in run.detail
    assert isinstance(run.decision.error, ModelError)


def test_the_cause_of_a_failed_model_call_is_kept(scripted_run):
    """The person finds the traceback of their own model function behind the error."""
    bug = ZeroDivisionError("in my model")
    run = scripted_run([bug])

    assert run.decision.error.__cause__ is bug
    assert "ZeroDivisionError" in run.detail


def test_going_on_after_a_failed_call_asks_the_same_again():
    """What failed added nothing to the history, so the same request is sent again."""
    first = ScriptedModel([calls("add", a=1, b=2), ModelError("down", kind="connection", partial="half a")])
    stopped = states_of(runtime_for(first, [add]))[-1]
    second = ScriptedModel(["3"])
    run = states_of(runtime_for(second, [add]), stopped)[-1]

    assert run.answer == "3"
    assert second.requests[0].messages == first.requests[1].messages


def test_what_arrived_before_a_failure_is_on_the_step(scripted_run):
    """Text of a broken stream is kept for the person and is not sent."""
    run = scripted_run([ModelError("lost", kind="connection", partial="half a sent")])

    assert run.steps[0].reply.text == "half a sent"
    assert len(run.messages) == 1


def test_a_recording_that_can_not_answer_raises(scripted_run):
    """What makes the run impossible is an error, not an ending."""
    with pytest.raises(RecordingError, match="no answer"):
        scripted_run([RecordingError("no answer")])


def test_a_planner_s_own_bug_travels_up(scripted_run):
    """Only programming errors raise."""

    class Broken:
        async def plan(self, state: Any, tools: Any, ask: Any) -> Decision:
            raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        scripted_run([], planner=Broken())


def test_a_timeout_error_in_a_planner_is_its_own(scripted_run):
    """A planner that raises TimeoutError has a bug; it is not taken for the time limit."""

    class Broken:
        async def plan(self, state: Any, tools: Any, ask: Any) -> Decision:
            raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        scripted_run([], planner=Broken(), limits=Limits(seconds=99))


# ── calls that can't be run ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["serch", "functions.search", "Search"])
def test_an_unknown_tool_is_reported_to_the_model(name, scripted_run):
    """The model reads the unknown name, the tools that are there and the nearest name; nothing is executed."""
    tools = [FunctionTool(lambda q: q, "search"), FunctionTool(lambda: 0, "sum_up")]
    run = scripted_run([calls(name, q="x"), "done"], tools)
    text = run.tool_results[0].content

    assert f"no tool named {name!r}" in text
    assert "search, sum_up" in text
    assert "Did you mean 'search'?" in text
    assert (run.answer, tools[0].started, run.tool_results[0].status) == ("done", [], "error")


@pytest.mark.parametrize("name", [None, "", "\n", "x" * 5000, "cut \ud83d"])
def test_a_name_that_is_none_is_reported_too(name, scripted_run):
    """No name, an endless name or half an emoji neither end the run nor swell the request."""
    run = scripted_run([several({"tool_calls": [{"function": {"name": name, "arguments": "{}"}}]}), "done"], [add])

    assert run.answer == "done"
    assert "no tool named" in run.tool_results[0].content
    assert len(run.tool_results[0].content) < 300


def test_a_model_without_tools_hears_that_there_are_none(scripted_run):
    """With no tools at all the text still makes sense."""
    run = scripted_run([calls("search"), "done"])

    assert "The tools are: none" in run.tool_results[0].content


def test_a_problem_of_a_call_is_its_result():
    """A planner that can't let a call run says why; the words go to the model and the tool is left alone."""
    tool = FunctionTool(add)

    class Careful:
        async def plan(self, state: State, tools: Any, ask: Any) -> Decision:
            if state.counters.steps:
                return Decision(answer="done")
            return Decision(calls=(ToolCall("c", "add", "{}", problem="unreadable: send JSON"),))

    run = states_of(runtime_for([], [tool], planner=Careful()))[-1]

    assert (tool.started, run.tool_results[0].content) == ([], "unreadable: send JSON")


@pytest.mark.parametrize("error", [ValueError("bad"), ZeroDivisionError(), AssertionError(), StopIteration("x")])
def test_whatever_a_tool_raises_goes_to_the_model(error, scripted_run):
    """Type and message, no traceback; the run goes on."""

    async def fail() -> None:
        raise error

    run = scripted_run([calls("fail"), "done"], [FunctionTool(fail)])

    assert (run.answer, run.tool_results[0].status) == ("done", "error")
    assert type(error).__name__ in run.tool_results[0].content or isinstance(error, StopIteration)
    assert "Traceback" not in run.tool_results[0].content


def test_half_an_emoji_in_a_tool_s_error_can_be_sent(scripted_run):
    """No text of a tool can break the next request."""

    def fail() -> None:
        raise ValueError("cut \ud83d")

    assert scripted_run([calls("fail"), "done"], [fail]).answer == "done"


def test_half_an_emoji_in_a_reply_of_one_s_own_can_be_sent(scripted_run):
    """A model function may return a ModelReply as it likes; its text still can be sent and saved."""
    reply = ModelReply("cut \ud83d", calls=(ToolCall("c", "add", '{"a": 1, "b": 2}'),))

    assert scripted_run([reply, "done"], [add]).answer == "done"


def test_a_tool_that_raises_cancelled_error_is_a_failed_tool(scripted_run):
    """Nobody cancelled the run: a tool that awaits something cancelled gets a result, and the run goes on."""

    async def fail() -> None:
        raise asyncio.CancelledError

    run = scripted_run([several(calls("fail"), calls("add", a=1, b=2)), "done"], [FunctionTool(fail), add])

    assert run.answer == "done"
    assert not run.tool_results[0].ok
    assert run.tool_results[1].content == "3"


# ── parallel tools ───────────────────────────────────────────────────────────────────────────────────────────────────


class Gates:
    """Tools that wait until the test opens their gate; it knows which have started."""

    def __init__(self, *names: str) -> None:
        self.gate = {name: asyncio.Event() for name in names}
        self.started: list[str] = []
        self.all_started = asyncio.Event()

    def tool(self, name: str, **flags: Any) -> FunctionTool:
        """The tool of this name."""

        async def wait() -> str:
            self.started.append(name)
            if len(self.started) == len(self.gate):
                self.all_started.set()
            await self.gate[name].wait()
            return f"result {name}"

        return FunctionTool(wait, name, **flags)


def in_order(order: str, finish: str, **flags: Any) -> tuple[list[State], ScriptedModel]:
    """A run of one reply with these calls, whose tools finish in this order."""

    async def play() -> tuple[list[State], ScriptedModel]:
        gates = Gates(*order)
        model = ScriptedModel([several(*[calls(name) for name in order], ids=list(order)), "done"])
        runtime, made = runtime_for(model, [gates.tool(name, **flags) for name in order]), []
        left = list(finish)
        async for state in runtime.states(State.start("go")):
            made.append(state)
            if left:
                gates.gate[left.pop(0)].set()
        return made, model

    return asyncio.run(play())


@pytest.mark.parametrize("finish", ["abc", "cba", "bca"])
def test_states_come_in_finishing_order(finish):
    """Each answer makes a State as it comes in; the request after the round is in call order."""
    made, model = in_order("abc", finish)

    assert [state.results[-1].call_id for state in made[1:4]] == list(finish)
    assert [message["tool_call_id"] for message in requests_of(model)[1][-3:]] == ["a", "b", "c"]
    assert [result.call_id for result in made[-1].tool_results] == ["a", "b", "c"]


def test_runs_are_equal_whatever_came_in_first():
    """Two runs that differ only in which tool was quicker are equal."""
    assert in_order("abc", "abc")[0][-1] == in_order("abc", "cab")[0][-1]


def test_parallel_tools_run_side_by_side():
    """All calls of a reply start before any has finished."""

    async def play() -> list[str]:
        gates = Gates("a", "b", "c")
        runtime = runtime_for([several(*map(calls, "abc")), "done"], [gates.tool(name) for name in "abc"])
        task = asyncio.create_task(collect(runtime))
        await asyncio.wait_for(gates.all_started.wait(), 10)
        for gate in gates.gate.values():
            gate.set()
        await task
        return gates.started

    assert asyncio.run(play()) == ["a", "b", "c"]


def test_a_tool_that_is_not_parallel_runs_alone():
    """parallel=False waits for those before it and lets those after it wait."""
    seen, running = [], set()

    def tool(name: str, **flags: Any) -> FunctionTool:
        async def work() -> str:
            running.add(name)
            for _ in range(5):
                await asyncio.sleep(0)
            seen.append((name, sorted(running)))
            running.discard(name)
            return name

        return FunctionTool(work, name, **flags)

    tools = [tool("a"), tool("b"), tool("x", parallel=False), tool("c"), tool("d")]
    reply = several(*[calls(name) for name in "abxcd"])
    run = states_of(runtime_for([reply, "done"], tools))[-1]

    assert ("x", ["x"]) in seen
    assert [name for name, _ in seen] == ["a", "b", "x", "c", "d"]
    assert [result.content for result in run.tool_results] == list("abxcd")


# ── approval ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def guarded() -> FunctionTool:
    """A tool that a person decides about."""
    return FunctionTool(lambda to, text="": f"sent to {to}", "send", approve=True)


def test_a_guarded_call_pauses_the_run():
    """The run stops before the call, names it, and has started nothing."""
    tool = guarded()
    run = states_of(runtime_for([calls("send", to="Ann"), "done"], [tool]))[-1]

    assert (run.stop, tool.started) == (StopReason.PAUSED, [])
    assert "send" in run.detail
    assert [call.name for call in run.open_calls] == ["send"]


def test_calls_beside_a_guarded_one_run():
    """What needs no approval is done by the time the person looks."""
    tool = guarded()
    run = states_of(runtime_for([several(calls("send", to="Ann"), calls("add", a=1, b=2)), "ok"], [tool, add]))[-1]

    assert run.stop is StopReason.PAUSED
    assert [result.content for result in run.tool_results] == ["3"]


def paused(tool: FunctionTool, *replies: Any) -> tuple[Any, State, ToolCall]:
    """A runtime, its run that waits for approval, and the call it waits for."""
    runtime = runtime_for([calls("send", to="Ann"), *replies], [tool])
    run = states_of(runtime)[-1]
    return runtime, run, run.open_calls[0]


def test_an_approved_call_runs():
    """As the model wrote it."""
    tool = guarded()
    runtime, run, call = paused(tool, "done")
    done = states_of(runtime, run.approve(call.id))[-1]

    assert (done.answer, tool.started) == ("done", [{"to": "Ann"}])


def test_approved_with_other_arguments():
    """The tool gets the person's arguments, the history shows the model's own, the result names what ran."""
    tool = guarded()
    runtime, run, call = paused(tool, "done")
    done = states_of(runtime, run.approve(call.id, {"to": "Bob", "text": "\u00e9"}))[-1]

    assert tool.started == [{"to": "Bob", "text": "\u00e9"}]
    assert done.steps[0].results[0].arguments == {"to": "Bob", "text": "\u00e9"}
    assert done.messages[2].content.startswith('(run with other arguments: {"to": "Bob", "text": "\u00e9"})\n')
    assert done.messages[1].calls[0].arguments == call.arguments


def test_a_denied_call_is_told_to_the_model():
    """The model reads the no and goes on."""
    tool = guarded()
    runtime, run, call = paused(tool, "then not")
    done = states_of(runtime, run.deny(call.id, "too late in the day"))[-1]

    assert (done.answer, tool.started) == ("then not", [])
    assert "too late in the day" in requests_of(runtime.model)[1][-1]["content"]


def test_a_pause_that_nobody_decided_pauses_again():
    """To run on without a decision asks no model and runs nothing."""
    tool = guarded()
    runtime, run, _ = paused(tool, "done")
    again = states_of(runtime, run)[-1]

    assert (again.stop, tool.started, len(runtime.model.requests)) == (StopReason.PAUSED, [], 1)


def test_an_approval_does_not_reach_the_next_call():
    """A later call with the same id, as some servers make them, waits for its own approval."""
    tool = guarded()
    script = [several(calls("send", to=name), ids=["call_0"]) for name in ("Ann", "Eve")]
    runtime = runtime_for([*script, "done"], [tool])
    first = states_of(runtime)[-1]
    second = states_of(runtime, first.approve("call_0", {"to": "Bob"}))[-1]

    assert second.stop is StopReason.PAUSED
    assert tool.started == [{"to": "Bob"}]


def test_one_of_two_guarded_calls_may_run():
    """Each call is decided for itself."""
    tool = guarded()
    runtime = runtime_for([several(calls("send", to="Ann"), calls("send", to="Bob"), ids="ab"), "done"], [tool])
    run = states_of(runtime)[-1]
    half = states_of(runtime, run.approve("b"))[-1]

    assert (half.stop, tool.started) == (StopReason.PAUSED, [{"to": "Bob"}])
    assert [call.id for call in half.open_calls] == ["a"]
    assert states_of(runtime, half.deny("a"))[-1].answer == "done"


def test_a_message_instead_of_a_decision():
    """Who answers a pause with a message leaves the call not run, and the model reads both."""
    tool = guarded()
    runtime, run, _ = paused(tool, "ok")
    done = states_of(runtime, run.say("wait, who is Ann?"))[-1]

    assert (done.answer, tool.started) == ("ok", [])
    assert [message["role"] for message in requests_of(runtime.model)[1][-2:]] == ["tool", "user"]


def test_a_person_s_result_instead_of_a_decision():
    """with_result answers the call that waits."""
    tool = guarded()
    runtime, run, call = paused(tool, "ok")
    done = states_of(runtime, run.with_result(call.id, "sent by hand"))[-1]

    assert (done.answer, done.tool_results[0].content, tool.started) == ("ok", "sent by hand", [])


# ── doors ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Door:
    """Notes that it was passed, and may answer itself."""

    def __init__(self, name: str, log: list[str], answer: str | None = None) -> None:
        self.name, self.log, self.answer = name, log, answer

    async def reply(self, model: Any, request: Any, on_delta: Any, onward: Any) -> ModelReply:
        """In, onward or not, out."""
        self.log.append(f"{self.name} in")
        reply = ModelReply(self.answer, request=request) if self.answer else await onward(request)
        self.log.append(f"{self.name} out")
        return reply


@pytest.fixture
def doors():
    """The list of open doors; what a test opened is closed after it."""
    yield door_list.doors
    door_list.doors.clear()


def test_every_model_call_goes_through_the_doors_in_order(doors, scripted_run):
    """The first door is the outermost, for each call of the run."""
    log: list[str] = []
    doors += [Door("first", log), Door("second", log)]
    run = scripted_run([calls("add", a=1, b=2), "3"], [add])

    assert run.answer == "3"
    assert log == ["first in", "second in", "second out", "first out"] * 2


def test_a_door_may_answer_itself(doors):
    """A recording answers in the place of the model; doors behind it and the model are not asked."""
    log: list[str] = []
    doors += [Door("first", log), Door("recording", log, "recorded"), Door("behind", log)]
    model = ScriptedModel([])
    run = states_of(runtime_for(model))[-1]

    assert (run.answer, model.requests) == ("recorded", [])
    assert log == ["first in", "recording in", "recording out", "first out"]


def test_result_types_are_those_of_the_protocol(scripted_run):
    """What a tool gives back is on the step as it is: content, value, arguments."""
    result = scripted_run([calls("add", a=1, b=2), "3"], [add]).steps[0].results[0]

    assert isinstance(result, ToolResult)
    assert (result.value, result.arguments, result.ok) == (3, {"a": 1, "b": 2}, True)
