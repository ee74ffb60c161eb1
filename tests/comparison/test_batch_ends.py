"""What ends a batch from outside: kill -9 at random moments, Ctrl-C in a script."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "comparison_cost.py"

SCRIPT = """
import asyncio, sys
from agentnb import Agent, batch
from agentnb.errors import AgentInterrupted

async def model(request):
    print("asked", flush=True)
    await asyncio.sleep(0.01 if "quick" in request.messages[-1]["content"] else 60)
    return "4"

try:
    batch(Agent(model=model), ["quick one", "quick two", "slow"], folder=sys.argv[1], first=None, concurrency=3)
except AgentInterrupted as error:
    print([row["outcome"] for row in error.state.rows], str(error), flush=True)
"""


def test_kill_9_loses_nothing_and_pays_for_nothing_twice():
    """Five kills at random moments; whatever was finished before a kill is neither lost nor asked for again."""
    command = [sys.executable, str(BENCHMARK), "kill", "--times", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    found = ast.literal_eval(done.stdout or "{}")

    assert found["kills"] == 5, done.stderr
    assert found["finished before a kill"] > 0
    assert found["paid again though finished"] == found["lost"] == found.get("missing at the end", 0) == 0


def test_ctrl_c_in_a_script_keeps_what_is_finished(tmp_path):
    """The script goes on with the result so far in hand, within a second."""
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline() == "asked\n"
        time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()

    assert time.monotonic() - began < 2
    assert "['answered', 'answered', 'cancelled']" in said
    assert "2 of 3 runs are kept; the same call goes on" in said
