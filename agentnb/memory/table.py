"""A table for people: bounded, escaped, the same at every run; HTML in a notebook, lines of text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Any

from agentnb.text import shorten
from agentnb.tools.quoted import readable

MOST_ROWS = 50
_MOST_CELL = 160
_CELL = '<td style="text-align:left;vertical-align:top">'
_HEAD = '<th style="text-align:left">'


def bundle(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], total: int) -> dict[str, str]:
    """What `_repr_mimebundle_` returns.

    Args:
        title: One line above.
        columns: Their names.
        rows: Read as far as they are shown.
        total: How many there are.
    """
    shown = [[_cell(each) for each in row] for row in islice(rows, MOST_ROWS)]
    more = f"… and {total - len(shown):,} more" if total > len(shown) else ""
    return {"text/plain": _text(title, columns, shown, more), "text/html": _html(title, columns, shown, more)}


def _cell(value: Any) -> str:
    return shorten(readable(str(value)), _MOST_CELL)


def _text(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], more: str) -> str:
    if not rows:
        return title
    widths = [max(len(row[place]) for row in (columns, *rows)) for place in range(len(columns))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (columns, *rows)]
    return "\n".join([title, *lines, more]).rstrip()


def _html(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], more: str) -> str:
    head = "".join(f"{_HEAD}{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<div><b>{escape(title)}</b>{table}{escape(more)}</div>"


def _cells(row: Sequence[str]) -> str:
    return "".join(f"{_CELL}{escape(each)}</td>" for each in row)


class Shown:
    """Gives a class its table: derive from it and say what stands in it."""

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[Any]], int]:
        """Title, column names, rows, how many rows there are in all."""
        raise NotImplementedError

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return bundle(*self._table())
