"""One step drawn in its two forms: a line that opens, and lines below a line; runs nested in it are drawn inside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from agentnb.core.state import State, Step
from agentnb.models.curl import FILE, curl_from_file
from agentnb.notebook import render_html, render_text
from agentnb.notebook.account import Part, Section, message_section, request_section, step_sections
from agentnb.notebook.bounds import cost, within
from agentnb.notebook.words import step_line, stop_words
from agentnb.text import counted, shorten

_CALL_BYTES = 1_500
_REQUEST_BYTES = 12_000
_LEAST_LINE = 160
_NESTED_BYTES = 800
"""The least room in which a nested run is drawn as HTML."""
_NESTED_STEP_BYTES = 1_600
"""The least for a step of it that is more than a line."""
_NESTED_TEXT_BYTES = 400
_BOTH_BYTES = 6_000
"""With less room a step that holds nested runs is drawn without its request."""
_NESTED_LINES = 12


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
    nested = _nested_html(step, limit // 2, name)
    asked = (
        None if nested and limit < _BOTH_BYTES else request_section(step, name, min(_REQUEST_BYTES, limit * 9 // 20))
    )
    request = render_html.draw_sections([_with_curl(asked, step, name)], limit) if asked else ""
    return within(limit, partial(_deep, line, shallow, added, (nested, request), limit))


def _with_curl(asked: Section, step: Step, name: str) -> Section:
    """The request, and below it the command that sends it again, where it went over HTTP."""
    command = curl_from_file(step)
    if command is None:
        return asked
    here = f"curl({name}.steps[{step.number - 1}])"
    return replace(asked, parts=(*asked.parts, Part(f"curl, the JSON in {FILE}; {here} has it all", command, here)))


def _deep(
    line: str, shallow: tuple[Section, ...], added: Section, fixed: tuple[str, str], limit: int, room: int
) -> str:
    nested, request = fixed
    left = room - cost(request) - (cost(nested) if nested else 0)
    if left <= 0 and room:
        return ""
    if left <= 0:
        alone = partial(_deep, line, shallow, added, (nested, ""), limit) if nested and request else None
        return within(limit, alone or partial(_shallow, line, shallow))
    messages = render_html.draw_sections([added], left // 4)
    first = render_html.draw_sections(shallow, left - min(left // 4, cost(messages)))
    return render_html.details(render_html.lead(line), first + nested + messages + request)


def _shallow(line: str, sections: tuple[Section, ...], room: int) -> str:
    if not room:
        return f"<div>{render_html.lead(shorten(line, _LEAST_LINE))}</div>"
    return render_html.details(render_html.lead(line), render_html.draw_sections(sections, room))


def step_text(step: Step, limit: int, name: str) -> str:
    """The first depth of a step for a terminal; with no room its line alone."""
    sections, nested = step_sections(step, name, _most_calls(limit)), _nested_text(step, limit // 4)
    return within(limit, partial(_lines, step_line(step), sections, nested))


def _lines(line: str, sections: tuple[Section, ...], nested: str, room: int) -> str:
    return f"{line}\n{render_text.draw_sections(sections, room)}{nested}" if room else shorten(line, _LEAST_LINE)


def _most_calls(limit: int) -> int:
    return max(1, limit // _CALL_BYTES)


# ── runs nested in it ────────────────────────────────────────────────────────────────────────────────────────────────


def _nested(step: Step) -> list[tuple[int, State]]:
    """The runs that are values of this step's results, each with the place of its result."""
    return [(place, each.value) for place, each in enumerate(step.results) if isinstance(each.value, State)]


def _title(step: Step, place: int, run: State) -> str:
    words = stop_words(run) if run.stop else "not finished"
    return f"Nested run of {step.results[place].name} · {counted(run.counters.steps, 'step')} · {words}"


def _nested_html(step: Step, limit: int, name: str) -> str:
    """Each nested run as a line that opens to its steps, all of them within the limit; "" where there is no room."""
    runs = _nested(step)[: limit // _NESTED_BYTES]
    return "".join(_run_html(step, place, run, limit // len(runs), name) for place, run in runs)


def _run_html(step: Step, place: int, run: State, limit: int, name: str) -> str:
    where = f"{name}.steps[{step.number - 1}].results[{place}].value"
    goal = render_html.draw_sections([Section("", (Part("task", run.goal, f"{where}.goal", words=True),))], limit // 8)
    steps = run.steps
    title, each = render_html.lead(shorten(_title(step, place, run), _LEAST_LINE)), limit * 3 // 4 // max(1, len(steps))
    if each >= _NESTED_STEP_BYTES:
        return render_html.details(title, goal + "".join(step_html(inner, each, where) for inner in steps))
    return render_html.details(title, goal + render_html.prose("\n".join(_few_lines(run, limit // 4, where))))


def _nested_text(step: Step, limit: int) -> str:
    """Each nested run as its lines, while they have room."""
    lines = [
        line
        for place, run in _nested(step)[: limit // _NESTED_TEXT_BYTES]
        for line in (f"  {shorten(_title(step, place, run), _LEAST_LINE)}", *_few_lines(run, limit // 2, "its value"))
    ]
    return "".join(f"\n{line}" for line in lines)


def _few_lines(run: State, room: int, where: str) -> Iterator[str]:
    """A line for each of the first steps, and one that says how many more there are."""
    steps = run.steps
    for number, inner in enumerate(steps):
        line = f"    {shorten(step_line(inner), _LEAST_LINE)}"
        room -= cost(line)
        if room < 0 or number == _NESTED_LINES:
            yield f"    … {counted(len(steps) - number, 'more step')}, in {where}.steps"
            return
        yield line
