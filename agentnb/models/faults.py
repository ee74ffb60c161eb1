"""Read what an error answer says: the providers write errors in six forms, and `read_fault` knows them all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentnb.models.rate_limits import duration

EXCERPT = 300
"""Characters of an answer that an error shows."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error body, read."""

    message: str = ""
    code: str = ""
    type: str = ""
    param: str = ""
    status: int | None = None
    """The status that the body itself names."""
    retry_after: float | None = None
    failed_generation: str = ""


def read_fault(body: bytes, content_type: str = "") -> Fault:
    """What an error body says, in any of the known forms; HTML is reduced to a hint."""
    text = body.decode("utf-8", "replace").strip()
    if looks_like_html(text, content_type):
        return Fault("an HTML page, not an API answer; check the base URL")
    try:
        return fault_from(json.loads(text))
    except (ValueError, RecursionError):
        return Fault(text[: 4 * EXCERPT])


def looks_like_html(text: str, content_type: str = "") -> bool:
    """Whether this is a web page."""
    return "html" in content_type.lower() or text[:200].lstrip().lower().startswith(("<!doctype", "<html", "<head"))


def fault_from(value: Any) -> Fault:
    """What the JSON value of an error says."""
    if isinstance(value, list) and value:
        return fault_from(value[0])
    if not isinstance(value, Mapping):
        return Fault("" if value is None else _word(value))
    inner = value.get("error", value)
    if isinstance(inner, str):
        return Fault(inner, code=_text(value.get("code")))
    if not isinstance(inner, Mapping):
        inner = value
    details = inner.get("details")
    code = _text(inner.get("code"))
    if isinstance(details, Mapping):
        code = _text(details.get("error_code")) or code
    elif isinstance(details, list):  # Gemini: a wrong key is a 400 whose details say API_KEY_INVALID
        reasons = [_text(each.get("reason")) for each in details if isinstance(each, Mapping)]
        code = next(filter(None, reasons), code)
    return Fault(
        _message(inner),
        code,
        _text(inner.get("type")) or _text(inner.get("status")),
        _text(inner.get("param")),
        _status(inner),
        _delay(details),
        _text(inner.get("failed_generation")),
    )


def _message(inner: Mapping[str, Any]) -> str:
    said = inner.get("message") or inner.get("detail") or inner.get("error_description")
    if isinstance(said, list):
        return "; ".join(_one_detail(each) for each in said)
    return said if isinstance(said, str) else as_json(said or dict(inner))


def _one_detail(each: Any) -> str:
    if not isinstance(each, Mapping):
        return _word(each)
    place, said = each.get("loc"), each.get("msg") or dict(each)
    where = ".".join(map(_word, place if isinstance(place, list) else [place])) if place else ""
    return f"{where}: {_word(said)}" if where else _word(said)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """A value of an answer, to be shown; "..." where it is nested too deeply."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "..."


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _status(inner: Mapping[str, Any]) -> int | None:
    for name in ("code", "status", "status_code"):
        text = _text(inner.get(name))
        if text.isascii() and text.isdigit() and len(text) == 3:
            return int(text)
    return None


def _delay(details: Any) -> float | None:
    """Gemini's RetryInfo among the details."""
    for each in details if isinstance(details, list) else ():
        wish = each.get("retryDelay") if isinstance(each, Mapping) else None
        if isinstance(wish, str) and (found := duration(wish)) is not None and 0 < found < math.inf:
            return found
    return None
