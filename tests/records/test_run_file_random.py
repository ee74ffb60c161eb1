"""Run files of random runs: what was saved is what is loaded, and a file that was cut anywhere still holds a run."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from random_runs import Grown, check_same

from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.records.run_file import load, save


class Saved(Grown):
    """Grows runs, saves any of them into one file, and loads them again."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(), "run.jsonl")
        self.saved: list[State] = []

    def teardown(self) -> None:
        """Take the file away."""
        try:
            if self.saved:
                check_cuts(self.path, [each for state in self.saved for each in state.path()])
        finally:
            shutil.rmtree(self.path.parent)

    @rule(data=st.data(), many=st.booleans())
    def save(self, data: Any, many: bool) -> None:
        """Save one or several States; the last is what is loaded, and going on from it is going on."""
        chosen = [data.draw(st.sampled_from(self.met)), self.state] if many else [self.state]
        before = self.path.read_bytes() if self.path.exists() else b""
        save(chosen, self.path)
        self.saved += chosen
        assert self.path.read_bytes().startswith(before)
        check_same(self.state, load(self.path))

    @rule()
    def save_again(self) -> None:
        """What the file holds already costs no more than a word that it was saved last."""
        save(self.state, self.path)
        self.saved.append(self.state)
        size = self.path.stat().st_size
        save(self.state, self.path)
        assert self.path.stat().st_size == size

    @rule()
    def travel(self) -> None:
        """Through the file into another process and on; saved there, it adds nothing."""
        save(self.state, self.path)
        self.saved.append(self.state)
        size = self.path.stat().st_size
        again = load(self.path)
        save(again, self.path)
        assert self.path.stat().st_size == size
        self.take(again)


def check_cuts(path: Path, saved: list[State]) -> None:
    """The file cut after each line and within lines loads to a State of the run, and can be gone on with."""
    whole = path.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == 10]
    places = [*ends, *(end - 1 for end in ends[-6:]), *(end // 2 for end in ends[-3:]), *(end - 7 for end in ends[-6:])]
    cut = path.with_name("cut.jsonl")
    for place in places:
        cut.write_bytes(whole[:place])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = loaded(cut)
            assert state is not None or place < ends[1] - 1
            state = state or saved[0]
            assert any(state == each for each in saved)
            save(state.say("on"), cut)
        assert load(cut) == state.say("on")


def loaded(path: Path) -> State | None:
    """The State saved last; None when the file was cut before the first one."""
    try:
        return load(path)
    except UsageError as error:
        if "holds no run yet" not in str(error):
            raise
        return None


Saved.TestCase.settings = settings(
    max_examples=60, stateful_step_count=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
TestSaved = pytest.mark.slow(Saved.TestCase)
