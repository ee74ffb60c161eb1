"""Pictures of a comparison: score against cost, the spread of a measure, outcomes. Rows in, a Plot out.

pareto_plot([{"variant": "a", "score": .8, "score_low": .6, "score_high": .9, "x": 1200, ...}], "tokens a run")
spread_plot({"a": [3, 4, 4], "b": [2, 2, 5]}, "steps")
outcome_plot({"a": {"right": 5, "error": 1}})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from agentnb.plots.fonts import readable
from agentnb.plots.plot import GREY, Plot
from agentnb.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5649a", "#808080", "#8f7a00")
_MARKS = "os^DvP"
_OUTCOMES = {
    "right": "#009e73",
    "partial": "#8fbf6f",
    "answered": "#0072b2",
    "wrong": "#d55e00",
    "limit": "#8f7a00",
    "timeout": "#b5649a",
    "refused": "#7f5f9f",
    "empty": "#bbbbbb",
    "error": "#555555",
    "score error": "#777777",
}
_HATCHES = {"error": "////", "score error": "\\\\\\\\", "timeout": "....", "refused": "xxxx"}


def pareto_plot(points: Sequence[Mapping[str, Any]], axis: str, form: str = "{:,.0f}") -> Plot:
    """Score against what a run takes, with intervals on both axes; who is beaten on both by nobody stands on the line.

    Args:
        points: One per variant: variant, score, score_low, score_high, x, x_low, x_high, n, total. None is unknown.
        axis: What x is, in words.
        form: How x is written.
    """
    kept = [dict(each) for each in points if each["score"] is not None and each["x"] is not None]
    for each in kept:
        each["on_front"] = not any(_beats(other, each) for other in kept)
    head = ("variant", "score", "95 % interval", axis, "95 % interval", "runs", "on the front")
    cells = [_pareto_cells(each, form) for each in kept]
    left = [str(each["variant"]) for each in points if each["score"] is None or each["x"] is None]
    note = f"\nNot shown, since score or {axis} is unknown: {', '.join(left)}" if left else ""
    front = ", ".join(str(each["variant"]) for each in kept if each["on_front"]) or "nobody"
    alt = f"Score against {axis}. Not beaten on both by another: {front}."
    return Plot(kept, table([head, *cells]) + note, lambda: _draw_pareto(kept, axis), alt)


def _beats(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    better = one["score"] >= other["score"] and one["x"] <= other["x"]
    return better and (one["score"], one["x"]) != (other["score"], other["x"])


def _pareto_cells(each: Mapping[str, Any], form: str) -> tuple[str, ...]:
    score = _span(each["score_low"], each["score_high"], "{:.2f}")
    across = _span(each["x_low"], each["x_high"], form)
    runs = f"{each['n']} of {each['total']}"
    on_front = "yes" if each["on_front"] else "no"
    return (str(each["variant"]), f"{each['score']:.2f}", score, form.format(each["x"]), across, runs, on_front)


def _span(low: float | None, high: float | None, form: str) -> str:
    return "n/a" if low is None or high is None else f"{form.format(low)} to {form.format(high)}"


def spread_plot(values: Mapping[str, Sequence[float]], name: str, *, told: bool = True) -> Plot:
    """How a measure is spread over the runs of each variant: every run a dot, the quartiles as a box.

    Args:
        values: Variant to one number per run that has it.
        name: What it is, such as "tokens".
        told: Whether the text tells the numbers; times are another each time.
    """
    rows: list[Row] = [{"variant": variant, "n": len(its), **_quartiles(its)} for variant, its in values.items()]
    keys = ("least", "quarter", "median", "three_quarters", "most") if told else ()
    head = ("variant", "runs", *(key.replace("_", " ") for key in keys))
    cells = [(row["variant"], str(row["n"]), *(_number(row[key]) for key in keys)) for row in rows]
    alt = f"{name.capitalize()} of each run, by variant." + (" " + _medians(rows) if told else "")
    return Plot(rows, f"{name} a run\n{table([head, *cells])}", lambda: _draw_spread(values, rows, name), alt)


def _medians(rows: Sequence[Row]) -> str:
    return "Medians: " + ", ".join(f"{row['variant']} {_number(row['median'])}" for row in rows) + "."


def _quartiles(values: Sequence[float]) -> Row:
    if not values:
        return dict.fromkeys(("least", "quarter", "median", "three_quarters", "most"))
    low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {"least": min(values), "quarter": low, "median": middle, "three_quarters": high, "most": max(values)}


def outcome_plot(counts: Mapping[str, Mapping[str, int]]) -> Plot:
    """How the runs of each variant ended, as a bar of counts.

    Args:
        counts: Variant to outcome to how many runs.
    """
    known = [name for name in _OUTCOMES if any(name in each for each in counts.values())]
    names = known + sorted({name for each in counts.values() for name in each} - set(known))
    rows = [{"variant": variant, **{name: each.get(name, 0) for name in names}} for variant, each in counts.items()]
    cells = [(str(row["variant"]), *(str(row[name]) for name in names)) for row in rows]
    alt = "Outcomes by variant. " + "; ".join(
        f"{v}: {', '.join(f'{n} {o}' for o, n in c.items())}" for v, c in counts.items()
    )
    return Plot(rows, table([("variant", *names), *cells]), lambda: _draw_outcomes(rows, names), alt + ".")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Cells in columns; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(f"  {line}" for line in lines)


def _number(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.3g}"


# ── to draw ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _draw_pareto(points: Sequence[Row], axis: str) -> Figure:
    figure, axes = _figure(3.4)
    for number, each in enumerate(points):
        colour, mark = _COLOURS[number % len(_COLOURS)], _MARKS[number % len(_MARKS)]
        across = _arm(each["x"], each["x_low"], each["x_high"])
        along = _arm(each["score"], each["score_low"], each["score_high"])
        look: dict[str, Any] = {"color": colour, "marker": mark, "markersize": 7, "capsize": 3, "linewidth": 1}
        axes.errorbar([each["x"]], [each["score"]], yerr=along, xerr=across, **look)
        label = readable(shorten(str(each["variant"]), 30))
        axes.annotate(label, (each["x"], each["score"]), xytext=(7, 7), textcoords="offset points", fontsize=8.5)
    front = sorted((each["x"], each["score"]) for each in points if each["on_front"])
    if len(front) > 1:
        axes.step(*zip(*front, strict=True), where="post", color=GREY, linewidth=1, linestyle=":", zorder=0)
    axes.set_title("Score against what a run takes; up and left is better")
    axes.set_xlabel(axis)
    axes.set_ylabel("score")
    axes.set_ylim(-0.03, 1.08)
    axes.set_xlim(left=0)
    axes.margins(x=0.15)
    axes.grid(visible=True)
    return figure


def _arm(value: float, low: float | None, high: float | None) -> Any:
    return None if low is None or high is None else [[max(0.0, value - low)], [max(0.0, high - value)]]


def _draw_spread(values: Mapping[str, Sequence[float]], rows: Sequence[Row], name: str) -> Figure:
    figure, axes = _figure(1.2 + 0.45 * max(2, len(rows)))
    for place, row in enumerate(rows):
        colour, its = _COLOURS[place % len(_COLOURS)], values[row["variant"]]
        shift = [place + 0.22 * ((number * 0.618) % 1 - 0.5) for number in range(len(its))]
        axes.plot(its, shift, ".", color=colour, alpha=0.5, markersize=5)
        if its:
            wide = row["three_quarters"] - row["quarter"]
            axes.barh(place, wide, 0.5, left=row["quarter"], fill=False, edgecolor=colour, linewidth=1.2)
            axes.plot([row["median"]] * 2, [place - 0.25, place + 0.25], color=colour, linewidth=2)
    _names(axes, [row["variant"] for row in rows])
    axes.set_title(f"{name.capitalize()} of each run, quartiles and median")
    axes.set_xlim(left=0)
    axes.xaxis.grid(visible=True)
    return figure


def _draw_outcomes(rows: Sequence[Row], names: Sequence[str]) -> Figure:
    figure, axes = _figure(1.4 + 0.4 * max(2, len(rows)))
    left = [0] * len(rows)
    for name in names:
        counts = [row[name] for row in rows]
        look: dict[str, Any] = {"color": _OUTCOMES.get(name, GREY), "hatch": _HATCHES.get(name), "label": name}
        bars = axes.barh(range(len(rows)), counts, 0.6, left=left, edgecolor="white", linewidth=0.5, **look)
        told = [str(count) if count else "" for count in counts]
        axes.bar_label(bars, told, label_type="center", fontsize=8.5, color="white")
        left = [before + count for before, count in zip(left, counts, strict=True)]
    _names(axes, [row["variant"] for row in rows])
    axes.set_title("How the runs ended")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.2, handleheight=1)
    return figure


def _figure(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, height), layout="constrained")
    return figure, figure.subplots()


def _names(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [readable(shorten(str(name), 30)) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
