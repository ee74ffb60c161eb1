"""Split an event stream into events, whatever the cuts between the bytes.

Lines end at LF, CRLF or CR and nowhere else, so U+2028 inside a JSON string stays. The work is done on bytes: a line
is decoded only when it is complete, so no cut can split a character.
"""

from __future__ import annotations

import re

Event = tuple[str, str]
"""The event's name ("" when it has none) and its data, several data lines joined with a line feed."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class EventSplitter:
    """Takes bytes as they arrive and gives the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""
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
            lines = _LINE_END.split(self._rest + data)
        elif b"\n" in data:
            lines = (self._rest + data).split(b"\n")
        else:
            self._rest += data
            return []
        self._rest = lines.pop()
        return self._events(lines)

    def close(self) -> list[Event]:
        """What the end of the stream completes: an event whose last line end or blank line is missing."""
        rest, self._rest = self._rest, b""
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
