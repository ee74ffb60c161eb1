"""How far a batch has come: counts, rate and an estimate, told to whoever shows them.

Nothing is shown where nobody looks: a terminal gets one line that changes, a notebook whatever `display` was set to,
a program that runs notebooks or tests nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agentnb.comparison.scores import Outcome

_PAUSE_SECONDS = 0.25
FAILED = frozenset((Outcome.ERROR, Outcome.SCORE_ERROR, Outcome.TIMEOUT, Outcome.REFUSED, Outcome.EMPTY, Outcome.LIMIT))
"""Outcomes that count as failed: there is no answer, or no score of it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it has come."""

    total: int
    kept: int = 0
    """Finished in an earlier call."""
    done: int = 0
    """Finished now, whatever came of it."""
    failed: int = 0
    """Of these, without an answer or a score."""
    running: int = 0
    seconds: float = 0.0
    """Since the start."""
    note: str = ""

    @property
    def waiting(self) -> int:
        """Not begun."""
        return self.total - self.kept - self.done - self.running

    @property
    def per_minute(self) -> float | None:
        """Units a minute; None before the first."""
        return 60 * self.done / self.seconds if self.done and self.seconds else None

    @property
    def seconds_left(self) -> float | None:
        """An estimate; None before the first is done."""
        rate = self.per_minute
        return None if rate is None else 60 * (self.waiting + self.running) / rate

    def __str__(self) -> str:
        parts = [f"{self.kept + self.done:,} of {self.total:,} done"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        parts += [f"{self.running:,} running", f"{self.waiting:,} waiting"]
        if self.per_minute is not None and self.seconds_left is not None:
            parts += [f"{self.per_minute:,.0f} a minute", f"about {shown_seconds(self.seconds_left)} left"]
        return ", ".join([*parts, *filter(None, [self.note])])


class Display(Protocol):
    """Where progress is shown."""

    def show(self, progress: Progress) -> None:
        """Show this instead of what was shown before; may be called in any thread."""
        ...

    def close(self) -> None:
        """Take it away."""
        ...


class TerminalLine:
    """One line on a terminal's stderr."""

    def show(self, progress: Progress) -> None:
        """Write over the line."""
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def on_terminal() -> Display | None:
    """A line where stderr is a terminal; None elsewhere."""
    return TerminalLine() if sys.stderr is not None and sys.stderr.isatty() else None


display: Callable[[], Display | None] = on_terminal
"""Makes the display of the next batch; None shows nothing. The notebook layer puts its own here."""


class Meter:
    """Counts, and tells the display at most four times a second.

    Args:
        total: Units in all.
        show: True, False, or None for "where somebody looks"; or a function of each Progress.
        clock: Seconds.
    """

    def __init__(self, total: int, show: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.now = Progress(total)
        self._clock, self._began, self._told = clock, clock(), 0.0
        self._function = show if callable(show) else None
        self._display = display() if show is None else TerminalLine() if show is True else None

    def change(self, kept: int = 0, started: int = 0, finished: Outcome | None = None, note: str = "") -> None:
        """Count what happened."""
        now, ended = self.now, finished is not None
        self.now = replace(
            now,
            kept=now.kept + kept,
            running=now.running + started - ended,
            done=now.done + ended,
            failed=now.failed + (finished in FAILED),
            seconds=self._clock() - self._began,
            note=note or now.note,
        )
        if self._function is not None:
            self._function(self.now)
        if self._display is not None and (self.now.seconds - self._told > _PAUSE_SECONDS or note):
            self._told = self.now.seconds
            self._display.show(self.now)

    def close(self) -> None:
        """Take the display away."""
        if self._display is not None:
            self._display.close()


def shown_seconds(seconds: float) -> str:
    """A time as people say it: "40 s", "5 min", "2.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6_000 else f"{seconds / 3_600:.1f} h"
