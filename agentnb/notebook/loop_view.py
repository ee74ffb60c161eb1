"""The loop at one State, to be looked at: `loop_view(run)`, `loop_view(run.at(2))`, `%agent loop NAME`.

    the state machine      its nodes, how often each was entered, and the one that is lit
    the message stack      one row per request: what was new in it, and a bar of all that was sent
    what changed           between this State and the one before it, or another one

A State in, one `LoopView` out: HTML and the same account as text, both bounded, and the same bytes for the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentnb.core.messages import Message
from agentnb.core.model import Prompt
from agentnb.core.state import State, Step
from agentnb.errors import UsageError
from agentnb.notebook.bounds import escaped, shown
from agentnb.notebook.forks import earlier
from agentnb.notebook.names import run_named
from agentnb.notebook.options import sort_words
from agentnb.notebook.panel_views import PHASES, machine_html, phase_of, visits_of
from agentnb.notebook.render import Block
from agentnb.notebook.render_html import bar, block, lead, quiet, table
from agentnb.notebook.render_text import table as text_table
from agentnb.notebook.state_changes import Change, changes, said
from agentnb.notebook.words import UNKNOWN, count
from agentnb.text import counted

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics

USAGE = "%agent loop [NAME] [OTHER] [--at STEP | --state NUMBER]"
TOKENS = "prompt tokens, as the provider reported them"
CHARACTERS = "characters of the messages, since no prompt tokens were reported"
_HEADS = ("request", "new in it", "messages", "size", "")
_CHANGE_HEADS = ("what", "before", "after")
_FIRST_ROWS = 3
_MOST_ROWS = 30
_MOST_NEW = 3
_BAR_CHARACTERS = 24


class LoopView(Block):
    """The view; the last value of a cell shows itself, and `print` shows its text."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, as a layer of the stack."""

    label: str
    """The number of its step; for what was not sent yet, words."""
    new: str
    """The messages that no request before it held, in one line."""
    messages: int
    size: int | None
    """Tokens or characters of all of it; None where the provider said nothing."""
    grown: int = 0
    """How much of `size` was not in the request before."""


def loop_view(run: State, before: State | None = None) -> LoopView:
    """The loop as it stands at a State.

    Args:
        run: Any State: the end of a run, or `run.at(2)`.
        before: The State to compare it with; None: the one before it.

    Raises:
        UsageError: One of them is no State.
    """
    wrong = next((each for each in (run, before or run) if not isinstance(each, State)), None)
    if wrong is not None:
        what = f"a loop is seen at a State, not at {type(wrong).__name__}"
        raise UsageError(what, remedy="loop_view(run), or loop_view(run.at(2))")
    stack, unit = stack_of(run)
    compared = before or run.parent
    changed = changes(compared, run) if compared is not None else ()
    return LoopView(_html(run, stack, unit, changed), _text(run, stack, unit, changed))


def loop_command(magics: AgentMagics, words: list[str]) -> None:
    """`%agent loop [NAME] [OTHER] [--at STEP | --state NUMBER]`: the newest run, or NAME; compared with OTHER.

    Raises:
        UsageError: There is no such run, or no such place in it.
    """
    from IPython.display import display

    alone, options = sort_words(words, ("--at", "--state"), USAGE)
    if len(alone) > 2 or len(options) > 1:
        raise UsageError("%agent loop takes a run, perhaps one to compare it with, and one place", remedy=USAGE)
    runs = [run_named(name, magics.shell.user_ns) for name in alone]
    if not runs and magics.last is None:
        raise UsageError("there is no run to look at yet", remedy="Run a %%agent cell first.")
    run = runs[0] if runs else magics.last
    assert run is not None
    display(loop_view(earlier(run, options.get("--at"), options.get("--state")), runs[1] if runs[1:] else None))


# ── the stack ────────────────────────────────────────────────────────────────────────────────────────────────────────


def stack_of(run: State) -> tuple[list[Sent | None], str]:
    """Each request as a layer, and what its size counts: TOKENS, or CHARACTERS where no provider reported any.

    Of many requests the first and the newest are told; None stands for those between. A last layer holds what no
    request has sent yet.
    """
    steps = run.steps
    by_tokens = any(step.usage and step.usage.input is not None for step in steps)
    lengths: dict[int, list[int]] = {}
    layers: list[Sent | None] = []
    last = None
    for place, step in enumerate(steps):
        if place < _FIRST_ROWS or place >= len(steps) - (_MOST_ROWS - _FIRST_ROWS):
            layer = _layer(str(step.number), last, _asked_from(step), step if by_tokens else None, lengths)
            layers.append(_grown(layer, layers))
        elif place == _FIRST_ROWS:
            layers.append(None)
        last = _asked_from(step)
    if last is None or last.prompt is not run.prompt or last.end < run.end:
        left = _layer("not sent yet", last, run, None, lengths)
        layers.append(replace(left, size=None) if by_tokens else _grown(left, layers))
    return layers, TOKENS if by_tokens else CHARACTERS


def _asked_from(step: Step) -> State:
    return step.plan.parent or step.plan


