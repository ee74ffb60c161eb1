"""The widgets of the panel: a thin layer that writes into the bench's fields and draws what the views say.

Every press and change is handed to the kernel's loop (`call`), since a kernel may deliver it in another thread. While a
run goes on, a ticker refreshes: the status four times a second, the rest once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agentnb.errors import AgentnbError
from agentnb.models.catalog import known_providers
from agentnb.notebook.bounds import shown
from agentnb.notebook.names import model_name
from agentnb.notebook.options import LIMITS
from agentnb.notebook.panel_actions import BUTTONS, STOP_LINE, Action, action
from agentnb.notebook.panel_folds import Folds
from agentnb.notebook.panel_plots import PanelPlots
from agentnb.notebook.panel_run import PanelRun, error_lines
from agentnb.notebook.panel_views import (
    MOST_TOOLS,
    cells_html,
    goal_html,
    machine_html,
    more_tools_html,
    phase_of,
    problem_html,
    state_html,
    tokens_html,
    tool_label,
    visits_of,
)
from agentnb.text import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

PLANNERS = (("tools: tool calling", "tools"), ("json: a JSON plan", "json"), ("you: you decide", "you"))
TICK_SECONDS = 0.25
_SLOW_TICKS = 4
_ICONS = {"run": "play", "step": "step-forward", "resume": "forward", "fork": "code-fork"}
_TOOLS_HEIGHT = "12em"
"""More of them are scrolled through."""
_ROW = {"flex_flow": "row wrap", "align_items": "center"}


class PanelWidgets:
    """The panel as one widget, `box`.

    Args:
        run: What it shows and does.
        call: Calls a function in the kernel's loop, from any thread.
        write: Puts a cell's text into the notebook.
        close: Takes the panel away.
    """

    def __init__(
        self,
        run: PanelRun,
        call: Callable[..., None],
        write: Callable[[str], None],
        close: Callable[[], None],
    ) -> None:
        import ipywidgets

        self._kit: Any = ipywidgets
        self.run, self.bench = run, run.bench
        self._call, self._write, self._close = call, write, close
        self._quiet = False
        self._edited: tuple[Any, ...] = ()
        self._ticker: asyncio.Task[None] | None = None
        self.box = ipywidgets.VBox([*self._form(), *self._live(), *self._looking(), *self._editing(), *self._below()])
        self.refresh()

    # ── what there is ────────────────────────────────────────────────────────────────────────────────────────────

    def _form(self) -> list[Any]:
        kit, fields, base = self._kit, self.bench.fields, self.bench.base
        self.goal = self._bound(
            kit.Textarea(value=shown(fields.goal), description="Goal", rows=3), "goal", width="calc(100% - 8px)"
        )
        names = [f"{provider}:" for provider in known_providers()]
        model = kit.Combobox(
            description="Model", options=names, placeholder=shown(model_name(base.model)), ensure_option=False
        )
        self.model = self._bound(model, "model", width="24em")
        own = [("the agent's own", "")] if not isinstance(base.planner, str) else []
        planner = kit.Dropdown(description="Planner", options=[*own, *PLANNERS])
        planner.value = fields.planner
        self.planner = self._bound(planner, "planner", width="20em")
        self.limits = {name: self._limit(name) for name in LIMITS}
        layout = kit.Layout(**_ROW, max_height=_TOOLS_HEIGHT, overflow="auto")
        self.tools_box, self.more_tools = kit.HBox([], layout=layout), kit.HTML()
        limits = [self._label("Limits"), *self.limits.values()]
        rows = [[self.model, self.planner], limits, [self._label("Tools"), self.tools_box, self.more_tools]]
        return [self.goal, *(kit.HBox(row, layout=kit.Layout(**_ROW)) for row in rows)]

    def _label(self, text: str) -> Any:
        """Words before a row, where the names of the single fields end."""
        layout = self._kit.Layout(width="80px", margin="2px 6px", display="flex", justify_content="flex-end")
        return self._kit.Label(text, layout=layout)

    def _limit(self, name: str) -> Any:
        made = self._kit.Text(value=self.bench.fields.limits[name], description=name.replace("_", " "))
        made.layout, made.continuous_update = self._kit.Layout(width="9em"), False
        made.style.description_width = "initial"
        made.observe(self._changed(lambda text: self.bench.fields.limits.__setitem__(name, text)), "value")
        return made

    def _live(self) -> list[Any]:
        kit = self._kit
        self.buttons = {name: self._button(name) for name in BUTTONS}
        self.stop = kit.Button(description="Stop", icon="stop", tooltip=STOP_LINE, disabled=True)
        self.stop.layout = kit.Layout(width="auto")
        self.stop.on_click(lambda _: self.run.stop())
        self.shut = kit.Button(description="Close panel", icon="times", tooltip="Take the panel away; its record stays")
        self.shut.layout = kit.Layout(width="auto", margin="2px 2px 2px 2em")
        self.shut.on_click(lambda _: self._call(self._close))
        first = [self.buttons["run"], self.buttons["step"], self.stop, self.buttons["resume"], self.shut]
        self.goals, self.status, self.problem = kit.HTML(), kit.HTML(), kit.HTML()
        return [kit.HBox(first, layout=kit.Layout(**_ROW)), self.goals, self.status, self.problem]

    def _looking(self) -> list[Any]:
        kit = self._kit
        self.which = kit.Dropdown(description="Run", options=[], layout=kit.Layout(width="16em"))
        self.slider = kit.IntSlider(min=1, max=1, readout=False, layout=kit.Layout(width="14em"))
        self.number = kit.BoundedIntText(description="State", min=1, max=1, layout=kit.Layout(width="11em"))
        self.which.observe(self._changed(self._show_run), "value")
        for each in (self.slider, self.number):
            each.observe(self._changed(self._show_state), "value")
        self.view = kit.HTML()
        self.message = self._bound(
            kit.Text(description="Message", placeholder="goes on from this State"), "message", "32em"
        )
        rows = [[self.which, self.number, self.slider, self.buttons["fork"]], [self.message, self.buttons["say"]]]
        first, second = (kit.HBox(row, layout=kit.Layout(**_ROW)) for row in rows)
        return [first, self.view, second]

    def _editing(self) -> list[Any]:
        kit = self._kit
        self.which_call = kit.Dropdown(description="Call", options=[], layout=kit.Layout(width="28em"))
        self.which_call.observe(self._changed(lambda value: setattr(self.bench.fields, "call", value or "")), "value")
        self.arguments = self._bound(kit.Textarea(description="Arguments", rows=2), "arguments", width="32em")
        self.result = self._bound(kit.Textarea(description="Result", rows=2), "result", width="32em")
        self.reason = self._bound(kit.Text(description="Reason", placeholder="for a denial"), "reason", width="20em")
        row = kit.Layout(**_ROW)
        first = kit.HBox([self.which_call, self.buttons["approve"], self.buttons["deny"], self.reason], layout=row)
        second = kit.HBox([self.arguments, self.buttons["arguments"]], layout=row)
        third = kit.HBox([self.result, self.buttons["result"]], layout=row)
        self.calls_box = kit.VBox([first, second, third])
        return [self.calls_box]

    def _below(self) -> list[Any]:
        kit = self._kit
        self.tokens, self.cells = kit.HTML(), kit.HTML()
        names = [(label, name) for name, (label, _) in BUTTONS.items()]
        self.which_cell = kit.Dropdown(description="Cell for", options=names, value="run")
        self.write_cell = kit.Button(description="Write as a cell", icon="pencil")
        self.write_cell.on_click(lambda _: self._call(self._write_one))
        self.written = kit.HTML()
        row = kit.HBox([self.which_cell, self.write_cell], layout=kit.Layout(**_ROW))
        self.plots = PanelPlots(kit, self.bench, self._call)
        cells = kit.VBox([row, self.written, self.cells])
        boxes = {"Tokens and steps": self.tokens, "Cells behind the buttons": cells, "Plots": self.plots.box}
        self.folds = Folds(kit, boxes, self._call, self._fold_turned)
        return [self.folds.box]

    def _fold_turned(self, title: str, is_open: bool) -> None:
        if title == "Plots":
            self.plots.look(is_open)

    def open_fold(self, title: str, is_open: bool = True) -> None:
        """Open or close one of the folds, as its button does."""
        self.folds.open(title, is_open)

    # ── from the person ──────────────────────────────────────────────────────────────────────────────────────────

    def _bound(self, widget: Any, name: str, width: str) -> Any:
        """A widget whose value is that field of the bench."""
        widget.layout = self._kit.Layout(width=width)
        if hasattr(widget, "continuous_update"):
            widget.continuous_update = False
        widget.observe(self._changed(lambda value: setattr(self.bench.fields, name, value)), "value")
        return widget

    def _changed(self, put: Callable[[Any], Any]) -> Callable[[Any], None]:
        """An observer that puts a person's value; what the panel itself sets is no change."""

        def observe(change: Mapping[str, Any]) -> None:
            if not self._quiet:
                self._call(self._put, put, change["new"])

        return observe

    def _put(self, put: Callable[[Any], Any], value: Any) -> None:
        put(value)
        self.run.written()
        self.refresh()

    def _button(self, name: str) -> Any:
        made = self._kit.Button(description=BUTTONS[name][0], icon=_ICONS.get(name, ""))
        made.layout = self._kit.Layout(width="auto")
        made.on_click(lambda _: self._call(self.press, name))
        return made

    def press(self, name: str) -> None:
        """A button was pressed."""
        if (task := self.run.press(name)) is not None:
            self._ticker = asyncio.get_running_loop().create_task(self._tick(task))
        self.refresh()

    def _show_run(self, name: str | None) -> None:
        if name:
            self.bench.show(name)

    def _show_state(self, value: int) -> None:
        self.bench.position = None if value >= len(self.bench.states) else value - 1

    def _write_one(self) -> None:
        made = action(self.bench, self.which_cell.value)
        if made.problem:
            self.written.value = problem_html([made.problem])
            return
        self._write(made.cell)
        told = ["It appears below the next cell that you run; or copy it from here:", "", shown(made.cell)]
        self.written.value = problem_html(told)

    # ── to the person ────────────────────────────────────────────────────────────────────────────────────────────

    async def _tick(self, task: asyncio.Task[None]) -> None:
        count, seen = 0, -1
        while not task.done():
            self._refresh_status()
            if count % _SLOW_TICKS == 0:
                self.plots.refresh(running=True)  # what it left out while it rested
                if seen != self.run.version:
                    seen = self.run.version
                    self.refresh()
            count += 1
            await asyncio.wait({task}, timeout=TICK_SECONDS)
        self.refresh()

    def refresh(self) -> None:
        """Draw everything that has changed."""
        with self._setting():
            self._refresh_status()
            try:
                self._refresh_tools()
                self._refresh_looking()
                self._refresh_call()
                self._refresh_actions()
            except AgentnbError as error:  # the agent's variable is gone
                _set(self.problem, problem_html(error_lines(error)))

    @contextmanager
    def _setting(self) -> Iterator[None]:
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def _refresh_status(self) -> None:
        running = self.run.task is not None
        if running:
            progress = self.run.progress
            now = machine_html(progress.phase, progress.visits) + progress.html()
        else:
            now = machine_html(phase_of(self.bench.state), visits_of(self.bench.state))
        _set(self.status, now)
        _set(self.problem, problem_html([shown(line) for line in self.run.problem]))
        if self.stop.disabled == running:
            self.stop.disabled = not running

    def _refresh_tools(self) -> None:
        tools, versions = self.bench.tools, self.bench.versions
        rows = [(name, tool_label(tools[name], versions.get(name, ""))) for name in [*tools][:MOST_TOOLS]]
        checked = {tool.spec.name for tool in self.bench.checked}
        if [(box.tooltip, box.description) for box in self.tools_box.children] != rows:
            before = self.tools_box.children
            self.tools_box.children = [self._tool_check(name, label, name in checked) for name, label in rows]
            for box in before:
                box.close()
        _set(self.more_tools, more_tools_html(tools, checked))

    def _tool_check(self, name: str, label: str, is_checked: bool) -> Any:
        made = self._kit.Checkbox(value=is_checked, description=label, tooltip=name, indent=False)
        made.layout = self._kit.Layout(width="auto", margin="0 1.5em 0 0")
        made.observe(self._changed(lambda value: self.bench.fields.tools.__setitem__(name, value)), "value")
        return made

    def _refresh_looking(self) -> None:
        bench, total = self.bench, len(self.bench.states)
        if list(self.which.options) != list(bench.runs):
            self.which.options = list(bench.runs)
        if bench.shown and self.which.value != bench.shown:
            self.which.value = bench.shown
        now = total if bench.position is None and total else (bench.position or 0) + 1
        for each in (self.slider, self.number):
            each.max = max(total, 1)
            each.value = now
        _set(self.view, state_html(bench))
        _set(self.tokens, tokens_html(bench.newest))
        self.plots.refresh(running=self.run.task is not None)

    def _refresh_call(self) -> None:
        """The call's texts are set when another call or State is looked at, so that an edit stays."""
        bench, step, call = self.bench, self.bench.step, self.bench.call
        calls = (
            [(f"{shorten(shown(each.name), 40)} ({shorten(shown(each.id), 40)})", each.id) for each in step.calls]
            if step
            else []
        )
        self.calls_box.layout.display = None if calls else "none"
        if [tuple(each) for each in self.which_call.options] != calls:
            self.which_call.options = calls
        if call is None or step is None:
            self._edited = ()
            return
        if self.which_call.value != call.id:
            self.which_call.value = call.id
        is_open = bench.is_open(call)
        _show(is_open, self.buttons["approve"], self.buttons["deny"], self.reason)
        _show(not is_open, self.buttons["arguments"])
        result = next((each.content for each in step.results if each.call_id == call.id), "")
        now = (bench.shown, bench.position, call, result)
        if now != self._edited:
            self._edited = now
            self.arguments.value = bench.fields.arguments = shown(call.arguments)
            self.result.value = bench.fields.result = shown(result)

    def _refresh_actions(self) -> None:
        actions = {name: action(self.bench, name) for name in BUTTONS}
        running = self.run.task is not None
        for name, made in actions.items():
            button = self.buttons[name]
            button.disabled = running or (bool(made.problem) and not made.in_text)
            button.tooltip = _tooltip(made)
        _set(self.cells, cells_html(actions))
        _set(self.goals, goal_html(self.bench))

    def end(self) -> None:
        """Draw nothing more."""
        if self._ticker is not None:
            self._ticker.cancel()
        self.plots.look(False)


def _set(widget: Any, value: str) -> None:
    if widget.value != value:
        widget.value = value


def _show(is_shown: bool, *widgets: Any) -> None:
    for each in widgets:
        each.layout.display = None if is_shown else "none"


def _tooltip(made: Action) -> str:
    return shown(made.problem or made.cell)
