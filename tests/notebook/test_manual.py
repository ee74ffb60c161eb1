"""Help and hints: what `--help` prints, and what a mistyped word may have meant."""

from __future__ import annotations

import pytest

from agentnb import Agent, ScriptedModel, State, settings, tool
from agentnb.errors import AgentnbError, UsageError
from agentnb.notebook.commands import COMMANDS, run
from agentnb.notebook.forks import USAGE
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.manual import EXAMPLES, asks_for_help, manual
from agentnb.notebook.names import check_replaceable, chosen_tools, model_named, run_named, tool_named
from agentnb.notebook.options import assemble, parse, parsed, sort_words, split
from agentnb.notebook.prompt_cells import Prompt, prompt_named


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command):
    """A few lines; those of `resume` say where the options are."""
    told = manual(AgentMagics.agent, f"{command} --help")

    assert told.startswith(f"%agent {command}")
    assert f"Example: {EXAMPLES[command]}" in told
    assert EXAMPLES[command].startswith(f"%agent {command}")
    assert len(told.splitlines()) <= 3
    assert ("%%agent --help" in told) == (command in ("resume", "rerun", "panel"))


@pytest.mark.parametrize("name", ["agent", "compare", "prompt", "tool"])
def test_each_magic_has_help_with_an_example(name):
    """What it does, an example, a line for each option."""
    told = manual(getattr(AgentMagics, name))

    assert f"\n  %%{name}" in told
    assert len(told.splitlines()) < 40
    assert ("  -m, --model" in told) == (name in ("agent", "compare"))
    assert "%%%%" not in told
    assert max(map(len, told.splitlines())) <= 130


def test_help_on_a_command_by_its_name(capsys):
    """`%agent help fork` says what `%agent fork --help` says; a word that is no command is refused."""
    run(None, "help fork")

    assert capsys.readouterr().out.strip() == manual(AgentMagics.agent, "fork --help")
    wrong = [("help frok", "Did you mean 'fork'"), ("run", "%%agent with the goal below it")]
    wrong += [
        ("help fork more", "takes no 'more'"),
        ("model a b", "takes no 'b'"),
        ("recording x off more", "takes no 'more'"),
    ]
    for line, told in wrong:
        with pytest.raises(UsageError, match=told):
            run(None, line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('try f x={"a": [1, "b c"]} y=2', ["try", "f", 'x={"a": [1, "b c"]}', "y=2"]),
        ("""x=["it's"]""", ["""x=["it's"]"""]),
        ("x={not json} y=[1", ["x={not", "json}", "y=[1"]),
        ("""--system-prompt 'say x={"a": 1}' z""", ["--system-prompt", 'say x={"a": 1}', "z"]),
        ('x="{1: 2}"', ["x={1: 2}"]),
    ],
)
def test_a_json_value_is_one_word(line, words):
    """As it stands, without quotes around it; what is no JSON, or stands in quotes, is read as ever."""
    assert split(line) == words


def test_help_is_asked_for_by_a_word_of_its_own():
    """Not by a word inside quotes."""
    assert asks_for_help("fork --help")
    assert asks_for_help("-h")
    assert not asks_for_help("--system-prompt 'say --help now' -o half-hour")


def test_what_stands_behind_two_dashes_asks_for_nothing():
    """Those words are another program's."""
    assert not asks_for_help("mcp gh -- docker run -h host image")
    assert asks_for_help("mcp --help -- docker")


def test_help_on_fork_names_all_its_options():
    """The same as its error."""
    assert USAGE in manual(AgentMagics.agent, "fork --help")


SPACE = {
    "scripted": ScriptedModel(["hi"]),
    "first_run": State.start("hello"),
    "ask": Prompt("ask", "text"),
    "helper": Agent(model=ScriptedModel([])),
}


@tool
def get_weather(city: str) -> str:
    """Current temperature of a city."""
    return city


@pytest.mark.parametrize(
    ("work", "meant"),
    [
        (lambda: parse(AgentMagics.agent, "--modle local"), "--model"),
        (lambda: parse(AgentMagics.agent, "-o run --stpes=3"), "--steps"),
        (lambda: parse(AgentMagics.agent, "--show stpes"), "steps"),
        (lambda: parsed(AgentMagics.compare, "--scoerr number", "%%compare"), "--scorer"),
        (lambda: sort_words(["run", "--att", "2"], ("--at", "--out"), "usage"), "--at"),
        (lambda: model_named("scrited", SPACE), "scripted"),
        (lambda: model_named("Local", SPACE), "local"),
        (lambda: run_named("first_rnu", SPACE), "first_run"),
        (lambda: prompt_named("aks", SPACE), "ask"),
        (lambda: chosen_tools("get_wether", {"get_weather": get_weather}), "get_weather"),
        (lambda: tool_named(["getweather"], {"get_weather": get_weather}, "%agent tool NAME"), "get_weather"),
        (lambda: assemble(parse(AgentMagics.agent, "--agent helpr"), None, SPACE), "helper"),
        (lambda: assemble(parse(AgentMagics.agent, "--planner jsno"), None, SPACE), "json"),
        (lambda: assemble(parse(AgentMagics.agent, "--examples hleper"), None, SPACE), "helper"),
        (lambda: assemble(parse(AgentMagics.agent, "-m opnai:gpt-5"), None, SPACE), "openai"),
    ],
)
def test_a_mistyped_word_is_told_what_it_may_have_meant(work, meant, monkeypatch):
    """Options, values, models, runs, prompts, tools, agents, planners, variables."""
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(AgentnbError, match=f"Did you mean '{meant}'"):
        work()


def test_a_name_that_is_like_nothing_is_a_model_of_the_server(monkeypatch):
    """And where a key is set, any name is: the server knows its models."""
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert model_named("gpt-5-mini", SPACE) == "gpt-5-mini"
    assert model_named("o3", SPACE) == "o3"
    assert model_named("local", {"local": 1}) == "local"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    assert settings.get("OPENAI_API_KEY")
    assert model_named("scrited", SPACE) == "scrited"


def test_a_run_takes_the_place_of_no_model_tool_or_class():
    """A name that was typed twice would else cost what it held; other runs and values may be replaced."""
    space = {**SPACE, "get_weather": get_weather, "Agent": Agent, "pytest": pytest, "text": "openai:gpt-5", "n": 5}
    for name in ("scripted", "helper", "get_weather", "Agent", "pytest"):
        with pytest.raises(UsageError, match=f"-o {name} would take the place"):
            check_replaceable(name, space)
    for name in ("first_run", "text", "n", "new"):
        check_replaceable(name, space)


def test_nothing_is_guessed_where_nothing_is_near():
    """No hint is better than a wrong one."""
    with pytest.raises(UsageError) as told:
        parse(AgentMagics.agent, "--xyzzy 1")

    assert "Did you mean" not in str(told.value)
