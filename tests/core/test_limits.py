"""Limits and the repetition guard: no fuse blows early, none late, and after each one the run can go on."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from fakes import FunctionTool, HandClock, collect, raw_call, runtime_for, says, several, states_of
from hypothesis import given
from hypothesis import strategies as st

from agentnb.core.limits import Limits, StopReason, repeated
from agentnb.core.messages import ToolCall, ToolResult, Usage
from agentnb.core.middleware import Middleware
from agentnb.core.model import ModelReply
from agentnb.core.state import Counters, State
from agentnb.errors import SettingsError
from agentnb.models.scripted import CallableModel, ScriptedModel, calls

FOREVER = Limits(steps=None, repeats=None)


def endless(cost: float | None = None, usage: Usage | None = None, calls_each: int = 1) -> CallableModel:
    """A model that always calls `step` with a new number."""
    numbers = itertools.count()

    def reply(request: Any) -> ModelReply:
        made = tuple(ToolCall(f"c{n}", "step", f'{{"n": {n}}}') for n in itertools.islice(numbers, calls_each))
        return ModelReply(calls=made, finish="tool_calls", usage=usage, cost=cost, request=request)

    return CallableModel(reply)


def stepper() -> FunctionTool:
    """A tool that always says something new."""
    return FunctionTool(lambda n: f"step {n}", "step")


def used(run: State) -> list[int]:
    """The numbers that `step` was called with, as results show them."""
    return [int(result.content.split()[1]) for result in run.tool_results]


# ── refused values ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["steps", "tokens", "cost", "seconds", "tool_calls", "repeats"])
@pytest.mark.parametrize("value", [0, -1, -0.5, float("nan"), float("inf"), True, "3", "", [3], b"3"])
def test_values_that_bound_nothing_are_refused(name, value):
    """An empty, negative or senseless limit is refused at the start, and the error names it."""
    with pytest.raises(SettingsError, match=f"limit {name}="):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["steps", "tokens", "tool_calls", "repeats"])
def test_counts_are_whole(name):
    """Half a step can't be counted."""
    with pytest.raises(SettingsError, match="whole number"):
        Limits(**{name: 2.5})


@pytest.mark.parametrize("repeats", [1, 11, 1000])
def test_repeats_has_a_range(repeats):
    """One round is no repetition, and more than ten are not remembered; the error says the range."""
    with pytest.raises(SettingsError, match="from 2 to 10"):
        Limits(repeats=repeats)


def test_none_leaves_a_fuse_out():
    """Each limit may be left out, and small ones are fine."""
    assert Limits(steps=None, repeats=None).tokens is None
    assert Limits(steps=1, tokens=1, cost=0.01, seconds=0.5, tool_calls=1, repeats=2).steps == 1


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_default_is_twenty_steps():
    """Who sets nothing gets twenty model calls."""
    assert states_of(runtime_for(endless(), [stepper()]))[-1].counters.steps == 20


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_exactly_so_many_model_calls(steps):
    """Limit 3 means three model calls; the tools of the third are run, so all results are there."""
    run = states_of(runtime_for(endless(), [stepper()], limits=Limits(steps=steps)))[-1]

    assert (run.stop, run.counters.steps, run.answer) == (StopReason.MAX_STEPS, steps, None)
    assert used(run) == list(range(steps))
    assert str(steps) in run.detail


def test_an_answer_in_the_last_step_is_an_answer(scripted_run):
    """A run that needs exactly its limit ends with its answer."""
    run = scripted_run([calls("step", n=1), "done"], [stepper()], limits=Limits(steps=2))

    assert (run.stop, run.answer) == (StopReason.ANSWER, "done")


def test_going_on_allows_as_many_again():
    """Limits count from the State that a run starts from; the same limit goes on for as long again."""
    runtime = runtime_for(endless(), [stepper()], limits=Limits(steps=3))
    first = states_of(runtime)[-1]
    second = states_of(runtime, first)[-1]

    assert (second.stop, second.counters.steps) == (StopReason.MAX_STEPS, 6)
    assert used(second) == list(range(6))


def test_a_fork_counts_from_its_own_start():
    """A run forked at step 3 may make all its steps, whatever was used before."""
    first = states_of(runtime_for(endless(), [stepper()], limits=Limits(steps=5)))[-1]
    fork = states_of(runtime_for(endless(), [stepper()], limits=Limits(steps=5)), first.at(3).say("again"))[-1]

    assert fork.counters.steps == 7


