"""A run inside a run is saved with it and comes back inside it."""

from __future__ import annotations

from agentnb import Agent, ScriptedModel, calls, load, save
from agentnb.core.state import State
from agentnb.team.nested import as_tool
from agentnb.tools.tool import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def nested_run() -> State:
    """An agent asks another one, twice in one reply, which uses a tool."""
    worker = Agent(ScriptedModel([calls("add", a=1, b=2), "three", "four"]), tools=[add], name="worker")
    ask = [calls("worker", task=f"part {n}")["tool_calls"][0] for n in (1, 2)]
    boss = Agent(ScriptedModel([{"tool_calls": ask}, "seven"]), tools=[as_tool(worker, parallel=False)])
    return boss.run("Add it all up.")


def test_nested_runs_come_back(tmp_path):
    """Their States stand in the results again, with all their steps; the outer run is the one that was saved last."""
    run = nested_run()
    save(run, tmp_path / "run.jsonl")
    loaded = load(tmp_path / "run.jsonl")

    assert loaded == run
    assert [result.value for result in loaded.tool_results] == [result.value for result in run.tool_results]
    assert [step.calls[0].name for step in loaded.tool_results[0].value.steps[:1]] == ["add"]
    assert [result.used for result in loaded.tool_results] == [result.used for result in run.tool_results]


def test_saving_again_adds_nothing(tmp_path):
    """A file gains only what is new, nested or not."""
    run, path = nested_run(), tmp_path / "run.jsonl"
    save(run, path)
    before = path.read_bytes()
    save(run, path)

    assert path.read_bytes() == before


def test_an_outer_state_may_be_saved_after_its_nested_runs(tmp_path):
    """What is there already is not written twice, and the last one saved is the last one."""
    run, path = nested_run(), tmp_path / "run.jsonl"
    save([result.value for result in run.tool_results], path)
    lines = len(path.read_text().splitlines())
    save(run, path)

    assert load(path) == run
    assert len(path.read_text().splitlines()) - lines < len(run.path()) + 5
