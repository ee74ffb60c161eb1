"""pass@k and pass^k of variants: over how many tasks each is, and undefined where too few runs were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentnb.comparison.statistics import pass_at_k, pass_hat_k
from agentnb.comparison.verdict import Values


@dataclass(frozen=True, slots=True)
class OverTasks:
    """A figure of each task, averaged over the tasks that have it."""

    name: str
    """Such as "pass@3"."""
    value: float | None
    """None when no task has it."""
    n: int
    """Tasks that have it."""
    total: int
    """Tasks in all."""

    def __str__(self) -> str:
        shown = "undefined" if self.value is None else f"{self.value:.2f}"
        return f"{self.name} {shown} over {self.n} of {self.total} tasks"


def passes(values: Values, ks: Sequence[int]) -> dict[str, tuple[OverTasks, ...]]:
    """For each variant pass@k for every k, then pass^k; a partial score is no pass.

    Args:
        values: Variant to task to one value per run; None where a run has none. A task with fewer than k values has
            no pass@k and is left out of it.
        ks: Whole numbers from 1.
    """
    return {
        variant: tuple(_passes(list(tasks.values()), k, kind) for kind in ("@", "^") for k in ks)
        for variant, tasks in values.items()
    }


def _passes(tasks: Sequence[Sequence[float | None]], k: int, kind: str) -> OverTasks:
    one = pass_at_k if kind == "@" else pass_hat_k
    counted = [[value == 1 for value in runs if value is not None] for runs in tasks]
    known = [value for runs in counted if (value := one(len(runs), sum(runs), k)) is not None]
    return OverTasks(f"pass{kind}{k}", sum(known) / len(known) if known else None, len(known), len(tasks))
