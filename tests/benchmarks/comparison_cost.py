"""What a batch costs: throughput beside a plain httpx loop, memory and resume of 100,000 units, and kill -9.

    python tests/benchmarks/comparison_cost.py throughput [--runs 1000] [--steps 5] [--at-once 50]
    python tests/benchmarks/comparison_cost.py units [--units 100000]
    python tests/benchmarks/comparison_cost.py resume [--units 100000]
    python tests/benchmarks/comparison_cost.py kill [--times 50]
    python tests/benchmarks/comparison_cost.py dask

`throughput` writes everything that `batch` writes: transcripts, answers, log, table; the plain loop writes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


# ── throughput ───────────────────────────────────────────────────────────────────────────────────────────────────────


def throughput(runs: int, steps: int, at_once: int, rounds: int = 2) -> None:
    """Runs per second by the wall clock and CPU per run, ours and the plain loop's, in turns."""
    from client_cpu import mock_server

    with mock_server() as url:
        for number in range(rounds + 1):
            warm = not number
            size = 50 if warm else runs
            plain = measured(lambda size=size: asyncio.run(plain_batch(url, size, steps, at_once)))
            ours = measured(lambda size=size: our_batch(url, size, steps, at_once))
            if not warm:
                told = [f"{name} {size / wall:.1f} runs/s, {cpu / size * 1000:.2f} ms CPU a run"
                        for name, (wall, cpu) in (("plain loop", plain), ("batch", ours))]  # fmt: skip
                print(f"{'; '.join(told)}; ratio of throughput {plain[0] / ours[0]:.2f}", flush=True)


