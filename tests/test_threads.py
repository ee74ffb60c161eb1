"""Where tools run: worker threads that can be left behind, the loop, or the thread of the run."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import itertools
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from agentnb import threads
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.threads import MOST_ITEMS, run_in_thread
from agentnb.tools.tool import Tool, ToolOptions, tool


async def call(function: Any, text: str = "{}", **options: Any) -> ToolResult:
    """Answer one call of a function."""
    return await Tool(function, ToolOptions(**{"name": "f", **options})).answer(ToolCall("c1", "f", text))


def answer(function: Any, **options: Any) -> ToolResult:
    """The same from a test that is not async."""
    return asyncio.run(call(function, **options))


# ── sync functions ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_sync_tools_run_in_a_daemon_thread():
    """The loop stays free, and no thread holds the process at its end."""
    result = answer(lambda: (threading.current_thread() is threading.main_thread(), threading.current_thread().daemon))

    assert result.value == (False, True)


def test_threads_are_used_again():
    """A second call finds the thread of the first."""

    async def main() -> list[Any]:
        return [(await call(lambda: threading.get_ident())).value for _ in range(20)]

    assert len(set(asyncio.run(main()))) == 1


def test_calls_run_side_by_side():
    """Tools of one reply wait for each other without a deadlock."""
    barrier = threading.Barrier(3, timeout=10)

    async def main() -> list[ToolResult]:
        return await asyncio.gather(*(call(barrier.wait) for _ in range(3)))

    assert sorted(result.value for result in asyncio.run(main())) == [0, 1, 2]


def test_the_context_goes_along():
    """What a tool prints or reads by context is that of the cell which started it."""
    where = contextvars.ContextVar("where", default="nowhere")
    where.set("this cell")

    assert answer(lambda: where.get()).value == "this cell"


def test_a_tool_in_the_thread_of_the_run():
    """thread=False is for objects bound to the main thread; the flag tells the interrupt handler."""

    def look() -> tuple[bool, bool]:
        return threading.current_thread() is threading.main_thread(), threads.in_main_thread

    assert answer(look, thread=False).value == (True, True)
    assert threads.in_main_thread is False


def test_an_interrupt_in_the_thread_of_the_run():
    """The flag falls again, and the interrupt counts as the person's."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await call(interrupted, thread=False)

    asyncio.run(main())
    assert threads.in_main_thread is False


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_that_blocks_is_left_behind():
    """The call ends in time, quick ones beside it are not held up, a late result is dropped without a word."""
    go = threading.Event()
    where: list[int] = []
    complaints: list[Any] = []

    def block() -> None:
        where.append(threading.get_ident())
        go.wait(30)

    async def main() -> list[ToolResult]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        slow, quick = await asyncio.gather(call(block, timeout=0.1), call(lambda: "quick"))
        go.set()
        at_work: list[int] = []
        while where[0] not in at_work:  # until the thread has reported its late result and is used again
            at_work = await asyncio.gather(*(run_in_thread(threading.get_ident) for _ in range(9)))
        return [slow, quick]

    slow, quick = asyncio.run(main())

    assert (slow.status, slow.content) == ("timeout", "timed out after 0.1 s")
    assert "may still be running" in slow.notes[0]
    assert quick.content == "quick"
    assert quick.seconds < slow.seconds
    assert complaints == []


def test_a_busy_loop_is_left_behind():
    """Code that never lets go of the interpreter's turn by itself is left behind too."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    result = answer(spin, timeout=0.1)
    stop.set()

    assert result.status == "timeout"


def test_a_timeout_of_the_tools_own_is_an_error():
    """TimeoutError raised by the tool is not our time-out."""

    async def own() -> None:
        raise TimeoutError("no reply")

    result = answer(own)

    assert (result.status, result.content) == ("error", "TimeoutError: no reply")


@pytest.mark.slow
def test_a_script_does_not_wait_for_a_tool_left_behind():
    """The process ends although the tool would take a minute more."""
    code = (
        "import asyncio, time\n"
        "from agentnb.core.messages import ToolCall\n"
        "from agentnb.tools.tool import tool\n"
        "@tool(timeout=0.1)\n"
        "def slow() -> None: time.sleep(60)\n"
        "print(asyncio.run(slow.answer(ToolCall('c', 'slow'))).content)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert (done.stdout.strip(), done.stderr) == ("timed out after 0.1 s", "")


def test_cancelling_passes_through_at_once():
    """A cancelled run doesn't wait for the thread."""
    started, go = threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        go.wait(30)

    async def main() -> float:
        task = asyncio.create_task(call(block))
        await run_in_thread(started.wait, 10)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(main()) < 1
    go.set()


def test_an_idle_thread_keeps_nothing_alive():
    """Arguments and results of a call are free when its caller lets go of them."""

    class Big: ...

    async def main() -> list[weakref.ref[Any]]:
        big = Big()
        made = await run_in_thread(lambda given: (given, Big()), big)
        return [weakref.ref(big), weakref.ref(made[1])]

    kept = asyncio.run(main())
    deadline = time.monotonic() + 10
    while any(each() for each in kept) and time.monotonic() < deadline:
        gc.collect()  # the thread is about to let go

    assert [each() for each in kept] == [None, None]


