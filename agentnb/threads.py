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
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import Any

MOST_ITEMS = 1_000
"""How many values of a generator are collected."""
_FIRST_ITEMS = f"the first {MOST_ITEMS:,} values were collected, the tool had more"
_MOST_IDLE = 32


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
_scope: contextvars.ContextVar[set[Callable[[], None]] | None] = contextvars.ContextVar("agentnb_scope", default=None)
in_main_thread = False
"""A function of a person holds the main thread at this moment, so only a KeyboardInterrupt can stop it."""


class within:
    """A scope for work that may start other runs inside it: given up, it takes them along.

    Args:
        cancel: Called when the scope around this one is given up, from any thread; without one, what was begun inside
            is given up then.
    """

    __slots__ = ("_begun", "_mark", "_outer", "_token")

    def __init__(self, cancel: Callable[[], None] | None = None) -> None:
        self._begun: set[Callable[[], None]] = set()
        self._mark = cancel or self.give_up

    def give_up(self) -> None:
        """Cancel everything that was begun inside and has not ended."""
        for each in tuple(self._begun):
            each()

    def __enter__(self) -> within:
        self._outer = _scope.get()
        if self._outer is not None:
            self._outer.add(self._mark)
        self._token = _scope.set(self._begun)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _scope.reset(self._token)
        if self._outer is not None:
            self._outer.discard(self._mark)
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            self.give_up()


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
    with within() as scope:
        outcome = await _outcome(function, args, kwargs, timeout, place)
        if outcome.expired:
            scope.give_up()
    return outcome


async def _outcome(
    function: Callable[..., Any], args: Any, kwargs: dict[str, Any], timeout: float | None, place: str
) -> Outcome:
    began = time.monotonic()
    if place == "thread":
        outcome = await _outcome_in_thread(_collecting, (function, args, kwargs), timeout)
    elif place == "here":
        outcome = _outcome_here(_collecting, (function, args, kwargs))
    else:
        outcome = _called(function, args, kwargs)
    if not _is_async_value(outcome.value):
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
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()
    _free_worker().jobs.put((contextvars.copy_context(), function, args, loop, done))
    if timeout is None:
        return await done
    timer = loop.call_later(timeout, _settle, done, _EXPIRED)
    try:
        return await done
    finally:
        timer.cancel()


class _Worker:
    """One daemon thread with a queue of its own."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Any] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="agentnb-tool", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            context, function, args, loop, done = job
            outcome = context.run(_called, function, args, {})
            if len(_idle) < _MOST_IDLE:
                _idle.append(self)
            else:
                self.jobs.put(None)
            with suppress(RuntimeError):  # the loop was closed while the function ran: nobody waits any more
                loop.call_soon_threadsafe(_settle, done, outcome)
            del job, context, function, args, loop, done, outcome  # an idle thread keeps nothing alive


def _free_worker() -> _Worker:
    while _idle:
        try:
            worker = _idle.pop()
        except IndexError:
            break
        if worker.thread.is_alive():  # after a fork, the threads of the parent are gone
            return worker
    return _Worker()


def _settle(done: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not done.done():
        done.set_result(outcome)
