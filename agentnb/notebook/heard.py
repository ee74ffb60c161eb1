"""What a person does to a widget while a cell awaits: the front end is told that it was heard.

The kernel hears it, but ipykernel (7.4) sends no status "idle" for such a message, and ipywidgets holds the next change
of that widget back until it comes: whoever typed "Oslo" into a field would leave "O" in the kernel. So that status is
sent while widgets of ours are shown. Where the kernel sends it, too, a front end ignores the second one.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import Any

_KIND = "comm_msg"


class _Heard:
    """Handles a widget's message as the kernel does, and then says so."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.before = kernel.shell_handlers[_KIND]

    async def __call__(self, stream: Any, ident: Any, message: Any) -> None:
        """What the kernel calls with each message."""
        try:
            made = self.before(stream, ident, message)
            if isawaitable(made):
                await made
        finally:
            socket = self.kernel.iopub_socket
            self.kernel.session.send(socket, "status", {"execution_state": "idle"}, parent=message)


def say_heard(kernel: Any) -> None:
    """From now on, in a kernel of that kind; to ask twice changes nothing."""
    if not isinstance(_handlers(kernel).get(_KIND), _Heard | None):
        kernel.shell_handlers[_KIND] = _Heard(kernel)


def say_no_more(kernel: Any) -> None:
    """The kernel handles its messages alone again."""
    if isinstance(made := _handlers(kernel).get(_KIND), _Heard):
        kernel.shell_handlers[_KIND] = made.before


def _handlers(kernel: Any) -> dict[str, Any]:
    return getattr(kernel, "shell_handlers", {})
