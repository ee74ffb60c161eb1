"""What became of a process, for tests of tools that start some."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def soon(holds: Callable[[], bool]) -> bool:
    """Whether it holds within ten seconds."""
    end = time.monotonic() + 10
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()
