"""HTTP as much of it as the scripted server needs: read one request, send one answer, whole, in pieces or damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.strict_json import encode

HEAD_BYTES = 65_536
"""The longest head of a request."""


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


async def receive(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes] | None:
    """Method, path, headers (names in small letters) and body of the next request; None when the connection was
    closed between two."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return method, path, headers, await reader.readexactly(int(headers.get("content-length") or 0))


async def send(answer: Raw, writer: asyncio.StreamWriter) -> None:
    """Write the answer; pieces leave one by one."""
    await asyncio.sleep(answer.wait_seconds)
    body = _bytes(answer.body)
    nothing = answer.cut and not body and answer.pieces is None
    writer.write(b"" if nothing else _head(answer, len(body)) + body)
    for number, piece in enumerate(answer.pieces or ()):
        if number and answer.gap_seconds:
            await asyncio.sleep(answer.gap_seconds)
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()
    if answer.pieces is not None and not answer.cut:
        writer.write(b"0\r\n\r\n")
    await writer.drain()


def _head(answer: Raw, length: int) -> bytes:
    headers = {"content-type": "application/json", **{name.lower(): value for name, value in answer.headers.items()}}
    if answer.pieces is not None:
        headers["transfer-encoding"] = "chunked"
    else:
        headers["content-length"] = str(length + answer.cut)
    if answer.cut:
        headers["connection"] = "close"
    lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else encode(body)
