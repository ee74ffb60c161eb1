"""Intervals for rates and means over tasks, and pass@k; each says by which method it was made.

The unit that is drawn at random is the task: repeats of one task tell less than as many tasks, so every interval here
takes values task by task. Coverage of nominal 95 % intervals, in %, mean over true rates from 5 to 95 % and the lowest
(tests/benchmarks/statistics_coverage.py; the first two lines are computed exactly, the others are simulated):

    tasks                                             15              30              100
    one run a task, `mean_interval` (Wilson's)        95.4   91.4     95.3   92.1     95.1   92.7
    the same, bootstrap (BCa)                         91.3   50.1     95.0   77.0     95.3   93.4
    five runs of tasks that differ, `mean_interval`   96.4   95.3     95.5   93.4     95.0   93.1
    the same, bootstrap (BCa)                         92.0   82.0     93.7   86.0     94.3   92.0

So the bootstrap stands beside the other interval, and does not replace it. Below 15 tasks Wilson's interval can fall
to 89 %, so there the exact (Clopper-Pearson) one is used, never below 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from agentnb.comparison.extras import extra
from agentnb.errors import UsageError

LEVEL = 0.95
FEW_TASKS = 15
"""Below this many tasks a rate gets the exact interval."""
RESAMPLES = 10_000
_FEWEST_RESAMPLES = 1_000
_MOST_DRAWS = 20_000_000
"""Tasks drawn in all; of more tasks there are fewer resamples, down to 1,000."""
_CHUNK = 4_000_000
"""Numbers held at once while resampling."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a true value may lie."""

    low: float
    high: float
    level: float
    """How often such an interval holds the true value, as planned: 0.95."""
    method: str

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f}"


# ── one value a task ─────────────────────────────────────────────────────────────────────────────────────────────────


def wilson(successes: float, n: float, level: float = LEVEL) -> Interval:
    """Wilson's score interval of a proportion: the rates that a two-sided normal test would not reject.

    Args:
        successes: How many of `n`; may be a fraction when `n` is an effective size.
        n: Above 0.
        level: Between 0 and 1.

    Source: E. B. Wilson, 1927.
    """
    return _score_interval(successes / n, n, NormalDist().inv_cdf(0.5 + level / 2), level, "Wilson")


def exact(successes: float, n: float, level: float = LEVEL) -> Interval:
    """The exact interval of a proportion; its coverage is never below `level`, and mostly above.

    Source: C. J. Clopper and E. S. Pearson, 1934.
    """
    beta, tail = extra("scipy.special").betaincinv, (1 - level) / 2
    low = 0.0 if successes <= 0 else float(beta(successes, n - successes + 1, tail))
    high = 1.0 if successes >= n else float(beta(successes + 1, n - successes, 1 - tail))
    return Interval(low, high, level, "exact (Clopper-Pearson)")


def _score_interval(mean: float, n: float, quantile: float, level: float, method: str) -> Interval:
    share = quantile**2 / n
    centre = (mean + share / 2) / (1 + share)
    half = math.sqrt(max(mean * (1 - mean), 0.0) * share + share**2 / 4) / (1 + share)
    low = 0.0 if mean <= 0.0 else max(0.0, centre - half)
    high = 1.0 if mean >= 1.0 else min(1.0, centre + half)
    return Interval(low, high, level, method)


# ── several values a task ────────────────────────────────────────────────────────────────────────────────────────────


def mean_interval(tasks: Sequence[Sequence[float]], level: float = LEVEL) -> Interval | None:
    """The interval of the mean over tasks like these, of values from 0 to 1.

    One run a task, each right or wrong: Wilson's interval (the exact one below 15 tasks). Else Wilson's form with the
    effective number of runs, that is as many independent ones as would vary as much as the tasks do (not fewer than the
    tasks), and with the quantile of Student's t for that many tasks. To how much right and wrong vary, one task more is
    added, with as many runs, each a toss of a coin: a few tasks seldom show how much all vary.

    Args:
        tasks: For each task the values of its runs; a task without any is left out.
        level: Between 0 and 1.

    Returns:
        None without any value.

    Raises:
        UsageError: A value is not from 0 to 1.
    """
    kept = _kept(tasks)
    if not kept:
        return None
    _check_range(kept)
    counts = [len(task) for task in kept]
    n, total = len(kept), sum(counts)
    added = math.fsum(map(math.fsum, kept))
    binary = all(value in (0, 1) for task in kept for value in task)
    if binary and total == n:
        return exact(added, n, level) if n < FEW_TASKS else wilson(added, n, level)
    if n == 1:
        return Interval(0.0, 1.0, level, "one task tells nothing of others")
    mean = added / total
    residuals = [(math.fsum(task) - mean * len(task)) * n / total for task in kept]
    squares = math.fsum(each**2 for each in residuals)
    if squares and binary:
        squares += 0.25 * n / total
    variance = squares / (n * (n - 1))
    effective = min(max(mean * (1 - mean) / variance, n), total if binary else math.inf) if variance else float(n)
    quantile = float(extra("scipy.special").stdtrit(n - 1, 0.5 + level / 2))
    return _score_interval(mean, effective, quantile, level, "Wilson, adjusted for tasks")


