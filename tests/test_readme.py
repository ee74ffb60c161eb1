"""The README: its Python runs, its commands and files exist, its pieces of advice are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentnb import ScriptedModel, StopReason, __version__, calls
from agentnb.__main__ import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
MODEL = 'model="openai:gpt-5-mini"'
BOTH = [
    calls("get_weather", city="Beijing"),
    calls("get_weather", city="Shanghai"),
    calls("calculator", expression="31.0 + 27.5"),
    "They add up to 58.5 degrees.",
]
WARMER = [
    calls("get_weather", city="Shanghai"),
    calls("calculator", expression="33.0 + 27.5"),
    "They add up to 60.5 degrees.",
]
SCRIPT = [*BOTH, *WARMER, "331.65 K", "58.5", calls("get_weather", city="Beijing"), "31.0 degrees."]


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict:
    """Every Python block, run in order in one namespace; a script stands in for the model with a key."""
    code = "\n".join(blocks("python"))
    assert code.count(MODEL) == 1
    space: dict = {"model": ScriptedModel(SCRIPT)}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("readme"))
        exec(compile(code.replace(MODEL, "model=model"), "README.md", "exec", dont_inherit=True), space)
    return space


def test_the_tour_runs(told):
    """The run of the tour has four steps, with what the comments promise."""
    run = told["run"]

    assert (run.answer, run.stop, len(run.steps)) == ("They add up to 58.5 degrees.", StopReason.ANSWER, 4)
    assert run.steps[0].request["messages"][-1]["content"] == run.goal
    assert run.steps[0].results[0].content == "31.0 degrees"
    assert [row["step"] for row in run.table()] == [1, 2, 3, 4]


def test_the_forks_share_their_past(told):
    """Each fork goes another way from the place that the README names."""
    assert told["warmer"].tool_results[0].content == "33.0 degrees"
    assert told["warmer"].answer == "They add up to 60.5 degrees."
    assert told["kelvin"].answer == "331.65 K"
    assert told["kelvin"].steps[2].request == told["run"].steps[2].request
    assert told["brief"].answer == "58.5"


def test_the_middleware_works(told):
    """What the README's middleware removes reaches neither the model nor the record."""
    script = [calls("echo", text="sunny in Beijing"), "done"]
    run = told["careful"].replace(model=ScriptedModel(script), tools=[echo]).run("Ask.")

    assert run.tool_results[0].content == "sunny in [a city]"
    assert "Beijing" not in run.steps[1].request["messages"][-1]["content"]


def echo(text: str) -> str:
    """Give the text back."""
    return text


def test_your_own_pieces_take_under_ten_lines():
    """A tool, a model, a planner and a middleware are each added in under ten lines."""
    part = README[README.index("## Add your own") : README.index("## Where things are")]
    pieces = re.findall(r"^```python\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)

    assert len(pieces) == 4
    assert all(len(piece.strip().splitlines()) < 10 for piece in pieces)


def test_commands_are_one_line_and_known():
    """Each command is one line, and what it calls exists."""
    commands = blocks("bash")

    assert len(commands) == 3
    assert all(len(command.splitlines()) == 1 for command in commands)
    used = {word for command in commands for word in re.findall(r"-m agentnb (\S+)", command)}
    assert used == {"fetch-model", "lab", "run"}
    assert used <= set(COMMANDS)


def test_ci_finds_its_commands():
    """Below each mark for CI stands a command."""
    for mark, end in (("run", "agentnb run"), ("test", "pytest tests")):
        found = re.search(rf"<!-- ci: {mark} -->\n```bash\n(.+)\n```", README)
        assert found, mark
        assert found.group(1).endswith(end)


def test_extras_exist():
    """Every extra that the README installs is one of the project."""
    extras = re.search(r"\[project\.optional-dependencies\](.*?)\n\[", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    named = {name for names in re.findall(r"'\.\[([\w,]+)\]'", README) for name in names.split(",")}

    assert extras
    assert named <= set(re.findall(r"^(\w+) = \[", extras.group(1), re.MULTILINE))


def test_places_and_pictures_exist():
    """The files and folders that the README names are there."""
    table = README[README.index("## Where things are") : README.index("## Who answers")]
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    for name in [*links, *re.findall(r"`([\w/]+(?:/|\.(?:py|ipynb)))`", table)]:
        places = (ROOT / name, ROOT / "agentnb" / name, ROOT / "agentnb" / "core" / name, ROOT / "notebooks" / name)
        assert any(place.exists() for place in places), name


def test_the_version_is_the_same_everywhere():
    """A release has one number."""
    [version] = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert version == __version__
