"""Many calls to one server: in order, so many at once, and patient together."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from http_fakes import KEY, Waits, ask, model_at, request
from virtual_time import now, run_virtually

from agentnb.core.model import Delta
from agentnb.errors import ModelError, SettingsError
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.clients import clients
from agentnb.models.endpoint import Endpoint
from agentnb.models.gate import Gate
from agentnb.models.retry import Retry, Way
from agentnb.models.server import Raw, ScriptedServer
from agentnb.models.transport import Transport

TOO_MANY = Raw({"error": {"message": "slow down"}}, 429, {"retry-after": "2"})


@dataclass
class Times:
    """The loop's time, and a chance that is always the same."""

    luck: float = 0.5
    sleep: Any = asyncio.sleep

    def clock(self) -> float:
        """Seconds."""
        return now()

    def chance(self) -> float:
        """From 0 to 1."""
        return self.luck


async def calls_through(gate: Gate, count: int, limit: int | None, seconds: float = 1.0) -> list[tuple[int, float]]:
    """So many calls that come at once: number and start of each, in the order in which they started."""
    started: list[tuple[int, float]] = []

    async def call(number: int) -> None:
        await gate.enter(gate.ticket(), limit, Times())
        started.append((number, now()))
        assert limit is None or gate.in_flight <= limit
        await asyncio.sleep(seconds)
        gate.leave()

    await asyncio.gather(*(call(number) for number in range(count)))
    assert (gate.in_flight, gate.waiting) == (0, 0)
    return started


# ── the gate alone ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_so_many_at_once_in_order():
    """A bound of two lets two through, then one for each that is done, first come first served."""
    started = run_virtually(calls_through(Gate(), 6, 2))
    assert started == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0)]


def test_all_keep_a_pause():
    """Nobody starts before its end, whether or not there is a bound."""

    async def paused(limit: int | None) -> list[float]:
        gate = Gate()
        gate.pause(5.0, now())
        return [at for _, at in await calls_through(gate, 3, limit)]

    assert run_virtually(paused(None)) == [5.0, 5.0, 5.0]
    assert run_virtually(paused(1)) == [5.0, 6.0, 7.0]


def test_a_pause_may_grow_while_one_waits():
    """A later wish of the server counts for those who wait already."""

    async def grown() -> float:
        gate = Gate()
        gate.pause(5.0, now())
        asyncio.get_running_loop().call_later(3.0, lambda: gate.pause(4.0, now()))
        return (await calls_through(gate, 1, None))[0][1]

    assert run_virtually(grown()) == 7.0


