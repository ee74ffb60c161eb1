"""The long table: its columns, the ways out and back, other programs' columns."""

from __future__ import annotations

import asyncio
import csv
import json
import sys

import pytest

from agentnb import Agent, ScriptedModel, Task, calls, tool
from agentnb.comparison.extras import extra
from agentnb.comparison.scorers import score_run
from agentnb.comparison.scores import Outcome, Rate, Score
from agentnb.comparison.table import (
    evalstats_rows,
    inspect_rows,
    row,
    scores_of,
    to_frame,
    values_of,
    write_csv,
    write_json_lines,
    write_parquet,
)
from agentnb.comparison.verdict import verdict
from agentnb.errors import ModelError, SettingsError
from agentnb.text import hide

TASK = Task("t/1", "Add 1 and 2", 3, metadata={"level": "easy"})


@tool
def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One.
        b: Other.

    Returns:
        The sum.
    """
    return a + b


def made(*script):
    """A row from a real run."""
    run = Agent(model=ScriptedModel(list(script), name="m"), tools=[add]).run(TASK.goal)
    return row("A", TASK, 1, run, asyncio.run(score_run(TASK, run)))


USED = {"prompt_tokens": 10, "completion_tokens": 5}


def rows():
    """Right, wrong, an error and one that was not run."""
    right = made(calls("add", a=1, b=2) | {"usage": USED}, {"content": 'It is 3, "sure"\nyes', "usage": USED})
    return [
        right,
        made("It is 4") | {"repeat": 2},
        made(ModelError("gone", kind="connection")) | {"repeat": 3},
        row("A", TASK, 4, None, Score(Outcome.NOT_RUN)),
    ]


def test_a_row_says_what_happened():
    """Score, outcome, steps, calls, tokens; plain values only."""
    first, second, failed, waiting = rows()

    assert (first["outcome"], first["score"], first["scorer"], first["stop"]) == ("right", 1, "number", "answer")
    assert (first["steps"], first["tool_calls"], first["tool_errors"], first["tokens"]) == (2, 1, 0, 30)
    assert (second["outcome"], second["score"], second["tokens"], second["cost"]) == ("wrong", 0, None, None)
    assert (failed["outcome"], failed["score"], failed["answer"]) == ("error", None, None)
    assert (waiting["outcome"], waiting["steps"], waiting["tokens"]) == ("not run", None, None)
    assert set(first) == set(waiting)
    assert json.loads(json.dumps(first)) == first


def test_half_a_token_count_is_unknown():
    """Where one call of several said nothing, the sum is None, not what is left of it."""
    found = made(calls("add", a=1, b=2) | {"usage": USED}, "It is 3")

    assert (found["input_tokens"], found["output_tokens"], found["tokens"]) == (None, None, None)


def test_secrets_do_not_reach_the_table():
    """A key in an answer is hidden, also in the explanation."""
    hide("sk-table-1234567890")
    found = made("It is sk-table-1234567890")

    assert "sk-table" not in json.dumps(found)


def test_csv_and_json_lines(tmp_path):
    """An unknown is an empty cell or null; quotes and line ends come back."""
    with write_csv(rows(), tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    assert [each["score"] for each in read] == ["1.0", "0.0", "", ""]
    assert read[0]["answer"] == 'It is 3, "sure"\nyes'
    assert json.loads(read[0]["metadata"]) == {"level": "easy"}

    lines = write_json_lines(rows(), tmp_path / "t.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["score"] for line in lines] == [1, 0, None, None]


@pytest.mark.slow
def test_frame_and_parquet(tmp_path):
    """Whole numbers with gaps stay whole; expected values of several types become JSON text."""
    pandas = pytest.importorskip("pandas")
    given = [*rows(), rows()[0] | {"expected": "three"}]
    frame = to_frame(given)
    assert str(frame["steps"].dtype) == "Int64"
    assert frame["score"].isna().sum() == 2

    read = pandas.read_parquet(write_parquet(given, tmp_path / "t.parquet"))
    assert list(read.columns) == list(frame.columns)
    assert [json.loads(each) for each in read["expected"]] == [3, 3, 3, 3, "three"]
    assert read["steps"].isna().sum() == 1


def test_the_columns_of_inspect():
    """One row a sample: id, epoch, input, target, score_*, metadata_*, error, limit."""
    first, _, failed, _ = inspect_rows(rows())

    assert (first["id"], first["epoch"], first["input"], first["target"]) == ("t/1", 1, "Add 1 and 2", "3")
    assert (first["score_number"], first["metadata_level"], first["error"], first["limit"]) == (1, "easy", "", None)
    assert json.loads(first["model_usage"])["m"] == {"input_tokens": 20, "output_tokens": 10}
    assert "gone" in failed["error"]
    assert failed["metadata_outcome"] == "error"


def test_the_columns_of_evalstats():
    """model, prompt, item, run, score; a run without a score has none."""
    found = evalstats_rows(rows())

    assert list(found[0]) == ["model", "prompt", "item", "run", "score"]
    assert [(each["run"], each["score"]) for each in found] == [(1, 1), (2, 0), (3, None), (4, None)]


def test_from_rows_to_a_verdict():
    """The same rows give the averages and the values that are compared."""
    given = [*rows(), *({**each, "variant": "B"} for each in rows())]

    assert values_of(given, success=True) == {name: {"t/1": [1, 0, None, None]} for name in "AB"}
    assert "cannot be told apart" in verdict(values_of(given, success=True)).conclusion
    assert str(Rate.of(scores_of(rows()))).startswith(
        "1 right (50%) over 2 of 4 runs (1 wrong; left out: 1 error, 1 not run"
    )


def test_partial_scores_and_chosen_zeros():
    """Success asks for a whole 1; a limit is 0 unless it is chosen not to be."""
    given = [{"variant": "A", "task": "t", "outcome": "partial", "score": 0.5},
             {"variant": "A", "task": "t", "outcome": "limit", "score": None}]  # fmt: skip

    assert values_of(given, success=True)["A"]["t"] == [0, 0]
    assert values_of(given, success=False, as_zero=())["A"]["t"] == [0.5, None]


def test_a_missing_package_is_named():
    """The error says which, and how to install it."""
    with pytest.raises(SettingsError, match=r"no_such_package is not installed.*pip install no_such_package$"):
        extra("no_such_package.part")
    with pytest.raises(SettingsError, match=r"scipy is not installed.*pip install 'agentnb-jupyter\[compare\]'"):
        extra("scipy.no_such_part")
    assert "no_such_package" not in sys.modules
