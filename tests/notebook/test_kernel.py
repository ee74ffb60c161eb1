"""The magics in a real kernel: cells that run, cells that are queued, cells that are interrupted, bad input."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kernel import Kernel, started

pytestmark = pytest.mark.slow

SET_UP = '''
%load_ext agentnb
import asyncio, time
from agentnb import Agent, ScriptedModel, calculator, calls, tool

ran = []

@tool
def get_weather(city: str) -> float:
    """Current temperature of a city.

    Args:
        city: English name, such as "Beijing".
    """
    ran.append(city)
    return {"Beijing": 31.0, "Shanghai": 27.5}[city]

@tool(timeout=None)
def slow(seconds: float = 30) -> str:
    """Wait, and say so.

    Args:
        seconds: How long.
    """
    ran.append("slow")
    time.sleep(seconds)
    return "waited"

def both(*more):
    return {"tool_calls": [call for each in more for call in each["tool_calls"]]}

async def writes(request):
    for number in range(600):
        await asyncio.sleep(0.05)
        yield f"word{number} "

def thinks(request):
    time.sleep(30)
    return "thought"
'''


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One kernel for this module."""
    yield from started(SET_UP)


def script(kernel: Kernel, *entries: str) -> None:
    """`model` plays these entries (Python expressions)."""
    assert kernel.run(f"ran.clear(); model = ScriptedModel([{', '.join(entries)}])").status == "ok"


def test_a_cell_runs_an_agent_inline(kernel: Kernel) -> None:
    """Each step is one display with a block that folds and the same in plain text; the run is in the variable."""
    script(kernel, 'calls("get_weather", city="Beijing")', '"It is 31.0 degrees."')
    cell = kernel.run("%%agent -m model -o run\nHow warm is Beijing?\n")

    assert cell.status == "ok"
    assert [data["text/plain"].split(" · ")[0].split("\n")[0] for data in cell.displays] == [
        "Step 1",
        "Step 2",
        "Answer",
    ]
    assert all("<details" in data["text/html"] for data in cell.displays[:2])
    assert "It is 31.0 degrees." in cell.displays[2]["text/html"]
    assert kernel.value("run.answer, ran") == "('It is 31.0 degrees.', ['Beijing'])"


def test_the_body_reaches_the_model_byte_for_byte(kernel: Kernel) -> None:
    """Braces, dollars, percent signs, magics and shell lines are text."""
    body = "Explain {x for x in y}, {'a': 1}, $HOME, 100%, \\frac{a}{b}\n%time is short\n!ls {ran}\n  end"
    script(kernel, '"ok"')
    kernel.run(f"%%agent -m model -o run\n{body}\n")

    assert kernel.value("model.requests[0].messages[-1]['content']") == repr(body)


def test_live_and_headless_outputs_are_the_same(kernel: Kernel) -> None:
    """A front end with a person and a program that runs notebooks save equal bytes; the live bar leaves nothing."""
    saved = []
    for live in (True, False):
        script(kernel, 'calls("get_weather", city="Beijing")', '"31.0"')
        cell = kernel.run("%%agent -m model -o run\nHow warm?\n", live=live)
        bars = [each for each in cell.outputs if "widget-view" in str(each.get("data"))]
        assert len(bars) == live
        assert not live or any(each["type"] == "update_display_data" and not each["data"] for each in cell.outputs)
        saved.append(cell.displays)

    assert saved[0] == saved[1]


def test_run_all_runs_every_queued_cell_in_order(kernel: Kernel) -> None:
    """Cells that wait behind a running agent are neither lost nor overtaken."""
    script(kernel, 'calls("slow", seconds=0.5)', '"ok"')
    cells = kernel.run_all("%%agent -m model -o run\nwait\n", "print('B', run.answer)", "print('C')", live=True)

    assert [cell.status for cell in cells] == ["ok"] * 3
    assert [cell.text for cell in cells[1:]] == ["B ok\n", "C\n"]


