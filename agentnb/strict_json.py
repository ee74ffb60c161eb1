"""JSON that every server accepts: no NaN, no lone surrogates, compact.

Here is also what a person gives as such JSON, and texts compared whatever their key order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from agentnb.errors import UsageError
from agentnb.text import clean

_sorted = json.JSONEncoder(sort_keys=True).encode
_STRAY_BACKSLASH = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')


def encode(value: Any) -> bytes:
    """Strict, compact UTF-8 JSON.

    Raises:
        ValueError: A number is NaN or infinite, or a text holds half a surrogate pair.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def is_json(text: str) -> bool:
    """Whether the text is JSON of any kind."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def given_object(value: Any) -> str:
    """What a person gives as the arguments of a call, as JSON text.

    Raises:
        UsageError: It is no object, or holds what JSON can't.
    """
    try:
        return clean(json.dumps(dict(value), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        what = f"arguments are an object that JSON can hold: {error}"
        raise UsageError(what, layer="state", remedy='Give a dict such as {"city": "Oslo"}.') from None


def given_value(value: Any) -> str:
    """What a person gives as a result: text as it is, else as JSON text; what JSON can't hold becomes text."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except Exception:  # the str of a user's class may do anything
        return f"<{type(value).__name__} that JSON can't hold>"


class RepeatedName(ValueError):
    """An object in a JSON text has one name twice, so it is not clear which value is meant."""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; the `object_pairs_hook` that lets no name stand twice.

    Raises:
        RepeatedName: One does; the error is that name.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedName(next(name for name in names if names.count(name) > 1))
    return found


def object_text(text: str) -> str:
    """The text itself when it is the strict JSON of an object; else the nearest text that is, `{}` at worst.

    An object inside a JSON string is taken out, NaN becomes null, a raw line end or a stray backslash in a string is
    escaped, half an emoji becomes U+FFFD. Nothing is guessed.
    """
    value = _loads(text, _refuse)
    if isinstance(value, dict) and _whole(value, text):
        return text
    for spelling in (text, _STRAY_BACKSLASH.sub(r"\\\\", text)):
        value = _loads(spelling, _null)
        value = _loads(value, _null) if isinstance(value, str) else value
        if isinstance(value, dict):
            return clean(json.dumps(value, ensure_ascii=False))
    return "{}"


def _whole(value: Any, text: str) -> bool:
    """Whether every emoji written as two escapes has both; most texts have no such escape."""
    spelled = json.dumps(value, ensure_ascii=False) if "\\ud" in text.lower() else ""
    return clean(spelled) == spelled


def _loads(text: str, constant: Callable[[str], Any]) -> Any:
    try:
        return json.loads(text, parse_constant=constant, strict=constant is _refuse)
    except (ValueError, RecursionError):
        return None


def normalised(text: str) -> str:
    """The same value in one spelling: keys sorted, no spaces; text that is no JSON as it is."""
    try:
        return _sorted(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _null(name: str) -> None:
    """What NaN and the infinities become."""
