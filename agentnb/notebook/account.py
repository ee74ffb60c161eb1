"""What there is to say about one step, from the plain to the exact; the HTML and the text form lay it out.

First depth: what the model thought, which calls it made and what they brought. Second: the messages that the step
added. Third: the request as it was sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.state import Step
from agentnb.notebook.bounds import wanted
from agentnb.notebook.words import brief, outcome, parsed, spelled, usage_words, version_words
from agentnb.text import counted

_MESSAGE_BYTES = 40
_MOST_TRACEBACK = 60_000
_PATH = re.compile(r'File "(?:[^"\n]*[\\/])?([^"\\/\n]+)"')
_CELL = re.compile(r"Cell In\[\d+\]")
_CELL_FILE = re.compile(r'File "[^"\n]*ipykernel_\d+[\\/][^"\n]*"')
_MARKER = re.compile(r"^[ \t]*[~^]+[ \t]*\n", re.MULTILINE)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


@dataclass(frozen=True, slots=True)
class Part:
    """A text with its label."""

    label: str
    text: str
    where: str = ""
    """The expression that holds the whole text."""
    folded: bool = False
    """Shown closed, to be opened by the reader."""
    tail: bool = False
    """When it is cut, its end is what matters."""
    words: bool = False
    """Plain words, not something to be read letter by letter."""


@dataclass(frozen=True, slots=True)
class Section:
    """Parts that belong together: a call with its result, the messages, the request."""

    title: str
    parts: tuple[Part, ...]
    folded: bool = False


def step_sections(step: Step, name: str, most_calls: int) -> tuple[Section, ...]:
    """The first depth of a step.

    Args:
        step: A step of a run.
        name: The variable that holds the run, for the expressions that lead to the whole texts.
        most_calls: Of more calls the rest is only counted.
    """
    here = f"{name}.steps[{step.number - 1}]"
    calls = tuple(_call_section(step, index, here) for index in range(min(most_calls, len(step.calls))))
    more = len(step.calls) - len(calls)
    rest = _more_calls(more, here) if more else ()
    return (Section("", tuple(_before(step, here))), *calls, *rest, Section("", tuple(_after(step, here))))


def _more_calls(number: int, here: str) -> tuple[Section, ...]:
    told = f"{counted(number, 'more call')}, in {here}.calls and {here}.results"
    return (Section("", (Part("more", told, words=True),)),)


def message_section(step: Step, name: str, most_calls: int) -> Section:
    """The second depth: what the step added to the conversation."""
    added = _added(step)
    parts = [_message_part(message, name) for message in added[: most_calls + 1]]
    if more := len(added) - len(parts):
        parts.append(Part("more", f"{counted(more, 'more message')}, in {name}.messages", words=True))
    return Section(f"Messages added ({len(added)})", tuple(parts), folded=True)


def request_section(step: Step, name: str, room: int) -> Section | None:
    """The third depth: the request as sent if it fits into `room` bytes, else where it is; None when none was."""
    if step.reply is None or step.reply.request is None:
        return None
    here = f"{name}.steps[{step.number - 1}].request"
    if _is_short(step, room):
        text = spelled_request(step.request or {})
        if wanted(text, room) <= room:
            return Section("Request as sent", (Part("JSON", text, here),), folded=True)
    pointer = Part("JSON", f"too long to show here, it is in {here}", words=True)
    return Section("Request as sent", (pointer,), folded=True)


def spelled_request(body: Mapping[str, Any]) -> str:
    """The JSON of a request, laid out to be read: one message and one tool a line."""
    fields = [f" {_json(name)}: {_spelled_field(value)}" for name, value in body.items()]
    return "{\n" + ",\n".join(fields) + "\n}"


def _spelled_field(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return "[\n" + ",\n".join(f"  {_json(each)}" for each in value) + "\n ]"
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _before(step: Step, here: str) -> Iterator[Part]:
    before = step.plan.parent
    if before is not None and before.kind == "say":
        yield Part("warned the model" if before.warned else "the user said", before.added[-1].content or "", words=True)
    if step.reasoning:
        yield Part("reasoning", step.reasoning, f"{here}.reasoning", folded=True)
    if step.reply and step.reply.text and step.decision.answer != step.reply.text:
        yield Part("said", step.reply.text, f"{here}.reply.text", words=True)


def _after(step: Step, here: str) -> Iterator[Part]:
    yield from (Part("note", note, words=True) for note in step.notes)
    if step.decision.detail:
        yield Part("detail", step.decision.detail, f"{here}.decision.detail", words=True)
    reply = step.reply
    if reply is None:
        yield Part("model", "none was asked", words=True)
        return
    yield Part("tokens", usage_words(reply.usage), words=True)
    other = f", answered as {reply.answered_as}" if reply.answered_as not in ("", reply.model) else ""
    yield Part("model", f"{reply.model or 'without a name'}{other} · finish reason {reply.finish}", words=True)


def _call_section(step: Step, index: int, here: str) -> Section:
    call = step.calls[index]
    position, result = _result_of(step, call)
    version = version_words(result.version) if result else ""
    which = f"Call {index + 1}" if len(step.calls) > 1 else "Call"
    title = " · ".join([which, version or brief(call.name, 60), _status(result, call, step)])
    parts = [Part("arguments", call.arguments, f"{here}.calls[{index}].arguments")]
    if result is not None:
        parts += _result_parts(call, result, f"{here}.results[{position}]")
    return Section(title, tuple(parts))


def _result_of(step: Step, call: ToolCall) -> tuple[int, ToolResult | None]:
    for position, result in enumerate(step.results):
        if result.call_id == call.id:
            return position, result
    return 0, None


def _status(result: ToolResult | None, call: ToolCall, step: Step) -> str:
    words = outcome(call, step)
    return result.status if result is not None and result.status in ("ok", "error") else words


def _result_parts(call: ToolCall, result: ToolResult, here: str) -> Iterator[Part]:
    if result.arguments is not None and _differ(call, result):
        yield Part("as cast", spelled(result.arguments), f"{here}.arguments")
    yield Part("result" if result.ok else result.status, result.content, f"{here}.content")
    yield from (Part("note", note, words=True) for note in result.notes)
    if result.traceback:
        yield Part("traceback", _steady(result.traceback), f"{here}.traceback", folded=True, tail=True)


def _differ(call: ToolCall, result: ToolResult) -> bool:
    values = parsed(call.arguments) if call.arguments.strip() else {}
    assert result.arguments is not None
    if values is None or values.keys() != result.arguments.keys():
        return True
    return any(spelled({key: value}) != spelled({key: result.arguments[key]}) for key, value in values.items())


def _steady(traceback: str) -> str:
    """A traceback without what differs from machine to machine: folders, cell numbers, addresses, markers."""
    text = _CELL_FILE.sub('File "cell"', traceback[-_MOST_TRACEBACK:])
    text = _CELL.sub("Cell", _PATH.sub(r'File "\1"', text))
    return _ADDRESS.sub("0x…", _MARKER.sub("", text)).rstrip()


def _added(step: Step) -> list[Message]:
    """What the model said and the results that went back to it; later warnings belong to the next step."""
    found: list[Message] = []
    state = step.last
    while True:
        if state.kind in ("plan", "act"):
            found[:0] = state.added
        if state is step.plan or state.parent is None:
            return found
        state = state.parent


def _message_part(message: Message, name: str) -> Part:
    label = f"tool {brief(message.name, 60)}" if message.role == "tool" else message.role
    asked = [f"{brief(call.name, 60)}({call.arguments})" for call in message.calls]
    said = [message.content] if message.content else []
    return Part(label, "\n".join([*said, *asked]), f"{name}.messages")


def _is_short(step: Step, room: int) -> bool:
    """Whether the messages of the request may fit; looks at no more of them than could."""
    before = step.plan.parent
    assert before is not None
    for message in islice(before.prompt.items, before.end):
        room -= _MESSAGE_BYTES + len(message.content or "")
        if room < 0:
            return False
    return True
