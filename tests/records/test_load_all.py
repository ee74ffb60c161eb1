"""Several runs in one file: each comes back."""

from __future__ import annotations

import pytest

from agentnb import Agent, ScriptedModel, as_tool, calls, load, load_all, save, tool
from agentnb.errors import UsageError


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_every_run_of_a_file_comes_back(tmp_path):
    """In the order in which they were saved; `load` gives the last."""
    first, second = Agent(ScriptedModel(["one"])).run("1?"), Agent(ScriptedModel(["two"])).run("2?")
    save([first, second], tmp_path / "runs.jsonl")

    assert load_all(tmp_path / "runs.jsonl") == (first, second)
    assert load(tmp_path / "runs.jsonl") == second


def test_a_fork_is_a_run_of_its_own_and_a_nested_run_is_not(tmp_path):
    """What nothing grew from counts; a run inside a result is reached through it."""
    inner = as_tool(Agent(ScriptedModel(["It is 3."]), name="adder"))
    run = Agent(ScriptedModel([calls("adder", task="1 + 2"), "3", "three"]), tools=[inner]).run("1 + 2?")
    fork = run.say("In words?")
    save([run, fork, run.at(2).say("Again.")], tmp_path / "run.jsonl")
    found = load_all(tmp_path / "run.jsonl")

    assert [each.messages[-1].content for each in found] == ["In words?", "Again."]
    assert found[0].tool_results[0].value.answer == "It is 3."


def test_a_call_that_was_running_is_answered_in_every_run(tmp_path):
    """As `load` does it, so that no run begins by running a call again."""
    waiting = Agent(ScriptedModel([calls("add", a=1, b=2)]), [add.replace(approve=True)]).run("1 + 2?")
    save([waiting, Agent(ScriptedModel(["ok"])).run("?")], tmp_path / "run.jsonl")

    assert [str(each.stop) for each in load_all(tmp_path / "run.jsonl")] == ["paused", "answer"]


def test_a_file_that_is_not_there_is_told(tmp_path):
    """With the error of `load`."""
    with pytest.raises(UsageError, match="there is no file"):
        load_all(tmp_path / "none.jsonl")