@pytest.mark.parametrize("live", [True, False])
def test_an_interrupt_ends_a_slow_tool_at_once(kernel: Kernel, live: bool) -> None:
    """The cell ends within a second, cells behind it do not run, the run is kept with every call answered once."""
    script(kernel, 'both(calls("get_weather", city="Beijing"), calls("slow"))', '"ok"')
    cells = kernel.run_all("%%agent -m model -o run\nwait\n", "print('B')", live=live, interrupt_after=1.5)

    assert [cell.status for cell in cells] == ["error", "aborted"]
    assert cells[0].errors[0]["ename"] == "AgentInterrupted"
    assert cells[0].ended is not None
    assert cells[0].ended < 2.5
    assert kernel.value("str(run.stop), [r.status for r in run.tool_results], sorted(ran)") == (
        "('cancelled', ['ok', 'cancelled'], ['Beijing', 'slow'])"
    )


def test_a_run_that_the_notebook_did_not_make_is_not_resumed_by_another_agent(kernel: Kernel) -> None:
    """Made in Python, or after a restart out of a file: its limits and its middleware are not known here."""
    kernel.run("from agentnb import Agent, calls\nmine = Agent(lambda request: 'done').run('go').at(1)")
    cell = kernel.run("%agent resume mine")

    assert "did not see which agent made 'mine'" in cell.text
    assert "%agent resume mine --agent NAME" in cell.text
    assert "Answer" in kernel.run("%agent resume mine -m model").text


def test_a_cell_that_fails_at_once_leaves_the_variable_alone(kernel: Kernel) -> None:
    """`-o run` is set from the first step on, not before."""
    kernel.run("run = 'precious'")
    assert "Error" in kernel.run("%%agent -m openai:gpt-5-mini -o run\nWhat is 2 + 2?").text
    assert "precious" in kernel.run("print(run)").text


def test_an_interrupted_run_is_resumed_and_repeats_nothing(kernel: Kernel) -> None:
    """The next cell goes on where the run was stopped; answered calls are not run again and the model sees them."""
    script(kernel, 'both(calls("get_weather", city="Beijing"), calls("slow"))', '"done"')
    kernel.run("%%agent -m model -o run\nwait\n", interrupt_after=1.5)
    cell = kernel.run("%agent resume run")

    assert cell.status == "ok"
    assert kernel.value("run.answer, sorted(ran)") == "('done', ['Beijing', 'slow'])"
    roles = kernel.value("[m['role'] for m in model.requests[-1].messages][-4:]")
    assert roles == "['user', 'assistant', 'tool', 'tool']"
    assert "may have taken effect" in kernel.value("model.requests[-1].messages[-1]['content']")


@pytest.mark.parametrize("model", ["writes", "thinks"])
def test_an_interrupt_ends_a_model_call_at_once(kernel: Kernel, model: str) -> None:
    """Also while a model streams, and while a function of the notebook stands in for one."""
    cell = kernel.run(f"%%agent -m {model} -o run\nwrite\n", live=True, interrupt_after=1.5)

    assert cell.errors[0]["ename"] == "AgentInterrupted"
    assert cell.ended is not None
    assert cell.ended < 2.5
    assert kernel.value("str(run.stop), run.goal") == "('cancelled', 'write')"


@pytest.mark.parametrize("call", ["agent.run('wait')", "await agent.arun('wait')"])
def test_an_interrupt_ends_run_and_arun_in_a_cell(kernel: Kernel, call: str) -> None:
    """Without the magic, too; the error holds the run so far."""
    script(kernel, 'calls("slow")', '"ok"')
    kernel.run("agent = Agent(model=model, tools=[slow])")
    cell = kernel.run(f"run = {call}", interrupt_after=1.5)

    assert cell.status == "error"
    assert cell.ended is not None
    assert cell.ended < 2.5
    assert kernel.value("str(__import__('sys').last_value.state.stop)") == "'cancelled'"


