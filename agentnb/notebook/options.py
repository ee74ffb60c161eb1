"""From the words of a magic line to an Agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from keyword import iskeyword
from typing import Any

from IPython.core.error import UsageError as IPythonUsageError
from IPython.core.magic_arguments import parse_argstring

from agentnb.agent import Agent
from agentnb.core.limits import Limits
from agentnb.errors import UsageError
from agentnb.notebook.names import chosen_tools, text_of

_MARKER = re.compile(r"#\s*NBVAL_\w+\s*")
SHOW = ("steps", "answer", "none")


def parse(magic: Any, line: str) -> Any:
    """The options of a magic line.

    Raises:
        UsageError: An option is unknown or lacks its value. (IPython's own error of that name would leave a cell green
            in a test run.)
    """
    try:
        options = parse_argstring(magic, line)
    except IPythonUsageError as error:
        raise UsageError(f"%%agent: {error}", remedy="%%agent? shows every option.") from None
    except ValueError as error:
        raise UsageError(f"%%agent: {error} in {line!r}", remedy="Close the quote.") from None
    for name, value in vars(options).items():
        if isinstance(value, str):
            setattr(options, name, _unquoted(value))
    if options.show not in SHOW:
        raise UsageError(f"--show {options.show!r} is not known", remedy=f"Use one of {', '.join(SHOW)}.")
    if options.out and (not options.out.isidentifier() or iskeyword(options.out)):
        raise UsageError(f"--out {options.out!r} can't be a variable", remedy="Use a name such as run.")
    return options


def _unquoted(word: str) -> str:
    """Without the pair of quotes that holds words together on a magic line, which IPython leaves on."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def without_markers(cell: str) -> str:
    """The body as it stands, but for marker lines of notebook tests and one final line end."""
    lines = [line for line in cell.split("\n") if not _MARKER.fullmatch(line)]
    return "\n".join(lines).removesuffix("\n")


def assemble(options: Any, model: Any, space: Mapping[str, Any], base: Agent | None = None) -> Agent:
    """The Agent that the options describe: that of `--agent` (or `base`) with changes, or a new one.

    Args:
        options: From `parse`.
        model: The notebook's default model.
        space: The notebook's variables.
        base: What a run that goes on was made with.
    """
    base = _base(options.agent, space) or base
    changes: dict[str, Any] = {}
    if options.model or base is None:
        changes["model"] = _named(options.model, ("local",), space) if options.model else model
    if options.tools is not None or base is None:
        changes["tools"] = chosen_tools(options.tools, space)
    if options.planner:
        changes["planner"] = _named(options.planner, ("tools", "json"), space)
    if options.steps is not None:
        steps = _number(options.steps, "--steps", int)
        changes["limits"] = replace(base.limits, steps=steps) if base and base.limits else Limits(steps=steps)
    if options.temperature is not None:
        given = {"temperature": _number(options.temperature, "--temperature", float)}
        changes["parameters"] = {**(base.parameters if base else {}), **given}
    if options.system_prompt:
        changes["system_prompt"] = text_of(options.system_prompt, space)
    if options.examples:
        changes["examples"] = _variable(options.examples, "--examples", space)
    return base.replace(**changes) if base is not None else Agent(**changes)


def _base(name: str | None, space: Mapping[str, Any]) -> Agent | None:
    if name is None:
        return None
    value = space.get(name)
    if not isinstance(value, Agent):
        raise UsageError(f"--agent: {name!r} holds no Agent", remedy=f"Define it first: {name} = Agent(...)")
    return value


def _named(word: str, own: tuple[str, ...], space: Mapping[str, Any]) -> Any:
    """A word of ours as it is; else the value of a variable of that name; else the word."""
    return word if word in own else space.get(word, word)


def _variable(name: str, option: str, space: Mapping[str, Any]) -> Any:
    if name not in space:
        raise UsageError(f"{option}: there is no variable {name!r}", remedy="Define it in a cell above.")
    return space[name]


def _number(word: str, option: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(word)
    except ValueError as error:
        raise UsageError(f"{option} {word!r} is not a number", remedy=f"Write {option} 5.") from error
