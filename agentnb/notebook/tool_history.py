"""Which definitions of a tool this notebook has had: runs go on with the newest, or with those that made them.

A tool that stood in a variable of the notebook and was defined again since is replaced by the newer definition; a tool
that was made for an agent alone (`price.replace(approve=True)`) is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.notebook.names import tools_of
from agentnb.notebook.words import version_words

_seen: dict[int, Any] = {}
"""Every tool that stood in a variable, by its id; kept, so that an old source can run again."""


def see(space: Mapping[str, Any]) -> None:
    """Remember the tools that stand in the notebook's variables now."""
    for tool in tools_of(space):
        _seen.setdefault(id(tool), tool)


def forget() -> None:
    """Let go of all of them."""
    _seen.clear()


def with_newest_tools(agent: Agent, space: Mapping[str, Any]) -> Agent:
    """The agent with the newest definition of each tool of the notebook that it was made with."""
    now = {tool.spec.name: tool for tool in tools_of(space)}
    tools = [now.get(tool.spec.name, tool) if id(tool) in _seen else tool for tool in agent.tools]
    changed = any(new is not old for new, old in zip(tools, agent.tools, strict=True))
    return agent.replace(tools=tools) if changed else agent


def with_tools_of(agent: Agent, run: State) -> Agent:
    """The agent with the definitions that ran, where another one has taken their place.

    Raises:
        UsageError: One of them is no longer at hand.
    """
    ran = _ran(run)
    return agent.replace(tools=[_of_version(tool, ran.get(tool.spec.name)) for tool in agent.tools])


def _of_version(tool: Any, version: str | None) -> Any:
    if version is None or _hash(version) == _hash(tool.spec.version):
        return tool
    found = next((each for each in _seen.values() if _same(each.spec.version, version)), None)
    if found is None:
        what = f"the source of {version_words(version)} is not at hand in this kernel"
        raise UsageError(what, remedy="Run the cell that defined it, or go on with the tool as it is now.")
    return found


def older(run: State | None, tools: Iterable[Any]) -> str:
    """That a run was made with other definitions than these, in words; "" when it was not.

    >>> older(run, agent.tools)
    'made with get_weather (version 3fa9c1d0), now get_weather (version 9c1d77aa)'
    """
    if run is None:
        return ""
    now = {tool.spec.name: tool.spec.version for tool in tools}
    changed = {name: version for name, version in _ran(run).items() if not _same(now.get(name, version), version)}
    if not changed:
        return ""
    ran, newest = (", ".join(map(version_words, its)) for its in (changed.values(), [now[name] for name in changed]))
    return f"made with {ran}, now {newest}"


def _ran(run: State) -> dict[str, str]:
    """Tool name to the version that ran last."""
    return {name: version for step in run.steps for name, version in step.tool_versions.items()}


def _same(version: str, other: str) -> bool:
    return version.partition("@")[0] == other.partition("@")[0] and _hash(version) == _hash(other)


def _hash(version: str) -> str:
    return version.rpartition("·")[2]
