"""Draws what `run_plots` has counted. Colours are mid-tones that differ for colour-blind eyes, on light and on dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentnb.plots.fonts import readable
from agentnb.plots.plot import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = list[dict[str, Any]]
Series = dict[str, Rows]

_PARTS = (
    ("cached", "cached input", "#999999"),
    ("fresh", "fresh input", "#0072b2"),
    ("visible", "output", "#d55e00"),
    ("reasoning", "reasoning", "#009e73"),
)
_TIMES = (
    ("model", "model", "#0072b2"),
    ("tools", "tools", "#d55e00"),
    ("waiting", "waiting", "#999999"),
)
_LINES = ("#0072b2", "#d55e00", "#009e73", "#b5649a", "#808080", "#8f7a00")
_MARKS = "os^DvP"
_SIDE_BY_SIDE = 4
_MOST_BARS = 60
_BAR_WIDTH = 0.72
_MOST_WORDS = 20
_MOST_TOOLS = 8
_SOMEWHERE = (0.1, 0.1, 0.8, 0.8)
"""A panel's place until the layout has found its own."""


def draw(series: Series, tools: dict[str, dict[str, int]], kind: str | None) -> Figure:
    """The figure of one run (three panels in a row) or of several (tokens above, sums and counts below)."""
    from agentnb.plots.layout import laid_out

    figure = _figure(series, kind)
    if kind == "tokens":
        return laid_out(figure, _beside(figure, series))
    if kind == "cumulative":
        return laid_out(figure, [(_cumulative(figure, series), 1)])
    if kind == "counts":
        return laid_out(figure, [(_counts(figure, series, tools), 1)])
    upper = [(axes, share * 4) for axes, share in _beside(figure, series)]
    lower = [(_cumulative(figure, series), 3.0), (_counts(figure, series, tools), 2.4)]
    return laid_out(figure, *([upper + lower] if len(series) == 1 else [upper, lower]))


def draw_times(series: Series) -> Figure:
    """Seconds per step, by where they went, of each run."""
    from agentnb.plots.layout import laid_out

    figure = _figure(series, "time")
    if len(series) > _SIDE_BY_SIDE:
        axes = figure.add_axes(_SOMEWHERE)
        _lines(axes, series, "total")
        _framed(axes, "Seconds per step", "step", whole=False)
        return laid_out(figure, [(axes, 1)])
    panels = _panels(figure, len(series))
    top = max([row["total"] for rows in series.values() for row in rows] + [0.001])
    for number, (axes, (name, rows)) in enumerate(zip(panels, series.items(), strict=True)):
        _stack(axes, rows, _TIMES)
        _framed(axes, _headed("Seconds per step", name, len(series)), "step", whole=False)
        axes.set_ylim(0, top * 1.28)
        _legend(axes, columns=3, wanted=not number)
    return laid_out(figure, [(axes, 1) for axes in panels])


def draw_costs(series: Series) -> Figure:
    """Cumulative cost, a line for each run."""
    from agentnb.plots.layout import laid_out

    figure = _figure(series, "cost")
    axes = figure.add_axes(_SOMEWHERE)
    _lines(axes, series, "cumulative")
    _framed(axes, f"Cumulative cost, ${_known_ones(series)}", "step", whole=False)
    axes.set_ylim(bottom=0)
    _nothing_known(axes, series, "cost n/a")
    return laid_out(figure, [(axes, 1)])


def _figure(series: Series, kind: str | None) -> Figure:
    from matplotlib.figure import Figure

    return Figure(
        figsize=(9 if len(series) > 1 or kind is None else 6, 5.4 if len(series) > 1 and kind is None else 2.9)
    )


def _panels(figure: Figure, number: int) -> list[Axes]:
    """Side by side on one scale, which the first of them tells."""
    first = figure.add_axes(_SOMEWHERE)
    others = [figure.add_axes(_SOMEWHERE, sharey=first) for _ in range(number - 1)]
    for axes in others:
        axes.tick_params(labelleft=False)
    return [first, *others]


def _beside(figure: Figure, series: Series) -> list[tuple[Axes, float]]:
    """Stacked bars of each run beside each other, or one line a run when they are many."""
    if len(series) > _SIDE_BY_SIDE:
        axes = figure.add_axes(_SOMEWHERE)
        _lines(axes, series, "total")
        _framed(axes, "Tokens per step", "step")
        _nothing_known(axes, series, "tokens n/a")
        return [(axes, 1)]
    panels, top = _panels(figure, len(series)), _top(series)
    for number, (axes, (name, rows)) in enumerate(zip(panels, series.items(), strict=True)):
        _tokens(axes, rows, _headed("Tokens per step", name, len(series)), top, legend=not number)
        axes.locator_params(axis="x", nbins=7 if len(series) < 3 else 4)
    return [(axes, 1) for axes in panels]


