"""Runs inside notebooks: the output of a cell carries its run, within a bound, and gives it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb import Agent, ScriptedModel, State, StopReason, calls, load, save, tool
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.errors import RecordingError, UsageError
from agentnb.notebook.bounds import RECORD_BYTES, RUN_BYTES, Budget
from agentnb.notebook.render import final_block, step_block
from agentnb.notebook.side_by_side import Variant, records
from agentnb.records.notebook_runs import run_record
from agentnb.records.runnable import LEFT_OUT, check_runnable
from agentnb.text import hide

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SECRET = "sk-note-0123456789abcdefghij"


def long_run(steps, content="31.0", say="I look"):
    """A run with so many steps, each with a result of this content, and its answer."""
    state = State.start("go")
    for number in range(steps):
        reply = ModelReply(say, (ToolCall(f"c{number}", "look", "{}"),), request=state.request(), seconds=0.5)
        state = state.planned(Decision(reply, calls=reply.calls), 0.75)
        state = state.answered(ToolResult(f"c{number}", "look", content, value=content, version="look@1·ab"), 0.25)
    return state.planned(Decision(ModelReply("done", request=state.request()), answer="done"), 0.5)


def notebook_of(folder, *runs, room=RUN_BYTES):
    """A notebook with a cell for each of these runs, and others; None is a cell without one."""
    outputs = [[{"output_type": "stream", "name": "stdout", "text": "hi"}]]
    for run in runs:
        ours = {"seconds": 1.0} if run is None else {"seconds": 1.0, "run": run_record(run, room)}
        outputs.append([{"output_type": "display_data", "data": {}, "metadata": {"agentnb": ours}}])
    cells = [{"cell_type": "code", "source": "", "outputs": each} for each in outputs]
    path = folder / "lesson.ipynb"
    made = {"cells": [{"cell_type": "markdown", "source": "# Lesson"}, *cells], "nbformat": 4}
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True), "utf-8")
    return path


def one_cell(folder, *outputs):
    """A notebook with one cell; each output says this under "agentnb"."""
    made = [{"output_type": "display_data", "data": {}, "metadata": {"agentnb": ours}} for ours in outputs]
    path = folder / "lesson.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "outputs": made}], "nbformat": 4}), "utf-8")
    return path


def file_bytes(record):
    """What a record takes in a saved notebook."""
    return len(json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True).encode())


def test_each_cell_gives_its_run_back(tmp_path):
    """One State per cell that holds a run, in order, with requests, times and values."""
    runs = [long_run(3), State.start("other").say("on")]
    path = notebook_of(tmp_path, runs[0], None, runs[1])
    first, second = load(path)

    assert (first, second) == tuple(runs)
    assert [step.request for step in first.steps] == [step.request for step in runs[0].steps]
    assert [step.seconds for step in first.steps] == [step.seconds for step in runs[0].steps]
    assert first.tool_results[0].value == "31.0"
    check_runnable(first, ())


def test_a_cell_of_several_agents_gives_each_of_their_runs(tmp_path):
    """What stood beside each other comes back in the same order; an agent whose turn never came has no run."""
    runs = [long_run(2), State.start("go").stopped(StopReason.CANCELLED), State.start("go")]
    variants = [Variant(str(n), Agent(), run, "m", begun=n < 2) for n, run in enumerate(runs)]

    assert load(one_cell(tmp_path, {"runs": records(variants, RUN_BYTES)})) == tuple(runs[:2])
    assert file_bytes(records(variants, 4_000)) <= 5_000


def test_a_cell_of_several_runs_gives_those_that_none_goes_on_from(tmp_path):
    """A panel writes each run it made; one that was gone on with is in the later one."""
    first = long_run(1).say("and then?")
    more, other = first.say("more"), State.start("another goal")
    outputs = [{"run": run_record(run, RUN_BYTES)} for run in (first, other, more)]

    assert load(one_cell(tmp_path, *outputs)) == (other, more)


@pytest.mark.parametrize("ours", [{"runs": 5}, {"runs": []}, {"runs": None}])
def test_what_is_no_list_of_runs_is_left_aside(tmp_path, ours):
    """Outputs of others, and empty ones."""
    assert load(one_cell(tmp_path, ours)) == ()


@pytest.mark.parametrize("run", [5, None, {"format": "agentnb run", "version": 1, "lines": 5}])
def test_a_damaged_record_is_named(tmp_path, run):
    """Also beside a whole one."""
    with pytest.raises(RecordingError, match=r"cell 1: the run in its output can't be read"):
        load(one_cell(tmp_path, {"runs": [run_record(long_run(1), RUN_BYTES), run]}))


def test_a_run_from_a_notebook_goes_on_and_into_a_file(tmp_path):
    """What was read back is a State like any other."""
    loaded = load(notebook_of(tmp_path, long_run(2)))[0]
    run = Agent(ScriptedModel(["more"])).run(loaded.say("and now?"))
    save(run, tmp_path / "run.jsonl")

    assert run.answer == "more"
    assert load(tmp_path / "run.jsonl") == run


def test_the_committed_notebooks_hold_their_runs():
    """The outputs that readers see can be loaded, without a model, a key or the tools."""
    runs = load(NOTEBOOKS / "00_start_here.ipynb")

    assert len(runs) >= 3
    assert runs[0].answer == "The sum is 58.5 degrees Celsius."
    assert {result.name for result in runs[0].tool_results} == {"get_weather", "calculator"}
    assert runs[0].steps[0].request["messages"][0]["role"] == "system"


def test_the_same_run_has_the_same_lines():
    """Only the times differ, and they stand apart."""

    @tool
    def look() -> int:
        """Look."""
        return 3

    records = [run_record(Agent(ScriptedModel([calls("look"), "3"]), [look]).run("go"), RECORD_BYTES) for _ in range(2)]

    assert records[0]["lines"] == records[1]["lines"]
    assert "seconds" not in "".join(records[0]["lines"])
    assert len(records[0]["seconds"]) == 4


@pytest.mark.slow
@pytest.mark.parametrize("room", [1_500, 20_000, 200_000])
@pytest.mark.parametrize("content", ["31.0", "x" * 16_000, "漢字\n" * 900], ids=["short", "long", "Chinese"])
def test_a_record_keeps_its_bound(room, content):
    """However many steps and however long their results."""
    for steps in (1, 30, 120):
        assert file_bytes(run_record(long_run(steps, content), room)) <= room + 300


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.text(max_size=400), st.integers(1_000, 20_000))
def test_any_record_can_be_read(tmp_path_factory, steps, content, room):
    """Whatever was cut, the run that comes back ends as it ended, and says so where it can't go on."""
    run = long_run(steps, content or "-")
    again = load(notebook_of(tmp_path_factory.mktemp("any"), run, room=room))[0]

    assert (again.answer, again.stop, again.counters) == (run.answer, run.stop, run.counters)
    if again.messages != run.messages:
        with pytest.raises(UsageError, match=LEFT_OUT):
            check_runnable(again, ())


