"""How a run ended: its answer or what to do now, totals, tokens step by step, and the steps that got no display."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agentnb.core.limits import StopReason
from agentnb.core.state import State, Step
from agentnb.notebook import render_html, render_text
from agentnb.notebook.bounds import cost, cut, escaped, within
from agentnb.notebook.markdown import answer_html
from agentnb.notebook.step import step_html, step_text
from agentnb.notebook.words import UNKNOWN, count, deed, remedy, step_line, stop_words, totals_words
from agentnb.plots.run_plots import token_rows
from agentnb.text import counted

_HEADS = ("step", "what", "input", "cached", "output", "reasoning", "total")
_WORDS = (False, True, False, False, False, False, False)
_ANSWER_BYTES = 40_000
_ROW_BYTES = 900
_LINE_BYTES = 150
_MOST_ROWS = 40
_STEP_BYTES = 1_200
_BARS = "Bars, from faint to strong: cached input, fresh input, output, reasoning."


def final_html(state: State, limit: int, name: str, since: int, first: int) -> str:
    """The HTML, without the frame around it.

    Args:
        state: The last State of the run.
        limit: Bytes.
        name: The variable that holds the run.
        since: Steps up to this number belong to an earlier cell.
        first: Steps after this number had no display of their own.
    """
    steps = state.steps
    told = within(min(_ANSWER_BYTES, limit // 2), partial(_answer_html, state, name))
    told += _ending_html(state, limit // 8, name)
    told += _table_html(steps[since:], (limit - cost(told)) // 2, name)
    return told + _rest(steps[first:], limit - cost(told), name, _rest_html)


def final_text(state: State, limit: int, name: str, since: int, first: int) -> str:
    """The same as plain text."""
    steps = state.steps
    told = within(min(_ANSWER_BYTES, limit // 2), partial(_answer_text, state, name))
    told = "\n\n".join(filter(None, [told, _ending_text(state, limit // 8, name)]))
    told += _table_text(steps[since:], (limit - cost(told)) // 2, name)
    return told + _rest(steps[first:], limit - cost(told), name, _rest_text)


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────


def _last_words(state: State, name: str) -> tuple[str, str, str]:
    """Title, text and where it is: the answer, or what the model had said when the run ended."""
    if state.answer is not None:
        return "Answer", state.answer, f"{name}.answer"
    reply = state.decision.reply if state.decision else None
    return "Text so far", (reply.text if reply else ""), f"{name}.steps[-1].reply.text"


def _answer_html(state: State, name: str, room: int) -> str:
    title, text, where = _last_words(state, name)
    if not text:
        return ""
    piece, missing = cut(text, room, where)
    return f"<div>{render_html.lead(title)}</div>{answer_html(piece)}{render_html.quiet(missing)}"


def _answer_text(state: State, name: str, room: int) -> str:
    title, text, where = _last_words(state, name)
    if not text:
        return ""
    piece, missing = cut(text, room, where)
    return "\n".join(filter(None, [title, render_text.indented(piece.rstrip()), missing]))


# ── why, and how much ────────────────────────────────────────────────────────────────────────────────────────────


def _ending_html(state: State, room: int, name: str) -> str:
    title, why = _ending(state, room)
    told = f"<div>{render_html.lead(title)}{render_html.prose(why) if why else ''}</div>" if title else ""
    return told + "".join(map(render_html.quiet, (remedy(state, name), totals_words(state))))


def _ending_text(state: State, room: int, name: str) -> str:
    title, why = _ending(state, room)
    return "\n".join(filter(None, [f"{title} {why}".strip(), remedy(state, name), totals_words(state)]))


def _ending(state: State, room: int) -> tuple[str, str]:
    if state.stop is StopReason.ANSWER:
        return "", ""  # the answer stands above
    why, missing = cut(stop_words(state), room, "run.detail")
    if state.stop is None:
        return "No answer yet", ""
    return f"No answer ({state.stop})", f"{why} {missing}".rstrip()


# ── tokens step by step ──────────────────────────────────────────────────────────────────────────────────────────


def _table_html(steps: Sequence[Step], room: int, name: str) -> str:
    rows, left_out = _rows(steps, room // _ROW_BYTES)
    if not rows:
        return ""
    most = max((row["total"] or 0 for _, row in rows), default=0) or 1
    cells = [[*map(escaped, _cells(step, row)), _bar(row, most)] for step, row in rows]
    made = render_html.table((*_HEADS, ""), cells, lambda column: column in (1, len(_HEADS)))
    notes = render_html.quiet(_left_out(left_out, name)) + render_html.quiet(_BARS)
    return render_html.details(f"Tokens of {counted(len(steps), 'step')}", made + notes)


def _table_text(steps: Sequence[Step], room: int, name: str) -> str:
    rows, left_out = _rows(steps, room // _LINE_BYTES)
    if not rows:
        return ""
    made = render_text.table(_HEADS, [_cells(step, row) for step, row in rows], _WORDS)
    return "\n\n" + "\n".join(filter(None, [made, _left_out(left_out, name)]))


def _rows(steps: Sequence[Step], most: int) -> tuple[list[tuple[Step, dict[str, Any]]], int]:
    """As many rows as have room, the first and the last of a long run; and how many are left out between them."""
    most = min(_MOST_ROWS, max(4, most))
    rows = list(zip(steps, token_rows(steps), strict=True))
    if len(rows) <= most:
        return rows, 0
    return rows[: most // 2] + rows[-(most - most // 2) :], len(rows) - most


def _left_out(number: int, name: str) -> str:
    return f"… {counted(number, 'step')} between them left out, all are in {name}.table()" if number else ""


def _cells(step: Step, row: dict[str, Any]) -> list[str]:
    numbers = [count(row[key]) for key in ("input", "cached", "output", "reasoning", "total")]
    return [str(step.number), deed(step), *numbers]


def _bar(row: dict[str, Any], most: int) -> str:
    if row["total"] is None:
        return UNKNOWN
    keys = (("cached", 0.25), ("fresh", 0.45), ("visible", 0.75), ("reasoning", 1))
    return render_html.bar([(100 * (row[key] or 0) / most, grey) for key, grey in keys])


# ── steps without a display ──────────────────────────────────────────────────────────────────────────────────────


def _rest(steps: Sequence[Step], limit: int, name: str, draw: Callable[[Sequence[Step], int, str, int], str]) -> str:
    return within(limit, partial(draw, steps, limit, name)) if steps else ""


def _rest_html(steps: Sequence[Step], limit: int, name: str, room: int) -> str:
    each = room // len(steps)
    if each >= _STEP_BYTES:
        made = "".join(step_html(step, each, name) for step in steps)
    else:
        lines, missing = _lines(steps, room, name)
        made = render_html.prose(lines) + render_html.quiet(missing)
    return render_html.details(f"{counted(len(steps), 'more step')}, {_numbers(steps)}", made)


def _rest_text(steps: Sequence[Step], limit: int, name: str, room: int) -> str:
    each = room // len(steps)
    if each >= _STEP_BYTES:
        return "\n\n" + "\n\n".join(step_text(step, each, name) for step in steps)
    lines, missing = _lines(steps, room, name)
    return "\n\n" + "\n".join(filter(None, [f"{counted(len(steps), 'more step')}, {_numbers(steps)}", lines, missing]))


def _lines(steps: Sequence[Step], room: int, name: str) -> tuple[str, str]:
    told: list[str] = []
    for step in steps:
        line = step_line(step)
        room -= cost(line)
        if room < 0:
            return "\n".join(told), f"… {counted(len(steps) - len(told), 'more step')}, in {name}.steps"
        told.append(line)
    return "\n".join(told), ""


def _numbers(steps: Sequence[Step]) -> str:
    return f"number {steps[0].number}" if len(steps) == 1 else f"numbers {steps[0].number} to {steps[-1].number}"
