"""Many runs of one agent: each by itself, kept at once, never paid twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Limits, ScriptedModel, batch, calls, tool
from agentnb.errors import AgentInterrupted, RecordingError, UsageError

TASKS = [{"id": f"t{n}", "goal": f"What is {n} + 1?", "expected": n + 1} for n in range(1, 6)]


class Adder:
    """A model that adds, and counts who asked; it does what `says` holds for a goal instead."""

    def __init__(self, says: dict[str, Any] | None = None) -> None:
        self.says = says or {}
        self.asked: Counter[str] = Counter()
        self.running = self.most = 0
        self.__name__ = "adder"

    async def __call__(self, request: Any) -> Any:
        """The sum in the goal."""
        goal = request.messages[-1]["content"]
        self.asked[goal] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
            said = self.says.get(goal)
            if isinstance(said, BaseException):
                raise said
            return said if said is not None else f"It is {int(goal.split()[2]) + 1}."
        finally:
            self.running -= 1


def outcomes(result: Any) -> dict[str, str]:
    """Task to outcome."""
    return {row["task"]: row["outcome"] for row in result.rows}


def test_each_task_has_a_row_in_the_order_given():
    """Five tasks, five rows, with outcome, answer and score."""
    result = batch(Agent(model=Adder()), TASKS, concurrency=3)

    assert [row["task"] for row in result.rows] == ["t1", "t2", "t3", "t4", "t5"]
    assert {row["outcome"] for row in result.rows} == {"right"}
    assert result.rows[0]["answer"] == "It is 2."


def test_no_more_run_at_once_than_wanted():
    """Three at once are three at most."""
    model = Adder()
    batch(Agent(model=model), TASKS, concurrency=3, first=None)

    assert model.most == 3


def test_a_bad_task_hurts_no_other(tmp_path):
    """One raises, one is refused, one never ends: each has its outcome, the others their answers."""
    goals = [task["goal"] for task in TASKS]
    says = {goals[1]: OSError("the disk is gone"), goals[2]: {"content": "No.", "finish_reason": "content_filter"}}
    says[goals[3]] = calls("look")

    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    agent = Agent(model=Adder(says), tools=[look], limits=Limits(steps=1))
    result = batch(agent, TASKS, folder=tmp_path)

    assert outcomes(result) == {"t1": "right", "t2": "error", "t3": "refused", "t4": "limit", "t5": "right"}
    assert "the disk is gone" in result.rows[1]["detail"]
    assert sorted(path.name.split("-")[0] for path in tmp_path.glob("*.error.txt")) == ["t2", "t3", "t4"]
    assert "OSError" in next(tmp_path.glob("t2-*.error.txt")).read_text()


@pytest.mark.slow
def test_the_same_call_pays_for_nothing_twice(tmp_path):
    """The second call asks nobody and shows the same."""
    model = Adder()
    first = batch(Agent(model=model), TASKS, folder=tmp_path)
    second = batch(Agent(model=model), TASKS, folder=tmp_path)

    assert sum(model.asked.values()) == 5
    assert first.rows == second.rows
    assert str(first) == str(second)


@pytest.mark.slow
def test_failed_ones_are_run_again_alone(tmp_path):
    """`retry="failed"` asks for those without an answer, and counts the attempt."""
    goal = TASKS[1]["goal"]
    model = Adder({goal: OSError("away")})
    batch(Agent(model=model), TASKS, folder=tmp_path)
    model.says.clear()
    batch(Agent(model=model), TASKS, folder=tmp_path)
    assert model.asked[goal] == 1

    result = batch(Agent(model=model), TASKS, folder=tmp_path, retry="failed")

    assert sum(model.asked.values()) == 6
    assert outcomes(result)["t2"] == "right"
    assert [row["attempt"] for row in result.rows] == [1, 2, 1, 1, 1]
    assert "1 run is of a second or later attempt." in str(result)
    assert not list(tmp_path.glob("*.error.txt"))


def test_repeats_are_runs_of_their_own(tmp_path):
    """Three repeats ask three times; two more ask only two more times."""
    model = Adder()
    batch(Agent(model=model), TASKS[:1], repeats=3, folder=tmp_path)
    assert sum(model.asked.values()) == 3

    result = batch(Agent(model=model), TASKS[:1], repeats=5, folder=tmp_path)

    assert sum(model.asked.values()) == 5
    assert [row["repeat"] for row in result.rows] == [1, 2, 3, 4, 5]


def test_another_agent_is_never_taken_for_the_old_one(tmp_path):
    """Another prompt runs everything anew, says so, and leaves the old results in place."""
    model = Adder()
    batch(Agent(model=model), TASKS, folder=tmp_path)
    result = batch(Agent(model=model, system_prompt="Be brief."), TASKS, folder=tmp_path)
    old = batch(Agent(model=model), TASKS, folder=tmp_path)

    assert sum(model.asked.values()) == 10
    assert "5 finished runs in this folder are of other agents" in str(result)
    assert outcomes(old) == outcomes(result)


def test_another_scorer_scores_what_was_kept(tmp_path):
    """A changed scorer or expectation costs no model call."""
    model = Adder()
    batch(Agent(model=model), TASKS, folder=tmp_path)
    exact = batch(Agent(model=model), TASKS, folder=tmp_path, scorer="exact")
    changed = batch(Agent(model=model), [{**task, "expected": 2} for task in TASKS], folder=tmp_path)

    assert sum(model.asked.values()) == 5
    assert {row["outcome"] for row in exact.rows} == {"wrong"}
    assert [row["score"] for row in changed.rows] == [1, 0, 0, 0, 0]
    assert "scored anew" in str(changed)


def test_a_transcript_is_a_run(tmp_path):
    """`result.run` gives a State that can be looked at and forked."""
    result = batch(Agent(model=Adder()), TASKS, folder=tmp_path)
    run = result.run("t2")

    assert run.answer == "It is 3."
    assert Agent(model=ScriptedModel(["again"])).run(run.say("Sure?")).answer == "again"


def test_lines_are_short_and_hold_no_more_than_is_asked(tmp_path):
    """Long ids, goals, answers: every line stays under 1 kB, and the row still holds the whole answer."""
    long = "é" * 3_000
    model = Adder({long: "word " * 2_000})
    result = batch(Agent(model=model), [{"id": "漢字" * 300, "goal": long, "expected": "word"}], folder=tmp_path)
    lines = (tmp_path / "units.jsonl").read_bytes().splitlines(keepends=True)

    assert max(map(len, lines)) < 1_000
    assert result.rows[0]["answer"] == "word " * 2_000
    assert result.rows[0]["task"] == "漢字" * 300


def test_half_a_line_is_set_aside(tmp_path):
    """What a dying process wrote last is run again, the rest is not; the file is whole again."""
    model = Adder()
    batch(Agent(model=model), TASKS, folder=tmp_path)
    path = tmp_path / "units.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    for each in tmp_path.glob("*.run.jsonl"):
        each.unlink()

    with pytest.warns(UserWarning, match="half written"):
        result = batch(Agent(model=model), TASKS, folder=tmp_path)

    assert sum(model.asked.values()) == 6
    assert {row["outcome"] for row in result.rows} == {"right"}
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_last_line_without_its_end_counts(tmp_path):
    """Nothing is run again for want of a line end."""
    model = Adder()
    batch(Agent(model=model), TASKS, folder=tmp_path)
    path = tmp_path / "units.jsonl"
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    batch(Agent(model=model), [*TASKS, {"id": "t6", "goal": "What is 6 + 1?", "expected": 7}], folder=tmp_path)

    assert sum(model.asked.values()) == 6
    assert len(path.read_text().splitlines()) == 7


def test_a_damaged_line_stops_before_anything_is_written(tmp_path):
    """The error names file and line; the file stays as it is."""
    batch(Agent(model=Adder()), TASKS, folder=tmp_path)
    path = tmp_path / "units.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    broken = b"".join([*lines[:2], b'{"key": "x", "sco\n', *lines[3:]])
    path.write_bytes(broken)

    with pytest.raises(RecordingError, match=r"units\.jsonl, line 3"):
        batch(Agent(model=Adder()), TASKS, folder=tmp_path)
    assert path.read_bytes() == broken


def test_files_stay_in_the_folder(tmp_path):
    """Ids that look like paths name files directly inside."""
    ids = ["../evil", "/tmp/evil", "x/y", "C:\\x", "a b?*", "A", "a"]
    result = batch(Agent(model=Adder()), [{**TASKS[0], "id": each} for each in ids], folder=tmp_path / "out")
    names = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert [row["task"] for row in result.rows] == ids
    assert {path.parent for path in names} == {tmp_path / "out"}
    assert len([path for path in names if path.name.endswith(".answer.txt")]) == len(ids)


def test_an_interrupt_keeps_what_is_finished(tmp_path):
    """A tool meets the person's interrupt: finished ones stay, the others say that they were not run."""
    model = Adder({TASKS[2]["goal"]: calls("wait")})

    @tool
    def wait() -> str:
        """Wait."""
        raise KeyboardInterrupt

    agent = Agent(model=model, tools=[wait])
    with pytest.raises(AgentInterrupted, match="the same call goes on") as caught:
        batch(agent, TASKS, concurrency=1, folder=tmp_path)
    asked = dict(model.asked)
    model.says.clear()
    result = batch(agent, TASKS, concurrency=1, folder=tmp_path)

    kept = outcomes(caught.value.state)
    assert kept["t3"] == "cancelled"
    assert {kept[name] for name in kept} <= {"right", "cancelled", "not run"}
    assert set(outcomes(result).values()) == {"right"}
    again = {goal for goal in model.asked if asked.get(goal, 0) and model.asked[goal] > asked[goal]}
    assert again == {TASKS[2]["goal"]}


