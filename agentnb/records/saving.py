"""A listener that saves a run while it goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agentnb.core.messages import ToolCall
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
        self._asked: dict[int, State] = {}

    def __repr__(self) -> str:
        return f"<Saving {self._file.path}>"

    def __reduce__(self) -> Any:
        return Saving, (self._file.path,)

    def __call__(self, event: Event) -> None:
        """Write what the event brought."""
        if isinstance(event, ToolStarted):
            self._file.begin(event.call, self._asked.get(id(event.call)) or self._resumed(event.call))
        elif isinstance(event, StateMade) or (isinstance(event, StepStarted) and not self._file.holds(event.state)):
            self._save(event.state)

    def _save(self, state: State) -> None:
        self._file.save((state,))
        if state.calls:
            waiting = () if state.finished else state.open_calls
            for call in state.calls:
                if call in waiting:
                    self._asked[id(call)] = state
                else:
                    self._asked.pop(id(call), None)

    def _resumed(self, call: ToolCall) -> State | None:
        """Where a call stands open that is not as the model wrote it, or that was open when the run began."""
        for state in reversed(self._asked.values()):
            if any((each.id, each.name) == (call.id, call.name) for each in state.open_calls):
                return state
        around = budget()
        if around is not None:
            self._save(around.base)
        return around and around.base
