"""`%load_ext agentnb` and `%unload_ext agentnb`."""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import product
from typing import Any

from agentnb import errors, settings
from agentnb.comparison import progress, surroundings
from agentnb.notebook.cells import AWAITED, await_agent_cells
from agentnb.notebook.compare_cell import displays_for, source_of_cell
from agentnb.notebook.completion import IDENTIFIER, matcher_for, options_of
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.preferences import Agentnb


def load(shell: Any) -> None:
    """Register the magics and the transformer that awaits them; a second call changes nothing."""
    if any(getattr(each, "__name__", "") == await_agent_cells.__name__ for each in shell.input_transformers_post):
        return
    errors.show_traceback = settings.debug
    progress.display, surroundings.cell_source = displays_for(shell), source_of_cell(shell)
    magics = AgentMagics(shell)
    shell.register_magics(magics)
    shell.configurables.append(magics.preferences)
    known = {"agent": options_of(AgentMagics.agent), "compare": options_of(AgentMagics.compare)}
    shell.Completer.custom_matchers.append(matcher_for(shell.user_ns, known))
    shell.input_transformers_post.append(await_agent_cells)
    shell.events.register("post_run_cell", _refresh_panels)


def unload(shell: Any) -> None:
    """Take everything away: magics, transformer, completion, preferences, panels, and what waits for cells to end."""
    with suppress(ValueError):  # it was never loaded
        shell.events.unregister("post_run_cell", _refresh_panels)
    for panel in _panels():
        panel.close()
    shell.input_transformers_post[:] = [
        each for each in shell.input_transformers_post if getattr(each, "__name__", "") != await_agent_cells.__name__
    ]
    for kind, name in (
        *product(("line", "cell"), ("agent", AWAITED)),
        ("cell", "tool"),
        ("cell", "prompt"),
        ("cell", "compare"),
    ):
        shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(AgentMagics.__name__, None)
    own = (AgentMagics.__name__, Agentnb.__name__)
    shell.configurables[:] = [each for each in shell.configurables if type(each).__name__ not in own]
    matchers = shell.Completer.custom_matchers
    matchers[:] = [each for each in matchers if getattr(each, "matcher_identifier", "") != IDENTIFIER]
    errors.show_traceback, progress.display = (lambda: False), progress.on_terminal
    surroundings.cell_source = lambda: None


def _refresh_panels(*_: Any) -> None:
    """A cell has run: it may have changed a tool or a run that a panel shows."""
    for panel in _panels():
        panel.refresh()


def _panels() -> tuple[Any, ...]:
    panel = sys.modules.get("agentnb.notebook.panel")
    return panel.open_panels() if panel is not None else ()
