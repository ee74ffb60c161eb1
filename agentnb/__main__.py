"""`python -m agentnb COMMAND`: run an agent in the terminal, open the notebooks, fetch the embedded model, check.

Each command is a function of its own words, listed in COMMANDS; it returns the exit code:

    0    done; for `run`: the run ended with an answer
    1    `run` ended without one
    2    it can't be done like this; one line on stderr says why and what to do (AGENT_DEBUG=1: with the traceback)
    130  interrupted
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb import __version__, settings
from agentnb.errors import AgentnbError, UsageError
from agentnb.text import did_you_mean

if TYPE_CHECKING:
    from agentnb.agent import Agent
    from agentnb.core.state import State
    from agentnb.core.tool import Tool, ToolSpec

PROGRAM = "python -m agentnb"
START = Path("notebooks") / "00_start_here.ipynb"
PACKAGED = (Path(__file__).parent / "notebooks", Path(__file__).parents[1] / "notebooks")
"""Where the notebooks lie that came along: in an installed package, in a clone."""
_END_SECONDS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the words say and return the exit code."""
    name, *words = (sys.argv[1:] if argv is None else argv) or ["help"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign shows "?", and the run goes on
    try:
        return _command(name)(words)
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130
    except AgentnbError as error:
        if settings.debug():
            raise
        print(error, file=sys.stderr)
        return 2


def _command(name: str) -> Callable[[Sequence[str]], int]:
    name = {"-h": "help", "--help": "help", "-V": "--version"}.get(name, name)
    if name not in COMMANDS:
        remedy = f"Use one of {', '.join(COMMANDS)}.{did_you_mean(name, COMMANDS)}"
        raise UsageError(f"there is no command {name!r}", layer="agentnb", remedy=remedy)
    return COMMANDS[name]


# ── run ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(words: Sequence[str]) -> int:
    """[GOAL]: run an agent with two tools here; without a goal, the task of the first notebook."""
    from agentnb.demo import GOAL, demo_agent
    from agentnb.planners.you import You

    parser = argparse.ArgumentParser(prog=f"{PROGRAM} run", description="Run an agent with get_weather and calculator.")
    parser.add_argument("goal", nargs="?", default=GOAL, metavar="GOAL", help=f"what to do; {GOAL!r} when not given")
    parser.add_argument("-m", "--model", help='"provider:model" or "local"; chosen by the environment when not given')
    parser.add_argument("--planner", default="tools", choices=["tools", "json", "you"], help='"you": you decide')
    options = parser.parse_args(words)
    planner = You(ask_here) if options.planner == "you" else options.planner
    return follow(demo_agent(options.model, planner, [Notes()]), options.goal)


def ask_here(state: State, tools: Sequence[Tool]) -> dict[str, Any] | str | None:
    """Ask the person at the terminal: `NAME {"argument": ...}` calls a tool, other words are the answer.

    Returns:
        None, which leaves the run paused, for an empty line or the end of the input.
    """
    if not state.counters.steps:
        print("You are the model. Call a tool, or write the answer:")
        for tool in tools:
            print(f"  {tool.spec.name} {_placeholders(tool.spec)}    {tool.spec.description.partition(chr(10))[0]}")
    try:
        line = input("> ").strip()
    except EOFError:
        return None
    name, _, arguments = line.partition(" ")
    if name not in {tool.spec.name for tool in tools}:
        return line or None
    call = {"type": "function", "function": {"name": name, "arguments": arguments.strip() or "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _placeholders(spec: ToolSpec) -> str:
    return "{" + ", ".join(f'"{name}": ...' for name in spec.parameters.get("properties", {})) + "}"


def follow(agent: Agent, goal: str) -> int:
    """Run and print the goal, each step as it finishes, and the end. Returns the exit code."""
    from agentnb.core.state import State
    from agentnb.notebook.render import final_block, goal_block, step_block

    state = State.start(goal)
    _show(goal_block(state))
    for state in agent.steps(state):  # noqa: B020 - the newest State is what is printed last
        if state.kind in ("plan", "act") and not state.open_calls and state.step is not None:
            _show(step_block(state.step))
    _show(final_block(state))
    return 0 if state.answer is not None else 1


def _show(block: Any) -> None:
    print(f"{block.text}\n", flush=True)


class Notes:
    """A listener that tells what a long wait is for (the embedded model starts, a call is retried) on stderr."""

    def __call__(self, event: Any) -> None:
        """Print the notes that come with a model's reply."""
        from agentnb.core.middleware import Streamed

        if isinstance(event, Streamed) and event.delta.kind == "note":
            print(f"({event.delta.text})", file=sys.stderr, flush=True)


# ── lab ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def lab(words: Sequence[str]) -> int:
    """[NOTEBOOK]: open JupyterLab on the first notebook, or on another; Ctrl-C ends it."""
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} lab",
        description="Open JupyterLab on a notebook. Further options go to JupyterLab: --no-browser, --port 8890.",
    )
    parser.add_argument("notebook", nargs="?", metavar="NOTEBOOK", help=f"{START} when not given")
    options, more = parser.parse_known_args(words)
    if find_spec("jupyterlab") is None:
        raise UsageError(
            "JupyterLab is not installed", layer="agentnb", remedy=f"Run {sys.executable} -m pip install jupyterlab."
        )
    notebook = _existing(Path(options.notebook)) if options.notebook else start_notebook(Path.cwd())
    return _serve(lab_command(notebook, more), live_environment())


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise UsageError(f"there is no notebook {str(path)!r}", layer="agentnb", remedy="Name an .ipynb file.")
    return path


def start_notebook(folder: Path, packaged: Sequence[Path] = PACKAGED) -> Path:
    """The first notebook below this folder; the notebooks that came along are copied there when it is not.

    Raises:
        UsageError: None came along.
    """
    target = folder / START
    if target.is_file():
        return target
    for source in packaged:
        if (source / START.name).is_file():
            _copy_missing(source, target.parent)
            print(f"Copied the notebooks to {target.parent}", flush=True)
            return target
    raise UsageError(
        "the first notebook is not there", layer="agentnb", remedy=f"Run it where {START} is, or name a notebook."
    )


def _copy_missing(source: Path, target: Path) -> None:
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_file() and not copy.exists() and ".ipynb_checkpoints" not in path.parts:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def lab_command(notebook: Path, more: Sequence[str] = ()) -> list[str]:
    """The command that serves JupyterLab and opens this notebook; one Ctrl-C ends it."""
    command = [sys.executable, "-m", "jupyterlab", str(notebook), "--ServerApp.answer_yes=True", *more]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # in a container there is no one else; Jupyter listens on the loopback only
    return command


def live_environment() -> dict[str, str]:
    """The environment of the kernels: with a model at hand the notebooks ask it, else their recordings answer."""
    from agentnb.models.weights import find

    live = find() is not None
    print(
        "The notebooks run live." if live else "No model is at hand: the notebooks answer from their recordings.",
        flush=True,
    )
    return {**({"AGENTNB_RECORDING": "off"} if live else {}), **os.environ}


def _serve(command: Sequence[str], environment: dict[str, str]) -> int:
    process = subprocess.Popen(command, env=environment)
    try:
        return process.wait()
    except KeyboardInterrupt:  # the server, in the same terminal, got it too
        return _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        process.wait(_END_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.terminate()
        process.wait()
    return 0


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def fetch_model(words: Sequence[str]) -> int:
    """Fetch the embedded model's weights (1.1 GB): size, progress, hash check."""
    from agentnb.models.weights import fetch_command

    return fetch_command(words)


def lesson(words: Sequence[str]) -> int:
    """NOTEBOOK [-o FILE]: make one notebook that carries its recordings, to hand out."""
    from agentnb.records.lesson import command

    return command(words)


def doctor(words: Sequence[str]) -> int:
    """[-m MODEL]: check settings, model and tool calls; each line says ok, problem or what to do."""
    from agentnb.doctor.checks import command

    return command(words)


def version(words: Sequence[str]) -> int:
    """Show the version."""
    print(f"agentnb {__version__}")
    return 0


def show_help(words: Sequence[str]) -> int:
    """Show this."""
    print(f"{PROGRAM} COMMAND ...    (COMMAND --help shows its options)\n")
    for name, command in COMMANDS.items():
        print(f"  {name:<13}{command.__doc__}")
    return 0


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "run": run,
    "lab": lab,
    "fetch-model": fetch_model,
    "lesson": lesson,
    "doctor": doctor,
    "help": show_help,
    "--version": version,
}

if __name__ == "__main__":
    sys.exit(main())
