"""The floor that we measure against: a plain tool loop over one reused httpx.AsyncClient, as one writes it by hand.

`run` is the loop. What differs from dialect to dialect is a small class: where to post, how to ask, what to take.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

import httpx

SYSTEM = "You are a helpful assistant. Use the tools."
DESCRIPTION = "Add two integers."
PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
IMPLEMENTATIONS = {"add": lambda a, b: a + b}
Json = dict[str, Any]
Said = tuple[list[tuple[str, str, Any]], str]
"""Calls (id, name, arguments as text or as an object) and text."""


def make_client(base_url: str, connections: int = 100, **options: Any) -> httpx.AsyncClient:
    """One client for all calls."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    headers = {"authorization": "Bearer key"}
    return httpx.AsyncClient(base_url=base_url, headers=headers, timeout=60, limits=limits, **options)


async def run(client: httpx.AsyncClient, steps: int, dialect: Any) -> str:
    """A whole run of so many steps."""
    messages = dialect.begin(f"run {steps} steps")
    for _ in range(steps + 1):
        calls, text = dialect.take(await call(client, dialect.path, dialect.body(messages)), messages)
        if not calls:
            return text
        dialect.answer(messages, [(id, name, act(name, arguments)) for id, name, arguments in calls])
    raise RuntimeError("too many iterations")


async def call(client: httpx.AsyncClient, path: str, body: Json) -> Json:
    """One model call, tried three times."""
    for attempt in range(3):
        try:
            response = await client.post(path, json=body)
            response.raise_for_status()
            return response.json()
        except httpx.HTTPError:
            if attempt == 2:
                raise
            await asyncio.sleep(2**attempt)
    raise AssertionError


def act(name: str, arguments: Any) -> str:
    """One tool call."""
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        return str(IMPLEMENTATIONS[name](**arguments))
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


async def stream(client: httpx.AsyncClient, pieces: int, dialect: Any) -> str:
    """One streamed answer, by plain line splitting and json parsing."""
    body = {**dialect.body(dialect.begin(f"say {pieces} pieces")), **dialect.streamed}
    mark = dialect.mark
    found = []
    async with client.stream("POST", dialect.stream_path, json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith(mark) and line != "data: [DONE]":
                found.append(dialect.piece(json.loads(line[len(mark) :])))
    return "".join(filter(None, found))


class Chat:
    """Chat completions."""

    path = stream_path = "/v1/chat/completions"
    mark = "data: "
    streamed: ClassVar[Json] = {"stream": True}
    tools: ClassVar[list[Json]] = [
        {"type": "function", "function": {"name": "add", "description": DESCRIPTION, "parameters": PARAMETERS}},
    ]

    def begin(self, goal: str) -> list[Json]:
        """The first messages."""
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": goal}]

    def body(self, messages: list[Json]) -> Json:
        """The request."""
        return {"model": "mock-1", "messages": messages, "tools": self.tools}

    def take(self, answer: Json, messages: list[Json]) -> Said:
        """What was said; it joins the messages."""
        message = answer["choices"][0]["message"]
        messages.append(message)
        found = [
            (each["id"], each["function"]["name"], each["function"]["arguments"])
            for each in message.get("tool_calls") or ()
        ]
        return found, message["content"]

    def answer(self, messages: list[Json], results: list[tuple[str, str, str]]) -> None:
        """The results join the messages."""
        messages += [{"role": "tool", "tool_call_id": id, "content": text} for id, _, text in results]

    def piece(self, event: Json) -> str | None:
        """The text in one event."""
        choices = event["choices"]
        return choices[0]["delta"].get("content") if choices else None


class Responses(Chat):
    """OpenAI Responses."""

    path = stream_path = "/v1/responses"
    tools: ClassVar[list[Json]] = [
        {"type": "function", "name": "add", "description": DESCRIPTION, "parameters": PARAMETERS}
    ]

    def begin(self, goal: str) -> list[Json]:
        """The first messages."""
        return [{"role": "user", "content": goal}]

    def body(self, messages: list[Json]) -> Json:
        """The request."""
        return {"model": "mock-1", "instructions": SYSTEM, "input": messages, "tools": self.tools, "store": False}

    def take(self, answer: Json, messages: list[Json]) -> Said:
        """What was said; it joins the messages."""
        messages += answer["output"]
        found = [
            (each["call_id"], each["name"], each["arguments"])
            for each in answer["output"]
            if each["type"] == "function_call"
        ]
        texts = [part["text"] for each in answer["output"] if each["type"] == "message" for part in each["content"]]
        return found, "".join(texts)

    def answer(self, messages: list[Json], results: list[tuple[str, str, str]]) -> None:
        """The results join the messages."""
        messages += [{"type": "function_call_output", "call_id": id, "output": text} for id, _, text in results]

    def piece(self, event: Json) -> str | None:
        """The text in one event."""
        return event["delta"] if event["type"] == "response.output_text.delta" else None


class Anthropic(Responses):
    """Anthropic Messages."""

    path = stream_path = "/v1/messages"
    tools: ClassVar[list[Json]] = [{"name": "add", "description": DESCRIPTION, "input_schema": PARAMETERS}]

    def body(self, messages: list[Json]) -> Json:
        """The request."""
        return {"model": "mock-1", "max_tokens": 8192, "system": SYSTEM, "messages": messages, "tools": self.tools}

    def take(self, answer: Json, messages: list[Json]) -> Said:
        """What was said; it joins the messages."""
        content = answer["content"]
        messages.append({"role": "assistant", "content": content})
        found = [(each["id"], each["name"], each["input"]) for each in content if each["type"] == "tool_use"]
        return found, "".join(each["text"] for each in content if each["type"] == "text")

    def answer(self, messages: list[Json], results: list[tuple[str, str, str]]) -> None:
        """The results join the messages."""
        made = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, _, text in results]
        messages.append({"role": "user", "content": made})

    def piece(self, event: Json) -> str | None:
        """The text in one event."""
        return event["delta"].get("text") if event["type"] == "content_block_delta" else None


