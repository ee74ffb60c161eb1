"""Client CPU of agentnb as a ratio to a plain httpx loop, both against the same mock server, interleaved in one run.

    python tests/benchmarks/client_cpu.py [--dialects chat,responses,anthropic,gemini,ollama] [--rounds 7]
                                          [--steps 10,100,300] [--deltas 20000] [--runs 200]

Each dialect is measured against a plain loop in the same dialect. "core" is the Runtime over our client, "agent" (chat
completions only) a whole Agent with an ordinary tool. A batch also tells its runs per second, by the wall clock.
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
from typing import Any

import httpx
import raw_loop

from agentnb.core.limits import Limits
from agentnb.core.messages import ToolCall, ToolResult, user
from agentnb.core.model import Delta, Model, ModelRequest, Prompt
from agentnb.core.runtime import Runtime
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.gemini import GeminiModel
from agentnb.models.ollama import OllamaModel
from agentnb.models.responses import ResponsesModel
from agentnb.planners.tool_calling import ToolCallingPlanner

HERE = Path(__file__).parent
AT_ONCE = 50
Work = Callable[[], Awaitable[object]]
DIALECTS: dict[str, tuple[Any, Any, str]] = {
    "chat": (raw_loop.Chat(), ChatCompletionsModel, "/v1"),
    "responses": (raw_loop.Responses(), ResponsesModel, "/v1"),
    "anthropic": (raw_loop.Anthropic(), AnthropicModel, "/v1"),
    "gemini": (raw_loop.Gemini(), GeminiModel, "/v1beta"),
    "ollama": (raw_loop.Ollama(), OllamaModel, ""),
}
"""Name to the plain loop's dialect, our client, and the path of its base URL."""


@contextmanager
def mock_server() -> Iterator[str]:
    """The base URL of a mock server in a process of its own."""
    command = [sys.executable, str(HERE / "mock_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


class Add:
    """The tool of the raw loop, as a core Tool."""

    spec = ToolSpec("add", "Add two integers.", raw_loop.PARAMETERS)

    async def answer(self, call: ToolCall) -> ToolResult:
        """The same work as in the raw loop."""
        return ToolResult(call.id, call.name, raw_loop.act(call.name, call.arguments))


def core_run(model: Model) -> Callable[[int], Awaitable[object]]:
    """A run of the Runtime over this model: no agent around it."""

    async def run(steps: int) -> State:
        limits = Limits(steps=steps + 1, repeats=None)
        runtime = Runtime(model, ToolCallingPlanner(), [Add()], limits=limits)
        last = [state async for state in runtime.states(State.start(f"run {steps} steps"))][-1]
        assert last.answer == "All steps done.", last.detail
        return last

    return run


def agent_run(model: Model) -> Callable[[int], Awaitable[object]]:
    """A run of a whole Agent with an ordinary tool."""
    from agentnb import Agent, tool

    @tool
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    agent = Agent(model=model, tools=[add], system_prompt=raw_loop.SYSTEM)

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
    cells = [f"{title:<34} {min(raw) / units:9.3f} ms"]
    for name, times in found.items():
        best, median = min(times) / min(raw), statistics.median(times) / statistics.median(raw)
        cells.append(f"{name} {best:5.2f} x (median {median:5.2f})")
    return "   ".join(cells)


async def many(run: Callable[[int], Awaitable[object]], runs: int, at_once: int = AT_ONCE, steps: int = 5) -> None:
    """So many short runs, so many of them at once."""
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            await run(steps)

    await asyncio.gather(*(one() for _ in range(runs)))


async def measure(url: str, name: str, options: argparse.Namespace) -> None:
    """Print the table of one dialect."""
    dialect, kind, base = DIALECTS[name]
    model: Model = kind("mock-1", url + base, "key")
    client = raw_loop.make_client(url)
    runs = {"core": core_run(model)}
    if name == "chat" and not options.core_only:
        runs["agent"] = agent_run(model)
    for steps in options.steps:
        works: dict[str, Work] = {"raw": lambda n=steps: raw_loop.run(client, n, dialect)}
        works |= {title: (lambda n=steps, go=run: go(n)) for title, run in runs.items()}
        print(row(f"{name}: {steps} steps, per step", await interleaved(works, options.rounds), steps + 1), flush=True)

    works = {"raw": lambda: raw_loop.stream(client, options.deltas, dialect), "core": streamed(model, options.deltas)}
    print(row(f"{name}: {options.deltas} deltas", await interleaved(works, options.rounds), 1), flush=True)

    await batches(url, name, runs, client, options)
    await client.aclose()


async def batches(url: str, name: str, runs: Any, client: Any, options: argparse.Namespace) -> None:
    """Many short runs at once; the plain loop with one client for all, and ("raw each") with one for each worker."""
    dialect = DIALECTS[name][0]
    context = httpx.create_ssl_context()
    idle = [raw_loop.make_client(url, 1, verify=context) for _ in range(AT_ONCE)]

    async def with_own(steps: int) -> None:
        own = idle.pop()
        await raw_loop.run(own, steps, dialect)
        idle.append(own)

    loops = {"raw": lambda n: raw_loop.run(client, n, dialect), "raw each": with_own, **runs}
    speeds = {title: Speed(lambda go=go: many(go, options.runs)) for title, go in loops.items()}
    found = await interleaved(dict(speeds), min(3, options.rounds))
    print(row(f"{name}: {options.runs} x 5 steps, per run", found, options.runs), flush=True)
    told = ", ".join(f"{title} {options.runs / speed.best:.0f}" for title, speed in speeds.items())
    print(f"{name}: runs per second, best: {told}", flush=True)
    for each in idle:
        await each.aclose()


def streamed(model: Model, count: int) -> Work:
    """One streamed answer of so many pieces."""

    async def stream() -> None:
        pieces: list[Delta] = []
        request = ModelRequest(prompt=Prompt([user(f"say {count} pieces")]), end=1)
        reply = await model.reply(request, pieces.append)
        assert len(reply.text) == len(pieces) == count

    return stream


class Speed:
    """Work that remembers the least time it took, in seconds."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.best = float("inf")

    async def __call__(self) -> None:
        """Do it."""
        began = time.perf_counter()
        await self.work()
        self.best = min(self.best, time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=lambda text: [int(each) for each in text.split(",")], default=[10, 100, 300])
    parser.add_argument("--deltas", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--dialects", type=lambda text: text.split(","), default=list(DIALECTS))
    parser.add_argument("--core-only", action="store_true", help="leave the Agent out")
    options = parser.parse_args()
    with mock_server() as url:
        for name in options.dialects:
            asyncio.run(measure(url, name, options))


if __name__ == "__main__":
    main()
