"""One model call over HTTP: time-outs, retries and honest errors. The loop above knows nothing of the network.

    Transport.call(body, new_reader, way, on_delta)
        └─ one try ──▶ (the gate) ──▶ a client, one POST, its bytes into a Reader ──▶ what the Reader made of them
           ├─ failed, and again may help: say so, wait, begin again with a fresh Reader
           └─ failed for good: ModelError with what had arrived

A Reader is one dialect's way to read an answer; it never sees the network.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import httpx

from agentnb.core.model import Delta, OnDelta
from agentnb.errors import ModelError
from agentnb.models.clients import Client, clients, make_client
from agentnb.models.endpoint import Endpoint
from agentnb.models.gate import Gate
from agentnb.models.http_errors import status_error
from agentnb.models.rate_limits import until_reset
from agentnb.models.retry import Retry, Way, announce, note
from agentnb.text import mask, plain, shorten

T = TypeVar("T")
Read = TypeVar("Read", covariant=True)
_ERROR_BYTES = 65_536
_BUSY = (503, 529)
_EMPTY = (204, 205)
_WORTH_A_NOTE_SECONDS = 0.5
_DRAIN_SECONDS = 0.25


class Reader(Protocol[Read]):
    """Reads one answer; a new one for each try."""

    done: bool
    """The mark of the end has come; what may follow does not matter."""
    complete: bool
    """Nothing is missing, should the connection end here."""
    shown: bool
    """A piece was reported, so it must be taken back before another try."""

    @property
    def partial(self) -> str:
        """Text that has arrived, for the record of a failed call."""
        ...

    def start(self, content_type: str) -> None:
        """The answer begins."""
        ...

    def feed(self, data: bytes) -> None:
        """More of it; raises ModelError when it tells of an error or can't be read."""
        ...

    def finish(self) -> Read:
        """It is over; raises ModelError when it is no reply."""
        ...


@dataclass(frozen=True, slots=True)
class Timeouts:
    """All in seconds."""

    connect: float = 10.0
    read: float = 120.0
    """Until a whole reply begins to arrive; thinking models are slow."""
    gap: float = 60.0
    """Between two pieces of a stream."""
    total: float = 600.0
    """One try, from the first byte sent to the last received."""

    def phases(self, streamed: bool) -> dict[str, float]:
        """In the form of httpx."""
        read = self.gap if streamed else self.read
        return {"connect": self.connect, "read": read, "write": self.read, "pool": self.connect}


LOCAL_TIMEOUTS = Timeouts(read=600.0, gap=300.0, total=1800.0)
"""For a server on this machine, whose model may have to be loaded first."""


