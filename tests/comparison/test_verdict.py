"""What is claimed of variants, in numbers and in words, and no more than the test says."""

from __future__ import annotations

from itertools import permutations

import pytest

from agentnb.comparison.paired import sign_test
from agentnb.comparison.verdict import verdict
from agentnb.errors import UsageError


def once(*values: float) -> dict[str, list[float]]:
    """One run a task."""
    return {f"t{number:02}": [value] for number, value in enumerate(values)}


def test_variants_that_cannot_be_told_apart():
    """The sentence names the tasks, what was seen, and what would be seen."""
    found = verdict({"A": once(*[1] * 16, *[0] * 4), "B": once(*[1] * 14, *[0] * 4, 1, 0)})

    assert found.pairs[0].better is None
    assert found.conclusion == (
        "A and B cannot be told apart on 20 tasks (5 points apart, p = 1.00); "
        "you would see a difference of 37 points or more with a chance of 80%."
    )


def test_a_difference_that_is_shown():
    """Means, size and p; the test is McNemar's."""
    found = verdict({"A": once(*[1] * 18, 0, 0), "B": once(*[1] * 8, *[0] * 12)})
    (pair,) = found.pairs

    assert (pair.wins, pair.losses, pair.p) == (10, 0, sign_test(10, 0).p)
    assert pair.test == "exact McNemar (sign) test"
    assert str(found) == "A is better than B on 20 tasks: 90% against 40%, 50 points apart (p = 0.002)."


def test_scores_are_told_in_their_own_unit():
    """No points where there are partial scores."""
    found = verdict({"A": once(*[0.9, 0.8] * 6), "B": once(*[0.4, 0.5] * 6)})

    assert found.conclusion.startswith("A is better than B on 12 tasks: 0.85 against 0.45, 0.40 apart")


def test_repeats_are_one_value_a_task():
    """Five tasks with a hundred repeats each can't show what needs six tasks."""
    found = verdict({"A": {str(n): [1] * 100 for n in range(5)}, "B": {str(n): [0] * 100 for n in range(5)}})

    assert found.pairs[0].p == 0.0625
    assert found.conclusion.endswith("so few tasks could not show any difference.")


def test_ranks_are_bands():
    """A rank is given only where the corrected tests give it."""
    best, middle, near, last = [1] * 20, [1] * 9 + [0] * 11, [1] * 8 + [0] * 12, [0] * 20
    found = verdict({"near": once(*near), "last": once(*last), "best": once(*best), "middle": once(*middle)})

    assert [str(band) for band in found.bands] == ["best 1", "near 2-3", "middle 2-3", "last 4"]
    assert found.conclusion.startswith("Ranks on 20 tasks: best 1, near 2-3, middle 2-3, last 4. ")
    assert "near and middle cannot be told apart" in found.conclusion


def test_the_correction_can_take_a_difference_away():
    """p = 0.031 of one pair alone is a difference; of three pairs it is none."""
    a, b = once(*[1] * 6, *[0] * 6), once(*[0] * 12)
    assert verdict({"A": a, "B": b}).pair("B", "A").better == "A"

    found = verdict({"A": a, "B": b, "C": once(*[1] * 3, *[0] * 9)})
    assert found.pair("A", "B").corrected == pytest.approx(3 * 0.03125)
    assert found.pair("A", "B").better is None
    assert {str(band) for band in found.bands} == {"A 1-3", "B 1-3", "C 1-3"}


def test_tasks_without_values_are_told():
    """Only tasks that both were measured on are compared: "n of N"."""
    found = verdict({"A": {"x": [1, None], "y": [None], "z": [1]}, "B": {"x": [0], "y": [1], "w": [0]}})
    (pair,) = found.pairs

    assert (pair.tasks, pair.total) == (1, 4)
    assert "on 1 of 4 tasks" in pair.sentence


def test_nothing_in_common_claims_nothing():
    """No shared task, no variant, one variant: no number and no claim."""
    found = verdict({"A": {"x": [1]}, "B": {"y": [0]}})

    assert (found.pairs[0].difference, found.pairs[0].p, found.pairs[0].better) == (None, 1, None)
    assert "no task in common" in found.conclusion
    assert "two variants" in verdict({"A": {"x": [1]}}).conclusion
    assert "two variants" in verdict({}).conclusion


@pytest.mark.slow
def test_order_plays_no_part():
    """Any order of variants gives the same p-values and bands."""
    values = {"A": once(*[0.31, 0.72, 0.4] * 9), "B": once(*[0.2, 0.7, 0.1] * 9), "C": once(*[0.33, 0.5, 0.9] * 9)}
    found = [verdict({name: values[name] for name in order}) for order in permutations(values)]

    assert len({frozenset((frozenset((pair.a, pair.b)), pair.p) for pair in each.pairs) for each in found}) == 1
    assert len({frozenset(each.bands) for each in found}) == 1


@pytest.mark.parametrize("value", [2.0, -1.0, float("nan")])
def test_values_are_scores(value):
    """Tokens or seconds are not compared here."""
    with pytest.raises(UsageError, match="expected 0 to 1"):
        verdict({"A": once(value), "B": once(0)})


def test_an_unknown_pair_is_an_error():
    """Not None."""
    with pytest.raises(UsageError, match="no pair"):
        verdict({"A": once(1), "B": once(0)}).pair("A", "C")
