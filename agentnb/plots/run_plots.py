"""The tokens of runs: the numbers first (`token_rows`), then a picture of them (`plot`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from agentnb.core.messages import Usage
from agentnb.core.state import State, Step
from agentnb.errors import UsageError
from agentnb.plots.plot import Plot
from agentnb.text import clean, counted, mask, plain, shorten

KINDS = ("tokens", "cumulative", "counts")
_COLUMNS = ("step", "calls", "fresh", "cached", "visible", "reasoning", "total", "cumulative")
_HEADS = ("step", "calls", "fresh input", "cached input", "output", "reasoning", "total", "cumulative")
_MOST_ROWS = 60


def plot(run: State, *others: State, names: Sequence[str] | None = None, kind: str | None = None) -> Plot:
    """Tokens step by step, cumulative tokens, and the counts of steps and tool calls, of one run or several.

    Args:
        run: A run, finished or not.
        others: More runs, drawn beside it.
        names: What to call them; "run 1", "run 2" by default.
        kind: Only one panel: "tokens", "cumulative" or "counts".

    Raises:
        UsageError: Something is not a run, the names don't match the runs, or there is no such kind.
    """
    runs = (run, *others)
    called = _names(runs, names)
    if kind is not None and kind not in KINDS:
        raise UsageError(f"no plot of kind {kind!r}", layer="plots", remedy=f"Choose one of {', '.join(KINDS)}.")
    series = {name: token_rows(each.steps) for name, each in zip(called, runs, strict=True)}
    told = [_summary(name, each) for name, each in zip(called, runs, strict=True)]
    rows = [{"run": name, **row} for name, its in series.items() for row in its]
    tools = {name: tool_counts(each) for name, each in zip(called, runs, strict=True)}
    text = "\n\n".join(f"{head}\n{_table(its)}" for head, its in zip(told, series.values(), strict=True))
    return Plot(rows, text, partial(_draw, series, tools, kind), "Tokens per step. " + " ".join(f"{t}." for t in told))


def _draw(series: dict[str, list[dict[str, Any]]], tools: dict[str, dict[str, int]], kind: str | None) -> Any:
    from agentnb.plots.run_figure import draw

    return draw(series, tools, kind)


def token_rows(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """One dict per step, oldest first.

    Keys: step, calls (how many), input, fresh (input that did not come from a cache), cached, output, visible (output
    that is not reasoning), reasoning, total, cumulative (the sum of what is known), complete (whether no total so far
    is missing). None is a number that the provider did not say; a step without a model call has zeros.
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
        so_far = {"cumulative": cumulative, "complete": complete}
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


def _table(rows: Sequence[dict[str, Any]]) -> str:
    half = _MOST_ROWS // 2
    left_out = max(0, len(rows) - _MOST_ROWS)
    cells = [_cells(row) for row in (rows if not left_out else [*rows[:half], *rows[-half:]])]
    widths = [max(map(len, column)) for column in zip(_HEADS, *cells, strict=True)]
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in (_HEADS, *cells)]
    if left_out:
        lines.insert(half + 1, f"… {counted(left_out, 'step')} between them, all are in .rows")
    return "\n".join(f"  {line}" for line in lines)


def _cells(row: dict[str, Any]) -> list[str]:
    told = ["n/a" if row[key] is None else f"{row[key]:,}" for key in _COLUMNS]
    if not row["complete"]:
        told[-1] = f"≥ {told[-1]}"
    return told
