"""A comparison in words: leaderboard, conclusion, pairs, and the tasks on which the variants disagree.

The text is the same each time for the same results: it holds no times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agentnb.comparison.board import Line, failures
from agentnb.comparison.scores import Rate
from agentnb.comparison.verdict import Pair, Verdict
from agentnb.text import clean, mask, plain, shorten

if TYPE_CHECKING:
    from agentnb.comparison.result import Comparison

MOST_TASKS = 20
MOST_PAIRS = 15
MOST_COLUMNS = 8
_MOST_FAILURES = 5
Table = list[list[str]]
"""Rows of cells; the first is the head."""


def text(result: Comparison) -> str:
    """For a terminal."""
    return _joined(result, lambda rows: aligned(rows), lambda words: words)


def markdown(result: Comparison) -> str:
    """As Markdown, in which nothing of models and tasks is taken for markup."""
    return _joined(result, _markdown_table, lambda words: f"**{words}**")


def sections(result: Comparison) -> list[tuple[str, str | Table]]:
    """Title to text or table, in the order in which they are shown."""
    found: list[tuple[str, str | Table]] = [("", headline(result))]
    found.append(("", board_table(result)))
    if result.scored and len(result.variants) > 1:
        found.append(("", result.verdict.conclusion))
    found += [("", note) for note in (*result.notes, *_retried(result))]
    if wrong := failures(result.rows)[:_MOST_FAILURES]:
        found.append(
            ("What failed", [["variant", "what", "runs"], *([a, one_line(b, 120), str(n)] for a, b, n in wrong)])
        )
    if len(result.variants) > 2 and result.scored:
        if len(result.variants) <= MOST_COLUMNS:
            found.append(("Every two, row against column", matrix_table(result.verdict, result.binary)))
        found.append(("Every two, with intervals", pair_table(result.verdict.pairs[:MOST_PAIRS], result.binary)))
    found.append(("Tasks" if len(result.variants) == 1 else "Tasks, disagreements first", grid_table(result)))
    return found


def _retried(result: Comparison) -> list[str]:
    number = sum((each["attempt"] or 1) > 1 for each in result.rows)
    told = "1 run is" if number == 1 else f"{number:,} runs are"
    return [f"{told} of a second or later attempt."] if number else []


def headline(result: Comparison) -> str:
    """What was compared, in one line."""
    plan = result.plan
    repeats = f" × {plan.repeats} repeats" if plan.repeats > 1 else ""
    variants = f", {len(plan.variants)} variants" if len(plan.variants) > 1 else ""
    return f"{len(plan.tasks):,} task{'s' * (len(plan.tasks) != 1)}{repeats}{variants}, scorer {plan.scorer.name!r}"


def board_table(result: Comparison) -> Table:
    """The leaderboard."""
    several = len(result.variants) > 1 and result.scored
    head = [
        "variant",
        *(["rank"] if several else []),
        "result",
        "95 % interval",
        "tokens a run",
        "dollars a run",
        "steps",
    ]
    return [head, *(_board_line(line, several) for line in result.leaderboard)]


def _board_line(line: Line, several: bool) -> list[str]:
    average, interval = line["average"], line["interval"]
    rank = str(line["best"]) if line["best"] == line["worst"] else f"{line['best']}-{line['worst']}"
    show = _percent if isinstance(average, Rate) else _number
    span = f"{show(interval.low)} to {show(interval.high)}" if interval else "n/a"
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(average.counts.items()))
    result = str(average) if average.n else f"{outcomes} of {average.total} runs"
    measures = [
        _measured(line["tokens"], "{:,.0f}"),
        _measured(line["cost"], "{:.4f}"),
        _measured(line["steps"], "{:.1f}"),
    ]
    return [line["variant"], *([rank] if several else []), result, span, *measures]


def _measured(measure: Line, form: str) -> str:
    if measure["mean"] is None:
        return "n/a"
    of = "" if measure["n"] == measure["total"] else f" ({measure['n']} of {measure['total']})"
    return form.format(measure["mean"]) + of


def matrix_table(verdict: Verdict, points: bool) -> Table:
    """The row's variant against the column's: what the test says, and the difference that was seen."""
    names = [band.variant for band in verdict.bands]
    rows = [
        [name, *(_against(verdict.pair(name, other), name, points) if name != other else "" for other in names)]
        for name in names
    ]
    return [["", *names], *rows]


def _against(pair: Pair, name: str, points: bool) -> str:
    if pair.difference is None:
        return "n/a"
    word = "unclear" if pair.better is None else "better" if pair.better == name else "worse"
    size = (pair.difference if pair.a == name else -pair.difference) or 0.0
    return f"{word} ({_points(size) if points else f'{size:+.2f}'})"


def pair_table(pairs: Sequence[Pair], points: bool) -> Table:
    """Every two variants, with the words that the test allows."""
    rows = [["", "", "difference", "95 % interval", "wins", "losses", "verdict"]]
    for pair in pairs:
        show = _points if points else _number
        apart = "n/a" if pair.difference is None else show(pair.difference)
        span = f"{show(pair.interval.low)} to {show(pair.interval.high)}" if pair.interval else "n/a"
        word = f"{pair.better} is better" if pair.better else "cannot be told apart"
        rows.append([pair.a, pair.b, apart, span, str(pair.wins), str(pair.losses), word])
    return rows


def grid_table(result: Comparison) -> Table:
    """One line a task; with one variant the answers instead."""
    lines = result.grid[:MOST_TASKS]
    if len(result.variants) == 1:
        rows = [["task", "outcome", "answer"], *(row for line in lines for row in _answers(line, result.variants[0]))]
    else:
        rows = [
            ["task", *result.variants],
            *([line["task"], *(cell_text(line["cells"][n]) for n in result.variants)] for line in lines),
        ]
    if len(result.grid) > MOST_TASKS:
        rows.append([f"… {len(result.grid) - MOST_TASKS:,} more tasks, all are in .grid", *[""] * (len(rows[0]) - 1)])
    return [[one_line(cell, 80) for cell in row] for row in rows]


def _answers(line: Line, name: str) -> list[list[str]]:
    rows = line["cells"][name]["rows"]
    return [
        [line["task"], str(each["outcome"]), each["answer"] or each["detail"] or each["explanation"]] for each in rows
    ]


def cell_text(cell: Line) -> str:
    """What one variant did on one task: "2 of 3 right", "0.50", "error"."""
    outcomes: dict[str, int] = cell["outcomes"]
    if cell["total"] == 1:
        word = next(iter(outcomes))
        return f"{cell['value']:.2f}" if word == "partial" else word
    right = outcomes.get("right", 0)
    others = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()) if name != "right")
    if cell["value"] is None:
        return others
    return f"{right} of {cell['total']} right{f' ({others})' if others else ''}"


def one_line(words: Any, limit: int) -> str:
    """Any text of a model or a task, fit to be shown."""
    return shorten(mask(plain(clean(str(words)))), limit)


def aligned(rows: Table) -> str:
    """A table for a terminal."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(f"  {line}" for line in lines)


def _markdown_table(rows: Table) -> str:
    head, *others = [[_escaped(cell) for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(cell: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]<>()#+-.!|$~&" else sign for sign in cell)


def _joined(result: Comparison, table: Callable[[Table], str], strong: Callable[[str], str]) -> str:
    parts = []
    for title, content in sections(result):
        told = content if isinstance(content, str) else table(content)
        if isinstance(content, str) and strong("x") != "x":
            told = _escaped(content)
        parts.append(
            f"{strong(title)}\n\n{told}" if title and strong("x") != "x" else f"{title}\n{told}" if title else told
        )
    return "\n\n".join(parts)


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _number(value: float) -> str:
    return f"{value:.2f}"


def _points(value: float) -> str:
    return f"{100 * value:+.0f} points"
