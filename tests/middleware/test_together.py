"""All middleware in one list: the first is the outermost, each does its work, none hurts the run or its history."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from fakes import FunctionTool, check_wire, runtime_for, says, several, states_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentnb import Approval, BudgetWarning, Compaction, RunLog, Telemetry
from agentnb.core.limits import Limits
from agentnb.core.middleware import Middleware
from agentnb.core.state import State
from agentnb.errors import ModelError
from agentnb.models.scripted import CallableModel, ScriptedModel, calls

LONG = "word " * 150


def describe(n: int) -> str:
    """Describe a place at length."""
    return f"place {n}: {LONG}"


def delete(n: int) -> str:
    """Delete a place."""
    return f"deleted {n}"


class Marks(Middleware):
    """Writes its name down where it is entered."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    async def before(self, state: Any) -> Any:
        """Note the kind of State that it sees."""
        self.log.append(f"{self.name} before, after {state.kind}")
        return state

    async def model(self, request: Any, next: Any) -> Any:
        """Note the size of the request."""
        self.log.append(f"{self.name} model")
        return await next(request)

    async def tool(self, call: Any, state: Any, next: Any) -> Any:
        """Note the arguments that it sees."""
        self.log.append(f"{self.name} {call.name} {call.arguments}")
        return await next(call, state)


def broken(event: Any) -> None:
    """A listener that always fails."""
    raise RuntimeError("no display")


def all_of_them(path: Path, *more: Any) -> list[Any]:
    """The product's own middleware, in an order that makes sense."""
    policy = {"delete(n=1)": {"n": 2}, "delete": "not this one"}
    approval = Approval(["delete"], policy)
    return [
        Compaction(window=2_000, keep=1),
        BudgetWarning(last_answer=True),
        approval,
        *more,
        RunLog(path),
        Telemetry(),
        broken,
    ]


def test_all_of_them_together(tmp_path, caplog):
    """Compacted, warned, approved and logged in one run, whose answer is the one without them."""
    script = [several(calls("describe", n=n), calls("delete", n=n)) for n in range(9)]
    model = ScriptedModel([*script, says("done")])
    path = tmp_path / "log.jsonl"
    with caplog.at_level(logging.WARNING, "agentnb"):
        runtime = runtime_for(model, [describe, delete], middleware=all_of_them(path), limits=Limits(steps=10))
        run = states_of(runtime)[-1]
    deletes = [result for result in run.tool_results if result.name == "delete"]
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    assert run.answer == "done"
    assert [result.status for result in deletes] == ["denied", "ok"] + ["denied"] * 7
    assert deletes[1].content == '(run with other arguments: {"n": 2})\ndeleted 2'
    assert any("old results" in note or "rounds" in note for step in run.steps for note in step.notes)
    said = [message.content for message in run.messages if message.role == "user"]
    assert [text.split(":")[0].split(".")[0] for text in said[1:]] == ["8 of 10 steps used", "This is the last step"]
    assert [line["event"] for line in lines].count("model") == 10
    assert lines[-1]["stop"] == "answer"
    assert len(caplog.records) == 1  # the broken listener, once


def test_the_order_is_that_of_the_list():
    """What stands before a compaction or an approval sees what came in, what stands after it what was made of it."""
    log: list[str] = []
    middleware = [
        Marks("outer", log),
        Compaction(window=500),
        Approval(["delete"], {"*": {"n": 5}}),
        Marks("inner", log),
    ]
    script = [
        calls("describe", n=1),
        calls("describe", n=2),
        calls("describe", n=3),
        calls("delete", n=4),
        says("done"),
    ]
    run = states_of(runtime_for(script, [describe, delete], middleware=middleware))[-1]

    assert run.answer == "done"
    assert log[:2] == ["outer before, after start", "inner before, after start"]
    compacted = log.index("inner before, after compact")
    assert log[compacted - 1 : compacted + 3] == [
        "outer before, after act",
        log[compacted],
        "outer model",
        "inner model",
    ]
    assert "outer before, after compact" not in log
    assert log[log.index('outer delete {"n": 4}') + 1] == 'inner delete {"n": 5}'


REPLIES = st.lists(
    st.sampled_from(
        [
            calls("describe", n=1),
            calls("delete", n=1),
            calls("guarded", n=1),
            calls("missing"),
            several(calls("describe", n=1), calls("delete", n=2), calls("guarded", n=3)),
            says(""),
            {"content": "cut", "finish_reason": "length"},
            ModelError("too long", kind="context_too_long"),
            ValueError("a bug"),
        ]
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(REPLIES, min_size=1, max_size=3), st.integers(1, 6), st.integers(300, 3_000))
def test_every_request_and_every_state_is_valid(tmp_path_factory, scripts, steps, window):
    """Random runs that are stopped, refused and gone on with: no request and no State is ever broken."""
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    tools = [FunctionTool(describe), FunctionTool(delete), FunctionTool(describe, "guarded", approve=True)]
    middleware = all_of_them(path)
    middleware[0] = Compaction(window=window, keep=1)
    state = State.start("go")
    for script in scripts:
        left = list(script)

        async def reply(request: Any, left: list[Any] = left) -> Any:
            check_wire(request.messages)
            answer = left.pop(0) if left else "done"
            if isinstance(answer, Exception):
                raise answer
            return answer

        runtime = runtime_for(CallableModel(reply), tools, middleware=middleware, limits=Limits(steps=steps))
        state = [state, *states_of(runtime, state)][-1]
        for call in state.open_calls[:1]:
            state = state.approve(call.id)
    for line in path.read_text("utf-8").splitlines():
        json.loads(line)
