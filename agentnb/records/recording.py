"""Record model calls and replay them: a lesson without a key, a test without a network, a run that costs nothing twice.

    with recording("weather.jsonl"):
        agent.run("...")

A recording stands at the door of every model call. It knows a request by its content and by how often it was asked
before since the recording began; tools really run in a replay. Blocks in other threads or tasks do not mix: a call in a
block of its own is answered there; a thread that has none is answered by whatever recording is open. Modes:

- auto     replays what matches, else asks the model and records; where no model is set up, a request that was asked
           before gets its recorded reply again
- replay   never asks the model; a request that is not recorded is an error that says what differs
- record   always asks; where a reply is another one now, what followed from the old one is left out
- off      always asks, records nothing

`AGENTNB_RECORDING` in the environment overrides the mode. A failed model call is not recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self

from agentnb import settings
from agentnb.core.model import Model, ModelReply, ModelRequest, Next, OnDelta, ask, doors
from agentnb.errors import AgentnbError, RecordingError, SettingsError, UsageError
from agentnb.records.canonical import tidy
from agentnb.records.misses import changed_tools, first_difference, nearest
from agentnb.records.recording_entry import Asked, Entry
from agentnb.records.recording_file import RecordingFile
from agentnb.records.replies import Pieces, Stream, play_pieces, reply_from_json, reply_to_json, same_reply

AGAIN = "asked once more than was recorded, and no model is set up: the recorded reply again"
MODES = ("auto", "replay", "record", "off")
_mine: ContextVar[tuple[Recording, ...]] = ContextVar("agentnb_recordings", default=())
"""The blocks that this thread or task stands in.

