"""What the loop itself costs, with a callable as the model: CPU per step, memory per step, source lines per round.

    python tests/benchmarks/core_cost.py

Prints one line per figure with its bound; the exit status is 1 when a bound is passed. CPU is that of the whole process
(user and system, all threads), the best of several runs, so a busy machine matters little.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import agentnb
from agentnb import Agent, Limits, State, calls, threads, tool

PACKAGE = str(Path(agentnb.__file__).parent)
ENDLESS = Limits(steps=None)
SHORT, MIDDLE, LONG = 100, 1600, 6400
MEASURED = 25_600
"""Steps of each length in all; at least four tries, of which the quickest counts."""


@tool
async def look(number: int) -> str:
    """Look at a place.

    Args:
        number: Which one.

    Returns:
        What is there.
    """
    return f"place {number}"


@tool
def look_in_thread(number: int) -> str:
    """Look at a place, as a plain function, which runs in a worker thread.

    Args:
        number: Which one.

    Returns:
        What is there.
    """
    return f"place {number}"


def scripted(steps: int, name: str) -> Callable[[Any], Any]:
    """A model that calls the tool in every step but the last, which answers."""
    done = 0

    def model(request: Any) -> Any:
        nonlocal done
        done += 1
        return calls(name, number=done) if done < steps else "done"

    return model


def run_of(steps: int, which: Any = look) -> State:
    """A run of so many model calls."""
    run = Agent(model=scripted(steps, which.spec.name), tools=[which], limits=ENDLESS).run("Look around.")
    assert run.counters.steps == steps, run
    return run


def ms_per_step(steps: int, which: Any = look, runs: int = 1) -> float:
    """CPU milliseconds per step of runs of this length, in the quickest try of so many runs."""
    best = float("inf")
    for _ in range(max(4, MEASURED // (runs * steps))):
        gc.collect()
        began = time.process_time()
        for _ in range(runs):
            run_of(steps, which)
        best = min(best, time.process_time() - began)
    return best / (runs * steps) * 1000


def bytes_per_step() -> float:
    """Bytes that a finished run keeps per step, without the characters of its own texts."""
    run_of(10)

    def held(steps: int) -> int:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        run = run_of(steps)
        gc.collect()
        size = tracemalloc.get_traced_memory()[0] - before
        text = sum(len(each.content or "") + sum(len(call.arguments) for call in each.calls) for each in run.messages)
        return size - text

    tracemalloc.start()
    short, long = held(400), held(1600)
    tracemalloc.stop()
    return (long - short) / 1200


class Lines:
    """Distinct source lines of agentnb that run while `on`, in every thread that starts after it was made."""

    def __init__(self) -> None:
        self.on = False
        self.seen: set[tuple[str, int]] = set()
        sys.settrace(self.trace)
        threading.settrace(self.trace)

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Note the line; follow only frames of the package."""
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE):
            return None
        if self.on and event == "line":
            self.seen.add((name[len(PACKAGE) + 1 :], frame.f_lineno))
        return self.trace

    def stop(self) -> None:
        """Trace no more."""
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # None ends it, as documented


def awaited(model: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same model as an async function."""

    async def asked(request: Any) -> Any:
        return model(request)

    return asked


def lines_per_round(which: Any, kind: Callable[[Any], Any] = lambda model: model) -> set[tuple[str, int]]:
    """The lines of one round in the middle of a run: model call, tool, result."""
    threads._idle.clear()  # new worker threads, which the trace sees
    lines = Lines()

    async def play() -> None:
        agent = Agent(model=kind(scripted(6, which.spec.name)), tools=[which], limits=ENDLESS)
        answers = 0
        async for state in agent.states("Look around."):
            answers += state.kind == "act"
            lines.on = answers == 3

    asyncio.run(play())
    lines.stop()
    return lines.seen


def report(what: str, value: float, bound: float, unit: str) -> bool:
    """Print one figure; whether it keeps its bound."""
    fine = value <= bound
    print(f"{what:<58}{value:>9.3f} {unit:<8} at most {bound:g}{'' if fine else '   TOO MUCH'}")
    return fine


def main() -> int:
    """Measure and print everything."""
    run_of(SHORT), run_of(SHORT, look_in_thread)
    cost = {steps: ms_per_step(steps) for steps in (SHORT, MIDDLE, LONG)}
    fine = [report(f"CPU per step, {steps:,} steps, async tool", ms, 0.3, "ms") for steps, ms in cost.items()]
    short, long = ms_per_step(SHORT, runs=LONG // SHORT), ms_per_step(LONG)  # tries as long as each other
    fine.append(report(f"CPU per step, {LONG:,} against {SHORT:,} steps", long / short, 1.3, "times"))
    in_thread = ms_per_step(MIDDLE, look_in_thread)
    print(f"{f'CPU per step, {MIDDLE:,} steps, tool in a thread':<58}{in_thread:>9.3f} ms")
    fine.append(report("memory kept per step beyond the text", bytes_per_step() / 1024, 3, "KB"))
    print(f"{'agentnb lines in one round, plain model, async tool':<58}{len(lines_per_round(look)):>9} lines")
    for what, seen in (("plain functions", lines_per_round(look_in_thread)), ("async", lines_per_round(look, awaited))):
        fine.append(report(f"agentnb lines in one round, {what}", len(seen), 200, "lines"))
        if "-v" in sys.argv:
            for name in sorted({name for name, _ in seen}):
                print(f"    {name:<40}{sum(each == name for each, _ in seen):>5}")
    return 0 if all(fine) else 1


if __name__ == "__main__":
    raise SystemExit(main())
