"""The blocks of a run: goal, steps, end; what is in them, and that they are the same every time."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import pytest
from html_seen import Seen
from made_runs import VERSION, answered, call, long_run, newest, one_call, plan, result

from agentnb.core.limits import Limits, StopReason
from agentnb.core.messages import Usage
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.notebook.render import (
    SHOWN_STEPS,
    Block,
    Budget,
    final_block,
    goal_block,
    run_blocks,
    step_block,
)

TRACEBACK = """Traceback (most recent call last):
  File "/home/me/tools.py", line 3, in get_weather
    return TABLE[city]
           ~~~~~^^^^^^
  File "/tmp/ipykernel_812/3434.py", line 1, in <module>
  Cell In[7], line 2
KeyError: 'Atlantis' in <Table at 0x7f33a1b2c3d4>
"""


def details(block: Block) -> list[str]:
    """The summary of every fold, in order."""
    return re.findall(r"<summary>(.*?)</summary>", block.html)


def step_of(state: State, limit: int = 30_000) -> Block:
    """The block of the newest step."""
    return step_block(newest(state), limit)


def test_a_step_is_one_fold_with_its_line():
    """The line of plain words is what a reader opens."""
    block = step_of(one_call())

    assert details(block)[0] == ("<b>Step 1</b> · asked get_weather for city='Beijing' · got 31.0 · 212 tokens")
    assert block.text.splitlines()[0] == "Step 1 · asked get_weather for city='Beijing' · got 31.0 · 212 tokens"


def test_the_text_of_a_step():
    """A terminal gets the same account, labels in a column."""
    state = one_call(
        call(arguments='{"city": "Beijing"}'),
        result("line one\nline two", arguments={"city": "Beijing", "unit": "C"}, notes=("read with care",)),
        text="I'll look.",
        thought="Which city?\nBeijing.",
    )

    assert step_of(state).text == (
        "Step 1 · asked get_weather for city='Beijing', unit='C' · got line one line two · 212 tokens\n"
        "  reasoning   Which city?\n"
        "              Beijing.\n"
        "  said        I'll look.\n"
        "  Call · get_weather (version 3fa9c1d0) · ok\n"
        '    arguments   {"city": "Beijing"}\n'
        "    as cast     city='Beijing', unit='C'\n"
        "    result      line one\n"
        "                line two\n"
        "    note        read with care\n"
        "  tokens      input 200 (cached 150), output 12 (reasoning 4)\n"
        "  model       local:small · finish reason tool_calls"
    )


def test_arguments_as_cast_only_where_they_differ():
    """Equal arguments are shown once; a number made of text is a difference, so is a default."""
    cast = {"n": 1}

    for arguments, differs in (('{"n": 1}', False), ('{"n": "1"}', True), ('{"n": 1.0}', True), ("{}", True)):
        assert ("as cast" in step_of(one_call(call("f", arguments), result(arguments=cast))).html) is differs
    assert "as cast" not in step_of(one_call(call("f", ""), result(arguments={}))).html
    assert "as cast" not in step_of(one_call(call("f", "{}"), result("no such tool", "error", arguments=None))).html


def test_the_three_depths():
    """Plain words, then the messages that the step added, then the request as it was sent."""
    block = step_of(one_call(text="I'll look."))
    seen = Seen(block.html)

    assert details(block)[1:] == ["Messages added (2)", "Request as sent"]
    assert 'get_weather({"city": "Beijing"})' in seen.text
    assert '"content": "goal"' in seen.text
    assert "Request" not in block.text


def test_a_long_request_is_only_pointed_at():
    """A request that has no room says where it is, and is not made."""

    class Unread:
        def json(self) -> dict[str, object]:
            raise AssertionError("made")

    state = plan(State.start("a goal of many words " * 2_000), call(), request=Unread()).answered(result())

    assert "too long to show here, it is in run.steps[0].request" in step_of(state).html
    assert "Request" not in step_of(State.start("goal").planned(Decision(answer="ok"))).html


@pytest.mark.slow
def test_a_step_of_a_long_run_looks_at_a_bounded_part_of_it():
    """The cost of a step doesn't grow with the run: no more messages are read than could be shown."""

    class Watched(list):  # type: ignore[type-arg]
        read = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            for item in list.__iter__(self):
                Watched.read += 1
                yield item

    state = long_run(2_000, answer=None)
    state.prompt.items = Watched(state.prompt.items)
    step_of(state)

    assert 0 < Watched.read < 1_000


