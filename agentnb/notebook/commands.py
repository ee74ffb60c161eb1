"""`%agent COMMAND`: everything but running a cell. Each command is one function of the table at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.errors import UsageError
from agentnb.notebook.names import (
    is_server,
    model_name,
    model_named,
    run_named,
    runs_of,
    tool_named,
    tools_of,
    variable_of,
)
from agentnb.notebook.options import sort_words, split
from agentnb.notebook.tool_history import older
from agentnb.text import did_you_mean, listed

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics


def run(magics: AgentMagics, line: str) -> None:
    """Find the command and do it.

    Raises:
        UsageError: There is no such command, or its words make no sense.
    """
    name, *words = split(line) or ["help"]
    command = command_named(name)
    if len(words) > MOST_WORDS.get(name, len(words)):
        raise UsageError(f"%agent {name} takes no {words[MOST_WORDS[name]]!r}", remedy=f"%agent {name} --help")
    command(magics, words)


def command_named(name: str) -> Callable[[Any, list[str]], None]:
    """What this command does.

    Raises:
        UsageError: There is no such command.
    """
    if name in COMMANDS:
        return COMMANDS[name]
    remedy = f"Use one of {', '.join(COMMANDS)}.{did_you_mean(name, COMMANDS)}"
    if name in ("run", "-m"):
        remedy = "%%agent with the goal below it runs one; %agent model NAME chooses who answers."
    raise UsageError(f"%agent: there is no command {name!r}", remedy=remedy)


def show_help(magics: AgentMagics, words: list[str]) -> None:
    """[COMMAND]: what there is, and how things stand; or one command with an example."""
    if words:
        from agentnb.notebook.manual import of_command

        print(of_command(words[0]))
        return
    print("%%agent [options]   run an agent on the text of the cell (%%agent? shows the options)")
    print("%%tool              define tools; run the cell again to change them")
    print("%%prompt NAME       keep a text with variables such as {{city}}; %%agent --prompt NAME uses it")
    for name, command in COMMANDS.items():
        print(f"%agent {name:<13}{(command.__doc__ or '').splitlines()[0]}")
    print()
    status(magics, [])


def status(magics: AgentMagics, words: list[str]) -> None:
    """The default model, the tools at hand, the newest run."""
    print(f"model: {model_name(magics.model)}")
    print(f"tools: {listed([tool.spec.name for tool in tools_of(magics.shell.user_ns)]) or 'none yet'}")
    changed = older(magics.last, tools_of(magics.shell.user_ns))
    print(f"newest run: {magics.last if magics.last is not None else 'none yet'}{f' ({changed})' if changed else ''}")


def set_model(magics: AgentMagics, words: list[str]) -> None:
    """NAME: the model of every cell that names none; without NAME: show it."""
    if words:
        from agentnb.models.named import to_model

        model = model_named(words[0], magics.shell.user_ns)
        to_model(model)
        magics.chosen_model = model
    print(f"model: {model_name(magics.model)}")


def list_tools(magics: AgentMagics, words: list[str]) -> None:
    """Every tool of this notebook, as the model sees it."""
    for tool in tools_of(magics.shell.user_ns):
        first = (tool.spec.description or "no description").splitlines()[0]
        print(f"{tool.version}  {first}")
    for name, value in list(magics.shell.user_ns.items()):
        if is_server(value) and not name.startswith("_"):
            print(f"-t {name}  the tools of an MCP server ({value.status})")


def open_tool(magics: AgentMagics, words: list[str]) -> None:
    """NAME: open the source of a tool as a new cell."""
    from agentnb.notebook.tool_source import source_cell

    space = magics.shell.user_ns
    cell = source_cell(tool_named(words, space, "%agent tool NAME"), space)
    magics.shell.set_next_input(cell, replace=False)


def show_run(magics: AgentMagics, words: list[str]) -> None:
    """[NAME]: show a run again with all its steps, the newest one when none is named."""
    from agentnb.notebook.live import publish
    from agentnb.notebook.render import run_blocks

    state = run_named(words[0], magics.shell.user_ns) if words else magics.last
    if state is None or len(words) > 1:
        raise UsageError("%agent show needs one run", remedy="%agent show NAME, after a %%agent cell.")
    name = words[0] if words else variable_of(state, magics.shell.user_ns)
    for block in run_blocks(state, magics.preferences.output_bytes, name):
        publish(block)


def show_plot(magics: AgentMagics, words: list[str]) -> None:
    """[NAME ...] [--kind KIND]: plot tokens and steps of these runs, or of the newest one; or their time, or cost."""
    from IPython.display import display

    from agentnb.plots.run_plots import KINDS, plot

    words, options = sort_words(words, ["--kind"], f"%agent plot [NAME ...] [--kind {'|'.join(KINDS)}]")
    runs = [run_named(word, magics.shell.user_ns) for word in words]
    if not runs and magics.last is not None:
        runs = [magics.last]
    if not runs:
        raise UsageError("there is no run to plot yet", remedy="Run a %%agent cell first.")
    display(plot(*runs, names=words or None, kind=options.get("--kind")))


def show_diff(magics: AgentMagics, words: list[str]) -> None:
    """[NAME NAME]: where these two runs part and what differs, or the last two."""
    from IPython.display import display

    from agentnb.records.diff import diff

    if len(words) == 2:
        display(diff(*(run_named(word, magics.shell.user_ns) for word in words), names=words))
    elif words:
        raise UsageError(f"%agent diff takes two runs, not {len(words)}", remedy="%agent diff NAME NAME")
    elif magics.last is None or magics.previous is None:
        runs = listed(runs_of(magics.shell.user_ns))
        remedy = f"Run %%agent cells, or name two runs{f', also of Python: {runs}' if runs else ''}."
        raise UsageError("no two cells have run an agent yet", remedy=remedy)
    else:
        display(diff(magics.previous, magics.last, names=("previous", "newest")))


def fork_run(magics: AgentMagics, words: list[str]) -> None:
    """NAME [--at STEP | --state NUMBER] [-o NEW]: keep an earlier State of a run in a variable of its own."""
    from agentnb.notebook.forks import fork

    fork(magics, words)


def show_panel(magics: AgentMagics, words: list[str]) -> None:
    """[NAME] [options]: run an agent with buttons, look at every State, change something, go on."""
    from agentnb.notebook.panel import open_panel

    open_panel(magics, words)


def stop_run(magics: AgentMagics, words: list[str]) -> None:
    """Stop what a panel runs; a cell is stopped by its button or an interrupt."""
    from agentnb.notebook.panel import stop_panels

    print(stop_panels())


def show_loop(magics: AgentMagics, words: list[str]) -> None:
    """[NAME] [OTHER]: the state machine, the message stack and what changed, at a State."""
    from agentnb.notebook.loop_view import loop_command

    loop_command(magics, words)


def set_recording(magics: AgentMagics, words: list[str]) -> None:
    """[FILE [MODE]]: record and replay model calls (auto, replay, record, off); alone: who answered."""
    from agentnb.records.recording import active_recording, stop_recording, use_recording

    if words == ["off"]:
        stop_recording()
        print("no recording is open: the model answers")
    elif words:
        opened = use_recording(words[0], words[1] if len(words) > 1 else "auto")
        mode, opened.on_new = opened.mode, print
        print(RECORDING_MODES[mode].replace("FILE", words[0]))
        if mode == "auto" and not Path(words[0]).exists():
            print(f"{words[0]} is not there yet: the model answers, and its replies are kept there")
    elif (active := active_recording()) is not None:
        print(active.account)
    else:
        print("no recording is open; %agent recording FILE opens one")


def fetch_model(magics: AgentMagics, words: list[str]) -> None:
    """Fetch the embedded model's weights (1.1 GB): size, progress and hash check."""
    from agentnb.models.weights import fetch_command

    fetch_command(["--yes", *words])


