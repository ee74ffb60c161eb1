"""`%%compare` in a real kernel: the result below the cell, a bar only where a person sits, an interrupt that keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from kernel import Kernel

from agentnb.comparison.progress import Progress
from agentnb.notebook.compare_cell import CellComparison, bar_html

TASKS = "id,goal,expected\nx,What is 2 + 2?,4\ny,What is 3 + 1?,4\nz,What is 1 + 3?,4\n"
SET_UP = """
%load_ext agentnb
import time
asked = []

def four(request):
    asked.append(request.messages[-1]["content"])
    return "It is 4."

def five(request):
    asked.append(request.messages[-1]["content"])
    return "<b>5</b>"

def slow(request):
    time.sleep(0.2 if "2 + 2" in request.messages[-1]["content"] else 30)
    return "4"
"""


def test_the_bar_tells_counts_in_words():
    """Done, failed, running and waiting are words and numbers; the bar has a sign for each."""
    told = bar_html(Progress(100, kept=10, done=40, failed=5, running=3, seconds=60.0, note="<b>"))

    assert "50 of 100 done, 5 failed, 3 running, 47 waiting, 40 a minute, about 75 s left, &lt;b&gt;" in told
    assert "█" * 13 + "▒" * 2 + "░" * 15 in told


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One kernel with three models."""
    made = Kernel()
    assert made.run(SET_UP).status == "ok"
    yield made
    made.stop()


@pytest.mark.slow
def test_live_and_headless_cells_save_the_same(kernel: Kernel) -> None:
    """The result is one display; where a person sits a bar comes and goes; nothing of a model is markup."""
    saved = []
    for live in (True, False):
        cell = kernel.run(f"%%compare -m four,five -r 2 --first 1 -o result\n{TASKS}", live=live)
        assert cell.status == "ok", cell.text
        emptied = [each for each in cell.outputs if each["type"] == "update_display_data" and not each["data"]]
        assert len(emptied) == live
        saved.append(cell.displays[-1])

    assert saved[0] == saved[1]
    assert "four is better than five" in saved[0]["text/plain"] or "cannot be told apart" in saved[0]["text/plain"]
    assert "<b>5</b>" not in saved[0]["text/html"]
    assert kernel.value("len(result.rows), result.variants") == "(12, ('four', 'five'))"


@pytest.mark.slow
def test_options_are_those_of_the_function(kernel: Kernel, tmp_path) -> None:
    """Temperatures make variants; a second cell with the same folder asks for nothing."""
    line = f"%%compare -m four --temperatures 0,1 --folder {tmp_path} --scorer number -o result"
    kernel.run(f"asked.clear()\n{''}")
    assert kernel.run(f"{line}\n{TASKS}").status == "ok"
    assert kernel.run(f"{line}\n{TASKS}").status == "ok"

    assert kernel.value("len(asked), result.variants") == "(6, ('four · temperature=0.0', 'four · temperature=1.0'))"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "what"),
    [
        ("%%compare -m four --bogus\nx", "unrecognized arguments"),
        ("%%compare -m four", "the task set is empty"),
        ("%%compare -m four -r two\nx", "'two' is not a number"),
        ("%%compare -m fuor,four\nx", "Did you mean 'four'?"),
        ("%%compare --agent nobody\nx", "there is no variable 'nobody'"),
        ("%%compare -m four --first 0\nx", "first=0"),
    ],
)
def test_a_bad_cell_is_an_error_that_a_test_run_sees(kernel: Kernel, cell: str, what: str) -> None:
    """Each error names the option; nothing was asked."""
    done = kernel.run(cell)

    assert done.status == "error"
    assert what in done.text


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_finished(kernel: Kernel) -> None:
    """The cell ends at once; the finished run is in the variable, the others say what became of them."""
    cells = kernel.run_all(f"%%compare -m slow -c 3 -o partial\n{TASKS}", "print('B')", interrupt_after=1.5)

    assert [cell.status for cell in cells] == ["error", "aborted"]
    assert cells[0].errors[0]["ename"] == "AgentInterrupted"
    assert kernel.value("[row['outcome'] for row in partial.rows]") == "['right', 'cancelled', 'cancelled']"


PRESS_STOP = """
import threading
from ipywidgets.widgets.widget import _instances

pressed = []

def press():
    time.sleep(1.5)
    (button,) = [each for each in _instances.values() if getattr(each, "description", "") == "Stop"]
    pressed.append(time.monotonic())
    button.click()

threading.Thread(target=press, daemon=True).start()
"""


@pytest.mark.slow
def test_the_stop_button_keeps_what_is_finished(kernel: Kernel, tmp_path) -> None:
    """The cell ends within a second and normally; it says what is kept and how to go on, and the same cell goes on."""
    assert kernel.run(PRESS_STOP).status == "ok"
    line = f"%%compare -m slow -c 3 --folder {tmp_path} -o partial\n{TASKS}"
    cells = kernel.run_all(line, "time.monotonic() - pressed[0]", live=True)

    assert [cell.status for cell in cells] == ["ok", "ok"]
    assert float(cells[1].text) < 1.0
    assert "Stopped; interrupted: 1 of 3 runs are kept; the same call goes on." in cells[0].displays[-1]["text/plain"]
    assert kernel.value("[row['outcome'] for row in partial.rows]") == "['right', 'cancelled', 'cancelled']"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "cancel"])
@pytest.mark.parametrize("begun", [False, True], ids=["at once", "while the tasks are read"])
def test_a_stop_before_the_first_run_is_kept_in_mind(how: str, begun: bool) -> None:
    """Whatever the comparison was doing when it was stopped, it does not go on unseen and pay for runs."""
    reading, go_on, asked = Event(), Event(), []

    def tasks() -> Iterator[str]:
        reading.set()
        go_on.wait(10)
        yield from ["one", "two", "three", "four"]

    async def model(request: Any) -> str:
        asked.append(request)
        await asyncio.sleep(0.1)
        return "x"

    async def play() -> None:
        magics: Any = SimpleNamespace(shell=SimpleNamespace(user_ns={}))
        cell = CellComparison(magics, {"models": [model], "tasks": tasks(), "concurrency": 1}, None)
        work = asyncio.ensure_future(cell.work(True))
        await asyncio.to_thread(reading.wait, 10) if begun else await asyncio.sleep(0)
        cell.stop() if how == "stop" else work.cancel()
        go_on.set()
        await asyncio.wait({work}, timeout=10)
        await asyncio.sleep(0.5)
        assert len(asked) <= 1
        assert cell.result is None or all(row["outcome"] in ("not run", "cancelled") for row in cell.result.rows)

    asyncio.run(play())
