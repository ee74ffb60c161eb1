"""Which run an event belongs to: a listener may serve many runs at once, in many threads, one inside another.

The loop puts one Budget around everything that it tells of one call of `run`; that object stands for the run.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from agentnb.core.middleware import Budget, Event, RunFailed, StateMade, budget
from agentnb.core.state import State

R = TypeVar("R")
_MOST_LIVE = 1_000
"""Runs that were left early never end; the oldest are forgotten."""


class Following(Generic[R]):
    """Finds what a listener keeps of the run of each event.

    Args:
        begin: Makes it, from the State that a call of `run` started from.
    """

    def __init__(self, begin: Callable[[State], R]) -> None:
        self._begin = begin
        self._live: dict[int, tuple[Budget, R]] = {}
        """By the id of the Budget, which is kept so that the id stays its own."""
        self._lock = Lock()

    def run_of(self, event: Event) -> R:
        """What is kept of the run that this event belongs to; it is dropped after the event that ends the run."""
        around = budget()
        assert around is not None  # the loop sets it before it tells of anything
        _, run = self._live.get(id(around)) or self._begun(around)
        if isinstance(event, RunFailed) or (isinstance(event, StateMade) and event.state.finished):
            with self._lock:
                self._live.pop(id(around), None)
        return run

    def _begun(self, around: Budget) -> tuple[Budget, R]:
        kept = around, self._begin(around.base)
        with self._lock:
            if len(self._live) >= _MOST_LIVE:
                del self._live[next(iter(self._live))]
            self._live[id(around)] = kept
        return kept
