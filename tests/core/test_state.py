"""States: one per transition, frozen, shared; roll back, fork, decide, compare, keep."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import sys
import threading

import pytest
from fakes import FunctionTool, add, check_state, check_wire, runtime_for, says, several, states_of

from agentnb.core.limits import StopReason
from agentnb.core.messages import Message, ToolCall, ToolResult, Usage, user
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.errors import RunError, UsageError
from agentnb.models.scripted import calls
from agentnb.text import hide

THREE = [calls("add", a=1, b=2), calls("add", a=3, b=4), says("10")]


@pytest.fixture
def run() -> State:
    """Two rounds of a call each, and an answer."""
    return states_of(runtime_for(list(THREE), [add]))[-1]


def asked(*names: str) -> State:
    """A State in which calls with these names (and ids) are open."""
    made = tuple(ToolCall(name, name) for name in names)
    return State.start("go").planned(Decision(ModelReply(calls=made), calls=made))


def long_run(steps: int) -> State:
    """A run of this many rounds, made by hand, with an answer at its end."""
    state = State.start("count")
    for number in range(steps):
        call = ToolCall(f"c{number}", "count", f'{{"n": {number}}}')
        state = state.planned(Decision(ModelReply(calls=(call,), usage=Usage(5, 1)), calls=(call,)))
        state = state.answered(ToolResult(call.id, "count", str(number)))
    return state.planned(Decision(ModelReply("done", usage=Usage(5, 1)), answer="done"))


# ── transitions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_transition_makes_one_state(run):
    """Plan, act, plan, act, plan: the path from the goal to the answer."""
    assert [state.kind for state in run.path()] == ["start", "plan", "act", "plan", "act", "plan"]
    assert [state.parent for state in run.path()] == [None, *run.path()[:-1]]


def test_one_state_for_each_answer():
    """Three calls of one reply make three States, each with one result more."""
    made = states_of(runtime_for([several(*[calls("add", a=n, b=0) for n in range(3)]), "ok"], [add]))

    assert [len(state.results) for state in made] == [0, 1, 2, 3, 0]
    assert [len(state.open_calls) for state in made] == [3, 2, 1, 0, 0]


def test_states_are_frozen(run):
    """Nothing of a State can be set; what changes is the next State."""
    for name in ("goal", "stop", "answer", "parent", "counters", "calls"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(run, name, None)


def test_a_run_says_what_it_came_to(run):
    """Goal, answer, stop, finished and tool results are there to read."""
    assert (run.goal, run.answer, run.stop, run.finished) == ("the goal", "10", StopReason.ANSWER, True)
    assert [result.content for result in run.tool_results] == ["3", "7"]
    assert [message.role for message in run.messages] == ["user", *["assistant", "tool"] * 2, "assistant"]


def test_half_emojis_of_the_goal_are_replaced():
    """The goal is cleaned where it enters."""
    assert State.start("cut \ud83d").goal == "cut \ufffd"


def test_finishing_order_is_kept_and_call_order_is_shown():
    """Results are kept as they came in; the prompt, the step and the display are in call order."""
    state = asked("a", "b", "c")
    for name in "cab":
        state = state.answered(ToolResult(name, name, f"result {name}"))

    assert [result.call_id for result in state.results] == ["c", "a", "b"]
    assert [result.call_id for result in state.steps[0].results] == ["a", "b", "c"]
    assert [message.call_id for message in state.messages[2:]] == ["a", "b", "c"]
    assert [message["tool_call_id"] for message in state.request().messages[2:]] == ["a", "b", "c"]
    assert [result.call_id for result in state.tool_results] == ["a", "b", "c"]


def test_finishing_order_does_not_count_in_equality():
    """Two runs in which parallel tools came in otherwise are equal, also half-way."""
    one = asked("a", "b", "c").answered(ToolResult("a", "a", "x")).answered(ToolResult("c", "c", "y"))
    other = asked("a", "b", "c").answered(ToolResult("c", "c", "y")).answered(ToolResult("a", "a", "x"))

    assert one == other
    assert hash(one) == hash(other)
    assert one.answered(ToolResult("b", "b", "z")) == other.answered(ToolResult("b", "b", "z"))


def test_times_do_not_count_in_equality():
    """The same run, slower, is equal."""
    call = (ToolCall("c", "f"),)
    slow, quick = (
        State.start("go").planned(Decision(calls=call), seconds).answered(ToolResult("c", "f", "x"), seconds)
        for seconds in (9.0, 0.1)
    )

    assert slow == quick
    assert slow.counters.seconds == 18.0


@pytest.mark.parametrize(
    "other",
    [
        State.start("another goal"),
        State.start("go").say("more"),
        State.start("go").stopped(StopReason.CANCELLED),
        asked("a"),
        "go",
        None,
    ],
)
def test_what_differs_is_unequal(other):
    """Another goal, message, stop or call makes another State; something else is never equal to one."""
    assert State.start("go") != other


def test_results_count_in_equality():
    """A run in which a tool said something else is another run."""
    assert asked("a").answered(ToolResult("a", "a", "x")) != asked("a").answered(ToolResult("a", "a", "y"))
    assert asked("a").answered(ToolResult("a", "a", "x")) != asked("a")


# ── say ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_say_goes_on_from_an_answer(run):
    """A message of the person follows the answer, and the State is open again."""
    more = run.say("and doubled?")

    assert (more.finished, more.answer, more.goal) == (False, None, run.goal)
    assert more.messages == (*run.messages, user("and doubled?"))


def test_say_answers_open_calls_as_not_run():
    """Calls that are still open are answered "not run", those with a result keep it."""
    state = asked("a", "b", "c").answered(ToolResult("b", "b", "result b")).say("stop that")

    assert [result.status for result in state.steps[0].results] == ["not run", "ok", "not run"]
    assert state.counters.tool_calls == 1
    assert state.open_calls == ()
    check_wire(state.request().messages)


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_say_wants_words(text):
    """An empty message would be refused by most providers."""
    with pytest.raises(UsageError, match="empty message"):
        State.start("go").say(text)


def test_say_cleans_what_is_said():
    """Half an emoji of the person can be sent."""
    assert State.start("go").say("cut \ud83d").messages[-1].content == "cut \ufffd"


# ── with_result ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_with_result_answers_an_open_call():
    """A person's result stands where the tool's would."""
    state = asked("a", "b").with_result("a", "31.0")

    assert [call.id for call in state.open_calls] == ["b"]
    assert state.with_result("b", "x").request().messages[2]["content"] == "31.0"


def test_with_result_forks_where_the_call_was_answered(run):
    """Another result for an earlier call gives a State of that round, and the run stays as it was."""
    first = run.steps[0].calls[0]
    other = run.with_result(first.id, "31.0")

    assert other.messages[-1].content == "31.0"
    assert (other.counters.steps, other.finished, other.open_calls) == (1, False, ())
    assert [result.content for result in run.tool_results] == ["3", "7"]
    assert other.messages[:-1] == run.messages[:2]


def test_with_result_keeps_the_other_answers_of_the_round():
    """Where three calls were answered, the other two keep their results."""
    reply = several(*[calls("add", a=n, b=0) for n in range(3)], ids=["x", "y", "z"])
    run = states_of(runtime_for([reply, "ok"], [add]))[-1]
    other = run.with_result("y", "changed")

    assert [result.content for result in other.tool_results] == ["0", "changed", "2"]
    assert other.counters.tool_calls == 3
    check_state(other)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", "null"),
        (None, "null"),
        (3, "3"),
        ({"a": [1]}, '{"a": [1]}'),
        ("cut \ud83d", "cut \ufffd"),
        ({(1, 2): "a"}, "<dict that JSON can't hold>"),
    ],
)
def test_with_result_takes_any_value(value, content):
    """What is not text is written as JSON; nothing is ever empty."""
    assert asked("a").with_result("a", value).messages[-1].content == content


@pytest.mark.parametrize("value", [{"t": "cut \ud83d"}, ["\ude00"], {"\ud83d": 1}])
def test_with_result_cleans_what_is_inside_a_value(value):
    """Half an emoji inside a list or dict can be sent, too."""
    check_wire(asked("a").with_result("a", value).request().messages)


def test_with_result_of_an_unknown_call_says_where_ids_are(run):
    """An id that no call has is a UsageError."""
    with pytest.raises(UsageError, match="no call 'nope'"):
        run.with_result("nope", 1)


def test_with_result_means_the_newest_of_equal_ids():
    """Providers that count from one in each reply reuse ids; the newest call is meant."""
    reply = [several(calls("add", a=n, b=0), ids=["call_0"]) for n in (1, 2)]
    run = states_of(runtime_for([*reply, "ok"], [add]))[-1]
    other = run.with_result("call_0", "changed")

    assert [result.content for result in other.tool_results] == ["1", "changed"]
    check_state(other)


def test_with_result_reaches_behind_a_message_of_the_person():
    """A round that was settled by `say` can be answered after all, as a fork."""
    other = asked("a", "b").say("never mind").with_result("a", "after all")

    assert other.tool_results[0].content == "after all"
    assert not other.finished
    check_state(other)


# ── approve and deny ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_deny_answers_with_the_reason():
    """The model reads that a person said no, and why; a denied call does not count as run."""
    state = asked("a").deny("a", "too dear \ud83d")

    assert state.messages[-1].content == "Denied by the user: too dear \ufffd"
    assert (state.tool_results[0].status, state.counters.tool_calls) == ("denied", 0)


def test_approve_keeps_the_model_s_own_words():
    """Other arguments are for the run; the history still shows what the model asked for."""
    state = asked("a").approve("a", {"x": 1})

    assert state.calls[0].arguments == "{}"
    assert state.open_calls == state.calls


@pytest.mark.parametrize("method", ["approve", "deny"])
def test_only_open_calls_are_decided(method):
    """To decide a call that is answered, or that never was, is a UsageError."""
    state = asked("a", "b").answered(ToolResult("a", "a", "x"))

    for call_id in ("a", "nope"):
        with pytest.raises(UsageError, match=f"no open call {call_id!r}"):
            getattr(state, method)(call_id)


@pytest.mark.parametrize("arguments", [{"x": {1}}, [1], {"x": object()}, 7, {"x": float("nan")}])
def test_arguments_that_json_can_not_hold_are_refused(arguments):
    """The error says what a dict of arguments looks like."""
    with pytest.raises(UsageError, match=r"state: arguments are an object that JSON can hold: .*Give a dict such as"):
        asked("a").approve("a", arguments)


def test_an_approval_ends_with_its_round():
    """An approval is for one call; a later call with the same id waits for its own."""
    state = asked("call_0").approve("call_0").answered(ToolResult("call_0", "call_0", "x"))
    again = (ToolCall("call_0", "call_0"),)

    assert state.planned(Decision(ModelReply(calls=again), calls=again)).approvals == ()


def test_an_approval_ends_with_a_message_of_the_person():
    """Who goes on with a message takes back what was approved and not run."""
    state = asked("call_0").approve("call_0").say("no, wait")
    again = (ToolCall("call_0", "call_0"),)

    assert state.planned(Decision(ModelReply(calls=again), calls=again)).approvals == ()


# ── at, steps, path, table ───────────────────────────────────────────────────────────────────────────────────────────


def test_at_gives_the_state_before_a_step(run):
    """Steps count from 1; at(1) is the start."""
    assert run.at(1) is run.path()[0]
    assert run.at(2) is run.path()[2]
    assert run.at(3) is run.path()[4]


@pytest.mark.parametrize("step", [0, -1, 4, 99])
def test_at_refuses_steps_that_are_not(run, step):
    """A step that the run has not is a UsageError, and says how many there are."""
    with pytest.raises(UsageError, match="from 1 to 3"):
        run.at(step)


def test_at_of_a_fresh_run_is_itself():
    """at(1) before anything happened is the State in hand."""
    state = State.start("go")

    assert state.at(1) is state


def test_at_is_of_this_branch(run):
    """After a fork, at(2) is the State before the fork's own second step."""
    fork = states_of(runtime_for([calls("add", a=5, b=5), "ok"], [add]), run.at(2).say("other"))[-1]

    assert fork.at(2).messages[-1].content == "other"
    assert fork.at(1) is run.at(1)


