"""Equal requests of different units never share a recorded reply: each unit asks under a name of its own.

    "local · plain · t7 · 2"        the model, the variant, the task, the repeat

A recording knows a request by its content, the model's name and how often it was asked. Repeats ask the same, in any
order, and a later call of `compare` counts anew. So, while units run, a door before the recording tells it a name that
is the unit's alone: an answer stays with its repeat at any concurrency, and when variants, tasks or repeats are added.
A unit that is run anew counts anew: it gets the replies that were recorded for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.model import Model, ModelReply, ModelRequest, Next, OnDelta, ask, doors
from agentnb.records.recording import Recording

_unit: ContextVar[_Asking | None] = ContextVar("agentnb_unit", default=None)


@dataclass(frozen=True, slots=True)
class _Asking:
    """A unit that runs."""

    name: str
    counted: set[tuple[int, str]] = field(default_factory=set)
    """Recordings and names that count for it."""


@contextmanager
def asking_as(variant: str, task: str, repeat: int, attempt: int) -> Iterator[None]:
    """What is asked in this block, is asked by this unit."""
    again = f" · attempt {attempt}" if attempt > 1 else ""
    token = _unit.set(_Asking(f"{variant} · {task} · {repeat}{again}"))
    try:
        yield
    finally:
        _unit.reset(token)


def as_asked(model: Model, recordings: Iterable[Recording]) -> Model:
    """The model under the name of the unit that asks these recordings; itself outside of units."""
    unit = _unit.get()
    if unit is None or isinstance(model, _Called):
        return model
    called = _Called(model, f"{model.name or ''} · {unit.name}")
    for each in recordings:
        if (id(each), called.name) not in unit.counted:
            unit.counted.add((id(each), called.name))
            each.begin_again(called.name)
    return called


class _Called:
    """A model under another name."""

    def __init__(self, model: Model, name: str) -> None:
        self._model, self.name = model, name

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """The model's reply."""
        return await self._model.reply(request, on_delta)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class Apart:
    """The door; open while units run: `with Apart(): ...`."""

    async def reply(self, model: Model, request: ModelRequest, on_delta: OnDelta | None, onward: Next) -> ModelReply:
        """Let the doors behind this one hear the unit's own name."""
        standing = list(doors)
        if self not in standing:
            return await onward(request)
        behind = standing[standing.index(self) + 1 :]
        known = [each for each in behind if isinstance(each, Recording)]
        return await ask(as_asked(model, known), request, on_delta, behind)

    def __enter__(self) -> Apart:
        doors.insert(0, self)
        return self

    def __exit__(self, *error: object) -> None:
        doors.remove(self)
