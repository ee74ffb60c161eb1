"""`%load_ext agentnb` and `%unload_ext agentnb`."""

from __future__ import annotations

from itertools import product
from typing import Any

from agentnb import errors, settings
from agentnb.comparison import progress
from agentnb.notebook.cells import AWAITED, await_agent_cells
from agentnb.notebook.compare_cell import displays_for
from agentnb.notebook.magics import AgentMagics


def load(shell: Any) -> None:
    """Register the magics and the transformer that awaits them; a second call changes nothing."""
    if any(getattr(each, "__name__", "") == await_agent_cells.__name__ for each in shell.input_transformers_post):
        return
    errors.show_traceback = settings.debug
    progress.display = displays_for(shell)
    shell.register_magics(AgentMagics(shell))
    shell.input_transformers_post.append(await_agent_cells)


def unload(shell: Any) -> None:
    """Take both away."""
    shell.input_transformers_post[:] = [
        each for each in shell.input_transformers_post if getattr(each, "__name__", "") != await_agent_cells.__name__
    ]
    for kind, name in (*product(("line", "cell"), ("agent", AWAITED)), ("cell", "tool"), ("cell", "compare")):
        shell.magics_manager.magics[kind].pop(name, None)
