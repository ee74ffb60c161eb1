"""A quick chat-completions mock for benchmarks: stateless, one process, it reads what to do off the request.

"run N steps" in a message makes N calls of `add`, then an answer; "say K pieces" makes an answer of K pieces. How far a
run has come is the number of tool messages. The request is searched, never parsed, so the server costs little.

    python tests/benchmarks/mock_server.py [port]      0 or nothing: any free port, which is printed
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

STEPS = re.compile(rb"run (\d+) steps")
SAY = re.compile(rb"say (\d+) pieces")
TOOL_MESSAGE = re.compile(rb'"role": ?"tool"')
STREAM = re.compile(rb'"stream": ?true')
LENGTH = re.compile(rb"content-length: *(\d+)", re.I)


def dumps(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def usage(body: bytes) -> dict[str, int]:
    """Made-up counts that grow with the request."""
    return {"prompt_tokens": len(body) // 4, "completion_tokens": 12, "total_tokens": len(body) // 4 + 12}


def decide(body: bytes) -> tuple[dict[str, Any] | None, list[str]]:
    """The call to make, or the pieces of the answer."""
    if said := SAY.search(body):
        return None, ["x"] * int(said[1])
    wanted = STEPS.search(body)
    done = len(TOOL_MESSAGE.findall(body))
    if done < (int(wanted[1]) if wanted else 0):
        function = {"name": "add", "arguments": json.dumps({"a": done, "b": 1})}
        return {"id": f"call_{done}", "type": "function", "function": function}, []
    return None, ["All ", "steps ", "done."]


def whole(body: bytes) -> bytes:
    """One answer as JSON."""
    call, pieces = decide(body)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(pieces) or None, "refusal": None}
    if call:
        message["tool_calls"] = [call]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if call else "stop"}
    return dumps({"id": "c", "object": "chat.completion", "model": "mock", "choices": [choice], "usage": usage(body)})


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "mock-1"}
    return b"data: " + dumps({**frame, "choices": [choice]}) + b"\n\n"


def events(body: bytes) -> list[bytes]:
    """One answer as events."""
    call, pieces = decide(body)
    made = [chunk({"role": "assistant", "content": None if call else ""})]
    if call:
        made.append(chunk({"tool_calls": [{"index": 0, **call}]}))
    made += [chunk({"content": piece}) for piece in pieces]
    made.append(chunk({}, "tool_calls" if call else "stop"))
    made.append(b"data: " + dumps({"choices": [], "usage": usage(body)}) + b"\n\n")
    return [*made, b"data: [DONE]\n\n"]


class Connection(asyncio.Protocol):
    """Keep-alive HTTP/1.1, as much of it as the clients here use."""

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self.transport = transport
        self.buffer = b""
        self.parts: list[bytes] = []
        self.missing = 0

    def data_received(self, data: bytes) -> None:
        """Collect until a request is whole."""
        self.parts.append(data)
        self.missing -= len(data)
        if self.missing <= 0:
            self.parse()

    def parse(self) -> None:
        """Answer every whole request that has come."""
        buffer = b"".join(self.parts)
        self.parts, self.missing = [], 0
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(buffer[:end])
            total = end + 4 + (int(length[1]) if length else 0)
            if len(buffer) < total:
                self.missing = total - len(buffer)
                break
            self.answer(buffer[end + 4 : total])
            buffer = buffer[total:]
        if buffer:
            self.parts = [buffer]

    def answer(self, body: bytes) -> None:
        """Whole or streamed, as the request asks."""
        if STREAM.search(body):
            payload = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events(body)) + b"0\r\n\r\n"
            kind = b"text/event-stream\r\ntransfer-encoding: chunked"
        else:
            payload = whole(body)
            kind = b"application/json\r\ncontent-length: %d" % len(payload)
        self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n\r\n%s" % (kind, payload))


async def serve(port: int) -> None:
    """Listen on 127.0.0.1 and print the port."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
