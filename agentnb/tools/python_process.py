"""The tool `python`: run a piece of Python in a process of its own, and read what it prints.

The process has limits on time, memory and what it writes, sees nothing of the environment, works in an empty folder
that is deleted, and is killed with everything it started in its group. That keeps an honest mistake from doing harm.
It is no sandbox: the code can read your files and reach the network as you can. So a person decides before each call.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from agentnb.core.messages import ToolResult
from agentnb.errors import ToolDefinitionError, ToolError
from agentnb.threads import begun
from agentnb.tools.tool import Tool, ToolOptions

SECONDS = 10.0
MEGABYTES = 1_024
MOST_WRITTEN = 10_000_000
"""Bytes of one file, of the output too."""
_SHOWN = 100_000
_LIMITED = """
import os, resource, sys
cpu, memory, written = map(int, sys.argv[1:4])
for limit, value in (("CPU", cpu), ("AS", memory), ("FSIZE", written), ("CORE", 0)):
    try:
        resource.setrlimit(getattr(resource, "RLIMIT_" + limit), (value, value))
    except (AttributeError, ValueError, OSError):
        pass
os.execv(sys.executable, [sys.executable, "-I", "-u", "-X", "utf8", sys.argv[4]])
"""
"""The first words of the process: it limits itself, which the code that follows can't take back."""


def python_process(seconds: float = SECONDS, megabytes: int = MEGABYTES) -> Tool:
    """A `python` tool with other limits.

    Args:
        seconds: For the whole.
        megabytes: Of memory, counted as address space; what numpy and the like reserve counts.

    Raises:
        ToolDefinitionError: A limit is no number above 0.
    """
    if not (0 < seconds < float("inf") and megabytes > 0):
        what = f"seconds={seconds!r}, megabytes={megabytes!r}, expected numbers above 0"
        raise ToolDefinitionError(what, remedy="python_process(seconds=10, megabytes=1024)")

    def run(code: str) -> ToolResult:
        """Run Python code in a fresh process.

        Args:
            code: A whole program; print what is to be seen. Nothing is kept for the next call.
        """
        return _ran(code, seconds, megabytes)

    about = (
        f"Run Python code in a fresh process and read what it prints; at most {seconds:g} seconds. "
        "It is no sandbox: a person is asked before each call."
    )
    return Tool(run, ToolOptions("python", about, approve=True, timeout=seconds + 5, quoted=True))


python = python_process()
"""With the default limits: 10 seconds, 1 GB."""


def _ran(code: str, seconds: float, megabytes: int) -> ToolResult:
    if os.name != "posix":
        raise ToolError("this system has no process groups and limits, so no code is run")
    with tempfile.TemporaryDirectory(prefix="agentnb-", ignore_cleanup_errors=True) as folder:
        program, output = Path(folder, "code.py"), Path(folder, "output.txt")
        work = Path(folder, "work")
        work.mkdir()
        program.write_text(code, "utf-8")
        limits = [str(int(seconds) + 1), str(megabytes * 1_000_000), str(MOST_WRITTEN)]
        words = [sys.executable, "-I", "-c", _LIMITED, *limits, str(program)]
        with output.open("wb") as written:
            process = _Process(words, str(work), written.fileno())
            expired = process.wait(seconds)
        return _told(_read(output), process.code, expired, seconds)


class _Process:
    """A process at the head of a group of its own, which ends with it."""

    def __init__(self, words: list[str], folder: str, output: int) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self.code = 0
        self._popen = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={},
            start_new_session=True,
        )

    def wait(self, seconds: float) -> bool:
        """Until it ends, its time is up or the call is given up; then kill its group. Whether time was up."""
        expired = False
        with begun(self.kill):
            try:
                self._popen.wait(seconds)
            except subprocess.TimeoutExpired:
                expired = True
            finally:
                self.kill()
                self.code = self._popen.wait()
                self._ended = True
        return expired

    def kill(self) -> None:
        """Kill every process of the group, from any thread."""
        with self._lock, suppress(ProcessLookupError, PermissionError):
            if not self._ended:
                os.killpg(self._popen.pid, signal.SIGKILL)


def _read(output: Path) -> str:
    """The beginning and the end of what was written."""
    size = output.stat().st_size
    with output.open("rb") as file:
        data = file.read(_SHOWN)
        if size > 2 * _SHOWN:
            file.seek(size - _SHOWN)
            data += f"\n[... {size - 2 * _SHOWN:,} bytes left out ...]\n".encode()
        data += file.read(_SHOWN)
    return data.decode("utf-8", "replace")


def _told(output: str, code: int, expired: bool, seconds: float) -> ToolResult:
    if expired:
        return ToolResult("", "", f"{output}\n[killed after {seconds:g} seconds]".lstrip(), "timeout", output)
    if code < 0:
        name = signal.Signals(-code).name
        return ToolResult("", "", f"{output}\n[ended by the signal {name}]".lstrip(), "error", output)
    if code:
        return ToolResult("", "", f"{output}\n[exit code {code}]".lstrip(), "error", output)
    return ToolResult("", "", output if output.strip() else "(nothing was printed)", "ok", output)
