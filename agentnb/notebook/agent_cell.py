"""From a `%%agent` cell, `%agent resume NAME` or `%agent rerun NAME` to the work that it asks for.

One model, prompt and planner make one run (`follow.py`); several of them, with commas between, make one run for every
combination, side by side (`side_by_side.py`).
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import TYPE_CHECKING, Any

from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.notebook.follow import CellRun, CellWork
from agentnb.notebook.names import check_replaceable, run_named
from agentnb.notebook.options import assemble, parse, without_markers
from agentnb.notebook.prompt_cells import check_used, filled, prompt_named, set_values
from agentnb.notebook.side_by_side import SideBySide, Variant
from agentnb.notebook.tool_history import older, with_tools_of

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics

AXES = {"model": "-m", "prompt": "--prompt", "planner": "--planner"}
"""The options that may hold several words."""


def work_of(magics: AgentMagics, magic: Any, line: str, cell: str) -> CellWork:
    """What a `%%agent` cell does.

    Raises:
        AgentnbError: An option makes no sense, or there is no goal; nothing was started.
    """
    options = parse(magic, line)
    body = without_markers(cell)
    if options.out:
        check_replaceable(options.out, magics.shell.user_ns)
    if options.old_tools:
        raise UsageError("--old-tools needs a run", remedy="%agent resume NAME --old-tools, or %agent rerun NAME ...")
    if options.set and not options.prompt:
        raise UsageError("--set needs a prompt", remedy="Write --prompt NAME; a cell's own text is sent as it is.")
    chosen = spread(options)
    check_used(
        set_values(options.set), [prompt_named(each.prompt, magics.shell.user_ns) for _, each in chosen if each.prompt]
    )
    made = [Variant(label, *_run_of(magics, each, body), each.model or "") for label, each in chosen]
    if len(made) == 1:
        return _cell_run(magics, made[0].agent, made[0].state, options.out, options)
    if options.predict or options.predictions is not None:
        raise UsageError("--predict takes one model, prompt and planner", remedy="Predict one run at a time.")
    return SideBySide(magics, made, options.out, _shown(magics, options))


def spread(options: argparse.Namespace) -> list[tuple[str, argparse.Namespace]]:
    """One set of options for every combination of models, prompts and planners, with the words that tell it apart.

    Raises:
        UsageError: A word stands there twice.
    """
    words = {axis: _words(getattr(options, axis), flag) for axis, flag in AXES.items()}
    several = [axis for axis, its in words.items() if len(its) > 1]
    found = []
    for combination in product(*words.values()):
        chosen = dict(zip(words, combination, strict=True))
        label = " · ".join(str(chosen[axis]) for axis in several)
        found.append((label, argparse.Namespace(**{**vars(options), **chosen})))
    return found


def _words(text: str | None, flag: str) -> list[str | None]:
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if len(set(words)) < len(words):
        raise UsageError(f"{flag} {text!r} names one of them twice", remedy="Name each once.")
    return [*words] or [None]


def _run_of(magics: AgentMagics, options: argparse.Namespace, body: str) -> tuple[Agent, State]:
    """The agent of one set of options, and where it starts."""
    space = magics.shell.user_ns
    agent, goal = assemble(options, magics.model, space), body
    if options.prompt:
        prompt = prompt_named(options.prompt, space)
        system, goal = filled(prompt, body, set_values(options.set), space)
        if system is not None and options.system_prompt:
            what = f"prompt {prompt.name!r} would be a second system prompt"
            raise UsageError(what, remedy="Leave --system-prompt out, or write {{goal}} into the prompt.")
        agent = agent if system is None else agent.replace(system_prompt=system)
    if not goal.strip():
        raise UsageError("the cell holds no goal", remedy="Write it below the line; %agent resume NAME goes on.")
    return agent, run_named(options.start, space).say(goal) if options.start else State.start(goal)


def resumed(magics: AgentMagics, magic: Any, line: str) -> CellWork:
    """`resume NAME [options]` goes on with a run, `rerun NAME [options]` starts it again from its goal.

    The agent is the one that made the run, changed by the options, with the newest definitions of its tools or, with
    `--old-tools`, those that ran.

    Raises:
        AgentnbError: There is no such run, an option makes no sense, or an old definition is gone.
    """
    command, _, rest = line.strip().partition(" ")
    name, _, words = rest.strip().partition(" ")
    if not name or name.startswith("-"):
        remedy = f"%agent {command} run, with the variable that holds it; %%agent -o run gives one a name."
        raise UsageError(f"%agent {command} takes the name of a run", remedy=remedy)
    options = parse(magic, words)
    if options.prompt or options.set:
        raise UsageError(f"%agent {command} takes no prompt", remedy="Write a %%agent cell: --from NAME --prompt ...")
    space = magics.shell.user_ns
    run = run_named(name, space)
    if options.out:
        check_replaceable(options.out, space)
    maker = magics.maker(name, run)
    if maker is None and not (options.agent or options.model):
        raise UsageError(
            f"this notebook did not see which agent made {name!r}",
            remedy=f"%agent {command} {name} --agent NAME, with a variable that holds it; or -m MODEL -t TOOLS.",
        )
    agent = assemble(options, magics.model, space, maker)
    if options.old_tools:
        agent = with_tools_of(agent, run)
    elif changed := older(run, agent.tools):
        print(f"{name}: {changed}; --old-tools takes the old ones")
    start = run.path()[0] if command == "rerun" else run
    return _cell_run(magics, agent, start, options.out or name, options)


def _cell_run(magics: AgentMagics, agent: Agent, start: State, out: str | None, options: argparse.Namespace) -> CellRun:
    """One run, predicted or not."""
    if not options.predict and options.predictions is None:
        return CellRun(magics, agent, start, out, _shown(magics, options))
    from agentnb.notebook.predict import PredictRun

    return PredictRun(magics, agent, start, out, _shown(magics, options), options.predictions)


def _shown(magics: AgentMagics, options: argparse.Namespace) -> str:
    """What appears below the cell: what its line says, else what the notebook prefers."""
    return str(options.show or magics.preferences.show)