def test_after_a_refusal_calls_start_with_a_gap():
    """They do not come back all at once; the gap is measured when it was too short, and shrinks with every answer."""

    async def measured() -> None:
        gate = Gate()
        gate.slow_down(1.0, now(), now())
        assert [at for _, at in await calls_through(gate, 3, None, 0.0)] == pytest.approx([1.0, 1.1, 1.2])
        for _ in range(5):
            gate.passed()
        assert gate.gap_seconds < 0.1
        await asyncio.sleep(0.3)
        gate.slow_down(1.0, now(), now())
        assert gate.gap_seconds == pytest.approx(1.1 * (0.5 + 1.0) / 5)
        gate.slow_down(1.0, now() - 0.1, now())  # it started before the refusal and says nothing new
        assert gate.gap_seconds == pytest.approx(0.33)
        await asyncio.sleep(1.0)
        gate.slow_down(1.0, now(), now())  # not even the first one passed
        assert gate.gap_seconds == 1.0
        for _ in range(300):
            gate.passed()
        assert gate.gap_seconds == 0.0

    run_virtually(measured())


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
@pytest.mark.parametrize("cancelled", [0, 1, 2, 3])
def test_a_cancelled_call_leaves_no_hole(moment, cancelled):
    """Whether it waits out a pause, for a place or for its turn, or is in flight: the next one takes its place."""

    async def work() -> list[tuple[int, float]]:
        gate, started = Gate(), []
        gate.pause(1.0, now())

        async def call(number: int) -> None:
            await gate.enter(gate.ticket(), 1, Times())
            started.append((number, now()))
            try:
                await asyncio.sleep(1.0)
            finally:
                gate.leave()

        tasks = [asyncio.ensure_future(call(number)) for number in range(4)]
        asyncio.get_running_loop().call_later(moment, tasks[cancelled].cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (gate.in_flight, gate.waiting) == (0, 0)
        return started

    started = run_virtually(work())
    others = [number for number, _ in started if number != cancelled]
    assert others == [number for number in range(4) if number != cancelled]
    assert started[-1][1] <= 4.0
    assert all(one + 0.5 <= other for (_, one), (_, other) in pairwise(started))


def test_who_was_refused_keeps_its_place():
    """A call that comes again goes before those that came after it at first."""

    async def order() -> list[str]:
        gate, started = Gate(), []
        first, second = gate.ticket(), gate.ticket()

        async def call(name: str, ticket: int) -> None:
            await gate.enter(ticket, 1, Times())
            started.append(name)
            await asyncio.sleep(1.0)
            gate.leave()

        tickets = {"in flight": first, "at the head": gate.ticket(), "new": gate.ticket(), "again": second}
        await asyncio.gather(*(call(name, ticket) for name, ticket in tickets.items()))
        return started

    assert run_virtually(order()) == ["in flight", "at the head", "again", "new"]


# ── calls before a server ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Limited:
    """A server that takes so many calls a second, and says "too many" to the others."""

    rate: int = 5
    latency: float = 0.0
    kind: str = "sliding"
    """"sliding": the last second counts; "fixed": each second by itself; "bucket": one place comes free at a time."""
    requests: int = 0
    in_flight: int = 0
    most: int = 0
    _taken: deque[float] = field(default_factory=deque)
    _tokens: float = 5.0
    _filled: float = 0.0

    def takes(self, at: float) -> bool:
        """Whether one more call is not one too many."""
        if self.kind == "bucket":
            self._tokens = min(self.rate, self._tokens + (at - self._filled) * self.rate)
            self._filled = at
            self._tokens -= (fits := self._tokens >= 1 - 1e-9)
            return fits
        oldest = at - 1 + 1e-9 if self.kind == "sliding" else float(int(at + 1e-9))
        while self._taken and self._taken[0] < oldest:
            self._taken.popleft()
        if len(self._taken) >= self.rate:
            return False
        self._taken.append(at)
        return True

    async def answer(self) -> str:
        """One call."""
        self.requests += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        taken = self.takes(now())
        try:
            await asyncio.sleep(self.latency)
        finally:
            self.in_flight -= 1
        if not taken:
            raise ModelError("too many", kind="rate_limit", status=429, retryable=True, retry_after=1.0)
        return "ok"


class Simulated(Transport):
    """A Transport whose tries go to a Limited server and not over a network."""

    __slots__ = ("server",)

    async def _try(self, body: bytes, reader: Any, streamed: bool, gate: Gate | None, fresh: bool) -> Any:
        found = await self.server.answer()
        if gate is not None:
            gate.passed()
        return found


def simulated(server: Limited, concurrency: int | None, dice: random.Random) -> Simulated:
    """Calls to this server."""
    endpoint = Endpoint("http://h.test/v1", "/x")
    made = Simulated(endpoint, concurrency=concurrency, clock=now, chance=dice.random)
    object.__setattr__(made, "server", server)
    return made


class NoReader:
    """Reads nothing."""

    shown = False
    partial = ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sliding", "fixed", "bucket"])
@pytest.mark.parametrize("latency", [0.0, 0.3])
@pytest.mark.parametrize("workers", [3, 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_against_a_rate_limit(kind, latency, workers, seed):
    """30 tasks against 5 calls a second: all succeed, with fewer than two requests for each, whoever many ask at once."""
    server, dice, ways = Limited(latency=latency, kind=kind), random.Random(seed), []

    async def worker(tasks: deque[int]) -> None:
        transport = simulated(server, workers, dice)
        while tasks:
            tasks.pop()
            ways.append(way := Way())
            assert await transport.call(b"", NoReader, way) == "ok"

    async def batch() -> float:
        tasks = deque(range(30))
        await asyncio.gather(*(worker(tasks) for _ in range(workers)))
        return now()

    seconds = run_virtually(batch())
    assert server.requests <= 60
    assert server.most <= workers
    assert seconds <= 20
    assert sum(way.waited for way in ways) > 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", [3, 20])
def test_a_batch_against_a_real_server(workers):
    """The same over HTTP, with a model for each worker: 5 calls in half a second, and real waits."""
    taken: deque[float] = deque()

    def answer(received: Any) -> Any:
        at = time.monotonic()
        while taken and taken[0] < at - 0.5:
            taken.popleft()
        if len(taken) >= 5:
            return Raw({"error": {"message": "slow down"}}, 429, {"retry-after-ms": "500"})
        taken.append(at)
        return "ok"

    async def worker(tasks: deque[int], url: str) -> None:
        model = ChatCompletionsModel("m", url, KEY, concurrency=workers)
        while tasks:
            tasks.pop()
            assert (await model.reply(request())).text == "ok"

    async def batch(url: str) -> None:
        tasks = deque(range(30))
        await asyncio.gather(*(worker(tasks, url) for _ in range(workers)))

    with ScriptedServer(answer) as server:
        asyncio.run(batch(server.url))

    assert len(server.requests) <= 60


def test_one_call_that_is_refused_makes_the_others_wait():
    """Another model with the same server and key waits as well, says so, and does not count it as time of its model."""
    waits, deltas = Waits(), []

    async def both(first: Any, second: Any) -> Any:
        refused, noted = asyncio.Event(), asyncio.Event()

        async def sleep(seconds: float) -> None:
            refused.set()
            await noted.wait()
            await waits(seconds)

        def tell(delta: Delta) -> None:
            deltas.append(delta)
            noted.set()

        first.transport = replace(first.transport, sleep=sleep)
        one = asyncio.ensure_future(first.reply(request()))
        await refused.wait()
        assert len(clients().gates) == 1
        return await asyncio.gather(one, second.reply(request(), tell))

    with ScriptedServer([TOO_MANY, "one", "two"]) as server:
        replies = asyncio.run(both(model_at(server, waits), model_at(server, waits)))

    assert waits.seconds == pytest.approx([2.0, 0.15])
    assert replies[0].notes[0].startswith("waiting 2 s: rate limit (")
    assert replies[1].notes == ("waiting 2 s: rate limit (another call was told to wait)",)
    assert [delta.text for delta in deltas if delta.kind == "note"] == list(replies[1].notes)
    assert [reply.seconds for reply in replies] == pytest.approx([0.15, 0.0])


def test_calls_of_another_key_do_not_wait():
    """A limit belongs to a key at a server."""
    waits = Waits()
    with ScriptedServer([TOO_MANY, TOO_MANY, TOO_MANY, "two"]) as server:
        first, second = model_at(server, waits), model_at(server, Waits(), api_key="KEY-OTHER-0123456789")

        async def both() -> Any:
            with pytest.raises(ModelError):
                await first.reply(request())
            return await second.reply(request())

        assert asyncio.run(both()).notes == ()


def test_no_gate_where_none_is_needed():
    """As long as no bound is set and nothing was refused there is nothing to pass through."""
    with ScriptedServer(["one", Raw("{}", 500), "two"]) as server:
        model = model_at(server)

        async def calls() -> dict[Any, Gate]:
            await model.reply(request())
            await model.reply(request())
            return dict(clients().gates)

        assert asyncio.run(calls()) == {}


def test_a_bound_of_a_model():
    """No more calls than that are in flight; who waits for a place is told so, and the step is not cluttered with it."""
    in_flight, deltas = [0], []

    async def answer(received: Any) -> str:
        in_flight.append(in_flight[-1] + 1)
        await asyncio.sleep(0.01)
        in_flight.append(in_flight[-1] - 1)
        return "ok"

    async def calls(model: Any) -> Any:
        return await asyncio.gather(*(model.reply(request(), deltas.append) for _ in range(6)))

    with ScriptedServer(answer) as server:
        replies = asyncio.run(calls(model_at(server, concurrency=2)))

    assert max(in_flight) == 2
    assert all(reply.notes == () for reply in replies)
    assert len([delta for delta in deltas if delta.text.startswith("waiting for a free place: ")]) == 4


@pytest.mark.parametrize("bound", [0, -1])
def test_a_bound_that_lets_nobody_through(bound):
    """It is refused when the model is made."""
    with pytest.raises(SettingsError, match="expected 1 or more"):
        model_at("http://127.0.0.1:1/v1", concurrency=bound)


def test_an_answer_that_says_it_was_the_last():
    """Where a gate stands, the next call waits until the limit that is used up is full again."""
    waits = Waits()
    used_up = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1.5s"}
    with ScriptedServer([Raw({"choices": [{"message": {"content": "one"}}]}, headers=used_up), "two"]) as server:
        model = model_at(server, waits, concurrency=1)

        async def calls() -> list[str]:
            return [(await model.reply(request())).text for _ in range(2)]

        assert asyncio.run(calls()) == ["one", "two"]
    assert waits.seconds == [1.5]


def test_a_wait_that_is_too_long_is_nobodys():
    """A call whose server asks for an hour fails; the others are not made to wait an hour in silence."""
    waits = Waits()
    hour = Raw({"error": {"message": "slow down"}}, 429, {"retry-after": "3600"})
    with ScriptedServer([hour, "two"]) as server:
        model = model_at(server, waits)

        async def calls() -> str:
            with pytest.raises(ModelError, match="3600 s"):
                await model.reply(request())
            return (await model.reply(request())).text

        assert asyncio.run(calls()) == "two"
    assert waits.seconds == []


def test_the_gate_of_a_key_holds_no_key_in_sight():
    """What names a gate shows nothing."""
    endpoint = model_at("http://127.0.0.1:1/v1").transport.endpoint
    assert KEY[:8] not in repr(endpoint.account)


def test_notes_are_told_once():
    """Who was refused hears of its wait once, not again before the gate."""
    deltas: list[Delta] = []
    with ScriptedServer([TOO_MANY, "one"]) as server:
        reply = ask(model_at(server), deltas=deltas)

    assert len([delta for delta in deltas if delta.kind == "note"]) == len(reply.notes) == 1


def test_a_retry_that_the_gate_holds_too_long():
    """No try begins after the total time, also where the wait was not its own but that of all."""

    class Busy(Waits):
        async def __call__(self, seconds: float) -> None:
            """Meanwhile another call is told to wait longer."""
            if not self.seconds:
                (gate,) = clients().gates.values()
                gate.pause(6.0, self.clock.now)
            await super().__call__(seconds)

    async def run(model: ChatCompletionsModel) -> int:
        with pytest.raises(ModelError, match="slow down") as error:
            await model.reply(request())
        assert (error.value.kind, len(error.value.notes)) == ("rate_limit", 1)
        (gate,) = clients().gates.values()
        return gate.in_flight

    with ScriptedServer([TOO_MANY, "too late"]) as server:
        assert asyncio.run(run(model_at(server, Busy(), retry=Retry(total_seconds=5)))) == 0
    assert len(server.requests) == 1
