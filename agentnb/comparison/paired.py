"""Two variants on the same tasks: exact and permutation tests, Holm's correction, and what could be seen.

Every test takes one difference per task, the mean of A's runs minus the mean of B's: repeats of a task are not
independent and are averaged first. What is tested is that the two variants are exchangeable on every task: then the
sign of each difference is a coin toss. The test conditions on these tasks and on the sizes of their differences; to
speak of other tasks, they must be a sample of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from agentnb.comparison.extras import extra
from agentnb.comparison.statistics import LEVEL, Interval

DRAWS = 9_999
"""Random sign patterns where the exact distribution is out of reach."""
POWER = 0.8
_MOST_SIGNS = 20
"""So many differences are enumerated in full."""
_FINEST = 10_000
_FINE = 1e-4
_MOST_WORK = 50_000_000
_CHUNK = 2_000_000


@dataclass(frozen=True, slots=True)
class Test:
    """A two-sided test of no difference."""

    p: float
    name: str
    """What was computed, such as "exact McNemar test"."""

    __test__ = False  # for pytest: this is no test case


def sign_test(wins: int, losses: int) -> Test:
    """Whether wins and losses differ more than tosses of a coin; ties do not count. With right and wrong: McNemar's.

    >>> sign_test(6, 0).p
    0.03125
    """
    return Test(min(1.0, 2 * _half_binomial(min(wins, losses), wins + losses)), "exact McNemar (sign) test")


def _half_binomial(at_most: int, n: int) -> float:
    """P(X <= at_most) for n tosses of a coin."""
    return float(extra("scipy.special").bdtr(at_most, n, 0.5)) if n else 1.0


def permutation_test(differences: Sequence[float], *, seed: int = 0, draws: int = DRAWS) -> Test:
    """How often tossing the sign of every difference brings a sum at least as far from 0.

    Exact where all differences have one size (McNemar's test) or are multiples of a common fraction, and for up to 20
    differences; else by `draws` random patterns, the observed one counted among them, so p is never 0.

    Args:
        differences: One per task; zeros do not change the result.
        seed: The same seed and differences give the same result.
        draws: Random patterns.
    """
    moved = sorted((float(each) for each in differences if abs(each) > 1e-12), key=abs)
    if not moved:
        return Test(1.0, "no task differs")
    if math.isclose(abs(moved[0]), abs(moved[-1]), rel_tol=1e-9):
        wins = sum(each > 0 for each in moved)
        return sign_test(wins, len(moved) - wins)
    steps = _on_a_grid(moved)
    if steps is not None:
        return Test(_grid_p(steps), "exact permutation test")
    if len(moved) <= _MOST_SIGNS:
        return Test(_enumerated_p(moved), "exact permutation test")
    return Test(_drawn_p(moved, seed, draws), f"permutation test ({draws:,} draws)")


def _on_a_grid(moved: Sequence[float]) -> list[int] | None:
    """The differences as whole multiples of one fraction; None when there is no such fraction, or it is too fine."""
    fractions = [Fraction(each).limit_denominator(1_000) for each in moved]
    if any(abs(float(fraction) - each) > 1e-12 for fraction, each in zip(fractions, moved, strict=True)):
        return None
    finest = math.lcm(*(fraction.denominator for fraction in fractions))
    steps = [int(fraction * finest) for fraction in fractions] if finest <= _FINEST else []
    work = len(steps) * sum(map(abs, steps))
    return steps if 0 < work <= _MOST_WORK else None


def _grid_p(steps: Sequence[int]) -> float:
    """Exact, by adding one difference after the other to the distribution of the sum."""
    numpy = extra("numpy")
    observed, reach = abs(sum(steps)), sum(map(abs, steps))
    chance = numpy.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for step in map(abs, steps):
        chance = (numpy.roll(chance, step) + numpy.roll(chance, -step)) / 2
    tail = float(chance[: reach - observed + 1].sum())
    return min(1.0, 2 * tail) if observed else 1.0


def _enumerated_p(moved: Sequence[float]) -> float:
    """Exact, over all patterns; by symmetry the first sign stays."""
    numpy = extra("numpy")
    sums = numpy.array([moved[0]])
    for each in moved[1:]:
        sums = numpy.concatenate([sums + each, sums - each])
    return float(numpy.count_nonzero(abs(sums) >= _reached(moved)) / len(sums))


def _drawn_p(moved: Sequence[float], seed: int, draws: int) -> float:
    numpy = extra("numpy")
    random, values = numpy.random.default_rng(seed), numpy.array(moved)
    as_far, step = 0, max(1, _CHUNK // len(moved))
    for first in range(0, draws, step):
        signs = random.integers(0, 2, size=(min(step, draws - first), len(moved)), dtype=numpy.int8)
        as_far += int(numpy.count_nonzero(abs((2.0 * signs - 1.0) @ values) >= _reached(moved)))
    return (as_far + 1) / (draws + 1)


def _reached(moved: Sequence[float]) -> float:
    """The observed sum, a little less for rounding."""
    return abs(math.fsum(moved)) - 1e-9 * math.fsum(map(abs, moved))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for being several: to reject those at most 5 % errs at all in at most 5 % of cases.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]

    Source: S. Holm, 1979.
    """
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = highest
    return adjusted


# ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def difference_interval(differences: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of the mean difference over tasks like these; differences are from -1 to 1.

    Student's, after adding one task won and one lost by the largest difference seen, which keeps it honest when few
    tasks differ. With right and wrong it is Bonett and Price's. It may touch 0 where the test rejects, or the other way
    round: the verdict goes by the test.

    Source: D. G. Bonett and R. M. Price, "Adjusted Wald confidence interval for a difference of binomial proportions
    based on paired data", 2012.
    """
    if not differences:
        return None
    n, mean, spread = _adjusted(differences)
    half = float(extra("scipy.special").stdtrit(n - 1, 0.5 + level / 2)) * spread / math.sqrt(n)
    return Interval(max(-1.0, mean - half), min(1.0, mean + half), level, "Student's, two tasks added")


def _adjusted(differences: Sequence[float]) -> tuple[int, float, float]:
    """Number, mean and standard deviation after the two added tasks."""
    largest = max(map(abs, differences)) or 1.0
    values = [*differences, largest, -largest]
    mean = math.fsum(values) / len(values)
    return len(values), mean, math.sqrt(math.fsum((each - mean) ** 2 for each in values) / (len(values) - 1))


def detectable_difference(differences: Sequence[float], alpha: float = 1 - LEVEL, power: float = POWER) -> float | None:
    """The smallest true difference that this design would show with this chance, given how these tasks vary.

    Right or wrong once a task: the power of the exact McNemar test, where as many tasks differ as did here (one win and
    one loss added), or all by the difference itself where that is more. Else: the power of Student's paired test with
    the standard deviation of these differences (two tasks added), which the permutation test comes close to; but not
    less than what shows when every task that differs does so in one direction, by the root mean square of the
    differences here.

    Args:
        differences: One per task, from -1 to 1.
        alpha: The level of the test; for several pairs that of Holm's first step, 0.05 / pairs.
        power: The chance to see it.

    Returns:
        None when the tasks are too few to show any difference at this level.
    """
    n = len(differences)
    if not n:
        return None
    moved = [abs(each) for each in differences if each]
    if all(each == 1 for each in moved):
        discordant = (len(moved) + 2) / (n + 2)
        return _smallest(lambda size: _mcnemar_power(n, max(discordant, size), size, alpha), power)
    _, _, spread = _adjusted(differences)
    found = _smallest(lambda size: _student_power(n, size / spread, alpha), power)
    one_way = _smallest(lambda size: _mcnemar_power(n, size, size, alpha), power)
    if found is None or one_way is None:
        return None
    return max(found, one_way * math.sqrt(math.fsum(each**2 for each in moved) / len(moved)))


def _smallest(power_of: Any, power: float) -> float | None:
    low, high = 0.0, 1.0
    if power_of(high) < power:
        return None
    while high - low > _FINE:
        middle = (low + high) / 2
        low, high = (low, middle) if power_of(middle) >= power else (middle, high)
    return high


def _mcnemar_power(n: int, discordant: float, size: float, alpha: float) -> float:
    """The chance that the exact test rejects, over the number of tasks that differ and who wins them."""
    numpy, special = extra("numpy"), extra("scipy.special")
    m = numpy.arange(n + 1)
    lowest = _critical(numpy, special, m, alpha)
    wins = min(1.0, (1 + size / discordant) / 2)
    fewer = numpy.where(lowest >= 0, special.bdtr(numpy.maximum(lowest, 0), m, wins), 0.0)
    more = numpy.where(lowest >= 0, special.bdtr(numpy.maximum(lowest, 0), m, 1 - wins), 0.0)
    chance = special.bdtr(m, n, discordant)
    return float((numpy.diff(chance, prepend=0.0) * (fewer + more)).sum())


def _critical(numpy: Any, special: Any, m: Any, alpha: float) -> Any:
    """For each number of tosses the most heads that are still significantly few; -1 where none are."""
    guess = numpy.floor(numpy.nan_to_num(special.bdtrik(alpha / 2, numpy.maximum(m, 1), 0.5), nan=-1.0)) + 1
    for _ in range(3):
        guess = numpy.where(
            (guess >= 0) & (special.bdtr(numpy.maximum(guess, 0), m, 0.5) > alpha / 2), guess - 1, guess
        )
    return numpy.where(m > 0, guess, -1)


def _student_power(n: int, effect: float, alpha: float) -> float:
    special = extra("scipy.special")
    critical = float(special.stdtrit(n - 1, 1 - alpha / 2))
    return 1 - float(special.nctdtr(n - 1, effect * math.sqrt(n), critical))