def test_tracebacks_are_the_same_on_every_machine():
    """Folders, cell numbers, addresses and markers stay out of what is compared; the whole is on the result."""
    seen = Seen(step_of(one_call(answer=result("KeyError", "error", traceback=TRACEBACK))).html).text

    assert 'File "tools.py", line 3, in get_weather\n    return TABLE[city]\n  File "cell", line 1' in seen
    assert "Cell, line 2" in seen
    for part in ("/home", "ipykernel", "In[7]", "0x7f", "^^^"):
        assert part not in seen


def test_what_was_said_before_a_step():
    """A warning of the runtime or a message of the user stands at the step that it led to."""
    warned = plan(one_call().warn("You repeat yourself."), call()).answered(result())
    told = plan(one_call().say("Use kelvin."), call()).answered(result())

    assert "warned the model" in step_of(warned).html
    assert "You repeat yourself." in step_of(warned).text
    assert "the user said" in step_of(told).html


def test_a_finished_step_stays_the_same():
    """What comes later (a warning, a stop, the next step) doesn't change the block of a step that is done."""
    state = one_call()
    block = step_of(state)
    later = state.warn("You repeat yourself.").stopped(StopReason.MAX_STEPS, "stopped")

    assert step_block(later.steps[0], 30_000) == block
    assert step_of(later) == block


def test_many_calls_are_counted():
    """Of very many calls the first are shown and the rest are counted."""
    asked = [call(call_id=f"c{number}") for number in range(500)]
    state = plan(State.start("goal"), *asked)
    for each in asked:
        state = state.answered(result("x" * 1_000, call_id=each.id))
    block = step_of(state)

    assert "487 more calls, in run.steps[0].calls and run.steps[0].results" in block.html
    assert "494 more calls, in run.steps[0].calls and run.steps[0].results" in block.text
    assert len(block.html) + len(block.text) < 30_000


def test_the_variable_is_named():
    """A cut text says where the rest is, by the name that the reader gave to the run."""
    block = step_block(newest(one_call(answer=result("x" * 50_000))), 5_000, name="mine")

    assert re.search(r"… [\d,]+ of 50,000 characters, the rest is in mine.steps\[0\].results\[0\].content", block.html)
    assert re.search(r"… [\d,]+ of 50,000 characters, the rest is in mine.steps\[0\].results\[0\].content", block.text)


def test_goal():
    """The goal with its line ends, in both forms."""
    block = goal_block(State.start("Add\n  2 and $3"))

    assert block.text == "Goal\n  Add\n    2 and $3"
    assert "Add<br>  2 and $3" in block.html
    assert goal_block(one_call()).text.startswith("Goal, going on after step 1\n")


def test_an_answer_and_its_totals():
    """The answer as Markdown, then what it took, then the tokens of each step."""
    block = final_block(long_run(1, answer="**31** degrees"))

    assert "<strong>31</strong> degrees" in block.html
    assert block.text == (
        "Answer\n"
        "  **31** degrees\n"
        "\n"
        "2 steps · 1 tool call · 424 tokens: input 400 (cached 300), output 24 (reasoning 8) · cost n/a\n"
        "\n"
        "  step  what               input  cached  output  reasoning  total\n"
        "     1  asked get_weather    200     150      12          4    212\n"
        "     2  answered             200     150      12          4    212"
    )


def test_an_end_without_an_answer():
    """Why, and what to do now."""
    state = one_call().stopped(StopReason.MAX_STEPS, "stopped after 1 steps without an answer")
    block = final_block(state, name="mine")

    assert block.text.startswith(
        "No answer (max_steps) stopped at the step limit: stopped after 1 steps without an answer\n"
        "Go on with %agent resume mine (in Python: agent.run(mine)); --steps or Limits(steps=...) gives it more.\n1 step · 1 tool call · 212 tokens"
    )
    assert "<b>No answer (max_steps)</b>" in block.html
    assert "Go on with %agent resume mine" in block.html


def test_a_cut_answer_is_shown_as_far_as_it_came():
    """A truncated text is there, and is not called an answer."""
    state = plan(State.start("goal"), text="The answer is", stop=StopReason.TRUNCATED, detail="cut")
    block = final_block(state)

    assert block.text.startswith("Text so far\n  The answer is\n\nNo answer (truncated) ")


def test_token_bars_have_their_numbers_beside_them():
    """Bars are grey boxes of a width; the numbers stand in words in the same row, an unknown one too."""
    state = plan(one_call(usage=Usage(300, 100, 60, None, 20)), text="ok", answer="ok", usage=None)
    html = final_block(state).html
    rows = re.findall(r"<tr>.*?</tr>", html)

    assert re.findall(r"width:([\d.]+)%", rows[1]) == ["15.0", "60.0", "20.0", "5.0"]
    assert Seen(rows[1]).text == "1asked get_weather3006010020400"
    assert Seen(rows[2]).text == "2answered" + 6 * "n/a"


