"""Run a person's functions where they can't hold up the loop: in own, reusable daemon threads.

A call that is cancelled or runs out of time is left behind: its thread goes on, what it returns is dropped, and another
thread takes its place. Prints and displays land in the cell that started the call (the context goes along). The
loop's own executor is not used, since a script would wait for a tool that was given up long ago.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import io
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import Any

from agentnb.errors import Interrupted

MOST_ITEMS = 1_000
"""How many values of a generator are collected."""
_FIRST_ITEMS = f"the first {MOST_ITEMS:,} values were collected, the tool had more"
_MOST_IDLE = 32
_QUICK_SECONDS = 0.0005
"""A function that ends within this time is waited for on the spot: half the price of a round trip through the loop."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call: a value, or the error that it raised."""

    value: Any = None
    error: BaseException | None = None
    notes: tuple[str, ...] = ()
    expired: bool = False
    """Time was up; `error` is a TimeoutError of ours."""


_EXPIRED = Outcome(
    error=TimeoutError("time is up"),
    notes=("the code may still be running in its thread; what it returns is ignored",),
    expired=True,
)
_idle: deque[_Worker] = deque()
_around: contextvars.ContextVar[tuple[set[Callable[[], None]], ...]] = contextvars.ContextVar("agentnb_around")
in_main_thread = False
"""A function of a person holds the main thread at this moment, so only a KeyboardInterrupt can stop it."""


class within:
    """A scope for work that may start other runs inside it: given up, it takes them along."""

    __slots__ = ("_begun", "_token")

    def __enter__(self) -> within:
        self._begun: set[Callable[[], None]] = set()
        self._token = _around.set((*_around.get(()), self._begun))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _around.reset(self._token)
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            self.give_up()

    def give_up(self) -> None:
        """Cancel everything that was begun inside and has not ended."""
        _cancel(self._begun)


def _cancel(begun: set[Callable[[], None]]) -> None:
    for cancel in tuple(begun):
        cancel()


@contextmanager
def begun(cancel: Callable[[], None]) -> Iterator[None]:
    """While the block runs, it is work that every scope around it takes along: by `cancel`, from any thread."""
    scopes = _around.get(())
    for scope in scopes:
        scope.add(cancel)
    try:
        yield
    finally:
        for scope in scopes:
            scope.discard(cancel)


