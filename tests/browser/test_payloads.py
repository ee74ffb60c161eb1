"""Nothing that a model, a tool or a user writes comes to life in JupyterLab: not in the output, not in the panel."""

from __future__ import annotations

import json

import pytest
from hostile import PAYLOADS

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(180)]

LIVE = (
    "script, iframe, frame, object, embed, base, link, meta, style, img, svg, math, video, audio, form, template, "
    "marquee, noscript, xmp, a[href^='javascript' i], a[href^='data' i], a[href^='vbscript' i], a[href^='file' i]"
)
SEARCH = """live => [...document.querySelectorAll('.jp-OutputArea-output')].flatMap(output => [...output.querySelectorAll('*')]
    .filter(each => !each.closest('.jp-RenderedImage, mjx-container'))
    .filter(each => each.matches(live) || [...each.attributes].some(it => it.name.startsWith('on')))
    .map(each => each.outerHTML.slice(0, 200)))"""
"""Every element in an output that could do something; pictures of plots and set formulas are ours."""
SET_UP = """
%load_ext agentnb
import asyncio, json
from pathlib import Path
from agentnb import Agent, Limits, Panel, tool
from agentnb.errors import ToolError

PAYLOADS = json.loads(Path("payloads.json").read_text())
ALL = "\\n\\n".join(PAYLOADS)

def look(at: str, number: int = 0) -> str:
    if number % 3 == 0:
        raise ToolError(at)
    return at

look.__doc__ = ALL
look = tool(approve=True)(look)

class Hostile:
    "A model whose every word is a payload; `asked` of them before it answers."
    name = PAYLOADS[1]
    asked = len(PAYLOADS)

    def __call__(self, request):
        number = sum(message["role"] == "tool" for message in request.messages)
        if number >= self.asked:
            return {"content": ALL, "reasoning_content": ALL}
        text = PAYLOADS[number]
        arguments = json.dumps({"at": text, "number": number})
        name = "look" if number % 4 else text
        call = {"type": "function", "id": text[:60], "function": {"name": name, "arguments": arguments}}
        return {"content": text, "reasoning_content": text, "tool_calls": [call]}

hostile = Hostile()
agent = Agent(hostile, [look.replace(approve=False)], system_prompt=ALL, limits=Limits(steps=200))
""".strip()
RUN = "run = agent.run(ALL)\n%agent show run"
FIELDS = """
hostile.asked = 4
panel = Panel(agent.replace(tools=[look]), goal=ALL)
panel.show()
""".strip()
PRESS = """
async def pressed(button):
    panel._widgets.press(button)
    while panel.run.task is not None:
        await asyncio.sleep(0.01)

fields = panel.bench.fields
await pressed("run")
for text in PAYLOADS:
    for name in ("arguments", "result", "message", "reason", "model", "goal"):
        setattr(fields, name, text)
    fields.limits["steps"] = text
    panel.refresh()
    await pressed("run")                 # the error holds the payload
fields.limits["steps"], fields.model, fields.goal = "", "", ALL
while panel.bench.newest.open_calls:
    fields.arguments = ""
    await pressed("approve")
for position in range(len(panel.bench.states)):
    panel.bench.position = position
    panel.refresh()
panel._widgets.which_cell.value = "say"
panel._widgets._write = lambda cell: None
panel._widgets._write_one()
""".strip()
DONE = "other = hostile\nlen(run.steps), len(panel.bench.newest.steps)"
OTHER = [
    "from agentnb import diff, loop_view, plot\nloop_view(run)",
    "diff(run, agent.run(PAYLOADS[2]), names=PAYLOADS[:2])",
    "plot(run, run, names=PAYLOADS[2:4])",
    '%agent try look at="<img src=x onerror=alert(1)>" number=1',
    "%agent tools",
    "%agent show",
    '%%tool\ndef hostile_tool(at: str = "<img src=x onerror=alert(1)>") -> str:\n    """<script>alert(1)</script>\n\n    Args:\n        at: <img src=x onerror=alert(1)>\n    """\n    return at\n',
    "%%prompt ask\n<script>alert(1)</script> <img src=x onerror=alert(1)> {{city}}",
    "%%agent --prompt ask --set city='<svg onload=alert(1)>' -m hostile,other --steps 2\n<iframe srcdoc='<script>alert(1)</script>'>",
]
PERSON = "%%agent --planner you\n<script>alert(1)</script><img src=x onerror=alert(1)>"
RAW = "from IPython.display import HTML\nHTML(PAYLOADS[2])"
"""What the page does with one of them that nobody escaped."""


@pytest.fixture
def watched(lab):
    """What the page asks for from anywhere but its server, and every dialog, while the test goes on."""
    seen = []

    def asked(request):
        is_ours = request.url.startswith((lab.server.url, lab.server.url.replace("http", "ws"), "data:", "blob:"))
        if not is_ours or request.url.rstrip("/").rpartition("/")[2] in ("x", "a.js", "a.css", "pixel.png"):
            seen.append(request.url)

    def spoke(dialog):
        seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    lab.page.on("request", asked)
    lab.page.on("dialog", spoke)
    yield seen
    lab.page.remove_listener("request", asked)
    lab.page.remove_listener("dialog", spoke)


def test_payloads_stay_text(lab, opened, watched, artifacts):
    """In goal, prompt, reasoning, arguments, results, errors, names, fields: no dialog, no request, no live element.

    The last cell shows that one which nobody escaped would have been seen.
    """
    (lab.server.folder / "payloads.json").write_text(json.dumps(PAYLOADS))
    notebook = opened("payloads.ipynb", [SET_UP, RUN, FIELDS, PRESS, DONE, *OTHER, PERSON, RAW])
    person = 5 + len(OTHER)
    for number in range(person):
        notebook.run_cell(number)
    notebook.start_cell(person)
    notebook.page.get_by_text("You are the model. What do you do?").wait_for()
    notebook.page.get_by_role("button", name="Pause").click()
    notebook.wait_for_cells()
    found = notebook.page.evaluate(SEARCH, LIVE)
    errors = [output["evalue"] for cell in notebook.model() for output in cell["outputs"] if "evalue" in output]
    notebook.show(2)
    notebook.lab.picture(artifacts / "payloads-panel.png")

    assert len(PAYLOADS) >= 40
    assert errors == []
    assert found == []
    assert watched == []
    assert "<svg onload=alert(1)>" in notebook.cell(2).text_content()
    assert notebook.outputs(4)[0]["data"]["text/plain"] == f"({len(PAYLOADS) + 1}, 5)"
    with lab.page.expect_event("dialog"):
        notebook.run_cell(person + 1)
    assert len(watched) >= 2
    assert notebook.page.evaluate(SEARCH, LIVE) != []
