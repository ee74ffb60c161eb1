"""Several variants on the same tasks: resumed, extended, and told without claiming too much."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from agentnb import Agent, Limits, compare, tool
from agentnb.comparison.report_text import cell_text, matrix_table
from agentnb.errors import UsageError
from agentnb.models.catalog import resolve
from agentnb.models.scripted import CallableModel
from agentnb.models.server import ScriptedServer
from agentnb.models.transport import Retry

TASKS = [{"id": f"t{n}", "goal": f"What is {n} + 1?", "expected": n + 1} for n in range(1, 11)]


def adds(error: int = 0, asked: Counter[str] | None = None, odd_only: bool = False) -> Any:
    """A model that is off by `error`, perhaps for odd numbers alone."""

    def model(request: Any) -> str:
        goal = next(each["content"] for each in request.messages if each["role"] == "user")
        if asked is not None:
            asked[goal] += 1
        number = int(goal.split()[2])
        return str(number + 1 + (error if number % 2 or not odd_only else 0))

    return model


def test_ten_tasks_two_models_a_folder(tmp_path):
    """The vertical line: run, resume, read the leaderboard."""
    asked: Counter[str] = Counter()
    models = {"right": adds(0, asked), "wrong": adds(1, asked)}
    result = compare(models, TASKS, repeats=2, folder=tmp_path)
    again = compare(models, TASKS, repeats=2, folder=tmp_path)

    assert sum(asked.values()) == 40
    assert str(again) == str(result)
    assert "20 right (100%) over 20 of 20 runs" in str(result)
    assert "right is better than wrong on 10 tasks" in str(result)
    assert [line["variant"] for line in result.leaderboard] == ["right", "wrong"]


def test_models_and_repeats_only_add(tmp_path):
    """Another model runs alone; another repeat runs once for each."""
    asked: Counter[str] = Counter()
    other: Counter[str] = Counter()
    compare({"a": adds(0, asked)}, TASKS, folder=tmp_path)
    compare({"a": adds(0, asked), "b": adds(1, other)}, TASKS, folder=tmp_path)
    assert (sum(asked.values()), sum(other.values())) == (10, 10)

    compare({"a": adds(0, asked), "b": adds(1, other)}, TASKS, folder=tmp_path, repeats=2)

    assert (sum(asked.values()), sum(other.values())) == (20, 20)


def test_a_model_against_itself_is_run_twice():
    """Equal agents under two names do not share their runs."""
    asked: Counter[str] = Counter()
    model = adds(0, asked)
    result = compare([model, model], TASKS)

    assert sum(asked.values()) == 20
    assert result.variants == ("model", "model #2")
    assert "cannot be told apart" in result.verdict.conclusion


def test_every_combination_is_a_variant():
    """Two planners and two prompts make four agents, named after what they differ in."""

    @tool
    def look() -> str:
        """Look."""
        return ""

    result = compare(
        planners=["tools", "json"],
        system_prompts={"brief": "Be brief.", "long": "Be long."},
        tasks=TASKS[:1],
        model=adds(),
        tools=[look],
        limits=Limits(steps=2),
    )

    assert result.variants == ("tools · brief", "tools · long", "json · brief", "json · long")
    assert {row["outcome"] for row in result.rows} <= {"right", "limit"}


def test_variants_are_agents_or_changes():
    """A dict of changes applies to the agent that is given."""
    agent = Agent(model=adds(), name="base")
    result = compare(variants={"plain": agent, "off": {"model": adds(1)}}, agent=agent, tasks=TASKS)

    assert [line["average"].value for line in result.leaderboard] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "nothing to compare"),
        ({"models": "gpt-5"}, "is no list"),
        ({"models": [adds()], "variants": [{}]}, "both given"),
        ({"variants": [3]}, "no variant"),
        ({"variants": [{"modle": 1}]}, "can't be made"),
        ({"models": [adds()], "repeats": 0}, "repeats=0"),
        ({"models": [adds()], "tasks": []}, "empty"),
        ({"models": [adds()], "tasks": ["a", {"id": "1", "goal": "b"}]}, "not unique"),
        ({"models": [adds()], "retry": "all"}, "retry='all'"),
    ],
)
def test_what_can_not_be_run_is_said_first(given, what):
    """Nothing is started with a task set or an option that can't be used."""
    with pytest.raises(UsageError, match=what):
        compare(**{"tasks": TASKS, **given})


def test_disagreements_come_first():
    """The grid begins with the tasks that tell the variants apart."""
    result = compare({"good": adds(), "odd": adds(5, odd_only=True)}, TASKS)

    assert [line["task"] for line in result.grid[:5]] == ["t1", "t3", "t5", "t7", "t9"]
    assert result.diff("t1").first["step"] == 1
    assert "result.diff(&#x27;t1&#x27;, &#x27;good&#x27;, &#x27;odd&#x27;, 1)" in result.html


def test_nothing_of_a_model_is_markup():
    """Names, goals and answers are shown as they are."""
    evil = "<img src=x onerror=alert(1)> **x** $x$ | y"
    result = compare(
        {evil: lambda request: evil, "b": lambda request: ""}, [{"id": evil, "goal": evil, "expected": "q"}]
    )

    assert "<img" not in result.html
    assert "**x**" not in result.markdown
    assert "tex2jax_ignore" in result.html


