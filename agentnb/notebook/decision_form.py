"""A small form that asks a person what comes next: a tool with its arguments, or "finish" with an answer.

`ask_person` asks for `planner="you"`; `%%agent --predict` asks with the same form. To wait for it holds up nothing:
it is awaited in the kernel's own loop, so that the buttons are heard. Where that can't be it says so at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

from IPython import get_ipython

from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.notebook.seen import Seen, new_messages
from agentnb.notebook.tool_form import arguments_of, fields_of, input_for
from agentnb.notebook.widget_cell import WidgetCell, can_show
from agentnb.planners.you import NOBODY, Unasked

FINISH = "finish: answer"


async def ask_person(state: State, tools: Sequence[Tool]) -> Any:
    """What a person decides at this State: calls, an answer, or None when the form was left.

    Raises:
        Unasked: Nobody can be asked here.
    """
    if not can_ask(get_ipython()):
        raise Unasked(NOBODY)
    seen = Seen(new_messages(state), tuple(tool.spec for tool in tools))
    return await DecisionForm(tools, seen.html("You are the model. What do you do?")).decision()


def can_ask(shell: Any) -> bool:
    """Whether a form would be heard: a person sits in front, and this is the loop that hears the front end."""
    return threading.current_thread() is threading.main_thread() and can_show(shell)


class DecisionForm:
    """The form as widgets; it is gone when it has been answered.

    Args:
        tools: What may be called.
        head: HTML above the fields.
        button: What the button says that hands the form in.
        leave: What the button says that leaves it.
        answer: "finish" needs a text.
    """

    def __init__(
        self, tools: Sequence[Tool], head: str, button: str = "Do it", leave: str = "Pause", answer: bool = True
    ) -> None:
        self.tools = {tool.spec.name: tool for tool in tools}
        self._words = (head, button, leave)
        self._needs_answer = answer
        self._cell = WidgetCell(self)
        self._done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.inputs: dict[str, Any] = {}

    async def decision(self) -> Any:
        """Show the form below the cell that runs now, and wait until it is handed in: calls, an answer, or None."""
        try:
            self._open()
            return await self._done
        finally:
            self._cell.close()

    def _open(self) -> None:
        import ipywidgets

        self._kit = ipywidgets
        head, button, leave = self._words
        self.choice = ipywidgets.Dropdown(options=[*self.tools, FINISH], description="next")
        self.choice.observe(lambda _: self._cell.call(self._fields), "value")
        self.fields = ipywidgets.VBox()
        self.hint = ipywidgets.HTML()
        buttons = ipywidgets.HBox([self._button(button, self.hand_in), self._button(leave, self.close)])
        self._fields()
        parts = [ipywidgets.HTML(head), self.choice, self.fields, self.hint, buttons]
        self._cell.show(ipywidgets.VBox(parts))

    def _button(self, words: str, pressed: Callable[[], None]) -> Any:
        made = self._kit.Button(description=words)
        made.on_click(lambda _: self._cell.call(pressed))
        return made

    def _fields(self) -> None:
        """The fields of what is chosen; those of what was chosen before are closed."""
        before = self.fields.children
        tool = self.tools.get(self.choice.value)
        if tool is None:
            self.inputs = {FINISH: self._kit.Textarea(description="answer", layout={"width": "36em"})}
        else:
            self.inputs = {field.name: input_for(self._kit, field) for field in fields_of(tool)}
        self.fields.children = tuple(self.inputs.values())
        for each in before:
            each.close()

    def hand_in(self) -> None:
        """Take what stands in the fields; called in the loop."""
        texts = {name: str(each.value) for name, each in self.inputs.items()}
        if FINISH in texts:
            if self._needs_answer and not texts[FINISH].strip():
                self.hint.value = "Write the answer first."
                return
            self._end(texts[FINISH])
            return
        name = str(self.choice.value)
        function = {"name": name, "arguments": arguments_of(self.tools[name], texts)}
        self._end({"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]})

    def close(self) -> None:
        """Leave the form without a decision."""
        self._end(None)

    def refresh(self) -> None:
        """A form shows nothing that cells change."""

    def _end(self, decision: Any) -> None:
        if not self._done.done():
            self._done.set_result(decision)
