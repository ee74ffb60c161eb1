"""The magics: `%%agent` runs an agent inline, `%%tool` defines tools, `%agent` does the rest.

The path of a `%%agent` cell: read the options (`options.py`), assemble the Agent, follow its States and show each step
(`follow.py`), with the newest State always in the variable that `-o` names, whatever stops the run.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from IPython.core.magic import Magics, cell_magic, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.notebook import commands
from agentnb.notebook.cells import AWAITED
from agentnb.notebook.compare_cell import compare_options, run_compare
from agentnb.notebook.follow import CellRun
from agentnb.notebook.names import run_named
from agentnb.notebook.options import assemble, parse, without_markers
from agentnb.notebook.tool_cells import define_tools


@magics_class
class AgentMagics(Magics):  # type: ignore[misc]
    """What one notebook has: a default model, the newest run, the agent behind it."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.model: Any = None
        self.last: State | None = None
        self.previous: State | None = None
        self.last_agent: Agent | None = None
        self.agents: dict[str, Agent] = {}

    @magic_arguments()
    @argument("-m", "--model", help='"provider:model", "local", or a variable that holds a model')
    @argument("-t", "--tools", help='names with commas between, or "none"; all tools of the notebook when not given')
    @argument("-o", "--out", help="the variable that holds the run, from its first step on")
    @argument("--planner", help='"tools", "json", or a variable that holds a planner')
    @argument("--steps", help="at most so many model calls; 20 when not given")
    @argument("--tokens", help="at most so many tokens")
    @argument("--cost", help="at most so many US dollars")
    @argument("--seconds", help="at most so many seconds in models and tools")
    @argument("--tool-calls", help="at most so many tool calls")
    @argument("--temperature", help="sent to the model; nothing is sent when not given")
    @argument("--system-prompt", help="a text, or a variable that holds one")
    @argument("--examples", help="a variable that holds worked examples")
    @argument("--agent", help="a variable that holds an Agent; the other options change it for this cell")
    @argument("--from", dest="start", help="a variable that holds a run: the body goes on in that conversation")
    @argument("--show", default="steps", help='"steps", "answer" or "none": what appears below the cell')
    @line_cell_magic("agent")
    def agent(self, line: str, cell: str | None = None) -> None:
        """Run an agent on the text of this cell; its steps appear below. `%agent help` lists what else there is."""
        if cell is not None:
            self._run_of(line, cell).run()
        elif line.split()[:1] == ["resume"]:
            self._resumed(line).run()
        else:
            commands.run(self, line)

    @line_cell_magic(AWAITED)
    def agent_awaited(self, line: str, cell: str | None = None) -> Coroutine[Any, Any, None]:
        """The same as `%%agent` and `%agent resume`, awaited, so that the kernel stays alive meanwhile."""
        return (self._resumed(line) if cell is None else self._run_of(line, cell)).arun()

    @cell_magic("tool")
    def tool(self, line: str, cell: str) -> None:
        """Define tools: each function of this cell becomes one. Run the cell again to change them."""
        define_tools(self.shell, line, cell)

    def begin(self, agent: Agent, out: str | None) -> None:
        """A run begins: this agent makes it, and the run before it becomes the previous one."""
        self.previous, self.last_agent = self.last, agent
        if out:
            self.agents[out] = agent

    @compare_options
    @cell_magic("compare")
    def compare(self, line: str, cell: str) -> None:
        """Run several models, planners, prompts or temperatures on the tasks in this cell, and compare them."""
        run_compare(self, type(self).compare, line, cell)

    def _run_of(self, line: str, cell: str) -> CellRun:
        options = parse(type(self).agent, line)
        goal = without_markers(cell)
        if not goal.strip():
            raise UsageError("the cell holds no goal", remedy="Write it below the line; %agent resume NAME goes on.")
        space = self.shell.user_ns
        start = run_named(options.start, space).say(goal) if options.start else State.start(goal)
        return CellRun(self, assemble(options, self.model, space), start, options.out, options.show)

    def _resumed(self, line: str) -> CellRun:
        """`resume NAME [options]`: go on with that run, by the agent that made it, changed by the options."""
        name, _, words = line.strip().removeprefix("resume").strip().partition(" ")
        options = parse(type(self).agent, words)
        start = run_named(name, self.shell.user_ns)
        agent = assemble(options, self.model, self.shell.user_ns, self.agents.get(name, self.last_agent))
        return CellRun(self, agent, start, options.out or name, options.show)
