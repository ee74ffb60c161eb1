"""Any value as bounded text: JSON data where it is data, a preview where it is too long, its own words otherwise.

The cost follows the limit, not the size of the value. Values of numpy, pandas and matplotlib are recognised without
importing these libraries.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time
from enum import Enum
from itertools import islice
from typing import Any

from agentnb.text import clean, counted, plain

NON_FINITE = "NaN and infinite numbers are written as null"
SHORTENED = "the result was shortened for the model; the whole of it is in .value"
_HEAD_ROOM = 120
_MAX_DEPTH = 30
_MAX_BITS = 13_000
"""An int with more bits has more digits than Python converts to text."""
_SORTED_SETS = 10_000
_LEAST_ROOM = 12
_ROWS = 20
_WHOLE_ARRAY = 1_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def described(value: Any, limit: int) -> tuple[str, list[str]]:
    """The text of a value, at most about `limit` characters, and notes on what was left out or written otherwise."""
    try:
        special = _special(value, limit)
        return _as_json(value, limit) if special is None else special
    except Exception as error:
        return f"<{type(value).__name__} that can't be shown: {type(error).__name__}>", []


def _as_json(value: Any, limit: int) -> tuple[str, list[str]]:
    try:
        sketch = _Sketch(whole=True)
        data = sketch.of(value, limit)
    except _TooLong:
        sketch = _Sketch(whole=False)
        data = sketch.of(value, limit - _HEAD_ROOM)
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, allow_nan=False)
    head = f"{_headline(value, data)}\n" if sketch.cut and not isinstance(data, str) else ""
    notes = [NON_FINITE] if sketch.non_finite else []
    return head + text, [*notes, SHORTENED] if sketch.cut else notes


def _headline(value: Any, data: Any) -> str:
    size = len(value) if hasattr(type(value), "__len__") else len(data)
    marked = (isinstance(data, list) and data and _is_mark(data[-1])) or (isinstance(data, dict) and "…" in data)
    shown = len(data) - bool(marked)
    return f"{type(value).__name__} of {counted(size, 'item')}, showing {shown:,} of {size:,}, long parts shortened:"


def _is_mark(item: Any) -> bool:
    return isinstance(item, str) and item.startswith("… showing ")


class _TooLong(Exception):
    """The whole value doesn't fit."""


class _Sketch:
    """A value as JSON data within so many characters.

    Args:
        whole: Give up with _TooLong where something doesn't fit; else cut, mark the place and go on.
    """

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self.cut = False
        self.non_finite = False
        self.spent = 0
        self._open: list[int] = []

    def of(self, value: Any, room: int) -> Any:
        """Plain data for `json.dumps`; `spent` grows by the characters it will take."""
        if value is None or isinstance(value, bool):
            return self._took(value, 5)
        if isinstance(value, str) and not isinstance(value, Enum):
            return self._text(value, room)
        if isinstance(value, int | float) and not isinstance(value, Enum):
            return self._number(value, room)
        if id(value) in self._open or len(self._open) > _MAX_DEPTH:
            return self._text("(contains itself)" if id(value) in self._open else "…", room)
        return self._inside(value, room)

    def _inside(self, value: Any, room: int) -> Any:
        self._open.append(id(value))
        try:
            special = _special(value, room) if self._open[1:] else None
            if special is not None:
                return self._text(special[0], room)
            other = _as_plain(value)
            if isinstance(other, Mapping):
                return self._mapping(other, room)
            if isinstance(other, Sequence | AbstractSet) and not isinstance(other, str):
                return self._sequence(other, room)
            return self.of(other, room)
        finally:
            self._open.pop()

    def _number(self, value: int | float, room: int) -> Any:
        if isinstance(value, float):
            self.non_finite |= not math.isfinite(value)
            return self._took(float(value) if math.isfinite(value) else None, 8)
        if value.bit_length() > _MAX_BITS:
            return self._text(f"(an integer of about {int(value.bit_length() * 0.30103):,} digits)", room)
        return self._took(int(value), len(str(int(value))))

    def _text(self, text: str, room: int) -> str:
        if len(text) > room:
            self._shorten()
            text = f"{text[: max(room - 30, 8)]}… ({len(text):,} characters)"
        text = plain(clean(text))
        return str(self._took(text, len(json.dumps(text, ensure_ascii=False)), room))

    def _sequence(self, values: Sequence[Any] | AbstractSet[Any], room: int) -> list[Any]:
        total, start = len(values), self.spent
        shown: list[Any] = []
        for number, value in enumerate(_in_order(values)):
            left = room - (self.spent - start)
            if left < _LEAST_ROOM and number:
                self._shorten()
                shown.append(f"… showing {number:,} of {total:,}")
                break
            shown.append(self.of(value, left if self.whole or number == total - 1 else left // 2))
            self.spent += 2
        return shown

    def _mapping(self, values: Mapping[Any, Any], room: int) -> dict[str, Any]:
        total, start = len(values), self.spent
        shown: dict[str, Any] = {}
        for number, key in enumerate(values):
            left = room - (self.spent - start)
            if left < _LEAST_ROOM and number:
                self._shorten()
                shown["…"] = f"showing {number:,} of {total:,}"
                break
            name = self._key(key, shown, left)
            left = room - (self.spent - start)
            shown[name] = self.of(values[key], left if self.whole or number == total - 1 else left // 2)
            self.spent += 4
        return shown

    def _key(self, key: Any, taken: Mapping[str, Any], room: int) -> str:
        plain_key = _as_plain(key)
        text = plain_key if isinstance(plain_key, str) else str(plain_key)
        return self._text(text if text not in taken else f"{text} ({type(key).__name__})", max(room, _LEAST_ROOM))

    def _took(self, data: Any, size: int, room: int | None = None) -> Any:
        self.spent += size
        if room is not None and size > room + 2:
            self._shorten()
        return data

    def _shorten(self) -> None:
        if self.whole:
            raise _TooLong
        self.cut = True


def _in_order(values: Sequence[Any] | AbstractSet[Any]) -> Iterable[Any]:
    """As they come; a set sorted, so that a rerun gives the same text."""
    if not isinstance(values, AbstractSet) or len(values) > _SORTED_SETS:
        return values
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=repr)


def _as_plain(value: Any) -> Any:
    """One layer nearer to JSON: a mapping, a sequence, a set, a scalar or text."""
    kind = type(value)
    if isinstance(value, Enum):
        return value.value if not isinstance(value.value, Enum) else str(value.value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, MappingView):
        return list(value)  # type: ignore[call-overload]  # every view of a mapping can be walked
    if _is_of(value, "numpy", "generic", "ndarray") and value.dtype.kind in "biufSU" and value.size <= _WHOLE_ARRAY:
        return value.tolist()
    if dataclasses.is_dataclass(kind):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(kind) if each.repr}
    if hasattr(kind, "__pydantic_fields__") and hasattr(kind, "model_dump"):
        return dict(value)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, value, strict=False))
    if isinstance(value, str | int | float | Mapping | AbstractSet | Sequence | None) and not _is_binary(value):
        return value
    return _words(value)


