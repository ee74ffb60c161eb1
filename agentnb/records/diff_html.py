"""A Diff as HTML: bare tags that read well without styles; what the runs hold is quoted and escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from agentnb.records.diff_steps import Difference
from agentnb.records.diff_text import differences, groups, headlines, left_out_words, line, values
from agentnb.records.excerpts import printable
from agentnb.text import counted

if TYPE_CHECKING:
    from agentnb.records.diff import Diff

_CELL = "text-align:left;vertical-align:top;padding:.15em .7em .15em 0"
_CODE = "white-space:pre-wrap;overflow-wrap:anywhere;background:rgba(128,128,128,.12)"


def html(made: Diff) -> str:
    """The whole account; maths in it is left alone."""
    first, *more = headlines(made)
    told = [f"<div><b>{_escaped(first)}</b></div>", *(f"<div>{_escaped(each)}</div>" for each in more)]
    body = [] if made.equal else _body(made)
    return f'<div class="tex2jax_ignore mathjax_ignore" style="line-height:1.45">{"".join([*told, *body])}</div>'


def _body(made: Diff) -> Iterator[str]:
    for rows, left_out in groups(made):
        if left_out:
            yield f"<div>{_escaped(left_out_words(left_out))}</div>"
        if not rows:
            continue
        shown = differences(rows)
        if not shown:
            yield f"<div>{_escaped(line(rows, made))}</div>"
            continue
        opened = " open" if rows[0] is made.first else ""
        more = len(rows[0]["differences"]) - len(shown)
        rest = f"<div>… {counted(more, 'more difference')}, in .rows</div>" if more else ""
        summary = f"<summary>{_escaped(line(rows, made))}</summary>"
        yield f"<details{opened}>{summary}{_table(shown, made.names)}{rest}</details>"


def _table(shown: Sequence[Difference], names: Sequence[str]) -> str:
    heads = "".join(f'<th style="{_CELL}" scope="col">{_escaped(each)}</th>' for each in ("what", *names))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(map(_row, shown))}</tbody></table>"


def _row(each: Difference) -> str:
    cells = [f'<th style="{_CELL}" scope="row">{_escaped(each["what"])}</th>']
    cells += [f'<td style="{_CELL}"><code style="{_CODE}">{_escaped(value)}</code></td>' for value in values(each)]
    return f"<tr>{''.join(cells)}</tr>"


def _escaped(text: str) -> str:
    return escape(printable(text), quote=False)
