"""One connection to an MCP server, alive in a thread and an event loop of its own.

The library wants a connection opened and closed by the same task, and the cells, threads and loops that use it come and
go. So one task in a private loop holds it open, and a call from anywhere is handed over to that loop.

    call ──▶ connected? ──no──▶ open, list the tools ──▶ the call ──▶ its result
                                                            └── the connection broke ──▶ error; the next call opens anew
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any

from agentnb.errors import SettingsError, ToolError
from agentnb.text import clean, counted, mask, plain, shorten
from agentnb.tools.quoted import label

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import Client
    from mcp_types import CallToolResult, Tool

CONNECT_SECONDS = 120.0
"""Time to start a server; npx may have to fetch it first."""
_CLOSE_SECONDS = 10.0
_MOST_PAGES = 100
_LAST_WORDS = 500
"""Characters of a program's error output that are told when it broke."""
_THREAD = "agentnb-mcp"
log = logging.getLogger("agentnb")


class Session:
    """Opens the connection when it is first needed, and anew when it broke.

    Args:
        target: The words of a command, a URL, or a server object.
        environment: Makes the variables for a program that is started.
        cwd: Its folder.
        headers: For HTTP.
    """

    def __init__(
        self, target: Any, environment: Callable[[], dict[str, str]], cwd: str | Path | None, headers: Mapping[str, str]
    ) -> None:
        self.target, self.environment, self.cwd, self.headers = target, environment, cwd, dict(headers)
        self.status = "not connected"
        self._lock = Lock()
        self._thread: tuple[ExitStack, BlockingPortal] | None = None
        self._opening: asyncio.Lock | None = None
        self._held: _Held | None = None
        self._tools: list[Tool] | None = None
        self._stale = False

    # ── from any thread ──────────────────────────────────────────────────────────────────────────────────────────

    def listed(self) -> tuple[list[Tool], bool]:
        """The server's tools, and whether they were listed anew.

        Raises:
            ToolError: It can't be reached.
        """
        if self._tools is not None and not self._stale:
            return self._tools, False
        return self._portal().start_task_soon(self._list_again).result(), True

    def call(self, tool: str, arguments: dict[str, Any]) -> Future[tuple[CallToolResult, tuple[str, ...]]]:
        """Begin a call; to cancel the future cancels it over there. It brings the result, and notes about the way."""
        return self._portal().start_task_soon(self._call, tool, arguments)

    def close(self) -> None:
        """End the connection and its thread."""
        if current_thread().name == _THREAD:  # the garbage collector came by there
            Thread(target=self.close).start()
            return
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            stack, portal = thread
            with suppress(Exception):
                portal.start_task_soon(self._end).result(_CLOSE_SECONDS)
            stack.close()

    def _portal(self) -> BlockingPortal:
        with self._lock:
            if self._thread is None:
                try:
                    from anyio.from_thread import start_blocking_portal
                    from mcp import Client  # noqa: F401  # so that a missing package is told here
                except ImportError as error:
                    what, remedy = "the package mcp is not installed", "pip install 'agentnb-jupyter[mcp]'"
                    raise SettingsError(what, layer="tools", remedy=remedy) from error
                stack = ExitStack()
                self._thread = stack, stack.enter_context(start_blocking_portal(name=_THREAD))
                self._opening = None
            return self._thread[1]

    # ── in the thread of the connection ──────────────────────────────────────────────────────────────────────────

    async def _list_again(self) -> list[Tool]:
        client, _ = await self._connected()
        if self._stale or self._tools is None:
            self._tools, self._stale = await _all_tools(client), False
        return self._tools

    async def _call(self, tool: str, arguments: dict[str, Any]) -> tuple[CallToolResult, tuple[str, ...]]:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        client, notes = await self._connected()
        held = self._held
        try:
            return await client.call_tool(tool, arguments), notes
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                raise ToolError(f"the server refused the call and says {label(error.message, 1_000)}") from error
            raise await self._broken(held, error) from error
        except Exception as error:
            raise await self._broken(held, error) from error

    async def _broken(self, held: _Held | None, error: Exception) -> ToolError:
        """Give the connection up; what is left of it is said."""
        why = _told(error) + (held.last_words() if held else "")
        if held is not None and held is self._held:
            self._held = None
            self.status = f"broken: {why}"
            await held.end()
        return ToolError(
            f"the connection to the MCP server broke during the call, which may have taken effect ({why}). "
            "The next call connects again."
        )

    async def _connected(self) -> tuple[Client, tuple[str, ...]]:
        """The open connection; opened anew, with what has changed since, when there is none."""
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._held is not None and self._held.client is not None:
                return self._held.client, ()
            held = _Held(self)
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    client = await held.open()
                    before, self._tools = self._tools, await _all_tools(client)
            except SettingsError:
                raise
            except Exception as error:
                await held.end()
                self.status = f"can't be reached: {_told(error)}"
                raise ToolError(f"the MCP server can't be reached ({_told(error)}{held.last_words()})") from error
            except asyncio.CancelledError:
                held.give_up()
                raise
            self._held, self.status = held, f"connected, {counted(len(self._tools), 'tool')}"
            if before is None:
                return client, ()
            self._stale = self._stale or before != self._tools
            return client, (f"the server was started again{_changes(before, self._tools)}",)

    async def _end(self) -> None:
        held, self._held, self.status = self._held, None, "closed"
        if held is not None:
            await held.end()

    async def heard(self, message: Any) -> None:
        """A message of the server: its list of tools may have changed."""
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._stale = True


