"""Fixtures for every test; the fakes themselves are in `fakes.py`, which any test module may import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fakes import GOAL, HandClock, runtime_for, states_of

from agentnb.core.state import State


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
