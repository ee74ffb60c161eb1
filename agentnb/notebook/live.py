"""What a cell shows while a run goes on: one display per finished step, and above them a control bar.

The steps are final the moment they are shown (nothing is updated, so what a reader opened stays open, and a saved
notebook reads the same with or without a kernel). The bar (streamed text, running tools with a clock, Stop) is made of
stock widgets, shown only in a live front end, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import html
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agentnb.core.middleware import Event, StateMade, StepStarted, Streamed, ToolFinished, ToolStarted
from agentnb.core.state import State
from agentnb.notebook.bounds import RECORD_BYTES, RUN_BYTES, shown
from agentnb.notebook.render import SHOWN_STEPS, Block, Budget, final_block, step_block
from agentnb.records.notebook_runs import run_record

TICK_SECONDS = 0.15
_TAIL = 3_000
_VIEW = "application/vnd.jupyter.widget-view+json"


class StepDisplays:
    """Shows each finished step once, then the end of the run; a listener of that run."""

    wants_deltas = False

    def __init__(self, start: State, depth: str = "steps", name: str = "run", total: int = RUN_BYTES) -> None:
        self.depth = depth
        self.name = name
        self.budget = Budget(total, kept=min(RECORD_BYTES, total // 4))
        self.shown = 0
        self.since = start.counters.steps - bool(start.open_calls)

    def __call__(self, event: Event) -> None:
        """Show what the event finished."""
        if isinstance(event, StateMade) and self.depth == "steps":
            state = event.state
            if state.kind in ("plan", "act") and not state.open_calls:
                self._show_step(state)

    def end(self, state: State) -> None:
        """Show how the run ended, with the step that was under way and those that found no room."""
        if state.open_calls and self.depth == "steps":  # cut short, or waiting for a person
            self._show_step(state)
        if self.depth != "none":
            self._show_end(state)

    def _show_end(self, state: State) -> None:
        """The last display carries the run itself in its metadata, so that `load` finds it in the saved notebook."""
        block = final_block(state, self.budget, self.shown, self.name, self.since)
        self.budget.spend(block.html, block.text)
        block.metadata["agentnb"]["run"] = run_record(state, self.budget.record)
        publish(block)

    def _show_step(self, state: State) -> None:
        step = state.step
        if self.shown < SHOWN_STEPS and step is not None and step.number > self.since:
            self.shown += 1
            publish(step_block(step, self.budget, self.name))


def publish(block: Block) -> None:
    """One display of one finished piece, for every front end and for plain text."""
    from IPython.display import display

    display(block.bundle, metadata=block.metadata, raw=True)


class Progress:
    """What a run does at this moment, in words; a listener of that run.

    Args:
        planner: Who decides, as `Agent.planner` says it.
    """

    def __init__(self, planner: object = "tools") -> None:
        self._decides = "you" if planner == "you" else "the model"
        self.phase = "init"
        """Where in the loop the run is: "init", "plan", "act", "update" or "check"."""
        self.visits: Counter[str] = Counter()
        """How often each phase was entered."""
        self._step = 0
        self._text = ""
        self._reasoning = ""
        self._note = ""
        self._running: dict[str, tuple[str, float]] = {}
        self._began = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Remember what goes on."""
        if isinstance(event, Streamed):
            self._streamed(event)
        elif isinstance(event, StepStarted):
            self._enter("plan")
            self._step, self._began = event.number, time.monotonic()
            self._text = self._reasoning = self._note = ""
        elif isinstance(event, ToolStarted):
            self._enter("act")
            self._running[event.call.id] = (event.call.name, time.monotonic())
        elif isinstance(event, ToolFinished):
            self._enter("update")
            self._running.pop(event.call.id, None)
        elif isinstance(event, StateMade) and not event.state.open_calls:
            self._enter("check")

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self.visits[phase] += 1

    def _streamed(self, event: Streamed) -> None:
        delta = event.delta
        if delta.kind == "text":
            self._text = (self._text + delta.text)[-2 * _TAIL :]
        elif delta.kind == "reasoning":
            self._reasoning = (self._reasoning + delta.text)[-2 * _TAIL :]
        elif delta.kind == "note":
            self._note = delta.text
        elif delta.kind == "restart":
            self._text = self._reasoning = ""

    def html(self) -> str:
        """What goes on now, as HTML: every word of a model or a tool escaped."""
        lines = [f"Step {self._step}: {self.doing}"]
        if self._note:
            lines.append(self._note)
        parts = [f"<div>{html.escape(line)}</div>" for line in lines]
        for label, text in (("reasoning", self._reasoning), ("", self._text)):
            if text:
                piece = html.escape(shown(text[-_TAIL:]))
                head = f"<i>{label}</i> " if label else ""
                parts.append(f'{head}<pre style="white-space:pre-wrap;max-height:16em;overflow:auto">{piece}</pre>')
        return f'<div class="tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'

    @property
    def doing(self) -> str:
        """The same in one line."""
        now = time.monotonic()
        if self._running:
            return ", ".join(f"{name} runs, {now - began:.0f} s" for name, began in self._running.values())
        return f"waits for {self._decides}, {now - self._began:.0f} s" if not self._text else "the model writes"


class ControlBar:
    """The live part above the steps. `open` it in the run's loop, `close` it always.

    Args:
        stop: Called when Stop is pressed, perhaps in another thread.
        status: What goes on, as HTML; asked again and again.
    """

    def __init__(self, stop: Callable[[], None], status: Callable[[], str]) -> None:
        self._stop = stop
        self._ask = status
        self._ticker: asyncio.Task[None] | None = None
        self._box: Any = None

    def open(self) -> None:
        """Show the bar and keep it current, at most seven times a second."""
        import ipywidgets
        from IPython.display import display

        self._status = ipywidgets.HTML()
        self._button = ipywidgets.Button(description="Stop", icon="stop", tooltip="Stop this run; it can be resumed")
        self._button.on_click(self._pressed)
        self._box = ipywidgets.VBox([self._button, self._status])
        self._handle = display(view_of(self._box), raw=True, display_id=True)
        self._ticker = asyncio.get_running_loop().create_task(self._tick())

    def close(self) -> None:
        """Take the bar away, without a trace."""
        if self._ticker is not None:
            self._ticker.cancel()
        if self._box is not None:
            self._handle.update({}, raw=True)
            for widget in (self._button, self._status, self._box):
                widget.close()

    def _pressed(self, _: Any) -> None:
        self._button.disabled = True
        self._button.description = "Stopping"
        self._stop()

    async def _tick(self) -> None:
        with suppress(asyncio.CancelledError):
            while True:
                if (now := self._ask()) != self._status.value:
                    self._status.value = now
                await asyncio.sleep(TICK_SECONDS)


def view_of(widget: Any) -> dict[str, Any]:
    """The bundle that shows a widget and nothing else."""
    return {_VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}
