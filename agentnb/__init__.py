"""Run, understand and compare AI agents in a Jupyter notebook.

    from agentnb import Agent, tool

Everything public is here; each name is imported on its first use, so `import agentnb` stays quick and changes nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Agent": "agentnb.agent",
    "AgentnbError": "agentnb.errors",
    "Approval": "agentnb.middleware.approval",
    "Breaking": "agentnb.middleware.breaking",
    "BudgetWarning": "agentnb.middleware.budget",
    "Compaction": "agentnb.middleware.compaction",
    "Knowledge": "agentnb.memory.knowledge",
    "Limits": "agentnb.core.limits",
    "Notes": "agentnb.memory.notes",
    "Panel": "agentnb.notebook.panel",
    "RunLog": "agentnb.middleware.run_log",
    "Runtime": "agentnb.core.runtime",
    "Saving": "agentnb.records.saving",
    "ScriptedModel": "agentnb.models.scripted",
    "State": "agentnb.core.state",
    "StopReason": "agentnb.core.limits",
    "Task": "agentnb.comparison.tasks",
    "Telemetry": "agentnb.middleware.telemetry",
    "You": "agentnb.planners.you",
    "as_tool": "agentnb.team.nested",
    "batch": "agentnb.comparison.batch",
    "calculator": "agentnb.tools.builtin",
    "calls": "agentnb.models.scripted",
    "curl": "agentnb.models.curl",
    "compare": "agentnb.comparison.compare",
    "delegate": "agentnb.team.delegation",
    "diff": "agentnb.records.diff",
    "fetch_page": "agentnb.tools.fetch",
    "handoff": "agentnb.team.handoff",
    "list_files": "agentnb.tools.files",
    "load": "agentnb.records.run_file",
    "load_all": "agentnb.records.run_tree",
    "loop_view": "agentnb.notebook.loop_view",
    "mcp": "agentnb.tools.mcp",
    "mcp_server": "agentnb.team.mcp_server",
    "plot": "agentnb.plots.run_plots",
    "python": "agentnb.tools.python_process",
    "read_text": "agentnb.tools.files",
    "recording": "agentnb.records.recording",
    "save": "agentnb.records.run_file",
    "sql": "agentnb.tools.sql",
    "tool": "agentnb.tools.tool",
}

_TOOLS = ("calculator", "fetch_page", "python")
__all__ = sorted(_HOME.keys() - _TOOLS)  # `import *` offers no tool to a notebook's agents
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'agentnb' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_HOME, "__version__"]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext agentnb`."""
    from agentnb.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext agentnb`."""
    from agentnb.notebook.extension import unload

    unload(shell)
