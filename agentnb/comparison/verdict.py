"""What may be said of variants that did the same tasks: pairs, bands of ranks, and a conclusion in words.

    values = {"A": {"t1": [1, 0, 1], "t2": [1, 1, 1]}, "B": {...}}      variant -> task -> one value a run
    verdict(values).conclusion

A difference is claimed only where the paired test says so after Holm's correction over all pairs. A rank is a band:
from 1 plus those shown to be better, to the last place but for those shown to be worse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from agentnb.comparison.paired import DRAWS, POWER, detectable_difference, difference_interval, holm, permutation_test
from agentnb.comparison.statistics import LEVEL, Interval
from agentnb.errors import UsageError

Values = Mapping[str, Mapping[str, Sequence[float | None]]]
"""Variant to task id to one value per run; None where a run has no value."""
_MOST_SENTENCES = 6


@dataclass(frozen=True, slots=True)
class Pair:
    """Two variants on the tasks that both have values for."""

    a: str
    b: str
    tasks: int
    """Tasks compared."""
    total: int
    """Tasks in all."""
    mean_a: float | None
    """A's mean over the tasks compared, each task the same weight; None without any."""
    mean_b: float | None
    difference: float | None
    """mean_a - mean_b."""
    interval: Interval | None
    """Of the difference; not corrected for several pairs."""
    wins: int
    """Tasks on which A is better."""
    losses: int
    p: float
    """Of the paired test, as it is."""
    corrected: float
    """The same after Holm's correction over all pairs."""
    test: str
    detectable: float | None
    """The smallest difference that would be seen with a chance of 80 %; None when there are too few tasks for any."""
    level: float = LEVEL
    points: bool = True
    """Differences are told in percentage points (right or wrong), else in units of the score."""

    @property
    def differs(self) -> bool:
        """Whether a difference is shown."""
        return self.corrected <= 1 - self.level + 1e-12

    @property
    def better(self) -> str | None:
        """The variant that is shown to be better; None when they can't be told apart."""
        if not self.differs or not self.difference:
            return None
        return self.a if self.difference > 0 else self.b

    @property
    def sentence(self) -> str:
        """What may be said of these two."""
        if self.difference is None:
            return f"{self.a} and {self.b} have no task in common that both were measured on."
        if self.better is None:
            return f"{self.a} and {self.b} cannot be told apart on {_tasks(self)}{self._seen()}; {self._could()}."
        worse = self.b if self.better == self.a else self.a
        high, low = sorted((self.mean_a or 0.0, self.mean_b or 0.0), reverse=True)
        return (
            f"{self.better} is better than {worse} on {_tasks(self)}: {self._value(high)} against {self._value(low)}, "
            f"{self._amount(abs(self.difference))} apart ({self._p()})."
        )

    def _seen(self) -> str:
        assert self.difference is not None
        return f" ({self._amount(abs(self.difference))} apart, {self._p()})"

    def _could(self) -> str:
        if self.detectable is None:
            return "so few tasks could not show any difference"
        size = self._amount(self.detectable, up=True)
        return f"you would see a difference of {size} or more with a chance of {POWER:.0%}"

    def _p(self) -> str:
        shown = "p < 0.001" if self.corrected < 0.001 else f"p = {_two_digits(self.corrected)}"
        return shown if math.isclose(self.p, self.corrected) else f"{shown} after Holm's correction"

    def _value(self, value: float) -> str:
        return f"{value:.0%}" if self.points else f"{value:.2f}"

    def _amount(self, size: float, up: bool = False) -> str:
        """The size in words; what could be seen is rounded up."""
        shown = 100 * size if self.points else size
        if up:
            shown = math.ceil(shown - 1e-9) if self.points else math.ceil(100 * shown - 1e-9) / 100
        return f"{shown:.0f} point{'' if round(shown) == 1 else 's'}" if self.points else f"{shown:.2f}"


@dataclass(frozen=True, slots=True)
class Band:
    """The ranks that a variant may have; 1 is best."""

    variant: str
    best: int
    worst: int

    def __str__(self) -> str:
        return f"{self.variant} {self.best}" if self.best == self.worst else f"{self.variant} {self.best}-{self.worst}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every pair, the bands, and what follows, in words."""

    pairs: tuple[Pair, ...]
    bands: tuple[Band, ...]
    """Best band first."""
    conclusion: str
    level: float = LEVEL

    def pair(self, a: str, b: str) -> Pair:
        """The pair of these two, in whichever order it was made.

        Raises:
            UsageError: There is none.
        """
        for each in self.pairs:
            if {each.a, each.b} == {a, b}:
                return each
        raise UsageError(f"no pair of {a!r} and {b!r} was compared", layer="comparison")

    def __str__(self) -> str:
        return self.conclusion


