"""A conversation that goes on with another agent: valid histories, shared limits, resumed with the right one."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from fakes import check_state, several

from agentnb import Agent, Limits, ScriptedModel, State, StopReason, calls, tool
from agentnb.core.middleware import StateMade
from agentnb.errors import SettingsError
from agentnb.team.handoff import Handoff, handoff


def agent(name: str, *script: Any, **options: Any) -> Agent:
    """An agent that plays this script."""
    return Agent(model=ScriptedModel(list(script), name=name), name=name, system_prompt=f"You are {name}.", **options)


def to(name: str, tokens: int = 10) -> dict[str, Any]:
    """A reply that hands over."""
    usage = {"prompt_tokens": tokens - 1, "completion_tokens": 1}
    return {**calls(f"handoff_to_{name}", reason="theirs"), "usage": usage}


def who(run: State) -> list[str]:
    """Which model made each step."""
    return [step.reply.model for step in run.steps if step.reply]


def test_the_other_goes_on_from_the_same_state():
    """The second agent answers with its own prompt and tools; the history is one valid conversation."""
    billing = agent("billing", calls("balance"), "You owe 5.", tools=[balance])
    run = handoff(agent("triage", to("billing")), billing).run("What do I owe?")

    assert (run.answer, who(run)) == ("You owe 5.", ["triage", "billing", "billing"])
    first, second = (step.request or {} for step in run.steps[:2])
    assert [each["function"]["name"] for each in first["tools"]] == ["handoff_to_billing"]
    assert [each["function"]["name"] for each in second["tools"]] == ["balance", "handoff_to_triage"]
    assert second["messages"][0]["content"].startswith("You are billing.")
    assert second["messages"][-1]["content"] == "The conversation was handed over. You are billing now: go on with it."
    for state in run.path():
        check_state(state)


@tool
def balance() -> int:
    """What the customer owes."""
    return 5


def test_each_way_to_run_follows():
    """`steps` yields each State once; listeners hear of each."""
    heard = []
    team = handoff(
        agent(
            "triage",
            to("billing"),
            middleware=[lambda event: heard.append("triage") if isinstance(event, StateMade) else None],
        ),
        agent(
            "billing", "5", middleware=[lambda event: heard.append("billing") if isinstance(event, StateMade) else None]
        ),
    )
    made = list(team.steps("What do I owe?"))

    assert [state.kind for state in made] == ["plan", "act", "plan"]
    assert heard == ["triage", "triage", "billing"]
    assert made[-1].answer == "5"


def test_limits_bound_all_turns_together():
    """Steps and tokens of all agents count against the first one's limits."""
    team = handoff(
        agent("triage", to("billing", 60), limits=Limits(tokens=100)),
        agent("billing", {**calls("balance"), "usage": {"prompt_tokens": 59, "completion_tokens": 1}}, tools=[balance]),
    )
    run = team.run("What do I owe?")
    assert (run.stop, run.usage.total) == (StopReason.MAX_TOKENS, 120)

    two = handoff(agent("triage", to("billing")), agent("billing", calls("balance"), tools=[balance]))
    run = two.run("What do I owe?", limits=Limits(steps=2))
    assert (run.stop, run.counters.steps) == (StopReason.MAX_STEPS, 2)

    one = handoff(agent("triage", to("billing")), agent("billing"))
    run = one.run("What do I owe?", limits=Limits(steps=1))
    assert (run.stop, run.detail) == (StopReason.MAX_STEPS, "stopped at the limit of 1 step")


def test_agents_that_only_hand_over_are_stopped():
    """Back and forth without anything new ends the run as a repetition."""
    team = handoff(agent("a", *[to("b")] * 9), agent("b", *[to("a")] * 9))
    run = team.run("go")

    assert run.stop is StopReason.REPETITION
    assert run.counters.steps == 6


def test_of_two_handoffs_in_one_reply_the_first_counts():
    """The second is refused in words, and the history stays valid."""
    both = several(calls("handoff_to_billing"), calls("handoff_to_support"))
    team = handoff(agent("triage", both), agent("support", "support here"), agent("billing", "billing here"))
    run = team.run("help")

    assert run.answer == "billing here"
    assert [result.status for result in run.tool_results] == ["ok", "error"]
    check_state(run)


def test_other_calls_of_the_reply_are_answered_first():
    """A tool beside the handoff runs; only then the other goes on."""
    both = several(calls("handoff_to_billing"), calls("balance"))
    run = handoff(agent("triage", both, tools=[balance]), agent("billing", "5")).run("What do I owe?")

    assert [result.content for result in run.tool_results][1] == "5"
    assert who(run) == ["triage", "billing"]


@pytest.mark.parametrize(
    "copied", [lambda run: run, lambda run: pickle.loads(pickle.dumps(run))], ids=["here", "from a file"]
)
def test_a_fork_goes_on_with_who_was_at_work(copied):
    """Whose turn it is stands in the State itself, also after a pickle."""
    billing = agent("billing", "5", "7")
    team = handoff(agent("triage", to("billing"), "hello again"), billing)
    run = copied(team.run("What do I owe?"))

    assert who(team.run(run.say("And in euros?")))[-1] == "billing"
    assert who(team.run(run.at(1).say("Hello"))) == ["triage"]


def test_it_is_an_agent():
    """`replace`, `id`, the repr and the description of the doors."""
    team = handoff(agent("triage"), agent("billing"), about={"billing": "For everything about money."})

    assert isinstance(team, Handoff)
    assert isinstance(team.replace(system_prompt="Be brief."), Handoff)
    assert team.id != team.replace(others=[agent("support")], about={}).id
    assert repr(team) == "<Agent 'triage': triage, no tools, hands over to billing>"
    assert hash(team) == hash(
        handoff(agent("triage"), agent("billing"), about={"billing": "For everything about money."})
    )
    door = team.members["triage"].tools[-1]  # type: ignore[attr-defined]
    assert door.spec.description == "Hand the conversation over. For everything about money."


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: handoff(agent("a")), "between agents of different names"),
        (lambda: handoff(agent("a"), agent("a")), "between agents of different names"),
        (lambda: handoff(agent("a"), len), "handoff\\(\\) takes agents"),
        (lambda: handoff(agent("a"), agent("b"), about={"c": "?"}), "names 'c', which is none of the agents"),
    ],
)
def test_what_can_not_be_is_refused(make, words):
    """One agent alone, two of one name, something else."""
    with pytest.raises(SettingsError, match=words):
        make()
