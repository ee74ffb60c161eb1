"""Running code in a process: what it prints, its limits, and what is left when it ends: nothing."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import unquoted
from processes import is_alive, soon

from agentnb import Agent, ScriptedModel, StopReason, calls
from agentnb.core.messages import ToolCall
from agentnb.errors import ToolDefinitionError
from agentnb.tools.python_process import python, python_process

QUICK = python_process(seconds=5, megabytes=400).replace(approve=False)


def ran(code: str, tool: Any = QUICK) -> Any:
    """The result of one call."""
    return unquoted(asyncio.run(tool.answer(ToolCall("c1", "python", json.dumps({"code": code})))))


def test_a_person_is_asked_and_told_that_it_is_no_sandbox():
    """By default nothing runs without a yes."""
    run = Agent(model=ScriptedModel([calls("python", code="print(1)"), "1"]), tools=[python]).run("go")

    assert run.stop is StopReason.PAUSED
    assert "no sandbox" in python.spec.description


def test_what_is_printed_comes_back():
    """Both streams, in their order, in any language."""
    result = ran("import sys\nprint('one 北京')\nprint('two', file=sys.stderr)\nprint('three')")

    assert (result.status, result.content) == ("ok", "one 北京\ntwo\nthree")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("pass", "ok", "(nothing was printed)"),
        ("print('a')\n1 / 0", "error", "ZeroDivisionError: division by zero\n\n[exit code 1]"),
        ("import sys; sys.exit(3)", "error", "[exit code 3]"),
        ("this is no code", "error", "SyntaxError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "error", "[ended by the signal SIGSEGV]"),
        ("x = bytearray(800_000_000)", "error", "MemoryError"),
        ("x = []\nwhile True: x.append('x' * 1_000_000)", "error", "MemoryError"),
        ("import os\nprint(dict(os.environ).keys() - {'LC_CTYPE'})", "ok", "set()"),
        ("import os\nprint(os.listdir())", "ok", "[]"),
        ("print(input())", "error", "EOFError"),
        ("open('x', 'wb').write(b'x' * 50_000_000)", "error", "File too large"),
    ],
    ids=[
        "nothing",
        "raises",
        "exits",
        "no code",
        "crashes",
        "one big thing",
        "many things",
        "environment",
        "folder",
        "input",
        "big file",
    ],
)
def test_each_ending_is_told(code, status, words):
    """An error, a crash, a limit: the model reads which."""
    result = ran(code)

    assert result.status == status
    assert words in result.content


@pytest.mark.slow
def test_an_endless_loop_is_killed():
    """After its time, busy or asleep; what it had printed is there."""
    tool = python_process(seconds=0.7).replace(approve=False)
    for code in ("print('begun')\nwhile True: pass", "import time\nprint('begun')\ntime.sleep(60)"):
        began = time.monotonic()
        result = ran(code, tool)
        assert (result.status, result.content) == ("timeout", "begun\n\n[killed after 0.7 seconds]")
        assert time.monotonic() - began < 5


@pytest.mark.slow
def test_endless_output_is_bounded():
    """Ten megabytes at most are written; the model reads a preview."""
    result = ran("while True: print('x' * 1000)")

    assert result.status in ("error", "timeout")
    assert len(result.content) <= 16_000
    assert len(result.value) < 250_000


@pytest.mark.slow
def test_nothing_that_it_started_is_left(tmp_path):
    """Children that ignore signals and outlive it are killed with its group; its folder is gone."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "if os.fork() == 0:\n"
        "    time.sleep(600)\n"
        "print(child.pid, os.getcwd())\n"
    )
    pid, folder = ran(code).content.split()

    assert soon(lambda: not is_alive(int(pid)))
    assert not Path(folder).exists()


@pytest.mark.slow
def test_a_cancelled_run_kills_the_process(tmp_path):
    """Cancelling the run ends the process at once, not after its time."""
    tool = python_process(seconds=60).replace(approve=False)
    mark = tmp_path / "pid"
    code = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    agent = Agent(model=ScriptedModel([calls("python", code=code)]), tools=[tool])

    async def main() -> None:
        task = asyncio.ensure_future(agent.arun("go"))
        while not (mark.exists() and mark.read_text()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert soon(lambda: not is_alive(int(mark.read_text())))


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"megabytes": -1}, {"seconds": float("inf")}])
def test_limits_are_numbers_above_zero(limits):
    """Said when the tool is made."""
    with pytest.raises(ToolDefinitionError, match="expected numbers above 0"):
        python_process(**limits)
