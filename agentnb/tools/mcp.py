"""Tools of MCP servers: `Agent(tools=[mcp("npx -y @modelcontextprotocol/server-everything")])`.

    mcp(command | URL | server object) ──▶ MCPServer ──▶ a Tool for each of its tools, `server__tool`

The schemas are the server's own. A tool that the server does not call harmless asks for approval, since a missing hint
means that it may destroy something. What goes wrong over there is an error result; a server that died is started again
by the next call. A server that is started as a program sees PATH, HOME and the like of the environment, and beyond that
only what `env=` names.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

from agentnb import settings
from agentnb.core.messages import ToolResult
from agentnb.errors import SettingsError
from agentnb.text import hide, mask, shorten
from agentnb.tools.mcp_content import prefixed, server_name, text_of
from agentnb.tools.mcp_session import Session
from agentnb.tools.tool import Tool, ToolOptions

if TYPE_CHECKING:
    from mcp_types import Tool as TheirTool

CALL_SECONDS = 60.0


def mcp(
    target: Any,
    *,
    name: str = "",
    env: Mapping[str, str] | Sequence[str] = (),
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    approve: bool | None = None,
    timeout: float = CALL_SECONDS,
) -> MCPServer:
    """A server whose tools an agent can use; it is started, or connected to, when they are first asked for.

    Args:
        target: A command line (or its words in a list), an http(s) URL (streamable HTTP), or a server object of the
            `mcp` package in this process.
        name: Stands before the name of each tool; "" takes it from the target.
        env: What a started program sees of the environment beside PATH, HOME and the like: names of settings, such as
            ["GITHUB_TOKEN"], whose values are kept out of results, or names with values.
        cwd: The folder in which the program is started.
        headers: Sent with each HTTP request, such as {"Authorization": "Bearer ..."}; their values are kept secret.
        approve: Whether a person decides before each call; None goes by the server's own hints.
        timeout: Seconds for one call.

    Raises:
        SettingsError: The target is none of these, or the `mcp` package is not installed.
    """
    words = shlex.split(target) if isinstance(target, str) and not _is_url(target) else target
    if isinstance(words, list | tuple) and not (words and all(isinstance(word, str) for word in words)):
        raise SettingsError(f"mcp() got {target!r}, expected a command or a URL", layer="tools", remedy=_REMEDY)
    if not isinstance(words, str | list | tuple) and not hasattr(words, "name"):
        raise SettingsError(f"mcp() got {shorten(repr(target))}, expected a server", layer="tools", remedy=_REMEDY)
    for value in (headers or {}).values():
        hide(value)
    chosen = ToolOptions(timeout=timeout)
    return MCPServer(words, name or server_name(words), env, cwd, dict(headers or {}), approve, chosen)


_REMEDY = 'mcp("npx -y @modelcontextprotocol/server-everything"), or mcp("https://example.com/mcp")'


class MCPServer:
    """A server and its tools: iterate it, or give it to an Agent as it is. Made by `mcp`."""

    def __init__(
        self,
        target: Any,
        name: str,
        env: Mapping[str, str] | Sequence[str],
        cwd: str | Path | None,
        headers: dict[str, str],
        approve: bool | None,
        options: ToolOptions,
    ) -> None:
        self._given = (target, name, env, cwd, headers, approve, options)
        self.target, self.name, self.approve, self.options = target, name, approve, options
        self._session = Session(target, partial(_environment, env), cwd, headers)
        self._tools: tuple[Tool, ...] | None = None
        self._close = finalize(self, self._session.close)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Its tools as the server lists them now; it is connected to when it is not.

        Raises:
            ToolError: It can't be started or reached.
        """
        listed, fresh = self._session.listed()
        if fresh or self._tools is None:
            self._tools = self._made(listed)
        return self._tools

    def _made(self, listed: Sequence[TheirTool]) -> tuple[Tool, ...]:
        taken: set[str] = set()
        return tuple(self._tool(each, prefixed(self.name, each.name, taken)) for each in listed)

    def _tool(self, theirs: TheirTool, name: str) -> Tool:
        hints = theirs.annotations
        harmless = hints is not None and (hints.read_only_hint is True or hints.destructive_hint is False)
        approve = not harmless if self.approve is None else self.approve
        told = theirs.description or theirs.title or f"{theirs.name}, of the server {self.name}"
        options = ToolOptions(name, told, approve, timeout=self.options.timeout, quoted=True)
        schema = {key: value for key, value in theirs.input_schema.items() if key != "$schema"}
        return Tool(partial(call_tool, self, theirs.name), options, schema)

    def close(self) -> None:
        """End the connection; a program that was started is ended. The next call starts it again."""
        self._session.close()

    @property
    def status(self) -> str:
        """How things stand, in words."""
        return self._session.status

    def __enter__(self) -> MCPServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def __getitem__(self, name: str) -> Tool:
        """The tool of this name, with or without the server's name before it."""
        return next(tool for tool in self.tools if name in (tool.name, tool.name.removeprefix(f"{self.name}__")))

    def __repr__(self) -> str:
        target = " ".join(self.target) if isinstance(self.target, list | tuple) else self.target
        return f"<MCP server {self.name}: {mask(shorten(target if isinstance(target, str) else repr(type(target))))}>"

    def __reduce__(self) -> Any:
        return MCPServer, self._given


async def call_tool(server: MCPServer, tool: str, /, **arguments: Any) -> ToolResult:
    """Call a tool of an MCP server; it validates the arguments itself."""
    called = server._session.call(tool, arguments)
    result, notes = await asyncio.wrap_future(called)
    text, value = text_of(result)
    return ToolResult("", "", text, "error" if result.is_error else "ok", value, notes=notes)


def _environment(env: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """The variables that a program is given; read when it is started.

    Raises:
        SettingsError: One that is only named is not set.
    """
    if isinstance(env, Mapping):
        return dict(env)
    found = {name: settings.secret(name) for name in ([env] if isinstance(env, str) else env)}
    if missing := [name for name, value in found.items() if value is None]:
        raise SettingsError(f"{missing[0]} is not set, but env= names it", remedy="Put it in .env or the environment.")
    return {name: value.reveal() for name, value in found.items() if value is not None}


def _is_url(target: str) -> bool:
    return target.startswith(("http://", "https://"))
