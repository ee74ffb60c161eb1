"""One budget of tokens and dollars for a run and all the runs nested in it, while they spend side by side.

    run ── its limits ──▶ SharedBudget ◀── spends ── nested run ── its own limits ──▶ SharedBudget ◀── …

What a nested run uses is counted at once in its own budget and in every one around it. Each looks before its next model
call, so runs that work in parallel overspend by no more than the calls that were in flight.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from threading import Lock

from agentnb.core.limits import Limits, StopReason
from agentnb.core.middleware import Budget, budget
from agentnb.core.state import Counters, State

_STOPS = {"tokens": StopReason.MAX_TOKENS, "cost": StopReason.MAX_COST}
_UNITS = {"tokens": "tokens", "cost": "dollars"}
_MOST_ROUNDS = 16


class SharedBudget:
    """What a run may use, those nested in it included.

    Args:
        limits: Of the run; only `tokens` and `cost` are shared, a nested run takes no step of the one around it.
        base: Where the run started.
        used: What the run had used of its limits when this budget was opened, in counters.
        outer: The budget of the run around it.
    """

    def __init__(
        self, limits: Limits, base: State, used: Counters | None = None, outer: SharedBudget | None = None
    ) -> None:
        self.base = base
        self.outer = outer
        self._limits = {name: getattr(limits, name) for name in _STOPS}
        self._spent = {name: (used.since(base.counters, name) or 0.0) if used else 0.0 for name in _STOPS}

    def spend(self, before: Counters, now: Counters) -> None:
        """What one step used, as far as it is known; counted here and in every budget around."""
        each: SharedBudget | None = self
        while each is not None:
            for name in _STOPS:
                each._spent[name] += now.since(before, name) or 0.0
            each = each.outer

    def left(self, name: str) -> float | None:
        """How much of "tokens" or "cost" is left, here and around; None when nothing bounds it."""
        lefts = [each._limits[name] - each._spent[name] for each in self._outwards() if each._limits[name] is not None]
        return min(lefts, default=None)

    def used_up(self) -> tuple[StopReason, str] | None:
        """Why nothing may be spent any more, as a stop; None while something is left."""
        for name, stop in _STOPS.items():
            if (left := self.left(name)) is not None and left <= 0:
                return stop, f"stopped: the {_UNITS[name]} that it shares with the run around it are used up"
        return None

    def capped(self, limits: Limits) -> Limits:
        """These limits, with no more tokens and cost than are left here; something must be left."""
        tokens, cost = self.left("tokens"), self.left("cost")
        tokens = limits.tokens if tokens is None else int(min(tokens, limits.tokens or tokens))
        cost = limits.cost if cost is None else min(cost, limits.cost or cost)
        return replace(limits, tokens=tokens, cost=cost)

    def _outwards(self) -> Iterator[SharedBudget]:
        each: SharedBudget | None = self
        while each is not None:
            yield each
            each = each.outer


_current: ContextVar[SharedBudget | None] = ContextVar("agentnb_shared_budget", default=None)
_rounds: OrderedDict[int, tuple[State, SharedBudget]] = OrderedDict()
_lock = Lock()


def budget_around() -> SharedBudget | None:
    """The budget of the run whose tool asks: the same object for all calls of a round; None outside of runs."""
    around, outer = budget(), _current.get()
    if around is None or (outer is not None and outer.base is around.base):
        return outer
    return _of_round(around, outer)


def _of_round(around: Budget, outer: SharedBudget | None) -> SharedBudget:
    """The budget of a run that is not nested, known by the State from which its round of calls started."""
    state: State = around.state
    with _lock:
        if id(state) not in _rounds:
            _rounds[id(state)] = state, SharedBudget(around.limits, around.base, state.counters, outer)
            while len(_rounds) > _MOST_ROUNDS:
                _rounds.popitem(last=False)
        return _rounds[id(state)][1]


@contextmanager
def spending(shared: SharedBudget) -> Iterator[None]:
    """While the block runs, `shared` is the budget of the run in it."""
    token = _current.set(shared)
    try:
        yield
    finally:
        _current.reset(token)
