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

MOST_ITEMS = 1_000
"""How many values of a generator are collected."""
_FIRST_ITEMS = f"the first {MOST_ITEMS:,} values were collected, the tool had more"
_MOST_IDLE = 32
_QUICK_SECONDS = 0.0002
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

    __slots__ = ("_token", "begun")

    def __init__(self) -> None:
        self.begun: set[Callable[[], None]] = set()

    def give_up(self) -> None:
        """Cancel everything that was begun inside and has not ended."""
        for cancel in tuple(self.begun):
            cancel()

    def __enter__(self) -> within:
        self._token = _around.set((*_around.get(()), self.begun))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _around.reset(self._token)
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            self.give_up()


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


async def run_in_thread(function: Callable[..., Any], *args: Any, timeout: float | None = None) -> Any:
    """Call `function(*args)` in a worker thread and return what it returns.

    Args:
        function: Any synchronous callable.
        args: Its arguments.
        timeout: Seconds; None waits for ever.

    Raises:
        TimeoutError: Time is up; the function may still be running.
        BaseException: Whatever the function raised.
    """
    outcome = await _outcome_in_thread(function, args, timeout)
    if outcome.error is not None:
        raise outcome.error
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
    began = time.monotonic()
    with within() as scope:
        if place == "thread":
            outcome = await _outcome_in_thread(_collecting, (function, args, kwargs), timeout)
        elif place == "here":
            outcome = _outcome_here(_collecting, (function, args, kwargs))
        else:
            outcome = _called(function, args, kwargs)
        if _is_async_value(outcome.value):
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
            outcome = await _awaited(outcome.value, left)
        if outcome.expired:
            scope.give_up()
    return outcome


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it only makes a coroutine or an async generator, and runs nothing yet."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


# ── on the loop ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_async_value(value: Any) -> bool:
    return hasattr(type(value), "__await__") or hasattr(type(value), "__anext__")


async def _awaited(value: Any, timeout: float | None) -> Outcome:
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            return await _async_collected(value) if hasattr(type(value), "__anext__") else Outcome(await value)
    except GeneratorExit:
        raise
    except BaseException as error:
        if deadline.expired() and isinstance(error, TimeoutError):
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


def _collecting(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The returned value; what a generator or another iterator yields, as a bounded list."""
    value = function(*args, **kwargs)
    if not hasattr(type(value), "__next__") or isinstance(value, io.IOBase):
        return value
    found = list(islice(value, MOST_ITEMS + 1))
    return found if len(found) <= MOST_ITEMS else Outcome(found[:MOST_ITEMS], notes=(_FIRST_ITEMS,))


def _called(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Outcome:
    try:
        value = function(*args, **kwargs)
    except BaseException as error:
        return Outcome(error=error)
    return value if isinstance(value, Outcome) else Outcome(value)


def _outcome_here(function: Callable[..., Any], args: Any) -> Outcome:
    global in_main_thread
    before = in_main_thread
    in_main_thread = before or threading.current_thread() is threading.main_thread()
    try:
        return _called(function, args, {})
    finally:
        in_main_thread = before


async def _outcome_in_thread(function: Callable[..., Any], args: Any, timeout: float | None) -> Outcome:
    job = _Job(function, args)
    _free_worker().jobs.put(job)
    return job.outcome if job.ended.acquire(timeout=_QUICK_SECONDS) else await job.later(timeout)


class _Job:
    """One call on its way through a worker thread."""

    __slots__ = ("args", "context", "ended", "function", "outcome", "waiter")

    def __init__(self, function: Callable[..., Any], args: Any) -> None:
        self.context, self.function, self.args = contextvars.copy_context(), function, args
        self.outcome, self.ended = _EXPIRED, threading.Lock()
        self.waiter: asyncio.Future[None] | None = None
        self.ended.acquire()

    async def later(self, timeout: float | None) -> Outcome:
        """The outcome when it comes, or that time is up."""
        self.waiter = asyncio.get_running_loop().create_future()
        if not self.ended.acquire(blocking=False):
            await asyncio.wait((self.waiter,), timeout=timeout)
        return self.outcome

    def tell(self) -> None:
        """From the worker thread: the outcome is there."""
        self.ended.release()
        if self.waiter is not None:
            with suppress(RuntimeError):  # the loop was closed while the function ran: nobody waits any more
                self.waiter.get_loop().call_soon_threadsafe(_wake, self.waiter)


class _Worker:
    """One daemon thread with a queue of its own."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="agentnb-tool", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.outcome = job.context.run(_called, job.function, job.args, {})
            if len(_idle) < _MOST_IDLE:
                _idle.append(self)
            else:
                self.jobs.put(None)
            job.tell()
            del job  # an idle thread keeps nothing alive


def _free_worker() -> _Worker:
    while _idle:
        try:
            worker = _idle.pop()
        except IndexError:
            break
        if worker.thread.is_alive():  # after a fork, the threads of the parent are gone
            return worker
    return _Worker()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
