"""From the words of a magic line to an Agent."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from keyword import iskeyword
from typing import Any

from IPython.core.error import UsageError as IPythonUsageError

from agentnb.agent import Agent
from agentnb.core.limits import Limits
from agentnb.errors import UsageError
from agentnb.middleware.breaking import Breaking
from agentnb.notebook.names import chosen_tools, model_named, text_of
from agentnb.notebook.tool_history import with_newest_tools
from agentnb.text import did_you_mean

_MARKER = re.compile(r"#\s*NBVAL_\w+\s*")
PLANNERS = ("tools", "json", "you")
SHOW = ("steps", "answer", "none")
LIMITS: dict[str, Callable[[str], Any]] = {
    "steps": int,
    "tokens": int,
    "cost": float,
    "seconds": float,
    "tool_calls": int,
}
"""The limits that have an option of their own, each with the kind of its number."""


def parse(magic: Any, line: str) -> Any:
    """The options of a magic line.

    Raises:
        UsageError: An option is unknown, lacks its value or has one that makes no sense.
    """
    options = parsed(magic, line, "%%agent")
    if options.show not in (None, *SHOW):
        remedy = f"Use one of {', '.join(SHOW)}.{did_you_mean(options.show, SHOW)}"
        raise UsageError(f"--show {options.show!r} is not known", remedy=remedy)
    if options.out:
        check_variable(options.out)
    return options


def parsed(magic: Any, line: str, name: str) -> Any:
    """The words of a line as the magic's parser reads them.

    Raises:
        UsageError: An option is unknown or lacks its value. (IPython's own error of that name would leave a cell green
            in a test run.)
    """
    words = split(line)
    try:
        return magic.parser.parse_args(words)
    except IPythonUsageError as error:
        known = [option for action in magic.parser._actions for option in action.option_strings if option[:2] == "--"]
        unknown = [word.partition("=")[0] for word in words if word[:2] == "--" and word.partition("=")[0] not in known]
        hint = did_you_mean(unknown[0], known) if unknown else ""
        raise UsageError(f"{name}: {error}", remedy=f"{name}? shows every option.{hint}") from None


def check_variable(name: str, given_as: str = "--out ") -> str:
    """The name, if a variable can have it; `given_as` stands before it in the error.

    Raises:
        UsageError: It can't.
    """
    if not name.isidentifier() or iskeyword(name):
        raise UsageError(f"{given_as}{name!r} can't be a variable", remedy="Use a name such as run.")
    return name


def split(line: str) -> list[str]:
    """The words of a magic line. Quotes hold words together, also after `=`; so do the brackets of a JSON value there.

    A backslash is a letter like any other.

    Raises:
        UsageError: A quote is not closed.
    """
    try:
        return _words(_with_json_quoted(line))
    except ValueError as error:
        raise UsageError(f"{str(error).lower()} in {line!r}", remedy="Close the quote.") from None


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    return list(lexer)


def _with_json_quoted(line: str) -> str:
    told, at = "", 0
    for found in re.finditer(r"=(?=[\[{])", line):
        try:
            end = json.JSONDecoder().raw_decode(line, found.end())[1] if found.end() > at else 0
            if end and _words(line[: found.end()]):  # not inside quotes
                told, at = told + line[at : found.end()] + quoted(line[found.end() : end]), end
        except (ValueError, RecursionError):
            continue
    return told + line[at:]


def quoted(word: str) -> str:
    """The word as `split` reads it back."""
    if word and not re.search(r"""[\s'"]""", word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def sort_words(words: Sequence[str], options: Sequence[str], usage: str) -> tuple[list[str], dict[str, str]]:
    """The words of a command: those that stand alone, and the value of each option.

    Args:
        words: After the command's name.
        options: What is known, such as "--at"; each takes a value.
        usage: How the command is written, for the error.

    Raises:
        UsageError: An option is unknown, given twice, or lacks its value.
    """
    alone: list[str] = []
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            alone.append(word)
            continue
        value = next(rest, None)
        if word not in options or value is None or word in found:
            what = "stands there twice" if word in found else "lacks its value" if word in options else "is not known"
            hint = "" if word in options else did_you_mean(word, options)
            raise UsageError(f"{usage.partition(' [')[0]}: {word} {what}", remedy=f"{usage}.{hint}" if hint else usage)
        found[word] = value
    return alone, found


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
    if base is not None and not options.old_tools:
        base = with_newest_tools(base, space)
    changes: dict[str, Any] = {}
    if options.model or base is None:
        changes["model"] = model_named(options.model, space) if options.model else model
    if options.tools is not None or base is None:
        changes["tools"] = chosen_tools(options.tools, space, base.tools if base else ())
    if options.planner:
        changes["planner"] = _planner(options.planner, space)
    if options.temperature is not None:
        given = {"temperature": _number(options.temperature, "--temperature", float, space)}
        changes["parameters"] = {**(base.parameters if base else {}), **given}
    if options.system_prompt:
        changes["system_prompt"] = text_of(options.system_prompt, space)
    if options.examples:
        changes["examples"] = _examples(options.examples, space)
    if options.faults:
        changes["middleware"] = (*(base.middleware if base else ()), Breaking(*_listed(options.faults)))
    agent = Agent(**changes) if base is None else base.replace(**changes) if changes else base
    limits = limits_of(options, space)
    return agent.replace(limits=replace(agent.limits or Limits(), **limits)) if limits else agent


def _listed(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")]


def _base(name: str | None, space: Mapping[str, Any]) -> Agent | None:
    if name is None:
        return None
    value = space.get(name)
    if not isinstance(value, Agent):
        hint = did_you_mean(name, [key for key, each in list(space.items()) if isinstance(each, Agent)])
        raise UsageError(f"--agent: {name!r} holds no Agent", remedy=f"Define it first: {name} = Agent(...).{hint}")
    return value


def _planner(word: str, space: Mapping[str, Any]) -> Any:
    """A word of ours as it is, else the value of a variable of that name."""
    if word in PLANNERS or word in space:
        return word if word in PLANNERS else space[word]
    remedy = f"Use one of {', '.join(PLANNERS)}, or a variable that holds a planner.{did_you_mean(word, PLANNERS)}"
    raise UsageError(f"--planner {word!r} is not known", remedy=remedy)


def _examples(name: str, space: Mapping[str, Any]) -> Any:
    value = _variable(name, "--examples", space)
    if isinstance(value, list | tuple):
        return value
    what = f"--examples: {name!r} holds {type(value).__name__}, expected a list"
    raise UsageError(what, remedy=f'{name} = [(goal, [(tool, {{"argument": value}}, result)], answer), ...]')


def _variable(name: str, option: str, space: Mapping[str, Any]) -> Any:
    if name not in space:
        remedy = f"Define it in a cell above.{did_you_mean(name, list(space))}"
        raise UsageError(f"{option}: there is no variable {name!r}", remedy=remedy)
    return space[name]


def limits_of(options: Any, space: Mapping[str, Any]) -> dict[str, Any]:
    """The limits that the options name; "none" takes a limit away."""
    given = {name: getattr(options, name) for name in LIMITS if getattr(options, name) is not None}
    return {
        name: None if word == "none" else _number(word, f"--{name.replace('_', '-')}", LIMITS[name], space)
        for name, word in given.items()
    }


def _number(word: str, option: str, kind: Callable[[str], Any], space: Mapping[str, Any]) -> Any:
    """A number, or that of the variable of this name."""
    try:
        return kind(str(space.get(word, word)))
    except ValueError as error:
        raise UsageError(f"{option} {word!r} is not a number", remedy=f"Write {option} 5.") from error
