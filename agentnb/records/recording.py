"""Record model calls and replay them: a lesson without a key, a test without a network, a run that costs nothing twice.

    with recording("weather.jsonl"):
        agent.run("...")

A recording stands at the door of every model call. It knows a request by its content and by how often it was asked
before since the recording began; tools really run in a replay. Modes:

- auto     replays what matches, else asks the model and records; where no model is set up, a request that was asked
           before gets its recorded reply again
- replay   never asks the model; a request that is not recorded is an error that says what differs
- record   always asks, and rewrites the conversations that were asked
- off      always asks, records nothing

`AGENTNB_RECORDING` in the environment overrides the mode. A failed model call is not recorded.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

from agentnb import settings
from agentnb.core.model import Model, ModelReply, ModelRequest, Next, OnDelta, ask, doors
from agentnb.errors import RecordingError, SettingsError, UsageError
from agentnb.records.canonical import tidy
from agentnb.records.misses import first_difference, nearest
from agentnb.records.recording_file import Asked, Entry, RecordingFile
from agentnb.records.replies import Pieces, Stream, play_pieces, reply_from_json, reply_to_json, same_reply

AGAIN = "asked once more than was recorded, and no model is set up: the recorded reply again"
MODES = ("auto", "replay", "record", "off")


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
        self._failed = False
        self._file: RecordingFile | None = None
        self._taken: dict[tuple[Asked, str], set[int]] = {}
        self._rewritten: set[tuple[str, str]] = set()
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

    def open(self) -> Self:
        """Read the file and stand at the door, in front of the doors that are open.

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
        doors.insert(0, self)
        return self

    def close(self, whole: bool = True) -> None:
        """Leave the door; after "record" the entries that were rewritten take the place of the old ones.

        Args:
            whole: False after a failure: then nothing that was recorded before is dropped.
        """
        if self in doors:
            doors.remove(self)
        if self.mode == "record" and self._fresh and whole and not self._failed:
            self._drop_stale()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self.close(whole=kind is None)

    async def reply(self, model: Model, request: ModelRequest, on_delta: OnDelta | None, onward: Next) -> ModelReply:
        """Answer from the recording, or let the model answer and write it down.

        Raises:
            RecordingError: In replay, when this request is not recorded.
        """
        if self._file is None:
            self.asked += 1
            return await onward(request)
        name = tidy(model.name or "")
        with self._lock:
            asked = self._file.asked(request)
            number = self._take(asked, name)
            entry = None if self.mode == "record" else self._file.find(asked, name, number)
        if entry is not None:
            return self._replay(entry, request, on_delta)
        if self.mode == "replay":
            raise self._miss(asked, name, number)
        try:
            reply, stream = await self._onward(model, request, on_delta, onward)
            self.asked += 1
        except BaseException as error:
            self._failed = True
            self._taken[asked, name].discard(number)
            earlier = self._earlier(asked, name, number) if isinstance(error, SettingsError) else None
            if earlier is None:
                raise
            reply = self._replay(earlier, request, on_delta)
            return replace(reply, notes=(*reply.notes, AGAIN))
        with self._lock:
            self._keep(Entry(asked, name or tidy(reply.model), number, reply_to_json(reply), stream))
        return reply

    def _take(self, asked: Asked, name: str) -> int:
        """How often this was asked, this time included; the number of a call that failed is taken again."""
        taken = self._taken.setdefault((asked, name), set())
        number = next(number for number in range(1, len(taken) + 2) if number not in taken)
        taken.add(number)
        return number

    def _earlier(self, asked: Asked, name: str, number: int) -> Entry | None:
        """What was recorded when this was asked before: where no model can be reached, a cell still runs twice."""
        assert self._file is not None
        found = (self._file.find(asked, name, ask) for ask in range(number - 1, 0, -1))
        return next((entry for entry in found if entry is not None), None)

    def _replay(self, entry: Entry, request: ModelRequest, on_delta: OnDelta | None) -> ModelReply:
        self.replayed += 1
        reply = reply_from_json(entry.reply, request)
        if on_delta is not None:
            play_pieces(entry.stream, reply, on_delta)
        return reply

    async def _onward(
        self, model: Model, request: ModelRequest, on_delta: OnDelta | None, onward: Next
    ) -> tuple[ModelReply, Stream]:
        if on_delta is None:
            return await onward(request), None
        pieces = Pieces(on_delta)
        inner = doors[doors.index(self) + 1 :] if self in doors else []
        return await ask(model, request, pieces, inner), pieces.kept

    def _keep(self, entry: Entry) -> None:
        assert self._file is not None
        self.recorded += 1
        self._fresh.add(entry.slot)
        self._rewritten.add((entry.asked.history, entry.model))
        known = self._file.entries.get(entry.slot)
        if known is None or not same_reply(known.reply, entry.reply) or entry.stream not in (None, known.stream):
            self._file.append(entry)

    def _drop_stale(self) -> None:
        """Leave out what followed from replies that are no longer there."""
        file = RecordingFile(self.path)
        kept = [entry for entry in file.entries.values() if not self._is_stale(entry, file)]
        file.rewrite(kept)

    def _is_stale(self, entry: Entry, file: RecordingFile) -> bool:
        if entry.slot in self._fresh:
            return False
        return any((name, entry.model) in self._rewritten for name in file.conversations.path(entry.asked.history))

    def _miss(self, asked: Asked, name: str, number: int) -> RecordingError:
        assert self._file is not None
        entry = nearest(self._file, asked, name)
        if entry is None:
            return RecordingError(f"{self.path} holds nothing yet", remedy=_RECORD_FIRST)
        difference = first_difference(self._file, entry, asked, name, number)
        return RecordingError(
            f"{self.path} holds no reply to this request. The nearest is on line {entry.line}; {difference}",
            remedy='Record it with mode="auto", or ask what was recorded.',
        )


_RECORD_FIRST = 'Run once with mode="auto" and a model, which records it.'
_standing: list[Recording] = []


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
    _standing.append(made)
    return made


def stop_recording() -> Recording | None:
    """Close what `use_recording` opened and return it; None when nothing is open."""
    if not _standing:
        return None
    closed = _standing.pop()
    closed.close()
    return closed


def active_recording() -> Recording | None:
    """The recording that answers first now; None when none is open."""
    return next((door for door in doors if isinstance(door, Recording)), None)


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
