"""100,000 units against a provider that is simulated whole: a token bucket, latency, faults, and its own clock.

    python tests/benchmarks/simulated_provider.py [--units 100000] [--at-once 50] [--rate 60] [--fault 0.01]

Everything of ours is real but the socket: agent, loop, dialect, retries, the gate, store, transcripts. Waits are waits on
a clock that jumps to the next moment at which anybody has something to do. The provider counts what it refused, and
what reached it before the time that an earlier refusal had named: that is a violation, and there should be none.

Prints how the units ended, requests, refusals, violations, virtual and real seconds, memory at each tenth, and the time
in which the same call finds everything done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import tempfile
import time
from collections import Counter
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from agentnb import Agent, batch
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.transport import Transport

_SETTLES = 12
"""Turns of the event loop after which nobody has anything to do but wait."""


class Clock:
    """Virtual seconds: a wait ends when everybody waits and nobody's time comes earlier."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._driver: asyncio.Task[None] | None = None

    def __call__(self) -> float:
        """Now."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        future = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (self.now + seconds, next(self._numbers), future))
        if self._driver is None or self._driver.done():
            self._driver = asyncio.create_task(self._drive())
        await future

    async def _drive(self) -> None:
        while self._waiting:
            for _ in range(_SETTLES):
                await asyncio.sleep(0)
            when, _, future = heappop(self._waiting)
            self.now = max(self.now, when)
            if not future.done():
                future.set_result(None)


class Provider:
    """A token bucket with latency and faults.

    Args:
        clock: Its time.
        rate: Requests a second; as many may come at once after a quiet time.
        fault: Part of the requests that end in a 500, and as many lose the connection.
        seed: Of latency and faults.
    """

    def __init__(self, clock: Clock, rate: float, fault: float, seed: int = 0) -> None:
        self.clock, self.rate, self.fault = clock, rate, fault
        self.chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.most = 0
        self._tokens, self._filled, self._told = rate, 0.0, 0.0
        self._inside = 0

    async def answer(self) -> httpx.Response:
        """One request."""
        self.counts["requests"] += 1
        self._inside += 1
        self.most = max(self.most, self._inside)
        try:
            return await self._answer()
        finally:
            self._inside -= 1

    async def _answer(self) -> httpx.Response:
        now = self.clock.now
        self._tokens = min(self.rate, self._tokens + (now - self._filled) * self.rate)
        self._filled = now
        self.counts["violations"] += now < self._told - 1e-9
        if self._tokens < 1:
            return await self._refuse()
        self._tokens -= 1
        left = self._tokens
        await self.clock.sleep(self.chance.lognormvariate(-0.9, 0.6))
        if (dice := self.chance.random()) < self.fault:
            self.counts["500"] += 1
            return httpx.Response(500, json={"error": {"message": "overloaded"}})
        if dice < 2 * self.fault:
            self.counts["lost"] += 1
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        self.counts["answered"] += 1
        return httpx.Response(200, headers=self._headers(left), json=REPLY)

    async def _refuse(self) -> httpx.Response:
        """429, and when to come again; it counts from the moment at which the caller hears of it."""
        self.counts["refused"] += 1
        await self.clock.sleep(0.02)
        self._told = max(self._told, self.clock.now + 1.0)
        return httpx.Response(429, headers={"retry-after": "1"}, json={"error": {"message": "too many requests"}})

    def _headers(self, left: float) -> dict[str, str]:
        return {"x-ratelimit-remaining-requests": str(int(left)), "x-ratelimit-reset-requests": f"{1 / self.rate:.3f}s"}


REPLY = {
    "model": "simulated-1",
    "choices": [{"message": {"role": "assistant", "content": "It is 4."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
}


class Simulated(Transport):
    """The transport of the product, but for the socket."""

    __slots__ = ()
    provider: Provider

    async def _send(self, client: Any, body: bytes, streamed: bool) -> httpx.Response:
        try:
            return await self.provider.answer()
        except httpx.TransportError as error:
            raise self._failure(error) from None


def simulated_agent(provider: Provider) -> Agent:
    """An agent whose model is the simulated one."""
    Simulated.provider = provider
    model = ChatCompletionsModel("simulated-1", "http://simulated.invalid/v1", "key")
    known = model.transport
    model.transport = Simulated(
        known.endpoint, replace(known.retry, attempts=6), known.timeouts, None, provider.clock.sleep, provider.clock
    )
    return Agent(model=model)


def resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def measure(units: int, at_once: int, rate: float, fault: float) -> dict[str, Any]:
    """Run them, and once more when all is done."""
    clock, seen = Clock(), dict[int, int]()
    provider = Provider(clock, rate, fault)
    goals = [{"goal": f"What is 2 + 2? ({place})", "expected": 4} for place in range(units // 10)]

    def look(progress: Any) -> None:
        if progress.done and progress.done % (units // 10) == 0:
            seen.setdefault(progress.done, round(resident_mb()))

    with tempfile.TemporaryDirectory() as folder:
        options = {"repeats": 10, "folder": folder, "concurrency": at_once, "first": None}
        began, cpu = time.perf_counter(), time.process_time()
        result = batch(simulated_agent(provider), goals, progress=look, **options)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        asked = provider.counts["requests"]
        again = time.perf_counter()
        batch(simulated_agent(provider), goals, progress=False, **options)
        return {
            "outcomes": dict(Counter(row["outcome"] for row in result)),
            **provider.counts,
            "most at once": provider.most,
            "virtual seconds": round(clock.now, 1),
            "requests a virtual second": round(asked / clock.now, 1),
            "seconds": round(took, 1),
            "ms CPU a unit": round(1000 * cpu / units, 2),
            "MB at each tenth": list(seen.values()),
            "resume seconds": round(time.perf_counter() - again, 1),
            "asked by the resumed call": provider.counts["requests"] - asked,
        }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind, default in (
        ("units", int, 100_000),
        ("at-once", int, 50),
        ("rate", float, 60),
        ("fault", float, 0.01),
    ):
        parser.add_argument(f"--{name}", type=kind, default=default)
    given = parser.parse_args()
    print(json.dumps(measure(given.units, given.at_once, given.rate, given.fault), indent=1))


if __name__ == "__main__":
    main()
