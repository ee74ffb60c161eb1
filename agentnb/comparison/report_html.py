"""A comparison as HTML of bare tags: every word of a model or a task escaped, nothing that a front end could run."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from agentnb.comparison.board import Line
from agentnb.comparison.report_text import MOST_TASKS, Table, cell_text, one_line, sections
from agentnb.errors import AgentnbError

if TYPE_CHECKING:
    from agentnb.comparison.result import Comparison

_MOST_DIFFS = 5
_LONGEST_DIFF = 30_000
_CELL = 'style="text-align:left;vertical-align:top;padding:.2em .8em .2em 0"'


def html(result: Comparison) -> str:
    """Leaderboard, conclusion, and below the tasks a fold for each of the first disagreements: transcripts and diff."""
    parts = []
    for title, content in sections(result):
        told = f"<p>{escape(content)}</p>" if isinstance(content, str) else _table(content)
        parts.append(f"<details><summary>{escape(title)}</summary>{told}</details>" if title else told)
    parts += _disagreements(result)
    return f'<div class="tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'


def _table(rows: Table) -> str:
    head, *others = rows
    lines = [f"<tr>{''.join(f'<th {_CELL}>{escape(cell)}</th>' for cell in head)}</tr>"]
    lines += [f"<tr>{''.join(f'<td {_CELL}>{escape(cell)}</td>' for cell in row)}</tr>" for row in others]
    return f"<table>{''.join(lines)}</table>"


def _disagreements(result: Comparison) -> list[str]:
    """A fold for each of the first tasks on which the variants disagree."""
    if len(result.variants) < 2:
        return []
    apart = [line for line in result.grid[:MOST_TASKS] if line["apart"]]
    return [_fold(result, line) for line in apart[:_MOST_DIFFS]]


def _fold(result: Comparison, line: Line) -> str:
    cells = {name: line["cells"][name] for name in result.variants}
    best = max(cells, key=lambda name: cells[name]["value"] or 0.0)
    worst = min(cells, key=lambda name: cells[name]["value"] or 0.0)
    if best == worst:
        best, worst = result.variants[:2]
    told = "; ".join(f"{name}: {cell_text(cells[name])}" for name in result.variants)
    links = "".join(f"<li>{_link(result, line['task'], name)}</li>" for name in (best, worst))
    code = f"result.diff({line['task']!r}, {best!r}, {worst!r})"
    body = f"<p>{escape(one_line(line['goal'], 300))}</p><ul>{links}</ul><p><code>{escape(code)}</code></p>"
    summary = f"<summary>{escape(one_line(line['task'], 60))}: {escape(told)}</summary>"
    return f"<details>{summary}{body}{_diff(result, line, best, worst)}</details>"


def _link(result: Comparison, task: str, name: str) -> str:
    """The transcript's file, for a front end that opens files beside the notebook."""
    path = result.transcript(task, name)
    shown = f"transcript of {escape(name)}"
    return shown if result.temporary or path.is_absolute() else f'<a href="{quote(_posix(path))}">{shown}</a>'


def _posix(path: Path) -> str:
    return path.as_posix()


def _diff(result: Comparison, line: Line, best: str, worst: str) -> str:
    try:
        found: str = result.diff(line["task"], best, worst).html
    except AgentnbError as error:
        return f"<p>{escape(str(error))}</p>"
    return found if len(found) <= _LONGEST_DIFF else "<p>The diff is long: run the line above.</p>"