def _headed(title: str, name: str, panels: int) -> str:
    """The title of one of the panels beside each other, no longer than its panel."""
    return title if panels == 1 else f"{title}, {_cut(name, 100 // panels - len(title))}"


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _tokens(axes: Axes, rows: Rows, title: str, top: int | None, legend: bool = True) -> None:
    """The kinds of tokens on top of each other, up to `top`."""
    highest = top or 1
    _gaps(axes, rows, _stack(axes, rows, _PARTS), highest)
    _framed(axes, title, "step")
    axes.set_ylim(0, highest * 1.28)
    _legend(axes, columns=2, wanted=legend)
    _nothing_known(axes, {"": rows}, "tokens n/a", scale=top is not None)


def _stack(axes: Axes, rows: Rows, parts: Sequence[tuple[str, str, str]]) -> list[float]:
    """Parts on top of each other; returns how high each step has become."""
    below: list[float] = [0] * len(rows)
    for key, label, colour in parts:
        heights = [row[key] or 0 for row in rows]
        above = [low + height for low, height in zip(below, heights, strict=True)]
        if any(heights):
            _layer(axes, [row["step"] for row in rows], below, above, color=colour, label=label)
        below = above
    return below


def _legend(axes: Axes, columns: int, wanted: bool) -> None:
    if wanted and axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", ncols=columns, handlelength=1, handleheight=1, columnspacing=1, borderaxespad=0.1)


def _top(series: Series) -> int | None:
    """The most tokens of a step; None where no step of any run has known ones."""
    return max([row["total"] for rows in series.values() for row in rows if row["total"] is not None], default=None)


def _layer(axes: Axes, steps: Sequence[int], below: Sequence[float], above: Sequence[float], **look: Any) -> None:
    """A bar for each step; of a long run one area, which is much quicker to draw."""
    if len(steps) > _MOST_BARS:
        axes.fill_between(steps, below, above, step="mid", linewidth=0, **look)
    else:
        heights = [high - low for low, high in zip(below, above, strict=True)]
        axes.bar(steps, heights, _BAR_WIDTH, bottom=below, **look)