def measured(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the wall clock, and of CPU of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


async def plain_batch(url: str, runs: int, steps: int, at_once: int) -> None:
    """The plain loop, so many runs at once over one client."""
    import raw_loop

    gate, dialect = asyncio.Semaphore(at_once), raw_loop.Chat()
    async with raw_loop.make_client(url) as client:

        async def one() -> None:
            async with gate:
                await raw_loop.run(client, steps, dialect)

        await asyncio.gather(*(one() for _ in range(runs)))


def our_batch(url: str, runs: int, steps: int, at_once: int) -> None:
    """The same by `batch`, with a folder."""
    import raw_loop

    from agentnb import Agent, Limits, batch, tool
    from agentnb.models.chat_completions import ChatCompletionsModel

    @tool
    async def add(a: int, b: int) -> str:
        """Add two integers.

        Args:
            a: The one.
            b: The other.

        Returns:
            The sum.
        """
        return raw_loop.act("add", {"a": a, "b": b})

    model = ChatCompletionsModel("mock-1", f"{url}/v1", "key")
    agent = Agent(model, [add], raw_loop.SYSTEM, limits=Limits(steps=steps + 2))
    tasks = [{"goal": f"run {steps} steps", "expected": "done"}] * runs
    with tempfile.TemporaryDirectory() as folder:
        result = batch(agent, tasks, folder=folder, concurrency=at_once, first=None)
        assert Counter(row["outcome"] for row in result) == {"right": runs}


# ── many units ───────────────────────────────────────────────────────────────────────────────────────────────────────


def units(number: int) -> None:
    """Memory while so many simulated units run, one in a hundred of them with an error."""
    from agentnb import Agent, batch

    tasks = number // 10
    seen: list[tuple[int, float]] = []

    async def model(request: Any) -> dict[str, Any]:
        if random.random() < 0.01:
            raise OSError("the simulated provider is away")
        usage = {"prompt_tokens": 20, "completion_tokens": 5}
        return {"content": "It is 4.", "usage": usage}

    def look(progress: Any) -> None:
        if progress.done % (number // 10) == 0 and progress.done and progress.done not in (each for each, _ in seen):
            seen.append((progress.done, resident_mb()))

    with tempfile.TemporaryDirectory() as folder:
        goals = [{"goal": f"What is 2 + 2? ({place})", "expected": 4} for place in range(tasks)]
        began = time.perf_counter()
        batch(Agent(model=model), goals, repeats=10, folder=folder, concurrency=50, progress=look)
        took = time.perf_counter() - began
        print(
            f"{number:,} units in {took:.0f} s; resident MB at each tenth: {[round(mb) for _, mb in seen]}", flush=True
        )


def resume(number: int) -> None:
    """The time until a call finds so many units done in its folder, and has nothing left to do."""
    from agentnb import Agent, batch
    from agentnb.comparison.scorers import to_scorer
    from agentnb.comparison.scores import Score
    from agentnb.comparison.store import HEADER, unit_line
    from agentnb.comparison.table import row
    from agentnb.comparison.tasks import to_tasks
    from agentnb.comparison.units import Plan
    from agentnb.comparison.variants import Variant

    def model(request: Any) -> str:
        raise AssertionError("asked")

    agent = Agent(model=model)
    goals = [{"goal": f"What is 2 + 2? ({place})", "expected": 4} for place in range(number // 10)]
    plan = Plan([Variant("assistant", agent)], to_tasks(goals), 10, None, 0)
    right, run = Score.of(1, "read 4; expected 4", to_scorer("number").name), Agent(model=lambda _: "It is 4.").run("x")
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "units.jsonl").open("wb") as file:
            file.write(HEADER.encode())
            file.writelines(unit_line(unit, row("assistant", unit.task, unit.repeat, run, right)) for unit in plan)
            size = file.tell()
        wall, cpu = measured(lambda: batch(agent, goals, repeats=10, folder=folder, concurrency=50))
        print(
            f"resume of {number:,} units ({size / 2**20:.0f} MB): {wall:.1f} s, {cpu:.1f} s CPU; {resident_mb():.0f} MB"
        )


def resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────────────────────────────

CHILD = """
import asyncio, os, sys
from agentnb import Agent, batch
folder, paid = sys.argv[1:]
file = os.open(paid, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
async def model(request):
    await asyncio.sleep(0.002)
    os.write(file, (request.messages[-1]["content"] + chr(10)).encode())
    return "It is 4."
tasks = [{"id": f"t{n}", "goal": f"task {n}", "expected": 4} for n in range(200)]
result = batch(Agent(model=model), tasks, folder=folder, concurrency=4, first=None)
print(sum(row["outcome"] == "right" for row in result))
"""


def kill(times: int, seed: int = 0) -> dict[str, int]:
    """Kill a batch of 200 units at random moments until it is whole, again and again, and count what was paid twice.

    Returns:
        kills, units finished before a kill, units paid more than once although finished, units missing in the end.
    """
    chance = random.Random(seed)
    found: Counter[str] = Counter()
    while found["kills"] < times:
        with tempfile.TemporaryDirectory() as place:
            folder, paid = Path(place, "runs"), Path(place, "paid.txt")
            command = [sys.executable, "-W", "ignore", "-c", CHILD, str(folder), str(paid)]
            while found["kills"] < times and not _killed(command, folder, paid, chance, found):
                pass
    return dict(found)


def _killed(command: list[str], folder: Path, paid: Path, chance: random.Random, found: Counter[str]) -> bool:
    """One start and one kill; True when the batch came to its end first."""
    finished, before = _finished(folder), _paid(paid)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None and _paid(paid).total() <= before.total():
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.25))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            found["kills"] += 1
        out = process.communicate()[0]
    since = _paid(paid) - before
    found["finished before a kill"] += len(finished)
    found["paid again though finished"] += sum(since[f"task {name[1:]}"] for name in finished)
    found["lost"] += len(finished - _finished(folder))
    if out.strip():
        found["whole batches"] += 1
        found["missing at the end"] += 200 - int(out)
    return bool(out.strip())


def _finished(folder: Path) -> set[str]:
    """Task ids with a whole line."""
    path = folder / "units.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return {json.loads(line)["task"] for line in lines if line.endswith(b"\n") and b'"task"' in line}


def _paid(path: Path) -> Counter[str]:
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


# ── tools that compute ───────────────────────────────────────────────────────────────────────────────────────────────


def dask(runs: int = 24, size: int = 5_000_000) -> None:
    """Units whose tool computes, on threads of this process and on two processes of a dask LocalCluster."""
    from concurrent.futures import ThreadPoolExecutor

    from distributed import Client, LocalCluster

    from agentnb import Agent, batch, calls, tool

    @tool
    def add_up(size: int) -> int:
        """Add up squares.

        Args:
            size: How many.

        Returns:
            Their sum.
        """
        return sum(number * number for number in range(size))

    def model(request: Any) -> Any:
        return "done" if request.messages[-1]["role"] == "tool" else calls("add_up", size=size)

    def run(executor: Any) -> None:
        goals = [{"goal": str(number), "expected": "done"} for number in range(runs)]
        result = batch(Agent(model, [add_up]), goals, executor=executor, concurrency=4, first=None)
        assert {row["outcome"] for row in result.rows} == {"right"}

    with ThreadPoolExecutor(4) as threads:
        wall, cpu = measured(lambda: run(threads))
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        run(client)
        other, _ = measured(lambda: run(client))
    print(f"threads {wall:.1f} s ({cpu:.1f} s CPU); dask, 2 processes: {other:.1f} s; speed-up {wall / other:.2f}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["throughput", "units", "resume", "kill", "dask"])
    for name, default in (("runs", 1000), ("steps", 5), ("at-once", 50), ("units", 100_000), ("times", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    if given.what == "throughput":
        throughput(given.runs, given.steps, given.at_once)
    elif given.what == "units":
        units(given.units)
    elif given.what == "resume":
        resume(given.units)
    elif given.what == "kill":
        print(kill(given.times))
    else:
        dask()


if __name__ == "__main__":
    main()
