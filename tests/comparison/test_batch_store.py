"""The folder: cut at any byte it loses no whole line, and a run of many at once is that of one at a time."""

from __future__ import annotations

import asyncio
import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb import Agent, Limits, Task, batch, calls, compare, tool
from agentnb.comparison.scores import Outcome
from agentnb.comparison.store import LONGEST_LINE, Store, unit_line
from agentnb.comparison.units import Plan
from agentnb.comparison.variants import Variant
from agentnb.comparison.work import Work, missing_row

pytestmark = pytest.mark.slow

AGENT = Agent(model=lambda request: "4")
UNITS = list(Plan([Variant("a", AGENT)], [Task(f"t{n}", f"goal {n}") for n in range(6)], 2, None, 0))
anything = st.text(max_size=400)


def row_of(unit: Any, **more: Any) -> dict[str, Any]:
    """A row with these columns."""
    work = Work(unit.variant.name, AGENT, None, unit.task, unit.repeat)  # type: ignore[arg-type]
    return {**missing_row(work, Outcome.ERROR, "why"), **more}


@given(cut=st.integers(min_value=0))
@settings(max_examples=40, deadline=None)
def test_a_file_cut_anywhere_keeps_its_whole_lines(cut):
    """What stands in whole lines is known, what is cut is set aside, and the next line can be read."""
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = Store(folder)
        for unit in UNITS[:-1]:
            store.finish(unit, row_of(unit))
        store.close()
        path = Path(folder, "units.jsonl")
        whole = path.read_bytes()
        content = whole[: cut % (len(whole) + 1)]
        path.write_bytes(content)
        lines = [line for line in content.split(b"\n") if line.startswith(b'{"key"') and line.endswith(b"}")]

        again = Store(folder)
        known = [unit for unit in UNITS if again.done(unit)]
        again.finish(UNITS[-1], row_of(UNITS[-1]))
        again.close()

        assert len(known) == len(lines)
        assert all(json.loads(line) for line in path.read_text().splitlines())
        last = Store(folder)
        assert last.done(UNITS[-1])
        last.close()


@given(anything, anything, anything)
@settings(max_examples=40, deadline=None)
def test_a_line_is_short_and_strict_whatever_it_tells(answer, detail, explanation):
    """Control characters, emoji, quotes: one line, under 1 kB, that reads back."""
    unit = UNITS[0]._replace(task=Task("ключ " * 60, "goal"))
    line = unit_line(unit, row_of(unit, answer=answer * 9, detail=detail, explanation=explanation))

    assert len(line) < LONGEST_LINE
    assert line.count(b"\n") == 1
    assert json.loads(line)["key"] == unit.key


@pytest.mark.slow
def test_many_at_once_is_as_one_at_a_time():
    """Two models, one with failures of each kind, a shared tool: the histories do not depend on the concurrency."""

    @tool
    async def look(number: int) -> str:
        """Look at a place.

        Args:
            number: Which one.
        """
        return f"place {number}"

    async def model(request: Any) -> Any:
        first = next(each["content"] for each in request.messages if each["role"] == "user")
        number, looks = int(first.split()[1]), sum(each["role"] == "tool" for each in request.messages)
        await asyncio.sleep(60 if number == 3 else 0)
        if number == 2:
            raise OSError("away")
        if number == 4:
            return {"content": "No.", "finish_reason": "content_filter"}
        return calls("look", number=number * 10 + looks) if looks < number else f"saw {looks}"

    def run(concurrency: int) -> Any:
        tasks = [{"id": f"t{n}", "goal": f"Look {n}", "expected": f"saw {n}"} for n in range(1, 6)]
        limits = Limits(seconds=1.0)
        return compare({"a": model, "b": model}, tasks, tools=[look], limits=limits, concurrency=concurrency)

    many, one = run(3), run(1)

    assert [row["outcome"] for row in many.rows] == ["right", "error", "timeout", "refused", "right"] * 2
    assert [row["outcome"] for row in one.rows] == [row["outcome"] for row in many.rows]
    assert all(many.run(f"t{n}", name) == one.run(f"t{n}", name) for n in (1, 2, 4, 5) for name in "ab")
    average = many.leaderboard[0]["average"]
    assert (average.value, average.n, average.total) == (0.5, 4, 5)
    assert "left out: 1 error" in str(average)


@pytest.mark.parametrize("source", ["list", "jsonl", "csv", "frame"])
def test_tasks_come_from_everywhere(source, tmp_path):
    """A list, JSON Lines, CSV and a DataFrame make the same runs, which resume each other's."""
    rows = [{"id": "x", "goal": "2 + 2?", "expected": "4"}, {"id": "y", "goal": "1 + 3?", "expected": "4"}]
    if source == "jsonl":
        Path(tmp_path, "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    elif source == "csv":
        Path(tmp_path, "tasks.csv").write_text("id,goal,expected\n" + "\n".join(",".join(row.values()) for row in rows))
    frame = pytest.importorskip("pandas").DataFrame(rows) if source == "frame" else None
    given = {"list": rows, "jsonl": tmp_path / "tasks.jsonl", "csv": tmp_path / "tasks.csv", "frame": frame}[source]
    batch(AGENT, rows, folder=tmp_path / "out")
    result = batch(AGENT, given, folder=tmp_path / "out")

    assert [row["outcome"] for row in result.rows] == ["right", "right"]
    assert result.notes == ()
    assert len(Path(tmp_path, "out", "units.jsonl").read_text().splitlines()) == 3
