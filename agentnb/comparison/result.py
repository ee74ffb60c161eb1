"""What a batch or a comparison brought: the long table, the statistics, the transcripts.

    result                      shows itself: leaderboard, conclusion, grid
    result.rows                 one plain dict per variant, task and repeat      result.frame    the same for pandas
    result.run("t1", "A")       the transcript, a State                          result.diff("t1", "A", "B")
    result.verdict.conclusion   what may be said                                 result.plot()
    result.passes(1, 3)         pass@k and pass^k of each variant

It holds no transcript: what is asked for is read from its folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from shutil import rmtree
from typing import Any
from weakref import finalize

from agentnb.comparison import table
from agentnb.comparison.board import Line, board, grid, is_binary, is_scored
from agentnb.comparison.budget import Estimate
from agentnb.comparison.passes import OverTasks, passes
from agentnb.comparison.scores import AS_ZERO, SCORED, Outcome
from agentnb.comparison.store import read_lines
from agentnb.comparison.table import Row
from agentnb.comparison.units import Plan, Unit
from agentnb.comparison.verdict import Values, Verdict, verdict
from agentnb.comparison.work import Work, missing_row
from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.records.canonical import tidy

_NOT_RUN = "it was not run"
_CANCELLED = "it was interrupted; the next call runs it again"


@dataclass(repr=False, eq=False)
class Comparison:
    """The results in a folder, seen through a plan."""

    plan: Plan
    folder: Path
    end: int
    """Bytes of `units.jsonl` that belong to this result; a later call may add to the file."""
    notes: tuple[str, ...] = ()
    """What a reader must know: results of other agents that were left alone, a budget that was reached."""
    estimate: Estimate | None = None
    """What the rest was expected to take, after the samples."""
    record: dict[str, Any] = field(default_factory=dict)
    """Versions, machine, models, hashes: see `record.py`."""
    cancelled: frozenset[str] = frozenset()
    """Keys of units that were in flight when a person interrupted."""
    temporary: bool = False
    """The folder goes when this result goes."""

    def __post_init__(self) -> None:
        if self.temporary:
            finalize(self, rmtree, self.folder, ignore_errors=True)

    # ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def variants(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(each.name for each in self.plan.variants)

    def __len__(self) -> int:
        return len(self.plan)

    def __iter__(self) -> Iterator[Row]:
        """The rows one by one, in the order in which variants and tasks were given."""
        path, places = self.folder / "units.jsonl", self._places
        with path.open("rb") as file:
            for unit in self.plan:
                place = places.get(unit.key + unit.scoring)
                if place is None:
                    yield self._missing(unit)
                else:
                    file.seek(place)
                    yield self._row(unit, json.loads(file.readline()))

    @property
    def _places(self) -> dict[str, int]:
        """Both keys of a unit to where its line is."""
        lines = read_lines(self.folder / "units.jsonl", self.end)
        return {told["key"] + told["scoring"]: offset for offset, told in lines}

    @cached_property
    def rows(self) -> list[Row]:
        """The long table: one dict per variant, task and repeat, also for what was not run."""
        return list(self)

    @cached_property
    def frame(self) -> Any:
        """The long table as a pandas DataFrame."""
        return table.to_frame(self.rows)

    def save(self, path: str | PathLike[str], columns: str | None = None) -> Path:
        """Write the long table as .csv, .jsonl or .parquet, by the end of the name.

        Args:
            path: Where to.
            columns: None for our own; "inspect_ai" or "evalstats" for the columns that these programs read.

        Raises:
            UsageError: The name ends otherwise, or there are no such columns.
        """
        forms: dict[str | None, Callable[[list[Row]], list[Row]]] = {
            None: list,
            "inspect_ai": table.inspect_rows,
            "evalstats": table.evalstats_rows,
        }
        if columns not in forms:
            raise _wrong(f"columns={columns!r} is not known", 'Use "inspect_ai" or "evalstats", or leave it out.')
        kinds = {".csv": table.write_csv, ".jsonl": table.write_json_lines, ".parquet": table.write_parquet}
        write = kinds.get(Path(path).suffix.lower())
        if write is None:
            raise _wrong(f"can't save a table as {Path(path).name!r}", f"End the name in {', '.join(kinds)}.")
        return write(forms[columns](self.rows), path)

    @property
    def answered_as(self) -> dict[str, list[str]]:
        """Variant to the model names that its providers gave in their answers; an alias often stands for another."""
        names: dict[str, set[str]] = {name: set() for name in self.variants}
        for each in self.rows:
            names[each["variant"]].update(filter(None, [each["answered_as"]]))
        return {name: sorted(found) for name, found in names.items()}

    def _missing(self, unit: Unit) -> Row:
        variant = unit.variant
        work = Work(variant.name, variant.agent, self.plan.scorer, unit.task, unit.repeat)
        if unit.key in self.cancelled:
            return missing_row(work, Outcome.CANCELLED, _CANCELLED)
        return missing_row(work, Outcome.NOT_RUN, _NOT_RUN)

    def _row(self, unit: Unit, told: Mapping[str, Any]) -> Row:
        task = unit.task
        empty: Row = dict.fromkeys(self._columns)
        known = {name: told[name] for name in empty if name in told}
        given = {"goal": tidy(task.goal), "expected": tidy(task.expected), "metadata": tidy(task.metadata)}
        row = {
            **empty,
            "explanation": "",
            "scorer": "",
            **known,
            "task": task.id,
            "variant": unit.variant.name,
            **given,
        }
        if "answer" in told.get("cut", ()):
            row["answer"] = self._whole_answer(unit)
        elif row["outcome"] in (*SCORED, Outcome.ANSWERED, Outcome.SCORE_ERROR):
            row["answer"] = row["answer"] or ""
        return row

    def _whole_answer(self, unit: Unit) -> str:
        path = self.folder / f"{unit.file_name}.answer.txt"
        return path.read_text("utf-8").partition("\n\n")[2].removesuffix("\n")

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        return tuple(self._missing(next(iter(self.plan))))

    # ── the statistics ───────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def values(self) -> Values:
        """Variant to task to one value per repeat: 1 and 0 where every score is right or wrong, else the scores."""
        return table.values_of(self.rows, success=False)

    @cached_property
    def verdict(self) -> Verdict:
        """Every pair compared, the bands of ranks, and the conclusion in words."""
        return verdict(self.values)

    def passes(self, *ks: int) -> dict[str, tuple[OverTasks, ...]]:
        """Of each variant pass@k for every k, then pass^k; a task with fewer than k runs has none."""
        return passes(self.values, ks)

    @cached_property
    def leaderboard(self) -> list[Line]:
        """One dict per variant, best band first."""
        return board(self.rows, self.variants, self.verdict, self.values)

    @cached_property
    def grid(self) -> list[Line]:
        """One dict per task, those on which the variants disagree first."""
        return grid(self.rows, self.variants)

    @property
    def scored(self) -> bool:
        """Whether anything has a score."""
        return is_scored(self.rows) or any(each["outcome"] in AS_ZERO for each in self.rows)

    @property
    def binary(self) -> bool:
        """Whether every score is right or wrong."""
        return is_binary(self.values)

    # ── the runs ─────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, task: str, variant: str | None = None, repeat: int = 1) -> State:
        """The transcript of one unit: a State like any other, to look at, fork and diff.

        Raises:
            UsageError: There is no such unit, or it has no transcript.
        """
        from agentnb.records.run_file import load

        unit = self._unit(str(task), variant, repeat)
        path = self.folder / unit.transcript
        if not path.exists():
            raise _wrong(
                f"{unit.task.id!r} by {unit.variant.name!r}, repeat {repeat}, has no transcript", "Run it first."
            )
        found: State = load(path)
        return found

    def transcript(self, task: str, variant: str | None = None, repeat: int = 1) -> Path:
        """The file of one unit's transcript, whether or not it is there.

        Raises:
            UsageError: There is no such unit.
        """
        return self.folder / self._unit(str(task), variant, repeat).transcript

    def diff(self, task: str, variant: str | None = None, other: str | None = None, repeat: int = 1) -> Any:
        """Where two variants' runs of one task part; the first two when none are named."""
        from agentnb.records.diff import diff

        if len(self.variants) < 2:
            raise _wrong("there is one variant only", "result.run(task, repeat=2) gives another run of it.")
        one = variant or next(name for name in self.variants if name != other)
        names = (one, other or next(name for name in self.variants if name != one))
        return diff(*(self.run(task, name, repeat) for name in names), names=names)

    def _unit(self, task: str, variant: str | None, repeat: int) -> Unit:
        name = variant or self.variants[0]
        for unit in self.plan:
            if unit.task.id == task and unit.variant.name == name and unit.repeat == repeat:
                return unit
        known = ", ".join(map(repr, self.variants))
        raise _wrong(f"no task {task!r} by {name!r}, repeat {repeat}", f"The variants: {known}.")

    # ── to look at ───────────────────────────────────────────────────────────────────────────────────────────────

    def plot(self, kind: str = "pareto") -> Any:
        """A Plot: score against cost ("pareto"), how runs ended ("outcomes"), or the spread of a measure.

        Args:
            kind: "pareto" takes dollars where all are known, else tokens, else steps; "outcomes"; or one of "steps",
                "tokens", "cost", "seconds", "tool_calls", "tool_errors".

        Raises:
            UsageError: There is no such kind.
        """
        from agentnb.comparison.pictures import picture

        return picture(self, kind)

    def __str__(self) -> str:
        from agentnb.comparison.report_text import text

        return text(self)

    def __repr__(self) -> str:
        return str(self)

    @property
    def markdown(self) -> str:
        """The same as Markdown."""
        from agentnb.comparison.report_text import markdown

        return markdown(self)

    @property
    def html(self) -> str:
        """The same as HTML of bare tags."""
        from agentnb.comparison.report_html import html

        return html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        bundle = {"text/plain": str(self), "text/markdown": self.markdown, "text/html": self.html}
        seconds = {line["variant"]: line["seconds"]["mean"] for line in self.leaderboard}
        return bundle, {"agentnb": {"seconds": seconds}}


def _wrong(what: str, remedy: str) -> UsageError:
    return UsageError(what, layer="comparison", remedy=remedy)
