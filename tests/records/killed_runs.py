"""Runs that are killed at random moments while they are saved: nothing that was written is lost, no tool runs twice.

    python tests/records/killed_runs.py 200

Each run is made in a forked process, which is killed (SIGKILL) after a random time; the file is read, checked and gone
on with in the next process, until the run ends and another begins.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes import check_state

from agentnb.agent import Agent
from agentnb.core.limits import Limits
from agentnb.core.state import State
from agentnb.models.scripted import calls
from agentnb.records.run_file import load
from agentnb.records.run_tree import MAY_HAVE_RUN
from agentnb.records.saving import Saving

ROUNDS = 6
_LONGEST_LIFE_SECONDS = 0.06


class Killed:
    """One folder with a run file and what its tools did, told by themselves."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "run.jsonl"
        self.done = folder / "done.txt"
        self.acknowledged = folder / "acknowledged.txt"
        listeners = [Saving(self.path), self.acknowledge]
        self.agent = Agent(self.model, [self.work], middleware=listeners, limits=Limits(steps=99))

    def state(self) -> State | None:
        """What the file holds; None when the process died before it wrote anything."""
        if not self.path.exists() or not self.path.stat().st_size:
            assert not self.acknowledged.exists(), "something was written, and is lost"
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state: State = load(self.path)
        return state

    def live(self) -> None:
        """Start the run, or go on with it, in this process."""
        state = self.state() or State.start("work")

        async def run() -> None:
            async for _ in self.agent.states(state):
                pass

        asyncio.run(run())

    def model(self, request: Any) -> Any:
        """Asks for the next piece of work, or for two at once."""
        number = sum(message["role"] == "tool" for message in request.messages)
        if number >= ROUNDS:
            return "done"
        asked = [calls("work", number=number)] + [calls("work", number=number + 1)] * (number % 3 == 0)
        return {"role": "assistant", "tool_calls": [call for each in asked for call in each["tool_calls"]]}

    def work(self, number: int) -> str:
        """Work that must not be done twice."""
        self._tell(self.done, f"start {number}")
        time.sleep(0.002)
        self._tell(self.done, f"end {number}")
        return f"did {number}"

    def acknowledge(self, event: Any) -> None:
        """Called after the State was saved: from now on it must not be lost."""
        if type(event).__name__ == "StateMade":
            counters = event.state.counters
            self._tell(self.acknowledged, f"{counters.steps} {len(event.state.tool_results)}")

    def _tell(self, path: Path, line: str) -> None:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def check(self, state: State | None) -> None:
        """Everything that was acknowledged is there, and each piece of work that began has exactly one result."""
        begun = Counter(line for line in self._lines(self.done) if line.startswith("start"))
        assert max(begun.values(), default=0) <= 1, f"work was done twice: {begun}"
        results = Counter(_number(each) for each in (state.tool_results if state else ()))
        assert {int(line.split()[1]) for line in begun} <= set(results), "a call that ran has no result"
        assert max(results.values(), default=0) <= 1
        if state is None:
            return
        check_state(state)
        acknowledged = [tuple(map(int, line.split())) for line in self._lines(self.acknowledged)]
        assert all(steps <= state.counters.steps for steps, _ in acknowledged)
        assert all(count <= len(state.tool_results) for _, count in acknowledged)
        ended = {int(line.split()[1]) for line in self._lines(self.done) if line.startswith("end")}
        for result in state.tool_results:
            assert result.content == MAY_HAVE_RUN or _number(result) in ended

    def _lines(self, path: Path) -> list[str]:
        return path.read_text().splitlines() if path.exists() else []


def _number(result: Any) -> int:
    """The work that a result is of: its call id is `call_<step>_<n>`, and each step asks for the next pieces."""
    if result.arguments is not None:
        return int(result.arguments["number"])
    step, place = (int(each) for each in result.call_id.split("_")[1:])
    asked = 0
    for _ in range(1, step):
        asked += 1 + (asked % 3 == 0)
    return asked + place - 1


def killed(folder: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill so many runs; how many runs were begun and ended, and how many calls in flight were marked."""
    chance, told = random.Random(seed), Counter(runs=0, marked=0, finished=0)
    case: Killed | None = None
    for _ in range(kills):
        if case is None:
            told["runs"] += 1
            case = Killed(folder / str(told["runs"]))
        child = os.fork()
        if not child:
            _child(case)
        time.sleep(chance.uniform(0, _LONGEST_LIFE_SECONDS))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        state = case.state()
        case.check(state)
        if state is not None and state.finished:
            told["finished"] += 1
            told["marked"] += sum(each.content == MAY_HAVE_RUN for each in state.tool_results)
            case = None
    return dict(told)


def _child(case: Killed) -> None:
    try:
        case.live()
    except BaseException as error:
        print(f"the run failed: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(0)


if __name__ == "__main__":
    import tempfile

    number = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    start = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    with tempfile.TemporaryDirectory() as where:
        print(f"{number} kills, seed {start}: {killed(Path(where), number, start)}")
