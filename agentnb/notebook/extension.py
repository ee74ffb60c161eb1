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
from agentnb.notebook.magics import AgentMagics


def load(shell: Any) -> None:
    """Register the magics and the transformer that awaits them; a second call changes nothing."""
    if any(getattr(each, "__name__", "") == await_agent_cells.__name__ for each in shell.input_transformers_post):
        return
    errors.show_traceback = settings.debug
    progress.display, surroundings.cell_source = displays_for(shell), source_of_cell(shell)
    shell.register_magics(AgentMagics(shell))
    shell.input_transformers_post.append(await_agent_cells)
    shell.events.register("post_run_cell", _refresh_panels)


def unload(shell: Any) -> None:
    """Take everything away: magics, transformer, panels and what waits for cells to end."""
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


def _refresh_panels(*_: Any) -> None:
    """A cell has run: it may have changed a tool or a run that a panel shows."""
    for panel in _panels():
        panel.refresh()


def _panels() -> tuple[Any, ...]:
    panel = sys.modules.get("agentnb.notebook.panel")
    return panel.open_panels() if panel is not None else ()
