"""Runs inside a saved notebook: the output of a cell carries the run that it shows, and gives it back.

    run_record(state, room)   ──▶ lines for the output's metadata, at most about `room` bytes
    runs_in_notebook(path)    ──▶ one State per run: most cells hold one, a cell of several agents each of theirs

The lines are those of a run file, each State after its parent, without ids and times. Where the room does not do, what
was sent is left out first, then long texts are cut, at last the oldest steps go; what was left out says so, and a run
that lacks something of its conversation can be read but not gone on with (`check_runnable`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentnb.core.messages import user
from agentnb.core.model import Prompt
from agentnb.core.state import State
from agentnb.errors import RecordingError, UsageError
from agentnb.records.request_json import (
    can_be_told,
    frame_from_json,
    frame_to_json,
    request_from_json,
    request_of,
    same_frame,
    tell_conversation,
    was_asked,
)
from agentnb.records.run_lines import BAD, FORMAT, VERSION
from agentnb.records.runnable import LEFT_OUT, PARTLY
from agentnb.records.state_back import state_from_json
from agentnb.records.state_json import Json, leave_out, spelled, state_to_json
from agentnb.text import bound

_LONG = (4_000, 1_000, 300)
_LINE_BYTES = 30
_LEAST_LINE = 80
_NOT_KEPT = ("seconds", "tool_seconds", "model_seconds", "traceback", "error")


# ── into a notebook ──────────────────────────────────────────────────────────────────────────────────────────────────


def run_record(state: State, room: int) -> Json:
    """The run as JSON for the metadata of an output.

    Args:
        state: The last State of the run.
        room: Bytes in the saved notebook.

    Returns:
        `format`, `version`, `lines` (the same for the same run) and `seconds` of each line (never the same).
    """
    path: Sequence[State] = state.path() if state.counters.steps * _LEAST_LINE < room else ()
    for longest, requests in ((None, True), (None, False), *((long, False) for long in _LONG)) if path else ():
        lines = _within(room, _told(path, longest, requests))
        if lines is not None:
            break
    else:
        lines, path = _newest(state, room)
    seconds = [round(each.counters.seconds, 3) for each in path]
    return {"format": FORMAT, "version": VERSION, "lines": lines, "seconds": seconds}


def _within(room: int, lines: Iterator[str]) -> list[str] | None:
    kept = []
    for line in lines:
        kept.append(line)
        room -= _cost(line)
        if room < 0:
            return None
    return kept


def _cost(line: str) -> int:
    """Bytes in the file, with the time that belongs to the line."""
    return len(json.dumps(line, ensure_ascii=False).encode()) + _LINE_BYTES


def _told(path: Sequence[State], longest: int | None, requests: bool) -> Iterator[str]:
    frames: list[Any] = []
    for state in path:
        told, aside = state_to_json(state)
        kept = {name: value for name, value in aside.items() if name not in _NOT_KEPT}
        sent = request_of(state)
        if sent is not None and requests and tell_conversation(sent, state, kept) and can_be_told(sent):
            number = next((n for n, frame in enumerate(frames) if same_frame(sent, frame)), len(frames))
            if number == len(frames):
                frames.append(sent)
                yield spelled({"frame": frame_to_json(sent)})
            kept["request"] = number
        elif was_asked(state):
            leave_out(kept, "request")
        if longest is not None:
            told, kept = _cut(told, kept, longest)
            if state.parent is None:
                told["added"] = [{"origin": PARTLY, **message} for message in told.get("added", ())]
        yield spelled({"state": told, **({"aside": kept} if kept else {})})


def _cut(told: Json, aside: Json, longest: int) -> tuple[Json, Json]:
    """Long texts cut, and the notes that say so; provider's own messages and values go."""
    decision = told.get("decision", {})
    slim = {**told, "decision": {**decision, "reply": _without_raw(decision["reply"])}} if "reply" in decision else told
    short = _shortened(slim, longest)
    if short == slim and len(spelled(told)) <= longest:
        return told, aside
    if "decision" in short:
        short["decision"]["notes"] = [*decision.get("notes", ()), LEFT_OUT]
    elif "result" in short:
        short["result"]["notes"] = [*told["result"].get("notes", ()), LEFT_OUT]
    for message in short.get("added", ()):
        message["origin"] = LEFT_OUT
    if "value" in aside:
        del aside["value"]
        leave_out(aside, "value")
    return short, aside


