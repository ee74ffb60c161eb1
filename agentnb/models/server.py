"""A small real server that plays a script over HTTP as chat completions, for tests, lessons and demonstrations.

    with ScriptedServer([calls("add", a=1, b=2), "It is 3."]) as server:
        model = ChatCompletionsModel("any", server.url)
        ...
        server.requests[0].json()

The script has the entries of ScriptedModel: a str, a dict, a ModelReply, an exception, a function of the request; and
`Raw`, for an answer byte by byte: another status, damage, delays, a connection that breaks. One answer a request, in
order of arrival, whole or streamed as the request asks. It listens on 127.0.0.1 alone, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.messages import ToolCall
from agentnb.core.model import ModelReply, ModelRequest
from agentnb.errors import ModelError
from agentnb.models.scripted import read_answer
from agentnb.strict_json import encode

_PIECE = 8
_HEAD_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Raw:
    """One answer exactly as it is to be."""

    body: bytes | str | Mapping[str, Any] | Sequence[Any] = b""
    """Bytes and text as they are, anything else as JSON."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    """`content-type` is JSON where none is given."""
    pieces: Sequence[bytes] | None = None
    """Sent one after the other, instead of `body`."""
    wait_seconds: float = 0.0
    """Before the first byte."""
    gap_seconds: float = 0.0
    """Between pieces."""
    cut: bool = False
    """The connection breaks after the last byte, as if more were to come."""


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
        """The messages in it."""
        return list(self.json().get("messages") or ())

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools in it."""
        return list(self.json().get("tools") or ())


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
        """The base URL for a client."""
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
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, limit=_HEAD_BYTES)
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
            while (received := await _receive(reader)) is not None and await self._respond(received, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the server stops
        finally:
            self._open.discard(task)
            writer.close()

    async def _respond(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        """Send one answer; whether the connection goes on."""
        if received.method == "GET" and received.path.endswith("/models"):
            answer = Raw({"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        elif received.method != "POST" or not received.path.partition("?")[0].endswith("/chat/completions"):
            answer = Raw({"error": {"message": f"there is nothing at {received.path}", "code": 404}}, 404)
        else:
            answer = await self._answer(received)
        await _send(answer, writer)
        return not answer.cut

    async def _answer(self, received: Received) -> Raw:
        number = len(self.requests)
        self.requests.append(received)
        self.arrived.set()
        try:
            entry = await self._entry(received, number)
            if isinstance(entry, Raw):
                return entry
            reply = await read_answer(entry, ModelRequest(), "scripted", None)
        except Exception as error:  # whatever a script raises is what the server answers
            return _refusal(error)
        body = received.json()
        usage = {"prompt_tokens": len(received.body) // 4, "completion_tokens": max(1, len(reply.text) // 4)}
        if not body.get("stream"):
            return Raw(_whole(reply, usage, number))
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        frames = [_frame(chunk) for chunk in _chunks(reply, usage if wants_usage else None, number)]
        return Raw(
            pieces=[*frames, b"data: [DONE]\n\n"],
            headers={"content-type": "text/event-stream"},
            gap_seconds=self.gap_seconds,
        )

    async def _entry(self, received: Received, number: int) -> Any:
        if callable(self.script):
            entry: Any = self.script
        elif number < len(self.script):
            entry = self.script[number]
        else:
            raise ModelError(f"the script of {len(self.script)} replies is played out", status=500)
        if isinstance(entry, BaseException) or (isinstance(entry, type) and issubclass(entry, BaseException)):
            raise entry
        if callable(entry):
            entry = entry(received)
            if asyncio.iscoroutine(entry):
                entry = await entry
        return entry


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _receive(reader: asyncio.StreamReader) -> Received | None:
    """The next request of a connection; None when it was closed between two."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length") or 0))
    return Received(method, path, headers, body)


async def _send(answer: Raw, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(answer.wait_seconds)
    body = _bytes(answer.body)
    headers = {"content-type": "application/json", **{name.lower(): value for name, value in answer.headers.items()}}
    if answer.pieces is not None:
        headers["transfer-encoding"] = "chunked"
    else:
        headers["content-length"] = str(len(body) + answer.cut)
    if answer.cut:
        headers["connection"] = "close"
    lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    nothing = answer.cut and not body and answer.pieces is None
    writer.write(b"" if nothing else ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
    for number, piece in enumerate(answer.pieces or ()):
        if number and answer.gap_seconds:
            await asyncio.sleep(answer.gap_seconds)
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()
    if answer.pieces is not None and not answer.cut:
        writer.write(b"0\r\n\r\n")
    await writer.drain()


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else encode(body)


# ── chat completions ─────────────────────────────────────────────────────────────────────────────────────────────────


def _refusal(error: Exception) -> Raw:
    status = getattr(error, "status", None) or 500
    return Raw({"error": {"message": str(error), "type": type(error).__name__, "code": None}}, status)


def _whole(reply: ModelReply, usage: Mapping[str, int], number: int) -> dict[str, Any]:
    choice = {"index": 0, "message": _message(reply, number), "finish_reason": reply.finish}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "model": "scripted",
        "choices": [choice],
        "usage": _usage(reply, usage),
    }


def _message(reply: ModelReply, number: int) -> dict[str, Any]:
    """The script's own message where it is one, so that odd forms are served as written."""
    if reply.raw is not None:
        calls = reply.raw.get("tool_calls")
        named = [{"id": f"call_{number}_{place}", **call} for place, call in enumerate(calls or ())]
        extra = {"tool_calls": named} if calls else {}
        kept = {key: value for key, value in reply.raw.items() if key not in ("usage", "finish_reason")}
        return {"role": "assistant", "content": None, **kept, **extra}
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [_call(call, f"call_{number}_{place}") for place, call in enumerate(reply.calls)]
    return message


def _call(call: ToolCall, id: str) -> dict[str, Any]:
    return {"id": call.id or id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(reply: ModelReply, counted: Mapping[str, int]) -> dict[str, int | None]:
    if reply.usage is not None:
        return {"prompt_tokens": reply.usage.input, "completion_tokens": reply.usage.output}
    return {**counted, "total_tokens": sum(counted.values())}


def _chunks(reply: ModelReply, usage: Mapping[str, int] | None, number: int) -> list[dict[str, Any]]:
    """The same message in small pieces."""
    message = _message(reply, number)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if message["content"] else message["content"]}]
    for key, value in message.items():
        if key == "tool_calls":
            deltas += [piece for index, call in enumerate(value) for piece in _call_pieces(index, call)]
        elif key != "role" and value:
            texts = (
                [value[at : at + _PIECE] for at in range(0, len(value), _PIECE)] if isinstance(value, str) else [value]
            )
            deltas += [{key: text} for text in texts]
    frame: dict[str, Any] = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "model": "scripted"}
    chunks = [{**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]})
    if usage is not None:
        chunks.append({**frame, "choices": [], "usage": _usage(reply, usage)})
    return chunks


def _call_pieces(index: int, call: Mapping[str, Any]) -> list[dict[str, Any]]:
    function = call["function"]
    text = function.get("arguments")
    if not isinstance(text, str):
        return [{"tool_calls": [{"index": index, **call}]}]
    begin = {"index": index, **call, "function": {**function, "arguments": ""}}
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    return [{"tool_calls": [begin]}] + [
        {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces
    ]


def _frame(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + encode(chunk) + b"\n\n"
