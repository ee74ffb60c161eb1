"""One step drawn in its two forms: a line that opens, and lines below a line."""

from __future__ import annotations

from agentnb.core.state import Step
from agentnb.notebook import render_html, render_text
from agentnb.notebook.account import deep_sections, step_sections
from agentnb.notebook.words import step_line

_CALL_BYTES = 1_500
_REQUEST_BYTES = 4_000


def step_details(step: Step, limit: int, name: str, room: int) -> str:
    """The collapsed HTML of a step; with no room its line alone.

    Args:
        step: The step.
        limit: Bytes for the whole; decides how many calls are shown.
        name: The variable that holds the run.
        room: Bytes for the texts in it.
    """
    line = render_html.lead(step_line(step))
    if not room:
        return f"<div>{line}</div>"
    shallow = step_sections(step, name, _most_calls(limit))
    deep = deep_sections(step, name, min(_REQUEST_BYTES, limit // 4))
    return render_html.details(line, render_html.draw_sections((*shallow, *deep), room))


def step_text(step: Step, limit: int, name: str, room: int) -> str:
    """The step for a terminal; with no room its line alone."""
    if not room:
        return step_line(step)
    return f"{step_line(step)}\n{render_text.draw_sections(step_sections(step, name, _most_calls(limit)), room)}"


def _most_calls(limit: int) -> int:
    return max(1, limit // _CALL_BYTES)
