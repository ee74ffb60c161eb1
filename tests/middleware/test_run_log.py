"""RunLog: a line for each thing worth one, findable, masked, whole, and never in the way of a run."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from fakes import FunctionTool, add, collect, runtime_for, says, several, states_of

from agentnb.core.limits import Limits
from agentnb.core.messages import ToolCall, Usage
from agentnb.core.model import ModelReply
from agentnb.core.state import State
from agentnb.errors import RecordingError, SettingsError
from agentnb.middleware.run_log import LONGEST, RunLog
from agentnb.models.scripted import CallableModel, ScriptedModel, calls
from agentnb.text import hide


def lines(path: Path) -> list[dict[str, Any]]:
    """What stands in the log; each line must be strict JSON."""
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text("utf-8").splitlines()]


def logged(
    path: Path, script: Any, tools: Any = (add,), state: Any = "add up", log: Any = None, **more: Any
) -> list[dict[str, Any]]:
    """The lines of a run with this script."""
    states_of(runtime_for(script, tools, middleware=[log or RunLog(path)], **more), state)
    return lines(path)


USED = {"usage": {"prompt_tokens": 100, "completion_tokens": 10}}


def test_a_run_in_lines(tmp_path):
    """Start, model call, tool, model call, stop; one run id, times in UTC, tokens per call and so far."""
    found = logged(tmp_path / "log.jsonl", [{**calls("add", a=1, b=2), **USED}, {**says("3"), **USED}])

    assert [line["event"] for line in found] == ["start", "model", "tool", "model", "stop"]
    assert len({line["run"] for line in found}) == 1
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"]) for line in found)
    start, first, tool, second, stop = found
    assert (start["goal"], start["steps_before"]) == ("add up", 0)
    assert (first["step"], first["model"], first["calls"], first["tokens"]) == (1, "scripted", "add", 110)
    assert (tool["step"], tool["tool"], tool["status"], tool["result"]) == (1, "add", "ok", "3")
    assert (second["finish"], second["run_tokens"], second["input_tokens"]) == ("stop", 220, 100)
    assert (stop["stop"], stop["answer"], stop["step"], stop["tool_calls"]) == ("answer", "3", 2, 1)
    assert all(line["seconds"] >= 0 for line in (first, tool, second, stop))


def test_what_is_unknown_is_null(tmp_path):
    """No usage, no price: null, not 0."""
    _, model, stop = logged(tmp_path / "log.jsonl", [says("hm")])

    assert [model[name] for name in ("tokens", "input_tokens", "output_tokens", "run_tokens", "cost")] == [None] * 5
    assert (stop["run_tokens"], stop["cost"]) == (None, None)


def test_what_is_no_number_is_null(tmp_path):
    """A price that a client got wrong: strict JSON all the same, and the log goes on."""
    script = [ModelReply(calls=(ToolCall("", "add", '{"a": 1, "b": 2}'),), cost=float("nan")), says("3")]
    found = logged(tmp_path / "log.jsonl", script)

    assert [line["event"] for line in found] == ["start", "model", "tool", "model", "stop"]
    assert found[1]["cost"] is None


def test_notes_failures_and_words_to_the_model_have_their_lines(tmp_path):
    """Retries and waits, a failed tool, a warning, a failed model call and why the run stopped."""
    waited = ModelReply(calls=(), text="", notes=("waited 2.0 s: 429",), usage=Usage(1, 1))
    again = [calls("add", a=1, b="x")] * 2
    found = logged(tmp_path / "log.jsonl", [*again, waited, ConnectionError("down")], limits=Limits(repeats=3))
    events = [line["event"] for line in found]

    assert events == ["start", "model", "tool", "model", "tool", "said", "model", "note", "note", "model", "stop"]
    assert found[2]["status"] == "error"
    assert found[5]["text"].startswith("You are repeating yourself")
    assert [line["text"] for line in found if line["event"] == "note"] == [
        "waited 2.0 s: 429",
        "empty reply, asked again",
    ]
    assert (found[-2]["finish"], found[-1]["stop"]) == ("error", "error")
    assert "ConnectionError: down" in found[-1]["detail"]


def test_a_run_that_raises_has_its_last_line(tmp_path):
    """A recording without the reply, a bug: what was raised, masked, and how far the run had come."""
    hide("KEY-FAIL-0123456789")
    log = RunLog(tmp_path / "log.jsonl")

    def missing(request: Any) -> str:
        raise RecordingError("holds no reply to KEY-FAIL-0123456789")

    with pytest.raises(RecordingError):
        states_of(runtime_for([{**calls("add", a=1, b=2), **USED}, missing], [add], middleware=[log]))
    found = lines(log.path)

    assert [line["event"] for line in found] == ["start", "model", "tool", "error"]
    assert (found[-1]["error"], found[-1]["step"], found[-1]["run_tokens"]) == ("RecordingError", 1, 110)
    assert found[-1]["text"] == "records: holds no reply to [hidden]"
    assert len({line["run"] for line in found}) == 1
    assert not log._runs._live


def test_labels_find_a_task_again(tmp_path):
    """They stand on every line; the log's own fields can't be taken."""
    log = RunLog(tmp_path / "log.jsonl", task="t-17", attempt=2)
    found = logged(log.path, [says("hm")], log=log)

    assert {(line["task"], line["attempt"]) for line in found} == {("t-17", 2)}
    with pytest.raises(SettingsError, match="'run'"):
        RunLog("log.jsonl", run="x")


def test_a_later_run_is_appended(tmp_path):
    """Also one that goes on from an older State: it has its own id and says how many steps came before."""
    path = tmp_path / "deep" / "log.jsonl"
    first = states_of(runtime_for([calls("add", a=1, b=2)], [add], middleware=[RunLog(path)], limits=Limits(steps=1)))[
        -1
    ]
    found = logged(path, [says("3")], state=first)
    starts = [line for line in found if line["event"] == "start"]

    assert [start["steps_before"] for start in starts] == [0, 1]
    assert len({start["run"] for start in starts}) == 2
    assert [line["stop"] for line in found if line["event"] == "stop"] == ["max_steps", "answer"]


def test_a_pause_goes_on_with_its_tool_first(tmp_path):
    """A run that begins with an open call is one run: tool, model, stop."""
    log = RunLog(tmp_path / "log.jsonl")
    guarded = FunctionTool(add, approve=True)
    paused = states_of(runtime_for([calls("add", a=1, b=2)], [guarded], middleware=[log]))[-1]
    found = logged(log.path, [says("3")], [guarded], state=paused.approve("call_1_1"), log=log)

    assert [line["event"] for line in found] == ["start", "model", "stop", "start", "tool", "model", "stop"]
    assert [line["stop"] for line in found if line["event"] == "stop"] == ["paused", "answer"]
    assert len({line["run"] for line in found[3:]}) == 1


def test_runs_at_once_are_kept_apart(tmp_path):
    """One log, ten runs on one loop and four in threads: each line has the id of its own run."""
    log = RunLog(tmp_path / "log.jsonl")

    def model(request: Any) -> Any:
        goal = request.messages[1]["content"]
        return calls("tell", goal=goal) if len(request.messages) < 7 else goal

    async def tell(goal: str) -> str:
        await asyncio.sleep(0)
        return goal

    runtime = runtime_for(CallableModel(model), [FunctionTool(tell)], middleware=[log], limits=Limits(repeats=None))

    async def ten() -> None:
        await asyncio.gather(*(collect(runtime, f"goal {n}") for n in range(10)))

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(lambda n=n: asyncio.run(collect(runtime, f"thread {n}"))) for n in range(4)]
        asyncio.run(ten())
        [each.result(30) for each in waiting]
    found = lines(log.path)
    goals = {line["run"]: line["goal"] for line in found if line["event"] == "start"}

    assert len(goals) == 14
    for line in found:
        said = line.get("result") or line.get("answer") or goals[line["run"]]
        assert said == goals[line["run"]]
    assert not log._runs._live


def test_runs_from_one_state_are_kept_apart(tmp_path):
    """At once, or after one that was left early: each has its own start, and its stop where it ended."""
    log, state = RunLog(tmp_path / "log.jsonl"), State.start("count")

    def model(request: Any) -> Any:
        done = len(request.messages)
        return calls("add", a=done, b=1) if done < 6 else "done"

    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    runtime = runtime_for(CallableModel(model), [FunctionTool(add)], middleware=[log])

    async def play() -> None:
        await asyncio.gather(*(collect(runtime, state) for _ in range(3)))
        async with aclosing(runtime.states(state)) as made:
            async for each in made:
                if each.counters.steps == 2:
                    break
        await collect(runtime, state)

    asyncio.run(play())
    found = lines(log.path)
    events = [[line["event"] for line in found if line["run"] == run] for run in {line["run"] for line in found}]
    whole = ["start", "model", "tool", "model", "tool", "model", "stop"]

    assert sorted(events) == sorted([whole] * 4 + [whole[:4]])


def test_a_run_inside_a_tool_is_another_run(tmp_path):
    """And a fork that is run while the first goes on does not take over its lines."""
    log = RunLog(tmp_path / "log.jsonl")
    inner = runtime_for([says("inner answer")], middleware=[log])

    async def ask(question: str) -> str:
        return str((await collect(inner, question))[-1].answer)

    async def outer() -> None:
        runtime = runtime_for(
            [calls("ask", question="inside"), says("outer answer")], [FunctionTool(ask)], middleware=[log]
        )
        async for state in runtime.states(State.start("outside")):
            if state.kind == "act":
                await collect(runtime_for([says("fork answer")], middleware=[log]), state.say("forked"))

    asyncio.run(outer())
    found = lines(log.path)
    by_run = {run: [line["event"] for line in found if line["run"] == run] for run in {line["run"] for line in found}}
    answers = {line["answer"]: line["run"] for line in found if line["event"] == "stop"}

    assert by_run[answers["inner answer"]] == ["start", "model", "stop"]
    assert by_run[answers["fork answer"]] == ["start", "model", "stop"]
    assert by_run[answers["outer answer"]] == ["start", "model", "tool", "model", "stop"]


def test_texts_are_cut_and_masked(tmp_path):
    """No secret and no long text reaches the file, from wherever it comes."""
    key = "KEY-LOG-0123456789"
    hide(key)
    script = [several(calls(f"no {key}", a=key), calls("echo", text=f"{key} {'x' * 9_000}")), says(f"it is {key[3:]}")]
    log = RunLog(tmp_path / "log.jsonl", account=f"of {key}")
    logged(log.path, script, [FunctionTool(lambda text: text, "echo")], state=f"use {key}", log=log)
    text = log.path.read_text("utf-8")

    assert not any(key[n : n + 8] in text for n in range(len(key) - 7))
    assert "[hidden]" in text
    assert (
        max(len(value) for line in lines(log.path) for value in line.values() if isinstance(value, str)) <= LONGEST + 8
    )


def test_odd_texts_stay_strict_json(tmp_path):
    """Line ends, half an emoji, NaN in arguments: one line each, and valid."""
    found = logged(
        tmp_path / "log.jsonl", [calls("add", a=1, b=2), says("one\ntwo \ud83d caf\u00e9 \u2028 end")], state="a\nb"
    )

    assert [found[0]["goal"], found[-1]["answer"]] == ["a b", "one two \ufffd caf\u00e9 end"]


@pytest.mark.parametrize("fate", ["deleted", "rotated", "folder deleted", "replaced"])
def test_a_file_that_is_gone_is_made_anew(tmp_path, fate):
    """The next run is found at the path, and a file that was moved away keeps what it has."""
    log = RunLog(tmp_path / "logs" / "log.jsonl")
    logged(log.path, [says("a")], log=log)
    moved = log.path.rename(tmp_path / "log.1")
    if fate == "folder deleted":
        log.path.parent.rmdir()
    elif fate == "replaced":
        log.path.touch()
    if fate != "rotated":
        moved.unlink()
    found = logged(log.path, [says("b")], log=log)

    assert [line["answer"] for line in found if line["event"] == "stop"] == ["b"]
    assert fate != "rotated" or [line["answer"] for line in lines(moved) if line["event"] == "stop"] == ["a"]


def test_a_log_that_can_not_be_written_hurts_no_run(tmp_path, caplog):
    """It is told of once, in the program's own log; the run goes on."""
    with caplog.at_level(logging.WARNING, "agentnb"):
        run = states_of(runtime_for([calls("add", a=1, b=2), says("3")], [add], middleware=[RunLog(tmp_path)]))[-1]

    assert (run.answer, len(caplog.records)) == ("3", 1)


def test_a_log_travels(tmp_path):
    """Pickled for another process, it writes to the same file."""
    log = RunLog(tmp_path / "log.jsonl", task="t")
    logged(log.path, [says("a")], log=log)
    found = logged(log.path, [says("b")], log=pickle.loads(pickle.dumps(log)))

    assert [line["answer"] for line in found if line["event"] == "stop"] == ["a", "b"]
    assert {line["task"] for line in found} == {"t"}
    assert repr(log) == f"<RunLog {log.path}>"


@pytest.mark.slow
def test_pandas_reads_it(tmp_path):
    """As a table, tokens as numbers."""
    import pandas

    log = RunLog(tmp_path / "log.jsonl")
    logged(log.path, ScriptedModel([{**calls("add", a=1, b=2), **USED}, {**says("3"), **USED}]), log=log)
    table = pandas.read_json(log.path, lines=True)

    assert table.groupby("event")["tokens"].sum()["model"] == 220
    assert str(table["timestamp"].dtype).startswith("datetime64")
