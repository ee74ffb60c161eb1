"""Run files: every State of a run on a line of its own, so that a run outlives the process that made it.

    save(run, "run.jsonl")                               these States and all they grew from
    load("run.jsonl")                                    the State saved last; load_all("run.jsonl"): every run in it
    Agent(..., middleware=[Saving("run.jsonl")])         each State as it is made, each call before it runs

A State is known by a digest of its parent's digest and of what it added, so branches share their lines and a file gains
only what is new. A line is appended at once, under a lock where the system has one, and handed to the operating system
before the run goes on: when the process dies nothing but the line in flight is lost. (A power failure may take more:
nothing waits for the disk.) Secrets are masked. Nothing in a file is ever executed.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import time_ns
from typing import Any
from weakref import finalize

from agentnb.core.messages import ToolCall
from agentnb.core.state import State
from agentnb.errors import RecordingError, UsageError
from agentnb.records.file_lock import lock, unlock
from agentnb.records.request_json import (
    can_be_told,
    frame_to_json,
    request_of,
    same_frame,
    tell_conversation,
    was_asked,
)
from agentnb.records.run_lines import HEADER, Lines, check_refers, digest
from agentnb.records.run_tree import RunTree
from agentnb.records.runnable import came_from_file
from agentnb.records.state_json import leave_out, spelled, state_to_json

_APPENDING = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
_RECENT = 256
_FRAMES = 8
_FILES = 8
_open_files: OrderedDict[str, RunFile] = OrderedDict()
_opening = threading.Lock()


def save(run_or_runs: State | Iterable[State], path: str | os.PathLike[str]) -> None:
    """Write one or several States, with all they grew from; an existing file gains only what is new.

    Args:
        run_or_runs: The last one is what `load` gives; `load_all` gives every run where it ended.
        path: JSON Lines; the file and its folder are made when they are missing.

    Raises:
        UsageError: These are no States, or the file is no run file of ours.
        RecordingError: The file is damaged, or can't be written.
    """
    states = tuple(run_or_runs) if isinstance(run_or_runs, Iterable) else (run_or_runs,)
    if not states or not all(isinstance(each, State) for each in states):
        raise UsageError("only States can be saved", layer="records", remedy="save(run, path), or save([a, b], path).")
    _file(Path(path)).save(states)


def load(path: str | os.PathLike[str]) -> Any:
    """The State that was saved last, with all it grew from; of a notebook a tuple of the runs in its cells.

    Several runs in one file: `load_all(path)` gives each.

    A call that was running when the process died is answered "cancelled, may have taken effect", so that going on does
    not run it again. Tools are not needed to load; where an agent goes on without some that the run has used, the log
    names them once, and an open call whose tool is missing is refused.

    Raises:
        UsageError: There is no such file, or it holds no run.
        RecordingError: A line of it is damaged; the error names it.
    """
    path = Path(path)
    if path.suffix == ".ipynb":
        from agentnb.records.notebook_runs import runs_in_notebook

        return tuple(map(came_from_file, runs_in_notebook(path)))
    return came_from_file(RunTree(path).newest())


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class RunFile:
    """One run file, and what this process knows of it: which States it holds, so that a step costs the same always."""

    def __init__(self, path: Path) -> None:
        if path.suffix == ".ipynb":
            raise UsageError(f"{path} is a notebook", layer="records", remedy='Save to a file such as "run.jsonl".')
        self.path = path
        self._name = os.fspath(path)
        self._lock = threading.Lock()
        self._file: int | None = None
        self._recent: OrderedDict[int, tuple[State, str]] = OrderedDict()
        self._frames: list[tuple[Any, str]] = []
        self._lines = Lines(path)
        self._seen: tuple[int, ...] = ()
        """Device, inode and length of the file as it was left."""
        self._since = self._until = 0
        """When it changed last: its time is in between. After a write that is known no closer without asking again."""
        self._asks_again = False
        """The file system has a clock of its own, so it is asked after each write."""
        self._process = os.getpid()
        self._ids: set[str] = set()
        self._last = ""

    def save(self, states: Iterable[State], by_loop: bool = False) -> None:
        """Append what the file does not hold yet; `by_loop`: the loop has just made these States."""
        self._append(lambda: self._told(states, by_loop))

    def begin(self, call: ToolCall, state: State | None) -> None:
        """Note that a call of this State is about to run, after the State itself where the file lacks it."""
        self._append(lambda: [*(self._told_one(state) if state else ()), self._begun(call, state)])

    def holds(self, state: State) -> bool:
        """Whether this State was saved a short while ago."""
        return id(state) in self._recent

    def _append(self, tell: Callable[[], Iterable[str]]) -> None:
        """Write what `tell` says, with the file locked and all known that others wrote into it."""
        with self._lock:
            try:
                file = self._locked()
                if new := [*tell()]:
                    self._write(file, new)
            except BaseException as error:
                self._seen = ()  # what is known may go beyond what was written
                self._release()
                if isinstance(error, OSError):
                    raise RecordingError(f"{self.path} can't be written: {error.strerror}") from error
                raise
            if not unlock(file):
                self._release()

    def _locked(self) -> int:
        """The file, open and locked; one that was put in its place meanwhile is opened anew."""
        if self._process != os.getpid():  # a fork shares the open file with its parent, and so the lock
            self._process, self._seen = os.getpid(), ()
            self._release()
        file = self._open() if self._file is None else self._file
        lock(file)
        now = _stamp(self._name)
        if now and now[:3] == self._seen:
            if self._since <= now[3] <= self._until:
                self._since = self._until = now[3]
                return file
            self._asks_again = True
        if now[:2] != _stamp(file)[:2]:
            self._release()
            file = self._open()
            lock(file)
        self._catch_up(file)
        return file

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = file = os.open(self._name, _APPENDING, 0o666)
        self._closing = finalize(self, os.close, file)
        return file

    def _release(self) -> None:
        if self._file is not None:
            self._file = None
            self._closing()

    def _catch_up(self, file: int) -> None:
        """Read what the file holds beyond what is known of it."""
        now = _stamp(file)
        with open(self.path, "rb") as content:
            grown = now[:2] == self._seen[:2] and now[2] > self._seen[2] and self._lines.go_on(content)
            if not grown:
                self._forget()
            for told in self._lines.read(content):
                self._lines.understand(self._know, told)
        self._seen, self._since, self._until = now[:3], now[3], now[3]

    def _forget(self) -> None:
        self._recent.clear()
        self._frames.clear()
        self._ids.clear()
        self._lines, self._last = Lines(self.path), ""

    def _know(self, told: dict[str, Any]) -> None:
        check_refers(told, self._ids)
        if "id" in told:
            self._ids.add(told["id"])
        self._last = told["id"] if "state" in told else told.get("last", self._last)

    def _write(self, file: int, new: list[str]) -> None:
        """One write of whole lines; what stands half written at the end gives way."""
        lines = self._lines
        if lines.end < self._seen[2]:
            os.ftruncate(file, lines.end)
        head = ["\n"] if lines.unended else [] if lines.end else [HEADER, "\n"]
        content = "".join([*head, "\n".join(new), "\n"]).encode()
        _write(file, content)
        lines.wrote(content, len(new) + (not lines.number))
        self._seen, self._until = (*self._seen[:2], lines.end), time_ns()
        if self._asks_again:
            self._since = self._until = _stamp(file)[3]

    def _begun(self, call: ToolCall, state: State | None) -> str:
        after = self._recent[id(state)][1] if id(state) in self._recent else None
        return spelled({"begun": call.id, "name": call.name, **({"after": after} if after else {})})

    def _told(self, states: Iterable[State], by_loop: bool) -> Iterator[str]:
        """The lines for these States and all they grew from, as far as the file lacks them."""
        for state in states:
            yield from self._told_one(state, by_loop)
            if self._last != (last := self._recent[id(state)][1]):
                self._last = last
                yield spelled({"last": last})

    def _told_one(self, state: State, by_loop: bool = False) -> Iterator[str]:
        new, known = [], state
        while id(known) not in self._recent:
            new.append(known)
            if known.parent is None:
                break
            known = known.parent
        after = self._recent.get(id(known), (None, ""))[1]
        for each in reversed(new):
            inner = _nested_run(each)
            if inner is not None:
                yield from self._told_one(inner)
            nested = self._recent[id(inner)][1] if inner is not None else ""
            told, aside = state_to_json(each, nested, by_loop and each is state)
            yield from self._frame(each, aside)
            content, rest = _spelled_apart(told, aside)
            name = digest(after + content)
            if name not in self._ids:
                parent = f'"after":"{after}",' if after else ""
                yield f'{{"id":"{name}",{parent}"state":{content}{rest}}}'
                self._ids.add(name)
                self._last = name
            self._remember(each, name)
            after = name

    def _remember(self, state: State, name: str) -> None:
        self._recent[id(state)] = state, name
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)

    def _frame(self, state: State, aside: dict[str, Any]) -> list[str]:
        """Note in `aside` what stood around the conversation that was sent; the line for it, when it is new."""
        if state.decision is None:
            return []
        sent = request_of(state)
        told = sent is not None and tell_conversation(sent, state, aside)
        for frame, name in self._frames if told else ():
            if same_frame(sent, frame):
                aside["request"] = name
                return []
        if not told or not can_be_told(sent):
            if was_asked(state):
                leave_out(aside, "request")
            return []
        content = spelled(frame_to_json(sent))
        aside["request"] = name = digest(content)
        self._frames = [*self._frames[1 - _FRAMES :], (sent, name)]
        new = [] if name in self._ids else [f'{{"id":"{name}","frame":{content}}}']
        self._ids.add(name)
        return new


def _nested_run(state: State) -> State | None:
    """The run behind the newest result, where a tool gave one."""
    value = state.results[-1].value if state.kind == "act" and state.results else None
    return value if isinstance(value, State) else None


def _spelled_apart(told: dict[str, Any], aside: dict[str, Any]) -> tuple[str, str]:
    """The JSON of what counts, and of what stands aside with its comma; both at once, which takes less time."""
    if not aside:
        return spelled(told), ""
    text = spelled({"state": told, "aside": aside})
    if text.count(_ASIDE) > 1:  # a value with such a field of its own
        return spelled(told), _ASIDE + spelled(aside)
    place = text.index(_ASIDE)
    return text[len('{"state":') : place], text[place:-1]


_ASIDE = ',"aside":'


def _write(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


def _stamp(file: int | str) -> tuple[int, ...]:
    """What tells whether a file is still the one we know: where it is, how long, when changed; () when gone."""
    try:
        now = os.stat(file)
    except FileNotFoundError:
        return ()
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def _file(path: Path) -> RunFile:
    """What this process knows of this file, from the last time or from now on."""
    key = os.path.abspath(path)
    with _opening:
        file = _open_files.pop(key, None) or RunFile(path)
        _open_files[key] = file
        if len(_open_files) > _FILES:
            _open_files.popitem(last=False)
    return file