class Gemini(Chat):
    """Gemini's generateContent."""

    path = "/v1beta/models/mock-1:generateContent"
    stream_path = "/v1beta/models/mock-1:streamGenerateContent?alt=sse"
    streamed: ClassVar[Json] = {}
    tools: ClassVar[list[Json]] = [
        {"functionDeclarations": [{"name": "add", "description": DESCRIPTION, "parametersJsonSchema": PARAMETERS}]},
    ]

    def begin(self, goal: str) -> list[Json]:
        """The first messages."""
        return [{"role": "user", "parts": [{"text": goal}]}]

    def body(self, messages: list[Json]) -> Json:
        """The request."""
        return {"systemInstruction": {"parts": [{"text": SYSTEM}]}, "contents": messages, "tools": self.tools}

    def take(self, answer: Json, messages: list[Json]) -> Said:
        """What was said; it joins the messages."""
        content = answer["candidates"][0]["content"]
        messages.append(content)
        made = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        return [(each["id"], each["name"], each["args"]) for each in made], "".join(
            part.get("text", "") for part in content["parts"]
        )

    def answer(self, messages: list[Json], results: list[tuple[str, str, str]]) -> None:
        """The results join the messages."""
        parts = [
            {"functionResponse": {"id": id, "name": name, "response": {"output": text}}} for id, name, text in results
        ]
        messages.append({"role": "user", "parts": parts})

    def piece(self, event: Json) -> str | None:
        """The text in one event."""
        return event["candidates"][0]["content"]["parts"][0].get("text")


class Ollama(Chat):
    """Ollama's own API."""

    path = stream_path = "/api/chat"
    mark = ""

    def body(self, messages: list[Json]) -> Json:
        """The request; here a stream is what comes when nothing is said."""
        return {"model": "mock-1", "messages": messages, "tools": self.tools, "stream": False}

    def take(self, answer: Json, messages: list[Json]) -> Said:
        """What was said; it joins the messages."""
        message = answer["message"]
        messages.append(message)
        found = [
            (each["id"], each["function"]["name"], each["function"]["arguments"])
            for each in message.get("tool_calls") or ()
        ]
        return found, message["content"]

    def answer(self, messages: list[Json], results: list[tuple[str, str, str]]) -> None:
        """The results join the messages."""
        messages += [
            {"role": "tool", "tool_name": name, "tool_call_id": id, "content": text} for id, name, text in results
        ]

    def piece(self, event: Json) -> str | None:
        """The text in one line."""
        return event["message"]["content"]
