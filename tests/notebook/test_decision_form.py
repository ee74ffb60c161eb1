"""The form of `planner="you"` in a real kernel: it is heard while the cell waits, and leaves nothing behind."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fakes import raw_call
from kernel import VIEW, Kernel, started

from agentnb import Agent, ScriptedModel
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.notebook.seen import Seen, new_messages
from agentnb.notebook.words import remedy, step_line, stop_words

SET_UP = """
%load_ext agentnb
from agentnb import Agent, tool
from agentnb.planners.you import You
@tool
def add(a: int, b: int = 1) -> int:
    "Add two numbers."
    return a + b
"""


def paused() -> State:
    """A run that waits for a person."""
    return Agent(ScriptedModel([]), planner="you").run("hello")


def test_a_run_that_waits_says_for_what():
    """Not for approval: there is no call."""
    run = paused()

    assert stop_words(run).startswith("waits for your decision")
    assert step_line(run.steps[0]).startswith("Step 1 · waits for your decision")
    assert remedy(run, "run") == "Go on with %agent resume run (in Python: agent.run(run))."


def test_what_is_seen_is_word_by_word_and_safe():
    """New messages and the tools with their arguments; nothing of a page."""
    evil = "<script>alert(1)</script>"
    spec = ToolSpec(
        "look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}, "deep": {}}, "required": ["at"]}
    )
    seen = Seen(new_messages(State.start(evil)), (spec,))

    assert "look(at: string, deep?)" in seen.text("title")
    assert evil in seen.text("title")
    assert "<script" not in seen.html("title")


def test_what_is_seen_is_what_goes_out():
    """Broken arguments go out as an empty object, and the result of a JSON plan as a text of the user."""
    broken = raw_call("add", '{"a": ')
    run = Agent(ScriptedModel([broken, "Done."]), [len]).run("go")
    seen = Seen(new_messages(run.at(2))).text("").split("\n")
    assert [line.split()[0] for line in seen if line.strip()] == ["assistant", "tool"]
    assert seen[1].split() == ["assistant", "add({})"]

    plan = '{"reasoning": "", "tool": "len", "args": {"obj": "ab"}}'
    run = Agent(ScriptedModel([plan, "Done."]), [len], planner="json").run("go")
    assert "  user        Result of len(" in Seen(new_messages(run.at(2))).text("")


# ── in a kernel ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Person:
    """Sits in front of a kernel: finds a widget by its words, and sets or presses it, while a cell runs."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.widgets: dict[str, str] = {}
        self.outputs: list[dict[str, Any]] = []
        client = kernel.client
        client.control_channel.send(client.session.msg("create_subshell_request", {}))
        self.subshell = client.get_control_msg(timeout=30)["content"]["subshell_id"]

    def start(self, code: str) -> str:
        """Send a cell."""
        return str(self.kernel.client.execute(code, allow_stdin=True))

    def find(self, description: str) -> str:
        """The newest widget with this description."""
        self._read(lambda: description in self.widgets)
        return self.widgets.pop(description)

    def press(self, description: str) -> None:
        """Click a button; what is found after it is new."""
        self._tell(self.find(description), {"method": "custom", "content": {"event": "click"}})
        self.widgets.clear()

    def put(self, description: str, **state: Any) -> None:
        """Set a field."""
        self._tell(self.find(description), {"method": "update", "state": state, "buffer_paths": []})

    def finish(self, cell: str) -> list[dict[str, Any]]:
        """Wait until the cell has ended; its outputs."""
        done: list[bool] = []
        self._read(lambda: bool(done), lambda message: done.append(True) if _is_idle(message, cell) else None)
        self.kernel.client.get_shell_msg(timeout=30)
        return self.outputs

    def _tell(self, comm: str, data: dict[str, Any]) -> None:
        client = self.kernel.client
        message = client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        message["header"]["subshell_id"] = self.subshell
        client.shell_channel.send(message)

    def _read(self, enough: Any, look: Any = None) -> None:
        until = time.monotonic() + 40
        while not enough():
            assert time.monotonic() < until
            message = self.kernel.client.get_iopub_msg(timeout=40)
            content = message["content"]
            if message["msg_type"] == "comm_open" and (words := content["data"]["state"].get("description")):
                self.widgets[words] = content["comm_id"]
            if message["msg_type"] in ("display_data", "error", "stream"):
                self.outputs.append(content)
            if look:
                look(message)


def _is_idle(message: dict[str, Any], cell: str) -> bool:
    idle = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
    return idle and message["parent_header"].get("msg_id") == cell


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One kernel for this module."""
    yield from started(SET_UP)


@pytest.mark.slow
def test_a_person_plays_the_model(kernel):
    """A tool with its fields, then the answer; the saved output holds the steps and no widget."""
    person = Person(kernel)
    cell = person.start("%%agent --planner you -o run\nadd 2 and 1")
    person.put("a", value="2")
    person.press("Do it")
    person.put("next", index=1)
    person.put("answer", value="It is 3.")
    person.press("Do it")
    outputs = person.finish(cell)

    assert kernel.value("(run.answer, run.tool_results[0].value, run.counters.steps)") == "('It is 3.', 3, 2)"
    kept = [each["data"] for each in outputs if "data" in each and VIEW not in each["data"]]
    assert [each["text/plain"].split(" · ")[0] for each in kept if each][:2] == ["Step 1", "Step 2"]
    assert kernel.value("len(__import__('agentnb.notebook.widget_cell', fromlist=['_']).owners())") == "0"


@pytest.mark.slow
def test_a_form_that_is_left_pauses_the_run(kernel):
    """And `%agent resume` asks again, in the same place."""
    person = Person(kernel)
    cell = person.start("%%agent --planner you -o run\nadd 2 and 1")
    person.press("Pause")
    assert "waits for your decision" in json.dumps(person.finish(cell))

    person = Person(kernel)
    cell = person.start("%agent resume run")
    person.put("next", index=1)
    person.put("answer", value="Three.")
    person.press("Do it")
    person.finish(cell)
    assert kernel.value("run.answer") == "'Three.'"


@pytest.mark.slow
def test_arun_in_a_cell_shows_the_form_too(kernel):
    """The form needs the kernel's own loop, not the magic."""
    person = Person(kernel)
    cell = person.start("run = await Agent(planner='you', tools=[add]).arun('go')")
    person.put("next", index=1)
    person.put("answer", value="Hi.")
    person.press("Do it")
    person.finish(cell)
    assert kernel.value("run.answer") == "'Hi.'"


@pytest.mark.slow
def test_where_the_form_would_not_be_heard_nothing_hangs(kernel):
    """A cell that blocks the kernel, and a notebook that a program runs, end paused at once."""
    blocked = kernel.run("print(Agent(planner='you').run('go').detail)", live=True)
    assert "nobody can be asked here" in blocked.text
    static = kernel.run("%%agent --planner you -o run\ngo")
    assert "nobody can be asked here" in static.text
    assert kernel.value("run.stop") == "<StopReason.PAUSED: 'paused'>"


@pytest.mark.slow
def test_an_interrupt_ends_the_wait(kernel):
    """The form goes, the run is kept."""
    cell = kernel.run("%%agent --planner you -o run\ngo", live=True, interrupt_after=1.0)

    assert cell.errors[0]["ename"] == "AgentInterrupted"
    assert cell.ended < 5
    assert kernel.value("run.stop") == "<StopReason.CANCELLED: 'cancelled'>"
    assert kernel.value("len(__import__('agentnb.notebook.widget_cell', fromlist=['_']).owners())") == "0"