class _Held:
    """One open connection, held by one task from its opening to its end."""

    def __init__(self, session: Session) -> None:
        from anyio import CancelScope

        self.session = session
        self.client: Client | None = None
        self._leave, self._scope = asyncio.Event(), CancelScope()
        self._task: asyncio.Task[None] | None = None
        self._errors: Any = None
        self._said = ""

    async def open(self) -> Client:
        """Open it; raises what went wrong."""
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._hold(ready))
        return await ready

    async def end(self) -> None:
        """Close it, and wait until a program that was started is gone."""
        self._leave.set()
        if self.client is None:
            self._scope.cancel()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)

    def give_up(self) -> None:
        """Close it without waiting."""
        self._scope.cancel()

    async def _hold(self, ready: asyncio.Future[Client]) -> None:
        try:
            with self._scope:
                async with self._client() as client:
                    self.client = client
                    if not ready.done():
                        ready.set_result(client)
                    await self._leave.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
            log.debug("mcp: the connection ended with %r", error)
        finally:
            self.client = None
            ready.cancel()

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        from mcp import Client

        async with AsyncExitStack() as stack:
            target = await self._transport(stack)
            yield await stack.enter_async_context(Client(target, message_handler=self.session.heard, cache=None))

    async def _transport(self, stack: AsyncExitStack) -> Any:
        target = self.session.target
        if isinstance(target, str):
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            timeout = httpx2.Timeout(30.0, read=300.0)
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=self.session.headers, timeout=timeout))
            return streamable_http_client(target, http_client=http)
        if isinstance(target, list | tuple):
            from mcp import StdioServerParameters
            from mcp.client.stdio import stdio_client

            command, *words = target
            env = self.session.environment()
            program = StdioServerParameters(command=command, args=words, env=env, cwd=self.session.cwd)
            self._errors = stack.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115  # the stack closes it
            stack.callback(self.last_words)
            return stdio_client(program, errlog=self._errors)
        return target

    def last_words(self) -> str:
        """The end of what a program wrote to its error output."""
        if self._errors is not None and not self._errors.closed:
            end = os.fstat(self._errors.fileno()).st_size
            written = os.pread(self._errors.fileno(), _LAST_WORDS, max(0, end - _LAST_WORDS))
            said = mask(plain(clean(written.decode("utf-8", "replace")))).strip()
            self._said = f"; its last words: {said}" if said else ""
        return self._said


async def _all_tools(client: Client) -> list[Tool]:
    found: list[Tool] = []
    cursor = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _changes(before: list[Tool], now: list[Tool]) -> str:
    """Which tools came, went and changed."""
    old, new = ({tool.name: tool for tool in tools} for tools in (before, now))
    told = {"new": new.keys() - old.keys(), "gone": old.keys() - new.keys()}
    told["changed"] = {name for name in new.keys() & old.keys() if new[name] != old[name]}
    words = [f"{how}: {', '.join(sorted(names))}" for how, names in told.items() if names]
    return f"; its tools changed ({'; '.join(words)})" if words else ""


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return mask(shorten(plain(f"{type(error).__name__}: {error}".removesuffix(": ")), 300))