def test_two_calls_at_once_in_one_folder_are_refused(tmp_path):
    """A second writer would pay for everything twice."""
    pytest.importorskip("fcntl")

    def inner(answer: str) -> bool:
        with pytest.raises(UsageError, match="another comparison is writing"):
            batch(Agent(model=Adder()), TASKS, folder=tmp_path)
        return True

    assert batch(Agent(model=Adder()), TASKS[:1], folder=tmp_path, scorer=inner).rows[0]["outcome"] == "right"


def test_the_log_carries_the_id(tmp_path):
    """Every line of the log says which task, variant and repeat it is of."""
    batch(Agent(model=Adder(), name="summer"), TASKS, folder=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]

    assert {line["task"] for line in lines} == {task["id"] for task in TASKS}
    assert {(line["variant"], line["repeat"]) for line in lines} == {("summer", 1)}


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    """A file of that name with other content is refused and not changed."""
    path = Path(tmp_path, "units.jsonl")
    path.write_text('{"some": "thing"}\n')

    with pytest.raises(UsageError, match="no file of a comparison"):
        batch(Agent(model=Adder()), TASKS, folder=tmp_path)
    assert path.read_text() == '{"some": "thing"}\n'


def test_the_choices_are_asked_with_the_goal():
    """A task with choices shows them to the model, once."""
    asked: list[str] = []

    def model(request: Any) -> str:
        asked.append(request.messages[-1]["content"])
        return "B"

    task = {"goal": "Which is blue?", "choices": ["grass", "sky"], "expected": "sky"}
    result = batch(Agent(model=model), [task, {**task, "goal": "grass or sky?"}])

    assert sorted(asked) == ["Which is blue?\nA. grass\nB. sky", "grass or sky?"]
    assert {row["outcome"] for row in result.rows} == {"right"}


def test_a_batch_wants_an_agent():
    """A bare model is told how to become one, before anything starts."""
    with pytest.raises(UsageError, match=r"batch\(Agent\(model=\.\.\.\), tasks\)"):
        batch(lambda request: "4", ["2 + 2?"])
