"""Intervals and pass@k against references worked out another way."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.comparison.statistics import (
    Interval,
    bootstrap_interval,
    exact,
    mean_interval,
    pass_at_k,
    pass_hat_k,
    wilson,
)
from agentnb.errors import UsageError

Z = 1.959963984540054


def tail(n: int, p: Fraction, numbers: range) -> Fraction:
    """P(X in numbers) of a binomial, summed term by term in exact fractions."""
    return sum((math.comb(n, x) * p**x * (1 - p) ** (n - x) for x in numbers), Fraction(0))


@pytest.mark.parametrize(
    ("successes", "n"), [(0, 1), (1, 1), (0, 15), (3, 15), (15, 15), (7, 30), (99, 100), (50, 100)]
)
def test_wilson_solves_its_equation(successes, n):
    """Each end is where (rate - p) is z standard errors of p, found here by bisection."""
    interval = wilson(successes, n)

    def far(p: float) -> float:
        return abs(successes / n - p) - Z * math.sqrt(p * (1 - p) / n)

    def bisect(inside: float, outside: float) -> float:
        for _ in range(200):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if far(middle) < 0 else (inside, middle)
        return inside

    rate = successes / n
    assert interval.low == pytest.approx(bisect(rate, 0.0) if rate else 0.0, abs=1e-9)
    assert interval.high == pytest.approx(bisect(rate, 1.0) if rate < 1 else 1.0, abs=1e-9)


@pytest.mark.parametrize(("successes", "n"), [(0, 5), (5, 5), (3, 15), (7, 30), (99, 100)])
def test_exact_leaves_its_tails(successes, n):
    """At each end, what was seen or more extreme has exactly 2.5 %, by direct summation."""
    interval = exact(successes, n)

    if successes:
        assert float(tail(n, Fraction(interval.low), range(successes, n + 1))) == pytest.approx(0.025, abs=1e-9)
    if successes < n:
        assert float(tail(n, Fraction(interval.high), range(successes + 1))) == pytest.approx(0.025, abs=1e-9)
    assert (interval.low == 0, interval.high == 1) == (successes == 0, successes == n)


@pytest.mark.slow
def test_proportions_equal_those_of_scipy():
    """Both intervals, every count of 15, 30 and 100, three levels, within 1e-9."""
    stats = pytest.importorskip("scipy.stats")
    worst = 0.0
    for n in (1, 15, 30, 100):
        for k in range(n + 1):
            for level in (0.8, 0.95, 0.99):
                reference = stats.binomtest(k, n)
                for ours, method in ((wilson(k, n, level), "wilson"), (exact(k, n, level), "exact")):
                    theirs = reference.proportion_ci(level, method=method)
                    worst = max(worst, abs(ours.low - theirs.low), abs(ours.high - theirs.high))

    assert worst < 1e-9


def coverage(n: int, p: float) -> float:
    """How often the interval of a rate over n tasks holds p: exact, summed over every count."""
    counts = (math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1))
    return math.fsum(chance for k, chance in enumerate(counts) if p in interval_of(k, n))


_known: dict[tuple[int, int], Interval] = {}


def interval_of(k: int, n: int) -> Interval:
    """The interval for k of n tasks, once each."""
    if (k, n) not in _known:
        found = mean_interval([[1.0]] * k + [[0.0]] * (n - k))
        assert found is not None
        _known[k, n] = found
    return _known[k, n]


@pytest.mark.parametrize("n", [15])
def test_coverage_of_a_rate(n):
    """Mean over true rates from 0.05 to 0.95 between 94 and 96.5 %, never below 91 %; computed, not simulated."""
    found = [coverage(n, p / 400) for p in range(20, 381, 8)]

    assert 0.94 < sum(found) / len(found) < 0.965
    assert min(found) > 0.91


@pytest.mark.slow
@pytest.mark.parametrize("n", [15, 30, 100])
def test_coverage_of_a_rate_on_a_fine_grid(n):
    """The same on 1,801 rates."""
    found = [coverage(n, p / 2000) for p in range(100, 1901)]

    assert 0.94 < sum(found) / len(found) < 0.965
    assert min(found) > 0.91


def test_few_tasks_get_the_exact_interval():
    """Below 15 tasks Wilson's can fall under 90 %."""
    assert mean_interval([[1]] * 7 + [[0]] * 7) == exact(7, 14)
    assert mean_interval([[1]] * 7 + [[0]] * 8) == wilson(7, 15)


def test_repeats_of_a_task_are_not_independent():
    """Tasks that are all right or all wrong tell as much as one run each; tasks that vary alike tell more."""
    alike = mean_interval([[1, 1, 1, 1, 1]] * 10 + [[0, 0, 0, 0, 0]] * 10)
    mixed = mean_interval([[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]] * 10)
    single = mean_interval([[1]] * 10 + [[0]] * 10)
    pooled = wilson(50, 100)

    assert width(alike) >= width(single) > width(mixed) >= width(pooled)