def test_steps_show_call_and_result_together(run):
    """One Step per model call, numbered from 1, with its calls, results and the request that was sent."""
    assert [step.number for step in run.steps] == [1, 2, 3]
    assert [[result.content for result in step.results] for step in run.steps] == [["3"], ["7"], []]
    assert [message["role"] for message in run.steps[1].request["messages"]][1:] == ["user", "assistant", "tool"]


def test_the_request_of_a_step_stays_what_it_was(run):
    """The prompt is shared and grows, yet each step shows exactly what was sent then."""
    lengths = [len(step.request["messages"]) for step in run.steps]
    fork = states_of(runtime_for(["other"]), run.at(2).say("x"))[-1]

    assert lengths == [2, 4, 6]
    assert [len(step.request["messages"]) for step in run.steps] == lengths
    assert len(fork.steps[1].request["messages"]) == 5


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(lambda run: run.say("more"), id="say"),
        pytest.param(lambda run: run.stopped(StopReason.CANCELLED), id="stop"),
        pytest.param(lambda run: run, id="act"),
    ],
)
def test_the_newest_step_is_the_last_of_the_steps(then):
    """`step` is `steps[-1]`, whatever came after the round."""
    state = then(asked("a", "b").answered(ToolResult("b", "b", "x")).answered(ToolResult("a", "a", "y")))

    assert state.step.results == state.steps[-1].results
    assert len(state.step.results) == 2


