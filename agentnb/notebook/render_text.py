"""The same account for a terminal: one line a step, its parts below it, labels in a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentnb.notebook.account import Part, Section
from agentnb.notebook.bounds import cut, shares, shown, wanted

_LABEL = 10
_PART_BYTES = 1_500
"""In a terminal nothing folds, so a long text shows its beginning only."""


def field(label: str, text: str, indent: int) -> str:
    """A label and its text; further lines of the text stand below the first."""
    lines = (text or "(empty)").split("\n")
    pad = "\n" + " " * (indent + _LABEL + 2)
    return f"{'':{indent}}{label:<{_LABEL}}  " + pad.join(lines)


def indented(text: str) -> str:
    """A text of several lines, two spaces in; empty lines stay empty."""
    return "\n".join(f"  {line}" if line.strip() else "" for line in text.split("\n"))


def draw_sections(sections: Sequence[Section], room: int) -> str:
    """Every part, cut so that all of them together have at most `room` bytes of text."""
    parts = [part for section in sections for part in section.parts]
    given = iter(shares([wanted(part.text, min(room, _PART_BYTES)) for part in parts], room))
    return "\n".join(line for section in sections for line in _section(section, given))


def _section(section: Section, given: Iterator[int]) -> list[str]:
    title = [f"  {shown(section.title)}"] if section.title else []
    return title + [_part(part, min(next(given), _PART_BYTES), 2 + 2 * len(title)) for part in section.parts]


def _part(part: Part, room: int, indent: int) -> str:
    text, missing = cut(part.text, room, part.where, part.tail)
    told = [missing, text] if part.tail else [text, missing]
    return field(shown(part.label), "\n".join(filter(None, told)), indent)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool]) -> str:
    """Columns as wide as their widest cell, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(_line(row, widths, left) for row in (heads, *rows))


def _line(cells: Sequence[str], widths: Sequence[int], left: Sequence[bool]) -> str:
    told = (c.ljust(w) if side else c.rjust(w) for c, w, side in zip(cells, widths, left, strict=True))
    return ("  " + "  ".join(told)).rstrip()
