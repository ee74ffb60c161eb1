"""The panel at work: a press of a button becomes a run, one at a time, as a task of the loop that it is pressed in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from agentnb import bridge
from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.errors import AgentnbError
from agentnb.notebook.bounds import RECORD_BYTES
from agentnb.notebook.live import Progress
from agentnb.notebook.panel_actions import Action, action
from agentnb.notebook.panel_bench import Bench
from agentnb.notebook.panel_views import record_block
from agentnb.notebook.render import Block
from agentnb.notebook.render_html import quiet
from agentnb.records.notebook_runs import run_record
from agentnb.text import mask, shorten

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics

MOST_RECORDS = 40
"""JupyterLab shows only the first 50 outputs of a cell."""
_NO_MORE = "This panel has recorded enough; what it runs from here on is in its variables alone."


class PanelRun:
    """What the panel runs.

    Args:
        bench: What it has in hand.
        record: Called with the ordinary output of each run, when it has ended.
        magics: Told of the newest run, for `%agent plot` and its like.
    """

    def __init__(self, bench: Bench, record: Callable[[Block], None], magics: AgentMagics | None = None) -> None:
        self.bench = bench
        self.progress = Progress()
        self.problem: Sequence[str] = ()
        """The newest error, in lines."""
        self._in_text = False
        self.task: asyncio.Task[None] | None = None
        """The run that is on."""
        self.version = 0
        """Grows whenever there is something new to see."""
        self._record = record
        self._records = 0
        self._magics = magics
        self._loop: asyncio.AbstractEventLoop | None = None

    def press(self, button: str) -> asyncio.Task[None] | None:
        """Do what a button stands for; called in the loop. Returns the run that it started, if it did."""
        self.version += 1
        if self.task is not None:
            self.problem = ["A run is on: stop it first."]
            return None
        made = action(self.bench, button)
        self.problem, self._in_text = [made.problem] if made.problem else (), made.in_text
        if made.state is None:
            return None
        try:
            agent = self.bench.agent(made.words) if made.goes else None
        except AgentnbError as error:
            self.problem = error_lines(error)
            return None
        if agent is not None and self._magics is not None:
            self._magics.begin(agent, made.out, made.state)
        self._keep(made.out, made.state)
        self.bench.show(made.out)
        if agent is not None:
            self._loop = asyncio.get_running_loop()
            self.task = self._loop.create_task(self._go(made, agent))
        return self.task

    def stop(self) -> None:
        """End the run that is on, from any thread; it is kept and can be resumed."""
        if self.task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self.task.cancel)

    def written(self) -> None:
        """A field was changed: a problem that lay in one is told no longer."""
        if self._in_text:
            self.problem, self._in_text = (), False

    async def _go(self, made: Action, agent: Agent) -> None:
        self.progress = Progress(agent.planner)
        start = self.bench.runs[made.out]
        since = start.counters.steps - bool(start.open_calls)
        try:
            await bridge.together(self._follow(made, agent))
        except asyncio.CancelledError:  # Stop; the last State says so
            pass
        except Exception as error:
            self.problem = error_lines(error)
        finally:
            self.task = None
            self.version += 1
            self._write(made, since)

    async def _follow(self, made: Action, agent: Agent) -> None:
        async with aclosing(agent.states(self.bench.runs[made.out], listeners=[self.progress])) as states:
            async for state in states:
                self._keep(made.out, state)

    def _keep(self, name: str, state: State) -> None:
        self.bench.keep(name, state)
        if self._magics is not None:
            self._magics.last = state
        self.version += 1

    def _write(self, made: Action, since: int) -> None:
        self._records += 1
        if self._records < MOST_RECORDS:
            state = self.bench.runs[made.out]
            block = record_block(made, state, max(0, since))
            self._record(replace(block, metadata={"agentnb": {"run": run_record(state, RECORD_BYTES)}}))
        elif self._records == MOST_RECORDS:
            self._record(Block(quiet(_NO_MORE), _NO_MORE))


def error_lines(error: BaseException) -> list[str]:
    """An error as a cell would show it, at most four lines."""
    if isinstance(error, AgentnbError):
        return [type(error).__name__, f"{error.layer}: {error.message}", *filter(None, [error.remedy])]
    return [f"{type(error).__name__}: {shorten(mask(str(error)), 400)}"]
