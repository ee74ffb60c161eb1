"""`%agent fork`: a variable that holds an earlier State of a run, to go on from there another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.notebook.names import check_replaceable, run_named
from agentnb.notebook.options import check_variable, sort_words
from agentnb.text import counted

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics

USAGE = "%agent fork NAME [--at STEP | --state NUMBER] [-o NEW]"


def fork(magics: AgentMagics, words: list[str]) -> None:
    """NAME [--at STEP | --state NUMBER] [-o NEW]: keep an earlier State of a run in a variable of its own."""
    alone, options = sort_words(words, ("--at", "--state", "-o", "--out"), USAGE)
    if len(alone) != 1 or {"--at", "--state"} <= set(options):
        raise UsageError("%agent fork takes one run and one place in it", remedy=USAGE)
    space = magics.shell.user_ns
    run = run_named(alone[0], space)
    out = check_variable(options.get("-o") or options.get("--out") or f"{alone[0]}_fork")
    check_replaceable(out, space)
    space[out] = earlier(run, options.get("--at"), options.get("--state"))
    magics.agents[out] = magics.agents.get(alone[0], magics.last_agent)  # type: ignore[assignment]
    print(f"{out}: {alone[0]} after {counted(space[out].counters.steps, 'step')}; %agent resume {out} goes on")


def earlier(run: State, step: str | None = None, number: str | None = None) -> State:
    """The State before a step, or the one with this number on the way (from 1); the run itself when neither is given.

    Raises:
        UsageError: The run has no such step or State.
    """
    if step is not None:
        return run.at(_whole(step, "--at"))
    if number is None:
        return run
    path, place = run.path(), _whole(number, "--state")
    if not 1 <= place <= len(path):
        raise UsageError(f"--state {place}: this run has {counted(len(path), 'State')}", remedy=USAGE)
    return path[place - 1]


def _whole(word: str, option: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise UsageError(f"{option} {word!r} is not a number", remedy=f"Write {option} 2.") from None
