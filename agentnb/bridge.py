"""The one place where synchronous code meets the async core: `run_sync(coroutine)` works wherever it is called.

    no loop runs here          a loop of this thread's own, kept for the next call
    somebody else's loop runs  a private loop in its own thread; the caller waits and stays interruptible
    our own loop runs          (an async tool calls agent.run) nested on that loop alone, by nest-asyncio2

The loops of other people, the kernel's above all, are never patched or nested. An interrupt cancels the waiting task
and every run nested in it, and comes out as KeyboardInterrupt when the task has ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakSet, finalize

from agentnb.errors import AgentInterrupted
from agentnb.threads import begun, within

T = TypeVar("T")

_WAKE_SECONDS = 0.2
_END_SECONDS = 2.0
_here = threading.local()
_ours: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
_private_lock = threading.Lock()
_private: asyncio.AbstractEventLoop | None = None
_of_parents: list[Any] = []
"""Kept, so that nothing closes them."""


class Node:
    """One running piece of work, so that another thread can cancel it."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def cancel(self) -> None:
        """Cancel this work, from any thread; what runs inside it is cancelled as it ends."""
        if self.task is not None and self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.task.cancel)


async def together(work: Coroutine[Any, Any, T], me: Node | None = None) -> T:
    """Await `work`; when it is cancelled, or the tool around it given up, so is every run that began inside it.

    Args:
        work: Awaited in the current task.
        me: Filled in, so that another thread can cancel it.
    """
    me = me or Node()
    me.task, me.loop = asyncio.current_task(), asyncio.get_running_loop()
    with begun(me.cancel), within(), woken():
        return await work


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result, whether or not a loop runs in this thread.

    Raises:
        KeyboardInterrupt: A person interrupted; the coroutine was cancelled first.
    """
    me = Node()
    member = together(work, me)
    loop = _running_loop()
    if loop is None:
        return _run_here(member)
    return _run_nested(loop, member) if loop in _ours else _run_beside(member, me)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Runner:
    """This thread's loop, closed when the thread or the process ends."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner(loop_factory=_our_loop)
        finalize(self, _close, self.runner, os.getpid())


def _close(runner: asyncio.Runner, process: int) -> None:
    """Close it where it was made. To close it in a fork would unplug what wakes the parent's loop."""
    if process == os.getpid():
        runner.close()
    else:
        _of_parents.append(runner)


def _forget_loops() -> None:
    """In a forked child: the loops belong to the parent, down to the sockets that wake them."""
    global _private, _private_lock
    _of_parents.append(_private)
    _private, _private_lock = None, threading.Lock()
    _here.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loops)


def _our_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    _ours.add(loop)
    return loop


def _run_here(work: Coroutine[Any, Any, T]) -> T:
    if not hasattr(_here, "kept"):
        _here.kept = _Runner()
    return _here.kept.runner.run(work, context=contextvars.copy_context())  # type: ignore[no-any-return]


def _run_nested(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    import nest_asyncio2

    if not hasattr(loop, "_nest_patched"):
        nest_asyncio2.apply(loop)
    return loop.run_until_complete(loop.create_task(work))


def _run_beside(work: Coroutine[Any, Any, T], me: Node) -> T:
    done: Future[T] = Future()
    context = contextvars.copy_context()
    loop = _private_loop()
    loop.call_soon_threadsafe(_start, loop, work, done, context)
    try:
        while True:
            try:
                return done.result(_WAKE_SECONDS)
            except FutureTimeout:
                if done.done():
                    return done.result()
    except KeyboardInterrupt:
        me.cancel()
        _wait_for_end(done)
        raise


def _start(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], done: Future[T], context: contextvars.Context
) -> None:
    task = loop.create_task(work, context=context)

    def finished(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            done.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(task.result())

    task.add_done_callback(finished)


def _wait_for_end(done: Future[Any]) -> None:
    try:
        done.exception(_END_SECONDS)
    except (FutureTimeout, asyncio.CancelledError):
        return


def _private_loop() -> asyncio.AbstractEventLoop:
    global _private
    with _private_lock:
        if _private is None or _private.is_closed():
            _private = _our_loop()
            threading.Thread(target=_private.run_forever, name="agentnb-loop", daemon=True).start()
        return _private


@contextmanager
def woken() -> Iterator[None]:
    """While the block runs in somebody else's loop in the main thread, wake it regularly, so that an interrupt is seen.

    A signal handler of Python runs only when the loop's wait ends; a kernel that waits 30 s for a tool would notice
    its interrupt after 30 s.
    """
    loop = asyncio.get_running_loop()
    if loop in _ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    waker = loop.create_task(_wake())
    try:
        yield
    finally:
        waker.cancel()


async def _wake() -> None:
    while True:  # noqa: ASYNC110  # nothing is waited for: the loop is only to come round
        await asyncio.sleep(_WAKE_SECONDS)


def iterate(made: AsyncGenerator[T, None]) -> Iterator[T]:
    """The items of an async generator as an ordinary iterator; closing it early closes the generator."""
    item: Any = None
    try:
        while (item := run_sync(_next(made))) is not _END:
            yield item
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        raise AgentInterrupted("interrupted; the last State came before this", item) from error
    finally:
        run_sync(made.aclose())


_END = object()


async def _next(made: AsyncGenerator[T, None]) -> T | object:
    return await anext(made, _END)