def bootstrap_interval(
    tasks: Sequence[Sequence[float]],
    level: float = LEVEL,
    *,
    method: str = "bca",
    seed: int = 0,
    resamples: int | None = None,
) -> Interval | None:
    """The cluster bootstrap interval of the mean over tasks like these: whole tasks are drawn, with all their runs.

    For values on any scale (tokens, seconds, cost). For fewer than some 30 tasks it is too narrow: nominal 95 % cover
    91 to 92 % at 15 tasks, and far less where nearly all tasks are equal.

    Args:
        tasks: For each task the values of its runs; a task without any is left out.
        level: Between 0 and 1.
        method: "bca" (bias-corrected and accelerated) or "percentile".
        seed: The same seed and tasks give the same interval.
        resamples: How many times the tasks are drawn; None is 10,000, for more than 2,000 tasks fewer.

    Returns:
        None without any value. When all tasks have the same mean, both ends are that mean, and `method` says so.

    Source: B. Efron, "Better bootstrap confidence intervals", 1987.
    """
    if method not in ("bca", "percentile"):
        raise UsageError(f"no bootstrap method {method!r}", layer="comparison", remedy='Use "bca" or "percentile".')
    kept = _kept(tasks)
    if not kept:
        return None
    numpy = extra("numpy")
    sums, counts = numpy.array([math.fsum(task) for task in kept]), numpy.array([len(task) for task in kept])
    mean = float(sums.sum() / counts.sum())
    if numpy.allclose(sums / counts, mean, rtol=1e-12, atol=0):
        return Interval(mean, mean, level, "bootstrap of equal tasks, which tells nothing")
    many = resamples or min(RESAMPLES, max(_FEWEST_RESAMPLES, _MOST_DRAWS // len(kept)))
    drawn = _resampled(numpy, sums, counts, seed, many)
    tails = [(1 - level) / 2, (1 + level) / 2]
    if method == "bca":
        tails = _bca_tails(numpy, drawn, mean, sums, counts, tails)
    low, high = (float(each) for each in numpy.quantile(drawn, tails))
    name = "BCa" if method == "bca" else method
    return Interval(low, high, level, f"bootstrap over tasks ({name}, {many:,} draws)")


def _resampled(numpy: Any, sums: Any, counts: Any, seed: int, resamples: int) -> Any:
    """The mean of each resample of tasks."""
    random, n = numpy.random.default_rng(seed), len(sums)
    means = []
    for first in range(0, resamples, step := max(1, _CHUNK // n)):
        times = random.multinomial(n, numpy.full(n, 1 / n), size=min(step, resamples - first))
        means.append((times @ sums) / (times @ counts))
    return numpy.concatenate(means)


def _bca_tails(numpy: Any, drawn: Any, mean: float, sums: Any, counts: Any, tails: Sequence[float]) -> list[float]:
    """Which quantiles of the resampled means to take: shifted for bias, stretched for skewness."""
    normal = NormalDist()
    below = (numpy.count_nonzero(drawn < mean) + numpy.count_nonzero(drawn == mean) / 2) / len(drawn)
    bias = normal.inv_cdf(min(max(below, 1 / len(drawn)), 1 - 1 / len(drawn)))
    without = (sums.sum() - sums) / (counts.sum() - counts)
    apart = without.mean() - without
    acceleration = float((apart**3).sum() / (6 * (apart**2).sum() ** 1.5))
    shifted = [bias + normal.inv_cdf(tail) for tail in tails]
    return [normal.cdf(bias + each / (1 - acceleration * each)) for each in shifted]


def _kept(tasks: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[float(value) for value in task] for task in tasks if len(task)]


def _check_range(tasks: Sequence[Sequence[float]]) -> None:
    for value in (value for task in tasks for value in task):
        if not 0.0 <= value <= 1.0:
            raise UsageError(
                f"a score is {value!r}, expected 0 to 1", layer="comparison", remedy="Use bootstrap_interval for it."
            )


# ── k tries ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def pass_at_k(n: int, right: int, k: int) -> float | None:
    """The chance that at least one of `k` runs of a task is right, from `right` of `n`; unbiased.

    None when `k` is more than `n`: so many runs were not made.

    >>> pass_at_k(3, 1, 2)
    0.6666666666666666

    Source: M. Chen and others, "Evaluating large language models trained on code", 2021.
    """
    _check_runs(n, right, k)
    return None if k > n else 1 - math.comb(n - right, k) / math.comb(n, k)


def pass_hat_k(n: int, right: int, k: int) -> float | None:
    """The chance that all of `k` runs of a task are right (pass^k), from `right` of `n`; unbiased, None as above.

    >>> pass_hat_k(3, 2, 2)
    0.3333333333333333

    Source: S. Yao and others, "tau-bench", 2024.
    """
    _check_runs(n, right, k)
    return None if k > n else math.comb(right, k) / math.comb(n, k)


def _check_runs(n: int, right: int, k: int) -> None:
    if not (0 <= right <= n and k >= 1):
        raise UsageError(f"{right} right of {n} runs and k={k} can't be", layer="comparison")
