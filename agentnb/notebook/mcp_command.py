"""`%agent mcp`: connect to MCP servers and see what they offer."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Any

from agentnb.errors import ToolError, UsageError

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics
    from agentnb.tools.mcp import MCPServer


USAGE = "%agent mcp NAME [--env VARIABLE] [--] COMMAND, or %agent mcp NAME https://..."


def mcp_command(magics: AgentMagics, words: list[str]) -> None:
    """Alone: the servers; NAME COMMAND or URL: connect, the variable NAME holds it; close NAME: end it.

    `--env TOKEN` before the command gives the program that setting, from the environment or `.env`, and no other.

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

    name, *rest = words
    variables, target = _variables(rest)
    if not target or not name.isidentifier() or keyword.iskeyword(name):
        what = f"%agent mcp takes a variable's name and a command or URL, not {' '.join(words)!r}"
        raise UsageError(what, remedy="%agent mcp everything npx -y @modelcontextprotocol/server-everything")
    url = target[0] if target[0].startswith(("http://", "https://")) else None
    if url and (variables or target[1:]):
        raise UsageError("a URL stands alone: nothing is started that could take words or variables", remedy=USAGE)
    server = mcp(url or target, name=name, env=variables)
    try:
        server.tools  # noqa: B018  # connects, or tells now why not
    except ToolError as error:
        remedy = "Check the address." if url else "Check the command; does it run in a terminal?"
        raise UsageError(error.message, remedy=remedy) from error
    if isinstance(before := space.get(name), type(server)):
        before.close()
    space[name] = server
    return server


def _variables(words: list[str]) -> tuple[list[str], list[str]]:
    """The names that `--env` gives, and the words of the command, which may stand behind `--`."""
    names: list[str] = []
    while words[:1] == ["--env"] and len(words) > 1:
        names += [name.strip() for name in words[1].split(",") if name.strip()]
        words = words[2:]
    wrong = next((name for name in names if not name.isidentifier()), None)
    if wrong is not None:
        what = f"--env takes the names of variables, not {wrong.partition('=')[0]!r} with a value"
        raise UsageError(what, remedy="Put the value in .env, where no notebook keeps it, and write --env NAME.")
    return names, words[1:] if words[:1] == ["--"] else words


def _named(space: dict[str, Any], words: list[str]) -> MCPServer:
    servers = _servers(space)
    if len(words) != 1 or words[0] not in servers:
        what = f"there is no server {' '.join(words)!r}" if words else "%agent mcp close takes a server's name"
        known = f"The servers of this notebook: {', '.join(servers) or 'none yet'}."
        raise UsageError(what, remedy=f"{known} %agent mcp close NAME")
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
