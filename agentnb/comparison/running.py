"""The engine: goes through a plan, a bounded number of units at once, and puts each finished one into the store.

    plan.ordered() ──what is not finished──▶ lanes of workers ──row──▶ store, spending, progress

Nothing is collected here, so a hundred thousand units take no more memory than a hundred. An interrupt leaves every
finished unit in the store; only those in flight start again in the next call.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from agentnb.comparison.budget import Estimate, Spending
from agentnb.comparison.executors import Elsewhere, WorkerLost
from agentnb.comparison.progress import FAILED, Meter
from agentnb.comparison.scores import Outcome
from agentnb.comparison.store import Store
from agentnb.comparison.table import Row
from agentnb.comparison.units import Plan, Unit
from agentnb.comparison.work import Work, missing_row, run_unit, score_unit
from agentnb.errors import SettingsError, UsageError

CONCURRENCY = 3


class Running:
    """One call of `batch` or `compare`.

    Args:
        plan: What there is to do.
        store: Where it goes.
        concurrency: Units at once; or provider to units at once ("openai": 8), 3 for those not named.
        first: So many tasks are done before the rest; None for no samples.
        retry: "failed", or outcomes, whose units are run once more.
        spending: Counts, and bounds what is started.
        meter: Told of everything.
        executor: None runs here.
    """

    def __init__(
        self,
        plan: Plan,
        store: Store,
        *,
        concurrency: int | Mapping[str, int],
        first: int | None,
        retry: Any,
        spending: Spending,
        meter: Meter,
        executor: Any,
    ) -> None:
        self.plan, self.store, self.spending, self.meter = plan, store, spending, meter
        self.first = checked_first(first)
        self.retried = retried_outcomes(retry)
        self.lanes = checked_lanes(concurrency)
        self.elsewhere = None if executor is None else Elsewhere(executor, plan.scorer)
        self.stopped = ""
        """Why no further unit was started; "" when all were."""
        self.estimate: Estimate | None = None
        self.in_flight: dict[str, Unit] = {}
        self.answered_as: dict[str, set[str]] = {}
        """Variant to the names that its providers gave in the answers of this call."""
        self._again: list[Unit] = []
        self._changed = asyncio.Condition()

    async def all(self) -> None:
        """Do what is not finished: samples first, then the rest, then what a dying worker took along."""
        left = sum(1 for unit in self.plan if not self._is_done(unit))
        self.meter.change(kept=len(self.plan) - left)
        units: Iterator[Unit] = (unit for unit in self.plan.ordered() if not self._is_done(unit))
        try:
            if self.first is not None:
                samples, units = _samples(units, self.first)
                await self._run(samples)
                self.estimate = self.spending.estimate(left - self.spending.units, self._at_once)
                if self.estimate is not None:
                    self.meter.change(note=str(self.estimate))
            await self._run(units)
            for unit in self._again:
                await self._finish(unit, last=True)
        finally:
            if self.elsewhere is not None:
                self.elsewhere.close()

    # ── which ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _is_done(self, unit: Unit) -> bool:
        entry = self.store.done(unit)
        return entry is not None and entry.outcome not in self.retried

    @property
    def _at_once(self) -> int:
        return sum(self.lanes.values())

    # ── how ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, units: Iterable[Unit]) -> None:
        """Each lane has workers of its own, so that a slow provider does not hold up another."""
        lanes = _Lanes(units, self.lanes)
        try:
            async with asyncio.TaskGroup() as group:
                for lane, workers in self.lanes.items():
                    for _ in range(workers):
                        group.create_task(self._work(lanes.of(lane)))
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors

    async def _work(self, units: Iterator[Unit]) -> None:
        for unit in units:
            if self.stopped or not await self._may_start(unit):
                return
            await self._finish(unit)

    async def _may_start(self, unit: Unit) -> bool:
        """Whether the budget has room for it; waits where that depends on what is running."""
        if not self.spending.bounded:
            return True
        async with self._changed:
            while (why := self.spending.refusal(unit.variant.name, self._running())) == "":
                await self._changed.wait()
            if why is not None:
                self.stopped = self.stopped or why
            else:
                self.in_flight[unit.key] = unit
            return why is None

    def _running(self) -> Mapping[str, int]:
        return Counter(unit.variant.name for unit in self.in_flight.values())

    async def _finish(self, unit: Unit, last: bool = False) -> None:
        """See one unit through: run, store, count."""
        self.in_flight[unit.key] = unit
        self.meter.change(started=1)
        row = await _unless_interrupted(self._row(unit, last))
        if row is None:
            self._again.append(unit)
            self.meter.change(started=-1)
        else:
            self.store.finish(unit, row)
            if row["answered_as"]:
                self.answered_as.setdefault(unit.variant.name, set()).add(row["answered_as"])
            self.spending.add(row)
            self.meter.change(finished=Outcome(row["outcome"]))
        del self.in_flight[unit.key]
        if self.spending.bounded:
            async with self._changed:
                self._changed.notify_all()

    async def _row(self, unit: Unit, last: bool) -> Row | None:
        """The finished row; None when a worker died and the unit has another try."""
        entry = self.store.done(unit)
        again = entry is not None and entry.outcome in self.retried
        attempt = entry.attempt + 1 if entry is not None and again else 1
        work = Work(unit.variant.name, unit.variant.agent, self.plan.scorer, unit.task, unit.repeat, attempt)
        transcript = self.store.folder / unit.transcript
        rerun = again and entry is not None and entry.outcome is not Outcome.SCORE_ERROR
        if not rerun and transcript.exists():  # it was paid for: to be scored anew, or its line was lost
            row = await _scored(work, transcript)
            if row is not None:
                return row
        if self.elsewhere is None:
            return await run_unit(work, transcript, self.store.log)
        return await self._row_elsewhere(unit, work, last)

    async def _row_elsewhere(self, unit: Unit, work: Work, last: bool) -> Row | None:
        assert self.elsewhere is not None
        try:
            found = await self.elsewhere.run(unit, work.attempt + last)
        except WorkerLost as error:
            return missing_row(work, Outcome.ERROR, f"tried twice; {error}") if last else None
        (self.store.folder / unit.transcript).write_bytes(found["transcript"])
        self.store.append(self.store.log.name, found["log"])
        row: Row = found["row"]
        return row


class Stopped(Exception):
    """A tool met a person's interrupt: the whole batch is meant."""


