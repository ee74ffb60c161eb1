"""`%load_ext agentnb` and `%unload_ext agentnb`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

from IPython import get_ipython

from agentnb import errors, settings
from agentnb.comparison import progress, surroundings
from agentnb.models.profiles import KEY_SETTINGS
from agentnb.notebook.cells import AWAITED, await_agent_cells
from agentnb.notebook.compare_cell import displays_for, source_of_cell
from agentnb.notebook.completion import IDENTIFIER, matcher_for, options_of
from agentnb.notebook.decision_form import ask_person
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.preferences import Agentnb
from agentnb.notebook.tool_history import forget, see
from agentnb.notebook.widget_cell import owners
from agentnb.planners import you
from agentnb.text import mask


def load(shell: Any) -> None:
    """Register the magics and the transformer that awaits them; a second call changes nothing."""
    if any(getattr(each, "__name__", "") == await_agent_cells.__name__ for each in shell.input_transformers_post):
        return
    errors.traceback_of = partial(_traceback, shell)
    with suppress(errors.SettingsError):  # a `.env` that can't be read is told by the first agent
        settings.hide_keys(KEY_SETTINGS)
    progress.display, surroundings.cell_source = displays_for(shell), source_of_cell(shell)
    you.form = ask_person
    magics = AgentMagics(shell)
    shell.register_magics(magics)
    shell.configurables.append(magics.preferences)
    known = {"agent": options_of(AgentMagics.agent), "compare": options_of(AgentMagics.compare)}
    shell.Completer.custom_matchers.append(matcher_for(shell.user_ns, known))
    shell.input_transformers_post.append(await_agent_cells)
    shell.events.register("post_run_cell", _after_cell)


def unload(shell: Any) -> None:
    """Take everything away: magics, transformer, completion, preferences, panels, and what waits for cells to end."""
    with suppress(ValueError):  # it was never loaded
        shell.events.unregister("post_run_cell", _after_cell)
    for owner in owners():
        owner.close()
    forget()
    shell.input_transformers_post[:] = [
        each for each in shell.input_transformers_post if getattr(each, "__name__", "") != await_agent_cells.__name__
    ]
    for kind, name in (
        *product(("line", "cell"), ("agent", AWAITED)),
        ("cell", "tool"),
        ("cell", "prompt"),
        ("cell", "compare"),
        ("cell", "compare_awaited"),
    ):
        shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(AgentMagics.__name__, None)
    own = (AgentMagics.__name__, Agentnb.__name__)
    shell.configurables[:] = [each for each in shell.configurables if type(each).__name__ not in own]
    matchers = shell.Completer.custom_matchers
    matchers[:] = [each for each in matchers if getattr(each, "matcher_identifier", "") != IDENTIFIER]
    errors.traceback_of, progress.display = (lambda error: None), progress.on_terminal
    surroundings.cell_source = lambda: None
    you.form = None


def _traceback(shell: Any, error: Exception) -> list[str] | None:
    """With AGENT_DEBUG=1 the traceback of an error of ours, as the notebook shows any other."""
    if not settings.debug():
        return None
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    return [mask(line) for line in lines]


def _after_cell(*_: Any) -> None:
    """A cell has run: it may have defined a tool, or changed what a panel shows."""
    see(get_ipython().user_ns)
    for owner in owners():
        owner.refresh()
