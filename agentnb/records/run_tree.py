"""A run file read back: every State in it by its digest, the one that was saved last, and where each run ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agentnb.core.messages import ToolResult
from agentnb.core.state import State
from agentnb.errors import RecordingError, UsageError
from agentnb.records.file_lock import lock
from agentnb.records.request_json import frame_from_json, request_from_json
from agentnb.records.run_lines import Lines, check_refers
from agentnb.records.runnable import came_from_file
from agentnb.records.state_back import state_from_json


def load_all(path: str | os.PathLike[str]) -> tuple[State, ...]:
    """Every run and fork of a run file where it ended, in the order in which they were written; `load` gives one.

    Of a notebook the runs in its cells. Errors are those of `load`.
    """
    from agentnb.records.run_file import load

    if Path(path).suffix == ".ipynb":
        return tuple(load(path))
    return tuple(map(came_from_file, RunTree(Path(path)).ends()))


MAY_HAVE_RUN = "The process ended while this call was running. It may have taken effect."


class RunTree:
    """Every State of a file, by its digest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.states: dict[str, State] = {}
        self._frames: dict[str, Any] = {}
        self._ids: set[str] = set()
        self._rounds: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._begun: set[tuple[str, str]] = set()
        self._inner: set[str] = set()
        self._last = ""
        lines = Lines(path)
        try:
            with open(path, "rb") as content:
                lock(content.fileno(), shared=True)
                for told in lines.read(content):
                    lines.understand(self._take, told)
        except FileNotFoundError as error:
            raise UsageError(f"there is no file {str(path)!r}", layer="records", remedy="Look at the path.") from error
        except OSError as error:
            raise RecordingError(f"{path} can't be read: {error.strerror}") from error

    def newest(self) -> State:
        """The State saved last; calls of it that were running are answered."""
        if not self._last:
            raise UsageError(f"{self.path} holds no run yet", layer="records", remedy="save(run, path) writes one.")
        return self._settled(self._last)

    def ends(self) -> tuple[State, ...]:
        """The States from which no other one grew, in the order in which they were written; no nested runs."""
        return tuple(self._settled(name) for name in self.states if name not in self._inner)

    def _settled(self, name: str) -> State:
        """The State; calls that were running when the process died are answered."""
        state = self.states[name]
        for call in state.open_calls:
            if (self._rounds[name], call.id) in self._begun:
                state = state.answered(ToolResult(call.id, call.name, MAY_HAVE_RUN, "cancelled"))
        return state

    def _take(self, told: dict[str, Any]) -> None:
        check_refers(told, self._ids)
        if "id" in told:
            self._ids.add(told["id"])
        if "state" in told:
            self._take_state(told["id"], told.get("after", ""), told["state"], told.get("aside", {}))
        elif "frame" in told:
            self._frames[told["id"]] = frame_from_json(told["frame"])
        elif "begun" in told:
            after = told.get("after", "")
            self._begun.add((self._rounds[after] if after else self._asked.get(told["begun"], ""), told["begun"]))
        elif "last" in told:
            self._last = told["last"] if self.states[told["last"]] else ""

    def _take_state(self, name: str, after: str, told: dict[str, Any], aside: dict[str, Any]) -> None:
        parent = self.states[after] if after else None
        request = None
        if "request" in aside and parent is not None:
            request = request_from_json(self._frames[aside["request"]], parent, aside)
        nested = aside.get("run", "")
        if "run" in aside:
            aside = {**aside, "value": self.states[aside["run"]]}
        state = state_from_json(parent, told, aside, request)
        self.states[name], self._last = state, name
        self._inner |= {each for each in (after, nested) if each}
        self._rounds[name] = self._rounds[after] if after and state.kind == "act" else name
        for call in state.calls if state.kind == "plan" else ():
            self._asked[call.id] = name
        if state.kind == "act" and state.results:
            self._begun.discard((self._rounds[name], state.results[-1].call_id))
