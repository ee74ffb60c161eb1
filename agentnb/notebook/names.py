"""What the words on a magic line stand for: tools, runs and texts of the notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from agentnb import settings
from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.models.catalog import LOCAL, known_providers
from agentnb.text import did_you_mean, listed
from agentnb.tools.tool import Tool, to_tools


def tools_of(namespace: Mapping[str, Any]) -> tuple[Tool, ...]:
    """Every tool that the notebook defines or imports, in the order of definition.

    Of several variables that hold a tool of one name, the one called like the tool counts, else the last.
    """
    found: dict[str, Tool] = {}
    for name, value in list(namespace.items()):
        if isinstance(value, Tool) and not name.startswith("_"):
            own = namespace.get(value.spec.name)
            found[value.spec.name] = own if isinstance(own, Tool) and own.spec.name == value.spec.name else value
    return tuple(found.values())


def chosen_tools(words: str | None, namespace: Mapping[str, Any], more: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The tools that `--tools` names: all of the notebook when it is not given, "none" for none.

    Args:
        words: Names with commas between, or None.
        namespace: The notebook's variables.
        more: Those of the agent that is changed; of a name they win.

    Raises:
        UsageError: A name stands for no tool and no function.
    """
    everything = tools_of(namespace)
    if words is None or words == "all":
        return everything
    if words == "none":
        return ()
    at_hand = (*more, *everything)
    return tuple(tool for word in words.split(",") if word.strip() for tool in _tools(word.strip(), namespace, at_hand))


def _tools(word: str, namespace: Mapping[str, Any], at_hand: Sequence[Any]) -> tuple[Any, ...]:
    """The tool of that name, else what the variable holds: a function, or several tools such as an MCP server's."""
    for tool in at_hand:
        if tool.spec.name == word:
            return (tool,)
    value: Any = namespace.get(word)
    if callable(value) or hasattr(value, "spec") or isinstance(value, list | tuple) or is_server(value):
        return to_tools(value)
    known = [*dict.fromkeys(tool.spec.name for tool in at_hand)]
    remedy = f"The tools of this notebook: {listed(known) or 'none yet'}.{did_you_mean(word, known)}"
    raise UsageError(f"--tools: nothing is named {word!r}", remedy=remedy)


def is_server(value: Any) -> bool:
    """Whether it is an MCP server, which has tools of its own."""
    return type(value).__module__ == "agentnb.tools.mcp" and not callable(value)


def run_named(name: str, namespace: Mapping[str, Any]) -> State:
    """The run that a variable holds.

    Raises:
        UsageError: The variable is not there or holds something else.
    """
    value = namespace.get(name)
    if isinstance(value, State):
        return value
    runs = runs_of(namespace)
    what = "nothing is named" if value is None else f"no run, but {type(value).__name__}, is named"
    remedy = f"The runs of this notebook: {listed(runs) or 'none yet'}.{did_you_mean(name, runs)}"
    raise UsageError(f"{what} {name!r}", remedy=remedy)


def runs_of(namespace: Mapping[str, Any]) -> list[str]:
    """The variables that hold a run."""
    return [key for key, each in list(namespace.items()) if isinstance(each, State) and key[0] != "_"]


def tool_named(words: Sequence[str], namespace: Mapping[str, Any], usage: str) -> Tool:
    """The tool of the notebook that the first word names.

    Args:
        words: Of a command, perhaps none.
        namespace: The notebook's variables.
        usage: How the command is written, such as "%agent tool NAME".

    Raises:
        UsageError: There is no word, or no tool of that name.
    """
    tools = {tool.spec.name: tool for tool in tools_of(namespace)}
    if words and words[0] in tools:
        return tools[words[0]]
    what = f"no tool is named {words[0]!r}" if words else f"{usage.partition(' NAME')[0]} takes a tool's name"
    known = f"The tools of this notebook: {listed(tools) or 'none yet'}."
    raise UsageError(what, remedy=f"{known}{did_you_mean(words[0], tools) if words else ''} {usage}")


def check_replaceable(name: str, namespace: Mapping[str, Any]) -> None:
    """Whether a run may be put into this variable: not where a tool, a model, an agent, a class or a module stands.

    Raises:
        UsageError: It may not.
    """
    value = namespace.get(name)
    if isinstance(value, type | ModuleType | Tool | Agent) or (_is_model(value) and not isinstance(value, str)):
        what = f"-o {name} would take the place of {name!r}, which holds {type(value).__name__}"
        raise UsageError(what, remedy="Give the run another name, such as -o run.")


def variable_of(run: State, namespace: Mapping[str, Any]) -> str:
    """The variable that holds this run; "run" where none does."""
    held = (name for name, value in list(namespace.items()) if value is run and not name.startswith("_"))
    return next(held, "run")


def model_named(word: str, namespace: Mapping[str, Any]) -> Any:
    """What `-m` names: "local", the value of a variable, else the name of a model.

    Raises:
        UsageError: It is no variable, but like the name of one, and as a model of OpenAI it could not be asked.
    """
    if word == LOCAL or word in namespace or not word.isidentifier():
        return word if word == LOCAL else namespace.get(word, word)
    hint = did_you_mean(word, [LOCAL, *models_of(namespace)])
    if hint and not any(map(settings.get, ("OPENAI_API_KEY", "OPENAI_BASE_URL"))):
        what = f"-m {word!r}: this notebook has no variable of that name"
        raise UsageError(what, remedy=f"{hint.strip()} For a model of that name write -m openai:{word}.")
    return word


def models_of(namespace: Mapping[str, Any]) -> list[str]:
    """The variables that hold a model, the name of one, or a function of the notebook, which may stand for one."""
    return [name for name, value in list(namespace.items()) if not name.startswith("_") and _is_model(value)]


def _is_model(value: Any) -> bool:
    if isinstance(value, str):
        return value.partition(":")[0] in known_providers()
    if callable(value) and not isinstance(value, type | Tool) and getattr(value, "__module__", "") == "__main__":
        return True
    return callable(getattr(value, "reply", None)) and not isinstance(value, type)


def text_of(word: str | None, namespace: Mapping[str, Any]) -> str:
    """A text given on a magic line: the value of a variable of that name, else the words themselves."""
    if word is None:
        return ""
    value = namespace.get(word) if word.isidentifier() else None
    return value if isinstance(value, str) else word


def model_name(model: Any) -> str:
    """What a model is called, for a reader."""
    if model is None or isinstance(model, str):
        return model or "chosen by the environment"
    return str(getattr(model, "name", None) or getattr(model, "__name__", type(model).__name__))
