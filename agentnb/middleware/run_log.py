"""Write a run down as JSON Lines, one short line for each thing worth one, to search when something went wrong.

    {"timestamp": "2026-11-02T10:00:00.120Z", "run": "9f31c02a", "event": "start", "goal": "What is …", …}
    {"timestamp": …, "run": …, "event": "model", "step": 1, "model": "openai:gpt-5-mini", "calls": "add", …}
    {"timestamp": …, "run": …, "event": "tool", "step": 1, "tool": "add", "status": "ok", "result": "5", …}
    {"timestamp": …, "run": …, "event": "stop", "step": 2, "stop": "answer", "answer": "5", "run_tokens": 1670, …}

A run that ends with an error which travels up has a line "error" in place of "stop".
`pandas.read_json(path, lines=True)` reads it. Texts are cut and secrets masked; to keep a whole run is the work of
`save`.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import lru_cache
from io import FileIO
from math import isfinite
from pathlib import Path
from threading import Lock
from time import time_ns
from typing import Any
from uuid import uuid4
from weakref import finalize

from agentnb.core.messages import ToolResult, Usage
from agentnb.core.middleware import Event, RunFailed, StateMade, StepStarted
from agentnb.core.state import Counters, State
from agentnb.errors import SettingsError
from agentnb.middleware.following import Following
from agentnb.text import mask, shorten

Line = str
"""JSON without its braces."""
LONGEST = 200
"""Characters of a text in the log."""
_OWN = ("timestamp", "run", "event")
_encode = json.JSONEncoder(ensure_ascii=False).encode


class RunLog:
    """A listener that appends to a file; several runs, threads and processes may share the file.

    Each line is written at once and whole. A file that was deleted or moved away is made anew at the start of the next
    run; one that can't be written is told of once and hurts no run.

    Args:
        path: Made with its folders when there is something to write.
        labels: Stand on every line, to find a task again: `RunLog("log.jsonl", task="t-17")`.

    Raises:
        SettingsError: A label has the name of one of the log's own fields.
    """

    wants_deltas = False

    def __init__(self, path: str | os.PathLike[str], **labels: str | int | float | bool | None) -> None:
        if taken := [name for name in labels if name in _OWN]:
            raise SettingsError(f"the log has a field {taken[0]!r} of its own", layer="middleware")
        self.path = Path(path)
        self.labels = labels
        self._file: FileIO | None = None
        self._lock = Lock()
        self._runs: Following[str] = Following(self._begin)
        """Keeps of each run what stands on its lines, as JSON text."""

    def __repr__(self) -> str:
        return f"<RunLog {self.path}>"

    def __reduce__(self) -> Any:
        return _made_again, (self.path, self.labels)

    def __call__(self, event: Event) -> None:
        """Write down what this event tells of."""
        if isinstance(event, StateMade):
            self._write(self._runs.run_of(event), _lines(event.state))
        elif isinstance(event, RunFailed):
            self._write(self._runs.run_of(event), [_of_error(event.state, event.error)])
        elif isinstance(event, StepStarted):
            self._runs.run_of(event)

    def _begin(self, base: State) -> str:
        self._let_go_of_a_file_that_is_gone()
        labels = {name: mask(value) if isinstance(value, str) else value for name, value in self.labels.items()}
        head = _encode({"run": uuid4().hex[:8], **labels})[1:-1]
        self._write(head, [f'"event": "start", "goal": {_text(base.goal)}, "steps_before": {base.counters.steps}'])
        return head

    def _write(self, head: str, lines: list[Line]) -> None:
        if lines:
            now = _now()
            text = "".join([f'{{"timestamp": "{now}", {head}, {line}}}\n' for line in lines])
            with self._lock:
                self._opened().write(text.encode("utf-8", "replace"))

    def _opened(self) -> FileIO:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = FileIO(self.path, "ab")
            finalize(self, self._file.close)
        return self._file

    def _let_go_of_a_file_that_is_gone(self) -> None:
        with self._lock:
            if self._file is not None and not _stands_at(self.path, self._file):
                self._file.close()
                self._file = None


def _stands_at(path: Path, file: FileIO) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except OSError:
        return False


def _made_again(path: Path, labels: dict[str, Any]) -> RunLog:
    return RunLog(path, **labels)


# ── lines: written by hand, since a JSON encoder takes five times as long, in every step ────────────────────────────


def _lines(state: State) -> list[Line]:
    """What the making of this State is worth in the log."""
    lines, step = [], state.counters.steps
    if state.kind == "plan":
        lines = _of_model_call(state, step)
    elif state.kind == "act":
        lines = [_of_tool(state.results[-1], step)]
    elif state.kind == "say":
        lines = [f'"event": "said", "step": {step}, "text": {_text(state.added[-1].content or "")}']
    return [*lines, _of_stop(state, step)] if state.finished else lines


def _of_tool(result: ToolResult, step: int) -> Line:
    return (
        f'"event": "tool", "step": {step}, "tool": {_text(result.name)}, "call": {_text(result.call_id)}, '
        f'"status": "{result.status}", "seconds": {result.seconds:.6f}, "result": {_text(result.content)}'
    )


def _of_model_call(state: State, step: int) -> list[Line]:
    decision, before, lines = state.decision, state.parent, []
    reply = decision.reply if decision else None
    if reply is not None and before is not None:
        usage, names = reply.usage or Usage(), ", ".join([call.name for call in state.calls])
        lines.append(
            f'"event": "model", "step": {step}, "model": {_text(reply.model)}, "finish": {_text(reply.finish)}, '
            f'"calls": {_text(names)}, "input_tokens": {_number(usage.input)}, '
            f'"output_tokens": {_number(usage.output)}, "tokens": {_number(usage.total)}, '
            f'"run_tokens": {_number(state.usage.total)}, "cost": {_number(reply.cost)}, '
            f'"seconds": {state.counters.seconds - before.counters.seconds:.6f}'
        )
    notes = (*(reply.notes if reply else ()), *(decision.notes if decision else ()))
    return lines + [f'"event": "note", "step": {step}, "text": {_text(note)}' for note in notes]


def _of_stop(state: State, step: int) -> Line:
    told = f'"stop": "{state.stop}", "detail": {_text(state.detail)}, "answer": {_text(state.answer or "")}'
    return f'"event": "stop", "step": {step}, {told}, {_spent(state.counters)}'


def _of_error(state: State, error: Exception) -> Line:
    told = f'"error": {_text(type(error).__name__)}, "text": {_text(str(error))}'
    return f'"event": "error", "step": {state.counters.steps}, {told}, {_spent(state.counters)}'


def _spent(now: Counters) -> str:
    tokens = f'"tool_calls": {now.tool_calls}, "run_tokens": {_number(now.usage.total)}'
    return f'{tokens}, "cost": {_number(now.cost)}, "seconds": {now.seconds:.6f}'


def _now() -> str:
    """This moment in UTC, by ISO 8601, with milliseconds."""
    seconds, milliseconds = divmod(time_ns() // 1_000_000, 1_000)
    return f"{_second(seconds)}.{milliseconds:03}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _text(text: str) -> str:
    return _encode(mask(shorten(text, LONGEST))) if text else '""'


def _number(value: float | None) -> str:
    return "null" if value is None or not isfinite(value) else str(value)