def test_no_step_before_the_first():
    """A fresh run has no steps, no results and an empty table."""
    state = State.start("go")

    assert (state.step, state.steps, state.tool_results, state.table()) == (None, (), (), [])


def test_table_sums_up():
    """One plain dict per step, with tokens of the step and so far."""
    rows = long_run(2).table()

    assert [row["step"] for row in rows] == [1, 2, 3]
    assert [row["tokens"] for row in rows] == [6, 6, 6]
    assert [row["cumulative_tokens"] for row in rows] == [6, 12, 18]
    assert rows[0]["results"] == ["0"]


def test_unknown_tokens_stay_unknown_in_the_table(run):
    """Where the provider said nothing the table says None, and so does every sum after it."""
    assert [row["tokens"] for row in run.table()] == [None] * 3
    assert [row["cumulative_tokens"] for row in run.table()] == [None] * 3
    assert "tokens unknown" in repr(run)


def test_open_calls_show_what_came_in_so_far():
    """Messages and steps of a half-answered round hold the results that are there."""
    state = asked("a", "b").answered(ToolResult("b", "b", "x"))

    assert [message.call_id for message in state.messages[2:]] == ["b"]
    assert [result.call_id for result in state.steps[0].results] == ["b"]


def test_raise_for_stop():
    """An answer passes; any other end raises, with the State in hand."""
    stopped = State.start("go").stopped(StopReason.MAX_STEPS, "stopped after 3 steps")

    with pytest.raises(RunError, match="stopped after 3 steps") as caught:
        stopped.raise_for_stop()
    assert caught.value.state is stopped
    assert State.start("go").raise_for_stop().stop is None


