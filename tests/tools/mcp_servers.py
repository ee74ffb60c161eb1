"""MCP servers for tests: one in this process whose tools do what a test wants, and the text of one that can crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import Server
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

ANY = {"type": "object"}
PIXEL = "iVBORw0KGgo="
EVERY_KIND = [
    TextContent(type="text", text="first"),
    ImageContent(type="image", data=PIXEL, mime_type="image/png"),
    AudioContent(type="audio", data=PIXEL, mime_type="audio/wav"),
    ResourceLink(type="resource_link", uri="file:///a.txt", name="a.txt", description="a file"),
    EmbeddedResource(type="resource", resource=TextResourceContents(uri="note://1", text="a note")),
    EmbeddedResource(type="resource", resource=BlobResourceContents(uri="blob://1", blob=PIXEL, mime_type="x/y")),
]


def text(said: str, **more: Any) -> CallToolResult:
    """A result of one text."""
    return CallToolResult(content=[TextContent(type="text", text=said)], **more)


def tool(name: str, description: str = "", schema: Any = None, **hints: bool) -> Tool:
    """A tool as a server lists it; `hints` are those of ToolAnnotations."""
    annotations = ToolAnnotations(**hints) if hints else None
    return Tool(name=name, description=description or None, input_schema=schema or ANY, annotations=annotations)


class Demo:
    """A server in this process: its tools can be changed, every call is remembered and answered by `answer`."""

    def __init__(self, *tools: Tool, answer: Callable[..., Awaitable[CallToolResult]] | None = None) -> None:
        self.tools = list(tools)
        self.calls: list[tuple[str, Any]] = []
        self.answer = answer
        self.pages = 1
        self.server: Server[Any] = Server("demo", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, context: Any, params: Any) -> ListToolsResult:
        page, size = int((params and params.cursor) or 0), -(-len(self.tools) // self.pages) or 1
        more = str(page + 1) if page + 1 < self.pages else None
        return ListToolsResult(tools=self.tools[page * size : (page + 1) * size], next_cursor=more)

    async def _call(self, context: Any, params: Any) -> CallToolResult:
        self.calls.append((params.name, params.arguments))
        if self.answer is not None:
            return await self.answer(params.name, params.arguments or {})
        return text(f"{params.name} was called")


FRAGILE = """
import asyncio, os, sys
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

folder = sys.argv[1]
names = ["echo", "crash", "environment", "sleep"] + (["new"] if os.path.exists(folder + "/crashed") else [])

async def listed(context, params):
    return ListToolsResult(tools=[Tool(name=name, input_schema={"type": "object"}) for name in names])

async def called(context, params):
    if params.name == "crash":
        open(folder + "/crashed", "w").close()
        print("dying of something", file=sys.stderr, flush=True)
        os._exit(3)
    if params.name == "sleep":
        try:
            await asyncio.sleep(60)
        except BaseException:
            open(folder + "/cancelled", "w").close()
            raise
    said = "\\n".join(sorted(os.environ)) if params.name == "environment" else str(os.getpid())
    return CallToolResult(content=[TextContent(type="text", text=said)])

async def main():
    server = Server("fragile", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())

asyncio.run(main())
"""
