"""What the headers of an answer say about the provider's rate limits.

OpenAI and Groq tell how long ("6m0s"), Anthropic when (a date and time), OpenRouter when (milliseconds since 1970).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime

_NAMES = (
    *(f"x-ratelimit-{{}}-{what}" for what in ("requests", "tokens")),
    *(f"anthropic-ratelimit-{what}-{{}}" for what in ("requests", "tokens", "input-tokens", "output-tokens")),
    "x-ratelimit-{}",
)
_LIMITS = tuple((name.replace("{}", "remaining"), name.replace("{}", "reset")) for name in _NAMES)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EPOCH_SECONDS, _EPOCH_MS = 1e9, 1e12


def until_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the limits that are used up are full again; None when none is, or it is not said when.

    Args:
        headers: Of an answer.
        now: Seconds since 1970.
    """
    used_up = [headers.get(reset) for remaining, reset in _LIMITS if headers.get(remaining) == "0"]
    found = [seconds for text in used_up if text and (seconds := _seconds(text, now)) is not None]
    return max(found, default=None)


def duration(text: str) -> float | None:
    """Seconds in a text such as "6m0s" or "12ms"."""
    parts = _DURATION.findall(text)
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts) if parts else None


def _seconds(text: str, now: float) -> float | None:
    try:
        number = float(text)
    except ValueError:
        then = _date(text)
        return duration(text) if then is None else max(0.0, then - now)
    if not math.isfinite(number):
        return None
    if number >= _EPOCH_SECONDS:
        return max(0.0, (number / 1000 if number >= _EPOCH_MS else number) - now)
    return number if number >= 0 else None


def _date(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
