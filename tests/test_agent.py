"""The assembled agent: a frozen value that says at once what can't work."""

from __future__ import annotations

import math

import pytest

from agentnb import Agent, ScriptedModel, tool
from agentnb.errors import SettingsError


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_equal_agents_have_equal_hashes():
    """An agent can be the key of a dict or a member of a set."""
    model = ScriptedModel(["done"])
    one, same = (Agent(model=model, tools=[add], parameters={"temperature": 0}) for _ in range(2))

    assert {one: "first"}[same.replace()] == "first"
    assert len({one, same.replace(system_prompt="Be brief.")}) == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, print])
def test_a_parameter_that_json_can_t_hold_is_refused(value):
    """It would fail in the first request; the error names the parameter before anything is asked."""
    with pytest.raises(SettingsError, match="parameter temperature="):
        Agent(model=ScriptedModel([]), parameters={"temperature": value})


def test_a_temperature_of_the_environment_is_checked_too(monkeypatch):
    """TEMPERATURE goes with every request."""
    monkeypatch.setenv("TEMPERATURE", "nan")
    with pytest.raises(SettingsError):
        Agent(model=ScriptedModel([]))
