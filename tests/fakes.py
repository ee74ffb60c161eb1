"""What tests of the loop share: a hand clock, a function as a core tool, scripts, and the check of a history.

Nothing here patches anything: these are small fakes that satisfy the protocols of `agentnb.core`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.runtime import Runtime
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.models.scripted import ScriptedModel
from agentnb.planners.tool_calling import ToolCallingPlanner
from agentnb.tools.quoted import QUOTED

GOAL = "the goal"


def unquoted(result: ToolResult) -> ToolResult:
    """The result of a tool that brings words of others, as they were before they were marked; errors are ours."""
    if not result.content.startswith(QUOTED):
        return result
    head, *lines = result.content.split("\n")
    assert head == QUOTED
    assert all(line.startswith("> ") for line in lines)
    return replace(result, content="\n".join(line.removeprefix("> ") for line in lines))


class HandClock:
    """A clock that stands still until it is advanced."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let this many seconds pass."""
        self.now += seconds


class FunctionTool:
    """A function, sync or async, as the smallest core Tool; it remembers the arguments of each call that it started.

    Flags are those of ToolSpec: `approve`, `parallel`, `poll`.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None, **flags: Any) -> None:
        self.function = function
        self.spec = ToolSpec(name or function.__name__, function.__doc__ or "", **flags)
        self.started: list[Mapping[str, Any]] = []

    async def answer(self, call: ToolCall) -> ToolResult:
        """Call the function with the arguments as JSON gives them."""
        arguments = json.loads(call.wire_arguments)
        self.started.append(arguments)
        value = self.function(**arguments)
        if inspect.isawaitable(value):
            value = await value
        return ToolResult(call.id, call.name, str(value) or "(empty)", value=value, arguments=arguments)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def says(text: str) -> dict[str, Any]:
    """A reply without calls, for a script."""
    return {"role": "assistant", "content": text}


def several(*messages: Mapping[str, Any], ids: Sequence[Any] | None = None, **more: Any) -> dict[str, Any]:
    """One reply that holds the calls of several `calls(...)`, with these ids where some are given."""
    made = [dict(call) for message in messages for call in message["tool_calls"]]
    for call, name in zip(made, ids or (), strict=False):
        call["id"] = name
    return {"role": "assistant", "content": None, "tool_calls": made, **more}


def raw_call(name: str, arguments: str, **more: Any) -> dict[str, Any]:
    """A reply with one call whose argument text is exactly this."""
    return several({"tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}, **more)


def runtime_for(model: Any, tools: Sequence[Any] = (), **options: Any) -> Runtime:
    """A Runtime over a script (or a model) and functions (or tools), with the tool-calling planner."""
    model = ScriptedModel(model) if isinstance(model, list) else model
    tools = [FunctionTool(tool) if inspect.isroutine(tool) else tool for tool in tools]
    return Runtime(model, options.pop("planner", None) or ToolCallingPlanner(), tools, **options)


async def collect(runtime: Runtime, state: State | str = GOAL) -> list[State]:
    """Every State that the runtime makes from this one (or from this goal)."""
    state = State.start(state) if isinstance(state, str) else state
    return [each async for each in runtime.states(state)]


def states_of(runtime: Runtime, state: State | str = GOAL) -> list[State]:
    """The same, from a test that is not async; each State's history is checked."""
    made = asyncio.run(collect(runtime, state))
    for each in made:
        check_state(each)
    return made


async def cancel_when(started: asyncio.Event, runtime: Runtime, state: State | str = GOAL) -> list[State]:
    """Cancel the run as soon as `started` is set; the States it made, after checking that CancelledError came too."""
    state = State.start(state) if isinstance(state, str) else state
    made: list[State] = []

    async def consume() -> None:
        async for each in runtime.states(state):
            made.append(each)

    task = asyncio.create_task(consume())
    await asyncio.wait_for(started.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    for each in made:
        check_state(each)
    return made


def check_state(state: State) -> None:
    """Whatever is done next with this State, no model is sent a broken conversation."""
    whole = state.say("next")
    check_wire([message.wire for message in whole.messages])
    check_wire(whole.request().messages)
    if not state.open_calls:
        check_wire(state.request().messages)


def check_wire(messages: Sequence[Mapping[str, Any]]) -> None:
    """A valid history: strict JSON, and each call has exactly one result, right after it, in call order.

    Raises:
        AssertionError: It is not valid; pytest shows which message.
    """
    sent = json.dumps(list(messages), ensure_ascii=False, allow_nan=False).encode()
    assert json.loads(sent, parse_constant=_refuse) == list(messages)
    position = 0
    while position < len(messages):
        message = messages[position]
        assert message["role"] != "tool", f"a result without its call: {message}"
        asked = message.get("tool_calls") or []
        results = messages[position + 1 : position + 1 + len(asked)]
        _check_round(asked, results)
        position += 1 + len(asked)


def _check_round(asked: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]) -> None:
    ids = [call["id"] for call in asked]
    assert all(ids), f"an empty id: {ids}"
    assert len(set(ids)) == len(ids), f"an id twice: {ids}"
    assert [result["role"] for result in results] == ["tool"] * len(ids)
    assert [result["tool_call_id"] for result in results] == ids
    for call, result in zip(asked, results, strict=True):
        arguments = json.loads(call["function"]["arguments"], parse_constant=_refuse)
        assert isinstance(arguments, dict)
        json.dumps(arguments, ensure_ascii=False).encode()
        assert result["content"]


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")