def test_the_order_is_interleaved_and_recorded(tmp_path):
    """All variants do a task before the next begins; the seed is in the record and makes the order."""
    order: list[tuple[str, str]] = []

    def noting(name: str) -> Any:
        return lambda request: order.append((name, request.messages[-1]["content"])) or "1"

    def run(seed: int) -> list[tuple[str, str]]:
        order.clear()
        compare({"a": noting("a"), "b": noting("b")}, TASKS, seed=seed, concurrency=1)
        return order[:]

    first, again, other = run(1), run(1), run(2)

    assert first == again != other
    assert all(first[place][1] == first[place + 1][1] for place in range(0, 20, 2))
    assert {name for name, _ in first[::2]} == {"a", "b"}
    assert compare({"a": noting("a")}, TASKS, seed=7, folder=tmp_path).record["seed"] == 7


def test_the_table_leaves_in_the_columns_of_other_programs(tmp_path):
    """Our own, inspect_ai's and evalstats' columns, by the end of the name; other names are refused."""
    result = compare({"a": adds(), "b": adds(1)}, TASKS, repeats=2)
    own = result.save(tmp_path / "own.csv").read_text().splitlines()
    theirs = result.save(tmp_path / "theirs.jsonl", "evalstats").read_text().splitlines()
    samples = result.save(tmp_path / "samples.csv", "inspect_ai").read_text().splitlines()

    assert len(own) == len(samples) == 41
    assert len(theirs) == 40
    assert '"prompt"' in theirs[0]
    assert samples[0].startswith("sample_id,")
    with pytest.raises(UsageError, match="can't save a table"):
        result.save(tmp_path / "own.xlsx")
    with pytest.raises(UsageError, match="columns='R'"):
        result.save(tmp_path / "own.csv", "R")


def test_the_record_tells_what_a_reader_needs(tmp_path):
    """Versions, platform, source, models, hashes and seed; in the result and in the folder; no key."""
    result = compare({"a": adds()}, TASKS, folder=tmp_path)
    (line,) = (tmp_path / "record.jsonl").read_text().splitlines()
    record = json.loads(line)

    assert record == result.record
    assert {"versions", "platform", "git", "cell", "task_set", "scorer", "prices", "seed", "variants"} <= set(record)
    about = record["variants"]["a"]
    assert {"model", "base_url", "parameters", "prompt_hash", "tools", "limits"} <= set(about)


def test_the_record_tells_which_model_answered(tmp_path):
    """The name that the provider gives, beside the one that was asked; in a line of its own when the call ends."""
    with ScriptedServer(["2"] * 10) as server:
        model = resolve("openai:gpt-5-mini", base_url=server.url)
        result = compare([model], TASKS[:2], folder=tmp_path, progress=False)
    first, last = map(json.loads, (tmp_path / "record.jsonl").read_text().splitlines())

    assert first["variants"]["openai:gpt-5-mini"]["model"] == "openai:gpt-5-mini"
    assert last == {"started": first["started"], "answered_as": result.answered_as}
    assert result.record["answered_as"] == result.answered_as
    assert result.answered_as["openai:gpt-5-mini"]


def test_every_two_stand_in_a_matrix():
    """Row against column: the word that the test allows, and the difference; the other way round it is turned."""
    result = compare({"a": adds(), "b": adds(1), "c": adds()}, TASKS)
    table = {row[0]: row[1:] for row in matrix_table(result.verdict, True)}
    ab, ba = (table[one][table[""].index(other)] for one, other in ("ab", "ba"))

    assert (ab, ba) == ("better (+100 points)", "worse (-100 points)")
    assert table["a"][table[""].index("c")] == "unclear (+0 points)"
    assert "Every two, row against column" in str(result)


def test_passes_are_at_hand():
    """pass@k and pass^k of each variant; undefined for more runs than there are."""
    found = compare({"a": adds()}, TASKS, repeats=2).passes(1, 2, 3)

    assert [str(each) for each in found["a"]][:3] == [
        "pass@1 1.00 over 10 of 10 tasks",
        "pass@2 1.00 over 10 of 10 tasks",
        "pass@3 undefined over 0 of 10 tasks",
    ]


def test_keys_reach_no_file(tmp_path, monkeypatch):
    """A key in the environment, in a header and in an answer stays out of every file of the folder."""
    key = "KEY-TEST-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    model = resolve("openai:gpt-5-mini", base_url="http://127.0.0.1:9/v1", retry=Retry(attempts=1))
    said = CallableModel(lambda request: f"The key is {key}.", "teller")
    compare([model, said], [{"id": "t", "goal": f"Say {key}", "expected": "no"}], folder=tmp_path, progress=False)
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())

    assert b"http://127.0.0.1:9/v1" in written
    assert not any(key[place : place + 8].encode() in written for place in range(len(key) - 7))


def test_nothing_is_called_wrong_that_nobody_scored():
    """Tasks without an expected answer: the grid says how many answered, and nothing of right or not."""
    result = compare([lambda request: "x", lambda request: "y"], ["a"], repeats=3, first=None)

    assert {cell_text(cell) for cell in result.grid[0]["cells"].values()} == {"3 answered"}
