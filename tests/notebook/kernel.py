"""A real Jupyter kernel for tests: send cells as a front end would, see what each shows and when it ends."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.manager import start_new_kernel
from jupyter_core.utils import ensure_event_loop

VIEW = "application/vnd.jupyter.widget-view+json"


@dataclass
class Cell:
    """One executed cell: its outputs in nbformat's words, its reply, when it ended (seconds after it was sent)."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    status: str = ""
    ended: float | None = None

    @property
    def displays(self) -> list[dict[str, Any]]:
        """The mime bundles of its displays; those that were emptied are left out."""
        return [each["data"] for each in self.outputs if each["type"] == "display_data" and _lasting(each["data"])]

    @property
    def text(self) -> str:
        """Everything a reader sees, as plain text."""
        parts = [each.get("text") or each.get("data", {}).get("text/plain", "") for each in self.outputs]
        return "\n".join([*parts, *(f"{each['ename']}: {each['evalue']}" for each in self.errors)])

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The error messages, as a test run of notebooks sees them."""
        return [each for each in self.outputs if each["type"] == "error"]


def _lasting(data: dict[str, Any]) -> bool:
    return bool(data) and set(data) != {VIEW}


class Kernel:
    """One kernel process; `live` cells say that a person can be asked, as JupyterLab does."""

    def __init__(self, **environment: str) -> None:
        self.manager, self.client = start_new_kernel(
            kernel_name="python3", env={**os.environ, "AGENTNB_RENDER": "", **environment}
        )

    def run(self, code: str, *, live: bool = False, interrupt_after: float | None = None) -> Cell:
        """Run one cell to its end."""
        return self.run_all(code, live=live, interrupt_after=interrupt_after)[0]

    def run_all(self, *codes: str, live: bool = False, interrupt_after: float | None = None) -> list[Cell]:
        """Queue all cells at once, as Run All does, and wait until each has ended or was dropped."""
        began = time.monotonic()
        cells = {self.client.execute(code, allow_stdin=live): Cell() for code in codes}
        timer = threading.Timer(interrupt_after or 0, self.interrupt)
        if interrupt_after is not None:
            timer.start()
        while any(cell.ended is None for cell in cells.values()) and time.monotonic() - began < 60:
            self._read(cells, began)
        timer.cancel()
        self._statuses(cells)
        return list(cells.values())

    def interrupt(self) -> None:
        """What a front end's interrupt comes down to; the manager's own call would open a loop in the timer's thread."""
        os.kill(self.manager.provisioner.process.pid, signal.SIGINT)

    def _read(self, cells: dict[str, Cell], began: float) -> None:
        try:
            message = self.client.get_iopub_msg(timeout=0.5)
        except queue.Empty:
            return
        cell = cells.get(message["parent_header"].get("msg_id", ""))
        kind, content = message["msg_type"], message["content"]
        if cell is None:
            return
        if kind == "status" and content["execution_state"] == "idle":
            cell.ended = time.monotonic() - began
        elif kind in ("stream", "display_data", "execute_result", "update_display_data", "error"):
            cell.outputs.append({"type": kind, **content})

    def _statuses(self, cells: dict[str, Cell]) -> None:
        while any(not cell.status for cell in cells.values()):
            reply = self.client.get_shell_msg(timeout=60)
            if (cell := cells.get(reply["parent_header"]["msg_id"])) is not None:
                cell.status = reply["content"]["status"]

    def value(self, expression: str) -> str:
        """The repr of an expression in the kernel."""
        return self.run(f"print(repr(({expression})))").text.strip()

    def stop(self) -> None:
        """End the process."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        ensure_event_loop().close()  # the client's own, which it leaves open


def started(set_up: str) -> Iterator[Kernel]:
    """A kernel that has run this cell, for a fixture: `yield from started(SET_UP)`."""
    made = Kernel()
    assert "Error" not in made.run(set_up).text
    yield made
    made.stop()
