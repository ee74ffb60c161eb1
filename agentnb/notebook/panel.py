"""The panel: run an agent with buttons, look at every State, change something, go on. `Panel(agent)`, `%agent panel`.

Where a person sits in front, it is stock widgets that live as long as the kernel; each run of it leaves ordinary output
under the panel, which needs neither kernel nor widgets to be read. Elsewhere it is a plain table that says so.

    panel_bench     the fields, the runs, the State that is looked at     panel_views     HTML and text
    panel_actions   what each button stands for                           panel_widgets   the widgets
    panel_run       a press becomes a run                                 panel_plots     the pictures
    panel_folds     what opens and closes
"""

from __future__ import annotations

from typing import Any

from IPython import get_ipython

from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.notebook.live import publish
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.options import assemble, parse, quoted
from agentnb.notebook.panel_bench import Bench
from agentnb.notebook.panel_run import PanelRun
from agentnb.notebook.panel_views import form_block
from agentnb.notebook.widget_cell import WidgetCell, can_show, owners


class Panel:
    """An agent's workbench; the last value of a cell shows itself.

    Args:
        agent: Who runs; None: the notebook's default model with all its tools.
        run: A run to look at first.
        name: What the panel's runs are called: this name, then name_2, name_3. Each is a variable of the notebook.
        goal: Stands in the field at first.
    """

    def __init__(
        self, agent: Agent | None = None, *, run: State | None = None, name: str = "run", goal: str = ""
    ) -> None:
        if agent is not None and not isinstance(agent, Agent):
            what = f"a panel needs an Agent, got {type(agent).__name__}"
            raise UsageError(what, remedy="Panel(Agent(model=..., tools=[...]))")
        shell = get_ipython()
        self._shell = shell
        self._magics = _magics_of(shell)
        space = shell.user_ns if shell is not None else {}
        model = self._magics.model if self._magics else None
        self.bench = Bench(
            space, _variable_of(agent, space) if agent else "", model, name, goal or (run.goal if run else "")
        )
        if run is not None:
            held = next((key for key, value in space.items() if value is run and not key.startswith("_")), None)
            self.bench.keep(held or self.bench.fresh_name(), run)
            self.bench.show(next(iter(self.bench.runs)))
        self.run = PanelRun(self.bench, publish, self._magics)
        self._widgets: Any = None

    def show(self) -> None:
        """Show the panel below the cell that runs now."""
        live = can_show(self._shell)
        publish(form_block(self.bench, live))
        if live:
            self._open_widgets()

    def _ipython_display_(self) -> None:
        self.show()

    def __repr__(self) -> str:
        return form_block(self.bench, live=False).text

    def close(self) -> None:
        """Stop what runs and take the widgets away; the record stays."""
        self.run.stop()
        if self._widgets is not None:
            self._widgets.end()
            self._cell.close()
            self._widgets = None

    def refresh(self) -> None:
        """Draw what has changed in the notebook, such as a tool."""
        if self._widgets is not None:
            self._widgets.refresh()

    def _open_widgets(self) -> None:
        from agentnb.notebook.panel_widgets import PanelWidgets

        self.close()
        self._cell = WidgetCell(self)
        self._widgets = PanelWidgets(self.run, self._cell.call, self._write, self.close)
        self._cell.show(self._widgets.box)

    def _write(self, cell: str) -> None:
        self._shell.set_next_input(cell, replace=False)


def open_panel(magics: AgentMagics, words: list[str]) -> None:
    """`%agent panel [NAME] [options]`: NAME holds an Agent or a run; the options make or change the agent.

    Raises:
        UsageError: NAME holds neither.
    """
    name, rest = ("", words) if not words or words[0].startswith("-") else (words[0], words[1:])
    value = magics.shell.user_ns.get(name)
    if name and not isinstance(value, Agent | State):
        raise UsageError(f"{name!r} holds no Agent and no run", remedy="%agent panel [NAME] [options]")
    options = parse(AgentMagics.agent, " ".join(map(quoted, rest)))
    base = value if isinstance(value, Agent) else magics.agents.get(name) if name else None
    agent = assemble(options, magics.model, magics.shell.user_ns, base) if base or rest else None
    Panel(agent, run=value if isinstance(value, State) else None, name=options.out or "run").show()


def stop_panels() -> str:
    """Stop what the panels run, and say so."""
    running = [each for each in owners() if isinstance(each, Panel) and each.run.task is not None]
    for panel in running:
        panel.run.stop()
    return "stopped; %agent resume goes on" if running else "no panel runs anything"


def _magics_of(shell: Any) -> AgentMagics | None:
    found = shell.magics_manager.registry.get("AgentMagics") if shell is not None else None
    return found if isinstance(found, AgentMagics) else None


def _variable_of(agent: Agent, space: dict[str, Any]) -> str:
    """The variable that holds the agent; an agent without one gets one, so that the panel's cells can name it."""
    held = next((key for key, value in space.items() if value is agent and not key.startswith("_")), None)
    if held is not None:
        return held
    number, name = 1, "agent"
    while name in space:
        number += 1
        name = f"agent_{number}"
    space[name] = agent
    return name
