"""`%agent mcp`: connect to MCP servers and see what they offer."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Any

from agentnb.errors import UsageError

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics
    from agentnb.tools.mcp import MCPServer


def mcp_command(magics: AgentMagics, words: list[str]) -> None:
    """Alone: the servers; NAME COMMAND or URL: connect, the variable NAME holds it; close NAME: end it.

    Raises:
        UsageError: The words make no sense.
    """
    space = magics.shell.user_ns
    if not words:
        _show_all(space)
    elif words[0] == "close":
        _named(space, words[1:]).close()
    else:
        _show(_connected(space, words))


def _connected(space: dict[str, Any], words: list[str]) -> MCPServer:
    from agentnb.tools.mcp import mcp

    name, *target = words
    if not target or not name.isidentifier() or keyword.iskeyword(name):
        what = f"%agent mcp takes a variable's name and a command or URL, not {' '.join(words)!r}"
        raise UsageError(what, remedy="%agent mcp everything npx -y @modelcontextprotocol/server-everything")
    url = target[0] if target[0].startswith(("http://", "https://")) else None
    server = mcp(url or target, name=name)
    server.tools  # noqa: B018  # connects, or tells now why not
    if isinstance(before := space.get(name), type(server)):
        before.close()
    space[name] = server
    return server


def _named(space: dict[str, Any], words: list[str]) -> MCPServer:
    servers = _servers(space)
    if len(words) != 1 or words[0] not in servers:
        what = f"%agent mcp close takes one of {', '.join(servers) or 'no servers yet'}"
        raise UsageError(what, remedy="%agent mcp close NAME")
    return servers[words[0]]


def _servers(space: dict[str, Any]) -> dict[str, MCPServer]:
    from agentnb.tools.mcp import MCPServer

    return {
        name: each for name, each in list(space.items()) if isinstance(each, MCPServer) and not name.startswith("_")
    }


def _show_all(space: dict[str, Any]) -> None:
    for name, server in _servers(space).items():
        print(f"{name}  {server}  {server.status}")
    if not _servers(space):
        print("no MCP servers yet; %agent mcp NAME COMMAND connects to one")


def _show(server: MCPServer) -> None:
    for tool in server:
        asks = " (asks before each call)" if tool.spec.approve else ""
        print(f"{tool.name}{asks}  {(tool.spec.description or 'no description').splitlines()[0]}")
    print(f"%%agent -t {server.name} uses them")
