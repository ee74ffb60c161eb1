"""From whatever a tool returned or raised to bounded text that a model can read; the object itself stays untouched.

Text is never empty, has no colour codes and no known secret in it; data is strict JSON; what is too long becomes a
preview that says what it is and how much of it is shown. The cost follows the limit, not the size of the value.
"""

from __future__ import annotations

import math
import traceback
from types import TracebackType
from typing import Any

from agentnb.errors import ToolError
from agentnb.text import bound, clean, mask, plain
from agentnb.tools.quoted import marked
from agentnb.tools.sketch import SHORTENED, described

SMALLEST_LIMIT = 100
_NOTE_ROOM = 60
_MAX_ERROR = 4_000
_MAX_TRACEBACK = 10_000


def result_text(value: Any, limit: int, quote: bool = False) -> tuple[str, tuple[str, ...]]:
    """What the model reads of a returned value.

    Args:
        value: Anything.
        limit: Characters, at least 100.
        quote: These are words of others: they are marked as data.

    Returns:
        Text of 1 to `limit` characters (of a quotation at least 100, below the line that says what it is), and notes on
        what was left out or written otherwise.
    """
    if (kind := type(value)) is str:
        return readable(value, limit, quote)
    if (kind is int and value.bit_length() < 64) or (kind is float and math.isfinite(value)):
        return repr(value), ()
    text, notes = described(value, limit)
    text, cut = readable(text, limit, quote)
    return text, tuple(dict.fromkeys((*notes, *cut)))


def error_text(error: BaseException, limit: int) -> str:
    """Type and message, bounded and masked; the exact message of a ToolError."""
    limit = min(limit, _MAX_ERROR)
    if isinstance(error, ToolError):
        return readable(error.message or "ToolError", limit)[0]
    message = _message(error)
    if isinstance(error, BaseExceptionGroup):
        message = "; ".join([message, *(error_text(each, 200) for each in error.exceptions[:5])])
    name = type(error).__name__
    return readable(f"{name}: {message}" if message.strip() else name, limit)[0]


def traceback_text(error: BaseException) -> str:
    """The traceback below our own frames, bounded and masked."""
    try:
        lines = traceback.format_exception(type(error), error, _below_us(error.__traceback__))
    except Exception:
        lines = [f"{type(error).__name__} (its traceback can't be formatted)"]
    return readable("".join(lines), _MAX_TRACEBACK)[0]


def readable(text: str, limit: int, quote: bool = False) -> tuple[str, tuple[str, ...]]:
    """The text within the limit, encodable, without colour codes and secrets, never empty; with a note when cut."""
    if quote and text.strip():
        told, cut = marked(text, limit)
        return told, (SHORTENED,) if cut else ()
    text, notes = (bound(text, limit - _NOTE_ROOM), (SHORTENED,)) if len(text) > limit else (text, ())
    text = mask(plain(clean(text)))
    if not text.strip():
        text = f"({len(text)} characters of white space)" if text else '""'
    return text, notes


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message can't be read)"


def _below_us(frames: TracebackType | None) -> TracebackType | None:
    ours = ("agentnb.threads", "agentnb.tools.tool")
    while frames is not None and frames.tb_frame.f_globals.get("__name__") in ours:
        frames = frames.tb_next
    return frames