def test_requests_go_first(tmp_path):
    """Where the room does not do for what was sent, the conversation is still whole and can be gone on with."""
    run = State.start("go")
    preamble = (run.added[0],) * 200
    reply = ModelReply("hi", request=run.request(preamble=preamble))
    run = run.planned(Decision(reply, answer="hi"))
    again = load(notebook_of(tmp_path, run, room=2_000))[0]

    assert again == run
    assert again.steps[0].request is None
    assert "request" in run_record(run, 2_000)["lines"][1]
    check_runnable(again, ())


def test_a_cut_run_is_read_but_not_gone_on_with(tmp_path):
    """A model would read a shortened result as if it were whole: the error says which step, and what to do."""
    run = long_run(3, "y" * 9_000)
    again = load(notebook_of(tmp_path, run, room=8_000))[0]

    assert again.answer == "done"
    assert "characters left out" in again.tool_results[0].content
    assert LEFT_OUT in again.tool_results[0].notes
    with pytest.raises(UsageError, match=r"can be read but not gone on with: step 1 was shortened .*save\(run, path\)"):
        check_runnable(again.say("on"), ())
    check_runnable(again.at(1), ())
    save(again, tmp_path / "run.jsonl")
    with pytest.raises(UsageError, match=LEFT_OUT):
        check_runnable(load(tmp_path / "run.jsonl"), ())


