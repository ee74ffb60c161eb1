"""What ends a run: StopReason, Limits and the repetition guard.

Limits bound one call of `run`: what counts is the difference to the State that the call started from. Each fuse is
one comparison in `Limits.reached`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.errors import SettingsError

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
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            whole = each.name in ("cost", "seconds") or isinstance(value, int)
            low, high = (2, RING // LONGEST_CYCLE) if each.name == "repeats" else (0, float("inf"))
            if not (number and whole and low <= value <= high and 0 < value < float("inf")):
                kind = "number" if each.name in ("cost", "seconds") else "whole number"
                span = f"from {low} to {high}" if low else "above 0"
                raise SettingsError(
                    f"limit {each.name}={value!r}, expected a {kind} {span}",
                    remedy=f"Write Limits({each.name}=5), or None for no such limit.",
                )

    def reached(self, now: Counters, base: Counters) -> tuple[StopReason, str] | None:
        """The first fuse that has blown between `base` and `now`, with the reason in words; None when all hold."""
        if self.steps is not None and now.steps - base.steps >= self.steps:
            return StopReason.MAX_STEPS, f"stopped after {self.steps} steps without an answer"
        if self.tool_calls is not None and now.tool_calls - base.tool_calls >= self.tool_calls:
            return StopReason.MAX_TOOL_CALLS, f"stopped after {self.tool_calls} tool calls"
        if self.seconds is not None and now.seconds - base.seconds >= self.seconds:
            return StopReason.MAX_SECONDS, f"stopped after {self.seconds} seconds"
        if self.tokens is not None and now.steps > base.steps:
            return self._tokens_reached(now, base)
        if self.cost is not None and now.steps > base.steps:
            return self._cost_reached(now, base)
        return None

    def _tokens_reached(self, now: Counters, base: Counters) -> tuple[StopReason, str] | None:
        assert self.tokens is not None
        if now.usage.total is None or (base.usage.complete and not now.usage.complete):
            return StopReason.MAX_TOKENS, "the provider reports no usage, so the token limit can't be kept"
        used = now.usage.total - (base.usage.total or 0)
        if used >= self.tokens:
            return StopReason.MAX_TOKENS, f"stopped after {used} of {self.tokens} tokens"
        return self._cost_reached(now, base) if self.cost is not None else None

    def _cost_reached(self, now: Counters, base: Counters) -> tuple[StopReason, str] | None:
        assert self.cost is not None
        if now.cost is None:
            return StopReason.MAX_COST, "the price of this model is unknown, so the cost limit can't be kept"
        used = now.cost - (base.cost or 0.0)
        return (StopReason.MAX_COST, f"stopped after ${used:.4f} of ${self.cost}") if used >= self.cost else None


LONGEST_CYCLE = 3
RING = 30
"""How many fingerprints a State keeps: enough for ten repeats of the longest cycle."""


def round_digest(calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> bytes:
    """A short fingerprint of what one round asked and got: names, normalised arguments, results."""
    answer = {result.call_id: (result.status, result.content) for result in results}
    parts = [(call.name, _normalised(call.arguments), answer.get(call.id)) for call in calls]
    return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=8).digest()


def _normalised(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def repeated(ring: tuple[bytes, ...], times: int) -> bool:
    """Whether the newest rounds are `times` equal cycles of one to three rounds."""
    for length in range(1, LONGEST_CYCLE + 1):
        span = length * times
        tail = ring[-span:]
        if len(tail) == span and tail == tail[:length] * times:
            return True
    return False