async def run_in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call `function(*args)` in a worker thread and return what it returns; an iterator comes back as it is.

    Raises:
        Interrupted: The function raised KeyboardInterrupt.
        RuntimeError: It raised SystemExit or another exception that would end the loop.
        Exception: Whatever else it raised.
    """
    outcome = await _Job(functools.partial(function, *args), False).done(None)
    if outcome.error is not None:
        raise _harmless(outcome.error)
    return outcome.value


async def outcome_of(
    function: Callable[..., Any], args: Any, kwargs: dict[str, Any], timeout: float | None, place: str
) -> Outcome:
    """Call any function, sync or async, and see it through: coroutines are awaited, generators collected.

    Args:
        function: What to call; what it raises becomes the outcome's error.
        args: By position.
        kwargs: By name.
        timeout: Seconds for all of it; None waits for ever.
        place: "thread" (a worker thread), "here" (this thread, which nothing can stop) or "loop" (an async function).

    Raises:
        asyncio.CancelledError: Our own task was cancelled; a worker thread is left behind.
    """
    began, call = time.monotonic(), functools.partial(function, *args, **kwargs)
    if place == "thread":
        outcome = await _Job(call).done(timeout)
    else:
        outcome = _called(call) if place == "loop" else _called_here(call)
    if not (hasattr(type(outcome.value), "__await__") or hasattr(type(outcome.value), "__anext__")):
        return outcome
    left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
    return await _awaited(outcome.value, left)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it only makes a coroutine or an async generator, and runs nothing yet."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


# ── on the loop ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _awaited(value: Any, timeout: float | None) -> Outcome:
    deadline = asyncio.timeout(timeout)
    with within() as scope:
        try:
            async with deadline:
                return await _async_collected(value) if hasattr(type(value), "__anext__") else Outcome(await value)
        except GeneratorExit:
            raise
        except BaseException as error:
            if deadline.expired() and isinstance(error, TimeoutError):
                scope.give_up()
                return Outcome(error=error, expired=True)
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            return Outcome(error=error)


async def _async_collected(values: AsyncIterator[Any]) -> Outcome:
    found: list[Any] = []
    async for value in values:
        if len(found) == MOST_ITEMS:
            return Outcome(found, notes=(_FIRST_ITEMS,))
        found.append(value)
    return Outcome(found)


# ── in a thread ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _called(call: Callable[[], Any], collect: bool = True) -> Outcome:
    """What comes of it; what a generator or another iterator yields becomes a bounded list."""
    try:
        value = call()
        return _collected(value) if collect and hasattr(type(value), "__next__") else Outcome(value)
    except BaseException as error:
        return Outcome(error=error)


def _collected(values: Any) -> Outcome:
    if isinstance(values, io.IOBase):
        return Outcome(values)
    found = list(islice(values, MOST_ITEMS + 1))
    return Outcome(found[:MOST_ITEMS], notes=(_FIRST_ITEMS,) if len(found) > MOST_ITEMS else ())


def _called_here(call: Callable[[], Any]) -> Outcome:
    global in_main_thread
    before = in_main_thread
    in_main_thread = before or threading.current_thread() is threading.main_thread()
    try:
        return _called(call)
    finally:
        in_main_thread = before


def _harmless(error: BaseException) -> BaseException:
    """The error, or one that a loop survives."""
    if isinstance(error, Exception):
        return error
    other = Interrupted() if isinstance(error, KeyboardInterrupt) else RuntimeError(f"{type(error).__name__}: {error}")
    other.__cause__ = error
    return other


class _Job:
    """One call on its way through a worker thread."""

    __slots__ = ("_begun", "_ended", "_waiter", "call", "collect", "context", "outcome")
    _begun: set[Callable[[], None]]
    _waiter: asyncio.Future[None] | None

    def __init__(self, call: Callable[[], Any], collect: bool = True) -> None:
        self.call, self.collect, self.context = call, collect, contextvars.copy_context()
        self.outcome, self._waiter, self._ended, self._begun = _EXPIRED, None, threading.Lock(), set()
        self.context.run(_around.set, (*_around.get(()), self._begun))
        self._ended.acquire()

    async def done(self, timeout: float | None) -> Outcome:
        """The outcome when it comes, or that time is up."""
        _free_worker().jobs.put(self)
        return self.outcome if self._ended.acquire(timeout=_QUICK_SECONDS) else await self._later(timeout)

    async def _later(self, timeout: float | None) -> Outcome:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            if not self._ended.acquire(blocking=False):
                await asyncio.wait((self._waiter,), timeout=timeout)
        finally:
            outcome = self.outcome  # what comes of the call because it is given up is no outcome
            if outcome is _EXPIRED:
                _cancel(self._begun)
        return outcome

    def tell(self) -> None:
        """From the worker thread: the outcome is there."""
        self._ended.release()
        if self._waiter is not None:
            with suppress(RuntimeError):  # the loop was closed while the function ran: nobody waits any more
                self._waiter.get_loop().call_soon_threadsafe(_wake, self._waiter)


class _Worker:
    """One daemon thread with a queue of its own."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="agentnb-tool", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.outcome = job.context.run(_called, job.call, job.collect)
            if len(_idle) < _MOST_IDLE:
                _idle.append(self)
            else:
                self.jobs.put(None)
            job.tell()
            del job  # an idle thread keeps nothing alive


def _free_worker() -> _Worker:
    try:
        worker = _idle.pop()
    except IndexError:
        return _Worker()
    return worker if worker.thread.is_alive() else _free_worker()  # after a fork, the threads of the parent are gone


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