@pytest.mark.parametrize("magic", ["%%time", "%%capture shown"])
def test_the_magic_runs_inside_other_magics(kernel: Kernel, magic: str) -> None:
    """Where a cell can't be awaited it runs synchronously, and an interrupt works there."""
    script(kernel, '"ok"', 'calls("slow")')

    assert kernel.run(f"{magic}\n%%agent -m model -o run\nhello\n").status == "ok"
    assert kernel.value("run.answer") == "'ok'"

    cell = kernel.run("%%time\n%%agent -m model -o run\nwait\n", interrupt_after=1.5)
    assert cell.errors[0]["ename"] == "AgentInterrupted"
    assert cell.ended is not None
    assert cell.ended < 2.5


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%agent --bogus\nhello", ["--bogus", "%%agent? shows every option"]),
        ("%%agent -o\nhello", ["-o", "%%agent?"]),
        ("%%agent -m nobody:gpt\nhello", ["'nobody'", "openai", "ollama"]),
        ("%%agent -m openai:gpt-5-mini\nhello", ["OPENAI_API_KEY"]),
        ("%%agent -t no_such_tool -m model\nhello", ["'no_such_tool'", "get_weather"]),
        ("%%agent -m model --steps 0\nhello", ["steps=0"]),
        ("%%agent -m model --steps many\nhello", ["'many'"]),
        ("%%agent -m model\n", ["no goal", "%agent resume NAME"]),
        ("%%agent -m model", ["no goal"]),
        ("%%agent -m model --from nothing\nhello", ["'nothing'"]),
        ("%%agent -m model --show all\nhello", ["'all'", "steps"]),
        ("%%agent -m model --agent model\nhello", ["'model'", "Agent(...)"]),
        ("%agent nonsense", ["'nonsense'", "plot"]),
        ("%agent resume nothing", ["'nothing'"]),
        ("%agent resume", ["takes the name of a run", "%agent resume run"]),
        ("%agent rerun --steps 3", ["takes the name of a run"]),
        ("%agent doctor -m", ["-m lacks its value"]),
        ("%agent doctor --modle x", ["Did you mean '--model'"]),
        ("%agent mcp close", ["takes a server's name", "none yet"]),
        ("%agent mcp x no-such-program", ["can't be reached", "does it run in a terminal?"]),
        ("%%prompt 5x\nhello", ["%%prompt '5x' can't be a variable"]),
        ("%%agent -m model --examples model\nhello", ["'model' holds ScriptedModel, expected a list"]),
        ("%%tool\nx = 1", ["defines no function"]),
        ("%%tool now\ndef f(): pass", ["'now'"]),
    ],
)
def test_bad_input_is_a_short_error_of_ours(kernel: Kernel, cell: str, words: list[str]) -> None:
    """Four lines at most that name the layer and the remedy, and a status that test runs see as an error."""
    script(kernel, '"ok"')
    shown = kernel.run(cell)

    assert shown.status == "error", shown.text
    lines = "\n".join(shown.errors[0]["traceback"]).split("\n")
    assert len(lines) <= 4
    assert all(word in "\n".join(lines) for word in words), lines


def test_the_newest_run_is_shown_with_its_name(kernel: Kernel) -> None:
    """What is to be typed next names the variable that holds it."""
    script(kernel, 'calls("get_weather", city="Beijing")')
    kernel.run("%%agent -m model -o short --steps 1\nhello")

    assert "Go on with %agent resume short" in kernel.run("%agent show").text


def test_a_server_that_is_down_ends_the_run_as_data(kernel: Kernel) -> None:
    """The cell shows why and what to do; the run is kept and can go on."""
    kernel.run(
        "from agentnb.models.chat_completions import ChatCompletionsModel\n"
        "from agentnb.models.transport import Retry\n"
        "down = ChatCompletionsModel('m', 'http://127.0.0.1:9/v1', retry=Retry(attempts=1))"
    )
    cell = kernel.run("%%agent -m down -o run\nhello\n")

    assert kernel.value("str(run.stop)") == "'connection_lost'"
    assert "could not connect" in cell.text
    assert "agent.run(run)" in cell.text


def test_a_tool_cell_defines_changes_and_points_at_its_lines(kernel: Kernel) -> None:
    """Running the cell again changes the tool for the next call; a traceback names the line of that cell."""
    shown = kernel.run('%%tool\ndef price(item: str) -> int:\n    """Price of an item in the shop."""\n    return 7\n')
    assert "tool price" in shown.text
    assert "hint" in shown.text
    kernel.run('%%tool\ndef price(item: str) -> int:\n    """Price of an item in the shop."""\n    return 1 // 0\n')
    script(kernel, 'calls("price", item="tea")', '"ok"')
    kernel.run("%%agent -m model -o run\nHow much?\n")

    result = kernel.value("run.tool_results[0].content, run.tool_results[0].version.split('·')[0]")
    assert result == "('ZeroDivisionError: integer division or modulo by zero', 'price@2')"
    assert "line 4, in price" in kernel.value("run.tool_results[0].traceback")