# ── tokens and cost ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("tokens", "steps"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
def test_tokens(tokens, steps):
    """The run stops after the reply with which the limit is used up, and not before."""
    limits = Limits(steps=9, tokens=tokens)
    run = states_of(runtime_for(endless(usage=Usage(8, 2)), [stepper()], limits=limits))[-1]

    assert (run.stop, run.counters.steps) == (StopReason.MAX_TOKENS, steps)
    assert len(run.tool_results) == steps


def test_tokens_count_from_the_start_of_the_call():
    """Going on gives the whole token limit again."""
    runtime = runtime_for(endless(usage=Usage(8, 2)), [stepper()], limits=Limits(steps=9, tokens=20))
    run = states_of(runtime, states_of(runtime)[-1])[-1]

    assert (run.stop, run.usage.total) == (StopReason.MAX_TOKENS, 40)


def test_a_token_limit_needs_to_be_told_tokens():
    """A provider that reports no usage ends the run after one step: the limit can't be kept, and the State says so."""
    run = states_of(runtime_for(endless(), [stepper()], limits=Limits(tokens=1000)))[-1]

    assert (run.stop, run.counters.steps) == (StopReason.MAX_TOKENS, 1)
    assert "unknown" in run.detail


def test_a_token_limit_notices_silence_after_an_incomplete_start():
    """When numbers were missing before already, a silent provider still doesn't run past the limit."""
    before = [ModelReply(calls=(ToolCall("a", "step", '{"n": 1}'),), usage=Usage(8, 2)), calls("step", n=2)]
    start = states_of(runtime_for(before, [stepper()], limits=Limits(steps=2)))[-1]
    run = states_of(runtime_for(endless(), [stepper()], limits=Limits(steps=9, tokens=50)), start)[-1]

    assert run.stop is StopReason.MAX_TOKENS
    assert run.counters.steps == 3


@pytest.mark.parametrize(("cost", "steps"), [(0.001, 1), (0.5, 2), (0.6, 3)])
def test_cost(cost, steps):
    """Dollars are counted as tokens are."""
    run = states_of(runtime_for(endless(cost=0.25), [stepper()], limits=Limits(steps=9, cost=cost)))[-1]

    assert (run.stop, run.counters.steps) == (StopReason.MAX_COST, steps)


def test_a_cost_limit_needs_a_price():
    """Where the price is unknown the cost is None, never 0, and the limit ends the run."""
    run = states_of(runtime_for(endless(), [stepper()], limits=Limits(cost=1.0)))[-1]

    assert (run.stop, run.counters.steps, run.counters.cost) == (StopReason.MAX_COST, 1, None)


def test_a_cost_limit_counts_from_where_it_started():
    """A call of unknown price earlier in the run does not keep later, priced calls from being counted."""
    free = states_of(runtime_for(endless(), [stepper()], limits=Limits(steps=1)))[-1]
    run = states_of(runtime_for(endless(cost=0.25), [stepper()], limits=Limits(steps=9, cost=0.5)), free)[-1]

    assert (run.stop, run.counters.steps, run.counters.known_cost) == (StopReason.MAX_COST, 3, 0.5)
    assert run.counters.cost is None


def test_both_fuses_hold():
    """A token limit that is far away does not hide a cost limit that is near."""
    limits = Limits(steps=9, tokens=10_000, cost=0.5)
    run = states_of(runtime_for(endless(cost=0.25, usage=Usage(8, 2)), [stepper()], limits=limits))[-1]

    assert (run.stop, run.counters.steps) == (StopReason.MAX_COST, 2)


# ── tool calls ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_never_one_tool_call_too_many(limit):
    """Three calls a reply: exactly as many are run as the limit says, the next one is left open."""
    tool = stepper()
    run = states_of(runtime_for(endless(calls_each=3), [tool], limits=Limits(tool_calls=limit)))[-1]

    assert run.stop is StopReason.MAX_TOOL_CALLS
    assert len(tool.started) == limit == run.counters.tool_calls
    assert [call["n"] for call in tool.started] == list(range(limit))


def test_calls_left_open_run_on_resume():
    """Going on runs what was left open, then the rest of a fresh limit; nothing runs twice."""
    tool = stepper()
    runtime = runtime_for(endless(calls_each=3), [tool], limits=Limits(tool_calls=2))
    first = states_of(runtime)[-1]
    second = states_of(runtime, first)[-1]

    assert [call.id for call in first.open_calls] == ["c2"]
    assert [call["n"] for call in tool.started] == [0, 1, 2, 3]
    assert used(second) == [0, 1, 2, 3]


