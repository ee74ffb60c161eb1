"""Tools that read inside one folder and cannot leave it: `read_text("data")` and `list_files("data")`.

A path is walked name by name from the open folder, and no link is followed on the way, so neither "..", nor a link, nor
a folder that is swapped for a link meanwhile leads out. Hidden files (their names begin with ".", as `.env` does) are
left alone unless `hidden=True`.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import NamedTuple

from agentnb.errors import ToolDefinitionError, ToolError
from agentnb.text import clean, counted, shorten
from agentnb.tools.charset import codec
from agentnb.tools.tool import Tool, ToolOptions

MOST_BYTES = 10_000_000
"""Read of one file."""
MOST_FILES = 500
"""Listed at once."""
_MOST_SEEN = 50_000
_MOST_CHARACTERS = 14_000
_BY_FD = os.open in os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_text(folder: str | Path, *, hidden: bool = False) -> Tool:
    """A tool `read_text(path, first_line, encoding)` for the text files of one folder.

    Args:
        folder: What is in it can be read, nothing else.
        hidden: Hidden files, too.

    Raises:
        ToolDefinitionError: There is no such folder.
    """
    inside = Folder.at(folder, hidden)

    def read(path: str, first_line: int = 1, encoding: str = "") -> str:
        """Read a text file.

        Args:
            path: Relative to the folder, such as "notes/today.md".
            first_line: Where to begin; a long file is read in pieces.
            encoding: Such as "gb18030" or "latin-1", where the file is not UTF-8 or UTF-16.
        """
        data, cut = inside.read(path)
        return _page(_decoded(data, cut, encoding, path), max(1, first_line), cut)

    return Tool(read, ToolOptions("read_text", f"Read a text file in the folder {inside.name!r}.", quoted=True))


def list_files(folder: str | Path, *, hidden: bool = False) -> Tool:
    """A tool `list_files(path, pattern)` for one folder; the arguments are those of `read_text`.

    Raises:
        ToolDefinitionError: There is no such folder.
    """
    inside = Folder.at(folder, hidden)

    def listed(path: str = ".", pattern: str = "*") -> str:
        """List files, with those in folders below.

        Args:
            path: A folder below it; "." is the whole.
            pattern: Names to list, such as "*.csv".
        """
        found = [each for each in inside.walk(path) if fnmatch(PurePath(each.path).name, pattern)]
        lines = [each.line for each in found[:MOST_FILES]] or ["(no files)"]
        more = [f"[and {len(found) - MOST_FILES:,} more: list a folder below, or give a pattern]"]
        return "\n".join(lines + (more if len(found) > MOST_FILES else []))

    about = f"List the files in the folder {inside.name!r}, with their sizes in bytes."
    return Tool(listed, ToolOptions("list_files", about, quoted=True))


class Found(NamedTuple):
    """One entry of a listing."""

    path: str
    size: int | None
    """Bytes; None for a link, which is not followed."""

    @property
    def line(self) -> str:
        """As it is shown; a name can't forge another line."""
        path = clean(self.path).replace("\n", "\\n").replace("\r", "\\r")
        return f"{path}  {self.size:,}" if self.size is not None else f"{path}  (a link, not followed)"


