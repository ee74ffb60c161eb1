"""A lock on a file between processes, where the system has one."""

from __future__ import annotations

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
