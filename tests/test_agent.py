"""The assembled agent: a frozen value that says at once what can't work."""

from __future__ import annotations

import math

import pytest

from agentnb import Agent, ScriptedModel, calls, tool
from agentnb.core.limits import StopReason
from agentnb.core.middleware import Middleware
from agentnb.errors import SettingsError, UsageError
from agentnb.middleware.approval import Approval
from agentnb.notebook.names import tools_of


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


def test_a_run_whose_open_call_lost_its_tool_is_not_gone_on_with():
    """A run from a file says which tool is missing, instead of telling the model that it never was."""
    paused = Agent(model=ScriptedModel([calls("add", a=1, b=2)]), tools=[add.replace(approve=True)]).run("1 + 2?")
    other = Agent(model=ScriptedModel(["3"]))

    with pytest.raises(UsageError, match="tools that the agent does not have: add"):
        other.run(paused)
    assert other.run(paused.say("Never mind.")).answer == "3"


def test_one_object_may_wrap_and_listen():
    """What has `before` and can be called is a middleware and a listener."""
    seen = []

    class Both(Middleware):
        async def before(self, state):
            seen.append("before")
            return state

        def __call__(self, event):
            seen.append(type(event).__name__)

    Agent(model=ScriptedModel(["3"]), middleware=[Both()]).run("1 + 2?")

    assert seen[:2] == ["before", "StepStarted"]


def test_an_undecided_call_never_runs_with_another_agent():
    """A pause outlives the middleware that made it: whoever goes on, the call waits for a decision."""
    ran = []

    @tool
    def delete(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "deleted"

    two = {"tool_calls": [calls("delete", path=path)["tool_calls"][0] for path in ("a", "b")]}
    guarded = Agent(ScriptedModel([two]), [delete], middleware=[Approval(["delete"])])
    paused = guarded.run("Delete a and b.")
    first, second = paused.open_calls
    other = Agent(ScriptedModel(["done", "done"]), [delete])

    assert other.run(paused).stop is StopReason.PAUSED
    half = other.run(paused.approve(first.id))
    assert (half.stop, half.open_calls, ran) == (StopReason.PAUSED, (second,), ["a"])
    assert other.run(half.deny(second.id, "no")).answer == "done"
    assert other.replace(middleware=[Approval(["delete"], lambda call, state: True)]).run(half).answer == "done"
    assert ran == ["a", "b"]


@pytest.mark.parametrize("given", [5, {"steps": 3}])
def test_limits_are_limits(given):
    """A number or a dict is told how to write it."""
    with pytest.raises(SettingsError, match=r"Limits\(steps=5\)"):
        Agent(ScriptedModel([]), limits=given)


def test_a_listener_is_not_awaited():
    """An async listener would never hear anything."""

    async def listener(event):
        raise AssertionError

    with pytest.raises(SettingsError, match="never awaited"):
        Agent(ScriptedModel([]), middleware=[listener])


def test_a_star_import_offers_no_tool():
    """`from agentnb import *` in a notebook brings names, and nothing that a model could call without being given it."""
    space: dict[str, object] = {}
    exec("from agentnb import *", space)

    assert "Agent" in space
    assert tools_of(space) == ()
