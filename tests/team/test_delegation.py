"""Plan and delegate: a typed plan, parts side by side, one answer; all of it in one run."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from fakes import check_state

from agentnb import Agent, Limits, ScriptedModel, State, StopReason, calls
from agentnb.errors import SettingsError
from agentnb.team.delegation import delegate
from agentnb.team.nested import as_tool


def plan(*parts: tuple[str, str]) -> str:
    """The plan as a model writes it."""
    return json.dumps({"value": [{"worker": worker, "task": task} for worker, task in parts]})


def agent(name: str, *script: Any, **options: Any) -> Agent:
    """An agent that plays this script."""
    return Agent(model=ScriptedModel(list(script), name=name), name=name, **options)


def test_parts_are_nested_runs_and_joined():
    """Two steps: the plan with its parts, and the answer; each part's State is in its result."""
    lead = agent("lead", plan(("north", "count north"), ("south", "count south")), "7 in all")
    team = delegate(lead, [agent("north", "3"), agent("south", "4")])
    run = team.run("Count.")

    assert run.answer == "7 in all"
    assert [(call.name, json.loads(call.arguments)["task"]) for call in run.steps[0].calls] == [
        ("north", "count north"),
        ("south", "count south"),
    ]
    assert [result.value.answer for result in run.tool_results] == ["3", "4"]
    assert all(isinstance(result.value, State) for result in run.tool_results)
    split, join = (step.request or {} for step in run.steps)
    assert "- north: Another agent, north." in split["messages"][0]["content"]
    assert split["schema"]["properties"]["value"]["maxItems"] == 8
    assert "Join them into one answer" in join["messages"][0]["content"]
    assert [each["content"] for each in join["messages"][-2:]] == [
        'Result of north({"task": "count north"}):\n3',
        'Result of south({"task": "count south"}):\n4',
    ]
    check_state(run)


def test_parts_run_side_by_side():
    """Two parts that wait for each other both end."""
    meet = threading.Barrier(2, timeout=10)
    workers = [Agent(model=lambda request: str(meet.wait()), name=name) for name in ("a", "b")]
    run = delegate(agent("lead", plan(("a", "x"), ("b", "y")), "met"), workers).run("go")

    assert run.answer == "met"
    assert all(result.ok for result in run.tool_results)


def test_a_plan_that_does_not_fit_goes_back():
    """An unknown worker is told to the model, which plans again."""
    lead = agent("lead", plan(("west", "?")), plan(("north", "count")), "3")
    run = delegate(lead, [agent("north", "3")]).run("Count.")

    assert (run.answer, run.counters.steps) == ("3", 3)
    assert "can't be used" in (run.steps[0].decision.again or "")


def test_a_failed_part_is_told_to_the_joiner():
    """The results say that a part failed, and why."""
    lead = agent("lead", plan(("north", "count"), ("south", "count")), "3, the south is missing")
    run = delegate(lead, [agent("north", "3"), agent("south", calls("nothing"), limits=Limits(steps=1))]).run("Count.")

    assert [result.status for result in run.tool_results] == ["ok", "error"]
    assert "south ended without an answer" in (run.steps[1].request or {})["messages"][-1]["content"]


def test_it_goes_on_after_a_limit_and_splits_anew_for_a_new_question():
    """Stopped after the parts it joins; after an answer a new message is a new task."""
    lead = agent("lead", plan(("north", "count")), "3", plan(("north", "again")), "4")
    team = delegate(lead, [agent("north", "3", "4")])
    stopped = team.run("Count.", limits=Limits(steps=1))
    assert (stopped.stop, stopped.tool_results[0].content) == (StopReason.MAX_STEPS, "3")

    run = team.run(stopped)
    assert (run.answer, run.counters.steps) == ("3", 2)

    more = team.run(run.say("Count again."))
    assert (more.answer, len(more.tool_results)) == ("4", 2)


def test_a_typed_answer():
    """`output=` of the lead types the joined answer."""
    lead = agent("lead", plan(("north", "count")), '{"value": 3}', output=int)
    run = delegate(lead, [agent("north", "three")]).run("Count.")

    assert run.value == 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: delegate(agent("lead"), []), "needs workers"),
        (lambda: delegate("lead", []), "takes an agent and its workers"),
        (
            lambda: delegate(agent("lead", tools=[as_tool(agent("x"))]), [agent("y")]),
            "calls its workers alone, but has 'x'",
        ),
    ],
)
def test_what_can_not_be_is_refused(make, words):
    """No workers, or tools of the lead that nothing would call."""
    with pytest.raises(SettingsError, match=words):
        make()