def test_raise_for_stop_of_a_pause_says_how_to_decide():
    """Going on alone would change nothing."""
    with pytest.raises(RunError, match=r"run\.approve\(id\) or run\.deny\(id, reason\)"):
        asked("a").stopped(StopReason.PAUSED, "waits for approval").raise_for_stop()


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_shares_its_prefix_and_hurts_no_sibling(run):
    """Forks hold the very same messages before them; what one adds the others never see."""
    base = run.at(2)
    forks = [base.say(f"way {n}") for n in range(3)]

    assert [fork.messages[-1].content for fork in forks] == ["way 0", "way 1", "way 2"]
    assert all(fork.messages[n] is base.messages[n] for fork in forks for n in range(3))
    assert [len(fork.request().messages) for fork in forks] == [4, 4, 4]
    assert run.request().messages == [message.wire for message in run.messages]


def test_two_threads_fork_the_same_state_at_once():
    """Whoever comes second copies; no message of the one lands in the prompt of the other."""
    base, threads, rounds = State.start("go"), 8, 50
    gate, forks = threading.Barrier(threads), [[] for _ in range(threads)]

    def fork(me: int) -> None:
        for number in range(rounds):
            gate.wait(10)
            state = base
            for step in range(3):
                state = state.say(f"{me} {number} {step}")
            forks[me].append(state)

    workers = [threading.Thread(target=fork, args=(me,)) for me in range(threads)]
    [worker.start() for worker in workers]
    [worker.join(30) for worker in workers]

    for me, made in enumerate(forks):
        assert len(made) == rounds
        for number, state in enumerate(made):
            want = ["go", *[f"{me} {number} {step}" for step in range(3)]]
            assert [message["content"] for message in state.request().messages] == want


def test_a_shortened_prompt_leaves_the_history_whole(run):
    """When a compaction puts another prompt in place, the next request is short and the full history still there."""
    short = (user("summary"),)
    state = run.at(3).compacted(short)
    later = state.say("go on")

    assert [message["content"] for message in later.request().messages] == ["summary", "go on"]
    assert later.messages == (*run.at(3).messages, user("go on"))


def test_the_typed_answer_and_the_detail_are_of_one_state(run):
    """What says how a State ended is not inherited by the next one."""
    more = State.start("go").planned(Decision(answer="x", value=object(), detail="d")).say("and?")

    assert (more.stop, more.answer, more.value, more.detail, more.decision) == (None, None, None, "", None)


# ── values: keep, copy, compare ──────────────────────────────────────────────────────────────────────────────────────


