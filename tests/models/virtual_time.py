"""An event loop whose time is its own: whoever sleeps is woken at once, in order, and the clock says that time passed."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _NoWait(selectors.SelectSelector):
    """Instead of waiting it moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        """What is ready now."""
        found = super().select(0)
        if not found and timeout:
            self.now += timeout
        assert found or timeout is not None, "everybody waits for somebody else"
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its `time` is that of the sleepers."""

    def __init__(self) -> None:
        self._virtual = _NoWait()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds since it was made."""
        return self._virtual.now


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """The result of this work, in no time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def now() -> float:
    """The running loop's time."""
    return asyncio.get_running_loop().time()