# ── async and lazy functions ─────────────────────────────────────────────────────────────────────────────────────────


def test_async_tools_are_awaited():
    """On the loop of the run, with a real result."""

    async def f() -> bool:
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    assert answer(f).value is True
    assert answer(functools.partial(f)).value is True


def test_wrapped_async_tools_are_awaited():
    """A plain decorator hides that the function is async; it is awaited all the same."""

    async def f(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    assert asyncio.run(call(wrapped, '{"x": 1}')).content == "2"
    assert asyncio.run(call(wrapped, '{"x": 1}', thread=False)).content == "2"


def test_async_tools_have_a_time_out():
    """Waiting on the loop is ended when time is up."""
    result = answer(asyncio.Event().wait, timeout=0.05)

    assert (result.status, result.content) == ("timeout", "timed out after 0.05 s")


def test_cancelling_an_async_tool_passes_through():
    """Our own cancellation is no result."""

    async def main() -> None:
        task = asyncio.create_task(call(asyncio.Event().wait))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_cancelled_error_of_the_tools_own_is_a_result():
    """A tool that awaits something cancelled fails, the run does not end."""

    async def f() -> None:
        inner = asyncio.create_task(asyncio.Event().wait())
        inner.cancel()
        await inner

    assert answer(f).content == "CancelledError"


@pytest.mark.parametrize("error", [SystemExit(3), StopAsyncIteration(), ValueError("x")])
def test_async_tools_that_raise(error):
    """Exit included, it is an error result."""

    async def f() -> None:
        raise error

    assert answer(f).content.startswith(type(error).__name__)


def test_generators_are_collected():
    """A generator is run to its end in the thread; a list comes back."""

    def numbers() -> Iterator[int]:
        yield 1
        yield 2

    async def slowly() -> AsyncIterator[int]:
        yield 1
        yield 2

    assert answer(numbers).value == [1, 2]
    assert answer(slowly).value == [1, 2]
    assert answer(lambda: map(str, [1])).value == ["1"]


def test_endless_generators_are_bounded():
    """The first thousand values, and a note."""

    async def forever() -> AsyncIterator[int]:
        for number in itertools.count():
            yield number

    for function in (itertools.count, forever):
        result = answer(function)
        assert len(result.value) == MOST_ITEMS
        assert "had more" in " ".join(result.notes)


def test_a_generator_that_fails_is_an_error():
    """What it raises on the way is the result."""

    def numbers() -> Iterator[int]:
        yield 1
        raise ValueError("half-way")

    assert answer(numbers).content == "ValueError: half-way"


# ── advice ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_wrong_thread_is_explained():
    """A connection made in a cell fails in a worker thread; the result names the way out, which works."""
    import sqlite3

    connection = sqlite3.connect(":memory:")

    def count() -> int:
        return int(connection.execute("select 1").fetchone()[0])

    assert "@tool(thread=False)" in answer(count).content
    assert answer(count, thread=False).content == "1"
    connection.close()


def test_a_loop_is_missing_in_a_thread():
    """The error of asyncio in a worker thread has the same remedy."""
    assert "@tool(thread=False)" in answer(lambda: asyncio.get_running_loop()).content


def test_asking_a_person_is_explained():
    """input() can't work in a tool; the result says what to do instead."""

    def ask() -> str:
        raise EOFError("EOF when reading a line")

    assert "take the value as a parameter" in answer(ask).content
    assert "take the value as a parameter" in answer(lambda: input("sure?")).content


# ── for others ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_run_in_thread_returns_and_raises():
    """Any callable, with its own value and its own error; one that would end the loop becomes a harmless one."""

    async def main() -> None:
        assert await run_in_thread(pow, 2, 3) == 8
        with pytest.raises(ZeroDivisionError):
            await run_in_thread(lambda: 1 / 0)
        with pytest.raises(RuntimeError, match="SystemExit: 3"):
            await run_in_thread(sys.exit, 3)

    asyncio.run(main())


def test_a_loop_that_is_gone_is_no_trouble():
    """A function that ends after its loop was closed reports to nobody."""
    go, ended = threading.Event(), threading.Event()

    def late() -> None:
        go.wait(10)
        ended.set()

    assert asyncio.run(call(late, timeout=0.05)).status == "timeout"
    go.set()

    assert ended.wait(10)
    assert answer(lambda: "fine").content == "fine"


def test_a_child_process_makes_its_own_threads():
    """After a fork, the threads of the parent are not waited for."""
    code = (
        "import asyncio, os, sys\n"
        "from agentnb.threads import run_in_thread\n"
        "asyncio.run(run_in_thread(int))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    asyncio.run(asyncio.wait_for(run_in_thread(int), 10)); os._exit(7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    if not hasattr(sys.modules["os"], "fork"):
        pytest.skip("this system has no fork")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, done.stderr) == (7, "")


def test_tools_print_into_their_own_stream(capsys):
    """What a tool prints is not part of its result."""

    @tool
    def chatty() -> int:
        """Talk."""
        print("hello")
        return 1

    result = asyncio.run(chatty.answer(ToolCall("c1", "chatty")))

    assert result.content == "1"
    assert capsys.readouterr().out == "hello\n"
