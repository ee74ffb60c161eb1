"""What there is to run: a Plan of units, one for each variant, task and repeat.

A unit's key is a digest of everything that decides its run (variant, goal, number of the repeat), so results are found
again by what they are results of. Repeats have keys of their own and never stand for each other.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any, NamedTuple

from agentnb.agent import Agent
from agentnb.comparison.scorers import Scorer, to_scorer
from agentnb.comparison.tasks import Task
from agentnb.comparison.variants import Variant, source_of
from agentnb.comparison.work import prompt_of
from agentnb.errors import UsageError

KEY = 16
"""Digits of a key."""


class Unit(NamedTuple):
    """One run of one task by one variant."""

    variant: Variant
    task: Task
    repeat: int
    """Counts from 1."""
    key: str
    """16 hex digits of what decides the run."""
    scoring: str
    """16 hex digits of what decides its score: the task as a whole, and the scorer."""

    @property
    def file_name(self) -> str:
        """What its files begin with; no two units of a comparison share one."""
        return f"{self.task.file_name}.{self.variant.file_name}.{self.repeat}"

    @property
    def transcript(self) -> str:
        """The name of its run file; another agent's run of the same task has another."""
        return f"{self.file_name}.{self.key}.run.jsonl"


class Plan:
    """Every unit of a comparison.

    Args:
        variants: Each with a name of its own.
        tasks: Each with an id of its own.
        repeats: How often each variant does each task, from 1.
        scorer: As for `score_run`.
        seed: Of the order in which they are run.

    Raises:
        UsageError: `repeats` is no whole number from 1.
        SettingsError: There is no such scorer.
    """

    def __init__(
        self, variants: Sequence[Variant], tasks: Sequence[Task], repeats: int, scorer: Any, seed: int
    ) -> None:
        if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
            raise UsageError(f"repeats={repeats!r}, expected a whole number from 1", layer="comparison")
        self.variants, self.tasks, self.repeats, self.seed = tuple(variants), tuple(tasks), repeats, seed
        self.scorer: Scorer = to_scorer(scorer)
        named = {task.scorer: scorer_id(to_scorer(task.scorer)) for task in self.tasks if task.scorer}
        own = scorer_id(self.scorer)
        self._scoring = [_digest(task.digest, named.get(task.scorer, own)) for task in self.tasks]

    def __len__(self) -> int:
        return len(self.variants) * len(self.tasks) * self.repeats

    def __iter__(self) -> Iterator[Unit]:
        """In the order in which they were given: variant by variant, task by task."""
        for variant in self.variants:
            for place in range(len(self.tasks)):
                for repeat in range(1, self.repeats + 1):
                    yield self._unit(variant, place, repeat)

    def ordered(self) -> Iterator[Unit]:
        """In the order in which they are run.

        First every task once, then every task again: so a later repeat only adds to the end. Tasks come in random
        order, and all variants do a task before the next one comes, in random order, so that a server's good and bad
        hours fall on all alike.
        """
        for repeat in range(1, self.repeats + 1):
            random = Random(f"{self.seed}:{repeat}")
            places = random.sample(range(len(self.tasks)), len(self.tasks))
            for place in places:
                for variant in random.sample(self.variants, len(self.variants)):
                    yield self._unit(variant, place, repeat)

    def _unit(self, variant: Variant, place: int, repeat: int) -> Unit:
        task = self.tasks[place]
        key = _digest(variant.key, task.id, prompt_of(task), str(repeat))
        return Unit(variant, task, repeat, key, self._scoring[place])


def scorer_id(scorer: Scorer) -> str:
    """What this scorer does, as text: its type, its settings, the source of a function; no addresses."""
    return _told(scorer)


def _told(value: Any) -> str:
    if isinstance(value, Agent):
        return f"agent {value.id}"
    if is_dataclass(value) and not isinstance(value, type):
        inside = (f"{each.name}={_told(getattr(value, each.name))}" for each in fields(value))
        return f"{type(value).__name__}({', '.join(inside)})"
    if isinstance(value, Mapping):
        return repr([(str(key), _told(each)) for key, each in value.items()])
    if inspect.isroutine(value):
        return f"{value.__name__} {source_of(value)}"
    if value is None or isinstance(value, str | int | float | tuple):
        return repr(value)
    return f"{type(value).__name__} {getattr(value, 'name', '')}"


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=KEY // 2).hexdigest()
