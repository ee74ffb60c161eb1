"""Widgets below a cell that live as long as the kernel: shown as a view alone, called back in the kernel's loop.

What is displayed from a call lands below the cell that showed the widgets, as ordinary output.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from typing import Any

from IPython import get_ipython

from agentnb.notebook.follow import front_end_is_live
from agentnb.notebook.heard import say_heard, say_no_more
from agentnb.notebook.live import view_of

_open: dict[int, WidgetCell] = {}


class WidgetCell:
    """One box of widgets; made in the cell below which it is shown."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        """What the widgets belong to; it has `close` and `refresh`."""
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._box: Any = None

    def call(self, function: Any, *args: Any) -> None:
        """Call a function in the kernel's loop, from any thread."""
        self._loop.call_soon_threadsafe(function, *args, context=self._context.copy())

    def show(self, box: Any) -> None:
        """Show the widgets."""
        from IPython.display import display

        self._box = box
        self._handle = display(view_of(box), raw=True, display_id=True)
        _open[id(self)] = self
        say_heard(_kernel())

    def close(self) -> None:
        """Take them away, without a trace."""
        if _open.pop(id(self), None) is not None:
            self._handle.update({}, raw=True)
            for widget in all_within(self._box):
                widget.close()
            if not _open:
                say_no_more(_kernel())


def _kernel() -> Any:
    return getattr(get_ipython(), "kernel", None)


def can_show(shell: Any) -> bool:
    """Whether widgets make sense here: a person sits in front of a kernel, whose loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return shell is not None and front_end_is_live(shell)


def owners() -> tuple[Any, ...]:
    """What the widgets that are shown now belong to."""
    return tuple(each.owner for each in _open.values())


def all_within(widget: Any) -> Iterator[Any]:
    """A widget after all that lie in it."""
    for child in getattr(widget, "children", ()):
        yield from all_within(child)
    yield widget
