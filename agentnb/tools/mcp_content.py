"""Names and texts of an MCP server's tools: what stands before a tool's name, and what a model reads of a result."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_MOST_NAME = 64
_PACKAGE = re.compile(
    r"(?:.*[/\\])?(?:mcp[-_])?(?:server[-_])?([\w.-]+?)(?:[-_](?:mcp|server))*(?:@[\w.^~-]+)?(?:\.\w{2,3})?"
)
_DULL = ("www", "mcp", "api", "localhost")


def server_name(target: Any) -> str:
    """A short name for a server, from its command, its address or its own name.

    >>> server_name(["npx", "-y", "@modelcontextprotocol/server-everything@1.2", "stdio"])
    'everything'
    >>> server_name("https://mcp.example.com/sse")
    'example'
    """
    if isinstance(target, str):
        labels = [each for each in (urlsplit(target).hostname or "").split(".") if each not in _DULL]
        return _legal(labels[0]) if labels and not labels[0].isdigit() else "server"
    if isinstance(target, list | tuple):
        words = [word for word in target[1:] if not word.startswith("-")]
        found = _PACKAGE.fullmatch((words or target)[0])
        return _legal(found[1]) if found else "server"
    return _legal(str(target.name))


def prefixed(server: str, tool: str, taken: set[str]) -> str:
    """`server__tool` in at most 64 legal characters, unlike every name in `taken`, to which it is added."""
    whole = f"{server}__{_legal(tool)}"
    name, number = whole[:_MOST_NAME], 1
    while name in taken:
        number += 1
        name = f"{whole[: _MOST_NAME - 4]}_{number}"
    taken.add(name)
    return name


def _legal(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")[:40] or "server"


def text_of(result: CallToolResult) -> tuple[str, Any]:
    """What a model reads of a result, and the value that a person keeps.

    Returns:
        The text of every part, other parts named with their kind and size; and the parts themselves where they are not
        all text, else the structured content, else the text.
    """
    parts = [_part(each) for each in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = "\n".join(parts) or "(no content)"
    if any(each.type != "text" for each in result.content):
        return text, tuple(result.content)
    return text, text if result.structured_content is None else result.structured_content


def _part(part: ContentBlock) -> str:
    if part.type == "text":
        return part.text
    if part.type == "image" or part.type == "audio":
        return f"[{part.type}, {part.mime_type}, {_bytes(part.data)}]"
    if part.type == "resource_link":
        return " ".join(filter(None, [f"[resource {part.uri}]", part.title or part.name, part.description]))
    content: Any = part.resource
    if (text := getattr(content, "text", None)) is not None:
        return f"[resource {content.uri}]\n{text}"
    return f"[resource {content.uri}, {content.mime_type or 'unknown type'}, {_bytes(content.blob)}]"


def _bytes(encoded: str | Sequence[int]) -> str:
    return f"{len(encoded) * 3 // 4:,} bytes"
