"""One step drawn in its two forms: a line that opens, and lines below a line."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from agentnb.core.state import Step
from agentnb.models.curl import FILE, curl_from_file
from agentnb.notebook import render_html, render_text
from agentnb.notebook.account import Part, Section, message_section, request_section, step_sections
from agentnb.notebook.bounds import cost, within
from agentnb.notebook.words import step_line
from agentnb.text import shorten

_CALL_BYTES = 1_500
_REQUEST_BYTES = 12_000
_LEAST_LINE = 160


def step_html(step: Step, limit: int, name: str) -> str:
    """The collapsed HTML of a step: all three depths, with little room the first alone, with less its line.

    Args:
        step: The step.
        limit: Bytes.
        name: The variable that holds the run.
    """
    line = step_line(step)
    most_calls = _most_calls(limit)
    shallow = step_sections(step, name, most_calls)
    added = message_section(step, name, most_calls)
    asked = request_section(step, name, min(_REQUEST_BYTES, limit * 9 // 20))
    request = render_html.draw_sections([_with_curl(asked, step, name)], limit) if asked else ""
    return within(limit, partial(_deep, line, shallow, added, request, limit))


def _with_curl(asked: Section, step: Step, name: str) -> Section:
    """The request, and below it the command that sends it again, where it went over HTTP."""
    command = curl_from_file(step)
    if command is None:
        return asked
    here = f"curl({name}.steps[{step.number - 1}])"
    return replace(asked, parts=(*asked.parts, Part(f"curl, the JSON in {FILE}; {here} has it all", command, here)))


def _deep(line: str, shallow: tuple[Section, ...], added: Section, request: str, limit: int, room: int) -> str:
    left = room - cost(request)
    if left <= 0:
        return "" if room else within(limit, partial(_shallow, line, shallow))
    messages = render_html.draw_sections([added], left // 4)
    first = render_html.draw_sections(shallow, left - min(left // 4, cost(messages)))
    return render_html.details(render_html.lead(line), first + messages + request)


def _shallow(line: str, sections: tuple[Section, ...], room: int) -> str:
    if not room:
        return f"<div>{render_html.lead(shorten(line, _LEAST_LINE))}</div>"
    return render_html.details(render_html.lead(line), render_html.draw_sections(sections, room))


def step_text(step: Step, limit: int, name: str) -> str:
    """The first depth of a step for a terminal; with no room its line alone."""
    return within(limit, partial(_lines, step_line(step), step_sections(step, name, _most_calls(limit))))


def _lines(line: str, sections: tuple[Section, ...], room: int) -> str:
    return f"{line}\n{render_text.draw_sections(sections, room)}" if room else shorten(line, _LEAST_LINE)


def _most_calls(limit: int) -> int:
    return max(1, limit // _CALL_BYTES)
