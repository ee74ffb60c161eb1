"""The same goal by several agents in one cell: one table, each row open to its steps.

Agents with the same model run one after the other, so a scripted model and a rate limit see a steady order; different
models run at the same time. While they run, a live front end shows one table; at the end there is one ordinary output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.errors import AgentInterrupted, AgentnbError, UsageError
from agentnb.notebook.bounds import RECORD_BYTES, escaped, shown
from agentnb.notebook.follow import CellWork
from agentnb.notebook.live import Progress, publish
from agentnb.notebook.render import Block, run_blocks
from agentnb.notebook.render_html import block, details, lead, quiet, table
from agentnb.notebook.render_text import table as text_table
from agentnb.notebook.words import UNKNOWN, brief, count, stop_words
from agentnb.records.diff import diff
from agentnb.records.notebook_runs import run_record
from agentnb.text import counted

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics

_HEADS = ("which", "ended", "steps", "tool calls", "tokens", "cost", "answer", "beside the first")
_WORDS = (True, True, False, False, False, False, True, True)


@dataclass
class Variant:
    """One of the agents, and how far its run has come."""

    label: str
    agent: Agent
    state: State
    model: str
    """The word for its model, by which they are put in line."""
    problem: str = ""
    """The error that ended it, when it was one."""
    begun: bool = False
    progress: Progress = field(default_factory=Progress)


class SideBySide(CellWork):
    """What a `%%agent` cell with several models, prompts or planners does.

    Args:
        magics: Gets the newest States.
        variants: Each with its agent and start.
        out: The variable that holds a dict of label to run, or None.
        show: "steps", "answer" or "none".
    """

    def __init__(self, magics: AgentMagics, variants: Sequence[Variant], out: str | None, show: str) -> None:
        super().__init__(magics)
        self.variants = variants
        self.out = out
        self.depth = show
        self._keep()

    async def work(self, live: bool) -> None:
        """Run them all; each keeps its newest State whatever stops it."""
        models = dict.fromkeys(each.model for each in self.variants)
        lines = [[each for each in self.variants if each.model == model] for model in models]
        await asyncio.gather(*(self._run_line(line, live) for line in lines))

    async def _run_line(self, line: Iterable[Variant], live: bool) -> None:
        for each in line:
            each.begun = True
            try:
                await self._run(each, live)
            except AgentnbError as error:
                each.problem = f"{type(error).__name__}: {error}"

    async def _run(self, each: Variant, live: bool) -> None:
        listeners = [each.progress] if live else []
        async with aclosing(each.agent.states(each.state, listeners=listeners)) as made:
            async for state in made:
                each.state = state
                self._keep()

    def _keep(self) -> None:
        if self.out:
            self.magics.shell.user_ns[self.out] = {each.label: each.state for each in self.variants}

    def status(self) -> str:
        """The table while they run."""
        rows = [[escaped(each.label), str(each.state.counters.steps), escaped(_doing(each))] for each in self.variants]
        return block(table(("which", "steps", "now"), rows, lambda column: column != 1))

    def end(self) -> None:
        """Show the table.

        Raises:
            UsageError: One of them failed; its row says why.
        """
        self.magics.previous, self.magics.last = self.variants[-2].state, self.variants[-1].state
        if self.depth != "none":
            total = self.magics.preferences.output_bytes
            record = min(RECORD_BYTES, total // 4)
            made = table_block(self.variants, self.out or "runs", total - record if self.depth == "steps" else 0)
            publish(replace(made, metadata={"agentnb": {"runs": records(self.variants, record)}}))
        failed = [each for each in self.variants if each.problem]
        if failed:
            what = f"{len(failed)} of {len(self.variants)} could not run; {failed[0].label}: {failed[0].problem}"
            raise UsageError(what, remedy="The table holds the others.")

    def interrupted(self) -> AgentInterrupted:
        """What to tell after an interrupt."""
        name = self.out or "a dict (give it a name with -o NAME)"
        return AgentInterrupted(f"the runs are kept in {name}", self.variants[0].state)


def _doing(each: Variant) -> str:
    if each.problem or each.state.finished:
        return _ended(each)
    return each.progress.doing if each.begun else "waits"


def _ended(each: Variant) -> str:
    return brief(each.problem, 200) if each.problem else brief(stop_words(each.state), 80) if each.begun else "not run"


def table_block(variants: Sequence[Variant], name: str, total: int) -> Block:
    """The runs beside each other; below the table each run, collapsed.

    Args:
        variants: In the order of the line.
        name: The variable that holds the dict of runs.
        total: Bytes for the runs, all together; 0 leaves them out.
    """
    rows = [[shown(text) for text in _row(each, variants[0])] for each in variants]
    html = table(_HEADS, [[escaped(text) for text in row] for row in rows], lambda column: _WORDS[column])
    text = text_table(_HEADS, rows, _WORDS)
    one_goal = len({each.state.goal for each in variants}) == 1
    title = f"{counted(len(variants), 'run')} {'of the same goal' if one_goal else 'side by side'}"
    inner, outer = [], []
    for each in variants if total else ():
        blocks = run_blocks(each.state, total // len(variants), f"{name}[{each.label!r}]")
        inner.append(details(lead(f"{each.label} · {_ended(each)}"), "".join(made.html for made in blocks)))
        outer.append("\n\n".join([f"── {shown(each.label)} ──", *(made.text for made in blocks)]))
    where = f"Each run is in {name}, by its name: {name}[{variants[0].label!r}]."
    made = f"<div>{lead(title)}</div>{html}{''.join(inner)}{quiet(where)}"
    return Block(block(made), "\n\n".join([f"{title}\n{text}", *outer, shown(where)]))


def records(variants: Sequence[Variant], room: int) -> list[dict[str, Any]]:
    """The runs themselves, at most about `room` bytes together, so that `load` finds them in the saved notebook."""
    return [run_record(each.state, room // len(variants)) for each in variants if each.begun]


def _row(each: Variant, first: Variant) -> list[str]:
    used, cost = each.state.counters, each.state.counters.cost
    price = UNKNOWN if cost is None else f"${cost:.4f}"
    numbers = [str(used.steps), str(used.tool_calls), count(used.usage.total), price]
    return [each.label, _ended(each), *numbers, brief(each.state.answer or "", 160), _beside(each, first)]


def _beside(each: Variant, first: Variant) -> str:
    """Where the run parts from the first one, in a line."""
    if each is first:
        return ""
    told = str(diff(first.state, each.state, names=("first", "this"))).split("\n")[0]
    return brief(told.removeprefix("first and this "), 160)