def verdict(values: Values, *, level: float = LEVEL, seed: int = 0, draws: int = DRAWS) -> Verdict:
    """Compare every two variants on the tasks that both have.

    The test is the exact McNemar test for right and wrong once a task, else the paired permutation test on the means
    of each task (see `paired`). It errs at all, when no variant differs, in at most 1 - `level` of comparisons.

    Args:
        values: Variant to task id to one value per run, from 0 to 1; None where a run has no value.
        level: 0.95 tests at 5 %.
        seed: For the permutation test where it must draw; the order of variants and tasks plays no part in p.
        draws: How many it draws.

    Raises:
        UsageError: A value is not from 0 to 1.
    """
    names = list(values)
    total = len({task for tasks in values.values() for task in tasks})
    means = {name: _task_means(tasks) for name, tasks in values.items()}
    points = all(value in (None, 0, 1) for tasks in values.values() for runs in tasks.values() for value in runs)
    rows = []
    for a, b in combinations(names, 2):
        shared = sorted(set(means[a]) & set(means[b]))
        rows.append((a, b, [means[a][task] for task in shared], [means[b][task] for task in shared]))
    differences = [[x - y for x, y in zip(of_a, of_b, strict=True)] for _, _, of_a, of_b in rows]
    tests = [permutation_test(each, seed=seed, draws=draws) for each in differences]
    corrected = holm([test.p for test in tests])
    alpha = (1 - level) / max(1, len(rows))
    pairs = tuple(
        Pair(
            a,
            b,
            tasks=len(apart),
            total=total,
            mean_a=_mean(of_a),
            mean_b=_mean(of_b),
            difference=_mean(apart),
            interval=difference_interval(apart, level),
            wins=sum(each > _SAME for each in apart),
            losses=sum(each < -_SAME for each in apart),
            p=test.p,
            corrected=p,
            test=test.name,
            detectable=detectable_difference(apart, alpha),
            level=level,
            points=points,
        )
        for (a, b, of_a, of_b), apart, test, p in zip(rows, differences, tests, corrected, strict=True)
    )
    bands = _bands(names, pairs)
    return Verdict(pairs, bands, _conclusion(pairs, bands, total), level)


_SAME = 1e-12


def _task_means(tasks: Mapping[str, Sequence[float | None]]) -> dict[str, float]:
    """The mean of each task's values; a task without any is left out."""
    found = {task: [float(value) for value in runs if value is not None] for task, runs in tasks.items()}
    for value in (value for kept in found.values() for value in kept):
        if not 0.0 <= value <= 1.0:
            raise UsageError(f"a score is {value!r}, expected 0 to 1", layer="comparison")
    return {task: math.fsum(kept) / len(kept) for task, kept in found.items() if kept}


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _bands(names: Sequence[str], pairs: Sequence[Pair]) -> tuple[Band, ...]:
    beaten = [(pair.better, pair.b if pair.better == pair.a else pair.a) for pair in pairs if pair.better]
    made = []
    for name in names:
        above = sum(worse == name for _, worse in beaten)
        below = sum(better == name for better, _ in beaten)
        made.append(Band(name, 1 + above, len(names) - below))
    return tuple(sorted(made, key=lambda band: (band.best, band.worst)))


def _conclusion(pairs: Sequence[Pair], bands: Sequence[Band], total: int) -> str:
    """The pairs that differ first; then those that don't, in one sentence when they are many."""
    if not pairs:
        return "There is nothing to compare: it takes two variants."
    told = [pair.sentence for pair in pairs if pair.better]
    alike = [pair for pair in pairs if not pair.better]
    if len(pairs) <= _MOST_SENTENCES:
        told += [pair.sentence for pair in alike]
    elif alike:
        told.append(f"{len(alike)} of {len(pairs)} pairs cannot be told apart.")
    if len(bands) > 2:
        told.insert(0, f"Ranks on {total} tasks: {', '.join(map(str, bands))}.")
    return " ".join(told)


def _tasks(pair: Pair) -> str:
    plural = "" if pair.tasks == 1 else "s"
    return f"{pair.tasks} task{plural}" if pair.tasks == pair.total else f"{pair.tasks} of {pair.total} tasks"


def _two_digits(p: float) -> str:
    return f"{p:.2g}" if p < 0.1 else f"{p:.2f}"
