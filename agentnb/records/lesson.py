"""A lesson to hand out: one notebook that carries its recordings, so that it replays without any other file.

    make_lesson(path)     ──▶ the notebook's text, with a cell that holds the recordings that it opens
    unpack(name, text)    ──▶ what this cell does: put a recording where the notebook looks for it

A kernel does not know the file of its notebook, so nothing but a cell can bring a recording into it, in whatever front
end: plain text, which can be read and compared. Made again from the same files, a lesson has the same bytes.
"""

from __future__ import annotations

import argparse
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from agentnb import settings
from agentnb.errors import AgentnbError, RecordingError, UsageError
from agentnb.models.profiles import KEY_SETTINGS
from agentnb.records.canonical import encode
from agentnb.records.file_lock import appending
from agentnb.records.recording_file import FORMAT, RecordingFile
from agentnb.records.replies import same_reply
from agentnb.text import holds_key, mask

TAG = "agentnb-recording"
"""The tag of the cell with the recordings."""
NOTE = """## Before you begin

This lesson brings its recordings along: it needs no key, no model and no other file, only the package `agentnb-jupyter`
(0.1 or newer). The next cell writes the recordings into the current folder: run it, it need not be read."""
_HEAD = """#@title The recordings of this lesson: run this cell, there is no need to read it
from agentnb.records.lesson import unpack
"""
_FILE = re.compile(r"(?<=')[^'\n]+\.\w+(?=')|(?<=\")[^\"\n]+\.\w+(?=\")|[^\s'\"`()\[\]<>=,;]+\.\w+")
"""What may name a file: between quotes, or a word of a magic line."""
_LINK = re.compile(r"\]\(([^)#\s]+)")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A notebook that carries its recordings."""

    text: str
    """The file's content."""
    recordings: tuple[str, ...]
    """The recordings inside, by the names by which the notebook opens them."""
    left_out: tuple[str, ...]
    """Other files that the notebook names and that lie beside it: they do not come along."""


def unpack(name: str, text: str) -> None:
    """Make sure that this recording is there; what a recording of this name holds besides stays in it.

    One that has other replies to the same requests stays as it is, and a line says so.

    Raises:
        UsageError: The name leads out of the folder.
        RecordingError: The file can't be written, or what is there is damaged or no recording.
    """
    _check_inside(name)
    path = Path(name)
    try:
        lines = [line for line in text.encode().split(b"\n") if line]
        known = _whole_lines(path) if path.exists() else []
        if _are_others(_replies(lines), _replies(known)):
            print(
                f"{name} has other replies and stays as it is; for the lesson's own, rename it and run this cell again"
            )
        elif missing := _missing(lines, known):
            _append(path, missing)
    except (OSError, ValueError) as error:
        why = f"written: {error.strerror}" if isinstance(error, OSError) else "unpacked: the cell has been changed"
        raise RecordingError(f"{name} can't be {why}", remedy="Copy the lesson into a folder of your own.") from error


def _whole_lines(path: Path) -> list[bytes]:
    RecordingFile(path)  # raises where it is damaged, or something else
    *lines, last = path.read_bytes().split(b"\n")
    return [line for line in (*map(bytes.strip, lines), last if _is_json(last) else b"") if line]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _replies(lines: list[bytes]) -> dict[str, Any]:
    """The reply that counts for each question, model and repeat: the last one."""
    entries = (value for value in map(json.loads, lines) if "reply" in value)
    return {_slot(value): value["reply"] for value in entries}


def _slot(value: dict[str, Any]) -> str:
    return encode([value.get("request"), value.get("model", ""), value.get("ask")])