async def _unless_interrupted(work: Coroutine[Any, Any, Row | None]) -> Row | None:
    try:
        return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Stopped from error  # a task group takes a CancelledError of a member for nothing


async def _scored(work: Work, transcript: Path) -> Row | None:
    """The row of a run that was kept; None when it did not come to an end."""
    from agentnb.records.run_file import load

    run = load(transcript)
    return await score_unit(work, run) if run.finished else None


def retried_outcomes(retry: Any) -> frozenset[Outcome]:
    """The outcomes that are run once more.

    Raises:
        UsageError: `retry` is not None, "failed" or outcomes.
    """
    if retry is None:
        return frozenset()
    if retry == "failed":
        return FAILED
    try:
        return frozenset(map(Outcome, [retry] if isinstance(retry, str) else retry))
    except (ValueError, TypeError):
        known = ", ".join(map(repr, sorted(FAILED)))
        raise UsageError(
            f"retry={retry!r} is not known", layer="comparison", remedy=f'Use "failed", or some of {known}.'
        ) from None


def checked_first(first: int | None) -> int | None:
    """How many tasks are samples.

    Raises:
        UsageError: It is no whole number from 1.
    """
    if first is not None and (not isinstance(first, int) or isinstance(first, bool) or first < 1):
        raise UsageError(f"first={first!r}, expected a whole number from 1", layer="comparison", remedy="Or None.")
    return first


def checked_lanes(concurrency: int | Mapping[str, int]) -> dict[str, int]:
    """Provider to workers; "" is every other provider.

    Raises:
        SettingsError: A number is no whole one from 1.
    """
    lanes = {"": CONCURRENCY, **concurrency} if isinstance(concurrency, Mapping) else {"": concurrency}
    for name, number in lanes.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            where = f" of {name}" if name else ""
            raise SettingsError(f"concurrency{where} is {number!r}, expected a whole number from 1", layer="comparison")
    return lanes


class _Lanes:
    """Hands the units of one iterator out to lanes, in order; holds back only what another lane is to take."""

    def __init__(self, units: Iterable[Unit], lanes: Mapping[str, int]) -> None:
        self._units = iter(units)
        self._waiting: dict[str, deque[Unit]] = {lane: deque() for lane in lanes}

    def of(self, lane: str) -> Iterator[Unit]:
        """The units of a lane; several workers may share it."""
        mine = self._waiting[lane]
        while True:
            while not mine:
                unit = next(self._units, None)
                if unit is None:
                    return
                provider = unit.variant.provider
                self._waiting[provider if provider in self._waiting else ""].append(unit)
            yield mine.popleft()


def _samples(units: Iterator[Unit], first: int) -> tuple[list[Unit], Iterator[Unit]]:
    """The units of the first so many tasks, and the others."""
    tasks: set[str] = set()
    found: list[Unit] = []
    for unit in units:
        if unit.task.id not in tasks and len(tasks) == first:
            return found, chain([unit], units)
        tasks.add(unit.task.id)
        found.append(unit)
    return found, iter(())


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