def _without_raw(reply: Json) -> Json:
    return {name: value for name, value in reply.items() if name not in ("raw", "origin")}


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return bound(value, longest)
    if isinstance(value, dict):
        return {name: _shortened(each, longest) for name, each in value.items()}
    return [_shortened(each, longest) for each in value] if isinstance(value, list | tuple) else value


def _newest(state: State, room: int) -> tuple[list[str], list[State]]:
    """As many of the newest States as have room, after a first one that stands for all before them."""
    kept: deque[tuple[str, State]] = deque()
    while state.parent is not None:
        line = _shortest(state)
        room -= _cost(line)
        if room < _cost(_shortest(_stands_for(state.parent))):
            break
        kept.appendleft((line, state))
        state = state.parent
    first = _stands_for(state)
    return [_shortest(first), *(line for line, _ in kept)], [first, *(each for _, each in kept)]


def _shortest(state: State) -> str:
    return next(_told([state], _LONG[-1], False))


def _stands_for(state: State) -> State:
    """A State without parents that says what had been reached."""
    goal = replace(user(bound(state.goal, _LONG[-1])), origin=LEFT_OUT)
    return replace(state, parent=None, kind="start", added=(goal,), prompt=Prompt((goal,)), end=1, decision=None)


# ── out of a notebook ────────────────────────────────────────────────────────────────────────────────────────────────


def runs_in_notebook(path: Path) -> tuple[State, ...]:
    """The runs that the outputs of a notebook hold, one State each, in the order of the cells and of their outputs.

    A run that a later output of its cell goes on from is in that one.

    Raises:
        UsageError: There is no such file, or it is no notebook.
        RecordingError: A record in it is damaged, or of a newer version.
    """
    cells = _cells(path)
    found = []
    for number, cell in enumerate(cells, 1):
        found += [_state_of(record, f"{path}, cell {number}") for record in _ends([*_records(cell)])]
    return tuple(found)


def _ends(records: Sequence[Any]) -> list[Any]:
    """The records that no later one goes on from."""
    told = [[*_lines(record)] for record in records]
    later = [told[number + 1 :] for number in range(len(told))]
    goes_on = [any(each[: len(lines)] == lines for each in more) for lines, more in zip(told, later, strict=True)]
    return [record for record, further in zip(records, goes_on, strict=True) if not further]


def _lines(record: Any) -> Sequence[Any]:
    lines = record.get("lines") if isinstance(record, dict) else None
    return lines if isinstance(lines, list) and lines else (record,)


def _cells(path: Path) -> list[Any]:
    try:
        notebook = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {str(path)!r}", layer="records", remedy="Look at the path.") from error
    except OSError as error:
        raise RecordingError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        notebook = None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        told = f"{path} is no notebook of format 4"
        raise UsageError(told, layer="records", remedy="Save it again in Jupyter.")
    return cells


def _records(cell: Any) -> Iterator[Any]:
    """The records in the outputs of a cell."""
    outputs = cell.get("outputs") if isinstance(cell, dict) else None
    for output in outputs if isinstance(outputs, list) else ():
        metadata = output.get("metadata") if isinstance(output, dict) else None
        ours = metadata.get("agentnb") if isinstance(metadata, dict) else None
        if isinstance(ours, dict):
            several = ours.get("runs")
            yield from [ours["run"]] if "run" in ours else several if isinstance(several, list) else ()


def _state_of(record: Any, where: str) -> State:
    try:
        if record["format"] != FORMAT or record["version"] > VERSION:
            told = f"{where} holds a run of version {record['version']!r}, this agentnb knows {VERSION}"
            raise RecordingError(told, remedy="Update agentnb.")
        return _read(record["lines"], record.get("seconds", ()))
    except BAD as error:
        told = f"{where}: the run in its output can't be read: {type(error).__name__} {error}"
        raise RecordingError(told, remedy="Run the cell again.") from error


def _read(lines: Sequence[str], seconds: Sequence[float]) -> State:
    state: State | None = None
    frames: list[Any] = []
    times, before = iter(seconds), 0.0
    for line in map(json.loads, lines):
        if "frame" in line:
            frames.append(frame_from_json(line["frame"]))
            continue
        aside, now = line.get("aside", {}), next(times, before)
        frame = frames[aside["request"]] if "request" in aside else None
        request = request_from_json(frame, state, aside) if frame and state else None
        state = state_from_json(state, line["state"], {**aside, "seconds": now - before}, request)
        before = now
    if state is None:
        raise ValueError("it has no lines")
    return state
