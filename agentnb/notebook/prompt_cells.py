"""`%%prompt NAME`: a text with named variables, kept in the variable NAME with its version.

    %%prompt ask                          %%agent --prompt ask --set city=Oslo
    How warm is it in {{city}}?

A variable of the text is a name between double braces. Its value comes from `--set` or from the notebook's variable of
that name; only these places are touched, once, so what is put in is never read again. `{{goal}}` is the text of the
cell that uses the prompt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentnb.errors import UsageError
from agentnb.notebook.bounds import shown
from agentnb.notebook.changed import changed_lines
from agentnb.notebook.live import publish
from agentnb.notebook.options import check_variable, split, without_markers
from agentnb.notebook.render import Block
from agentnb.notebook.render_html import block, details, lead, pre
from agentnb.text import did_you_mean

GOAL = "goal"
USAGE = "%%prompt NAME"
_VARIABLE = re.compile(r"\{\{([^\W\d]\w*)\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of the notebook."""

    name: str
    text: str
    version: str = ""
    """`name@count·hash`; the count is the place of this text among those that the name has had."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The names between double braces, each once, in order."""
        return tuple(dict.fromkeys(_VARIABLE.findall(self.text)))

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with every variable replaced, in one pass.

        Raises:
            UsageError: A variable has no value.
        """
        missing = [name for name in self.variables if name not in values]
        if missing:
            what = f"prompt {self.name!r} needs {', '.join(missing)}"
            remedy = f"Write --set {missing[0]}=..., or define the variable {missing[0]} in a cell above."
            raise UsageError(what, remedy=remedy)
        return _VARIABLE.sub(lambda match: values[match[1]], self.text)


def define_prompt(shell: Any, versions: dict[str, list[str]], line: str, body: str) -> None:
    """Keep the body as the prompt that the line names, and show its version, variables and changes.

    Args:
        shell: The notebook's.
        versions: Prompt name to the hashes that it has had; grows.
        line: The name.
        body: The text; kept as it is, but for test markers and one final line end.

    Raises:
        UsageError: The line holds no name, the name is taken by something else, or the body is empty.
    """
    words, text = split(line), without_markers(body)
    if len(words) != 1:
        raise UsageError(f"{USAGE} takes one name", remedy="Write %%prompt ask above the text.")
    if not text.strip():
        raise UsageError(f"prompt {words[0]!r} is empty", remedy="Write its text below the line.")
    name = check_variable(words[0], "%%prompt ")
    before = shell.user_ns.get(name)
    if before is not None and not isinstance(before, Prompt | str):
        raise UsageError(f"{name!r} holds {type(before).__name__}", remedy="Give the prompt a name of its own.")
    made = Prompt(name, text, _stamp(name, text, versions.setdefault(name, [])))
    shell.user_ns[name] = made
    publish(describe(made, before if isinstance(before, Prompt) else None))


def _stamp(name: str, text: str, hashes: list[str]) -> str:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
    if digest not in hashes:
        hashes.append(digest)
    return f"{name}@{hashes.index(digest) + 1}·{digest}"


def describe(made: Prompt, before: Prompt | None) -> Block:
    """A prompt with its variables and what changed since the version before it."""
    news = "new" if before is None else "unchanged" if before.text == made.text else "changed"
    names = ", ".join(made.variables) or "none"
    title = f"prompt {made.name} · {made.version.rpartition('·')[2]} ({news}) · variables: {names}"
    changes = changed_lines(before.text if before else made.text, made.text)
    inner = pre(made.text) + (pre("\n".join(changes)) if changes else "")
    text = "\n".join([shown(title), *(f"  {shown(line)}" for line in changes or made.text.split("\n"))])
    return Block(block(details(lead(title), inner)), text)


# ── in a %%agent cell ────────────────────────────────────────────────────────────────────────────────────────────────


def prompt_named(name: str, space: Mapping[str, Any]) -> Prompt:
    """The prompt, or the plain text, that a variable holds.

    Raises:
        UsageError: It holds neither.
    """
    value = space.get(name)
    if isinstance(value, str):
        return Prompt(name, value)
    if isinstance(value, Prompt):
        return value
    known = [key for key, each in list(space.items()) if isinstance(each, Prompt)]
    remedy = f"The prompts of this notebook: {', '.join(known) or 'none yet'}.{did_you_mean(name, known)}"
    raise UsageError(f"--prompt: nothing is named {name!r}", remedy=remedy)


def filled(prompt: Prompt, body: str, given: Mapping[str, str], space: Mapping[str, Any]) -> tuple[str | None, str]:
    """What a prompt makes of a cell: a system prompt or None, and the goal.

    A prompt with `{{goal}}` is the goal, with the body in that place. One without it is the goal of a cell without a
    body; where there is a body, it is the system prompt.

    Raises:
        UsageError: A variable has no value, or one that is no text and no number.
    """
    values = {name: given[name] if name in given else _value(name, space) for name in prompt.variables if name != GOAL}
    known = {name: value for name, value in values.items() if value is not None}
    if GOAL in prompt.variables:
        return None, prompt.fill({**known, **({GOAL: body} if body.strip() else {})})
    text = prompt.fill(known)
    return (text, body) if body.strip() else (None, text)


def _value(name: str, space: Mapping[str, Any]) -> str | None:
    """The notebook's variable as text; None when there is none."""
    value = space.get(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    what = f"variable {name!r} holds {type(value).__name__}, expected a text or a number"
    raise UsageError(what, remedy=f"Write --set {name}=..., or make a text of it in a cell above.")


def set_values(words: Sequence[str] | None) -> dict[str, str]:
    """What `--set city=Oslo --set days=3` gives.

    Raises:
        UsageError: A word has no "=", or a name is set twice.
    """
    found: dict[str, str] = {}
    for word in words or ():
        name, sign, value = word.partition("=")
        if not sign or not name.isidentifier() or name in found or name == GOAL:
            twice = "is set twice" if name in found else "sets nothing"
            raise UsageError(f"--set {word!r} {twice}", remedy='Write --set city=Oslo, or --set "city=New York".')
        found[name] = value
    return found


def check_used(given: Mapping[str, str], prompts: Sequence[Prompt]) -> None:
    """Every name that was set is a variable of one of the prompts.

    Raises:
        UsageError: One is not.
    """
    names = [name for prompt in prompts for name in prompt.variables if name != GOAL]
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        told = ", ".join(dict.fromkeys(names)) or "none"
        what = f"--set {unknown}: no prompt of this cell has such a variable"
        raise UsageError(what, remedy=f"The variables: {told}.{did_you_mean(unknown, names)}")
