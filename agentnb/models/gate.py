"""One gate for all calls to a server with one key: so many in flight at most, and a pause that all of them keep.

    call ──enter──▶ first come, first served: wait for a free place, then out a pause ──▶ in flight ──leave──▶

A server that answers "too many" to one call means them all. So all wait together, and then start one after the other,
with a gap between them: as long as the server was found to need, shorter with every answer, measured again when it is
too short. A gate belongs to an event loop and is made when it is first needed; until then it costs nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

_SHRINKS = 0.97
_FIRST_GUESS = 0.1
"""The first gap, as a part of the pause: nobody has counted yet what the server takes."""
_LONGEST_GUESS_SECONDS = 0.5
_SHORTEST_SECONDS = 0.001
_MARGIN = 1.1


class Timing(Protocol):
    """Where time and chance come from."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds."""
        ...

    @property
    def sleep(self) -> Callable[[float], Awaitable[Any]]:
        """Wait for seconds."""
        ...

    @property
    def chance(self) -> Callable[[], float]:
        """A random number from 0 to 1."""
        ...


class Gate:
    """Lets calls through; use it from one event loop."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting = 0
        """Calls that stand before the gate."""
        self.gap_seconds = 0.0
        """Between the starts of two calls."""
        self._opens = -math.inf
        self._paused = -math.inf
        self._opened = -math.inf
        self._passed = 0
        self._tickets = count()
        self._queue: list[tuple[int, asyncio.Future[None]]] = []
        self._taken = False
        """A call is at the head, waiting for a place or out a pause."""
        self._freed = asyncio.Event()

    def delay(self, limit: int | None, now: float) -> float:
        """Seconds that a call would wait at least; inf while all places are taken, or others wait for one."""
        if limit is not None and self.in_flight + self.waiting >= limit:
            return math.inf
        return max(0.0, self._opens - now) + self.waiting * self.gap_seconds

    def ticket(self) -> int:
        """The place of a call in the order of arrival; one that comes again, since it was refused, keeps its place."""
        return next(self._tickets)

    async def enter(self, ticket: int, limit: int | None, timing: Timing) -> float:
        """Wait until this call may start; `leave` must follow. Returns when it started, by the clock.

        Args:
            ticket: From `ticket`.
            limit: Starts only while fewer than so many are in flight; None: no matter how many.
            timing: The call's own.
        """
        self.waiting += 1
        try:
            await self._turn(ticket)
            try:
                while limit is not None and self.in_flight >= limit:
                    self._freed.clear()
                    await self._freed.wait()
                while (left := self._opens - timing.clock()) > 0:
                    await timing.sleep(left)
                now = timing.clock()
                self._opens = now + self.gap_seconds * (0.75 + 0.5 * timing.chance())
                self.in_flight += 1
                return now
            finally:
                self._next()
        finally:
            self.waiting -= 1

    async def _turn(self, ticket: int) -> None:
        """Wait until this call is the first of those that wait; `_next` must follow."""
        if not self._taken:
            self._taken = True
            return
        turn = asyncio.get_running_loop().create_future()
        heappush(self._queue, (ticket, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was its turn at the very moment
                self._next()
            raise

    def _next(self) -> None:
        """Whoever came first of those that wait is the next."""
        self._taken = False
        while self._queue and not self._taken:
            _, turn = heappop(self._queue)
            if not turn.done():
                self._taken = True
                turn.set_result(None)

    def leave(self) -> None:
        """The call is over, however it ended."""
        self.in_flight -= 1
        self._freed.set()

    def passed(self) -> None:
        """A call brought an answer: the next ones may follow a little closer."""
        self._passed += 1
        self.gap_seconds *= _SHRINKS
        if self.gap_seconds < _SHORTEST_SECONDS:
            self.gap_seconds = 0.0

    def pause(self, seconds: float, now: float) -> None:
        """Nobody starts for so long, since the server says that a limit is reached."""
        self._opens = max(self._opens, now + seconds)

    def slow_down(self, seconds: float, started: float, now: float) -> None:
        """A call was refused as one too many: all wait, and then leave a gap that the server can keep up with.

        Args:
            seconds: Until it may be asked again.
            started: When that call started; one from before the last pause says nothing about the gap since.
            now: By the same clock.
        """
        if started > self._paused:
            self.gap_seconds = self._measured(seconds, now)
            self._paused, self._passed = now, 0
        self.pause(seconds, now)
        self._opened = self._opens

    def _measured(self, seconds: float, now: float) -> float:
        """What the server took since the last pause, spread over that time and the wait that it asks for now."""
        if self._paused == -math.inf:
            return min(_FIRST_GUESS * seconds, _LONGEST_GUESS_SECONDS)
        if not self._passed:
            return max(2 * self.gap_seconds, seconds)
        return _MARGIN * (max(0.0, now - self._opened) + seconds) / self._passed
