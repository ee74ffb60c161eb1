"""Client CPU of agentnb as a ratio to a plain httpx loop, both against the same mock server, interleaved in one run.

    python tests/benchmarks/client_cpu.py [--rounds 7] [--steps 10,100,300] [--deltas 20000] [--runs 200]

CPU is user and system time of this process; the server has a process of its own. The best of the rounds is compared
with the best, the median with the median: on a shared machine the best is the steadier figure.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import raw_loop

from agentnb.core.limits import Limits
from agentnb.core.messages import ToolCall, ToolResult, user
from agentnb.core.model import Delta, ModelRequest, Prompt
from agentnb.core.runtime import Runtime
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.planners.tool_calling import ToolCallingPlanner

HERE = Path(__file__).parent
Work = Callable[[], Awaitable[object]]


@contextmanager
def mock_server() -> Iterator[str]:
    """The base URL of a mock server in a process of its own."""
    command = [sys.executable, str(HERE / "mock_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.kill()


class Add:
    """The tool of the raw loop, as a core Tool."""

    spec = ToolSpec("add", "Add two integers.", raw_loop.PARAMETERS)

    async def answer(self, call: ToolCall) -> ToolResult:
        """The same work as in the raw loop."""
        return ToolResult(
            call.id, call.name, raw_loop.act({"function": {"name": call.name, "arguments": call.arguments}})
        )


def core_run(url: str) -> Callable[[int], Awaitable[object]]:
    """A run of the Runtime over chat completions: no agent around it."""
    model = ChatCompletionsModel("mock-1", url, "key")

    async def run(steps: int) -> State:
        limits = Limits(steps=steps + 1, repeats=None)
        runtime = Runtime(model, ToolCallingPlanner(), [Add()], limits=limits)
        last = [state async for state in runtime.states(State.start(f"run {steps} steps"))][-1]
        assert last.answer == "All steps done.", last.detail
        return last

    return run


def agent_run(url: str) -> Callable[[int], Awaitable[object]]:
    """A run of a whole Agent with an ordinary tool."""
    from agentnb import Agent, tool

    @tool
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    agent = Agent(model=ChatCompletionsModel("mock-1", url, "key"), tools=[add], system_prompt=raw_loop.SYSTEM)

    async def run(steps: int) -> State:
        state = await agent.arun(f"run {steps} steps", limits=Limits(steps=steps + 1, repeats=None))
        assert state.answer == "All steps done.", state.detail
        return state

    return run


async def cpu_ms(work: Work) -> float:
    """CPU milliseconds of this process."""
    began = time.process_time()
    await work()
    return (time.process_time() - began) * 1000


async def interleaved(works: dict[str, Work], rounds: int) -> dict[str, list[float]]:
    """CPU of each work, round after round, so that a busy machine disturbs all alike."""
    for work in works.values():
        await work()
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(await cpu_ms(work))
    return found


def row(title: str, found: dict[str, list[float]], units: int) -> str:
    """One line: the raw cost, then each other's ratio by best and by median."""
    raw = found.pop("raw")
    cells = [f"{title:<26} {min(raw) / units:9.3f} ms"]
    for name, times in found.items():
        best, median = min(times) / min(raw), statistics.median(times) / statistics.median(raw)
        cells.append(f"{name} {best:5.2f} x (median {median:5.2f})")
    return "   ".join(cells)


async def many(run: Callable[[int], Awaitable[object]], runs: int, at_once: int = 50, steps: int = 5) -> None:
    """So many short runs, so many of them at once."""
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            await run(steps)

    await asyncio.gather(*(one() for _ in range(runs)))


async def measure(url: str, options: argparse.Namespace) -> None:
    """Print the table."""
    client = raw_loop.make_client(url)
    runs = {"core": core_run(url)}
    if not options.core_only:
        runs["agent"] = agent_run(url)
    for steps in options.steps:
        works: dict[str, Work] = {"raw": lambda n=steps: raw_loop.run(client, n)}
        works |= {name: (lambda n=steps, go=run: go(n)) for name, run in runs.items()}
        print(row(f"{steps} steps, per step", await interleaved(works, options.rounds), steps + 1), flush=True)

    model = ChatCompletionsModel("mock-1", url, "key")

    async def stream() -> None:
        pieces: list[Delta] = []
        request = ModelRequest(prompt=Prompt([user(f"say {options.deltas} pieces")]), end=1)
        reply = await model.reply(request, pieces.append)
        assert len(reply.text) == len(pieces) == options.deltas

    works = {"raw": lambda: raw_loop.stream(client, options.deltas), "core": stream}
    print(row(f"{options.deltas} deltas, in all", await interleaved(works, options.rounds), 1), flush=True)

    works = {"raw": lambda: many(lambda n: raw_loop.run(client, n), options.runs)}
    works |= {name: (lambda go=run: many(go, options.runs)) for name, run in runs.items()}
    print(row(f"{options.runs} x 5 steps, per run", await interleaved(works, 3), options.runs), flush=True)
    await client.aclose()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=lambda text: [int(each) for each in text.split(",")], default=[10, 100, 300])
    parser.add_argument("--deltas", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--core-only", action="store_true", help="leave the Agent out")
    options = parser.parse_args()
    with mock_server() as url:
        asyncio.run(measure(url, options))


if __name__ == "__main__":
    main()
