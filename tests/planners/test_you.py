"""A person as the planner: decided beforehand, by a function, or not at all; the rest of the loop stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb import Agent, Limits, ScriptedModel, calls, load, save
from agentnb.core.limits import StopReason
from agentnb.errors import RunError, SettingsError
from agentnb.planners.you import NOBODY, NOT_YET, USED_UP, You


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(planner: Any, **options: Any) -> Agent:
    """An agent whose model would fail if it were asked."""
    return Agent(ScriptedModel([]), [add], planner=planner, **options)


def test_decisions_of_a_list_are_carried_out():
    """Calls run, text is the answer, and no model was asked."""
    run = agent(You([calls("add", a="2", b=3), "It is 5."])).run("add 2 and 3")

    assert (run.answer, run.tool_results[0].value) == ("It is 5.", 5)
    assert [step.reply for step in run.steps] == [None, None]
    assert run.counters.cost == 0.0


def test_a_function_sees_the_state_and_the_tools():
    """Sync or async; it decides from what a model would see."""

    def decide(state: Any, tools: Any) -> Any:
        assert [tool.spec.name for tool in tools] == ["add"]
        return state.messages[-1].content if state.calls else calls("add", a=1, b=2)

    async def later(state: Any, tools: Any) -> Any:
        return decide(state, tools)

    assert agent(You(decide)).run("go").answer == "3"
    assert agent(You(later)).run("go").answer == "3"


def test_where_nobody_can_be_asked_the_run_is_paused():
    """It says why and what to do; it is a State like any other, and goes on when somebody decides."""
    run = agent("you").run("add 2 and 3")
    assert (run.stop, run.detail) == (StopReason.PAUSED, NOBODY)
    assert "planner=You(function)" in run.detail
    with pytest.raises(RunError, match="nobody can be asked"):
        run.raise_for_stop()

    done = agent(You([calls("add", a=2, b=3), "It is 5."])).run(run)
    assert done.answer == "It is 5."


def test_a_run_that_waits_outlives_its_process(tmp_path):
    """Saved and read again it goes on with the next decision of the list, and a pause uses none up."""
    decisions = [calls("add", a=2, b=3)]
    run = agent(You(decisions)).run("add 2 and 3")
    assert (run.stop, run.detail) == (StopReason.PAUSED, USED_UP)

    save(run, tmp_path / "run.jsonl")
    done = agent(You([*decisions, "It is 5."])).run(load(tmp_path / "run.jsonl"))
    assert (done.answer, done.counters.tool_calls) == ("It is 5.", 1)


def test_a_fork_gets_the_decisions_of_its_place():
    """The list goes by what was decided on the way, so the same place gives the same."""
    you = agent(You([calls("add", a=1, b=1), calls("add", a=2, b=2), "Done."]))
    run = you.run("go")

    assert you.run(run.at(2)) == run
    assert you.run(run.at(2)).tool_results[-1].value == 4


def test_no_decision_is_a_pause():
    """None leaves the run where it is."""
    assert agent(You(lambda state, tools: None)).run("go").detail == NOT_YET


def test_what_a_person_gets_wrong_comes_back_as_a_model_gets_it():
    """An unknown tool and wrong arguments are results; nothing at all is asked for again."""
    run = agent(You([calls("sum", a=1), calls("add", a="x"), "", "Done."])).run("go")

    assert [r.status for r in run.tool_results] == ["error", "error"]
    assert "no tool named 'sum'" in run.tool_results[0].content
    assert (run.steps[2].decision.again, run.answer) == ("", "Done.")


def test_a_person_who_repeats_is_stopped():
    """The guards hold for everyone."""
    assert agent(You([calls("add", a=1, b=1)] * 9)).run("go").stop is StopReason.REPETITION
    assert agent(You([calls("add", a=n, b=1) for n in range(9)]), limits=Limits(steps=2)).run("go").stop == "max_steps"


def test_a_model_goes_on_where_a_person_began():
    """The history is that of tool calls: another planner takes over."""
    run = agent(You([calls("add", a=2, b=3)])).run("go")
    assert Agent(ScriptedModel(["It is 5."]), [add]).run(run).answer == "It is 5."


def test_a_typed_answer_of_a_person_is_read():
    """What does not fit is said to the person, as to a model."""
    run = agent(You(["five", "5"]), output=int).run("go")
    assert (run.value, run.counters.steps) == (5, 2)


@pytest.mark.parametrize("decide", ["It is 5.", 5, {1, 2}])
def test_what_is_no_decision_is_refused(decide):
    """A text alone would be a list of letters."""
    with pytest.raises(SettingsError, match=r"expected a list"):
        You(decide)
