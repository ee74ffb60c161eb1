"""What ends a run: StopReason, Limits and the repetition guard.

Limits bound one call of `run`: what counts is the difference to the State that the call started from. Each fuse is
one comparison in `Limits.reached`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
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

    ANSWER, PAUSED, CANCELLED, REFUSED, TRUNCATED = "answer", "paused", "cancelled", "refused", "truncated"
    MAX_STEPS, MAX_TOKENS, MAX_COST, MAX_SECONDS = "max_steps", "max_tokens", "max_cost", "max_seconds"
    MAX_TOOL_CALLS, REPETITION, EMPTY_REPLY = "max_tool_calls", "repetition", "empty_reply"
    CONTEXT_TOO_LONG, CONNECTION_LOST, ERROR = "context_too_long", "connection_lost", "error"


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
        for name, reason in _FUSES.items():
            if (limit := getattr(self, name)) is not None:
                used = now.since(base, name)
                if used is None:
                    return reason, f"{name} of this model: unknown, so the limit of {limit} can't be kept"
                if used >= limit:
                    unit = "dollars" if name == "cost" else name.replace("_", " ")
                    return reason, f"stopped at the limit of {limit} {unit.removesuffix('s') if limit == 1 else unit}"
        return None


_FUSES = {name: StopReason(f"max_{name}") for name in ("tool_calls", "seconds", "steps", "tokens", "cost")}
"""Limit to stop reason; where several have blown, the first tells."""
LONGEST_CYCLE = 3
RING = 30
"""How many fingerprints a State keeps: enough for ten repeats of the longest cycle."""
DIGEST = 4
"""Bytes of a fingerprint; a run would have to meet three equal ones in a row by chance."""


def round_digest(calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> bytes:
    """A short fingerprint of what one round asked and got: names, normalised arguments, results."""
    answer = {result.call_id: (result.status, result.content) for result in results}
    parts = [(call.name, normalised(call.arguments), answer.get(call.id)) for call in calls]
    return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=DIGEST).digest()


def repeated(ring: bytes, times: int) -> bool:
    """Whether the newest rounds are `times` equal cycles of one to three rounds."""
    cycles = range(DIGEST, min(LONGEST_CYCLE * DIGEST, len(ring) // times) + 1, DIGEST)
    return any(ring[-length * times :] == ring[-length:] * times for length in cycles)
