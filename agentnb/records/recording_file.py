"""The file of a recording: JSON Lines that a person can read, each conversation stored once.

    {"format": "agentnb recording", "version": 1}
    {"id": "5a…", "message": {"content": "Be brief.", "role": "system"}}
    {"after": "5a…", "id": "9c…", "message": {"content": "2 + 3?", "role": "user"}}
    {"id": "77…", "tool": {"description": "Add two numbers.", "name": "add", "parameters": {…}}}
    {"ask": 1, "model": "openai:gpt-5-mini", "reply": {…}, "request": {"messages": "9c…", "tools": ["77…"]},
     "tool_versions": {"add": "1·3fa9c1d0"}}

A request names its last message; `after` leads from there to the first. Lines are appended whole and flushed, so a
crash costs at most the line in flight; before that, what others appended is read, so several blocks and processes may
record into one file. A later line for the same request, model and `ask` replaces an earlier one. The tool versions are
no part of the question: they explain, where a replay finds another one, what may have changed it.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.core.model import ModelRequest
from agentnb.errors import RecordingError
from agentnb.records.canonical import START, Conversations, canonical_parameters, digest, encode, tidy
from agentnb.records.file_lock import appending, lock, put_in_place
from agentnb.records.recording_entry import Asked, Entry, entry_to_json
from agentnb.records.replies import reply_from_json
from agentnb.text import mask, shorten

FORMAT = "agentnb recording"
VERSION = 1


class _Seen(NamedTuple):
    """How far a file is known."""

    place: tuple[int, int]
    """Which file it is."""
    whole: int
    """Bytes up to the end of the last whole line."""
    size: int
    tail: bytes
    """The last bytes of the whole lines, by which a file that grew is told from one that was changed."""


_NOTHING = _Seen((0, 0), 0, 0, b"")
_TAIL = 200


class RecordingFile:
    """Everything in one recording file, and the only writer of it.

    Args:
        path: A missing file is an empty recording; the first entry makes it.

    Raises:
        RecordingError: The file is damaged, or is no recording.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.conversations = Conversations()
        self.values: dict[str, tuple[str, dict[str, Any]]] = {}
        """Tools and schemas by id: what it is ("tool", "schema") and its content."""
        self.entries: dict[tuple[Asked, str, int], Entry] = {}
        self.by_request: dict[Asked, list[tuple[Asked, str, int]]] = {}
        self._written: set[str] = set()
        self._lines = 0
        self._known = False
        self._ended = True
        self._seen = _NOTHING
        if path.exists():
            self._read_whole()

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def asked(self, request: ModelRequest) -> Asked:
        """The request by ids; its content is kept under them."""
        return Asked(
            self.conversations.id_of(request),
            tuple(self._value("tool", spec.wire["function"]) for spec in request.specs),
            None if request.schema is None else self._value("schema", request.schema),
            encode(canonical_parameters(request.parameters)),
        )

    def find(self, asked: Asked, model: str, ask: int) -> Entry | None:
        """The entry for this request, asked for the `ask`-th time; `model` "" means any."""
        for slot in self.by_request.get(asked, ()):
            if slot[2] == ask and (not model or slot[1] in ("", model)):
                return self.entries[slot]
        return None

    def only_after(self, former: Iterable[Entry]) -> set[str]:
        """The ids of the messages that followed from replies of these entries, and from none that is there."""
        former = tuple(former)
        asked = {entry.asked.history for entry in former}
        there = (entry for entry in self.entries.values() if entry.asked.history in asked)
        gone, kept = ({name for entry in entries for name in self._replied(entry)} for entries in (former, there))
        return self.conversations.following(gone - kept)

    def _replied(self, entry: Entry) -> set[str]:
        return self.conversations.replied(entry.asked.history, reply_from_json(entry.reply, None))

    def _value(self, kind: str, content: Any) -> str:
        content = tidy(content)
        name = digest([kind, content])
        self.values.setdefault(name, (kind, content))
        return name

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def append(self, entry: Entry) -> None:
        """Write one entry, with what it refers to and the file does not hold yet.

        Raises:
            RecordingError: The file can't be written.
        """
        written: set[str] = set()
        try:
            with appending(self.path) as file:
                self._catch_up(file)
                new = [] if self._known else [_header()]
                new += self._lines_for(entry, written, self._written)
                self._append(file, new)
        except OSError as error:
            raise RecordingError(f"{self.path} can't be written: {error.strerror}") from error
        self._known = True
        self._written |= written
        self._lines += len(new)
        self._take(entry, self._lines)

    def _append(self, file: FileIO, lines: list[str]) -> None:
        if self._seen.whole < self._seen.size:
            file.truncate(self._seen.whole)
        content = "".join(("" if self._ended else "\n", *(line + "\n" for line in lines))).encode()
        _write_whole(file, content)
        self._ended = True
        self._see(file, self._seen.whole + len(content), content)

    def rewrite(self, keep: Callable[[Entry], bool]) -> None:
        """Replace the file at once by one that holds only the entries that are to be kept.

        Raises:
            RecordingError: The file can't be written, or is damaged.
        """
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with appending(self.path) as file:
                self._catch_up(file)
                written: set[str] = set()
                lines = [_header()]
                for entry in filter(keep, self.entries.values()):
                    lines += self._lines_for(entry, written)
                beside.write_bytes(("\n".join(lines) + "\n").encode())
                put_in_place(beside, file, self.path)
        except OSError as error:
            raise RecordingError(f"{self.path} can't be written: {error.strerror}") from error

    def _lines_for(self, entry: Entry, written: set[str], before: Set[str] = frozenset()) -> Iterator[str]:
        """The entry's line after those that it refers to and that are neither `written` nor were `before`."""
        asked = entry.asked
        for name in self._new_messages(asked.history, written, before):
            after, message = self.conversations.messages[name]
            yield encode({"id": name, "message": message, **({"after": after} if after else {})})
        for name in (*asked.tools, *([asked.schema] if asked.schema else [])):
            if name not in written and name not in before:
                written.add(name)
                kind, content = self.values[name]
                yield encode({"id": name, kind: content})
        yield encode(entry_to_json(entry))

    def _new_messages(self, name: str, written: set[str], before: Set[str]) -> list[str]:
        names = []
        while name != START and name not in written and name not in before:
            names.append(name)
            written.add(name)
            name = self.conversations.messages[name][0]
        return names[::-1]

    def _take(self, entry: Entry, line: int) -> None:
        entry = replace(entry, line=line)
        if entry.slot not in self.entries:
            self.by_request.setdefault(entry.asked, []).append(entry.slot)
        self.entries[entry.slot] = entry

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_whole(self) -> None:
        try:
            with open(self.path, "rb", buffering=0) as file:
                lock(file.fileno(), shared=True)
                self._catch_up(file)
        except OSError as error:
            raise RecordingError(f"{self.path} can't be read: {error.strerror}") from error

    def _catch_up(self, file: FileIO) -> None:
        """Read what the file holds beyond what is known of it; all of it when it is another one."""
        seen, size = self._seen, os.fstat(file.fileno()).st_size
        if _place(file) == seen.place and size == seen.size:
            return
        self._seen = _NOTHING  # should reading fail, all is read again
        start = seen.whole if self._ended and _goes_on(file, seen) else 0
        if not start:
            self._forget()
        file.seek(start)
        content = file.readall()
        half = self._read(content)
        self._see(file, start + len(content) - half, content)

    def _see(self, file: FileIO, whole: int, content: bytes) -> None:
        """Note how far the file is known; `content` is what stands at its end."""
        size = os.fstat(file.fileno()).st_size
        end = len(content) - (size - whole)
        self._seen = _Seen(_place(file), whole, size, content[max(0, end - _TAIL) : end])

    def _forget(self) -> None:
        self.entries.clear()
        self.by_request.clear()
        self._written.clear()
        self._lines, self._known, self._ended = 0, False, True

    def _read(self, content: bytes) -> int:
        """Read these lines; how many bytes of the last one are but half a line."""
        *lines, last = content.split(b"\n")
        for line in lines:
            self._read_line(line)
        return self._read_last(last) if last else 0

    def _read_last(self, last: bytes) -> int:
        """A whole line that only lacks its end counts; half a line is cut off by the next entry."""
        try:
            json.loads(last)
        except (ValueError, RecursionError):
            text = shorten(mask(last.decode(errors="replace")), 60)
            warnings.warn(f"{self.path}: the last line is half written and set aside: {text}", stacklevel=8)
            return len(last)
        self._read_line(last)
        self._ended = False
        return 0

    def _read_line(self, line: bytes) -> None:
        self._lines += 1
        if not line.strip():
            return
        try:
            self._understand(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RecordingError(
                f"{self.path}, line {self._lines} can't be read: {_why(error)}",
                remedy="Restore the file, or delete it and record again.",
            ) from error

    def _understand(self, value: dict[str, Any]) -> None:
        if not self._known or "format" in value:  # two processes may have begun one file
            _check_header(value)
            self._known = True
        elif "message" in value:
            name = self.conversations.add(self._known_message(value.get("after", START)), value["message"])
            self._written.add(_checked(name, value["id"]))
        elif "tool" in value or "schema" in value:
            kind = "tool" if "tool" in value else "schema"
            self._written.add(_checked(self._value(kind, value[kind]), value["id"]))
        else:
            self._take(self._entry_from_json(value), self._lines)

    def _known_message(self, name: str) -> str:
        if name != START and name not in self.conversations.messages:
            raise ValueError(f"there is no message {name!r} before it")
        return name

    def _entry_from_json(self, value: dict[str, Any]) -> Entry:
        request = value["request"]
        for name in (*request.get("tools", ()), *([request["schema"]] if "schema" in request else [])):
            if name not in self.values:
                raise ValueError(f"there is no tool or schema {name!r} before it")
        asked = Asked(
            self._known_message(request["messages"]),
            tuple(request.get("tools", ())),
            request.get("schema"),
            encode(request.get("parameters", {})),
        )
        reply_from_json(value["reply"], None)
        about = (value.get("model", ""), value["ask"], value["reply"], value.get("stream"))
        return Entry(asked, *about, {**value.get("tool_versions", {})})


def _place(file: FileIO) -> tuple[int, int]:
    now = os.fstat(file.fileno())
    return now.st_dev, now.st_ino


def _goes_on(file: FileIO, seen: _Seen) -> bool:
    """Whether the file still begins with what was read."""
    if _place(file) != seen.place:
        return False
    file.seek(seen.whole - len(seen.tail))
    return file.read(len(seen.tail)) == seen.tail


def _write_whole(file: FileIO, data: bytes) -> None:
    """Write all of it, or leave the file as it was: half a line in the middle would spoil the rest."""
    size = os.fstat(file.fileno()).st_size
    try:
        while data:
            data = data[file.write(data) :]
    except BaseException:
        file.truncate(size)
        raise


def _header() -> str:
    return encode({"format": FORMAT, "version": VERSION})


def _check_header(value: Any) -> None:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ValueError("it is not a recording")
    if value.get("version") != VERSION:
        raise ValueError(f"it has version {value.get('version')!r}, this agentnb reads version {VERSION}")


def _checked(name: str, written: str) -> str:
    if name != written:
        raise ValueError(f"its id is {written!r}, its content has the id {name!r}; was it changed by hand?")
    return name


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"{type(error).__name__} {error}" if isinstance(error, KeyError | AttributeError) else str(error)