@dataclass(frozen=True, slots=True)
class Transport:
    """Calls to one Endpoint. It keeps nothing of a loop, so it serves every thread and can be pickled."""

    endpoint: Endpoint
    retry: Retry = Retry()
    timeouts: Timeouts = Timeouts()
    concurrency: int | None = None
    """Calls in flight at once, over all models with this server and key; None: no bound."""
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    async def call(
        self, body: bytes, new_reader: Callable[[], Reader[T]], way: Way, on_delta: OnDelta | None = None
    ) -> T:
        """What a Reader makes of the answer.

        Args:
            body: JSON.
            new_reader: Makes the Reader of each try.
            way: Gets the notes of the waits.
            on_delta: Told of each wait. When it is given, the body must have asked for a stream.

        Raises:
            ModelError: No try brought a reply; `partial` and `notes` tell what there was.
        """
        tries, tell, told, began, ticket = 0, on_delta or _nobody, False, None, None
        failed, partial, stale, renewed = None, "", False, False
        while True:
            reader, tries, gate = new_reader(), tries + 1, self._gate()
            if gate is None:
                started = self.clock()
            else:
                ticket = gate.ticket() if ticket is None else ticket
                started = await self._enter(gate, ticket, way, None if told else tell)
            began = started if began is None else began
            if failed is not None and started - began > self.retry.total_seconds:  # the gate took its time
                if gate is not None:
                    gate.leave()
                raise self._final(failed, partial, way, tries - 1)
            try:
                return await self._try(body, reader, on_delta is not None, gate, stale)
            except ModelError as error:
                failed = error
            finally:
                if gate is not None:
                    gate.leave()
            partial, stale = reader.partial, isinstance(failed, _StaleError) and not renewed
            renewed, tries = renewed or stale, tries - stale
            wait = 0.0 if stale else self.retry.wait(failed, tries, self.clock() - began, self.chance())
            told = self._slow_down(failed, tries, wait, started)
            if wait is None:
                raise self._final(failed, partial, way, tries)
            way.notes.append(note(failed, wait))
            announce(tell, way.notes[-1], reader.shown)
            if not told:  # else the gate has the wait of all
                way.waited += wait
                await self.sleep(wait)

    def _final(self, error: ModelError, partial: str, way: Way, tries: int) -> ModelError:
        """The error that the caller gets, with what was tried."""
        error.partial = error.partial or partial
        error.notes = tuple(way.notes)
        longest = self.retry.longest_wait_seconds
        if error.retryable and error.retry_after is not None and error.retry_after > longest:
            error.remedy = (
                f"The server asks to wait {error.retry_after:.0f} s, longer than the {longest:.0f} s allowed."
            )
        elif tries > 1:
            error.message += f" (tried {tries} times)"
        return error

    # ── the gate ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _gate(self) -> Gate | None:
        """The gate of this server and key; None as long as no call needed one."""
        gates = clients().gates
        if self.concurrency is not None:
            return gates.setdefault(self.endpoint.account, Gate())
        return gates.get(self.endpoint.account) if gates else None

    async def _enter(self, gate: Gate, ticket: int, way: Way, tell: OnDelta | None) -> float:
        """Wait for the turn of this call, and say so; `tell` is None when that was said. Returns when it started."""
        before = self.clock()
        seconds = gate.delay(self.concurrency, before)
        if tell is not None and seconds == math.inf:
            tell(Delta("note", f"waiting for a free place: {gate.in_flight} calls to this server are in flight"))
        elif tell is not None and seconds >= _WORTH_A_NOTE_SECONDS:
            way.notes.append(f"waiting {seconds:.0f} s: rate limit (another call was told to wait)")
            tell(Delta("note", way.notes[-1]))
        started = await gate.enter(ticket, self.concurrency, self)
        way.waited += started - before
        return started

    def _slow_down(self, error: ModelError, tries: int, wait: float | None, started: float) -> bool:
        """Make all calls to this server with this key wait, where its answer means them all; whether it does."""
        if error.kind != "rate_limit" and (error.retry_after is None or error.status not in _BUSY):
            return False
        seconds = self.retry.backoff(tries) if error.retry_after is None else error.retry_after
        if not error.retryable or seconds > self.retry.longest_wait_seconds:
            return False
        gate = clients().gates.setdefault(self.endpoint.account, Gate())
        gate.slow_down(seconds if wait is None else wait, started, self.clock())
        return True

    def _heed(self, gate: Gate, headers: Mapping[str, str]) -> None:
        """An answer came: it may tell that it was the last for some time."""
        gate.passed()
        seconds = until_reset(headers, time.time())
        if seconds is not None and seconds <= self.retry.longest_wait_seconds:
            gate.pause(seconds, self.clock())

    # ── one try ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _try(self, body: bytes, reader: Reader[T], streamed: bool, gate: Gate | None, fresh: bool) -> T:
        own, origin = clients(), self.endpoint.origin
        client = make_client(origin) if fresh else await own.take(origin)
        try:
            async with asyncio.timeout(self.timeouts.total) as limit:
                response = await self._send(client, body, streamed)
                try:
                    await self._receive(response, reader)
                finally:
                    await response.aclose()
            result = reader.finish()
        except BaseException as error:
            await client.transport.aclose()
            if isinstance(error, TimeoutError) and limit.expired():
                raise self._lost(f"took longer than {self.timeouts.total:g} s", retryable=False) from None
            raise
        own.give_back(origin, client)
        if gate is not None:
            self._heed(gate, response.headers)
        return result

    async def _send(self, client: Client, body: bytes, streamed: bool) -> httpx.Response:
        phases = self.timeouts.phases(streamed)
        try:  # the request has no name here, as its address may hold a key that a traceback with locals would show
            return await client.transport.handle_async_request(self.endpoint.request(body, phases))
        except httpx.TransportError as error:
            stale = client.used and isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError)
            raise self._failure(error, _StaleError if stale else ModelError) from None

    async def _receive(self, response: httpx.Response, reader: Reader[Any]) -> None:
        pieces = _pieces(response)
        try:
            if response.status_code >= 300 or response.status_code in _EMPTY:
                raise await self._refused(response, pieces)
            reader.start(response.headers.get("content-type", ""))
            async for piece in pieces:
                reader.feed(piece)
                if reader.done:
                    await _drain(pieces)
                    break
        except httpx.HTTPError as error:
            if not reader.complete:
                raise self._failure(error) from None
        finally:
            await pieces.aclose()

    async def _refused(self, response: httpx.Response, pieces: AsyncIterator[bytes]) -> ModelError:
        body = b""
        with suppress(httpx.HTTPError):
            async for piece in pieces:
                body += piece
                if len(body) > _ERROR_BYTES:
                    break
        status = response.status_code
        remedy = self.endpoint.advice(status) or _where_to(response)
        return status_error(self.endpoint.target, status, response.headers, body, remedy)

    def _failure(self, error: httpx.HTTPError, kind: type[ModelError] = ModelError) -> ModelError:
        """A ModelError for what httpx raised; its text may hold a header, so it is used only where it can't."""
        if isinstance(error, httpx.TimeoutException):
            return self._lost(_TIMED_OUT.get(type(error), "timed out"))
        if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
            return self._lost("could not be sent: the request is malformed", retryable=False)
        said = shorten(plain(str(error)), 200)
        if "CERTIFICATE" in said:
            failure = self._lost(f"found no trusted certificate: {said}", retryable=False)
            failure.remedy = "Behind a company proxy, name its certificate file in SSL_CERT_FILE."
            return failure
        if isinstance(error, httpx.DecodingError):
            failure = self._lost(f"answered with damaged data: {said or type(error).__name__}")
            failure.kind, failure.remedy = "reply", "Try again; look at what stands between, such as a proxy."
            return failure
        what = "could not connect" if isinstance(error, httpx.ConnectError) else "lost the connection"
        return self._lost(f"{what}: {said or type(error).__name__}", kind=kind)

    def _lost(self, what: str, *, retryable: bool = True, kind: type[ModelError] = ModelError) -> ModelError:
        return kind(
            f"{self.endpoint.target} {mask(what)}",
            kind="connection",
            retryable=retryable,
            remedy=self.endpoint.advice(None),
        )


_TIMED_OUT: dict[type[httpx.HTTPError], str] = {
    httpx.ConnectTimeout: "could not connect in time",
    httpx.ReadTimeout: "timed out: no answer came",
    httpx.WriteTimeout: "timed out while sending",
}


class _StaleError(ModelError):
    """A kept connection broke before an answer came: most likely it had been closed, so one more try does not count."""


def _where_to(response: httpx.Response) -> str:
    """Where a redirection leads; a key is never sent after it."""
    place = response.headers.get("location", "").partition("?")[0] if 300 <= response.status_code < 400 else ""
    return f"It leads to {shorten(mask(plain(place)), 200)}: is that the right base URL?" if place else ""


def _nobody(delta: Delta) -> None:
    """Nobody waits for the pieces."""


def _pieces(response: httpx.Response) -> Any:
    """The bytes of the answer, as an async generator; decoding is left out where nothing was encoded."""
    encoded = "content-encoding" in response.headers
    return response.aiter_bytes() if encoded else aiter(response.stream)  # type: ignore[arg-type]  # async transport


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Read past the end mark, so that the connection can be used again; a server that holds it open is left alone."""
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in pieces:
                pass
