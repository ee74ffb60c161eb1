"""Task records out of JSON Lines, CSV and DataFrames: each a dict with the place where it stands.

Nothing is guessed: a file is UTF-8 (or UTF-16 with its mark) unless `encoding` says otherwise, and a line that can't be
read is an error that names the file and the line.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from agentnb.errors import UsageError
from agentnb.text import shorten

JSON_LINES = (".jsonl", ".ndjson")
TABLES = (".csv", ".tsv")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, slots=True)
class Record:
    """A task as it was given."""

    place: str
    """Where it stands, for errors: "tasks.csv line 3"."""
    content: Any
    """A dict, or a Task already."""


def records_from_file(path: str | PathLike[str], encoding: str | None) -> list[Record]:
    """The records of a .jsonl, .ndjson, .csv or .tsv file.

    Raises:
        UsageError: It is missing, is of another kind, or a line can't be read.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in (*JSON_LINES, *TABLES):
        raise wrong(
            f"can't read tasks from {str(path)!r}",
            f"End the name in {', '.join((*JSON_LINES, *TABLES))}; goals themselves go in a list.",
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise wrong(f"can't read {str(path)!r}: {error.strerror}") from error
    text = _decoded(data, path.name, encoding)
    return _json_lines(text, path.name) if kind in JSON_LINES else _table(text, path.name, None)


def records_from_text(text: str, name: str, goal: str) -> list[Record]:
    """The records of a cell: JSON Lines, CSV whose head names the goal, else one goal a line."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.lstrip().startswith("{"):
        return _json_lines(text, name)
    if any(goal in _cells(first, delimiter) for delimiter in _DELIMITERS):
        return _table(text, name, goal)
    return [Record(place, {"goal": line.strip()}) for place, line in _lines(text, name)]


def records_from_frame(frame: Any) -> list[Record]:
    """The rows of a pandas DataFrame; a missing cell is None, a number of numpy is a plain one."""
    names = [str(name) for name in frame.columns]
    rows = zip(frame.index, frame.itertuples(index=False, name=None), strict=True)
    return [
        Record(f"row {number} of the table (index {label!r})", dict(zip(names, map(_plain, row), strict=True)))
        for number, (label, row) in enumerate(rows, 1)
    ]


def _plain(value: Any) -> Any:
    """A cell as a plain Python value."""
    plain = value.item() if hasattr(value, "item") and not getattr(value, "shape", ()) else value
    missing = type(plain).__name__ in ("NAType", "NaTType") or (isinstance(plain, float) and plain != plain)
    return None if missing else plain


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _decoded(data: bytes, name: str, encoding: str | None) -> str:
    chosen = encoding or ("utf-16" if data.startswith(_UTF16) else "utf-8-sig")
    try:
        return data.decode(chosen)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise wrong(
            f"{name} line {line} is not {chosen.removesuffix('-sig').upper()} (byte 0x{data[error.start]:02x})",
            "Name its encoding, such as encoding='cp1252' or encoding='gb18030', or save it as UTF-8.",
        ) from error
    except LookupError as error:
        raise wrong(f"there is no encoding {encoding!r}", "Such as encoding='cp1252'.") from error


def _lines(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Every line that is not blank, with its place. Only \\n ends a line: JSON strings may hold U+2028."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{name} line {number}", line


def _json_lines(text: str, name: str) -> list[Record]:
    return [Record(place, _json_object(line, place)) for place, line in _lines(text, name)]


def _json_object(line: str, place: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise wrong(f"{place} is not JSON ({error}): {shorten(line)!r}", "Write one JSON object a line.") from error
    if not isinstance(value, dict):
        raise wrong(f"{place} holds {shorten(line)!r}, expected a JSON object", 'Such as {"id": "t1", "goal": "..."}.')
    return value


def _table(text: str, name: str, goal: str | None) -> list[Record]:
    """The rows under the head line; an empty cell is None. A quoted cell may hold line ends."""
    head_line = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = _delimiter(head_line, goal)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    head: list[str] | None = None
    records: list[Record] = []
    end = 0
    try:
        for cells in reader:
            place, end = f"{name} line {end + 1}", reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if head is None:
                head = _head(cells, place)
            else:
                records.append(Record(place, _row(head, cells, place)))
    except csv.Error as error:
        raise wrong(f"{name} line {reader.line_num}: {error}", "Check the quotes, or use JSON Lines.") from error
    return records


def _delimiter(head: str, goal: str | None) -> str:
    """What parts the head line into most cells; where the goal's column is known, into one of that name."""
    fitting = [each for each in _DELIMITERS if goal in _cells(head, each)] or list(_DELIMITERS)
    return max(fitting, key=lambda each: len(_cells(head, each)))


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:
        return []


def _head(cells: list[str], place: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise wrong(f"{place} names the column {twice[0]!r} twice")
    return names


def _row(head: list[str], cells: list[str], place: str) -> dict[str, Any]:
    if len(cells) > len(head):
        raise wrong(
            f"{place} has {len(cells)} cells, the head line has {len(head)}",
            "Put cells that hold a comma or a quote into double quotes.",
        )
    cells = cells + [""] * (len(head) - len(cells))
    return {name: cell if cell.strip() else None for name, cell in zip(head, cells, strict=True) if name}


def wrong(what: str, remedy: str = "") -> UsageError:
    """The error of a task set that can't be used."""
    return UsageError(what, layer="comparison", remedy=remedy)
