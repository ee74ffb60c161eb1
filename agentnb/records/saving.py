"""A listener that saves a run while it goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agentnb.core.middleware import Event, StateMade, StepStarted, ToolStarted, budget
from agentnb.core.state import State
from agentnb.records.run_file import RunFile


class Saving:
    """A listener that saves a run while it goes on: each State as it is made, each call before it runs.

    It may serve many runs, at once or in turn; all go into the one file.
    """

    wants_deltas = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = RunFile(Path(path))

    def __repr__(self) -> str:
        return f"<Saving {self._file.path}>"

    def __reduce__(self) -> Any:
        return Saving, (self._file.path,)

    def __call__(self, event: Event) -> None:
        """Write what the event brought."""
        if isinstance(event, StateMade):
            self._file.save((event.state,), by_loop=True)
        elif isinstance(event, ToolStarted):
            around = budget()
            self._file.begin(event.call, self._held(around.state) if around else None)
        elif isinstance(event, StepStarted):
            self._held(event.state)

    def _held(self, state: State) -> State:
        """This State, which the file holds: one that a run began with may not have been told before."""
        if not self._file.holds(state):
            self._file.save((state,))
        return state
