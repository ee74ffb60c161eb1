"""From a comparison to its plots: the numbers that each picture takes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from agentnb.comparison.board import MEASURES, Line
from agentnb.errors import UsageError
from agentnb.plots.comparison_plots import outcome_plot, pareto_plot, spread_plot
from agentnb.plots.plot import Plot

if TYPE_CHECKING:
    from agentnb.comparison.result import Comparison

_ACROSS = {"cost": ("dollars a run", "{:.4f}"), "tokens": ("tokens a run", "{:,.0f}"), "steps": ("steps", "{:.1f}")}
"""What a score is set against, the first that is known for all."""


def picture(result: Comparison, kind: str) -> Plot:
    """The plot of this kind.

    Raises:
        UsageError: There is no such kind.
    """
    if kind == "pareto":
        return _pareto(result)
    if kind == "outcomes":
        counts = {name: Counter(str(row["outcome"]) for row in _of(result, name)) for name in result.variants}
        return outcome_plot(counts)
    if kind in MEASURES:
        values = {name: [row[kind] for row in _of(result, name) if row[kind] is not None] for name in result.variants}
        return spread_plot(values, kind.replace("_", " "), told=kind != "seconds")
    known = ", ".join(("pareto", "outcomes", *MEASURES))
    raise UsageError(f"no plot of kind {kind!r}", layer="comparison", remedy=f"Choose one of {known}.")


def _of(result: Comparison, name: str) -> list[dict[str, Any]]:
    return [row for row in result.rows if row["variant"] == name]


def _pareto(result: Comparison) -> Plot:
    lines = result.leaderboard
    known = (name for name in _ACROSS if all(line[name]["mean"] is not None for line in lines))
    measure = next(known, "steps")
    axis, form = _ACROSS[measure]
    return pareto_plot([_point(line, measure) for line in lines], axis, form)


def _point(line: Line, measure: str) -> Line:
    average, interval, across = line["average"], line["interval"], line[measure]
    score = {"score": average.value, "n": average.n, "total": average.total}
    score |= {"score_low": interval.low if interval else None, "score_high": interval.high if interval else None}
    return {"variant": line["variant"], **score, "x": across["mean"], "x_low": across["low"], "x_high": across["high"]}