def test_a_traceback_names_the_tool_cell_that_failed(kernel: Kernel) -> None:
    """The number of the cell as its prompt has it, the line in it; what is no Python is told with its line."""
    count = int(kernel.value("get_ipython().execution_count"))
    kernel.run('%%tool\ndef boom(x: int) -> int:\n    """Boom."""\n    return x // 0\n')
    told = "\n".join(kernel.run("boom(x=3)").errors[0]["traceback"])
    wrong = kernel.run("%%tool\ndef boom(x: int) -> int:\n    return x +\n")

    assert f"In[{count}], line 4" in re.sub(r"\x1b\[[\d;]*m", "", told)
    assert "line 3 of the cell is no Python: invalid syntax" in wrong.text
    slip = kernel.run("%%tool\ndef boom(x: int) -> int:\n    y = x\n  return y\n")
    assert "line 4 of the cell is no Python" in slip.text
    assert len("\n".join(wrong.errors[0]["traceback"]).split("\n")) <= 4


def test_a_tool_that_was_opened_as_a_cell_is_changed_by_it(kernel: Kernel) -> None:
    """Whatever variable held it: the next call runs the edited source, with the options that it had."""
    kernel.run('def plain(x: int = 5) -> int:\n    "Plain."\n    return x\nheld = tool(plain, name="pf", timeout=9)')
    kernel.run("from agentnb.notebook.tool_source import source_cell\nspace = get_ipython().user_ns")
    kernel.run("source = source_cell(held, space).replace('return x', 'return x + 1000')")
    kernel.run("get_ipython().run_cell(source)")

    assert "1001" in kernel.run("%agent try pf x=1").text
    assert kernel.value("plain.options.timeout, held is plain") == "(9, False)"
    kernel.run("pf = held\nget_ipython().run_cell(source.replace('1000', '2000'))")
    assert kernel.value("pf is plain, pf(x=1)") == "(True, 2001)"
    kernel.run(
        "%%tool\n@tool(name='y')\ndef x() -> int:\n    'X.'\n    return 1\n\n@tool(name='x')\ndef z() -> int:\n    'Z.'\n    return 2"
    )
    assert "2" in kernel.run("%agent try x").text


@pytest.mark.parametrize("cell", ["%agent plot nope", "%%agent --bogus KEY-TEST-0123456789\ngo"])
def test_debug_shows_the_whole_traceback_as_an_error(kernel: Kernel, cell: str) -> None:
    """A test run of notebooks sees it as well."""
    kernel.run("import os\nfrom agentnb.text import hide\nhide('KEY-TEST-0123456789')\nos.environ['AGENT_DEBUG'] = '1'")
    shown = kernel.run(cell)
    kernel.run("del os.environ['AGENT_DEBUG']")

    assert shown.errors[0]["ename"] == "UsageError"
    assert "Traceback (most recent call last)" in "\n".join(shown.errors[0]["traceback"])
    assert "KEY-TEST-0123456789" not in str(shown.outputs)
    assert "Unexpected exception" not in shown.text


def test_a_key_of_the_environment_is_hidden_whoever_says_it(kernel: Kernel) -> None:
    """No model has read it: a tool that finds it shows nothing of it."""
    kernel.run("import os\nos.environ['GROQ_API_KEY'] = 'gsk-test-0123456789abcdef'")
    kernel.run("@tool\ndef peek() -> str:\n    'Peek.'\n    return os.environ['GROQ_API_KEY']")
    script(kernel, 'calls("peek")', '"It is gsk-test-0123456789abcdef"')
    shown = kernel.run("%%agent -m model -o run\nPeek.\n")

    assert "0123456789abcdef" not in str(shown.outputs)
    assert "0123456789abcdef" not in kernel.value("run")
    assert "[hidden]" in shown.text


