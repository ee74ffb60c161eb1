"""One model call over HTTP: time-outs, retries and honest errors. The loop above knows nothing of the network.

    Transport.call(body, new_reader, on_delta)
        └─ one try ──▶ a client, one POST, its bytes into a Reader ──▶ what the Reader made of them
           ├─ failed, and again may help: say so, wait, begin again with a fresh Reader
           └─ failed for good: ModelError with what had arrived

A Reader is one dialect's way to read an answer; it never sees the network.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import httpx

from agentnb.core.model import Delta, OnDelta
from agentnb.errors import ModelError
from agentnb.models.clients import Client, clients
from agentnb.models.endpoint import Endpoint
from agentnb.models.http_errors import status_error
from agentnb.text import mask, shorten

T = TypeVar("T")
Read = TypeVar("Read", covariant=True)
_ERROR_BYTES = 65_536
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
class Retry:
    """How often and how long a failed call is tried again."""

    attempts: int = 3
    """Tries in all; 1 never tries again."""
    longest_wait_seconds: float = 60.0
    """A server that asks for a longer wait is not asked again."""
    total_seconds: float = 300.0
    """No try begins later than this after the first."""

    def wait(self, error: ModelError, tries: int, spent: float, chance: float) -> float | None:
        """Seconds to wait before another try; None when there is to be none.

        Args:
            error: How the last try failed.
            tries: How many there were.
            spent: Seconds since the first began.
            chance: A random number from 0 to 1, so that many callers do not come back at once.
        """
        if not error.retryable or tries >= self.attempts:
            return None
        asked = error.retry_after
        if asked is None:
            wait = min(0.5 * 2 ** (tries - 1), 8.0, self.longest_wait_seconds) * (1 - 0.25 * chance)
        else:
            wait = asked + min(1.0, 0.25 * asked) * chance
        too_long = asked is not None and asked > self.longest_wait_seconds
        return None if too_long or spent + wait > self.total_seconds else wait


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
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    async def call(
        self, body: bytes, new_reader: Callable[[], Reader[T]], on_delta: OnDelta | None = None
    ) -> tuple[T, tuple[str, ...]]:
        """What a Reader makes of the answer, and the notes of the retries on the way.

        Args:
            body: JSON.
            new_reader: Makes the Reader of each try.
            on_delta: Told of each wait. When it is given, the body must have asked for a stream.

        Raises:
            ModelError: No try brought a reply; `partial` and `notes` tell what there was.
        """
        began = self.clock()
        notes: list[str] = []
        while True:
            reader = new_reader()
            try:
                return await self._try(body, reader, on_delta is not None), tuple(notes)
            except ModelError as error:
                wait = self.retry.wait(error, len(notes) + 1, self.clock() - began, self.chance())
                if wait is None:
                    raise self._final(error, reader.partial, notes)  # noqa: B904  # it is the same error
                notes.append(_note(error, wait))
            if on_delta is not None:
                announce(on_delta, notes[-1], reader.shown)
            await self.sleep(wait)

    def _final(self, error: ModelError, partial: str, notes: list[str]) -> ModelError:
        """The error that the caller gets, with what was tried."""
        error.partial = error.partial or partial
        error.notes = tuple(notes)
        longest = self.retry.longest_wait_seconds
        if error.retryable and error.retry_after is not None and error.retry_after > longest:
            error.remedy = (
                f"The server asks to wait {error.retry_after:.0f} s, longer than the {longest:.0f} s allowed."
            )
        elif notes:
            error.message += f" (tried {len(notes) + 1} times)"
        return error

    # ── one try ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _try(self, body: bytes, reader: Reader[T], streamed: bool) -> T:
        own, origin = clients(), self.endpoint.url
        client = await own.take(origin)
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
        return result

    async def _send(self, client: Client, body: bytes, streamed: bool) -> httpx.Response:
        request = self.endpoint.request(body, self.timeouts.phases(streamed))
        try:
            return await client.transport.handle_async_request(request)
        except httpx.TransportError as error:
            stale = client.used and isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError)
            raise self._failure(error, at_once=stale) from None

    async def _receive(self, response: httpx.Response, reader: Reader[Any]) -> None:
        pieces = _pieces(response)
        try:
            if response.status_code >= 300:
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
        return status_error(self.endpoint.target, status, response.headers, body, self.endpoint.advice(status))

    def _failure(self, error: httpx.HTTPError, at_once: bool = False) -> ModelError:
        """A ModelError for what httpx raised; its text may hold a header, so it is used only where it can't."""
        if isinstance(error, httpx.TimeoutException):
            return self._lost(_TIMED_OUT.get(type(error), "timed out"))
        if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
            return self._lost("could not be sent: the request is malformed", retryable=False)
        said = shorten(str(error), 200)
        if "CERTIFICATE" in said:
            failure = self._lost(f"found no trusted certificate: {said}", retryable=False)
            failure.remedy = "Behind a company proxy, name its certificate file in SSL_CERT_FILE."
            return failure
        what = "could not connect" if isinstance(error, httpx.ConnectError) else "lost the connection"
        return self._lost(f"{what}: {said or type(error).__name__}", at_once=at_once)

    def _lost(self, what: str, *, retryable: bool = True, at_once: bool = False) -> ModelError:
        return ModelError(
            f"{self.endpoint.target} {mask(what)}",
            kind="connection",
            retryable=retryable,
            retry_after=0.0 if at_once else None,
            remedy=self.endpoint.advice(None),
        )


_TIMED_OUT: dict[type[httpx.HTTPError], str] = {
    httpx.ConnectTimeout: "could not connect in time",
    httpx.ReadTimeout: "timed out: no answer came",
    httpx.WriteTimeout: "timed out while sending",
}
_REASONS = {"rate_limit": "rate limit", "connection": "connection failed", "reply": "unreadable answer"}


def _note(error: ModelError, wait: float) -> str:
    """Such as "waiting 12 s: rate limit"."""
    seconds = f"{wait:.0f}" if wait >= 1 or not wait else f"{wait:.1f}"
    reason = _REASONS.get(error.kind) or (f"server error {error.status}" if error.status else "server error")
    return mask(f"waiting {seconds} s: {reason} ({shorten(error.message, 160)})")


def announce(on_delta: OnDelta, note: str, shown: bool) -> None:
    """Tell why a call begins again, and that what was shown of it is to be dropped."""
    if shown:
        on_delta(Delta("restart"))
    on_delta(Delta("note", note))


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
