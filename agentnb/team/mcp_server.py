"""The other way round: an agent, or its tools, for any MCP client. `mcp_server(agent).run()` is a whole program.

client ──stdio or streamable HTTP──▶ the server ──▶ a run of the agent, or one tool ──▶ its text
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from agentnb import bridge
from agentnb.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.tool import Tool
from agentnb.errors import SettingsError
from agentnb.team.nested import as_tool
from agentnb.text import no_such_tool

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult


def mcp_server(agent: Agent, *, tools: bool = False) -> AgentServer:
    """An MCP server that offers the agent as one tool, to which a client gives tasks; or the agent's own tools.

    A tool that asks for approval is not offered, since nobody is there to be asked: `tool.replace(approve=False)` says
    that its clients may call it. Inside the agent such a call pauses its run, which the client reads as an error.

    Args:
        agent: What is offered.
        tools: Offer its tools instead of the agent itself.

    Raises:
        SettingsError: It is no agent, there is nothing to offer, or the `mcp` package is not installed.
    """
    offered = agent.tools if tools and isinstance(agent, Agent) else [as_tool(agent)]
    return AgentServer(agent.name, [tool for tool in offered if not tool.spec.approve])


class AgentServer:
    """A server over some tools; `server` is the object of the `mcp` package, for its own ways to serve and to test."""

    def __init__(self, name: str, tools: Sequence[Tool]) -> None:
        if not tools:
            remedy = "Give the agent tools, or offer it as a whole: mcp_server(agent)."
            raise SettingsError(f"{name} has no tools that can be offered", layer="team", remedy=remedy)
        try:
            from mcp.server import Server
        except ImportError as error:
            what, remedy = "the package mcp is not installed", "pip install 'agentnb-jupyter[mcp]'"
            raise SettingsError(what, layer="team", remedy=remedy) from error
        self._tools = {tool.spec.name: tool for tool in tools}
        self._alone = asyncio.Lock()
        self.server: Server[Any] = Server(
            name, version=_own_version(), on_list_tools=self._list, on_call_tool=self._call
        )

    def run(self, transport: str = "stdio", *, host: str = "127.0.0.1", port: int = 8000) -> None:
        """Serve until the client leaves (stdio), or until interrupted (HTTP).

        Args:
            transport: "stdio", or "http" for streamable HTTP at http://host:port/mcp.
            host: Who can reach it: this machine alone by default. There is no password: open it to others only behind
                something that asks for one.
            port: Of the address.

        Raises:
            SettingsError: There is no such transport.
        """
        if transport not in ("stdio", "http"):
            what = f"transport={transport!r}, expected 'stdio' or 'http'"
            raise SettingsError(what, layer="team")
        bridge.run_sync(self._stdio() if transport == "stdio" else self._http(host, port))

    async def _stdio(self) -> None:
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (reading, writing):
            await self.server.run(reading, writing, self.server.create_initialization_options())

    async def _http(self, host: str, port: int) -> None:
        import uvicorn

        app = self.server.streamable_http_app(host=host)
        await uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning")).serve()

    async def _list(self, context: Any, params: Any) -> ListToolsResult:
        from mcp_types import ListToolsResult
        from mcp_types import Tool as Offered

        specs = [tool.spec for tool in self._tools.values()]
        return ListToolsResult(
            tools=[
                Offered(name=each.name, description=each.description, input_schema=dict(each.parameters))
                for each in specs
            ]
        )

    async def _call(self, context: Any, params: CallToolRequestParams) -> CallToolResult:
        from mcp_types import CallToolResult, TextContent

        tool = self._tools.get(params.name)
        if tool is None:
            content, failed = no_such_tool(params.name, self._tools), True
        else:
            call = ToolCall("call_1", params.name, json.dumps(params.arguments or {}))
            async with nullcontext() if tool.spec.parallel else self._alone:
                result = await tool.answer(call)
            content, failed = result.content, not result.ok
        return CallToolResult(content=[TextContent(type="text", text=content)], is_error=failed)


def _own_version() -> str:
    try:
        return version("agentnb-jupyter")
    except PackageNotFoundError:  # from source, not installed
        return "0"
