"""What ends a run: StopReason, Limits and the repetition guard.

Limits bound one call of `run`: what counts is the difference to the State that the call started from. Each fuse is
one comparison in `Limits.reached`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.errors import SettingsError
from agentnb.strict_json import normalised

if TYPE_CHECKING:
    from agentnb.core.state import Counters


class StopReason(StrEnum):
    """Why a run ended."""

    ANSWER = "answer"
    MAX_STEPS = "max_steps"
    MAX_TOKENS = "max_tokens"
    MAX_COST = "max_cost"
    MAX_SECONDS = "max_seconds"
    MAX_TOOL_CALLS = "max_tool_calls"
    REPETITION = "repetition"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    EMPTY_REPLY = "empty_reply"
    CONTEXT_TOO_LONG = "context_too_long"
    CONNECTION_LOST = "connection_lost"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Limits:
    """The fuses of one call of `run`; None leaves a fuse out."""

    steps: int | None = 20
    """Model calls."""
    tokens: int | None = None
    """Input plus output tokens, as the provider reports them."""
    cost: float | None = None
    """US dollars."""
    seconds: float | None = None
    """Time spent in models and tools."""
    tool_calls: int | None = None
    repeats: int | None = 3
    """Equal rounds (or cycles of two or three rounds) in a row that end the run; one fewer warns the model."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value, whole = getattr(self, name), name not in ("cost", "seconds")
            number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
            low, high = (2, RING // LONGEST_CYCLE) if name == "repeats" else (0, float("inf"))
            if value is not None and not (number and low <= value <= high and 0 < value < float("inf")):
                kind = f"{'whole ' if whole else ''}number {f'from {low} to {high}' if low else 'above 0'}"
                remedy = f"Write Limits({name}=5), or None for no such limit."
                raise SettingsError(f"limit {name}={value!r}, expected a {kind}", remedy=remedy)

    def reached(self, now: Counters, base: Counters) -> tuple[StopReason, str] | None:
        """The first fuse that has blown between `base` and `now`, with the reason in words; None when all hold."""
        for reason, limit, used, unit in self._spent(now, base):
            if limit is not None and used is None:
                return reason, f"the {unit} of this model are unknown, so their limit of {limit} can't be kept"
            if limit is not None and used is not None and used >= limit:
                return reason, f"stopped at the limit of {limit} {unit}"
        return None

    def _spent(self, now: Counters, base: Counters) -> Iterator[tuple[StopReason, float | None, float | None, str]]:
        yield StopReason.MAX_STEPS, self.steps, now.steps - base.steps, "steps"
        yield StopReason.MAX_TOOL_CALLS, self.tool_calls, now.tool_calls - base.tool_calls, "tool calls"
        yield StopReason.MAX_SECONDS, self.seconds, now.seconds - base.seconds, "seconds"
        if now.steps > base.steps:
            known = now.usage.total is not None and (now.usage.complete or not base.usage.complete)
            tokens = (now.usage.total or 0) - (base.usage.total or 0) if known else None
            yield StopReason.MAX_TOKENS, self.tokens, tokens, "tokens"
            cost = None if now.cost is None else now.cost - (base.cost or 0.0)
            yield StopReason.MAX_COST, self.cost, cost, "dollars"


LONGEST_CYCLE = 3
RING = 30
"""How many fingerprints a State keeps: enough for ten repeats of the longest cycle."""


def round_digest(calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> bytes:
    """A short fingerprint of what one round asked and got: names, normalised arguments, results."""
    answer = {result.call_id: (result.status, result.content) for result in results}
    parts = [(call.name, normalised(call.arguments), answer.get(call.id)) for call in calls]
    return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=8).digest()


def repeated(ring: tuple[bytes, ...], times: int) -> bool:
    """Whether the newest rounds are `times` equal cycles of one to three rounds."""
    for length in range(1, LONGEST_CYCLE + 1):
        span = length * times
        tail = ring[-span:]
        if len(tail) == span and tail == tail[:length] * times:
            return True
    return False
