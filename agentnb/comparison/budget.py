"""What a batch has spent, what the rest will take, and the guard that starts nothing that would exceed a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentnb.comparison.progress import shown_seconds
from agentnb.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the rest will take, by the mean of what was done; None is unknown."""

    units: int
    """Still to be done."""
    tokens: float | None
    cost: float | None
    """US dollars."""
    seconds: float | None
    of: int
    """Units that the means are of."""

    def __str__(self) -> str:
        tokens = "tokens unknown" if self.tokens is None else f"{self.tokens:,.0f} tokens"
        cost = "cost unknown" if self.cost is None else f"${self.cost:,.2f}"
        time = "time unknown" if self.seconds is None else shown_seconds(self.seconds)
        return f"the other {self.units:,} runs: about {tokens}, {cost}, {time} (by {self.of} samples)"


class Spending:
    """Tokens and cost of the units finished in this call, with a budget for both.

    Args:
        tokens: The most; None for no bound.
        cost: In US dollars; None for no bound.

    Raises:
        SettingsError: A bound is no number above 0.
    """

    def __init__(self, tokens: int | None, cost: float | None) -> None:
        self.bounds = {"tokens": tokens, "cost": cost}
        for name, bound in self.bounds.items():
            if bound is not None and not (isinstance(bound, int | float) and 0 < bound < float("inf")):
                raise SettingsError(
                    f"max_{name}={bound!r}, expected a number above 0", layer="comparison", remedy="None is no bound."
                )
        self.units = 0
        self.seconds = 0.0
        self.spent: dict[str, float] = {"tokens": 0.0, "cost": 0.0}
        self.unknown = {"tokens": 0, "cost": 0}
        """Units whose tokens or cost nobody said."""
        self.highest: dict[str, dict[str, float]] = {"tokens": {}, "cost": {}}
        """By variant: what its dearest unit took."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a unit; the scoring of its answer too."""
        self.units += 1
        self.seconds += row.get("seconds") or 0.0
        for name in self.spent:
            used = row.get(name)
            if used is None and row.get("steps"):
                self.unknown[name] += 1
            used = (used or 0) + (row.get(f"scoring_{name}") or 0)
            self.spent[name] += used
            highest = self.highest[name]
            highest[row["variant"]] = max(highest.get(row["variant"], 0.0), used)

    @property
    def bounded(self) -> bool:
        """Whether there is a budget at all."""
        return any(bound is not None for bound in self.bounds.values())

    def refusal(self, variant: str, running: Mapping[str, int]) -> str | None:
        """Why a unit of this variant may not start; "" when that is only known when one of the running has ended.

        A unit is taken to cost as much as the dearest so far of its variant (or of all, for a variant without any).

        Args:
            variant: Of the unit.
            running: Variant to how many of its units run now.
        """
        for name, bound in self.bounds.items():
            if bound is None:
                continue
            if self.unknown[name]:
                verb = "is" if name == "cost" else "are"
                return f"the {name} of these runs {verb} unknown, so a budget of {bound:,} can't be kept"
            if not self.units and any(running.values()):
                return ""
            reserved = sum(self._expected(name, each) * count for each, count in running.items())
            needed = self._expected(name, variant)
            if self.spent[name] + needed > bound or self.spent[name] >= bound:
                return f"the budget of {bound:,} {'dollars' if name == 'cost' else name} leaves no room for another run"
            if self.spent[name] + reserved + needed > bound:
                return ""
        return None

    def _expected(self, name: str, variant: str) -> float:
        highest = self.highest[name]
        return highest.get(variant, max(highest.values(), default=0.0))

    def estimate(self, left: int, concurrency: int) -> Estimate | None:
        """What so many more units will take; None when nothing was done."""
        if not self.units or not left:
            return None
        mean = {name: None if self.unknown[name] else left * spent / self.units for name, spent in self.spent.items()}
        return Estimate(left, mean["tokens"], mean["cost"], left * self.seconds / self.units / concurrency, self.units)
