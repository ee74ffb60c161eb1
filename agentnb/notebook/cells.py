"""How a `%%agent` or `%%compare` cell runs: awaited on the kernel's own loop, stopped by an interrupt at once.

`await_agent_cells` is an input transformer: it turns the call of the magic into an awaited one, so that buttons and the
other cells of Run All stay alive while an agent runs. Inside `%%time`, `%%capture` and their like, or with autoawait
off, nothing is turned and the magic runs synchronously.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from IPython import get_ipython

T = TypeVar("T")

_CELL = re.compile(r"get_ipython\(\)\.run_cell_magic\('(?:agent|compare)', ")
_RESUME = re.compile(r"get_ipython\(\)\.run_line_magic\('agent', '(?:resume|rerun)\b")
_EMPTY = re.compile(r"^(get_ipython\(\)\.run_cell_magic\('(?:agent|tool|prompt|compare)', .*, )''\)")
"""A cell without a body: IPython would refuse it with an error that test runs of notebooks don't see."""
AWAITED = "agent_awaited"
"""The hidden twin of the magic, which returns a coroutine; `compare_awaited` is that of `%%compare`."""


def await_agent_cells(lines: list[str]) -> list[str]:
    """The transformed lines, with a call of the agent magic turned into an awaited one."""
    shell = get_ipython()
    if len(lines) == 1:
        lines = [_EMPTY.sub(r"\1'\\n')", lines[0])]
    if shell is None or not shell.autoawait or _inside_a_magic():
        return lines
    return [_awaited(line) for line in lines]


def _awaited(line: str) -> str:
    for pattern in (_CELL, _RESUME):
        if pattern.match(line):
            head = pattern.match(line).group(0)  # type: ignore[union-attr]
            turned = head.replace("get_ipython()", "await __import__('IPython').get_ipython()")
            return re.sub("'(agent|compare)'", r"'\1_awaited'", turned) + line[len(head) :]
    return line


def _inside_a_magic() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in ("run_cell_magic", "run_line_magic"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


async def stoppable(work: Coroutine[Any, Any, T], on_task: Callable[[asyncio.Task[T]], None] | None = None) -> T:
    """Await `work` as a task of its own that an interrupt cancels within milliseconds.

    Args:
        work: What the cell does.
        on_task: Called with the task before it starts, for a Stop button.

    Raises:
        KeyboardInterrupt: The kernel was interrupted; `work` was cancelled and has ended.
    """
    task = asyncio.ensure_future(work)
    if on_task is not None:
        on_task(task)
    with _interrupts(task) as seen:
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)
            raise
    if seen:
        if not task.cancelled():
            task.exception()
        raise KeyboardInterrupt
    return task.result()


@contextmanager
def _interrupts(task: asyncio.Task[Any]) -> Iterator[list[bool]]:
    """While the block runs, SIGINT cancels the task instead of raising in the loop; the list tells whether it came."""
    seen: list[bool] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    loop = asyncio.get_running_loop()

    def cancel(*_: Any) -> None:
        if _in_main_thread_tool():
            raise KeyboardInterrupt
        seen.append(True)
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def _in_main_thread_tool() -> bool:
    from agentnb import threads

    return bool(getattr(threads, "in_main_thread", False))
