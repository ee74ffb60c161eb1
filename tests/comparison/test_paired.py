"""Paired tests against enumeration in exact fractions; Holm's correction; what a design can show."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.comparison.paired import detectable_difference, difference_interval, holm, permutation_test, sign_test


def enumerated(differences: list[Fraction]) -> float:
    """The share of all sign patterns whose sum is at least as far from 0."""
    observed = abs(sum(differences))
    sums = [abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
            for signs in product((1, -1), repeat=len(differences))]  # fmt: skip
    return sum(each >= observed for each in sums) / len(sums)


def by_hand(wins: int, losses: int) -> float:
    """McNemar's exact p, summed in integers."""
    n = wins + losses
    below = sum(math.comb(n, x) for x in range(min(wins, losses) + 1))
    return float(min(Fraction(1), Fraction(2 * below, 2**n)))


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (6, 0), (3, 3), (10, 3), (40, 21), (500, 450)])
def test_the_sign_test_by_direct_summation(wins, losses):
    """Within 1e-9 of integers added up; ties play no part."""
    assert sign_test(wins, losses).p == pytest.approx(by_hand(wins, losses), abs=1e-9)
    assert permutation_test([1] * wins + [-1] * losses + [0] * 7).p == pytest.approx(by_hand(wins, losses), abs=1e-9)


@given(st.lists(st.integers(-5, 5), max_size=7), st.sampled_from([1, 3, 5, 7]))
@settings(max_examples=30, deadline=None)
def test_repeats_are_exact(counts, repeats):
    """Differences of rates over repeats: within 1e-9 of every pattern, enumerated."""
    fractions = [Fraction(each, repeats) for each in counts]

    assert permutation_test([float(each) for each in fractions]).p == pytest.approx(enumerated(fractions), abs=1e-9)


@pytest.mark.slow
@given(st.lists(st.floats(-1, 1), max_size=7))
@settings(max_examples=30, deadline=None)
def test_scores_are_exact_for_few_tasks(values):
    """Any scores: within 1e-9 of every pattern, enumerated (but for sums that are equal only to rounding)."""
    values = [round(each, 6) for each in values]

    assert permutation_test(values).p == pytest.approx(enumerated([Fraction(str(each)) for each in values]), abs=1e-9)


def test_many_scores_are_drawn():
    """Above 20 tasks with odd scores: seeded, never 0, near the exact p, and named so."""
    odd = [math.sin(n) * 0.3 + 0.1 for n in range(19)]
    exact = permutation_test(odd)
    drawn = permutation_test([*odd, 1e-7, -1e-7])

    assert exact.name == "exact permutation test"
    assert drawn.name == "permutation test (9,999 draws)"
    assert drawn.p == pytest.approx(exact.p, abs=0.015)
    assert permutation_test([math.sqrt(n + 1) for n in range(50)]).p == 1 / 10_000
    assert drawn == permutation_test([-1e-7, 1e-7, *reversed(odd)])


def test_no_difference_is_p_1():
    """Nothing differs, or everything cancels."""
    assert permutation_test([]).p == 1
    assert permutation_test([0, 0, 0.0]).p == 1
    assert permutation_test([0.4, -0.4, 0.2, -0.2]).p == 1


@pytest.mark.parametrize(
    ("given", "corrected"),
    [([], []), ([0.04], [0.04]), ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]), ([0.5, 0.9], [1, 1]),
     ([0.001, 0.02, 0.02, 0.9], [0.004, 0.06, 0.06, 0.9])],
)  # fmt: skip
def test_holm(given, corrected):
    """Worked out by hand; the order of p-values is kept."""
    assert holm(given) == pytest.approx(corrected)


def test_the_difference_has_an_honest_interval():
    """Bonett and Price's by hand; a width also where no task differs; None without tasks."""
    interval = difference_interval([1] * 6 + [-1] * 2 + [0] * 12)
    mean, n = 4 / 22, 22
    spread = math.sqrt((10 - n * mean**2) / (n - 1) / n)

    assert (interval.low + interval.high) / 2 == pytest.approx(mean)
    assert (interval.high - interval.low) / 2 == pytest.approx(2.0796138 * spread, abs=1e-6)
    assert difference_interval([0] * 20).high > 0.1
    assert difference_interval([]) is None


def power_by_hand(n: int, discordant: float, size: float, alpha: float) -> float:
    """The power of the exact McNemar test, over every number of wins and losses."""
    win, loss = (discordant + size) / 2, (discordant - size) / 2
    total = 0.0
    for wins in range(n + 1):
        for losses in range(n + 1 - wins):
            if by_hand(wins, losses) <= alpha:
                ways = math.comb(n, wins) * math.comb(n - wins, losses)
                total += ways * win**wins * loss**losses * (1 - discordant) ** (n - wins - losses)
    return total


@pytest.mark.parametrize(("n", "discordant", "alpha"), [(20, 8, 0.05), (30, 4, 0.05), (30, 12, 0.05 / 3)])
def test_what_can_be_seen_has_power_80(n, discordant, alpha):
    """At the detectable difference the exact test rejects in 80 %, summed over every outcome."""
    half = discordant // 2
    size = detectable_difference([1] * half + [-1] * half + [0] * (n - discordant), alpha)
    share = max((discordant + 2) / (n + 2), size)

    assert power_by_hand(n, share, size, alpha) == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize("n", range(6))
def test_too_few_tasks_show_nothing(n):
    """Five tasks can't reach 5 %, whatever happens on them."""
    assert detectable_difference([1] * n) is None
    assert detectable_difference([0.5] * n) is None


def test_more_tasks_and_fewer_pairs_show_more():
    """The detectable difference falls with tasks and rises with the number of pairs."""
    alike = [0.2, -0.4, 0.0, 0.6]

    assert detectable_difference(alike * 5) > detectable_difference(alike * 25)
    assert detectable_difference(alike * 5, alpha=0.05 / 10) > detectable_difference(alike * 5)
    assert detectable_difference([0] * 20) > detectable_difference([0] * 40)
