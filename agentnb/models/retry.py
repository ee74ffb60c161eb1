"""When a failed call is tried again, and how that is told: in notes on the step, and to who watches the pieces."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentnb.core.model import Delta, OnDelta
from agentnb.errors import ModelError
from agentnb.text import mask, shorten

_REASONS = {"rate_limit": "rate limit", "connection": "connection failed", "reply": "unreadable answer"}


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how long a failed call is tried again."""

    attempts: int = 3
    """Tries in all; 1 never tries again."""
    longest_wait_seconds: float = 60.0
    """A server that asks for a longer wait is not asked again."""
    total_seconds: float = 300.0
    """No try begins later than this after the first."""
    longest_backoff_seconds: float = 8.0
    """Where the server does not say how long to wait: it doubles from half a second up to this."""

    def wait(self, error: ModelError, tries: int, spent: float, chance: float) -> float | None:
        """Seconds to wait before another try; None when there is to be none.

        Args:
            error: How the last try failed.
            tries: How many there were.
            spent: Seconds since the first began.
            chance: A random number from 0 to 1, so that many callers do not come back at once.
        """
        if not error.retryable or tries >= self.attempts:
            return None
        asked = error.retry_after
        jittered = self.backoff(tries) * (1 - 0.25 * chance)
        wait = jittered if asked is None else asked + min(1.0, 0.25 * asked) * chance
        too_long = asked is not None and asked > self.longest_wait_seconds
        return None if too_long or spent + wait > self.total_seconds else wait

    def backoff(self, tries: int) -> float:
        """Seconds to wait after so many tries where the server does not say."""
        return min(0.5 * 2.0 ** (tries - 1), self.longest_backoff_seconds, self.longest_wait_seconds)


@dataclass(slots=True)
class Way:
    """What happened on the way to a reply, over all calls that it took."""

    notes: list[str] = field(default_factory=list)
    """Waits and changes, in words."""
    waited: float = 0.0
    """Seconds of waiting: no time of the model's."""


def note(error: ModelError, wait: float) -> str:
    """Such as "waiting 12 s: rate limit"."""
    seconds = f"{wait:.0f}" if wait >= 1 or not wait else f"{wait:.1f}"
    reason = _REASONS.get(error.kind) or (f"server error {error.status}" if error.status else "server error")
    return mask(f"waiting {seconds} s: {reason} ({shorten(error.message, 160)})")


def announce(on_delta: OnDelta, note: str, shown: bool) -> None:
    """Tell why a call begins again, and that what was shown of it is to be dropped."""
    if shown:
        on_delta(Delta("restart"))
    on_delta(Delta("note", note))
