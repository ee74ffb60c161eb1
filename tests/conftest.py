"""Fixtures for every test; the fakes themselves are in `fakes.py`, which any test module may import."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import GOAL, HandClock, runtime_for, states_of

from agentnb.core.state import State

WHOLLY_SLOW = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m "not slow"` does not even import a module of slow tests alone: the SDKs in them take seconds."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return bool(WHOLLY_SLOW.search(collection_path.read_text("utf-8"))) or None


def pytest_collection_finish() -> None:
    """What collecting made stays: the garbage collector need not look at it again and again."""
    gc.freeze()


@pytest.fixture
def clock() -> HandClock:
    """A clock that only the test moves."""
    return HandClock()


@pytest.fixture
def scripted_run() -> Callable[..., State]:
    """`scripted_run(script, tools=[...], limits=..., ...)`: play the script and return the last State."""

    def run(script: list[Any], tools: Any = (), state: State | str = GOAL, **options: Any) -> State:
        return states_of(runtime_for(script, tools, **options), state)[-1]

    return run
