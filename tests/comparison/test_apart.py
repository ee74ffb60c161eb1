"""Recordings of comparisons: every repeat of every variant keeps its own reply, whatever was done before."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from agentnb import Agent, batch, compare, recording
from agentnb.comparison.judge import JudgeScorer
from agentnb.core.planner import Decision
from agentnb.records.recording import stop_recording, use_recording

TASKS = [{"id": name, "goal": f"Say {name}."} for name in "ab"]


def counting(name="counting"):
    """A model that never says the same twice, and the numbers that it has said."""
    numbers = count(1)

    async def model(request):
        await asyncio.sleep(0)
        return str(next(numbers))

    model.__name__ = name
    return model


def silent(name="counting"):
    """A model that must not be asked."""

    def model(request):
        raise AssertionError("asked")

    model.__name__ = name
    return model


def answers(result):
    """Variant, task and repeat to answer."""
    return {(row["variant"], row["task"], row["repeat"]): row["answer"] for row in result.rows}


def recorded(path, function, mode="auto", **more):
    """What a comparison of one model under two names answers."""
    with recording(path, mode):
        models = {"one": function, "two": function}
        return answers(compare(models, TASKS, **{"first": None, "progress": False, "repeats": 3, **more}))


@pytest.mark.parametrize("concurrency", [1, 5])
def test_a_replay_gives_each_unit_its_own_reply(tmp_path, concurrency):
    """Another order and another concurrency change nothing: no two of twelve units share an answer."""
    first = recorded(tmp_path / "r.jsonl", counting(), concurrency=3)
    again = recorded(tmp_path / "r.jsonl", silent(), "replay", concurrency=concurrency, seed=7)

    assert len(set(first.values())) == 12
    assert first == again


def test_tasks_that_ask_the_same_have_their_own_replies(tmp_path):
    """Two tasks of one goal, also when both run at once and each asks the same thing twice."""

    class Twice:
        """A planner that asks one question two times, with a pause as long as the task says."""

        async def plan(self, state, tools, ask):
            """The two replies."""
            first = await ask(state.request())
            await asyncio.sleep(0.02)
            second = await ask(state.request())
            return Decision(second, answer=f"{first.text} {second.text}")

    tasks = [{"id": name, "goal": "The same."} for name in ("a", "b", "late")]

    def asked(model, mode, concurrency):
        with recording(tmp_path / "r.jsonl", mode):
            return answers(batch(Agent(model, planner=Twice()), tasks, concurrency=concurrency, first=None))

    first = asked(counting(), "auto", 2)

    assert len({number for told in first.values() for number in told.split()}) == 6
    assert asked(silent(), "replay", 3) == asked(silent(), "replay", 1) == first


def test_more_repeats_are_asked_and_no_others(tmp_path):
    """Repeats that are added later, in a folder or without one, are new answers; the old ones are not asked again."""
    path, model = tmp_path / "r.jsonl", counting()
    first = recorded(path, model, repeats=2, folder=tmp_path / "runs")
    more = recorded(path, model, repeats=3, folder=tmp_path / "runs")
    anew = recorded(path, silent(), repeats=3)

    assert more == anew
    assert first.items() < more.items()
    assert sorted(map(int, more.values())) == list(range(1, 13))


def test_one_session_asks_for_a_unit_once(tmp_path):
    """With more repeats, tasks or models in the same session, what was paid is not asked again; and replays the same."""
    path, model = tmp_path / "r.jsonl", counting()

    def twice(function, mode):
        with recording(path, mode):
            first = compare({"one": function}, TASKS[:1], repeats=2, first=None)
            more = compare({"one": function, "two": function}, TASKS, repeats=3, first=None)
        return answers(first), answers(more)

    first, more = twice(model, "auto")

    assert first.items() < more.items()
    assert sorted(map(int, more.values())) == list(range(1, 13))
    assert twice(silent(), "replay") == (first, more)


def test_a_variant_that_is_added_changes_no_other(tmp_path):
    """A third variant in front of the two asks for itself; their answers stay theirs."""
    path, model = tmp_path / "r.jsonl", counting()
    first = recorded(path, model)
    with recording(path):
        three = compare({"zero": model, "one": model, "two": model}, TASKS, repeats=3, first=None)

    assert first.items() < answers(three).items()
    assert len(set(answers(three).values())) == 18


def test_a_repeat_that_is_not_recorded_is_an_error_in_replay(tmp_path):
    """No earlier repeat answers in its place."""
    recorded(tmp_path / "r.jsonl", counting(), repeats=1)
    again = recorded(tmp_path / "r.jsonl", silent(), "replay", repeats=2)

    assert [key for key, answer in again.items() if answer is None] == [key for key in again if key[2] == 2]


def test_a_run_that_is_tried_again_is_asked_again(tmp_path):
    """retry= does not get the reply that was recorded for the attempt that failed."""
    said = [""]
    agent = Agent(lambda request: said[0], name="m")
    use_recording(tmp_path / "r.jsonl")
    try:
        empty = batch(agent, TASKS, folder=tmp_path / "runs", concurrency=1, first=None)
        said[0] = "fine"
        fine = batch(agent, TASKS, folder=tmp_path / "runs", concurrency=1, first=None, retry="failed")
    finally:
        stop_recording()

    assert [row["outcome"] for row in empty.rows] == ["empty", "empty"]
    assert [row["answer"] for row in fine.rows] == ["fine", "fine"]


def test_a_judge_rules_on_each_repeat(tmp_path):
    """The judge's own recording keeps its rulings on equal answers of two repeats apart."""
    verdicts = iter(["right", "wrong", "wrong", "right"])

    def judge(request):
        return f'{{"reason": "dice", "verdict": "{next(verdicts)}"}}'

    def score(concurrency, seed):
        scorer = JudgeScorer(judge, recording=tmp_path / "judge.jsonl")
        done = batch(Agent(lambda request: "x"), TASKS, repeats=2, scorer=scorer, concurrency=concurrency, seed=seed)
        return [row["outcome"] for row in done.rows]

    assert score(1, 0) == score(2, 5)
    assert next(verdicts, None) is None


def test_what_runs_beside_a_comparison_keeps_its_name(tmp_path):
    """A run outside of units is recorded under the model's own name, as ever."""
    with recording(tmp_path / "r.jsonl"):
        compare({"one": counting()}, TASKS[:1])
        Agent(counting("plain")).run("Say b.")

    text = (tmp_path / "r.jsonl").read_text()
    assert '"model": "plain"' in text
    assert '"model": "counting · one · a · 1"' in text
