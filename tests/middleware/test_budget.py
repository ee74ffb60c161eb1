"""BudgetWarning: the model is told once that a limit comes near, and in the last step to answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from fakes import HandClock, add, runtime_for, says, several, states_of

from agentnb.core.limits import Limits, StopReason
from agentnb.core.messages import ToolCall, Usage
from agentnb.core.model import ModelReply
from agentnb.core.state import State
from agentnb.errors import SettingsError
from agentnb.middleware.budget import FINISH, LAST, BudgetWarning
from agentnb.models.scripted import ScriptedModel, calls

CALLS = [calls("add", a=n, b=n) for n in range(30)]


def told(state: State) -> list[str]:
    """What was said to the model after the goal."""
    return [message.content or "" for message in state.messages[1:] if message.role == "user"]


def run(limits: Limits, *, state: Any = "go", script: Any = None, **options: Any) -> State:
    """A run of calls that never answers by itself, unless the script does."""
    model = script or list(CALLS)
    middleware = [BudgetWarning(**options)]
    return states_of(runtime_for(model, [add], middleware=middleware, limits=limits), state)[-1]


def test_steps_are_told_of_once():
    """After 8 of 10 steps, and not again in the ninth and tenth."""
    done = run(Limits(steps=10))

    assert done.stop is StopReason.MAX_STEPS
    assert told(done) == [f"8 of 10 steps used. {FINISH}"]
    assert [message.role for message in done.messages[-6:]] == [
        "tool",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]


@pytest.mark.parametrize("name", ["steps", "tool_calls"])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6])
def test_small_limits_are_told_of_before_the_last(name, limit):
    """Where the share of a limit is no whole step or call: one step before the end, once."""
    words = name.replace("_", " ")
    done = run(Limits(**{"steps": None, name: limit}))

    assert done.stop is StopReason(f"max_{name}")
    assert told(done) == [f"{limit - 1} of {limit} {words} used. {FINISH}"]
    assert told(run(Limits(**{"steps": None, name: limit}), last_answer=True, share=0.99)) == [LAST]


def test_a_round_of_many_calls_may_pass_the_last():
    """Two rounds of two leave one of five: told then; a round that leaves none ends the run, as ever."""
    script = [several(*CALLS[:2]), several(*CALLS[2:4]), calls("add", a=9, b=9)]
    done = run(Limits(tool_calls=5), script=script, last_answer=True)

    assert (told(done), done.stop) == ([LAST], StopReason.MAX_TOOL_CALLS)


def test_each_call_of_run_has_its_own_budget():
    """Going on gives ten more steps, and one more warning."""
    done = run(Limits(steps=10), state=run(Limits(steps=10)), script=[*CALLS[10:]])

    assert told(done) == [f"8 of 10 steps used. {FINISH}"] * 2
    assert done.counters.steps == 20


def test_every_limit_is_told_of_in_its_own_words():
    """Tokens, dollars and calls; two that are passed in the same step share a message."""
    reply = ModelReply(calls=(), usage=Usage(900, 100), cost=0.125)
    script = [lambda request: reply_with_call(reply, len(request.messages)) for _ in range(20)]
    done = run(Limits(steps=None, tokens=10_000, cost=1.25, tool_calls=9), script=script)

    assert told(done) == [f"8,000 of 10,000 tokens; $1 of $1.25; 8 of 9 tool calls used. {FINISH}"]
    assert done.stop is StopReason.MAX_TOOL_CALLS


def reply_with_call(reply: ModelReply, number: int) -> ModelReply:
    """The same reply with a fresh call."""
    return replace(reply, calls=(ToolCall("", "add", f'{{"a": {number}, "b": 1}}'),))


def test_seconds_count_too(clock: HandClock):
    """By the clock of the run."""

    def slowly(request: Any) -> Any:
        clock.advance(3)
        return calls("add", a=clock.now, b=1)

    runtime = runtime_for(
        ScriptedModel([slowly] * 9), [add], middleware=[BudgetWarning()], limits=Limits(seconds=15), clock=clock
    )
    done = states_of(runtime)[-1]

    assert told(done) == [f"12 of 15 seconds used. {FINISH}"]


def test_what_is_unknown_is_not_warned_of():
    """A model that reports no tokens: the limit ends the run, as ever, and no number is made up."""
    done = run(Limits(tokens=100))

    assert (told(done), done.stop) == ([], StopReason.MAX_TOKENS)


def test_without_limits_nothing_is_said():
    """And the share may be another."""
    assert told(run(Limits(steps=None), script=[*CALLS[:25], says("done")])) == []
    assert told(run(Limits(steps=4), share=0.5)) == [f"2 of 4 steps used. {FINISH}"]


def test_the_last_step_asks_for_the_answer():
    """The model is told in the last allowed step, instead of a warning where both are due."""
    done = run(Limits(steps=5), script=[*CALLS[:4], says("so far 12")], last_answer=True)

    assert told(done) == [LAST]
    assert (done.answer, done.counters.steps) == ("so far 12", 5)


def test_a_single_step_is_the_last():
    """Limits(steps=1): it is told at once."""
    assert told(run(Limits(steps=1), script=[says("hm")], last_answer=True)) == [LAST]


def test_a_stopped_run_goes_on_with_its_last_step():
    """The message does not carry on how the run ended before."""
    stopped = run(Limits(steps=1))
    done = run(Limits(steps=1), state=stopped, script=[says("so far 0")], last_answer=True)

    assert (stopped.stop, done.stop, done.answer) == (StopReason.MAX_STEPS, StopReason.ANSWER, "so far 0")


def test_the_repetition_guard_still_sees_the_rounds():
    """A warning does not make equal rounds look new."""
    done = run(Limits(steps=4, repeats=3), script=[calls("add", a=1, b=1)] * 9, share=0.5)

    assert done.stop is StopReason.REPETITION


def test_outside_a_run_it_does_nothing():
    """There is no budget then."""
    state = State.start("go")

    assert asyncio.run(BudgetWarning().before(state)) is state


@pytest.mark.parametrize("share", [0, 1, -0.5, 2])
def test_a_share_is_between_0_and_1(share):
    """All of it would be too late."""
    with pytest.raises(SettingsError, match="share"):
        BudgetWarning(share)
