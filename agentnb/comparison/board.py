"""From the long table to what is shown: one line a variant, and a grid of tasks with disagreements first.

    board(rows, names)        a list of plain dicts, best band first
    grid(rows, names)         a list of plain dicts, one a task

Every average stands beside the runs it is of; what is unknown stays None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentnb.comparison.scores import AS_ZERO, Average, Outcome, Rate
from agentnb.comparison.statistics import bootstrap_interval, mean_interval
from agentnb.comparison.table import scores_of
from agentnb.comparison.verdict import Values, Verdict

MEASURES = ("steps", "tool_calls", "tool_errors", "tokens", "cost", "seconds")
"""Columns of which a mean over runs is shown."""
Line = dict[str, Any]


def board(rows: Iterable[Mapping[str, Any]], names: Sequence[str], judged: Verdict, values: Values) -> list[Line]:
    """One dict per variant, best band first: variant, best, worst (ranks), average, interval, and of each measure the
    mean, its interval and how many runs it is of.

    Args:
        rows: The long table.
        names: The variants, as they were given.
        judged: The verdict on `values`.
        values: Variant to task to a value per run, from which the intervals come.
    """
    by_variant: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    for each in rows:
        by_variant[each["variant"]].append(each)
    kind = Rate if is_binary(values) else Average
    lines = []
    for band in judged.bands:
        mine = by_variant[band.variant]
        tasks = [[value for value in runs if value is not None] for runs in values.get(band.variant, {}).values()]
        line: Line = {"variant": band.variant, "best": band.best, "worst": band.worst}
        line |= {"average": kind.of(scores_of(mine)), "interval": mean_interval(tasks)}
        line |= {name: measure(mine, name) for name in MEASURES}
        lines.append(line | {"total_cost": _sum(each.get("cost") for each in mine)})
    return lines


def measure(rows: Sequence[Mapping[str, Any]], name: str) -> Line:
    """The mean of a column over the runs that have it: mean, low, high (bootstrap over tasks), n and total.

    A run that an error of the model's server cut short says nothing of what a run takes, and is left out.
    """
    by_task: dict[str, list[float]] = {}
    for each in rows:
        if each.get(name) is not None and each["outcome"] != Outcome.ERROR:
            by_task.setdefault(each["task"], []).append(float(each[name]))
    found = [value for task in by_task.values() for value in task]
    if not found:
        return {"mean": None, "low": None, "high": None, "n": 0, "total": len(rows)}
    interval = bootstrap_interval([*by_task.values()], resamples=2_000) if len(by_task) > 1 else None
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {"mean": math.fsum(found) / len(found), "low": low, "high": high, "n": len(found), "total": len(rows)}


def is_binary(values: Values) -> bool:
    """Whether every value is right or wrong, nothing between."""
    return all(value in (None, 0, 1) for tasks in values.values() for runs in tasks.values() for value in runs)


def is_scored(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any run has a score."""
    return any(each["score"] is not None for each in rows)


def grid(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> list[Line]:
    """One dict per task: task, goal, apart (how far the variants are from each other), cells by variant.

    A cell has the mean value, n, total, the outcomes counted and the repeats. Tasks on which the variants disagree most
    come first, then those that most got wrong; else the order of the task set.
    """
    tasks: dict[str, Line] = {}
    for each in rows:
        line = tasks.setdefault(each["task"], {"task": each["task"], "goal": each["goal"], "rows": {}})
        line["rows"].setdefault(each["variant"], []).append(each)
    made = [_grid_line(line, names) for line in tasks.values()]
    return sorted(made, key=lambda line: (-line["apart"], line["mean"]))


def _grid_line(line: Line, names: Sequence[str]) -> Line:
    cells = {name: _cell(line["rows"].get(name, [])) for name in names}
    means = [cell["value"] for cell in cells.values() if cell["value"] is not None]
    mixed = len({tuple(sorted(cell["outcomes"])) for cell in cells.values()}) > 1
    apart = max(means) - min(means) if means else 0.0
    mean = math.fsum(means) / len(means) if means else 2.0
    return {
        "task": line["task"],
        "goal": line["goal"],
        "apart": round(apart, 12) or 1e-6 * mixed,
        "mean": mean,
        "cells": cells,
    }


def _cell(rows: Sequence[Mapping[str, Any]]) -> Line:
    values = [value for each in rows if (value := _value(each)) is not None]
    mean = math.fsum(values) / len(values) if values else None
    outcomes = Counter(str(each["outcome"]) for each in rows)
    return {"value": mean, "n": len(values), "total": len(rows), "outcomes": dict(outcomes), "rows": list(rows)}


def _value(each: Mapping[str, Any]) -> float | None:
    return 0.0 if each["outcome"] in AS_ZERO else each["score"]


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None where one is unknown."""
    found = list(values)
    return None if None in found else math.fsum(value for value in found if value is not None)


def failures(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, int]]:
    """Variant, what went wrong in words, and how often; the most frequent first."""
    counts = Counter(
        (each["variant"], f"{each['outcome']}: {each.get('detail') or each.get('explanation') or ''}")
        for each in rows
        if each["outcome"] in (Outcome.ERROR, Outcome.SCORE_ERROR)
    )
    return [(variant, what, number) for (variant, what), number in counts.most_common()]
