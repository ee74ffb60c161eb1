"""One step drawn in its two forms: a line that opens, and lines below a line."""

from __future__ import annotations

from agentnb.core.state import Step
from agentnb.notebook import render_html, render_text
from agentnb.notebook.account import message_section, request_section, step_sections
from agentnb.notebook.words import step_line

_CALL_BYTES = 1_500
_REQUEST_BYTES = 4_000
_POINTER_BYTES = 200


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
    request = _request(step, name, min(_REQUEST_BYTES, room // 3))
    left = max(1, room - len(request))
    added = render_html.draw_sections([message_section(step, name)], left // 4)
    shallow = render_html.draw_sections(step_sections(step, name, _most_calls(limit)), max(1, left - len(added)))
    return render_html.details(line, shallow + added + request)


def _request(step: Step, name: str, room: int) -> str:
    section = request_section(step, name, room)
    return render_html.draw_sections([section], max(room, _POINTER_BYTES)) if section else ""


def step_text(step: Step, limit: int, name: str, room: int) -> str:
    """The step for a terminal; with no room its line alone."""
    if not room:
        return step_line(step)
    return f"{step_line(step)}\n{render_text.draw_sections(step_sections(step, name, _most_calls(limit)), room)}"


def _most_calls(limit: int) -> int:
    return max(1, limit // _CALL_BYTES)
