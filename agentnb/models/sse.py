"""Tell an event stream from one body, and split it into events, whatever the cuts between the bytes.

Lines end at LF, CRLF or CR and nowhere else, so U+2028 inside a JSON string stays. The work is done on bytes: a line
is decoded only when it is complete, so no cut can split a character.
"""

from __future__ import annotations

import re

Event = tuple[str, str]
"""The event's name ("" when it has none) and its data, several data lines joined with a line feed."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BODIES = (b"{", b"[", b'"', b"<")


def is_stream(data: bytes, announced: bool) -> bool | None:
    """Whether an answer that begins so is an event stream, whatever it is called; None: too little to tell.

    Args:
        data: Its first bytes.
        announced: Where they are neither: what the content type says.
    """
    head = without_mark(data).lstrip()
    if head.startswith(_BODIES):
        return False
    if head.startswith(_FIELDS):
        return True
    return None if any(field.startswith(head) for field in (*_FIELDS, _BOM)) else announced


def without_mark(data: bytes) -> bytes:
    """Without a byte order mark at its beginning."""
    return data.removeprefix(_BOM)


class EventSplitter:
    """Takes bytes as they arrive and gives the events that are complete."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The pieces of the line that is not complete; joined only then, since one line may be megabytes."""
        self._name = ""
        self._data: list[str] = []
        self._first = True
        self._after_cr = False

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete, in order."""
        if self._after_cr and data:
            data = data[1:] if data.startswith(b"\n") else data
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            lines = _LINE_END.split(self._with_rest(data))
        elif b"\n" in data:
            lines = self._with_rest(data).split(b"\n")
        else:
            self._rest.append(data)
            return []
        self._rest = [lines.pop()]
        return self._events(lines)

    def _with_rest(self, data: bytes) -> bytes:
        return b"".join((*self._rest, data))

    def close(self) -> list[Event]:
        """What the end of the stream completes: an event whose last line end or blank line is missing."""
        rest, self._rest = self._with_rest(b""), []
        return self._events([rest, b""])

    def _events(self, lines: list[bytes]) -> list[Event]:
        if self._first and lines:
            self._first = False
            lines[0] = lines[0].removeprefix(_BOM)
        found: list[Event] = []
        for line in lines:
            if line[:6] == b"data: ":
                self._data.append(line[6:].decode("utf-8", "replace"))
            elif line:
                self._field(line)
            elif self._data:
                data = self._data[0] if len(self._data) == 1 else "\n".join(self._data)
                found.append((self._name, data))
                self._data, self._name = [], ""
            else:
                self._name = ""
        return found

    def _field(self, line: bytes) -> None:
        """Any line but the usual one: data without a space, the event's name; comments, id and retry say nothing."""
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(text)
        elif name == b"event":
            self._name = text
