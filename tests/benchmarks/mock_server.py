"""A quick mock of five dialects for benchmarks: stateless, one process, it reads what to do off the request.

"run N steps" in a message makes N calls of `add`, then an answer; "say K pieces" makes an answer of K pieces. How far a
run has come is the number of results. The request is searched, never parsed, so the server costs little.

    python tests/benchmarks/mock_server.py [port]      0 or nothing: any free port, which is printed
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

from mock_dialects import DIALECTS, Call

STEPS = re.compile(rb"run (\d+) steps")
SAY = re.compile(rb"say (\d+) pieces")
STREAM = re.compile(rb'"stream": ?true')
LENGTH = re.compile(rb"content-length: *(\d+)", re.I)
RESULTS = {dialect: re.compile(dialect.result) for dialect in DIALECTS}


def decide(body: bytes, result: re.Pattern[bytes]) -> tuple[Call | None, list[str]]:
    """The call to make, or the pieces of the answer."""
    if said := SAY.search(body):
        return None, ["x"] * int(said[1])
    wanted = STEPS.search(body)
    done = len(result.findall(body))
    if done < (int(wanted[1]) if wanted else 0):
        return (f"call_{done}", "add", {"a": done, "b": 1}), []
    return None, ["All ", "steps ", "done."]


def answer(path: bytes, body: bytes) -> bytes:
    """Head and body of the answer, whole or streamed, as the request asks."""
    dialect = next(each for each in DIALECTS if each.path in path)
    call, pieces = decide(body, RESULTS[dialect])
    if STREAM.search(body) or b":stream" in path:
        parts = dialect.stream(call, pieces, len(body) // 4)
        payload = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        kind = dialect.kind + b"\r\ntransfer-encoding: chunked"
    else:
        payload = dialect.whole(call, "".join(pieces), len(body) // 4)
        kind = b"application/json\r\ncontent-length: %d" % len(payload)
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n\r\n%s" % (kind, payload)


class Connection(asyncio.Protocol):
    """Keep-alive HTTP/1.1, as much of it as the clients here use."""

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self.transport = transport
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
            path = buffer[: buffer.index(b"\r\n")].split(b" ")[1]
            self.transport.write(answer(path, buffer[end + 4 : total]))
            buffer = buffer[total:]
        if buffer:
            self.parts = [buffer]


async def serve(port: int) -> None:
    """Listen on 127.0.0.1 and print the port."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
