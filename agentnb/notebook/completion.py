"""Completion of our magic lines: commands, options and their values, from what the notebook holds.

`complete` is plain: the text before the cursor and the notebook's variables in, words out. `matcher_for` wraps it for
IPython's completer, which JupyterLab asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.middleware.breaking import FAULTS
from agentnb.models.catalog import known_providers
from agentnb.notebook.commands import COMMANDS, RECORDING_MODES
from agentnb.notebook.names import models_of, tools_of
from agentnb.notebook.options import PLANNERS, SHOW
from agentnb.notebook.prompt_cells import GOAL, Prompt

IDENTIFIER = "agentnb"
_LINE = re.compile(r"[ \t]*%agent[ \t]+(.*)")
_CELL = re.compile(r"%%(agent|compare|prompt)[ \t]+(.*)")
_SEVERAL = ("model", "tools", "prompt", "planner", "models", "planners", "faults")
"""Options whose words stand with commas between."""
Space = Mapping[str, Any]


def complete(before: str, space: Space, options: Mapping[str, Mapping[str, str]]) -> tuple[str, list[str]] | None:
    """What the word at the cursor may become.

    Args:
        before: The cell up to the cursor.
        space: The notebook's variables.
        options: Magic ("agent", "compare") to its options: "--model" to the name under which it is kept.

    Returns:
        The part of the word that is replaced, and what may stand there; None on a line that is not ours.
    """
    line = before.rpartition("\n")[2]
    if found := _LINE.fullmatch(line):
        words, part = _words(found[1])
        return part, _fitting(part, _of_command(words, part, space, options["agent"]))
    if (found := _CELL.fullmatch(line)) and line == before:
        words, part = _words(found[2])
        known = options.get(found[1], {})
        return _with_commas(words, part, known, _of_options(words, part, space, known))
    return None


def _words(text: str) -> tuple[list[str], str]:
    """The finished words, and the one at the cursor."""
    words = text.split()
    return (words, "") if not words or text[-1].isspace() else (words[:-1], words[-1])


def _fitting(part: str, words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.startswith(part) and word != part]


def _with_commas(words: list[str], part: str, known: Mapping[str, str], found: Iterable[str]) -> tuple[str, list[str]]:
    """Where words stand with commas between, only the last of them is replaced, and none is offered twice."""
    earlier, comma, last = part.rpartition(",")
    if comma and words and known.get(words[-1]) in _SEVERAL:
        taken = earlier.split(",")
        return last, [word for word in _fitting(last, found) if word not in taken]
    return part, _fitting(part, found)


def _of_options(words: list[str], part: str, space: Space, known: Mapping[str, str]) -> Iterable[str]:
    """Values after an option, else the options that are not there yet."""
    if words and words[-1] in known:
        return VALUES.get(known[words[-1]], _nothing)(space, words)
    given = {known[word] for word in words if word in known} - {"set"}
    return [option for option, name in known.items() if option.startswith("--") and name not in given]


def _of_command(words: list[str], part: str, space: Space, known: Mapping[str, str]) -> Iterable[str]:
    if not words:
        return COMMANDS
    command = words[0]
    if command in ("resume", "panel", "rerun") and (part.startswith("-") or words[-1] in known or len(words) > 1):
        return _of_options(words, part, space, known)
    if command == "fork" and part.startswith("-"):
        return ("--at", "--state", "--out")
    return ARGUMENTS.get(command, _nothing)(space, words)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _held(kind: Any) -> Callable[[Space, list[str]], list[str]]:
    """The variables that hold such a value."""
    return lambda space, words: [name for name, value in _variables(space) if isinstance(value, kind)]


def _variables(space: Space) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in list(space.items()) if not name.startswith("_")]


def _models(space: Space, words: list[str]) -> list[str]:
    return [*models_of(space), "local", *(f"{provider}:" for provider in known_providers())]


def _planners(space: Space, words: list[str]) -> list[str]:
    own = [
        name
        for name, value in _variables(space)
        if callable(getattr(value, "plan", None)) and not isinstance(value, type)
    ]
    return [*PLANNERS, *own]


def _tools(space: Space, words: list[str]) -> list[str]:
    return [tool.spec.name for tool in tools_of(space)]


def _parameters(space: Space, words: list[str]) -> list[str]:
    """What the tool on the line still may be given: "city="."""
    given = {word.partition("=")[0] for word in words[2:]}
    named = [tool for tool in tools_of(space) if tool.spec.name == words[1]]
    names = [name for tool in named for name in tool.spec.parameters.get("properties", {})]
    return [f"{name}=" for name in names if name not in given]


def _set(space: Space, words: list[str]) -> list[str]:
    """The variables of the prompts on the line."""
    named = words[words.index("--prompt") + 1].split(",") if "--prompt" in words[:-1] else []
    prompts = [value for name in named if isinstance(value := space.get(name), Prompt)]
    return [f"{name}=" for prompt in prompts for name in prompt.variables if name != GOAL]


def _nothing(space: Space, words: list[str]) -> list[str]:
    return []


VALUES: dict[str, Callable[[Space, list[str]], Iterable[str]]] = {
    "model": _models,
    "models": _models,
    "tools": lambda space, words: [*_tools(space, words), "none"],
    "out": _held(State),
    "start": _held(State),
    "agent": _held(Agent),
    "planner": _planners,
    "planners": _planners,
    "prompt": _held(Prompt),
    "set": _set,
    "system_prompt": _held(str),
    "system_prompts": _held(str),
    "examples": _held(list | tuple),
    "faults": lambda space, words: [*FAULTS],
    "show": lambda space, words: [*SHOW],
    "scorer": lambda space, words: [],
}
"""Name of an option to what may follow it."""
ARGUMENTS: dict[str, Callable[[Space, list[str]], Iterable[str]]] = {
    "model": _models,
    "help": lambda space, words: COMMANDS if len(words) == 1 else [],
    "tool": _tools,
    "try": lambda space, words: _tools(space, words) if len(words) == 1 else _parameters(space, words),
    "resume": _held(State),
    "rerun": _held(State),
    "fork": _held(State),
    "show": _held(State),
    "plot": _held(State),
    "diff": _held(State),
    "loop": _held(State),
    "panel": _held(Agent | State),
    "recording": lambda space, words: [*RECORDING_MODES] if len(words) > 1 else ["off"],
    "doctor": lambda space, words: _models(space, words) if words[-1] in ("-m", "--model") else ["--model"],
}
"""Command to what may follow it."""


# ── for IPython ──────────────────────────────────────────────────────────────────────────────────────────────────────


def matcher_for(space: Space, options: Mapping[str, Mapping[str, str]]) -> Any:
    """A matcher for `Completer.custom_matchers`."""

    @context_matcher(identifier=IDENTIFIER)  # type: ignore[untyped-decorator]
    def match(context: Any) -> dict[str, Any]:
        before = "\n".join([*context.full_text.split("\n")[: context.cursor_line], context.text_until_cursor])
        part, words = complete(before, space, options) or ("", [])
        words = words or [part][: bool(part)]  # a word that is whole: nothing of Python's belongs there
        found = [SimpleCompletion(word, type="agentnb") for word in words]
        return {"completions": found, "matched_fragment": part, "suppress": bool(found)}

    return match


def options_of(magic: Any) -> dict[str, str]:
    """Each option of a magic, with the name under which its value is kept."""
    actions = magic.parser._actions  # argparse has no public list of them
    return {option: action.dest for action in actions for option in action.option_strings}
