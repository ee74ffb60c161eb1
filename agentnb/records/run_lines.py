"""The lines of a run file: a header, then JSON objects, read one by one and checked.

    {"format": "agentnb run", "version": 1}
    {"id": ..., "frame": {...}}                                        what stood around the conversation of a request
    {"id": ..., "after": ..., "state": {...}, "aside": {...}}          a State; `after` is its parent
    {"begun": ..., "name": ..., "after": ...}                          a call is about to run
    {"last": ...}                                                      a State that the file held was saved again

An id is a digest of what stands in `after` and `state` (or `frame`): a line that was changed by hand is noticed. What
a reader does not know it leaves aside, as long as the version is the same.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from agentnb.errors import RecordingError, UsageError
from agentnb.text import clean, mask, shorten

FORMAT = "agentnb run"
VERSION = 1
HEADER = json.dumps({"format": FORMAT, "version": VERSION})
_LONGEST_HEADER = 4_000
_TAIL = 2_000
BAD = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, AssertionError)


def digest(content: str) -> str:
    """A short name for this content: 16 hex digits."""
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


class Lines:
    """Reads a run file, also from where it ended before.

    Raises, while reading:
        UsageError: It is no run file, or one of a newer version.
        RecordingError: A line is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        """Lines read so far."""
        self.end = 0
        """Bytes up to the end of the last whole line."""
        self.unended = False
        """The last line is whole but for its line end."""
        self._tail = b""

    def wrote(self, content: bytes, lines: int) -> None:
        """These whole lines were appended."""
        self.end, self.number, self.unended = self.end + len(content), self.number + lines, False
        self._tail = content[-_TAIL:]

    def go_on(self, file: BinaryIO) -> bool:
        """Whether the file still begins with what was read: its last bytes stand where they stood."""
        file.seek(self.end - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def read(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        """Every further line but the header. Half a line at the end is set aside, with a warning."""
        file.seek(self.end)
        if not self.number and not self._has_header(file.readline(_LONGEST_HEADER)):
            return
        for line in file:
            if not line.endswith(b"\n") and self._is_half(line):
                return
            self.number += 1
            if line.strip():
                yield self.understand(_checked, line)
            self.end, self._tail = self.end + len(line), line[-_TAIL:]
            self.unended = not line.endswith(b"\n")

    def understand(self, read: Callable[[Any], Any], told: Any) -> Any:
        """What `read` makes of the line; its failures name the line."""
        try:
            return read(told)
        except BAD as error:
            why = str(error) if type(error) is ValueError else f"{type(error).__name__} {error}"
            raise RecordingError(
                f"{self.path}, line {self.number} can't be read: {mask(shorten(clean(why)))}",
                remedy="Restore the file, or take out this line and all after it.",
            ) from error

    def _has_header(self, line: bytes) -> bool:
        if not line or HEADER.encode().startswith(line):  # the process died while it wrote the first line
            return False
        version = _version(line)
        if version is None:
            raise UsageError(f"{self.path} is no run file", layer="records", remedy="save(run, path) makes one.")
        if version > VERSION:
            told = f"{self.path} was written by a newer agentnb (version {version}, this one knows {VERSION})"
            raise UsageError(told, layer="records", remedy="Update agentnb, or use another file.")
        self.number, self.end, self.unended = 1, len(line), not line.endswith(b"\n")
        self._tail = line
        return True

    def _is_half(self, line: bytes) -> bool:
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            text = shorten(mask(line[:200].decode(errors="replace")), 60)
            warnings.warn(f"{self.path}: the last line is half written and set aside: {text}", stacklevel=7)
            return True
        return False


def check_refers(told: Mapping[str, Any], ids: Container[str]) -> None:
    """Whether what a line refers to stands before it.

    Raises:
        ValueError: A line is missing; the error says which.
    """
    aside = told.get("aside", {}) if "state" in told else {}
    names = [told.get("after"), *map(aside.get, ("request", "run"))] if "state" in told or "begun" in told else []
    for name in (*names, told.get("last")):
        if name and name not in ids:
            raise ValueError(f"a line that it refers to, with the id {name!r}, is missing before it")


def _version(line: bytes) -> int | None:
    """The version in a header; None where it is none."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or told.get("format") != FORMAT or type(told.get("version")) is not int:
        return None
    return int(told["version"])


def _checked(line: bytes) -> dict[str, Any]:
    """The object in a line, whose id is what its content says."""
    text = line.decode()
    told = _decoder.decode(text)
    if not isinstance(told, dict):
        raise ValueError("it is no object")
    if "id" in told:
        start = text.index("{", 1)
        content = text[start : _decoder.raw_decode(text, start)[1]]
        if digest(told.get("after", "") + content) != told["id"]:
            raise ValueError("its id does not fit its content; was it changed by hand?")
    return told


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse)