def _are_others(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    return any(not same_reply(theirs[slot], ours[slot]) for slot in theirs.keys() & ours.keys())


def _missing(lines: list[bytes], known: list[bytes]) -> list[bytes]:
    """The lines that say what no known line says, however it is written."""
    there = {encode(json.loads(line)) for line in known}
    answered = _replies(known)
    values = ((line, json.loads(line)) for line in lines)
    return [line for line, value in values if encode(value) not in there and _slot(value) not in answered]


def _append(path: Path, lines: list[bytes]) -> None:
    """Put them behind the whole lines; half a line, which a crash left, makes room."""
    with appending(path) as file, open(file.fileno(), "ab", closefd=False) as end:
        file.seek(0)
        *_, last = file.readall().split(b"\n")
        if not _is_json(last):
            file.truncate(file.tell() - len(last))
        end.write(b"".join((b"\n" if _is_json(last) else b"", *(line + b"\n" for line in lines))))


def make_lesson(path: Path) -> Lesson:
    """The notebook with the recordings that its cells open.

    Raises:
        UsageError: It is no notebook, is a lesson already, opens a recording outside its folder, or holds a key.
        RecordingError: A recording is damaged.
    """
    notebook = _notebook(path)
    code = [_source(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found = dict.fromkeys(word for text in code for word in _FILE.findall(text) if _is_there(path.parent / word))
    opened = [name for name in found if _is_recording(path.parent / name)]
    for name in opened:
        _check_inside(name)
    carried = {name: _recording(path.parent / name) for name in opened}
    notebook["metadata"]["agentnb"] = {"lesson": True}
    notebook["metadata"].pop("widgets", None)
    _check_secrets(notebook, carried)
    if carried:
        at = next(number for number, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code")
        notebook["cells"][at:at] = _cells(carried, ids=notebook.get("nbformat_minor", 0) >= 5)
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    others = (*(name for name in found if name not in carried), *_links(notebook))
    return Lesson(text, tuple(carried), tuple(dict.fromkeys(others)))


def _notebook(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        _ = [(cell["cell_type"], _source(cell)) for cell in found["cells"]]
        is_lesson = "lesson" in found["metadata"].get("agentnb", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no notebook of format 4"
        raise UsageError(f"{path} can't be read: {why}", layer="records", remedy="Name an .ipynb file.") from error
    if is_lesson:
        raise UsageError(f"{path} is a lesson already", layer="records", remedy="Hand it out, or name its source.")
    return found


def _source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name that a file can have
        return False


def _is_recording(path: Path) -> bool:
    with path.open("rb") as file:
        return FORMAT.encode() in file.readline(200)


def _recording(path: Path) -> str:
    return b"\n".join(_whole_lines(path)).decode("utf-8-sig")


def _check_inside(name: str) -> None:
    """Refuse a name that leads out of the folder, on whatever system."""
    parts = posixpath.normpath(name.replace("\\", "/")).split("/")
    if parts[0] == ".." or PureWindowsPath(name).anchor:
        raise UsageError(
            f"the recording {name!r} lies outside the notebook's folder, which no other machine has",
            layer="records",
            remedy="Open the recording by a path from the notebook's folder, such as recordings/lesson.jsonl.",
        )


def _cells(carried: dict[str, str], ids: bool) -> list[dict[str, Any]]:
    """A note for the reader, and the cell with the recordings; JupyterLab and Colab show it folded."""
    calls = "".join(f"\nunpack({name!r}, r'''\n{_quotable(text)}''')" for name, text in carried.items())
    folded = {"cellView": "form", "jupyter": {"source_hidden": True}, "tags": [TAG]}
    note: dict[str, Any] = {"cell_type": "markdown", "metadata": {}, "source": _lines(NOTE)}
    code: dict[str, Any] = {"cell_type": "code", "metadata": folded, "source": _lines(_HEAD + calls)}
    code |= {"execution_count": None, "outputs": []}
    return [{**note, "id": "agentnb-note"}, {**code, "id": TAG}] if ids else [note, code]


def _quotable(text: str) -> str:
    """The same JSON Lines, such that they can stand between triple quotes."""
    ended = text if text.endswith("\n") else text + "\n"
    return ended.replace("'''", r"\u0027" * 3)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _links(notebook: dict[str, Any]) -> Iterator[str]:
    """Files that the prose points to."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            yield from (link for link in _LINK.findall(_source(cell)) if not re.match(r"\w+:", link))


def _check_secrets(notebook: dict[str, Any], carried: dict[str, str]) -> None:
    """Refuse a lesson with a key in it; where it came from must be mended, not only the copy."""
    settings.hide_keys(KEY_SETTINGS, shortest=0)
    if where := next((place for place, value in _places(notebook, carried) if _has_key(value)), None):
        raise UsageError(
            f"there is a key in {where}",
            layer="records",
            remedy="Take it out (.env is the place for keys), run the notebook again, and change the key.",
        )


def _places(notebook: dict[str, Any], carried: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """All of a lesson in parts, each with its place as the author finds it."""
    for number, cell in enumerate(notebook["cells"], 1):
        yield f"cell {number}", cell
    for name, text in carried.items():
        for number, line in enumerate(text.split("\n"), 1):
            yield f"{name}, line {number}", json.loads(line or "null")
    yield "the notebook's metadata", {name: value for name, value in notebook.items() if name != "cells"}


def _has_key(value: Any) -> bool:
    return any(mask(text) != text or holds_key(text) for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, decoded; what a notebook keeps in lines, as lines and as a whole."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        yield "".join(each for each in value if isinstance(each, str))
        for each in value:
            yield from _texts(each)
    else:
        yield str(value)


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def command(words: Sequence[str]) -> int:
    """`python -m agentnb lesson NOTEBOOK [-o FILE]`: write the lesson and say what it holds. Returns 0.

    Raises:
        UsageError: The lesson can't be made, or something else would be overwritten.
    """
    parser = argparse.ArgumentParser(
        prog="python -m agentnb lesson",
        description="Make one notebook that carries its recordings: it replays wherever agentnb is installed.",
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK", help="the notebook, run and saved")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="NAME.lesson.ipynb here when not given")
    options = parser.parse_args(words)
    made = make_lesson(options.notebook)
    out = options.out or Path(f"{options.notebook.stem}.lesson.ipynb")
    _write(out / f"{options.notebook.stem}.lesson.ipynb" if out.is_dir() else out, made.text)
    print(f"carries {', '.join(made.recordings) or 'no recording: its cells open none'}")
    if made.left_out:
        print(f"left out, but named in it: {', '.join(made.left_out)}")
    return 0


def _write(path: Path, text: str) -> None:
    try:
        if path.exists() and not _is_lesson(path.read_bytes()):
            raise UsageError(f"{path} is there, and is no lesson", layer="records", remedy="Name another file with -o.")
        path.write_text(text, "utf-8", newline="\n")
    except OSError as error:
        raise AgentnbError(f"{path} can't be written: {error.strerror}", layer="records") from error
    print(f"{path}: {len(text.encode()):,} bytes")


def _is_lesson(content: bytes) -> bool:
    try:
        return json.loads(content)["metadata"]["agentnb"]["lesson"] is True
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
