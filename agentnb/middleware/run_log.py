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
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from io import FileIO
from pathlib import Path
from threading import Lock
from time import time_ns
from typing import Any
from uuid import uuid4
from weakref import finalize

from agentnb.core.middleware import Event, RunFailed, StateMade, StepStarted
from agentnb.core.state import State
from agentnb.errors import SettingsError
from agentnb.middleware.following import Following
from agentnb.text import mask, shorten

Line = dict[str, Any]
LONGEST = 200
"""Characters of a text in the log."""
_OWN = ("timestamp", "run", "event")
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


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
            self._write(self._runs.run_of(event), *_lines(event.state))
        elif isinstance(event, RunFailed):
            self._write(self._runs.run_of(event), _of_error(event.state, event.error))
        elif isinstance(event, StepStarted):
            self._runs.run_of(event)

    def _begin(self, base: State) -> str:
        self._let_go_of_a_file_that_is_gone()
        labels = {name: mask(value) if isinstance(value, str) else value for name, value in self.labels.items()}
        head = _encode({"run": uuid4().hex[:8], **labels})[1:-1]
        self._write(head, {"event": "start", "goal": _short(base.goal), "steps_before": base.counters.steps})
        return head

    def _write(self, head: str, *lines: Line) -> None:
        if lines:
            now = _now()
            text = "".join([f'{{"timestamp": "{now}", {head}, {_encode(line)[1:]}\n' for line in lines])
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


def _lines(state: State) -> Iterator[Line]:
    """What the making of this State is worth in the log."""
    step = state.counters.steps
    if state.kind == "plan":
        yield from _of_model_call(state, step)
    elif state.kind == "act":
        result = state.results[-1]
        about = {"tool": _short(result.name), "call": _short(result.call_id), "status": result.status}
        yield {
            "event": "tool",
            "step": step,
            **about,
            "seconds": round(result.seconds, 6),
            "result": _short(result.content),
        }
    elif state.kind == "say":
        yield {"event": "said", "step": step, "text": _short(state.added[-1].content or "")}
    if state.finished:
        yield _of_stop(state, step)


def _of_model_call(state: State, step: int) -> Iterator[Line]:
    decision, before = state.decision, state.parent
    reply = decision.reply if decision else None
    if reply is not None and before is not None:
        usage = reply.usage
        yield {
            "event": "model",
            "step": step,
            "model": _short(reply.model),
            "finish": reply.finish,
            "calls": _short(", ".join(call.name for call in state.calls)),
            "input_tokens": usage.input if usage else None,
            "output_tokens": usage.output if usage else None,
            "tokens": usage.total if usage else None,
            "run_tokens": state.usage.total,
            "cost": reply.cost,
            "seconds": round(state.counters.seconds - before.counters.seconds, 6),
        }
    for note in (*(reply.notes if reply else ()), *(decision.notes if decision else ())):
        yield {"event": "note", "step": step, "text": _short(note)}


def _of_stop(state: State, step: int) -> Line:
    told = {"stop": str(state.stop), "detail": _short(state.detail), "answer": _short(state.answer or "")}
    return {"event": "stop", "step": step, **told, **_spent(state)}


def _of_error(state: State, error: Exception) -> Line:
    about = {"error": type(error).__name__, "text": _short(str(error))}
    return {"event": "error", "step": state.counters.steps, **about, **_spent(state)}


def _spent(state: State) -> Line:
    now = state.counters
    tokens = {"tool_calls": now.tool_calls, "run_tokens": now.usage.total}
    return {**tokens, "cost": now.cost, "seconds": round(now.seconds, 6)}


def _now() -> str:
    """This moment in UTC, by ISO 8601, with milliseconds."""
    seconds, milliseconds = divmod(time_ns() // 1_000_000, 1_000)
    return f"{_second(seconds)}.{milliseconds:03}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _short(text: str) -> str:
    return mask(shorten(text, LONGEST))
