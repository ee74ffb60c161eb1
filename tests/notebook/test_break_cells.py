"""`%%agent --break`: faults from a magic line, in the outputs of the cell and on the run that goes on."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from agentnb import Agent, Approval, ScriptedModel
from agentnb.errors import SettingsError
from agentnb.middleware.breaking import Breaking
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.options import assemble, parse

SET_UP = """
%load_ext agentnb
from agentnb import Agent, ScriptedModel, calls, tool
@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
def asks(request):
    last = request.messages[-1]
    done = last["role"] == "tool" and last["content"] == "5"
    return f"It is {last['content']}." if done else calls("add", a=2, b=3)
"""


def options(line: str) -> argparse.Namespace:
    """The options of a line."""
    made: argparse.Namespace = parse(AgentMagics.agent, line)
    return made


def made(line: str, **space: Any) -> Agent:
    """The agent of a line."""
    return assemble(options(line), ScriptedModel([]), space)


def test_the_faults_of_a_line_stand_innermost():
    """They come after the agent's own middleware, which they are to be caught by."""
    agent = made("--agent mine --break drop_result,inject_text", mine=Agent(ScriptedModel([]), middleware=[Approval()]))

    assert [type(each) for each in agent.middleware] == [Approval, Breaking]
    assert agent.middleware[-1].names == ("drop_result", "inject_text")
    assert made("").middleware == ()


def test_an_unknown_fault_starts_nothing():
    """The error names those there are."""
    with pytest.raises(SettingsError, match=r"no fault named 'drop'.* drop_result, mangle_json"):
        made("--break drop")


@pytest.mark.slow
def test_a_broken_cell_shows_what_struck():
    """The note stands in the step; the run goes on and ends well."""
    from kernel import Kernel

    kernel = Kernel()
    try:
        assert "Error" not in kernel.run(SET_UP).text
        cell = kernel.run("%%agent -m asks --break mangle_json,drop_result -o run\nadd 2 and 3")
        assert kernel.value("[r.status for r in run.tool_results]") == "['error', 'cancelled', 'ok']"
        assert cell.text.count("broken on purpose: ") == 2
        assert "It is 5." in cell.text
        assert "no fault named" in kernel.run("%%agent -m asks --break nothing\nadd 2 and 3").text
    finally:
        kernel.stop()
