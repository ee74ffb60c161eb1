"""The folder of a comparison: what is finished stays finished, whatever ends the process.

    units.jsonl                          one line a unit, under 1 kB, appended when the unit is finished
    record.jsonl                         one line a call: versions, models, parameters, hashes (see `record`)
    log.jsonl                            what happened, round by round, with variant, task and repeat on each line
    <task>.<variant>.<repeat>.answer.txt     or .error.txt
    <task>.<variant>.<repeat>.<key>.run.jsonl    the transcript, for `load`

A unit's files are written first and its line last, so a line means that all is there. A line counts only for a unit
with the same keys; the last of several counts. One process at a time may write here.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.comparison.scores import Outcome
from agentnb.comparison.table import Row
from agentnb.comparison.units import Unit
from agentnb.errors import RecordingError, UsageError
from agentnb.records.canonical import tidy
from agentnb.text import shorten

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HEADER = '{"format": "agentnb comparison", "version": 1}\n'
LONGEST_LINE = 1_000
"""Bytes, with the line end."""
_TEXTS = ("explanation", "detail", "answer")
_LENGTHS = (160, 80, 40, 0)
_APART = ("goal", "expected", "metadata")
"""Columns that come from the task set."""


class Entry(NamedTuple):
    """What is known of a finished unit without reading its line."""

    outcome: Outcome
    attempt: int


class Store:
    """The open folder; `close` it.

    Args:
        folder: Made when it is missing.

    Raises:
        UsageError: Another process writes here, or these are other files.
        RecordingError: A line is damaged; nothing is changed.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / "units.jsonl"
        self.log = self.folder / "log.jsonl"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise RecordingError(f"{self.folder} can't be written: {error.strerror}") from error
        try:
            self._lock()
            self.known = dict(self._read())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others write here."""
        os.close(self._file)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another comparison is writing in {self.folder}", layer="comparison", remedy="Wait for it, or stop it."
            ) from None
        except OSError:
            return  # a file system without locks

    def _read(self) -> Iterator[tuple[str, Entry]]:
        """Both keys to Entry for each line; the end of the file is put right."""
        for _, told in read_lines(self.path, half=self._cut):
            yield told["key"] + told["scoring"], Entry(Outcome(told["outcome"]), told.get("attempt", 1))
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if not size or file.read() != b"\n":
                os.write(self._file, b"\n" if size else HEADER.encode())

    def _cut(self, offset: int, half: bytes) -> None:
        """Set half a line at the end aside."""
        with (self.folder / "units.damaged.txt").open("ab") as file:
            file.write(half + b"\n")
        os.ftruncate(self._file, offset)
        warnings.warn(
            f"{self.path}: the last line was half written; it is set aside and its unit is run again", stacklevel=2
        )

    def done(self, unit: Unit) -> Entry | None:
        """The finished and scored run of this unit; None when it has none."""
        return self.known.get(unit.key + unit.scoring)

    @property
    def end(self) -> int:
        """Bytes in the file of units."""
        return os.fstat(self._file).st_size

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def finish(self, unit: Unit, row: Row) -> None:
        """Write the unit's answer file and then its line; both are handed to the system before this returns."""
        self._write_answer(unit, row)
        line = unit_line(unit, row)
        if os.write(self._file, line) != len(line):
            raise RecordingError(f"{self.path} can't be written: the disk is full")

    def _write_answer(self, unit: Unit, row: Mapping[str, Any]) -> None:
        answered = row["answer"] is not None
        kinds = ("answer", "error") if answered else ("error", "answer")
        path, other = (self.folder / f"{unit.file_name}.{kind}.txt" for kind in kinds)
        text = row["answer"] if answered else f"{row['stop'] or row['outcome']}: {row['detail'] or row['explanation']}"
        head = {name: row[name] for name in ("task", "variant", "repeat", "outcome")}
        path.write_text(f"{json.dumps(head, ensure_ascii=False)}\n\n{text}\n", "utf-8")
        other.unlink(missing_ok=True)

    def append(self, name: str, content: bytes) -> None:
        """Add whole lines to another file of the folder."""
        with (self.folder / name).open("ab") as file:
            file.write(content)


def unit_line(unit: Unit, row: Mapping[str, Any]) -> bytes:
    """The line of a finished unit: its keys and its row, texts cut until it fits; what is None is left out."""
    kept = {name: value for name, value in row.items() if name not in _APART and value not in (None, "")}
    kept |= {"task": shorten(unit.task.id, 100), "variant": unit.variant.name}
    for length in _LENGTHS:
        cut = {
            name: shorten(kept[name], length) if length else "" for name in _TEXTS if len(kept.get(name, "")) > length
        }
        told = {"key": unit.key, "scoring": unit.scoring, **kept, **cut, **({"cut": sorted(cut)} if cut else {})}
        line = (json.dumps(tidy(told), ensure_ascii=False, separators=(",", ":")) + "\n").encode()
        if len(line) < LONGEST_LINE:
            break
    return line


def read_lines(path: Path, end: int | None = None, half: Any = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of `units.jsonl` but the header, each with the byte at which it begins.

    Args:
        path: The file.
        end: Stop at this byte.
        half: Called with the place and the bytes of half a line at the end; None leaves it alone.

    Raises:
        UsageError: It is another file.
        RecordingError: A line is damaged; the error names it.
    """
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if offset == end:
                return
            try:
                told = json.loads(line)
                if number == 1:
                    _check_header(path, told)
                else:
                    told["key"], told["scoring"], Outcome(told["outcome"])
                    yield offset, told
            except (ValueError, TypeError, KeyError) as error:
                if line.endswith(b"\n"):
                    raise RecordingError(
                        f"{path}, line {number} can't be read: {type(error).__name__}",
                        remedy="Restore the file, or take out this line: its unit is then run again.",
                    ) from error
                if half is not None:
                    half(offset, line)
                return
            offset += len(line)


def _check_header(path: Path, told: Any) -> None:
    if not isinstance(told, dict) or told.get("format") != "agentnb comparison":
        raise UsageError(f"{path} is no file of a comparison", layer="comparison", remedy="Give another folder.")
    if told.get("version") != 1:
        raise UsageError(f"{path} was written by a newer agentnb", layer="comparison", remedy="Update agentnb.")
