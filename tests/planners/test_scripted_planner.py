"""A run whose decisions are written down beforehand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fakes import add, collect, runtime_for

from agentnb.core.limits import StopReason
from agentnb.core.messages import ToolCall
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.models.scripted import calls
from agentnb.planners.scripted import ScriptedPlanner


def play(script: Any, state: Any = "goal") -> State:
    """The last State of a run with this script; a model that is asked would fail."""
    return asyncio.run(collect(runtime_for([], [add], planner=ScriptedPlanner(script)), state))[-1]


def test_a_list_is_played_without_a_model():
    """Calls run, text is the answer, no model call is counted as one with unknown tokens."""
    run = play([calls("add", a=2, b=3), "It is 5."])

    assert (run.stop, run.answer) == (StopReason.ANSWER, "It is 5.")
    assert run.tool_results[0].content == "5"
    assert [step.reply for step in run.steps] == [None, None]


def test_decisions_and_replies_are_taken_as_they_are():
    """A Decision is played itself; a ModelReply stays on the step."""
    call = ToolCall("c1", "add", '{"a": 1, "b": 1}')
    run = play([Decision(calls=(call,), reasoning="why"), ModelReply("Two.")])

    assert run.steps[0].calls == (call,)
    assert run.steps[0].reasoning == "why"
    assert run.steps[1].reply is not None
    assert run.answer == "Two."


def test_a_function_decides():
    """It sees the State and the tools, sync or async."""

    def decide(state: State, tools: Any) -> Any:
        if state.counters.steps:
            return f"{tools[0].spec.name} says {state.tool_results[-1].content}"
        return calls("add", a=1, b=2)

    async def later(state: State, tools: Any) -> Any:
        return decide(state, tools)

    assert play(decide).answer == play(later).answer == "add says 3"


def test_an_older_state_plays_its_own_part():
    """The script goes by the number of the step, so a fork plays what follows from there."""
    script = [calls("add", a=1, b=2), calls("add", a=3, b=4), "done"]
    run = play(script)

    assert play(script, run.at(2)) == run
    assert play(script, run.at(2).say("again")).answer == "done"


def test_the_end_of_the_script_is_told():
    """A run that needs one decision more stops and says so."""
    run = play([calls("add", a=1, b=2)])

    assert run.stop is StopReason.ERROR
    assert "script of 1 decisions is played out" in run.detail


def test_an_exception_in_the_script_is_raised():
    """What a planner raises goes up."""
    with pytest.raises(ZeroDivisionError):
        play([ZeroDivisionError()])