def test_a_pickle_comes_back_equal(run):
    """A State travels with all it grew from, and goes on like the first."""
    again = pickle.loads(pickle.dumps(run))

    assert again == run
    assert hash(again) == hash(run)
    assert [state.kind for state in again.path()] == [state.kind for state in run.path()]
    assert again.steps[1].request == run.steps[1].request
    assert again.say("x") == run.say("x")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol_will_do(run, protocol):
    """Executors choose their own protocol."""
    assert pickle.loads(pickle.dumps(run, protocol)) == run


def test_a_pickle_needs_no_picklable_values():
    """Objects that tools returned, a lambda or an open lock, don't stop a run from travelling."""
    tool = FunctionTool(lambda: threading.Lock(), "lock")
    run = states_of(runtime_for([calls("lock"), calls("lock"), "ok"], [tool]))[-1]

    assert pickle.loads(pickle.dumps(run)) == run
    assert run.tool_results[0].value.acquire(blocking=False)


def test_copies_are_the_state_itself(run):
    """A frozen value needs no copy."""
    assert copy.copy(run) is run
    assert copy.deepcopy(run) is run
    assert copy.deepcopy([run, {"run": run}])[1]["run"] is run


def test_repr_is_one_line(run):
    """The repr says where the run stands, and is short however long the answer."""
    assert repr(run).startswith("<State: step 3")
    assert "'10'" in repr(run)
    assert len(repr(State.start("go").planned(Decision(answer="x" * 99_999)))) < 200
    failed = State.start("go").stopped(StopReason.ERROR, "models: the key was refused")
    assert repr(failed) == "<State: step 0 · error · models: the key was refused · tokens unknown>"


def test_a_repr_holds_nothing_that_hurts():
    """No key with signs inside, no colour code, no half emoji; a limit that is no pause waits for nobody."""
    hide("KEY-TEST-0123456789")
    said = State.start("go").planned(Decision(answer="\x1b[31mKEY-TEST\u200b-0123456789"))
    failed = asked("a").stopped(StopReason.MAX_TOOL_CALLS, "cut \ud83d \x1b[31mred")

    assert repr(said) == "<State: step 1 · answer · '[hidden]' · tokens unknown>"
    assert repr(failed).encode() == "<State: step 1 · max_tool_calls · cut \ufffd red · tokens unknown>".encode()
    with pytest.raises(RunError) as caught:
        failed.raise_for_stop()
    assert "approve" not in str(caught.value)


def test_the_repr_of_a_step_is_one_line_without_secrets(run):
    """What was asked, or the answer; nothing of a request."""
    hide("KEY-TEST-0123456789")
    said = State.start("go").planned(Decision(answer="it is KEY-TEST-0123456789\n" + "x" * 9_999)).steps[0]

    assert repr(run.steps) == "(<Step 1: asked add>, <Step 2: asked add>, <Step 3: 10>)"
    assert repr(said).startswith("<Step 1: it is [hidden] xxx")
    assert len(repr(said)) < 120


@pytest.mark.slow
def test_ten_thousand_steps_know_no_recursion():
    """repr, pickle, copy, comparison, hash and clean-up of a long run, at Python's own recursion limit."""
    assert sys.getrecursionlimit() == 1000
    run, other = long_run(10_000), long_run(10_000)

    assert repr(run).startswith("<State: step 10001")
    assert run == other
    assert hash(run) == hash(other)
    assert copy.deepcopy(run) is run
    assert pickle.loads(pickle.dumps(run)) == run
    assert len(run.steps) == len(run.table()) == 10_001
    assert run.at(1).counters.steps == 0
    assert str(run.step) == str(run.steps[-1])
    del run, other
    gc.collect()


@pytest.mark.slow
def test_a_long_pickle_is_not_quadratic():
    """The shared prompt is written once: a run of twice the length makes a pickle of about twice the size."""
    short, long = (len(pickle.dumps(long_run(steps))) for steps in (200, 400))

    assert long < 2.2 * short


def test_a_decided_answer_without_a_model_is_in_the_history():
    """A planner that asks no model still leaves its words and calls behind."""
    call = (ToolCall("c", "f"),)
    state = State.start("go").planned(Decision(calls=call)).answered(ToolResult("c", "f", "x"))
    state = state.planned(Decision(answer="done"))

    assert [message.role for message in state.messages] == ["user", "assistant", "tool", "assistant"]
    assert state.messages[-1] == Message("assistant", "done")
    check_state(state)