def _gaps(axes: Axes, rows: Rows, known: Sequence[float], top: int) -> None:
    """A hatched space where the provider said nothing, with the word for it: one patch, as each hatch takes time."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    gaps = [(row["step"], low) for row, low in zip(rows, known, strict=True) if None in (row["input"], row["output"])]
    if not gaps:
        return
    half, height = (_BAR_WIDTH if len(rows) <= _MOST_BARS else 1) / 2, top * 0.16
    corners = [
        [(step - half, low), (step + half, low), (step + half, low + height), (step - half, low + height), (step, low)]
        for step, low in gaps
    ]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(gaps)
    shape = Path([corner for each in corners for corner in each], codes)
    axes.add_artist(PathPatch(shape, fill=False, edgecolor=GREY, hatch="////", linewidth=0, label="not told"))
    axes.update_datalim([(rows[0]["step"] - half, 0), (rows[-1]["step"] + half, 0)])
    for first, last, low in _stretches(gaps) if _any_known(rows, "total") else ():
        if last - first + 1 < len(rows) / _MOST_WORDS:
            continue  # too narrow for a word
        axes.text((first + last) / 2, low + height, "n/a", ha="center", va="bottom", fontsize=8)


def _stretches(gaps: Sequence[tuple[int, float]]) -> list[tuple[int, int, float]]:
    """Neighbouring steps as one: first step, last step, the highest start."""
    found: list[tuple[int, int, float]] = []
    for step, low in gaps:
        if found and found[-1][1] == step - 1:
            first, _, before = found.pop()
            found.append((first, step, max(low, before)))
        else:
            found.append((step, step, low))
    return found


def _any_known(rows: Rows, key: str) -> bool:
    return any(row[key] is not None for row in rows)


def _known_ones(series: Series) -> str:
    """What a title says when a sum that is shown lacks something."""
    shown = any(_any_known(rows, "cumulative") and not rows[-1]["complete"] for rows in series.values())
    return " (known ones)" if shown else ""


def _nothing_known(axes: Axes, series: Series, word: str, scale: bool = False) -> None:
    """Steps of which no number is known: a word, and no scale unless another run has its numbers on it."""
    rows = [row for its in series.values() for row in its]
    if _any_known(rows, "cumulative"):
        return
    axes.text(0.5, 0.5, word if rows else "no steps", ha="center", va="center", fontsize=11, transform=axes.transAxes)
    axes.update_datalim([(row["step"], 0) for row in rows] or [(0, 0), (1, 0)])
    axes.autoscale_view(scaley=False)
    if not scale:
        axes.tick_params(axis="y", labelleft=False, length=0)
        axes.yaxis.grid(visible=False)


def _cumulative(figure: Figure, series: Series) -> Axes:
    axes = figure.add_axes(_SOMEWHERE)
    _lines(axes, series, "cumulative")
    _framed(axes, f"Cumulative tokens{_known_ones(series)}", "step")
    axes.set_ylim(bottom=0)
    _nothing_known(axes, series, "tokens n/a")
    return axes


def _lines(axes: Axes, series: Series, key: str) -> None:
    """One line a run; it is broken where a step's number is unknown, and a sum goes on in dots."""
    for number, (name, rows) in enumerate(series.items()):
        steps = [row["step"] for row in rows]
        values = [math.nan if None in (row["total"], row[key]) else row[key] for row in rows]
        look: dict[str, Any] = {"color": _LINES[number % len(_LINES)], "label": readable(name)}
        if rows and not _any_known(rows, key):
            look["label"] += ": n/a"
        elif key == "cumulative" and rows and not rows[-1]["complete"]:
            sums = [math.nan if row[key] is None else row[key] for row in rows]
            axes.plot(steps, sums, ":", color=look["color"], linewidth=1)
        if len(rows) <= _MOST_BARS:
            look |= {"marker": _MARKS[number % len(_MARKS)], "markersize": 4.5}
        else:
            look |= {"marker": ".", "markersize": 3, "markeredgewidth": 0, "markevery": _alone(values)}
        axes.plot(steps, values, "-" if number < len(_LINES) else "--", **look)
    if len(series) > 1 and any(_any_known(rows, key) for rows in series.values()):
        axes.legend(loc="upper left", ncols=1 + len(series) // 7)


def _alone(values: Sequence[float]) -> list[int]:
    """Where a number stands between two gaps, so that no line shows it."""
    known = [False, *(not math.isnan(value) for value in values), False]
    return [
        place
        for place, three in enumerate(zip(known, known[1:], known[2:], strict=False))
        if three == (False, True, False)
    ]


def _counts(figure: Figure, series: Series, tools: dict[str, dict[str, int]]) -> Axes:
    axes = figure.add_axes(_SOMEWHERE)
    if len(series) == 1:
        _tool_bars(axes, next(iter(tools.values())))
        return axes
    places = range(len(series))
    steps = [len(rows) for rows in series.values()]
    calls = [sum(row["calls"] for row in rows) for rows in series.values()]
    _bars_across(axes, [place - 0.2 for place in places], steps, 0.36, _LINES[0], "steps")
    _bars_across(axes, [place + 0.2 for place in places], calls, 0.36, _LINES[1], "tool calls")
    _named_places(axes, list(series))
    _framed(axes, "Steps and tool calls", "")
    axes.set_xlim(0, max([*steps, *calls, 1]) * 1.75)
    axes.legend(loc="lower right", handlelength=1, handleheight=1)
    return axes


def _tool_bars(axes: Axes, counts: dict[str, int]) -> None:
    names, numbers = list(counts)[:_MOST_TOOLS], list(counts.values())[:_MOST_TOOLS]
    if len(counts) > _MOST_TOOLS:
        names.append("others")
        numbers.append(sum(counts.values()) - sum(numbers))
    _bars_across(axes, list(range(len(names))), numbers, 0.6, _LINES[0], "calls")
    _named_places(axes, names or ["none"])
    _framed(axes, "Tool calls", "")
    axes.set_xlim(0, max([*numbers, 1]) * 1.25)


def _bars_across(
    axes: Axes, places: Sequence[float], values: Sequence[int], height: float, colour: str, label: str
) -> None:
    bars = axes.barh(places, values, height, color=colour, label=label)
    axes.bar_label(bars, [f"{value:,}" for value in values], padding=3, fontsize=8.5, color=GREY)


def _named_places(axes: Axes, names: Sequence[str]) -> None:
    labels = [readable(_cut(name, 18)) for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.set_ylim(max(3, len(names)) - 0.4, -0.6)


def _framed(axes: Axes, title: str, below: str, whole: bool = True) -> None:
    """Numbers, those of things whole, on quiet axes; a grid where steps run along, none where bars are labelled."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_title(readable(title))
    if not below:
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        return
    axes.set_xlabel(below)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(integer=whole, nbins=5))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}" if whole else "{x:,.4g}"))
    axes.yaxis.grid(visible=True)
    axes.tick_params(length=3)
