"""The panel's plots: the same pictures as `%agent plot`, drawn again while a run goes on and somebody looks.

A picture takes some tenths of a second in which the kernel does nothing else. So it is drawn only while its fold is
open, when there is a new State, and never for more than a tenth of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from html import escape
from typing import Any

from agentnb.errors import AgentnbError
from agentnb.notebook.bounds import shown
from agentnb.notebook.panel_bench import Bench
from agentnb.notebook.panel_run import error_lines
from agentnb.notebook.panel_views import problem_html
from agentnb.notebook.render_html import block, quiet
from agentnb.plots.plot import load_matplotlib
from agentnb.plots.run_plots import plot
from agentnb.threads import run_in_thread

_KINDS = (("Tokens and steps", ""), ("Time", "time"), ("Cost", "cost"))
"""To ipywidgets a value of None is no choice at all."""
_MOST_RUNS = 5
_REST_SECONDS = 3.0
_SHARE = 0.1
_SOON_SECONDS = 0.1
"""So the panel itself comes first: a run that was stopped has ended and the buttons are right before a picture is."""
_TURN_SECONDS = 0.01
"""Long enough for what waits in the loop, such as a press of Stop; 0 would only let go first what is ready already."""
_EMPTY = block(quiet("Plots of this panel's runs appear here."))
_LOADING = block(quiet("The plots are being loaded."))


class PanelPlots:
    """One fold of the panel, `box`.

    Args:
        kit: The module ipywidgets.
        bench: Whose runs are drawn, the newest few.
        call: Calls a function in the kernel's loop, from any thread.
    """

    def __init__(self, kit: Any, bench: Bench, call: Callable[..., None]) -> None:
        self.bench = bench
        self.is_open = False
        self._drawn: tuple[Any, ...] = ()
        self._rests_until = 0.0
        self._due: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._loaded = False
        self.kind = kit.Dropdown(description="Plot", options=_KINDS, layout=kit.Layout(width="20em"))
        self.kind.observe(lambda _: call(self.refresh), "value")
        self.picture = kit.HTML(_EMPTY)
        self.box = kit.VBox([self.kind, self.picture])

    def look(self, is_open: bool) -> None:
        """The fold was opened or closed."""
        self.is_open = is_open
        if is_open and self._loading is None:
            self.picture.value = _LOADING
            self._loading = asyncio.get_running_loop().create_task(self._load())
        self.refresh()

    async def _load(self) -> None:
        """matplotlib takes a second to import, in which a run goes on; without it the fold says what to do."""
        try:
            await run_in_thread(load_matplotlib)
        except AgentnbError as error:
            self.picture.value = _problem(error)
            self._loading = None  # opened again, it tries again
        else:
            self._loaded = True
            self.refresh()

    def refresh(self, running: bool = False) -> None:
        """Have what is new drawn soon, if somebody looks; while a run goes on only after a rest."""
        rests = running and time.monotonic() < self._rests_until
        if self.is_open and self._loaded and self._due is None and not rests:
            self._due = asyncio.get_running_loop().create_task(self._draw())

    async def _draw(self) -> None:
        await asyncio.sleep(_SOON_SECONDS)
        self._due = None
        runs = dict([*self.bench.runs.items()][-_MOST_RUNS:])
        now = (self.kind.value, *((name, id(run)) for name, run in runs.items()))
        if not self.is_open or now == self._drawn:
            return
        self._drawn, began = now, time.monotonic()
        self._rests_until = began + _REST_SECONDS
        try:
            self.picture.value = await self._html(runs) if runs else _EMPTY
        except Exception as error:  # whatever a library meets
            self._drawn, self.picture.value = (), _problem(error)
        self._rests_until = time.monotonic() + max(_REST_SECONDS, (time.monotonic() - began) / _SHARE)

    async def _html(self, runs: dict[str, Any]) -> str:
        """The picture in three parts, between which the loop has its turn: numbers, figure, image."""
        made = plot(*runs.values(), names=[*runs], kind=self.kind.value or None)
        await asyncio.sleep(_TURN_SECONDS)
        _ = made.figure
        await asyncio.sleep(_TURN_SECONDS)
        data, about = made._repr_mimebundle_()
        size = about["image/png"]
        picture = f'<img alt="{escape(shown(made.alt))}" width="{size["width"]}" height="{size["height"]}" '
        return block(f'{picture}style="max-width:100%" src="data:image/png;base64,{data["image/png"]}">')


def _problem(error: Exception) -> str:
    return problem_html([shown(line) for line in error_lines(error)])