def test_a_new_message_goes_on_in_the_conversation(kernel: Kernel) -> None:
    """`--from` adds the body to an earlier run, which itself stays as it was."""
    script(kernel, '"Oslo."', '"Because it is the capital."')
    kernel.run("%%agent -m model -o first\nName a city.\n")
    kernel.run("%%agent -m model -o second --from first\nWhy?\n")

    assert kernel.value("[m.content for m in second.messages]") == (
        "['Name a city.', 'Oslo.', 'Why?', 'Because it is the capital.']"
    )
    assert kernel.value("len(first.messages)") == "2"


def test_marker_lines_of_notebook_tests_do_not_reach_the_model(kernel: Kernel) -> None:
    """A line that only marks a cell for a test run is no part of the goal."""
    script(kernel, '"ok"')
    kernel.run("%%agent -m model -o run\n# NBVAL_IGNORE_OUTPUT\nhello\n")

    assert kernel.value("run.goal") == "'hello'"


def test_a_notebook_of_hostile_text_shows_no_live_html(kernel: Kernel) -> None:
    """What a model or a tool writes is text, in every output."""
    script(kernel, """'<img src=x onerror=alert(1)><script>alert(2)</script> costs $5'""")
    cell = kernel.run("%%agent -m model -o run\nhello\n")

    assert "<img" not in cell.displays[-1]["text/html"]
    assert "<script" not in cell.displays[-1]["text/html"]
    assert "costs $5" in cell.displays[-1]["text/plain"]


def test_loading_the_extension_is_quick_and_imports_no_plots() -> None:
    """A fresh kernel loads it without matplotlib or ipywidgets."""
    fresh = Kernel()
    try:
        fresh.run("import sys, time, httpx, pydantic; began = time.perf_counter()")
        fresh.run("%load_ext agentnb")
        heavy = fresh.value("[m for m in ('matplotlib.pyplot', 'ipywidgets', 'pandas', 'mcp') if m in sys.modules]")
    finally:
        fresh.stop()
    assert heavy == "[]"


def test_words_of_ours_win_over_variables_and_quotes_are_taken_off(kernel: Kernel) -> None:
    """`import json` does not change what `--planner json` means; quotes only hold words together."""
    script(kernel, '\'{"reasoning": "r", "answer": "ok"}\'')
    kernel.run("import json\ntools = [1]")
    kernel.run('%%agent -m model -o run --planner json --system-prompt "Be  very brief."\nhello\n')

    assert kernel.value("run.answer") == "'ok'"
    assert kernel.value("model.requests[0].messages[0]['content'][:15]") == "'Be  very brief.'"


def test_options_change_an_agent_only_where_they_say(kernel: Kernel) -> None:
    """`--steps` keeps the other limits of the agent; to resume a run keeps the agent that made it."""
    script(kernel, 'calls("slow", seconds=0)', '"first"', '"second"')
    kernel.run(
        "from agentnb import Limits\n"
        "boss = Agent(model=model, tools=[slow], system_prompt='SP', limits=Limits(tokens=1000, steps=9))"
    )
    kernel.run("%%agent --agent boss --steps 1 -o mine\ngo\n")
    kernel.run("%%agent -m model -o other\nhello\n")
    kernel.run("%agent resume mine --show answer")

    assert kernel.value("mine.answer, other.answer") == "('second', 'first')"
    assert kernel.value("model.requests[-1].messages[0]['content'][:2]") == "'SP'"
    limits = kernel.value("get_ipython().find_line_magic('agent').__self__.agents['mine'].limits")
    assert "steps=1, tokens=1000" in limits


def test_an_alias_does_not_keep_an_old_tool(kernel: Kernel) -> None:
    """The variable that is called like the tool counts."""
    for value in (1, 2):
        kernel.run(f'%%tool\ndef count() -> int:\n    """Count things."""\n    return {value}\n')
        kernel.run("old = count") if value == 1 else None
    script(kernel, 'calls("count")', '"ok"')
    kernel.run("%%agent -m model -o run\nHow many?\n")

    assert kernel.value("run.tool_results[0].content") == "'2'"
