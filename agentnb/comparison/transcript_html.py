"""One task of a comparison as a fold: what was asked, and one click away two transcripts side by side and their diff.

The two are the variants that are furthest apart, in the first repeat in which they differ. Bare tags, every word of
models, tools and tasks escaped; as long as there is room.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from agentnb.comparison.board import Line
from agentnb.comparison.report_text import cell_text, one_line
from agentnb.core.messages import Message
from agentnb.core.state import State
from agentnb.errors import AgentnbError
from agentnb.text import bound, clean, mask, plain

if TYPE_CHECKING:
    from agentnb.comparison.result import Comparison

_MOST_MESSAGES = 12
_LONGEST_MESSAGE = 600
_LONGEST_DIFF = 20_000
_WIDEST = 40
_ROLES = {"assistant": "says", "tool": "result"}
_CELL = 'style="text-align:left;vertical-align:top;padding:.2em .8em .2em 0"'
_SAID = 'style="white-space:pre-wrap;overflow-wrap:anywhere;margin:.1em 0 .5em 0;padding-left:.6em;'
_SAID += 'border-left:2px solid rgba(128,128,128,.4)"'


class Two(NamedTuple):
    """Two runs of a task to look at side by side."""

    names: tuple[str, str]
    repeat: int


def task_folds(result: Comparison, lines: Sequence[Line], room: int) -> str:
    """A fold a task, in this order; transcripts while there is room, else the code that shows them.

    Args:
        result: Whose transcripts are read.
        lines: Of its grid.
        room: Characters for transcripts and diffs.
    """
    names, made = result.variants, []
    widths = [max(len(one_line(cell, _WIDEST)) for cell in column) for column in _columns(lines, names)]
    made.append(f'<div style="padding-left:1em">{_summary(("task", *names), widths)}</div>')
    for line in lines:
        body, room = _body(result, line, room)
        cells = [line["task"], *(cell_text(line["cells"][name]) for name in names)]
        made.append(f"<details><summary>{_summary(cells, widths)}</summary>{body}</details>")
    return "".join(made)


def _columns(lines: Sequence[Line], names: Sequence[str]) -> list[list[str]]:
    cells = [[name, *(cell_text(line["cells"][name]) for line in lines)] for name in names]
    return [["task", *(line["task"] for line in lines)], *cells]


def _summary(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Cells that stand below each other, since a line of a table can't be folded."""
    told = zip(cells, widths, strict=True)
    look = "display:inline-block;vertical-align:top;margin-left:.8em;width"
    return "".join(f'<span style="{look}:{0.6 * wide:.1f}em">{_shown(cell, _WIDEST)}</span>' for cell, wide in told)


def _body(result: Comparison, line: Line, room: int) -> tuple[str, int]:
    """What a fold holds, and how much room is left."""
    expected = next((each["expected"] for cell in line["cells"].values() for each in cell["rows"]), None)
    asked = f"<p>{_shown(line['goal'], 300)}" + (f" Expected: {_shown(expected, 100)}" if expected is not None else "")
    two = furthest_apart(line, result.variants)
    code = f"result.diff({', '.join(map(repr, (line['task'], *two.names, two.repeat)))})"
    found = _side_by_side(result, line["task"], two) if line["apart"] and room else ""
    if len(found) > room:
        found, room = "", 0
    return f"{asked}</p><p><code>{escape(mask(code))}</code></p>{found}", room - len(found)


def furthest_apart(line: Line, names: Sequence[str]) -> Two:
    """The variants that did best and worst on this task, and the first repeat in which they ended differently."""
    values = {name: line["cells"][name]["value"] or 0.0 for name in names}
    best, worst = max(names, key=values.__getitem__), min(reversed(names), key=values.__getitem__)
    one, other = (line["cells"][name]["rows"] for name in (best, worst))
    pairs = zip(one, other, strict=True)
    return Two((best, worst), next((a["repeat"] for a, b in pairs if _end(a) != _end(b)), 1))


def _end(row: Line) -> tuple[str, float | None]:
    return row["outcome"], row["score"]


def _side_by_side(result: Comparison, task: str, two: Two) -> str:
    heads = "".join(f"<th {_CELL}>{_head(result, task, name, two.repeat)}</th>" for name in two.names)
    cells = "".join(f"<td {_CELL}>{_transcript(result, task, name, two.repeat)}</td>" for name in two.names)
    table = f"<table><tr>{heads}</tr><tr>{cells}</tr></table>"
    return f"{table}<details><summary>where they part</summary>{_diff(result, task, two)}</details>"


def _head(result: Comparison, task: str, name: str, repeat: int) -> str:
    """The variant; as a link to the transcript's file, for a front end that opens files beside the notebook."""
    path = result.transcript(task, name, repeat)
    number = f", repeat {repeat}" if result.plan.repeats > 1 else ""
    shown = _shown(f"{name}{number}", 80)
    return shown if result.temporary or path.is_absolute() else f'<a href="{quote(path.as_posix())}">{shown}</a>'


def _transcript(result: Comparison, task: str, name: str, repeat: int) -> str:
    try:
        return transcript_html(result.run(task, name, repeat))
    except AgentnbError as error:
        return _shown(error.message, 200)


def transcript_html(run: State) -> str:
    """What was said after the goal, in order: calls, results, texts; and why it ended, where that is no answer."""
    said = [each for each in run.messages if each.role != "user" or each.content != run.goal]
    parts = [_message(each) for each in said[:_MOST_MESSAGES]]
    if len(said) > _MOST_MESSAGES:
        parts.append(f"<div>… {len(said) - _MOST_MESSAGES:,} more messages</div>")
    ended = "" if run.answer is not None else f"<div><b>{_shown(f'{run.stop}: {run.detail}', 200)}</b></div>"
    return "".join(parts) + ended


def _message(message: Message) -> str:
    said = [(_ROLES.get(message.role, message.role), message.content)] if message.content else []
    said += [("calls", f"{call.name}({call.arguments})") for call in message.calls]
    return "".join(f"<div>{escape(role)}</div><div {_SAID}>{_long(text)}</div>" for role, text in said)


def _long(text: str) -> str:
    return escape(bound(mask(plain(clean(text))), _LONGEST_MESSAGE))


def _shown(words: object, limit: int) -> str:
    return escape(one_line(words, limit))


def _diff(result: Comparison, task: str, two: Two) -> str:
    try:
        found: str = result.diff(task, *two.names, two.repeat).html
    except AgentnbError as error:
        return f"<p>{_shown(error.message, 200)}</p>"
    return found if len(found) <= _LONGEST_DIFF else "<p>The diff is long: run the line above.</p>"
