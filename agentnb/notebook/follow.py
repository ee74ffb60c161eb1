"""One run in one cell: follow its States, keep the newest, show each step, end well whatever happens."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentnb import bridge, settings
from agentnb.agent import Agent
from agentnb.core.state import State
from agentnb.errors import AgentInterrupted
from agentnb.notebook.cells import stoppable
from agentnb.notebook.live import ControlBar, Progress, StepDisplays

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics


class CellRun:
    """What `%%agent` and `%agent resume` do.

    Args:
        magics: Gets the newest State and the agent.
        agent: Runs.
        start: From here.
        out: The variable that holds the newest State, or None.
        show: "steps", "answer" or "none".
    """

    def __init__(self, magics: AgentMagics, agent: Agent, start: State, out: str | None, show: str) -> None:
        self.magics = magics
        self.agent = agent
        self.out = out
        self.displays = StepDisplays(start, show, out or "run")
        self.progress = Progress()
        self.stopped = False
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        magics.begin(agent, out)
        self._keep(start)

    def run(self) -> None:
        """Run to the end while the kernel waits."""
        try:
            bridge.run_sync(self._states(None))
        except (KeyboardInterrupt, asyncio.CancelledError):
            self._interrupted()
        self.displays.end(self.state)

    async def arun(self) -> None:
        """Run in a task of the kernel's loop; Stop and other cells' buttons work meanwhile."""
        bar = ControlBar(self.stop, self.progress.html) if front_end_is_live(self.magics.shell) else None
        try:
            await stoppable(bridge.together(self._states(bar)), self._remember)
        except (KeyboardInterrupt, asyncio.CancelledError):
            if not self.stopped:
                self._interrupted()
        self.displays.end(self.state)

    def stop(self) -> None:
        """End the run from a button; the cell ends normally. May be called in any thread."""
        self.stopped = True
        if self._task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _remember(self, task: asyncio.Task[Any]) -> None:
        self._task, self._loop = task, asyncio.get_running_loop()

    async def _states(self, bar: ControlBar | None) -> None:
        listeners = [self.displays] if bar is None else [self.displays, self.progress]
        if bar is not None:
            bar.open()
        try:
            async with aclosing(self.agent.states(self.state, listeners=listeners)) as made:
                async for state in made:
                    self._keep(state)
        finally:
            if bar is not None:
                bar.close()

    def _keep(self, state: State) -> None:
        self.state = self.magics.last = state
        if self.out:
            self.magics.shell.user_ns[self.out] = state

    def _interrupted(self) -> None:
        self.displays.end(self.state)
        name = self.out or "NAME (give the run a name with -o NAME)"
        raise AgentInterrupted(f"the run is kept; go on with %agent resume {name}", self.state) from None


def front_end_is_live(shell: Any) -> bool:
    """Whether a person sits in front of this kernel (so live widgets make sense), or a program runs the notebook.

    Programs that run notebooks say that no input can be asked for; AGENTNB_RENDER=live or static overrules.
    """
    wanted = settings.get("AGENTNB_RENDER")
    if wanted in ("live", "static"):
        return wanted == "live"
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))
