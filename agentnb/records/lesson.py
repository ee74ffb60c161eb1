"""A lesson to hand out: one notebook that carries its recordings, so that it replays without any other file.

    make_lesson(path)     ──▶ the notebook's text, with a cell that holds the recordings that it opens
    unpack(name, text)    ──▶ what this cell does: put a recording where the notebook looks for it

A kernel does not know the file of its notebook, so nothing but a cell can bring a recording into it, in whatever front
end: plain text, which can be read and compared. Made again from the same files, a lesson has the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentnb import settings
from agentnb.errors import AgentnbError, RecordingError, UsageError
from agentnb.models.profiles import PROFILES
from agentnb.records.recording_file import FORMAT, RecordingFile
from agentnb.text import mask

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
_KEY = re.compile(r"(?<![\w-])(?:sk-|gsk_|ghp_|github_pat_|hf_|xai-|AIza|AKIA)[\w-]{16,}")
"""What the keys of well-known services look like."""


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
    """Make sure that this recording is there; what a file of this name holds besides stays in it.

    Raises:
        RecordingError: The file can't be written.
    """
    path = Path(name)
    try:
        known = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
        missing = _missing(text, set(known.split("\n")))
        if missing:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(("\n" if known and not known.endswith("\n") else "") + missing)
    except OSError as error:
        raise RecordingError(
            f"{name} can't be written: {error.strerror}", remedy="Copy the lesson into a folder of your own."
        ) from error


def _missing(text: str, known: set[str]) -> str:
    return "".join(f"{line}\n" for line in text.split("\n") if line and line not in known)


def make_lesson(path: Path) -> Lesson:
    """The notebook with the recordings that its cells open.

    Raises:
        UsageError: It is no notebook, is a lesson already, opens a recording by an absolute path, or holds a key.
        RecordingError: A recording is damaged.
    """
    notebook = _notebook(path)
    code = [_source(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    notebook["metadata"]["agentnb"] = {"lesson": True}
    notebook["metadata"].pop("widgets", None)
    found = dict.fromkeys(word for text in code for word in _FILE.findall(text) if _is_there(path.parent / word))
    carried = {name: _recording(path.parent / name) for name in found if _is_recording(path.parent / name)}
    _check_relative(carried)
    if carried:
        at = next(number for number, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code")
        notebook["cells"][at:at] = _cells(carried, ids=notebook.get("nbformat_minor", 0) >= 5)
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    _check_secrets(notebook, text)
    others = (*(name for name in found if name not in carried), *_links(notebook))
    return Lesson(text, tuple(carried), tuple(dict.fromkeys(others)))


def _notebook(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        _ = [(cell["cell_type"], _source(cell)) for cell in found["cells"]]
        is_lesson = "lesson" in found["metadata"].get("agentnb", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
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
    RecordingFile(path)  # raises where it is damaged
    return path.read_text("utf-8")


def _check_relative(carried: dict[str, str]) -> None:
    for name in carried:
        if Path(name).is_absolute():
            raise UsageError(
                f"the notebook opens {name!r}, which no other machine has",
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


def _check_secrets(notebook: dict[str, Any], text: str) -> None:
    """Refuse a lesson with a key in it; where it came from must be mended, not only the copy."""
    for name in {name for profile in PROFILES.values() for name in profile.keys}:
        settings.secret(name)  # from here on `mask` knows it
    if mask(text) == text and not _KEY.search(text):
        return
    numbered = enumerate(notebook["cells"], 1)
    where = [number for number, cell in numbered if _holds_key(json.dumps(cell, ensure_ascii=False))]
    raise UsageError(
        f"there is a key in {f'cell {where[0]}' if where else 'the notebook'}",
        layer="records",
        remedy="Take it out (.env is the place for keys), run the notebook again, and change the key.",
    )


def _holds_key(text: str) -> bool:
    return mask(text) != text or _KEY.search(text) is not None


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
    if path.exists() and '"lesson": true' not in path.read_text("utf-8", "replace"):
        raise UsageError(f"{path} is there, and is no lesson", layer="records", remedy="Name another file with -o.")
    try:
        path.write_text(text, "utf-8", newline="\n")
    except OSError as error:
        raise AgentnbError(f"{path} can't be written: {error.strerror}", layer="records") from error
    print(f"{path}: {len(text.encode()):,} bytes")
