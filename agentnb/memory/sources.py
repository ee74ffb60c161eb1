"""What a person named to be read, one by one: files, the files of folders, texts. Nothing else is ever opened.

    "docs"  Path("a.pdf")  ["b.md", "c.md"]  {"greeting": "Hello."}  "A text of several words."

A folder is searched for the kinds that readers know, without hidden files, and without links that lead out of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import Any

from agentnb.errors import AgentnbError, UsageError
from agentnb.memory.readers import READERS
from agentnb.text import clean, shorten

MOST_BYTES = 50_000_000
"""Of one file."""


@dataclass(frozen=True, slots=True)
class Source:
    """One document, before it is read."""

    key: str
    """Tells it from every other: the path from the folder of the database, or the name of a text."""
    name: str
    """As it is shown, to models too; it tells nothing of the folders above."""
    root: str
    """The key of what was named; a folder has many sources."""
    path: Path | None = None
    text: str = field(default="", repr=False)

    def data(self) -> bytes:
        """The bytes.

        Raises:
            AgentnbError: The file can't be read, or is too large.
        """
        if self.path is None:
            return self.text.encode()
        try:
            with self.path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise AgentnbError(f"can't be read ({error.strerror})", layer="memory") from None
        if len(data) > MOST_BYTES:
            raise AgentnbError(f"has more than {MOST_BYTES:,} bytes", layer="memory")
        return data


def sources(named: Any, home: Path) -> Iterator[Source]:
    """Every document that is meant.

    Args:
        named: A path, a text, a mapping of names to texts, or several of these.
        home: The folder from which paths are counted.

    Raises:
        UsageError: There is no such file, or it is none of these.
    """
    if isinstance(named, Mapping):
        yield from (_text(str(name), str(text)) for name, text in named.items())
    elif isinstance(named, Path) or (isinstance(named, str) and _is_path(named)):
        yield from _below(Path(named).expanduser(), home)
    elif isinstance(named, str) and named.strip():
        yield _text(f"text {blake2b(clean(named).encode(), digest_size=4).hexdigest()}", named)
    elif isinstance(named, Iterable) and not isinstance(named, str | bytes):
        for each in named:
            yield from sources(each, home)
    else:
        raise UsageError(
            f"{shorten(repr(named))} is no document", layer="memory", remedy='Give paths, texts, or {"name": "text"}.'
        )


def folders(named: Any, home: Path) -> set[str]:
    """The keys of the folders among what is named, also of those that are empty by now."""
    if isinstance(named, Path) or (isinstance(named, str) and _is_path(named)):
        path = Path(named).expanduser()
        return {_key(path, home)} if path.is_dir() else set()
    several = isinstance(named, Iterable) and not isinstance(named, str | bytes | Mapping)
    return {key for each in named for key in folders(each, home)} if several else set()


def _is_path(named: str) -> bool:
    """Whether a string names a file that is there; one that only looks like it must not become a text by mistake."""
    if not named.strip() or len(named) > 1_000 or "\n" in named or "\0" in named:
        return False
    if Path(named).expanduser().exists():
        return True
    looks = PurePath(named).suffix.lower() in READERS or (" " not in named and ("/" in named or "\\" in named))
    if looks:
        raise UsageError(f"there is no file {named!r}", layer="memory", remedy="A text goes in as {'name': 'text'}.")
    return False


def _text(name: str, text: str) -> Source:
    return Source(f"text:{name}", name, f"text:{name}", None, clean(text))


def _below(named: Path, home: Path) -> Iterator[Source]:
    """The file itself, or those of the folder."""
    if not named.exists():
        raise UsageError(f"there is no file {str(named)!r}", layer="memory", remedy="Check the path.")
    root = _key(named, home)
    if not (named.is_file() or named.is_dir()):
        raise UsageError(f"{str(named)!r} is neither a file nor a folder", layer="memory")
    if named.is_file():
        yield Source(root, _shown(named), root, named)
        return
    top = named.resolve()
    for folder, folders, files in os.walk(named):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for path in (Path(folder, each) for each in sorted(files)):
            if _wanted(path, top):
                yield Source(_key(path, home), f"{_shown(named)}/{path.relative_to(named).as_posix()}", root, path)


def _wanted(path: Path, top: Path) -> bool:
    known = path.suffix.lower() in READERS and not path.name.startswith(".")
    return known and path.is_file() and path.resolve().is_relative_to(top)


def _key(path: Path, home: Path) -> str:
    """The path from the database's folder, so that both can be moved together."""
    try:
        return Path(os.path.relpath(path.absolute(), home)).as_posix()
    except ValueError:  # another drive
        return path.absolute().as_posix()


def _shown(named: Path) -> str:
    """As the person wrote it where that stays inside the working folder, else the last part."""
    if named.is_absolute() or ".." in named.parts:
        return named.resolve().name or "/"
    return named.as_posix() if named.parts else Path.cwd().name
