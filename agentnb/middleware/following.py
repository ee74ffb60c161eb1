"""Which run an event belongs to: a listener may serve many runs at once, in many threads, one inside another.

An event that is told inside a step or a tool knows its run by the budget around it; a new State by its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from agentnb.core.middleware import Event, StateMade, StepStarted, budget
from agentnb.core.state import State

R = TypeVar("R")
_MOST_LIVE = 1_000
"""Runs that were left early never end; the oldest are forgotten."""
_NEAR = 8
"""How far above a new State the last one that was told may be."""


class Following(Generic[R]):
    """Finds what a listener keeps of the run of each event.

    Args:
        begin: Makes it, from the State that a call of `run` started from.
    """

    def __init__(self, begin: Callable[[State], R]) -> None:
        self._begin = begin
        self._by_base: dict[int, _Live[R]] = {}
        self._by_front: dict[int, _Live[R]] = {}
        self._lock = Lock()

    def run_of(self, event: Event) -> R:
        """What is kept of the run that this event belongs to; it is dropped after the State that ends the run."""
        with self._lock:
            if isinstance(event, StateMade):
                return self._made(event.state)
            around = budget()
            assert around is not None  # the loop sets it before it tells of a step or a tool
            live = self._by_base.get(id(around.base)) or self._begun(around.base)
            if isinstance(event, StepStarted):
                self._move(live, event.state)
            return live.run

    def _made(self, state: State) -> R:
        above = base = state.parent or state
        for _ in range(_NEAR):
            if id(above) in self._by_front or above.parent is None:
                break
            above = above.parent
        live = self._by_front.get(id(above)) or self._begun(base)
        self._move(live, state)
        if state.finished:
            self._forget(live)
        return live.run

    def _begun(self, base: State) -> _Live[R]:
        if len(self._by_base) >= _MOST_LIVE:
            self._forget(next(iter(self._by_base.values())))
        live = _Live(base, base, self._begin(base))
        self._by_base[id(base)] = self._by_front[id(base)] = live
        return live

    def _move(self, live: _Live[R], front: State) -> None:
        self._by_front.pop(id(live.front), None)
        self._by_front[id(front)] = live
        live.front = front

    def _forget(self, live: _Live[R]) -> None:
        self._by_front.pop(id(live.front), None)
        self._by_base.pop(id(live.base), None)


@dataclass(slots=True)
class _Live(Generic[R]):
    base: State
    front: State
    """The newest State that was told."""
    run: R
