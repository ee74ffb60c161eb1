"""A small real server that plays a script over HTTP, for tests, lessons and demonstrations.

    with ScriptedServer([calls("add", a=1, b=2), "It is 3."]) as server:
        model = ChatCompletionsModel("any", server.url)
        ...
        server.requests[0].json()

It speaks chat completions, OpenAI Responses, Anthropic Messages, Gemini's own API and Ollama's own; the path of a
request decides which. The script has the entries of ScriptedModel: a str, a dict, a ModelReply, an exception, a
function of the request; and `Raw`, for an answer byte by byte: another status, damage, delays, a connection that
breaks. One answer a request, in order of arrival, whole or streamed as the request asks. It listens on 127.0.0.1
alone, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.model import ModelRequest
from agentnb.errors import ModelError
from agentnb.models import server_anthropic, server_chat, server_gemini, server_ollama, server_responses
from agentnb.models.scripted import read_answer
from agentnb.models.server_dialect import CREATED, Dialect, answer_of
from agentnb.models.server_http import HEAD_BYTES, Raw, receive, send

__all__ = ["Raw", "Received", "ScriptedServer"]


@dataclass(frozen=True, slots=True)
class _Served:
    """One kind of path."""

    dialect: Dialect
    streams: bool = False
    """Whether an answer is streamed when the request does not say."""
    stream_type: str = "text/event-stream"


_CHAT = _Served(server_chat)
_SERVED: dict[str, _Served] = {
    "/chat/completions": _CHAT,
    "/responses": _Served(server_responses),
    "/messages": _Served(server_anthropic),
    ":generateContent": _Served(server_gemini),
    ":streamGenerateContent": _Served(server_gemini, streams=True),
    "/api/chat": _Served(server_ollama, streams=True, stream_type="application/x-ndjson"),
}
"""How a path ends to what is served there."""
_MODELS = Raw(
    {"object": "list", "data": [{"id": "scripted", "object": "model", "created": CREATED, "owned_by": "agentnb"}]}
)
_STATUSES = {
    "auth": 401,
    "quota": 402,
    "rate_limit": 429,
    "context_too_long": 413,
    "not_found": 404,
    "bad_request": 400,
    "refused": 400,
}
"""Kind of a ModelError to the status that a client reads it from; 500 for the others."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request that arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes = field(repr=False)

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in it, in chat-completions form, whatever its dialect."""
        return (_served(self.path) or _CHAT).dialect.messages(self.json())

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools in it, in chat-completions form, whatever its dialect."""
        return (_served(self.path) or _CHAT).dialect.tools(self.json())


def _served(path: str) -> _Served | None:
    plain = path.partition("?")[0]
    return next((served for end, served in _SERVED.items() if plain.endswith(end)), None)


class ScriptedServer:
    """Serves a script from `start` (or the `with` line) to `stop`.

    Args:
        script: Answers in order; or one function of the Received request, which makes every answer.
        gap_seconds: Between the pieces of a streamed answer.
    """

    def __init__(self, script: Sequence[Any] | Callable[[Received], Any], gap_seconds: float = 0.0) -> None:
        self.script = script if callable(script) else list(script)
        self.gap_seconds = gap_seconds
        self.requests: list[Received] = []
        """Every request for an answer, in order of arrival."""
        self.arrived = threading.Event()
        """Set when the first of them is here."""
        self.connections = 0
        """How many were opened."""
        self.port = 0
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._open: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        """The base URL for a client; the official client of Anthropic wants it without the /v1, as Ollama's does."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> ScriptedServer:
        """Listen; returns when connections are taken."""
        self._thread = threading.Thread(target=self._run, name="agentnb-scripted-server", daemon=True)
        self._thread.start()
        self._ready.wait(10)
        return self

    def stop(self) -> None:
        """Close every connection and end the thread."""
        if self._loop is None or self._ended is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)
        self._loop = None

    def __enter__(self) -> ScriptedServer:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # ── in its own thread ────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, limit=HEAD_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ended.wait()
        server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while (found := await receive(reader)) is not None and await self._respond(Received(*found), writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the server stops
        finally:
            self._open.discard(task)
            writer.close()

    async def _respond(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        """Send one answer; whether the connection goes on."""
        if received.method == "GET" and received.path.partition("?")[0].endswith("/models"):
            answer = _MODELS
        elif received.method != "POST" or _served(received.path) is None:
            answer = Raw({"error": {"message": f"there is nothing at {received.path}", "code": 404}}, 404)
        else:
            answer = await self._answer(received)
        await send(answer, writer)
        return not answer.cut

    async def _answer(self, received: Received) -> Raw:
        number = len(self.requests)
        self.requests.append(received)
        self.arrived.set()
        served = _served(received.path) or _CHAT
        dialect = served.dialect
        try:
            entry = await self._entry(received, number)
            if isinstance(entry, Raw):
                return entry
            reply = await read_answer(entry, ModelRequest(), "scripted", None)
        except Exception as error:  # whatever a script raises is what the server answers
            return _failure(error, dialect)
        answer = answer_of(reply, number, received.json(), len(received.body))
        if not answer.body.get("stream", served.streams):
            return Raw(dialect.whole(answer))
        headers = {"content-type": served.stream_type}
        return Raw(pieces=dialect.frames(answer), headers=headers, gap_seconds=self.gap_seconds)

    async def _entry(self, received: Received, number: int) -> Any:
        if callable(self.script):
            entry: Any = self.script
        elif number < len(self.script):
            entry = self.script[number]
        else:
            raise ModelError(f"the script of {len(self.script)} replies is played out")
        if isinstance(entry, BaseException) or (isinstance(entry, type) and issubclass(entry, BaseException)):
            raise entry
        if callable(entry):
            entry = entry(received)
            if inspect.isawaitable(entry):
                entry = await entry
        return entry


def _failure(error: Exception, dialect: Dialect) -> Raw:
    """The error answer; a ModelError also tells whether and when to try again, as official clients read it."""
    if not isinstance(error, ModelError):
        return Raw(dialect.failure(str(error), type(error).__name__, 500), 500)
    status = error.status or _STATUSES.get(error.kind, 500)
    headers = {"x-should-retry": "true" if error.retryable else "false"}
    if error.retry_after is not None:
        headers["retry-after"] = f"{error.retry_after:g}"
    return Raw(dialect.failure(str(error), error.kind, status), status, headers)