A recording is a block (`with recording(...)`, `_is_block`), which answers the work inside it and work that stands in no
block; or it is `_kept_open` by `use_recording`, and answers all work. `_is_of_others` tells them apart.
"""
_kept_open: list[Recording] = []
"""What `use_recording` opened: one, or none."""


class Recording:
    """A recording that is open: a door in front of every model call of this process.

    `replayed`, `recorded` and `asked` count the calls that it answered, those that it wrote down, and those that the
    model answered.
    """

    def __init__(self, path: str | os.PathLike[str], mode: str = "auto") -> None:
        self.path = Path(path)
        self.mode = _mode(mode)
        self.replayed = 0
        self.recorded = 0
        self.asked = 0
        self.on_new: Callable[[str], object] | None = None
        """Told once, in words, when the model answers what a file that holds something lacks (mode auto)."""
        self._failed = False
        self._is_block = False
        self._file: RecordingFile | None = None
        self._taken: dict[str, dict[Asked, set[int]]] = {}
        self._replaced: list[Entry] = []
        self._fresh: set[tuple[Asked, str, int]] = set()
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"<Recording {self.path} · {self.mode} · {self.replayed} replayed, {self.recorded} recorded>"

    @property
    def account(self) -> str:
        """Who has answered so far, in one line: "lesson.jsonl: 4 of 4 model calls replayed"."""
        total = self.replayed + self.asked
        live = f", {self.asked} answered by the model" if self.asked else ""
        return f"{self.path.name}: {self.replayed} of {total} model calls replayed{live}"

    def open(self, at_door: bool = True) -> Self:
        """Read the file and stand at the door, in front of the doors that are open.

        Args:
            at_door: False for a recording of one model alone, which calls `reply` itself.

        Raises:
            RecordingError: The file is damaged; or it is missing and the mode is "replay".
        """
        if self in doors:
            raise UsageError(f"this recording of {self.path} is open", layer="records", remedy="Make another one.")
        if self.mode != "off":
            if self.mode == "replay" and not self.path.exists():
                raise RecordingError(f"there is no recording {str(self.path)!r}", remedy=_RECORD_FIRST)
            self._file = RecordingFile(self.path)
        self._taken.clear()
        if at_door:
            doors.insert(0, self)
        return self

    def close(self, whole: bool = True) -> None:
        """Leave the door; after "record" the entries that are new take the place of the old ones.

        Args:
            whole: False after a failure: then nothing that was recorded before is dropped.
        """
        if self in doors:
            doors.remove(self)
        if self.mode == "record" and self._replaced and whole and not self._failed:
            self._drop_stale()

    def begin_again(self, name: str) -> None:
        """Count anew what the model of this name is asked: work that is done again gets the same replies."""
        with self._lock:
            self._taken.pop(tidy(name), None)

    def __enter__(self) -> Self:
        self._is_block = True
        self.open()
        _mine.set((*_mine.get(), self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        _mine.set(tuple(each for each in _mine.get() if each is not self))
        self._is_block = False
        self.close(whole=kind is None)

    async def reply(self, model: Model, request: ModelRequest, on_delta: OnDelta | None, onward: Next) -> ModelReply:
        """Answer from the recording, or let the model answer and write it down.

        Raises:
            RecordingError: In replay, when this request is not recorded.
        """
        if self._is_of_others():
            return await onward(request)
        if self._file is None:
            self._count("asked")
            return await onward(request)
        name = tidy(model.name or "")
        with self._lock:
            asked = self._file.asked(request)
            number = self._take(asked, name)
            entry = None if self.mode == "record" else self._file.find(asked, name, number)
        if entry is not None:
            return self._replay(entry, model, request, on_delta)
        versions = _versions(request)
        if self.mode == "replay":
            raise self._miss(asked, name, number, versions)
        try:
            reply, stream = await self._onward(model, request, on_delta, onward)
            with self._lock:
                self.asked += 1
                self._tell_new()
                self._keep(Entry(asked, name or tidy(reply.model), number, reply_to_json(reply), stream, versions))
        except BaseException as error:
            self._failed = True
            self._taken.get(name, {}).get(asked, set()).discard(number)
            if not isinstance(error, SettingsError):
                raise
            if (earlier := self._earlier(asked, name, number)) is None:
                raise self._miss(asked, name, number, versions, error) from error
            reply = self._replay(earlier, model, request, on_delta)
            return replace(reply, notes=(*reply.notes, AGAIN))
        return reply

    def _tell_new(self) -> None:
        """A reader must know that not all of what is shown was recorded."""
        tell, self.on_new = self.on_new, None
        if tell is not None and self.mode == "auto" and self._file is not None and self._file.entries:
            tell(f"not in {self.path}: the model answered, and its reply was added there")

    def _is_of_others(self) -> bool:
        """Whether this is another thread's or task's block, while the call stands in one of its own."""
        mine = _mine.get()
        return self._is_block and bool(mine) and self not in mine

    def _count(self, what: str) -> None:
        with self._lock:
            setattr(self, what, getattr(self, what) + 1)

    def _take(self, asked: Asked, name: str) -> int:
        """How often this was asked, this time included; the number of a call that failed is taken again."""
        taken = self._taken.setdefault(name, {}).setdefault(asked, set())
        number = next(number for number in range(1, len(taken) + 2) if number not in taken)
        taken.add(number)
        return number

    def _earlier(self, asked: Asked, name: str, number: int) -> Entry | None:
        """What was recorded when this was asked before: where no model can be reached, a cell still runs twice."""
        assert self._file is not None
        found = (self._file.find(asked, name, ask) for ask in range(number - 1, 0, -1))
        return next((entry for entry in found if entry is not None), None)

    def _replay(self, entry: Entry, model: Model, request: ModelRequest, on_delta: OnDelta | None) -> ModelReply:
        self._count("replayed")
        sent: Any = getattr(model, "sent", None)  # the models that speak over HTTP tell what they would send
        reply = reply_from_json(entry.reply, sent(request, on_delta is not None) if callable(sent) else request)
        if on_delta is not None:
            play_pieces(entry.stream, reply, on_delta)
        return reply

    async def _onward(
        self, model: Model, request: ModelRequest, on_delta: OnDelta | None, onward: Next
    ) -> tuple[ModelReply, Stream]:
        if on_delta is None:
            return await onward(request), None
        pieces = Pieces(on_delta)
        open_doors = list(doors)
        inner = open_doors[open_doors.index(self) + 1 :] if self in open_doors else []
        return await ask(model, request, pieces, inner), pieces.kept

    def _keep(self, entry: Entry) -> None:
        assert self._file is not None
        known = self._file.entries.get(entry.slot)
        if (
            known is None
            or not same_reply(known.reply, entry.reply)
            or entry.stream not in (None, known.stream)
            or changed_tools(known.versions, entry.versions)
        ):
            self._file.append(entry)
            self._replaced += [] if known is None else [known]
        self.recorded += 1
        self._fresh.add(entry.slot)

    def _drop_stale(self) -> None:
        """Leave out what followed from replies that are no longer there."""
        assert self._file is not None
        stale = self._file.only_after(self._replaced)
        self._file.rewrite(lambda entry: entry.slot in self._fresh or entry.asked.history not in stale)

    def _miss(
        self, asked: Asked, name: str, number: int, versions: dict[str, str], unasked: SettingsError | None = None
    ) -> AgentnbError:
        """Why no reply is recorded, in words; `unasked` tells why no model could be asked instead."""
        assert self._file is not None
        entry = nearest(self._file, asked, name)
        if entry is None:
            return unasked or RecordingError(f"{self.path} holds nothing yet", remedy=_RECORD_FIRST)
        told = [first_difference(self._file, entry, asked, name, number), *changed_tools(entry.versions, versions)]
        what = f"{self.path} holds no reply to this request. The nearest is on line {entry.line}; {'; '.join(told)}"
        if unasked is None:
            return RecordingError(what, remedy='Record it with mode="auto", or ask what was recorded.')
        return RecordingError(f"{what}. No model could be asked: {unasked.message}", remedy=unasked.remedy)


_RECORD_FIRST = 'Run once with mode="auto" and a model, which records it.'


def recording(path: str | os.PathLike[str], mode: str = "auto") -> Recording:
    """A recording for a `with` block: `with recording("weather.jsonl"): agent.run("...")`.

    Args:
        path: The file, JSON Lines; made when there is something to record.
        mode: "auto", "replay", "record" or "off".

    Raises:
        UsageError: The mode is none of these.
        SettingsError: AGENTNB_RECORDING is none of these.
    """
    return Recording(path, mode)


def use_recording(path: str | os.PathLike[str], mode: str = "auto") -> Recording:
    """Open a recording until `stop_recording()`, for a notebook; it takes the place of the one opened before."""
    made = Recording(path, mode).open()
    stop_recording()
    _kept_open.append(made)
    return made


def stop_recording() -> Recording | None:
    """Close what `use_recording` opened and return it; None when nothing is open."""
    if not _kept_open:
        return None
    closed = _kept_open.pop()
    closed.close()
    return closed


def active_recording() -> Recording | None:
    """The recording that answers first now; None when none is open."""
    return next((door for door in doors if isinstance(door, Recording)), None)


def _versions(request: ModelRequest) -> dict[str, str]:
    """Tool name to count and hash of the source behind it, for the tools that have a version."""
    told = {spec.name: spec.version.removeprefix(f"{spec.name}@") for spec in request.specs if spec.version}
    tidied: dict[str, str] = tidy(told)
    return tidied


def _mode(asked: str) -> str:
    if asked not in MODES:
        raise UsageError(f"mode={asked!r}, expected one of {', '.join(MODES)}", layer="records")
    chosen = settings.get("AGENTNB_RECORDING") or asked
    if chosen not in MODES:
        raise SettingsError(
            f"AGENTNB_RECORDING={chosen!r}, expected one of {', '.join(MODES)}",
            remedy="Remove it to use the mode that the code names.",
        )
    return chosen