def mcp(magics: AgentMagics, words: list[str]) -> None:
    """[NAME [--env VARIABLE] COMMAND|URL]: use the tools of an MCP server, "%%agent -t NAME"; close NAME ends it."""
    from agentnb.notebook.mcp_command import mcp_command

    mcp_command(magics, words)


def doctor(magics: AgentMagics, words: list[str]) -> None:
    """[-m MODEL]: check settings, model, tool calls and front end; each line says what to do."""
    from agentnb.notebook.checkup import run_checks

    run_checks(magics, words)


def resume(magics: AgentMagics, words: list[str]) -> None:
    """NAME [options]: go on with a run that was stopped; open calls first."""
    raise UsageError("%agent resume stands alone on its line", remedy="%agent resume NAME")


def rerun(magics: AgentMagics, words: list[str]) -> None:
    """NAME [options]: run it again from its goal, with the tools as they are now or --old-tools."""
    raise UsageError("%agent rerun stands alone on its line", remedy="%agent rerun NAME")


def try_tool(magics: AgentMagics, words: list[str]) -> None:
    """NAME [argument=value ...]: call a tool as a model would; alone: a form for its arguments."""
    from agentnb.notebook.tool_form import try_command

    try_command(magics, words)


MOST_WORDS = {"help": 1, "status": 0, "model": 1, "tools": 0, "tool": 1, "stop": 0, "recording": 2}
"""Of the commands that take words by their place."""
RECORDING_MODES = {
    "auto": "model calls are answered from FILE where it has them",
    "replay": "model calls are answered from FILE alone",
    "record": "the model answers, and FILE records it",
    "off": "the model answers; FILE is not used (recording off)",
}
COMMANDS: dict[str, Callable[[Any, list[str]], None]] = {
    "help": show_help,
    "status": status,
    "model": set_model,
    "tools": list_tools,
    "tool": open_tool,
    "try": try_tool,
    "resume": resume,
    "rerun": rerun,
    "fork": fork_run,
    "panel": show_panel,
    "stop": stop_run,
    "show": show_run,
    "plot": show_plot,
    "diff": show_diff,
    "loop": show_loop,
    "recording": set_recording,
    "fetch-model": fetch_model,
    "mcp": mcp,
    "doctor": doctor,
}
