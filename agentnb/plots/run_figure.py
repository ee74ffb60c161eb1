"""Draws what `run_plots` has counted. Colours are mid-tones that differ for colour-blind eyes, on light and on dark."""

from __future__ import annotations

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
_MOST_TOOLS = 8


def draw(series: Series, tools: dict[str, dict[str, int]], kind: str | None) -> Figure:
    """The figure of one run (three panels in a row) or of several (tokens above, sums and counts below)."""
    from matplotlib.figure import Figure

    if kind is not None:
        return _single(series, tools, kind)
    if len(series) == 1:
        figure = Figure(figsize=(9, 2.9), layout="constrained")
        tokens, sums, counts = figure.subplots(1, 3, width_ratios=[4, 3, 2.4])
        rows = next(iter(series.values()))
        _tokens(tokens, rows, "Tokens per step", _top(series))
    else:
        figure = Figure(figsize=(9, 5.4), layout="constrained")
        halves: Any = figure.subfigures(2, 1)
        upper, lower = halves
        _beside(upper, series)
        sums, counts = lower.subplots(1, 2, width_ratios=[3, 2.4])
    _cumulative(sums, series)
    _counts(counts, series, tools)
    return figure


def _single(series: Series, tools: dict[str, dict[str, int]], kind: str) -> Figure:
    figure = _wide(series)
    if kind == "tokens":
        _beside(figure, series)
    elif kind == "cumulative":
        _cumulative(figure.subplots(), series)
    else:
        _counts(figure.subplots(), series, tools)
    return figure


def draw_times(series: Series) -> Figure:
    """Seconds per step, by where they went, of each run."""
    figure = _wide(series)
    if len(series) > _SIDE_BY_SIDE:
        axes = figure.subplots()
        _lines(axes, series, "total")
        _framed(axes, "Seconds per step", "step", whole=False)
        return figure
    panels: Any = figure.subplots(1, len(series), sharey=True, squeeze=False)
    top = max([row["total"] for rows in series.values() for row in rows] + [0.001])
    for number, (axes, (name, rows)) in enumerate(zip(panels[0], series.items(), strict=True)):
        _stack(axes, rows, _TIMES)
        _framed(axes, "Seconds per step" if len(series) == 1 else f"Seconds per step, {name}", "step", whole=False)
        axes.set_ylim(0, top * 1.28)
        _legend(axes, columns=3, wanted=not number)
    return figure


def draw_costs(series: Series) -> Figure:
    """Cumulative cost, a line for each run."""
    figure = _wide(series)
    axes = figure.subplots()
    _lines(axes, series, "cumulative")
    missing = any(rows and not rows[-1]["complete"] for rows in series.values())
    _framed(axes, "Cumulative cost, $" + (" (known ones)" if missing else ""), "step", whole=False)
    axes.set_ylim(bottom=0)
    return figure


def _wide(series: Series) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(9 if len(series) > 1 else 6, 2.9), layout="constrained")


def _beside(figure: Any, series: Series) -> None:
    """Stacked bars of each run beside each other, or one line a run when they are many."""
    if len(series) > _SIDE_BY_SIDE:
        axes = figure.subplots()
        _lines(axes, series, "total")
        _framed(axes, "Tokens per step", "step")
        return
    panels = figure.subplots(1, len(series), sharey=True, squeeze=False)[0]
    top = _top(series)
    for number, (axes, (name, rows)) in enumerate(zip(panels, series.items(), strict=True)):
        title = "Tokens per step" if len(series) == 1 else f"Tokens per step, {name}"
        _tokens(axes, rows, title, top, legend=not number)


def _tokens(axes: Axes, rows: Rows, title: str, top: int, legend: bool = True) -> None:
    """The kinds of tokens on top of each other, up to `top`."""
    _gaps(axes, rows, _stack(axes, rows, _PARTS), top)
    _framed(axes, title, "step")
    axes.set_ylim(0, top * 1.28)
    _legend(axes, columns=2, wanted=legend)


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


def _top(series: Series) -> int:
    return max([row["total"] or 0 for rows in series.values() for row in rows] + [1])


def _layer(axes: Axes, steps: Sequence[int], below: Sequence[float], above: Sequence[float], **look: Any) -> None:
    """A bar for each step; of a long run one area, which is much quicker to draw."""
    if len(steps) > _MOST_BARS:
        axes.fill_between(steps, below, above, step="mid", linewidth=0, **look)
    else:
        heights = [high - low for low, high in zip(below, above, strict=True)]
        axes.bar(steps, heights, _BAR_WIDTH, bottom=below, **look)


def _gaps(axes: Axes, rows: Rows, known: Sequence[float], top: int) -> None:
    """A hatched space where the provider said nothing, with the word for it."""
    gaps = [(row["step"], low) for row, low in zip(rows, known, strict=True) if None in (row["input"], row["output"])]
    if not gaps:
        return
    steps, lows = zip(*gaps, strict=True)
    height = top * 0.16
    look: dict[str, Any] = {"fill": False, "edgecolor": GREY, "hatch": "////", "linewidth": 0, "label": "not told"}
    axes.bar(steps, [height] * len(gaps), _BAR_WIDTH, bottom=lows, **look)
    for step, low in gaps if len(rows) <= _MOST_BARS else ():
        axes.text(step, low + height, "n/a", ha="center", va="bottom", fontsize=8)


def _cumulative(axes: Axes, series: Series) -> None:
    _lines(axes, series, "cumulative")
    missing = any(rows and not rows[-1]["complete"] for rows in series.values())
    _framed(axes, "Cumulative tokens" + (" (known ones)" if missing else ""), "step")
    axes.set_ylim(bottom=0)


def _lines(axes: Axes, series: Series, key: str) -> None:
    """One line a run; it is broken where a step's tokens are unknown, and a sum goes on in dots."""
    for number, (name, rows) in enumerate(series.items()):
        values = [float("nan") if row["total"] is None else row[key] for row in rows]
        mark = _MARKS[number % len(_MARKS)] if len(rows) <= _MOST_BARS else ""
        colour = _LINES[number % len(_LINES)]
        if key == "cumulative" and not all(row["complete"] for row in rows):
            axes.plot([row["step"] for row in rows], [row[key] for row in rows], ":", color=colour, linewidth=1)
        dash = "-" if number < len(_LINES) else "--"
        axes.plot(
            [row["step"] for row in rows], values, dash, color=colour, marker=mark, markersize=4.5, label=readable(name)
        )
    if len(series) > 1:
        axes.legend(loc="upper left", ncols=1 + len(series) // 7)


def _counts(axes: Axes, series: Series, tools: dict[str, dict[str, int]]) -> None:
    if len(series) == 1:
        _tool_bars(axes, next(iter(tools.values())))
        return
    places = range(len(series))
    steps = [len(rows) for rows in series.values()]
    calls = [sum(row["calls"] for row in rows) for rows in series.values()]
    _bars_across(axes, [place - 0.2 for place in places], steps, 0.36, _LINES[0], "steps")
    _bars_across(axes, [place + 0.2 for place in places], calls, 0.36, _LINES[1], "tool calls")
    _named_places(axes, list(series))
    _framed(axes, "Steps and tool calls", "")
    axes.set_xlim(0, max([*steps, *calls, 1]) * 1.5)
    axes.legend(loc="lower right", handlelength=1, handleheight=1)


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
    labels = [readable(name if len(name) <= 18 else name[:17] + "…") for name in names]
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
