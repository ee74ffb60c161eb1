"""The work of one cell: follow a run, keep its newest State, show each step, end well whatever happens."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from agentnb import bridge, settings
from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.errors import AgentInterrupted, AgentnbError
from agentnb.notebook.cells import stoppable
from agentnb.notebook.live import ControlBar, Progress, StepDisplays

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics


class CellWork:
    """What a cell does while it runs: derive and say what `work` is, what is shown meanwhile and at the end."""

    def __init__(self, magics: AgentMagics) -> None:
        self.magics = magics
        self.stopped = False
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Work to the end while the kernel waits."""
        try:
            bridge.run_sync(self.work(live=False))
        except (KeyboardInterrupt, asyncio.CancelledError):
            self._interrupted()
        self.end()

    async def arun(self) -> None:
        """Work in a task of the kernel's loop; Stop and other cells' buttons work meanwhile."""
        live = front_end_is_live(self.magics.shell)
        try:
            await stoppable(bridge.together(self._with_bar() if live else self.work(live)), self._remember)
        except (KeyboardInterrupt, asyncio.CancelledError):
            if not self.stopped:
                self._interrupted()
        self.end()

    def stop(self) -> None:
        """End the work from a button; the cell ends normally. May be called in any thread."""
        self.stopped = True
        if self._task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _with_bar(self) -> None:
        bar = ControlBar(self.stop, self.status)
        bar.open()
        try:
            await self.work(live=True)
        finally:
            bar.close()

    def _remember(self, task: asyncio.Task[Any]) -> None:
        self._task, self._loop = task, asyncio.get_running_loop()

    def _interrupted(self) -> None:
        with suppress(AgentnbError):  # the interrupt is what a reader has to know
            self.end()
        raise self.interrupted() from None

    async def work(self, live: bool) -> None:
        """Do it; `live` tells whether somebody looks on."""
        raise NotImplementedError

    def status(self) -> str:
        """What goes on, as HTML."""
        raise NotImplementedError

    def end(self) -> None:
        """Show what came of it."""
        raise NotImplementedError

    def interrupted(self) -> AgentInterrupted:
        """What a person is told who interrupted."""
        raise NotImplementedError


class CellRun(CellWork):
    """One run: what `%%agent` and `%agent resume` do.

    Args:
        magics: Gets the newest State and the agent.
        agent: Runs.
        start: From here.
        out: The variable that holds the newest State, or None.
        show: "steps", "answer" or "none".
    """

    def __init__(self, magics: AgentMagics, agent: Agent, start: State, out: str | None, show: str) -> None:
        super().__init__(magics)
        self.agent = agent
        self.out = out
        self.displays = StepDisplays(start, show, out or "run", magics.preferences.output_bytes)
        self.progress = Progress(agent.planner)
        self.state = start
        magics.begin(agent, out, start)

    async def work(self, live: bool) -> None:
        """Follow the States and keep the newest."""
        listeners = [self.displays, self.progress] if live else [self.displays]
        async with aclosing(self.agent.states(self.state, listeners=listeners)) as made:
            async for state in made:
                self._keep(state)

    def _keep(self, state: State) -> None:
        self.state = self.magics.last = state
        if self.out:
            self.magics.shell.user_ns[self.out] = state

    def status(self) -> str:
        """What the run does now."""
        return self.progress.html()

    def end(self) -> None:
        """Show how it ended."""
        self.displays.end(self.state)

    def interrupted(self) -> AgentInterrupted:
        """How to go on."""
        name = self.out or "NAME (give the run a name with -o NAME)"
        python = f"agent.run({self.out or 'error.state'})"
        return AgentInterrupted(f"the run is kept; go on with %agent resume {name}, in Python {python}", self.state)


def front_end_is_live(shell: Any) -> bool:
    """Whether a person sits in front of this kernel (so live widgets make sense), or a program runs the notebook.

    Programs that run notebooks say that no input can be asked for; AGENTNB_RENDER=live or static overrules.
    """
    wanted = settings.get("AGENTNB_RENDER")
    if wanted in ("live", "static"):
        return wanted == "live"
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))
