"""`%agent mcp`: connect to MCP servers and see what they offer."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Any

from agentnb.errors import ToolError, UsageError
from agentnb.text import looks_like_key

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics
    from agentnb.tools.mcp import MCPServer


USAGE = "%agent mcp NAME [--env VARIABLE] [--] COMMAND, or %agent mcp NAME https://..."
EXAMPLE = "%agent mcp everything npx -y @modelcontextprotocol/server-everything"
_VALUES = "Put the value in .env, where no notebook keeps it, and write --env NAME."


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
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError("%agent mcp: a variable's name comes first", remedy=EXAMPLE)
    if not target:
        raise UsageError("%agent mcp lacks a command or a URL after the variable's name", remedy=EXAMPLE)
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
    """The names that `--env` gives, and the words of the command, which may stand behind `--`.

    Raises:
        UsageError: What stands there is no name. It may be a value, so it is not repeated.
    """
    names: list[str] = []
    while words and words[0].partition("=")[0] == "--env":
        _, equals, given = words[0].partition("=")
        given, words = (given, words[1:]) if equals else (" ".join(words[1:2]), words[2:])
        names += _names(given)
    if words[:1] == ["--"]:
        return names, words[1:]
    if words and words[0].startswith("-"):
        raise UsageError("--env is the only option that may stand before the command", remedy=USAGE)
    return names, words


def _names(given: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names or names == ["--"]:
        raise UsageError("--env lacks the name of a variable", remedy=USAGE)
    for name in names:
        if not name.isidentifier() or looks_like_key(name):
            why = "not their values" if "=" in name else "and this is none"
            raise UsageError(f"--env takes the names of variables, {why}", remedy=f"{_VALUES} {USAGE}")
    return names


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