def _words(value: Any) -> str:
    """An object in its own words, without its address, which would differ at every run."""
    kind: Any = type(value)
    own = kind.__str__ is not object.__str__ and not isinstance(value, BaseException | type)
    return _ADDRESS.sub("", str(value) if own else repr(value))


# ── values of libraries, recognised without importing them ───────────────────────────────────────────────────────────


def _special(value: Any, limit: int) -> tuple[str, list[str]] | None:
    """Text of values that have a better short form than JSON; None for all others."""
    if _is_binary(value):
        return _bytes_text(value)
    return next((describe(value, limit) for module, name, describe in _LIBRARY if _is_of(value, module, name)), None)


def _is_of(value: Any, module: str, *names: str) -> bool:
    """Whether the value is of one of these classes, if anyone has imported their module."""
    home = sys.modules.get(module)
    return home is not None and isinstance(value, tuple(getattr(home, name) for name in names if hasattr(home, name)))


def _is_binary(value: Any) -> bool:
    return isinstance(value, bytes | bytearray | memoryview)


def _bytes_text(value: bytes | bytearray | memoryview) -> tuple[str, list[str]]:
    size = value.nbytes if isinstance(value, memoryview) else len(value)
    if size > 600:
        start = base64.b64encode(bytes(value[:60])).decode()
        return f"{size:,} bytes, showing 60 of {size:,} as base64: {start}", [SHORTENED]
    return f"{size} bytes as base64: {base64.b64encode(bytes(value)).decode()}", []


def _array_text(value: Any, limit: int) -> tuple[str, list[str]] | None:
    if value.size <= _WHOLE_ARRAY and value.dtype.kind in "biufSU":
        return None
    start = [item.item() if hasattr(item, "item") else item for item in value.flat[:_ROWS]]
    shown, notes = _as_json(start, limit)
    head = f"array of {value.dtype}, shape {value.shape}, showing {len(start)} of {value.size:,}:"
    return f"{head} {shown}", [*notes, SHORTENED] if len(start) < value.size else notes


def _frame_text(value: Any, limit: int) -> tuple[str, list[str]]:
    rows, columns = value.shape
    shown = rows if rows <= 2 * _ROWS else _ROWS
    types = ", ".join(f"{name} {kind}" for name, kind in islice(value.dtypes.items(), _ROWS))
    more = f" and {columns - _ROWS} more" if columns > _ROWS else ""
    table = value.iloc[:shown, :_ROWS].to_string(max_colwidth=80)
    head = f"DataFrame, {rows:,} rows x {columns:,} columns ({types}{more}), showing {shown:,} of {rows:,} rows:"
    return f"{head}\n{table}", [SHORTENED] if shown < rows or more else []


def _series_text(value: Any, limit: int) -> tuple[str, list[str]]:
    shown = len(value) if len(value) <= 2 * _ROWS else _ROWS
    head = f"Series {value.name or ''} of {value.dtype}, showing {shown:,} of {len(value):,}:"
    return f"{head}\n{value.iloc[:shown].to_string()}", [SHORTENED] if shown < len(value) else []


def _figure_text(value: Any, limit: int) -> tuple[str, list[str]]:
    """The size in pixels. The figure is closed: pyplot forgets it, it can still be drawn."""
    width, height = (int(inches * value.dpi) for inches in value.get_size_inches())
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(value)
    return f"figure {width}x{height}", []


def _axes_text(value: Any, limit: int) -> tuple[str, list[str]]:
    return _figure_text(value.figure, limit)


_LIBRARY: tuple[tuple[str, str, Callable[[Any, int], tuple[str, list[str]] | None]], ...] = (
    ("numpy", "ndarray", _array_text),
    ("pandas", "DataFrame", _frame_text),
    ("pandas", "Series", _series_text),
    ("matplotlib.figure", "Figure", _figure_text),
    ("matplotlib.axes", "Axes", _axes_text),
)
