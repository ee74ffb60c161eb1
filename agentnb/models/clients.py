"""HTTP clients, and the gates before them: kept for the loop that they belong to, one call in flight each.

A shared pool gets slow when many calls wait in it, so every call takes a client of its own from the idle ones and
gives it back. All share one TLS context, which costs 20 ms to make. They are closed when their loop shuts down.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from functools import cache
from typing import Any
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import httpx

from agentnb.models.gate import Gate
from agentnb.models.network import use_asyncio

KEEP_SECONDS = 60.0
"""How long an idle connection is used again."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Client:
    """One HTTP client with at most one connection."""

    __slots__ = ("transport", "used")

    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        self.transport = transport
        self.used = False
        """Whether it has brought an answer, so that its connection is an old one which the server may have closed."""


class Clients:
    """The idle clients of one event loop, by origin (scheme, host and port)."""

    def __init__(self) -> None:
        self.idle: dict[str, list[Client]] = {}
        self.gates: dict[Any, Gate] = {}
        """By account (a server's base URL and key); only where one was needed."""
        self._closer: AsyncGenerator[None, None] | None = None

    async def take(self, origin: httpx.URL) -> Client:
        """An idle client, the last one given back first; a new one when none is idle."""
        if self._closer is None:
            self._closer = self._until_shutdown()
            await anext(self._closer)
        idle = self.idle.get(str(origin))
        return idle.pop() if idle else make_client(origin)

    def give_back(self, origin: httpx.URL, client: Client) -> None:
        """The call is over and its answer read to the end: others may use the client."""
        client.used = True
        self.idle.setdefault(str(origin), []).append(client)

    async def _until_shutdown(self) -> AsyncGenerator[None, None]:
        """Waits in the loop's list of async generators; `shutdown_asyncgens`, which every runner calls, ends it."""
        try:
            yield
        finally:
            clients = [client for idle in self.idle.values() for client in idle]
            self.idle.clear()
            self._closer = None
            for client in clients:
                await client.transport.aclose()


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Clients] = WeakKeyDictionary()


def clients() -> Clients:
    """The clients of the running loop."""
    loop = asyncio.get_running_loop()
    found = _of_loop.get(loop)
    if found is None:
        found = _of_loop[loop] = Clients()
    return found


def make_client(origin: httpx.URL) -> Client:
    """The one place where HTTP clients are made."""
    context = tls_context() if origin.scheme == "https" else _no_tls()
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_SECONDS)
    transport = httpx.AsyncHTTPTransport(verify=context, limits=limits, proxy=_proxy(origin))
    use_asyncio(transport)
    return Client(transport)


@cache
def tls_context() -> ssl.SSLContext:
    """The TLS context of this process; SSL_CERT_FILE and SSL_CERT_DIR are respected."""
    return httpx.create_ssl_context()


@cache
def _no_tls() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _proxy(origin: httpx.URL) -> str | None:
    """The proxy that the environment (or the system) names for this host; never one for this machine."""
    if origin.host in LOOPBACK:
        return None
    proxies = getproxies()
    found = proxies.get(origin.scheme) or proxies.get("all")
    if not found or proxy_bypass(origin.host):
        return None
    return found if "://" in found else f"http://{found}"