def _layer(label: str, last: State | None, state: State, step: Step | None, lengths: dict[int, list[int]]) -> Sent:
    """The layer of a request that was made from `state`, the one before it from `last`."""
    new = state.prompt.items[last.end if last and last.prompt is state.prompt else 0 : state.end]
    told = "; ".join(f"{message.role}: {said(message)}" for message in new[:_MOST_NEW])
    more = f"; and {counted(len(new) - _MOST_NEW, 'more message')}" if len(new) > _MOST_NEW else ""
    compacted = "a new, shorter prompt: " if last and last.prompt is not state.prompt and state.end <= last.end else ""
    size = _characters(state, lengths) if step is None else step.usage.input if step.usage else None
    return Sent(label, (compacted + told + more) or "nothing", state.end, size)


def _characters(state: State, lengths: dict[int, list[int]]) -> int:
    """The characters of a State's prompt; sums are kept for each shared list of messages."""
    sums = lengths.get(id(state.prompt))
    if sums is None or len(sums) <= state.end:
        sums = lengths[id(state.prompt)] = _sums(state.prompt)
    return sums[state.end]


def _sums(prompt: Prompt) -> list[int]:
    sums = [0]
    for message in prompt.items:
        sums.append(sums[-1] + _length(message))
    return sums


def _length(message: Message) -> int:
    return len(message.content or "") + sum(len(call.name) + len(call.arguments) for call in message.calls)


def _grown(layer: Sent, layers: Sequence[Sent | None]) -> Sent:
    """The layer, with how much larger it is than the newest known one below it."""
    known = next((each.size for each in reversed(layers) if each is not None and each.size is not None), 0)
    grown = max(0, layer.size - known) if layer.size is not None else 0
    return replace(layer, grown=grown)


# ── drawn ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _legend(unit: str) -> str:
    return f"Size in {unit}; the strong part of a bar was new in that request."


def _title(run: State) -> str:
    return f"The loop · State {len(run.path())} · after {counted(run.counters.steps, 'step')}"


def _html(run: State, stack: Sequence[Sent | None], unit: str, changed: Sequence[Change]) -> str:
    parts = [f"<div>{lead(_title(run))}</div>", machine_html(phase_of(run), visits_of(run))]
    parts += [f"<div>{lead('The message stack')}</div>", _stack_html(stack), quiet(_legend(unit))]
    if changed:
        rows = [[escaped(cell) for cell in (each.what, each.before, each.after)] for each in changed]
        parts += [f"<div>{lead('What changed')}</div>", table(_CHANGE_HEADS, rows, lambda column: True)]
    return block("".join(parts))


def _stack_html(stack: Sequence[Sent | None]) -> str:
    most = _most(stack)
    rows = [
        [*map(escaped, _cells(each)), _bar_html(each, most)] if each else ["…", *map(escaped, _gap(stack)), "", "", ""]
        for each in stack
    ]
    return table(_HEADS, rows, lambda column: column in (1, 4))


def _bar_html(layer: Sent, most: int) -> str:
    if layer.size is None:
        return ""
    return bar([(100 * (layer.size - layer.grown) / most, 0.35), (100 * layer.grown / most, 0.85)])


def _text(run: State, stack: Sequence[Sent | None], unit: str, changed: Sequence[Change]) -> str:
    most = _most(stack)
    rows = [[*_cells(each), _bar_text(each, most)] if each else ["…", *_gap(stack), "", "", ""] for each in stack]
    lines = [_title(run), f"  {_machine_text(run)}", "", "The message stack"]
    lines += [text_table(_HEADS, rows, (False, True, False, False, True)), f"  {_legend(unit)}"]
    if changed:
        told = [(each.what, each.before, each.after) for each in changed]
        lines += ["", "What changed", text_table(_CHANGE_HEADS, told, (True, True, True))]
    return shown("\n".join(lines))


def _machine_text(run: State) -> str:
    visits, lit = visits_of(run), phase_of(run)
    names = (f"{'▶ ' if each == lit else ''}{each}{f' ×{visits[each]}' if visits.get(each) else ''}" for each in PHASES)
    return " → ".join(names) + " ⟲"


def _bar_text(layer: Sent, most: int) -> str:
    if layer.size is None:
        return ""
    whole = round(_BAR_CHARACTERS * layer.size / most)
    new = min(whole, max(round(_BAR_CHARACTERS * layer.grown / most), layer.grown > 0))
    return "░" * (whole - new) + "█" * new


def _cells(layer: Sent) -> list[str]:
    size = UNKNOWN if layer.size is None else count(layer.size)
    return [layer.label, shown(layer.new), str(layer.messages), size]


def _gap(stack: Sequence[Sent | None]) -> Iterator[str]:
    numbers = [int(each.label) for each in stack if each is not None and each.label.isdecimal()]
    yield f"{counted(numbers[-1] - len(numbers), 'request')} left out"


def _most(stack: Sequence[Sent | None]) -> int:
    return max((each.size or 0 for each in stack if each is not None), default=0) or 1
