"""The floor that we measure against: a plain tool loop over one reused httpx.AsyncClient, as one writes it by hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

SYSTEM = "You are a helpful assistant. Use the tools."
PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
FUNCTION = {"name": "add", "description": "Add two integers.", "parameters": PARAMETERS}
TOOLS = [{"type": "function", "function": FUNCTION}]
IMPLEMENTATIONS = {"add": lambda a, b: a + b}


def make_client(base_url: str) -> httpx.AsyncClient:
    """One client for all calls."""
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=100)
    return httpx.AsyncClient(base_url=base_url, headers={"authorization": "Bearer key"}, timeout=60, limits=limits)


async def call(client: httpx.AsyncClient, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One model call, tried three times."""
    for attempt in range(3):
        try:
            body = {"model": "mock-1", "messages": messages, "tools": TOOLS}
            response = await client.post("/chat/completions", json=body)
            response.raise_for_status()
            return response.json()["choices"][0]["message"]
        except httpx.HTTPError:
            if attempt == 2:
                raise
            await asyncio.sleep(2**attempt)
    raise AssertionError


def act(tool_call: dict[str, Any]) -> str:
    """One tool call."""
    try:
        arguments = json.loads(tool_call["function"]["arguments"])
        return str(IMPLEMENTATIONS[tool_call["function"]["name"]](**arguments))
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


async def run(client: httpx.AsyncClient, steps: int) -> str:
    """A whole run of so many steps."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"run {steps} steps"}]
    for _ in range(steps + 1):
        message = await call(client, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for each in message["tool_calls"]:
            messages.append({"role": "tool", "tool_call_id": each["id"], "content": act(each)})
    raise RuntimeError("too many iterations")


async def stream(client: httpx.AsyncClient, pieces: int) -> str:
    """One streamed answer, by plain line splitting and json parsing."""
    messages = [{"role": "user", "content": f"say {pieces} pieces"}]
    body = {"model": "mock-1", "messages": messages, "tools": TOOLS, "stream": True}
    found = []
    async with client.stream("POST", "/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                choices = json.loads(line[6:])["choices"]
                if choices and choices[0]["delta"].get("content"):
                    found.append(choices[0]["delta"]["content"])
    return "".join(found)