def test_the_stop_is_named_by_what_left_calls_open():
    """When steps are used up as well, calls that the tool limit left open are not said to wait for approval."""
    limits = Limits(steps=1, tool_calls=1)
    run = states_of(runtime_for(endless(calls_each=2), [stepper()], limits=limits))[-1]

    assert len(run.open_calls) == 1
    assert run.stop is StopReason.MAX_TOOL_CALLS


# ── seconds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_seconds_in_tools_are_counted(clock: HandClock):
    """Time is that of the clock which was handed in."""
    tool = FunctionTool(lambda n: clock.advance(4), "step")
    run = states_of(runtime_for(endless(), [tool], clock=clock, limits=Limits(seconds=10)))[-1]

    assert (run.stop, run.counters.steps, run.counters.seconds) == (StopReason.MAX_SECONDS, 3, 12)


def test_seconds_in_models_are_counted(clock: HandClock):
    """A slow model uses up the time as well; each step knows its own."""

    def slow(request: Any) -> dict[str, Any]:
        clock.advance(5)
        return calls("step", n=clock.now)

    run = states_of(runtime_for(CallableModel(slow), [stepper_any()], clock=clock, limits=Limits(seconds=10)))[-1]

    assert (run.stop, run.counters.steps) == (StopReason.MAX_SECONDS, 2)
    assert [step.seconds for step in run.steps] == [5, 5]


def stepper_any() -> FunctionTool:
    """Says the number back."""
    return FunctionTool(lambda n: f"at {n}", "step")


def test_seconds_do_not_count_while_a_person_thinks(clock: HandClock):
    """A pause takes as long as it takes."""
    tool = FunctionTool(lambda n: "ok", "step", approve=True)
    runtime = runtime_for([calls("step", n=1), "done"], [tool], clock=clock, limits=Limits(seconds=10))
    paused = states_of(runtime)[-1]
    clock.advance(3600)
    run = states_of(runtime, paused.approve(paused.open_calls[0].id))[-1]

    assert (run.stop, run.counters.seconds) == (StopReason.ANSWER, 0)


