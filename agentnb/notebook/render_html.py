"""HTML for the parts of a run: bare tags that read well with every style taken away, and a few quiet inline styles.

Every text passes `escaped`. Colours are inherited or a translucent grey, so light and dark pages both do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentnb.notebook.account import Part, Section
from agentnb.notebook.bounds import cut, escaped, shares, wanted

IGNORED_BY_MATHJAX = "tex2jax_ignore mathjax_ignore"
_BODY = "margin:.3em 0 .8em 1.1em"
_FIELD = "margin:.2em 0"
_PRE = (
    "margin:.1em 0 .4em;padding:.4em .6em;background:rgba(128,128,128,.12);font-size:.92em;"
    "white-space:pre-wrap;overflow-wrap:anywhere;max-height:22em;overflow:auto"
)
_CODE = "background:rgba(128,128,128,.12);padding:.1em .3em;font-size:.92em"
_QUIET = "opacity:.7"
_CELL = "text-align:{};padding:.15em .7em .15em 0;white-space:nowrap"
_SHORT = 96
_LINE, _LINES = 80, 12
"""Signs in a line of a narrow page, and lines that any frame of `pre` holds."""


def block(inner: str) -> str:
    """One display: maths in it is left alone, unless an answer marks it."""
    return f'<div class="{IGNORED_BY_MATHJAX}" style="line-height:1.45">{inner}</div>'


def details(summary: str, inner: str) -> str:
    """A part that the reader opens; `summary` is HTML."""
    return f'<details><summary>{summary}</summary><div style="{_BODY}">{inner}</div></details>'


def lead(text: str) -> str:
    """A line whose first words, up to the first dot, are bold."""
    first, dot, rest = text.partition(" · ")
    return f"<b>{escaped(first)}</b>{dot}{escaped(rest)}"


def prose(text: str) -> str:
    """A text of a person as it was typed, its line ends kept even without styles."""
    lines = escaped(text).replace("\n", "<br>")
    return f'<div style="white-space:pre-wrap;overflow-wrap:anywhere">{lines}</div>'


def quiet(text: str) -> str:
    """A line in the background."""
    return f'<div style="{_QUIET}">{escaped(text)}</div>' if text else ""


def pre(text: str) -> str:
    """A text in fixed type; a first empty line, which HTML would drop, stays. The keyboard can scroll a long one."""
    start = "\n" if text.startswith("\n") else ""
    stop = ' tabindex="0"' if _scrolls(text) else ""
    return f'<pre style="{_PRE}"{stop}>{start}{escaped(text)}</pre>'


def _scrolls(text: str) -> bool:
    """Whether it may be higher than its frame."""
    return sum(1 + len(line) // _LINE for line in text.split("\n")) > _LINES


def draw_sections(sections: Sequence[Section], room: int) -> str:
    """Every part, cut so that all of them together have at most `room` bytes of text."""
    parts = [part for section in sections for part in section.parts]
    given = iter(shares([wanted(part.text, room) for part in parts], room))
    return "".join(_section(section, [(part, next(given)) for part in section.parts]) for section in sections)


def _section(section: Section, parts: Iterable[tuple[Part, int]]) -> str:
    inner = "".join(_part(part, room) for part, room in parts)
    if section.folded:
        return details(escaped(section.title), inner)
    title = f'<div style="margin:.5em 0 .1em">{lead(section.title)}</div>' if section.title else ""
    return title + inner


def _part(part: Part, room: int) -> str:
    text, missing = cut(part.text, room, part.where, part.tail)
    if part.folded:
        return details(escaped(part.label), _long(text, missing, part.tail))
    label = f'<span style="{_QUIET}">{escaped(part.label)}</span>'
    if missing or not _is_short(text):
        return f'<div style="{_FIELD}">{label}{_long(text, missing, part.tail)}</div>'
    value = escaped(text) if part.words else f'<code style="{_CODE}">{escaped(text)}</code>'
    return f'<div style="{_FIELD}">{label} {value if text else "(empty)"}</div>'


def _is_short(text: str) -> bool:
    """Whether it can stand in a line, where spaces are not kept."""
    return len(text) <= _SHORT and " ".join(text.split()) == text


def _long(text: str, missing: str, tail: bool) -> str:
    shown_text = pre(text) if text else ""
    return quiet(missing) + shown_text if tail else shown_text + quiet(missing)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: Callable[[int], bool]) -> str:
    """A plain table of HTML cells; `left(column)` tells which columns are words."""
    sides = ["left" if left(column) else "right" for column in range(len(heads))]
    styles = [f' style="{_CELL.format(side)}"' for side in sides]
    top = "".join(f'<th{style} scope="col">{escaped(head)}</th>' for head, style in zip(heads, styles, strict=True))
    body = "".join(_row(row, styles) for row in rows)
    inner = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f'<table style="margin:.2em 0;border-collapse:collapse">{inner}</table>'


def _row(cells: Sequence[str], styles: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<td{style}>{cell}</td>" for cell, style in zip(cells, styles, strict=True)) + "</tr>"


def bar(pieces: Sequence[tuple[float, float]]) -> str:
    """A bar of text-coloured pieces.

    Args:
        pieces: Width in percent of the longest bar, and strength of the grey from 0 to 1; the numbers stand beside it.
    """
    made = "".join(
        f'<span style="display:inline-block;height:.7em;width:{width:.1f}%;background:rgba(128,128,128,{grey})"></span>'
        for width, grey in pieces
        if width >= 0.05
    )
    return f'<span style="display:inline-block;width:10em;white-space:nowrap">{made}</span>'
