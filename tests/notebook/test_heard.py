"""A widget's message is handled as before, and then the front end is told that it was heard."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from agentnb.notebook.heard import say_heard, say_no_more


class Desk:
    """As much of a kernel as is needed, with what it did in order."""

    def __init__(self, handler: Any) -> None:
        self.done: list[Any] = []
        self.shell_handlers = {"comm_msg": handler}
        self.iopub_socket = "iopub"
        self.session = SimpleNamespace(send=self._send)

    def _send(self, socket: str, kind: str, content: dict[str, str], parent: Any) -> None:
        self.done.append((socket, kind, content["execution_state"], parent))

    def hear(self, message: str) -> None:
        """A message arrives."""
        asyncio.run(self.shell_handlers["comm_msg"](None, None, message))


def test_idle_follows_each_message():
    """After the kernel's own handler, whether that awaits or not; to ask twice changes nothing."""
    plain = Desk(lambda stream, ident, message: plain.done.append(message))

    async def handle(stream: Any, ident: Any, message: str) -> None:
        await asyncio.sleep(0)
        awaiting.done.append(message)

    awaiting = Desk(handle)
    for desk in (plain, awaiting):
        say_heard(desk)
        say_heard(desk)
        desk.hear("one")
        assert desk.done == ["one", ("iopub", "status", "idle", "one")]


def test_a_handler_that_fails_was_heard_all_the_same():
    """Else the widget would fall silent for good."""

    def handle(stream: Any, ident: Any, message: str) -> None:
        raise ValueError(message)

    desk = Desk(handle)
    say_heard(desk)
    with pytest.raises(ValueError, match="one"):
        desk.hear("one")
    assert len(desk.done) == 1


def test_the_kernel_gets_its_handler_back():
    """Nothing of ours stays; without a kernel there is nothing to do."""
    desk = Desk(before := object())
    say_heard(desk)
    say_no_more(desk)
    say_no_more(desk)
    assert desk.shell_handlers["comm_msg"] is before
    for other in (None, object(), SimpleNamespace(shell_handlers={})):
        say_heard(other)
        say_no_more(other)
