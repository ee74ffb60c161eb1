"""A comparison as HTML of bare tags: every word of a model or a task escaped, nothing that a front end could run."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from agentnb.comparison.report_text import MOST_TASKS, Table, sections
from agentnb.comparison.transcript_html import task_folds

if TYPE_CHECKING:
    from agentnb.comparison.result import Comparison

_ROOM = 60_000
"""Characters for transcripts and diffs."""
_CELL = 'style="text-align:left;vertical-align:top;padding:.2em .8em .2em 0"'


def html(result: Comparison) -> str:
    """Leaderboard, conclusion, and the tasks as folds, disagreements first: two transcripts and their diff in each."""
    parts = []
    *before, (title, table) = sections(result)
    for heading, content in before:
        told = f"<p>{escape(content)}</p>" if isinstance(content, str) else _table(content)
        parts.append(f"<details><summary>{escape(heading)}</summary>{told}</details>" if heading else told)
    parts += [f"<p><b>{escape(title)}</b></p>", _tasks(result, table)]
    return f'<div class="tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'


def _tasks(result: Comparison, table: str | Table) -> str:
    if len(result.variants) == 1:
        return _table(table) if isinstance(table, list) else escape(table)
    more = len(result.grid) - MOST_TASKS
    folds = task_folds(result, result.grid[:MOST_TASKS], _ROOM)
    return folds + (f"<p>… {more:,} more tasks, all are in .grid</p>" if more > 0 else "")


def _table(rows: Table) -> str:
    head, *others = rows
    lines = [f"<tr>{''.join(f'<th {_CELL}>{escape(cell)}</th>' for cell in head)}</tr>"]
    lines += [f"<tr>{''.join(f'<td {_CELL}>{escape(cell)}</td>' for cell in row)}</tr>" for row in others]
    return f"<table>{''.join(lines)}</table>"
