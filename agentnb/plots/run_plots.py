"""Tokens, time and cost of runs: the numbers first (`token_rows`), then a picture of them (`plot`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from agentnb.core.messages import Usage
from agentnb.core.state import State, Step
from agentnb.errors import UsageError
from agentnb.plots.plot import Plot
from agentnb.plots.run_rows import cost_rows, time_rows
from agentnb.text import clean, counted, mask, plain, shorten

KINDS = ("tokens", "cumulative", "counts", "time", "cost")
_COLUMNS = ("step", "calls", "fresh", "cached", "visible", "reasoning", "total", "cumulative")
_HEADS = ("step", "calls", "fresh input", "cached input", "output", "reasoning", "total", "cumulative")
_ALT: dict[str | None, str] = {"cumulative": "Cumulative tokens", "counts": "Steps and tool calls"}
_COSTS = ("step", "cost", "cumulative")
_MOST_ROWS = 60


def plot(run: State, *others: State, names: Sequence[str] | None = None, kind: str | None = None) -> Plot:
    """Tokens step by step, cumulative tokens, and the counts of steps and tool calls, of one run or several.

    Args:
        run: A run, finished or not.
        others: More runs, drawn beside it.
        names: What to call them; "run 1", "run 2" by default.
        kind: Only one panel: "tokens", "cumulative", "counts"; or what is in none of them: "time" (seconds per step in
            model, tools and waiting) and "cost" (cumulative, in dollars).

    Raises:
        UsageError: Something is not a run, the names don't match the runs, or there is no such kind.
    """
    runs = (run, *others)
    called = _names(runs, names)
    if kind is not None and kind not in KINDS:
        raise UsageError(f"no plot of kind {kind!r}", layer="plots", remedy=f"Choose one of {', '.join(KINDS)}.")
    if kind in _OTHERS:
        return _OTHERS[kind](dict(zip(called, runs, strict=True)))
    series = {name: token_rows(each.steps) for name, each in zip(called, runs, strict=True)}
    told = [_summary(name, each) for name, each in zip(called, runs, strict=True)]
    tools = {name: tool_counts(each) for name, each in zip(called, runs, strict=True)}
    text = "\n\n".join(
        f"{head}\n{_table(_HEADS, map(_cells, its))}" for head, its in zip(told, series.values(), strict=True)
    )
    alt = f"{_ALT.get(kind, 'Tokens per step')}. " + " ".join(f"{each}." for each in told)
    return Plot(_named(series), text, partial(_draw, series, tools, kind), alt)


def _draw(series: dict[str, list[dict[str, Any]]], tools: dict[str, dict[str, int]], kind: str | None) -> Any:
    from agentnb.plots.run_figure import draw

    return draw(series, tools, kind)


def _draw_times(series: dict[str, list[dict[str, Any]]]) -> Any:
    from agentnb.plots.run_figure import draw_times

    return draw_times(series)


def _draw_costs(series: dict[str, list[dict[str, Any]]]) -> Any:
    from agentnb.plots.run_figure import draw_costs

    return draw_costs(series)


def _time_plot(runs: dict[str, State]) -> Plot:
    """Seconds differ whenever something runs, so they are in the picture and the rows, and not in the text."""
    series = {name: time_rows(run.steps) for name, run in runs.items()}
    text = "\n".join(_summary(name, run) for name, run in runs.items()) + "\nThe seconds of each step are in .rows."
    alt = "Seconds per step. " + " ".join(f"{name}: {_sums(its)}." for name, its in series.items())
    return Plot(_named(series), text, partial(_draw_times, series), alt)


def _sums(rows: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{part} {sum(row[part] for row in rows):.1f} s" for part in ("model", "tools", "waiting"))


def _cost_plot(runs: dict[str, State]) -> Plot:
    series = {name: cost_rows(run.steps) for name, run in runs.items()}
    told = [f"{_summary(name, run)}\n{_table(_COSTS, map(_costs, series[name]))}" for name, run in runs.items()]
    ends = [f"{name}: {_costs(its[-1])[2]}." for name, its in series.items() if its]
    return Plot(_named(series), "\n\n".join(told), partial(_draw_costs, series), "Cumulative cost. " + " ".join(ends))


def _costs(row: dict[str, Any]) -> list[str]:
    total, summed = ("n/a" if row[key] is None else f"${row[key]:.4f}" for key in ("total", "cumulative"))
    return [str(row["step"]), total, _bound(row, summed)]


def _bound(row: dict[str, Any], told: str) -> str:
    """The words for a sum, marked where something is missing in it."""
    return told if row["complete"] or row["cumulative"] is None else f"≥ {told}"


def _named(series: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"run": name, **row} for name, its in series.items() for row in its]


def token_rows(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """One dict per step, oldest first.

    Keys: step, calls (how many), input, fresh (input that did not come from a cache), cached, output, visible (output
    that is not reasoning), reasoning, total, cumulative (the sum of what is known, None while nothing is), complete
    (whether no total so far is missing). None is a number that the provider did not say; a step without a model call
    has zeros.
    """
    rows: list[dict[str, Any]] = []
    cumulative, complete = 0, True
    for step in steps:
        usage = _usage(step)
        cumulative += usage.total or 0
        complete = complete and None not in (usage.input, usage.output)
        numbers = {
            "input": usage.input,
            "fresh": _without(usage.input, usage.cached_input),
            "cached": usage.cached_input,
            "output": usage.output,
            "visible": _without(usage.output, usage.reasoning),
            "reasoning": usage.reasoning,
            "total": usage.total,
        }
        so_far = {"cumulative": cumulative if complete or cumulative else None, "complete": complete}
        rows.append({"step": step.number, "calls": len(step.calls), **numbers, **so_far})
    return rows


def _usage(step: Step) -> Usage:
    if step.reply is None:
        return Usage(0, 0, 0, 0, 0)
    return step.usage or Usage()


def _without(whole: int | None, part: int | None) -> int | None:
    return None if whole is None else max(0, whole - (part or 0))


def tool_counts(run: State) -> dict[str, int]:
    """Tool name to how often it was called, the most used first."""
    return dict(Counter(call.name for step in run.steps for call in step.calls).most_common())


def _names(runs: Sequence[State], names: Sequence[str] | None) -> list[str]:
    for run in runs:
        if not isinstance(run, State):
            raise UsageError(
                f"can't plot {type(run).__name__} {shorten(repr(run))}, expected a run",
                layer="plots",
                remedy="Give it what agent.run(...) returned.",
            )
    if names is None:
        return ["run"] if len(runs) == 1 else [f"run {number}" for number in range(1, len(runs) + 1)]
    if len(names) != len(runs) or len(set(names)) != len(names):
        raise UsageError(
            f"names={list(names)!r} for {len(runs)} runs", layer="plots", remedy="Give each run one name of its own."
        )
    return [shorten(mask(plain(clean(name))), 30) for name in names]


def _summary(name: str, run: State) -> str:
    total, used = run.usage.total, run.counters
    known = "" if run.usage.complete else "at least "
    tokens = "tokens n/a" if total is None else f"{known}{counted(total, 'token')}"
    counts = f"{counted(used.steps, 'step')}, {counted(used.tool_calls, 'tool call')}"
    return f"{name}: {counts}, {tokens}, {run.stop or 'not finished'}"


def _table(heads: Sequence[str], all_cells: Iterable[Sequence[str]]) -> str:
    """One line per step under its heads, of very many the first and the last."""
    half, cells = _MOST_ROWS // 2, list(all_cells)
    if left_out := max(0, len(cells) - _MOST_ROWS):
        cells = [*cells[:half], *cells[-half:]]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in (heads, *cells)]
    if left_out:
        lines.insert(half + 1, f"… {counted(left_out, 'step')} between them, all are in .rows")
    return "\n".join(f"  {line}" for line in lines)


def _cells(row: dict[str, Any]) -> list[str]:
    told = ["n/a" if row[key] is None else f"{row[key]:,}" for key in _COLUMNS]
    return [*told[:-1], _bound(row, told[-1])]


_OTHERS: dict[str | None, Callable[[dict[str, State]], Plot]] = {"time": _time_plot, "cost": _cost_plot}
