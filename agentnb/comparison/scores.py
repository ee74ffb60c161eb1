"""What became of a run: Outcome and Score for one, Average and Rate for many, each with its "n of N".

A run that brought no answer has no score, and its outcome says why. What counts as 0 in an average is a choice, and it
is printed: by default the endings that are the agent's own doing (a limit, a refusal, the time limit, no text) count
as 0, since it did not do the task; what says nothing of the agent (an error of the model's server, a scorer that
failed, an interrupt) is left out and counted beside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from agentnb.core.limits import StopReason
from agentnb.core.messages import Usage


class Outcome(StrEnum):
    """How one run of one task ended, as far as a comparison cares."""

    RIGHT = "right"
    """Score 1."""
    PARTIAL = "partial"
    """A score between 0 and 1."""
    WRONG = "wrong"
    """An answer with score 0."""
    LIMIT = "limit"
    """Steps, tokens, cost, tool calls, repetition, a reply or a context cut off."""
    TIMEOUT = "timeout"
    """The time limit of the run."""
    REFUSED = "refused"
    """The model or its provider declined."""
    EMPTY = "empty"
    """The model said nothing."""
    ERROR = "error"
    """The model call failed: no connection, a server's error, a wrong key."""
    SCORE_ERROR = "score error"
    """There is an answer, but its scorer failed."""
    ANSWERED = "answered"
    """There is an answer, and nothing to score it by."""
    PAUSED = "paused"
    """A call waits for a person's approval."""
    CANCELLED = "cancelled"
    NOT_RUN = "not run"


SCORED = (Outcome.RIGHT, Outcome.PARTIAL, Outcome.WRONG)
"""Outcomes that come with a score."""
AS_ZERO = (Outcome.LIMIT, Outcome.TIMEOUT, Outcome.REFUSED, Outcome.EMPTY)
"""Outcomes without a score that count as 0 unless you choose otherwise."""
_BY_STOP = {
    StopReason.MAX_SECONDS: Outcome.TIMEOUT,
    StopReason.REFUSED: Outcome.REFUSED,
    StopReason.EMPTY_REPLY: Outcome.EMPTY,
    StopReason.CONNECTION_LOST: Outcome.ERROR,
    StopReason.ERROR: Outcome.ERROR,
    StopReason.CANCELLED: Outcome.CANCELLED,
    StopReason.PAUSED: Outcome.PAUSED,
    StopReason.ANSWER: Outcome.ANSWERED,
}


def outcome_of_stop(stop: StopReason | None) -> Outcome:
    """The outcome of a run before any scoring; a run that has not ended was not run to its end."""
    return Outcome.NOT_RUN if stop is None else _BY_STOP.get(stop, Outcome.LIMIT)


@dataclass(frozen=True, slots=True)
class Score:
    """What one answer is worth."""

    outcome: Outcome
    value: float | None = None
    """0 to 1; None when the outcome is not one of SCORED."""
    explanation: str = ""
    """What was read in the answer and what was expected, or why there is no score."""
    scorer: str = ""
    usage: Usage | None = None
    """Tokens that the scoring took, where a model was the judge and said it."""
    cost: float | None = None
    """US dollars of the same."""

    @classmethod
    def of(cls, value: float, explanation: str = "", scorer: str = "") -> Self:
        """The score of an answer.

        Raises:
            ValueError: The value is not from 0 to 1.
        """
        value = float(value)
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"the score is {value!r}, expected 0 to 1")
        outcome = Outcome.RIGHT if value == 1.0 else Outcome.PARTIAL if value else Outcome.WRONG
        return cls(outcome, value, explanation, scorer)

    def counted(self, as_zero: Sequence[Outcome] = AS_ZERO) -> float | None:
        """The number that an average takes; None leaves this run out."""
        return 0.0 if self.outcome in as_zero else self.value


@dataclass(frozen=True, slots=True)
class Average:
    """The mean score of many runs; it never goes without how many of how many it is of."""

    value: float | None
    """None when no run counts."""
    n: int
    """Runs that count."""
    total: int
    """Runs in all."""
    counts: Mapping[Outcome, int]
    """How many runs had each outcome."""
    as_zero: tuple[Outcome, ...] = AS_ZERO
    bounds: tuple[float, float] = (0.0, 1.0)
    """The mean if every run that is left out were wrong, and if every one were right."""

    @classmethod
    def of(cls, scores: Iterable[Score], as_zero: Sequence[Outcome] = AS_ZERO) -> Self:
        """The average of these scores.

        Args:
            scores: One for every run that was wanted, those without an answer included.
            as_zero: Outcomes without a score that count as 0.
        """
        scores = tuple(scores)
        values = [value for score in scores if (value := cls._number(score, as_zero)) is not None]
        n, total, added = len(values), len(scores), sum(values)
        bounds = (added / total, (added + total - n) / total) if total else (0.0, 1.0)
        counts = dict(Counter(score.outcome for score in scores))
        return cls(added / n if n else None, n, total, counts, tuple(as_zero), bounds)

    @staticmethod
    def _number(score: Score, as_zero: Sequence[Outcome]) -> float | None:
        return score.counted(as_zero)

    def __str__(self) -> str:
        told = "; ".join(filter(None, (self._apart(), self._left_out())))
        return f"{self._head()} over {self.n} of {self.total} runs{f' ({told})' if told else ''}"

    def _head(self) -> str:
        return "no score" if self.value is None else f"{self.value:.2f}"

    def _apart(self) -> str:
        zeros = self._told(self.as_zero)
        return f"{zeros} as 0" if zeros else ""

    def _left_out(self) -> str:
        out = self._told([each for each in Outcome if each not in (*SCORED, *self.as_zero)])
        low, high = (self._number_text(each) for each in self.bounds)
        return f"left out: {out}, with which it would be {low} to {high}" if out else ""

    def _told(self, outcomes: Iterable[Outcome]) -> str:
        return ", ".join(f"{self.counts[each]} {each}" for each in outcomes if self.counts.get(each))

    @staticmethod
    def _number_text(value: float) -> str:
        return f"{value:.2f}"


@dataclass(frozen=True, slots=True)
class Rate(Average):
    """The share of runs that are wholly right; a partial score is not."""

    @staticmethod
    def _number(score: Score, as_zero: Sequence[Outcome]) -> float | None:
        value = score.counted(as_zero)
        return None if value is None else float(value == 1.0)

    def _head(self) -> str:
        return "no rate" if self.value is None else f"{round(self.value * self.n)} right ({self.value:.0%})"

    def _apart(self) -> str:
        return self._told((Outcome.WRONG, Outcome.PARTIAL, *self.as_zero))

    @staticmethod
    def _number_text(value: float) -> str:
        return f"{value:.0%}"
