"""Runs made by hand for the tests of rendering: a State is a value, so no model and no loop is needed."""

from __future__ import annotations

from typing import Any

from agentnb.core.messages import ToolCall, ToolResult, Usage
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State, Step

USAGE = Usage(200, 12, 150, None, 4)
VERSION = "get_weather@2·3fa9c1d0"


def call(
    name: str = "get_weather", arguments: str = '{"city": "Beijing"}', call_id: str = "c1", **more: Any
) -> ToolCall:
    """One call."""
    return ToolCall(call_id, name, arguments, **more)


def result(content: str = "31.0", status: str = "ok", call_id: str = "c1", **more: Any) -> ToolResult:
    """One result; `arguments` are what the tool was called with."""
    more = {"arguments": {"city": "Beijing"}, "version": VERSION, **more}
    return ToolResult(call_id, more.pop("name", "get_weather"), content, status, **more)


def plan(state: State, *asked: ToolCall, text: str = "", usage: Usage | None = USAGE, **decision: Any) -> State:
    """The State after a model replied with these calls (or what `decision` says)."""
    sent = decision.pop("request", None) or state.request()
    finish = decision.pop("finish", "tool_calls" if asked else "stop")
    about = {"model": "local:small", "request": sent, "notes": decision.pop("retries", ())}
    reply = ModelReply(text, asked, decision.pop("thought", ""), finish, usage=usage, **about)
    return state.planned(Decision(reply, calls=asked, **decision))


def one_call(asked: ToolCall | None = None, answer: ToolResult | None = None, **more: Any) -> State:
    """A run of one step with one call and its result."""
    return plan(State.start("goal"), asked or call(), **more).answered(answer or result())


def answered(text: str, goal: str = "goal") -> State:
    """A run that answers at once."""
    return plan(State.start(goal), text=text, answer=text)


def newest(state: State) -> Step:
    """The newest step of a run that has one."""
    assert state.step is not None
    return state.step


def long_run(steps: int, content: str = "31.0", answer: str | None = "done") -> State:
    """A run of so many steps with one call each, and then an answer."""
    state = State.start("goal")
    for _ in range(steps):
        state = plan(state, call()).answered(result(content))
    return state if answer is None else plan(state, text=answer, answer=answer)
