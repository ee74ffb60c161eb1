"""What a replay says when it has no answer: the nearest entry, the first difference, and the tools that changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentnb.agent import Agent
from agentnb.core.limits import Limits
from agentnb.core.state import State
from agentnb.errors import RecordingError
from agentnb.models.scripted import ScriptedModel, calls
from agentnb.records.recording import recording
from agentnb.tools.tool import tool

WEATHER = [calls("get_weather", city="Beijing"), "It is 31 degrees."]


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_RECORDING", "")


def get_weather(city: str) -> str:
    """Temperature of a city."""
    return "31.0"


def colder() -> Callable[..., Any]:
    """The same tool with another body."""

    def get_weather(city: str) -> str:
        """Temperature of a city."""
        return "30.0"

    return get_weather


def ran(function: Callable[..., Any], planner: str = "tools", script: Any = WEATHER, **options: Any) -> State:
    """A run with this function as its tool."""
    agent = Agent(model=ScriptedModel(script), tools=[tool(function)], planner=planner, **options)
    return agent.run("How warm is it in Beijing?")


def miss(path: Path, function: Callable[..., Any], **options: Any) -> str:
    """What a replay with this tool says."""
    with recording(path, mode="replay"), pytest.raises(RecordingError) as caught:
        ran(function, script=[], **options)
    return str(caught.value)


def test_a_changed_result_is_told_with_the_tool_that_changed(tmp_path):
    """The first difference in words, then which source stood behind the tool and which does now."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        ran(get_weather)

    said = miss(path, colder())
    assert re.search(
        r"message 4: tool result was '31\.0', is '30\.0'; "
        r"tool get_weather changed from \d+·[0-9a-f]{8} to \d+·[0-9a-f]{8}\.",
        said,
    )


def test_a_changed_result_in_a_plan_written_as_text_is_told(tmp_path):
    """In a JSON plan the result is a user's text; the place where it differs is shown."""
    path = tmp_path / "r.jsonl"
    plan = ['{"tool": "get_weather", "args": {"city": "Beijing"}}', '{"answer": "31"}']
    with recording(path):
        ran(get_weather, "json", plan)

    said = miss(path, colder(), planner="json")
    assert re.search(r"message 4: user text was '….*31\.0', is '….*30\.0'", said)


def test_a_tool_that_changed_but_says_the_same_is_no_miss(tmp_path):
    """What the model reads decides; a new source with an equal result replays."""

    def quicker() -> Callable[..., Any]:
        def get_weather(city: str) -> str:
            """Temperature of a city."""
            return f"{30 + 1}.0"

        return get_weather

    path = tmp_path / "r.jsonl"
    with recording(path):
        recorded = ran(get_weather)
    with recording(path, mode="replay"):
        replayed = ran(quicker(), script=[])

    assert replayed.answer == recorded.answer
    assert replayed.tool_results[0].version != recorded.tool_results[0].version


def test_an_unchanged_tool_is_not_named(tmp_path):
    """Another prompt with the same tool: the prompt alone is told, however often the tool was defined meanwhile."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        ran(get_weather)
    tool(colder())
    text = path.read_text()
    path.write_text(re.sub(r'"get_weather": "\d+·', '"get_weather": "77·', text))

    said = miss(path, get_weather, system_prompt="Be brief.")
    assert "message 1: system prompt was" in said
    assert "get_weather" not in said


def test_versions_are_recorded_and_new_ones_replace_them(tmp_path):
    """The file tells which source stood behind each tool; to record again renews that, and leaves what is not asked."""
    path = tmp_path / "r.jsonl"

    def versions() -> list[str]:
        lines = map(json.loads, path.read_text().splitlines())
        return [line["tool_versions"]["get_weather"].partition("·")[2] for line in lines if "reply" in line]

    with recording(path):
        ran(get_weather)
    before = versions()
    with recording(path, mode="record"):
        ran(get_weather)
    assert versions() == before
    with recording(path, mode="record"):
        ran(colder())
    assert len(versions()) == 3
    assert versions().count(before[0]) == 1  # the answer to the former result, which another cell may have given itself


def test_a_recording_without_versions_is_read(tmp_path):
    """Files of before say nothing of versions, and so does the miss."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        ran(get_weather)
    path.write_text(re.sub(r', "tool_versions": \{[^}]*\}', "", path.read_text()))

    with recording(path, mode="replay"):
        assert ran(get_weather, script=[]).answer == "It is 31 degrees."
    assert miss(path, colder()).count("tool ") == 1


def test_the_nearest_entry_of_a_long_run_is_the_one_that_went_as_far(tmp_path):
    """Of fifty requests that grow from each other, the one with the same number of messages is named."""
    path = tmp_path / "r.jsonl"
    script = [*(calls("get_weather", city=f"{number}") for number in range(50)), "done"]
    with recording(path):
        ran(get_weather, script=script, limits=Limits(steps=60))
    served = iter(["31.0"] * 30 + ["cold"])

    def get_weather_again(city: str) -> str:
        """Temperature of a city."""
        return next(served)

    get_weather_again.__name__ = "get_weather"
    said = miss(path, get_weather_again, limits=Limits(steps=60))
    assert "message 64: tool result was '31.0', is 'cold'" in said