def test_a_very_long_run_keeps_its_newest_steps(tmp_path):
    """A first State stands for all that came before."""
    run = long_run(400)
    again = load(notebook_of(tmp_path, run, room=20_000))[0]

    assert again.steps[-1].number == run.steps[-1].number
    assert 10 < len(again.steps) < 400
    assert again.usage == run.usage
    with pytest.raises(UsageError, match=LEFT_OUT):
        check_runnable(again, ())


def test_an_open_round_keeps_its_mark_when_it_is_closed(tmp_path):
    """A cut result of a round that is still open is not forgotten when a person answers the last call."""
    state = State.start("go").planned(Decision(calls=(ToolCall("a", "f"), ToolCall("b", "f"))))
    state = state.answered(ToolResult("a", "f", "z" * 5_000)).stopped(StopReason.PAUSED)
    again = load(notebook_of(tmp_path, state, room=1_500))[0]

    assert [call.id for call in again.open_calls] == ["b"]
    with pytest.raises(UsageError, match=LEFT_OUT):
        check_runnable(again.with_result("b", "ok"), ())


@pytest.mark.slow
def test_a_cell_keeps_its_bound_with_its_record():
    """Forty steps shown, the end of the run and its record stay below 200 kB together."""
    run, budget = long_run(60, "a line <b>&amp;\n" * 1_000), Budget(kept=RECORD_BYTES)
    blocks = [step_block(step, budget) for step in run.steps[:40]]
    blocks.append(final_block(run, budget))
    budget.spend(blocks[-1].html, blocks[-1].text)
    record = run_record(run, budget.record)

    assert budget.spent + file_bytes(record) < RUN_BYTES
    assert budget.record >= RECORD_BYTES
    assert len(record["lines"]) > 10


def test_secrets_do_not_reach_the_notebook():
    """Metadata is read by nobody and copied by everyone."""
    hide(SECRET)
    text = "".join(run_record(long_run(2, f"key {SECRET}", SECRET), 50_000)["lines"])

    assert not any(SECRET[n : n + 8] in text for n in range(len(SECRET) - 7))


def test_what_is_no_notebook_and_what_is_damaged_is_told(tmp_path):
    """A missing file, another format, a broken or newer record: each with what to do."""
    path = tmp_path / "x.ipynb"
    with pytest.raises(UsageError, match="there is no file"):
        load(path)
    for content in ("", "{}", "[]", "\x00", '{"cells": 3}', '{"worksheets": []}'):
        path.write_text(content)
        with pytest.raises(UsageError, match=r"is no notebook of format 4\. Save it again in Jupyter"):
            load(path)
    path.write_text('{"cells": [3, {"outputs": 5}, {"outputs": [4, {"metadata": 3}]}]}')
    assert load(path) == ()
    record = run_record(State.start("go"), 5_000)
    for broken, told in (
        ({**record, "version": 2}, "version 2, this agentnb knows 1. Update"),
        ({**record, "lines": ["{"]}, "cell 1: the run in its output can't be read"),
        ({**record, "lines": []}, "it has no lines"),
        ({**record, "lines": [5]}, "can't be read"),
        (7, "can't be read"),
    ):
        output = {"metadata": {"agentnb": {"run": broken}}}
        path.write_text(json.dumps({"cells": [{"outputs": [output]}]}))
        with pytest.raises(RecordingError, match=told):
            load(path)
