"""Help on one magic or one command, with an example: what `--help` prints, wherever on a line it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from agentnb.notebook.commands import command_named
from agentnb.notebook.options import split

EXAMPLES = {
    "help": "%agent help",
    "status": "%agent status",
    "model": "%agent model openai:gpt-5-mini",
    "tools": "%agent tools",
    "tool": "%agent tool get_weather",
    "try": "%agent try get_weather city=Oslo",
    "resume": "%agent resume run --steps 40",
    "rerun": "%agent rerun run -m local -o again",
    "fork": "%agent fork run --at 2 -o other",
    "panel": "%agent panel run",
    "stop": "%agent stop",
    "show": "%agent show run",
    "plot": "%agent plot first second",
    "diff": "%agent diff first second",
    "loop": "%agent loop run",
    "recording": "%agent recording weather.jsonl replay",
    "fetch-model": "%agent fetch-model",
    "mcp": "%agent mcp everything npx -y @modelcontextprotocol/server-everything",
    "doctor": "%agent doctor -m openai:gpt-5-mini",
}
"""One line for each command."""
_OF_CELLS = {
    "agent": "%%agent -m local -o run\nWhat is 17 times 3?",
    "compare": '%%compare -m local,openai:gpt-5-mini -r 3 -o result\n{"goal": "What is 17 times 3?", "expected": 51}',
    "prompt": "%%prompt ask\nHow warm is it in {{city}}?",
    "tool": '%%tool\ndef double(number: int) -> int:\n    """Twice a number."""\n    return 2 * number',
}


def asks_for_help(line: str) -> bool:
    """Whether one of the words is `--help` or `-h`; behind `--` stand another program's words."""
    return "-h" in line and not {"-h", "--help"}.isdisjoint(takewhile("--".__ne__, split(line)))


def manual(magic: Any, line: str = "") -> str:
    """Help on a magic, or on the command that the line of `%agent` begins with.

    >>> print(manual(AgentMagics.agent, "fork --help"))
    %agent fork NAME [--at STEP | --state NUMBER] [-o NEW]: keep an earlier State of a run in a variable of its own.
    Example: %agent fork run --at 2 -o other
    """
    command = line.split()[0] if line.split() else ""
    if command and not command.startswith("-"):
        return of_command(command)
    example = "\n".join(f"  {each}" for each in _OF_CELLS[magic.__name__].split("\n"))
    return "\n".join([_about(magic), "", example, "", *_options(magic)]).rstrip()


def _about(magic: Any) -> str:
    return str(magic.parser.description if hasattr(magic, "parser") else magic.__doc__)


def _options(magic: Any) -> Iterator[str]:
    """A line for each option; argparse has no public list of them."""
    for action in magic.parser._actions if hasattr(magic, "parser") else ():
        name = ", ".join(action.option_strings)
        yield f"  {name:<22} {(action.help or '').replace('%%', '%')}"


async def told(text: str) -> None:
    """Print it where a cell is awaited."""
    print(text)


def of_command(command: str) -> str:
    """Help on this command of `%agent`.

    Raises:
        UsageError: There is no such command.
    """
    words = (command_named(command).__doc__ or "").splitlines()[0]
    takes_words = re.match(r"\[?(?:-|[A-Z]{2})", words) is not None
    first = f"%agent {command} {words}" if takes_words else f"%agent {command}: {words}"
    more = ["The options are those of %%agent; %%agent --help lists them."] if "[options]" in words else []
    return "\n".join([first, f"Example: {EXAMPLES[command]}", *more])
