"""A run of 300 steps with results of 20 kB in JupyterLab: the page answers meanwhile, and what it leaves is bounded.

`pytest -s` prints what was measured.
"""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(240)]

STEPS = 300
SET_UP = f"""
%load_ext agentnb
import os, time
from agentnb import Agent, Limits, calls, tool
from agentnb.notebook.render import step_block

@tool(max_chars=50_000)
def look(page: int) -> str:
    "Read a page."
    return f"page {{page}}: " + "All work and no play. " * 950

def model(request):
    "Takes its time, as models do, and notes when it was asked and when it had answered."
    asked.append(time.perf_counter())
    time.sleep(0.02)
    pages = sum(message["role"] == "tool" for message in request.messages)
    answered.append(time.perf_counter())
    return calls("look", page=pages) if pages < {STEPS - 1} else "Read."

asked, answered = [], []
agent = Agent(model, [look], limits=Limits(steps=1000))

def between(steps):
    "Seconds that the loop and its display took after the replies of these steps."
    return sum(asked[step + 1] - answered[step] for step in steps)

def spent(steps):
    "Seconds to render these steps."
    began = time.perf_counter()
    for step in steps:
        step_block(step)
    return time.perf_counter() - began
""".strip()
ASK = "%%agent --agent agent -o run\nRead every page."
STATIC = "os.environ['AGENTNB_RENDER'] = 'static'"
FIGURES = """
steps = run.steps
print(len(steps), len(steps[0].results[0].content), between(range(50)), between(range(249, 299)), spent(steps[:50]), spent(steps[-51:-1]))
""".strip()
WATCH_KEYS = """() => {
    window.latencies = [];
    const note = each => requestAnimationFrame(() => setTimeout(() => latencies.push(performance.now() - each.timeStamp)));
    document.addEventListener('keydown', note, true);
}"""
"""From a key that was pressed to the frame that shows it, in ms."""


def test_a_long_run_keeps_the_page_quick_and_its_output_small(opened):
    """Typing stays quick, the output is within 200 kB, a late step costs what an early one does, headless is the same."""
    notebook = opened("long.ipynb", [SET_UP, "# scratch", ASK, FIGURES, STATIC, ASK])
    notebook.run_cell(0)
    latencies = typed_while_running(notebook, cell=2, scratch=1)
    for number in (3, 4, 5):
        notebook.run_cell(number)
    live, static = (lasting(notebook.outputs(number)) for number in (2, 5))
    size = len(json.dumps(notebook.outputs(2), ensure_ascii=False).encode())
    steps, characters, *seconds = map(float, notebook.outputs(3)[0]["text"].split())
    median, worst = latencies[len(latencies) // 2], latencies[-1]
    print(f"{len(latencies)} keys while it ran: median {median:.0f} ms, worst {worst:.0f} ms; output {size:,} bytes;")
    print("50 steps, first and last: run {:.3f} s and {:.3f} s, rendered {:.3f} s and {:.3f} s".format(*seconds))

    assert (steps, characters > 20_000) == (STEPS, True)
    assert len(latencies) > 20
    assert median < 200
    assert size < 200_000
    assert seconds[1] < 2 * seconds[0]
    assert seconds[3] < 2 * seconds[2]
    assert live == static


def typed_while_running(notebook, cell, scratch):
    """Type into another cell while this one runs; from each key to its frame, in ms, smallest first."""
    notebook.page.evaluate(WATCH_KEYS)
    notebook.start_cell(cell)
    notebook.page.get_by_role("button", name="Stop").wait_for()
    notebook.cell(scratch).locator(".cm-content").focus()
    while notebook.is_running(cell):
        notebook.page.keyboard.press("a")
    notebook.wait_for_cells()
    return sorted(notebook.page.evaluate("() => latencies"))


def lasting(outputs):
    """What a reader of the saved notebook sees: every output but those that were emptied."""
    return [output["data"] for output in outputs if output["data"]]
