"""Whether the statistics of comparisons keep their promises: coverage, false positives, power.

    python tests/benchmarks/statistics_coverage.py [--quick]

Coverage of rates is computed exactly, by summing over every possible count; the rest is simulated, seeded. Each line
has its bound; the exit status is 1 when one is passed. About ten minutes; `--quick` takes a tenth.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from agentnb.comparison.agreement import agreement
from agentnb.comparison.paired import detectable_difference, difference_interval, permutation_test
from agentnb.comparison.statistics import Interval, bootstrap_interval, mean_interval
from agentnb.comparison.verdict import verdict

SIZES = (15, 30, 100)
RATES = [rate / 100 for rate in range(5, 96, 5)]
FINE = [rate / 2000 for rate in range(100, 1901)]
QUICK = "--quick" in sys.argv
failed: list[str] = []


def main() -> int:
    """Print every figure; 1 when a bound is passed."""
    print("coverage of nominal 95 % intervals, in %: mean and lowest over true rates from 5 to 95 %")
    one_run_a_task()
    several_runs_a_task()
    partial_scores()
    differences()
    kappa()
    print("\nhow often the verdict claims any difference where there is none, in % (bound 5)")
    false_positives()
    print("\npower at the detectable difference, in % (planned 80)")
    power()
    print(f"\n{len(failed)} bounds passed over" + "".join(f"\n  {each}" for each in failed))
    return bool(failed)


def runs(number: int) -> int:
    """How many simulations."""
    return max(100, number // 10) if QUICK else number


def check(label: str, ok: bool) -> None:
    """Remember a bound that does not hold."""
    if not ok:
        failed.append(label)


# ── coverage ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def one_run_a_task() -> None:
    """Exact: every interval depends on the count alone."""
    methods: dict[str, Callable[[list[list[float]]], Interval | None]] = {
        "rate": mean_interval,
        "bootstrap (percentile)": lambda tasks: bootstrap_interval(tasks, method="percentile"),
        "bootstrap (BCa)": bootstrap_interval,
    }
    for n in SIZES:
        for name, method in methods.items():
            intervals = [method([[1.0]] * k + [[0.0]] * (n - k)) for k in range(n + 1)]
            found = [exact_coverage(n, rate, intervals) for rate in FINE]
            show(f"{n} tasks, one run each, {name}", found)
            if name == "rate":
                check(f"mean coverage at {n}", 0.94 <= np.mean(found) <= 0.965)
                check(f"lowest coverage at {n}", min(found) >= 0.91)


def exact_coverage(n: int, rate: float, intervals: Sequence[Interval | None]) -> float:
    """The chance of every count whose interval holds the rate."""
    held = (k for k, interval in enumerate(intervals) if interval and rate in interval)
    return math.fsum(math.comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in held)


def several_runs_a_task() -> None:
    """Five runs a task; the tasks are alike, or differ (a beta distribution with this correlation of runs)."""
    for n in SIZES:
        for name, correlation in (("alike", 0.0), ("that differ", 0.3), ("that differ much", 0.8)):
            simulated(
                f"{n} tasks {name}, five runs each",
                n,
                lambda random, rate, c=correlation, n=n: drawn(random, rate, c, n, 5),
            )


def partial_scores() -> None:
    """One score a task, spread around the mean by a beta distribution."""
    for n in SIZES:
        simulated(f"{n} tasks, one partial score each", n, lambda random, rate, n=n: drawn(random, rate, 0.1, n, 0))


def drawn(random: Any, rate: float, correlation: float, n: int, repeats: int) -> list[list[float]]:
    """The values of n tasks."""
    shape = 1 / correlation - 1 if correlation else 0.0
    rates = random.beta(rate * shape, (1 - rate) * shape, n) if correlation else np.full(n, rate)
    if not repeats:
        return [[float(each)] for each in rates]
    return [list(map(float, random.random(repeats) < each)) for each in rates]


def simulated(label: str, n: int, draw: Callable[[Any, float], list[list[float]]]) -> None:
    """Coverage of our interval, and on fewer simulations of the bootstrap."""
    random = np.random.default_rng(n)
    ours, boots = [], []
    for rate in RATES:
        samples = [draw(random, rate) for _ in range(runs(1000))]
        ours.append(np.mean([rate in (mean_interval(tasks) or ()) for tasks in samples]))
        few = samples[: runs(150)]
        boots.append(np.mean([rate in (bootstrap_interval(tasks, resamples=500) or ()) for tasks in few]))
    show(f"{label}, adjusted", ours)
    check(f"coverage, {label}", QUICK or (np.mean(ours) >= 0.94 and min(ours) >= 0.9))
    show(f"{label}, bootstrap (BCa)", boots)


def differences() -> None:
    """The interval of a paired difference."""
    for n in SIZES:
        for repeats in (1, 5):
            random, held = np.random.default_rng(n), []
            for size in (0.0, 0.1, 0.3):
                for _ in range(runs(2000)):
                    a, b = pair_of(random, n, repeats, size)
                    interval = difference_interval([np.mean(x) - np.mean(y) for x, y in zip(a, b, strict=True)])
                    held.append(interval is not None and size in interval)
            show(f"{n} tasks, {repeats} run(s), difference of two variants", [float(np.mean(held))])


def pair_of(random: Any, n: int, repeats: int, size: float) -> tuple[Any, Any]:
    """Runs of two variants on tasks of different difficulty; A is better by `size` on each."""
    rates = random.uniform(0.2, 0.8, n)
    draw = lambda shift: (random.random((n, repeats)) < np.clip(rates + shift, 0, 1)[:, None]).astype(float)
    return draw(size / 2), draw(-size / 2)


def kappa() -> None:
    """The interval of Cohen's kappa, two labels."""
    for n in (20, 50, 200):
        random, held = np.random.default_rng(n), []
        for share, right in ((0.5, 0.95), (0.5, 0.7), (0.8, 0.85)):
            cells = np.array([share * right, share * (1 - right), (1 - share) * (1 - right), (1 - share) * right])
            rows, columns = (cells[0] + cells[1], cells[2] + cells[3]), (cells[0] + cells[2], cells[1] + cells[3])
            chance = sum(row * column for row, column in zip(rows, columns, strict=True))
            true = (cells[0] + cells[3] - chance) / (1 - chance)
            for _ in range(runs(2000)):
                kinds = random.choice(4, n, p=cells)
                found = agreement(dict(enumerate(kinds // 2)), dict(enumerate(kinds % 2))).interval
                held.append(found is not None and true in found)
        show(f"{n} items, Cohen's kappa", [float(np.mean(held))])


def show(label: str, coverages: Sequence[float]) -> None:
    """One line: mean and lowest."""
    lowest = f"{100 * min(coverages):6.1f}" if len(coverages) > 1 else ""
    print(f"  {label:58} {100 * float(np.mean(coverages)):6.1f} {lowest}", flush=True)


# ── tests ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def false_positives() -> None:
    """Verdicts on variants that do not differ."""
    for label, variants, draw in no_difference():
        random = np.random.default_rng(len(label))
        number = runs(4000 if variants == 2 else 1500)
        claims = 0
        for seed in range(number):
            rates = random.beta(1, 1, 20)
            values = {f"v{k}": tasks_of(draw(random, rates, k)) for k in range(variants)}
            claims += any(pair.better for pair in verdict(values, seed=seed).pairs)
        share = claims / number
        print(f"  {label:58} {100 * share:6.2f}", flush=True)
        check(f"false positives: {label}", share <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / number))


def no_difference() -> Iterator[tuple[str, int, Callable[[Any, Any, int], Any]]]:
    """Label, number of variants, and the runs of variant k on tasks with these rates."""
    yield "20 tasks, one run, 2 variants", 2, lambda random, rates, k: random.random((20, 1)) < rates[:, None]
    yield "20 tasks, five runs, 2 variants", 2, lambda random, rates, k: random.random((20, 5)) < rates[:, None]
    yield (
        "20 tasks, one partial score, 2 variants",
        2,
        lambda random, rates, k: random.beta(1 + rates, 2 - rates)[:, None],
    )
    yield "20 tasks, five runs, 4 variants", 4, lambda random, rates, k: random.random((20, 5)) < rates[:, None]

    def equal_on_average(random: Any, rates: Any, k: int) -> Any:
        return random.random((20, 5)) < (rates if k else 1 - rates)[:, None]

    yield "20 tasks, five runs, equal on average only", 2, equal_on_average


def tasks_of(runs: Any) -> dict[str, list[float]]:
    """Task id to its values."""
    return {str(number): [float(each) for each in values] for number, values in enumerate(runs)}


def power() -> None:
    """How often the test rejects when the true difference is the one that the design says it could see."""
    for n in (20, 50):
        for repeats in (1, 5):
            random = np.random.default_rng(n + repeats)
            seen = [detectable_difference(apart(random, n, repeats, 0.0)) for _ in range(runs(300))]
            size = float(np.median([each for each in seen if each is not None]))
            rejected = [permutation_test(apart(random, n, repeats, size)).p <= 0.05 for _ in range(runs(2000))]
            label = f"{n} tasks, {repeats} run(s), {100 * size:.0f} points"
            print(f"  {label:58} {100 * np.mean(rejected):6.1f}", flush=True)
            check(f"power: {label}", bool(np.mean(rejected) >= 0.72))


def apart(random: Any, n: int, repeats: int, size: float) -> list[float]:
    """One difference a task."""
    a, b = pair_of(random, n, repeats, size)
    return [float(each) for each in a.mean(axis=1) - b.mean(axis=1)]


if __name__ == "__main__":
    sys.exit(main())