def test_partial_scores_have_an_interval():
    """Narrower than for right and wrong; equal ones as wide as right and wrong could be."""
    assert width(mean_interval([[0.5], [0.7]] * 10)) < width(mean_interval([[1], [0]] * 10))
    assert width(mean_interval([[0.5]] * 20)) >= width(wilson(10, 20))
    assert width(mean_interval([[1.0, 1.0]] * 20)) > 0.1


def width(interval: Interval | None) -> float:
    """How wide it is."""
    assert interval is not None
    return interval.high - interval.low


@pytest.mark.parametrize("tasks", [[], [[]], [[], []]])
def test_no_values_have_no_interval(tasks):
    """None, not 0 to 0."""
    assert mean_interval(tasks) is None
    assert bootstrap_interval(tasks) is None


def test_odd_inputs():
    """One task with repeats tells nothing; a value out of range is an error that names the other function."""
    assert mean_interval([[1, 0, 1]]) == Interval(0, 1, 0.95, "one task tells nothing of others")
    with pytest.raises(UsageError, match="bootstrap_interval"):
        mean_interval([[1.5]])
    with pytest.raises(UsageError, match="no bootstrap method"):
        bootstrap_interval([[1], [2]], method="magic")


@given(st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=3), max_size=16))
@settings(max_examples=30, deadline=None)
def test_an_interval_holds_its_mean(tasks):
    """Whatever the tasks: ends within 0 and 1, and the mean between them."""
    interval = mean_interval(tasks)
    values = [value for task in tasks for value in task]

    assert (interval is None) is (not values)
    if interval:
        assert 0 <= interval.low <= sum(values) / len(values) + 1e-12
        assert sum(values) / len(values) - 1e-12 <= interval.high <= 1


def test_the_bootstrap_draws_tasks():
    """Every resample of three tasks with unequal runs, enumerated, gives the same quantiles within a percent."""
    tasks = [[1.0, 2.0], [4.0], [6.0, 6.0, 9.0]]
    drawn = sorted(mean_of([tasks[a], tasks[b], tasks[c]]) for a in range(3) for b in range(3) for c in range(3))
    interval = bootstrap_interval(tasks, 0.5, method="percentile")

    assert interval.low == pytest.approx(drawn[len(drawn) // 4], abs=0.35)
    assert interval.high == pytest.approx(drawn[3 * len(drawn) // 4], abs=0.35)
    assert interval.method == "bootstrap over tasks (percentile, 10,000 draws)"


def mean_of(tasks: list[list[float]]) -> float:
    """The mean over runs."""
    values = [value for task in tasks for value in task]
    return sum(values) / len(values)


def test_the_bootstrap_is_seeded():
    """The same seed, the same interval; another seed, nearly the same."""
    tasks = [[float(n % 7), float(n % 5)] for n in range(40)]

    first, again, other = (bootstrap_interval(tasks, seed=seed, resamples=2_000) for seed in (0, 0, 1))

    assert first == again
    assert first != other
    assert other.low == pytest.approx(first.low, abs=0.1)


def test_equal_tasks_are_no_certainty():
    """The bootstrap of equal tasks has no width, and says that it tells nothing."""
    interval = bootstrap_interval([[3.0]] * 10)

    assert (interval.low, interval.high) == (3, 3)
    assert "tells nothing" in interval.method


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_the_bootstrap_equals_that_of_scipy(method):
    """On single runs, within the error of resampling."""
    numpy, stats = pytest.importorskip("numpy"), pytest.importorskip("scipy.stats")
    values = numpy.random.default_rng(3).exponential(size=50)
    name = {"bca": "BCa", "percentile": "percentile"}[method]
    theirs = stats.bootstrap((values,), numpy.mean, n_resamples=50_000, method=name, rng=1).confidence_interval
    ours = bootstrap_interval([[value] for value in values], method=method, resamples=50_000)

    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.006)


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_counts_subsets(n):
    """Both are the share of the subsets of k runs, counted one by one; undefined when there are fewer runs."""
    for right in range(n + 1):
        runs = [1] * right + [0] * (n - right)
        for k in range(1, n + 3):
            chosen = list(combinations(runs, k))
            assert pass_at_k(n, right, k) == (pytest.approx(sum(map(any, chosen)) / len(chosen)) if chosen else None)
            assert pass_hat_k(n, right, k) == (pytest.approx(sum(map(all, chosen)) / len(chosen)) if chosen else None)


@pytest.mark.parametrize(("n", "right", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_impossible_runs_are_refused(n, right, k):
    """More right than runs, or no tries."""
    with pytest.raises(UsageError):
        pass_at_k(n, right, k)
