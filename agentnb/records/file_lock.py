"""A lock on a file between processes, where the system has one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: one append is one write there, too
    fcntl = None  # type: ignore[assignment]


def lock(file: int, shared: bool = False) -> None:
    """Wait until nobody else writes. Where there are no locks, one append is one write all the same."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except OSError:
            return


def unlock(file: int) -> bool:
    """Whether the file may stay open; where it would be in the way of others, it may not."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_UN)
    except OSError:
        return False
    return True


@contextmanager
def appending(path: Path) -> Iterator[FileIO]:
    """The file, made when it is missing, open to read and to append while nobody else writes.

    One that another process put in its place while we waited is opened anew.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with open(path, "a+b", buffering=0) as file:
            lock(file.fileno())
            if _is_still(file, path):
                yield file
                return


def put_in_place(new: Path, file: FileIO, path: Path) -> None:
    """Let a new file take the place of the one that is open, or of the one that a link leads to, at once."""
    if fcntl is None:
        file.close()  # Windows replaces no open file
    os.replace(new, os.path.realpath(path))


def _is_still(file: FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
