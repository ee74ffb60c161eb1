"""Outcomes and averages: nothing is silently 0, nothing is dropped unsaid."""

from __future__ import annotations

import pytest

from agentnb import StopReason
from agentnb.comparison.scores import AS_ZERO, SCORED, Average, Outcome, Rate, Score, outcome_of_stop

MIXED = (
    [Score.of(1)] * 12
    + [Score.of(0)] * 4
    + [Score.of(0.5)]
    + [Score(Outcome.LIMIT)] * 2
    + [Score(Outcome.REFUSED), Score(Outcome.ERROR), Score(Outcome.SCORE_ERROR)]
)


@pytest.mark.parametrize("stop", [*StopReason, None])
def test_every_stop_has_an_outcome(stop):
    """Only an answer can be scored; a failure of the server is none of the agent's."""
    outcome = outcome_of_stop(stop)

    assert outcome not in SCORED
    assert (outcome is Outcome.ANSWERED) is (stop is StopReason.ANSWER)
    assert (outcome is Outcome.ERROR) is (stop in (StopReason.ERROR, StopReason.CONNECTION_LOST))


def test_wrong_error_limit_refused_and_timeout_are_apart():
    """Five endings, five outcomes."""
    stops = (StopReason.ERROR, StopReason.MAX_STEPS, StopReason.REFUSED, StopReason.MAX_SECONDS)

    assert {outcome_of_stop(stop) for stop in stops} | {Score.of(0).outcome} == {
        Outcome.ERROR, Outcome.LIMIT, Outcome.REFUSED, Outcome.TIMEOUT, Outcome.WRONG,
    }  # fmt: skip


def test_an_average_says_n_of_n():
    """The mean, how many of how many, what counts as 0, what is left out, and what that could change."""
    average = Average.of(MIXED)

    assert (average.value, average.n, average.total) == (12.5 / 20, 20, 22)
    assert average.bounds == (12.5 / 22, 14.5 / 22)
    assert str(average) == (
        "0.62 over 20 of 22 runs (2 limit, 1 refused as 0; "
        "left out: 1 error, 1 score error, with which it would be 0.57 to 0.66)"
    )


def test_a_rate_counts_what_is_wholly_right():
    """A partial score is not right, and is told beside."""
    rate = Rate.of(MIXED)

    assert (rate.value, rate.n, rate.total) == (0.6, 20, 22)
    assert rate.counts[Outcome.PARTIAL] == 1
    assert str(rate).startswith("12 right (60%) over 20 of 22 runs (4 wrong, 1 partial, 2 limit, 1 refused; left out: ")


def test_what_counts_as_zero_can_be_chosen():
    """With no zeros the mean is over the scored runs, and says so."""
    average = Average.of(MIXED, as_zero=())

    assert (average.value, average.n) == (12.5 / 17, 17)
    assert "left out: 2 limit, 1 refused, 1 error, 1 score error" in str(average)


def test_no_runs_give_no_number():
    """Nothing measured is None, never 0."""
    assert Average.of([]).value is None
    assert Rate.of([Score(Outcome.ERROR)]).value is None
    assert str(Rate.of([Score(Outcome.ERROR)])).startswith("no rate over 0 of 1 runs")


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_score_is_from_0_to_1(value):
    """Anything else is an error, not a clipped number."""
    with pytest.raises(ValueError, match="expected 0 to 1"):
        Score.of(value)


def test_only_scored_outcomes_have_a_number():
    """What an average takes of each outcome: its score, 0 by choice, or nothing."""
    assert [Score(each).counted() for each in Outcome if each not in SCORED] == [
        0.0 if each in AS_ZERO else None for each in Outcome if each not in SCORED
    ]
