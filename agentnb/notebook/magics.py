"""The magics: `%%agent` runs an agent inline, `%%tool` defines tools, `%%prompt` prompts, `%agent` does the rest.

The path of a `%%agent` cell (`agent_cell.py`): read the options (`options.py`), assemble the Agent, follow its States
and show each step (`follow.py`), with the newest State always in the variable that `-o` names, whatever stops the run.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from IPython.core.magic import Magics, cell_magic, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.notebook import commands
from agentnb.notebook.agent_cell import resumed, work_of
from agentnb.notebook.cells import AWAITED
from agentnb.notebook.compare_cell import compare_options, compare_work
from agentnb.notebook.manual import asks_for_help, manual, told
from agentnb.notebook.preferences import Agentnb
from agentnb.notebook.prompt_cells import define_prompt
from agentnb.notebook.tool_cells import define_tools


@magics_class
class AgentMagics(Magics):  # type: ignore[misc]
    """What one notebook has: a default model, the newest run, the agent behind it."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.preferences = Agentnb(parent=shell)
        self.chosen_model: Any = None
        self.last: State | None = None
        self.previous: State | None = None
        self.last_agent: Agent | None = None
        self.agents: dict[str, Agent] = {}
        self._made: dict[int, tuple[State, Agent]] = {}
        """Of each run, known by its first State, the agent that last went on with it."""
        self.prompt_versions: dict[str, list[str]] = {}

    @property
    def model(self) -> Any:
        """The model of every cell that names none; None is chosen by the environment."""
        name = self.preferences.model
        return self.chosen_model or self.shell.user_ns.get(name, name) or None

    @magic_arguments()
    @argument("-m", "--model", help='"provider:model", "local", or a variable that holds a model; several with commas')
    @argument("--prompt", help="a prompt of the notebook (%%%%prompt NAME); several with commas run side by side")
    @argument(
        "--set", action="append", metavar="NAME=VALUE", help="a variable of the prompt; else the notebook's counts"
    )
    @argument("-t", "--tools", help='names with commas between, or "none"; all tools of the notebook when not given')
    @argument("-o", "--out", help="the variable that holds the run, from its first step on")
    @argument("--planner", help='"tools", "json", "you", or a variable that holds a planner; several with commas')
    @argument("--steps", help="at most so many model calls; 20 when not given")
    @argument("--tokens", help="at most so many tokens")
    @argument("--cost", help="at most so many US dollars")
    @argument("--seconds", help="at most so many seconds in models and tools")
    @argument("--tool-calls", help="at most so many tool calls")
    @argument("--temperature", help="sent to the model; nothing is sent when not given")
    @argument("--system-prompt", help="a text, or a variable that holds one")
    @argument("--examples", help="a variable that holds worked examples")
    @argument("--agent", help="a variable that holds an Agent; the other options change it for this cell")
    @argument("--break", dest="faults", help="break the run on purpose: drop_result, mangle_json, ...; commas between")
    @argument("--from", dest="start", help="a variable that holds a run: the body goes on in that conversation")
    @argument("--show", help='"steps", "answer" or "none": what appears below the cell')
    @argument("--predict", action="store_true", help="guess each action before the model takes it, and keep score")
    @argument("--predictions", help='the guesses, where no form asks: "add, add(a=1), finish"; implies --predict')
    @argument("--old-tools", action="store_true", help="go on, or run again, with the tools as they were then")
    @argument("--help", action="store_true", help="show this and run nothing")
    @line_cell_magic("agent")
    def agent(self, line: str, cell: str | None = None) -> None:
        """Run an agent on the text of this cell; its steps appear below. `%agent help` lists what else there is."""
        if asks_for_help(line):
            print(manual(type(self).agent, line if cell is None else ""))
        elif cell is not None:
            work_of(self, type(self).agent, line, cell).run()
        elif line.split()[:1] in (["resume"], ["rerun"]):
            resumed(self, type(self).agent, line).run()
        else:
            commands.run(self, line)

    @line_cell_magic(AWAITED)
    def agent_awaited(self, line: str, cell: str | None = None) -> Coroutine[Any, Any, None]:
        """`%%agent`, `%agent resume` and `%agent rerun`, awaited, so that the kernel stays alive meanwhile."""
        magic = type(self).agent
        if asks_for_help(line):
            return told(manual(magic, line if cell is None else ""))
        return (resumed(self, magic, line) if cell is None else work_of(self, magic, line, cell)).arun()

    @cell_magic("tool")
    def tool(self, line: str, cell: str) -> None:
        """Define tools: each function of this cell becomes one. Run the cell again to change them."""
        if asks_for_help(line):
            print(manual(type(self).tool))
        else:
            define_tools(self.shell, line, cell)

    @cell_magic("prompt")
    def prompt(self, line: str, cell: str) -> None:
        """Keep the text of this cell as a prompt: `%%prompt NAME`, with variables such as {{city}}."""
        if asks_for_help(line):
            print(manual(type(self).prompt))
        else:
            define_prompt(self.shell, self.prompt_versions, line, cell)

    def maker(self, name: str, run: State) -> Agent | None:
        """The agent of a run that this notebook saw being made; None for one made in Python or read from a file."""
        made = self._made.get(id(run.path()[0]))
        return made and self.agents.get(name, made[1])

    def begin(self, agent: Agent, out: str | None, start: State) -> None:
        """A run begins: this agent makes it, and the run before it becomes the previous one."""
        self.previous, self.last_agent = self.last, agent
        first = start.path()[0]
        self._made[id(first)] = first, agent
        if out:
            self.agents[out] = agent

    @compare_options
    @cell_magic("compare")
    def compare(self, line: str, cell: str) -> None:
        """Run several models, planners, prompts or temperatures on the tasks in this cell, and compare them."""
        if asks_for_help(line):
            print(manual(type(self).compare))
        else:
            compare_work(self, type(self).compare, line, cell).run()

    @cell_magic("compare_awaited")
    def compare_awaited(self, line: str, cell: str) -> Coroutine[Any, Any, None]:
        """`%%compare`, awaited, so that the kernel stays alive meanwhile."""
        magic = type(self).compare
        return told(manual(magic)) if asks_for_help(line) else compare_work(self, magic, line, cell).arun()