class Folder(NamedTuple):
    """A folder that nothing opened here can leave."""

    root: Path
    name: str
    hidden: bool

    @classmethod
    def at(cls, folder: str | Path, hidden: bool) -> Folder:
        """The folder as it is now.

        Raises:
            ToolDefinitionError: There is none.
        """
        root = Path(folder).expanduser().resolve()
        if not root.is_dir():
            what = f"there is no folder {str(folder)!r}"
            raise ToolDefinitionError(what, remedy="Make it first, or write the path from where you are.")
        return cls(root, str(folder), hidden)

    def read(self, path: str) -> tuple[bytes, bool]:
        """The bytes of a file, at most MOST_BYTES, and whether there are more.

        Raises:
            ToolError: It is no file in this folder.
        """
        opened = self._open(path)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise ToolError(f"{shorten(path)!r} is no file; list_files shows what there is")
        with os.fdopen(opened, "rb", closefd=True) as file:
            data = file.read(MOST_BYTES + 1)
        return data[:MOST_BYTES], len(data) > MOST_BYTES

    def walk(self, path: str) -> Iterator[Found]:
        """Every file below a folder, in order of their names.

        Raises:
            ToolError: There is no such folder here.
        """
        parts, seen = self._parts(path), 0
        top = self._open(path)
        try:
            if not stat.S_ISDIR(os.fstat(top).st_mode):
                raise ToolError(f"{shorten(path)!r} is no folder")
            for where, folders, files, fd in os.fwalk(".", dir_fd=top, follow_symlinks=False):
                folders[:] = sorted(each for each in folders if self._shown(each))
                for name in sorted(each for each in (*files, *folders) if self._shown(each)):
                    if (seen := seen + 1) > _MOST_SEEN:
                        return
                    about = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    if not stat.S_ISDIR(about.st_mode):
                        whole = PurePath(*parts, where, name).as_posix()
                        yield Found(whole, about.st_size if not stat.S_ISLNK(about.st_mode) else None)
        finally:
            os.close(top)

    def _open(self, path: str) -> int:
        """A file descriptor of what is there; no link is followed below the root."""
        parts = self._parts(path)
        here = os.open(self.root, os.O_RDONLY)
        for place, name in enumerate(parts):
            try:
                below = os.open(name, os.O_RDONLY | _NO_LINK, dir_fd=here)
            except OSError as error:
                so_far = "/".join(parts[: place + 1])
                raise ToolError(f"{shorten(so_far)!r} can't be opened: {_why(error)}") from error
            finally:
                os.close(here)
            here = below
        return here

    def _parts(self, path: str) -> tuple[str, ...]:
        """The names on the way, none of which leads up or out."""
        if not _BY_FD:
            raise ToolError("this system can't open a file without following links, so nothing is read")
        given = PurePath(path)
        if given.is_absolute() and given.is_relative_to(self.root):
            given = given.relative_to(self.root)
        if given.is_absolute() or ".." in given.parts or "\0" in path:
            raise ToolError(f"{shorten(path)!r} leads out of the folder; give a path inside it, such as 'notes/a.txt'")
        if unseen := [each for each in given.parts if not self._shown(each)]:
            raise ToolError(f"{shorten(unseen[0])!r} is hidden and is not read")
        return given.parts

    def _shown(self, name: str) -> bool:
        return self.hidden or not name.startswith(".")


def _why(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a link, and links are not followed"
    return error.strerror or type(error).__name__


def _decoded(data: bytes, cut: bool, encoding: str, path: str) -> str:
    encoding = encoding or next((name for bom, name in _BOMS.items() if data.startswith(bom)), "utf-8")
    try:
        found = codec(encoding)
        errors = "strict" if found == encoding else "replace"
        return codecs.getincrementaldecoder(found)(errors).decode(data, final=not cut)
    except (LookupError, ValueError) as error:
        if b"\0" in data[:8_000] and encoding == "utf-8":
            raise ToolError(f"{shorten(path)!r} is no text file ({len(data):,} bytes)") from error
        remedy = "Say which it is, such as encoding='gb18030' or encoding='latin-1'."
        raise ToolError(f"{shorten(path)!r} can't be read as {shorten(encoding)}. {remedy}") from error


def _page(text: str, first: int, cut: bool) -> str:
    """As many whole lines from there as have room, with a note where the rest is."""
    lines = text.splitlines()
    shown: list[str] = []
    room = _MOST_CHARACTERS
    for line in lines[first - 1 :]:
        room -= len(line) + len("> \n")
        if shown and room < 0:
            break
        shown.append(line)
    last = first - 1 + len(shown)
    if first > len(lines) and lines:
        return f"[the file has {counted(len(lines), 'line')}]"
    if first == 1 and last == len(lines) and not cut:
        return text
    rest = f"; first_line={last + 1} reads on" if last < len(lines) else "; the file is longer than can be read"
    end = "" if last == len(lines) and not cut else rest
    return "\n".join([*shown, f"[lines {first:,} to {last:,} of {len(lines):,}{'+' if cut else ''}{end}]"])