def test_time_ends_a_model_call_that_hangs():
    """A model that never answers is cut off by the limit, as data."""

    async def hang(request: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    run = states_of(runtime_for(CallableModel(hang), limits=Limits(seconds=0.05)))[-1]

    assert run.stop is StopReason.MAX_SECONDS
    assert "model" in run.detail


def test_time_ends_a_tool_that_hangs():
    """A tool that never answers is answered "cancelled"; the quick ones beside it keep their results."""

    async def step(n: int) -> str:
        if n == 1:
            await asyncio.Event().wait()
        return f"step {n}"

    run = states_of(runtime_for(endless(calls_each=3), [FunctionTool(step)], limits=Limits(seconds=0.05)))[-1]

    assert run.stop is StopReason.MAX_SECONDS
    assert [result.status for result in run.tool_results[:3]] == ["ok", "cancelled", "ok"]
    assert "time limit" in run.tool_results[1].content


def test_a_timeout_of_the_model_s_own_is_no_time_limit():
    """A model that raises TimeoutError failed; no limit was reached."""
    run = states_of(runtime_for([TimeoutError("slow server")], limits=Limits(seconds=99)))[-1]

    assert run.stop is StopReason.ERROR
    assert "slow server" in run.detail


# ── repetition ───────────────────────────────────────────────────────────────────────────────────────────────────────


def status(*answers: str, **flags: Any) -> FunctionTool:
    """A tool that says these in turn, the last one for ever."""
    left = list(answers)
    return FunctionTool(lambda job=1: left.pop(0) if len(left) > 1 else left[0], "status", **flags)


def warnings_in(run: State) -> int:
    """How often the model was told that it repeats itself."""
    return sum(message.role == "user" and "repeating" in (message.content or "") for message in run.messages)


def always(*replies: Any) -> CallableModel:
    """A model that plays these replies round and round."""
    play = itertools.cycle(replies)
    return CallableModel(lambda request: next(play))


@pytest.mark.parametrize(("limits", "rounds"), [(Limits(), 3), (Limits(repeats=4), 4), (Limits(repeats=10), 10)])
def test_equal_rounds_end_the_run(limits, rounds):
    """The same call with the same result: warned once, then stopped after as many rounds as the limit says."""
    run = states_of(runtime_for(always(calls("status", job=1)), [status("running")], limits=limits))[-1]

    assert (run.stop, run.counters.steps) == (StopReason.REPETITION, rounds)
    assert warnings_in(run) == 1
    assert len(run.tool_results) == rounds


def test_the_warning_comes_before_the_last_chance():
    """After two equal rounds the model reads the warning; what it does then counts."""
    model = ScriptedModel([calls("status", job=1), calls("status", job=1), "it is still running"])
    run = states_of(runtime_for(model, [status("running")]))[-1]

    assert run.answer == "it is still running"
    assert [
        len([m for m in request.messages if "repeating" in (m["content"] or "")]) for request in model.requests
    ] == [0, 0, 1]


def test_results_that_change_are_no_repetition():
    """Polling that makes progress is left alone."""
    progress = [f"{percent}%" for percent in range(10, 110, 10)]
    model = ScriptedModel([*[calls("status", job=1)] * 10, "done"])
    run = states_of(runtime_for(model, [status(*progress)]))[-1]

    assert (run.answer, warnings_in(run)) == ("done", 0)


@pytest.mark.parametrize("length", [2, 3])
def test_cycles_are_repetitions(length):
    """Going round in a circle of two or three rounds is seen, too: warned after two circles, stopped after three."""
    circle = [calls("status", job=n) for n in range(length)]
    run = states_of(runtime_for(always(*circle), [status("running")], limits=Limits(steps=60)))[-1]

    assert (run.stop, run.counters.steps) == (StopReason.REPETITION, 3 * length)
    assert warnings_in(run) == 1


def test_a_circle_of_four_is_left_to_the_step_limit():
    """Longer circles are not looked for."""
    circle = [calls("status", job=n) for n in range(4)]
    run = states_of(runtime_for(always(*circle), [status("running")], limits=Limits(steps=30)))[-1]

    assert run.stop is StopReason.MAX_STEPS


@pytest.mark.parametrize("other", ['{"b":2,"a":1}', '{ "a" : 1, "b" : 2 }', '{"b": 2, "a": 1, "a": 1}'])
def test_arguments_are_compared_by_value(other):
    """Another spelling of the same arguments is the same call."""
    tool = FunctionTool(lambda a, b: "same", "status")
    model = always(raw_call("status", '{"a": 1, "b": 2}'), raw_call("status", other))
    run = states_of(runtime_for(model, [tool]))[-1]

    assert (run.stop, run.counters.steps) == (StopReason.REPETITION, 3)


@pytest.mark.parametrize("change", ["name", "arguments", "result", "status"])
def test_each_part_of_a_round_counts(change):
    """Another name, other arguments, another result or status: no repetition."""
    numbers = itertools.count()

    def say(n: int = 0) -> str:
        if change == "status" and next(numbers) % 2:
            raise ValueError("same")
        return f"r {next(numbers)}" if change == "result" else "ValueError: same"

    tools = [FunctionTool(say, name) for name in "abcdefgh"]
    replies = [calls("abcdefgh"[n] if change == "name" else "a", n=n if change == "arguments" else 0) for n in range(3)]
    run = states_of(runtime_for([*replies, "done"], tools))[-1]

    assert run.answer == "done"
    assert warnings_in(run) == 0


def test_poll_tools_are_exempt():
    """A tool that is asked again on purpose may be asked for ever."""
    run = states_of(runtime_for(always(calls("status")), [status("running", poll=True)]))[-1]

    assert (run.stop, warnings_in(run)) == (StopReason.MAX_STEPS, 0)


def test_the_guard_can_be_left_out():
    """repeats=None looks for nothing."""
    run = states_of(runtime_for(always(calls("status")), [status("running")], limits=Limits(repeats=None)))[-1]

    assert (run.stop, warnings_in(run)) == (StopReason.MAX_STEPS, 0)


def test_different_rounds_are_not_warned_with_two_repeats():
    """With repeats=2 a model that never repeats itself is never told that it does."""
    model = ScriptedModel([calls("status", job=1), calls("status", job=2), "done"])
    run = states_of(runtime_for(model, [status("running")], limits=Limits(repeats=2)))[-1]

    assert (run.answer, warnings_in(run)) == ("done", 0)


def test_two_repeats_end_the_run():
    """With repeats=2 the second equal round is the last."""
    run = states_of(runtime_for(always(calls("status")), [status("running")], limits=Limits(repeats=2)))[-1]

    assert (run.stop, run.counters.steps) == (StopReason.REPETITION, 2)


def test_going_on_after_a_repetition_asks_the_model():
    """Who runs on from a repetition wants another try: the model is asked again, and may find its way."""
    run = states_of(runtime_for(always(calls("status")), [status("running")]))[-1]
    model = ScriptedModel(["I give up"])
    more = states_of(runtime_for(model, [status("running")]), run)

    assert len(model.requests) == 1
    assert more[-1].answer == "I give up"


def test_going_on_after_a_repetition_is_bounded_again():
    """A model that still repeats itself after going on is stopped again, after at most as many rounds."""
    tool = status("running")
    run = states_of(runtime_for(always(calls("status")), [tool]))[-1]
    more = states_of(runtime_for(always(calls("status")), [tool]), run)[-1]

    assert more.stop is StopReason.REPETITION
    assert 1 <= more.counters.steps - run.counters.steps <= 3


def test_a_message_of_the_person_starts_afresh():
    """After `say` the rounds before it don't count, and the model may be warned again."""
    tool = status("running")
    run = states_of(runtime_for(always(calls("status")), [tool]))[-1]
    more = states_of(runtime_for(always(calls("status")), [tool]), run.say("try again"))[-1]

    assert more.counters.steps - run.counters.steps == 3
    assert warnings_in(more) == 2


def test_repeated_failures_are_repetitions(scripted_run):
    """An unknown tool asked for again and again is one, too."""
    run = scripted_run([calls("nope")] * 9, [stepper()])

    assert (run.stop, run.counters.steps) == (StopReason.REPETITION, 3)


@given(st.lists(st.sampled_from([b"aaaa", b"bbbb", b"cccc"]), max_size=12), st.integers(2, 4))
def test_repeated_is_what_its_sentence_says(rounds, times):
    """The newest rounds are `times` equal cycles of one, two or three rounds, and nothing else."""
    ring = tuple(rounds)
    plain = any(
        len(ring) >= length * times and list(ring[-length * times :]) == list(ring[-length:]) * times
        for length in (1, 2, 3)
    )

    assert repeated(b"".join(ring), times) == plain


# ── what is not counted, what is counted once ────────────────────────────────────────────────────────────────────────


def test_a_failed_model_call_is_a_step_without_tokens(scripted_run):
    """The counters know of the call, and don't call its usage unknown."""
    run = scripted_run([ConnectionError("down")])

    assert (run.counters.steps, run.usage.complete, run.counters.cost) == (1, True, 0.0)


def test_calls_of_three_kinds_are_counted_once(scripted_run):
    """Ran, unknown and denied: only what was carried out or tried counts as a tool call."""
    reply = several(calls("step", n=1), calls("nope"), calls("guarded"))
    runtime = runtime_for([reply, says("ok")], [stepper(), FunctionTool(lambda: "x", "guarded", approve=True)])
    paused = asyncio.run(collect(runtime))[-1]
    run = states_of(runtime, paused.deny(paused.open_calls[0].id))[-1]

    assert run.answer == "ok"
    assert run.counters.tool_calls == 2


def test_the_time_limit_also_bounds_what_stands_before_a_step():
    """A middleware that thinks too long, such as a summary of a compaction, ends with the time."""

    class Slow(Middleware):
        async def before(self, state: State) -> State:
            await asyncio.sleep(30)
            return state

    run = states_of(runtime_for(["never"], middleware=[Slow()], limits=Limits(seconds=0.05)))[-1]

    assert run.stop is StopReason.MAX_SECONDS


def test_a_nested_run_counts_as_the_run_s_own():
    """What a result says that it used is in tokens and cost, not in steps; what it does not know stays unknown."""
    limits = Limits(steps=9, tokens=110)
    for unpriced, cost in [(0, 1.0), (1, None)]:
        used = Counters(3, 5, Usage(70, 20), 0.25, unpriced)
        runtime = runtime_for(endless(cost=0.25, usage=Usage(8, 2)), [FunctionTool(str, "step")], limits=limits)
        runtime.tools[0].answer = answering(used)
        run = states_of(runtime)[-1]

        assert (run.stop, run.counters.steps, run.counters.tool_calls) == (StopReason.MAX_TOKENS, 2, 2)
        assert (run.usage.total, run.counters.cost) == (200, cost)


def answering(used: Counters) -> Any:
    """How a tool answers whose runs used this much."""

    async def answer(call: ToolCall) -> ToolResult:
        return ToolResult(call.id, call.name, f"found {call.arguments}", used=used)

    return answer