def test_steps_without_a_display_stand_in_the_final_block():
    """JupyterLab shows 50 outputs of a cell, so steps beyond 40 are folds of the last one."""
    state = long_run(45)
    blocks = run_blocks(state)

    assert len(blocks) == 1 + SHOWN_STEPS + 1
    assert "6 more steps, numbers 41 to 46" in details(blocks[-1])
    for number in range(1, 47):
        assert sum(f"<b>Step {number}</b>" in block.html for block in blocks) == 1
        assert sum(f"Step {number} · " in block.text for block in blocks) == 1


def test_a_budget_knows_what_a_cell_has_shown():
    """With the Budget of the cell, the final block tells of the steps of this cell, and folds those not shown."""
    state, budget = long_run(5), Budget()
    for step in state.steps[2:4]:
        step_block(step, budget)
    block = final_block(state, budget)

    assert (budget.first, budget.last) == (3, 4)
    assert details(block) == [
        "Tokens of 4 steps",
        "2 more steps, numbers 5 to 6",
        *[line for line in details(block) if line.startswith(("<b>Step 5", "Messages", "Request", "<b>Step 6"))],
    ]


def test_a_run_that_goes_on():
    """Blocks of a later cell leave the earlier steps out."""
    blocks = run_blocks(long_run(4), since=3)

    assert blocks[0].text.startswith("Goal, going on after step 3")
    assert [block.text.split(" · ")[0] for block in blocks[1:-1]] == ["Step 4", "Step 5"]
    assert "Tokens of 2 steps" in blocks[-1].html


def test_a_run_without_steps():
    """A run that was stopped at once is shown as well."""
    blocks = run_blocks(State.start("goal").stopped(StopReason.CANCELLED, "cancelled by the user"))

    assert blocks[-1].text == (
        "No answer (cancelled) cancelled by the user\nGo on with %agent resume run (in Python: agent.run(run)); no answered call is run again.\n"
        "0 steps · 0 tool calls · tokens n/a · cost $0.0000"
    )
    assert run_blocks(State.start("goal"))[-1].text.startswith("No answer yet\n0 steps")


def test_the_same_run_gives_the_same_bytes(scripted_run):
    """Nothing in a block depends on time, place, order of arrival or how often a tool was defined."""

    def blocks(seconds: float, count: int) -> list[Block]:
        version = VERSION.replace("@2", f"@{count}")
        state = plan(State.start("goal"), call(call_id="a"), call(call_id="b"))
        order = ("a", "b") if count % 2 else ("b", "a")
        for each in order:
            state = state.answered(result(call_id=each, version=version, seconds=seconds), seconds)
        return list(run_blocks(plan(state, text="ok", answer="ok")))

    first, second = blocks(0.5, 1), blocks(7.25, 2)

    assert first == second
    assert first[1].metadata != second[1].metadata
    assert second[1].metadata == {
        "agentnb": {"seconds": 14.5, "tool_versions": {"get_weather": "get_weather@2·3fa9c1d0"}}
    }


def test_a_saved_run_looks_as_before():
    """A run that was pickled (and lost the objects its tools returned) gives the same blocks."""
    state = long_run(3)

    assert run_blocks(pickle.loads(pickle.dumps(state))) == run_blocks(state)


def test_a_real_run_of_the_loop(scripted_run):
    """A run of the runtime: a tool that fails, an unknown tool, parallel calls, an answer."""
    from fakes import add, several

    from agentnb.models.scripted import calls

    run = scripted_run(
        [several(calls("add", a=1, b=2), calls("subtract", a=1)), "It is 3."], [add], limits=Limits(steps=5)
    )
    first, second = (block.text for block in run_blocks(run)[1:3])

    assert first.startswith(
        "Step 1 · asked 2 tools: add for a=1, b=2, got 3; subtract for a=1, error: tools: there is no tool named"
    )
    assert second.startswith("Step 2 · answered · tokens n/a")


def test_a_block_is_a_rich_display():
    """The two forms of one display, with what differs from run to run in its metadata."""
    block = step_of(one_call())
    data, metadata = block._repr_mimebundle_()

    assert data == {"text/html": block.html, "text/plain": block.text}
    assert metadata == {"agentnb": {"seconds": 0.0, "tool_versions": {"get_weather": VERSION}}}
    assert replace(block, metadata={}) == block


def test_answers_at_once():
    """The smallest run."""
    assert [block.text.split("\n")[0] for block in run_blocks(answered("ok"))] == [
        "Goal",
        "Step 1 · answered · 212 tokens",
        "Answer",
    ]
