"""JSON that every server accepts: no NaN, no lone surrogates, compact; and texts compared whatever their key order."""

from __future__ import annotations

import json
from typing import Any


def encode(value: Any) -> bytes:
    """Strict, compact UTF-8 JSON.

    Raises:
        ValueError: A number is NaN or infinite, or a text holds half a surrogate pair.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def object_text(text: str) -> str:
    """The text itself when it is the strict JSON of an object, else `{}`."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return "{}"
    return text if isinstance(value, dict) else "{}"


def normalised(text: str) -> str:
    """The same value in one spelling: keys sorted, no spaces; text that is no JSON as it is."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> Any:
    raise ValueError(name)
