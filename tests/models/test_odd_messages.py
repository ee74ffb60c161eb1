"""Messages that no server should send: each is read, and never breaks a request that follows it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fakes import add, collect, runtime_for
from http_fakes import model_at, request

from agentnb.core.messages import Message
from agentnb.models.server import Raw, ScriptedServer

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}}


def whole(message: Any) -> Raw:
    """A whole answer with this message."""
    return Raw({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


@pytest.mark.parametrize(
    "call",
    [
        {**CALL, "function": "add"},
        {**CALL, "function": ["add"]},
        {**CALL, "function": {"name": 5, "arguments": "{}"}},
        {**CALL, "function": {"name": ["add"], "arguments": [1]}},
        {**CALL, "type": 5, "id": None},
        {},
    ],
)
def test_a_malformed_call_is_answered(call):
    """The model reads what was wrong with its call, and the request that tells it is a valid one."""
    with ScriptedServer([whole({"role": "assistant", "content": None, "tool_calls": [call]}), "done"]) as server:
        last = asyncio.run(collect(runtime_for(model_at(server), [add])))[-1]

    assert last.answer == "done", last.detail
    said, told = (each for each in server.requests[-1].messages if each["role"] in ("assistant", "tool"))
    (back,) = said["tool_calls"]
    kinds = {type(value) for value in (back["id"], back["type"], *back["function"].values())}
    assert kinds == {str}
    assert back["id"] == told["tool_call_id"] != ""


@pytest.mark.parametrize("field", ["tool_calls", "role", "content"])
@pytest.mark.parametrize("value", [1.5, True, {"a": 1}, "add", [None], None])
def test_a_field_of_another_kind_never_goes_back(field, value):
    """What the server wrote goes back to it, but for what no server takes."""
    model = model_at("http://127.0.0.1:1/v1")
    raw = {"role": "assistant", "content": "hi", field: value}
    (back,) = model.sent(request(Message("assistant", "hi", raw=raw, origin=model.origin))).json()["messages"]

    assert back["role"] == "assistant"
    assert "tool_calls" not in back
    assert back["content"] is None or isinstance(back["content"], str)


def test_parts_go_back_when_they_are_parts():
    """A content in parts is what the server wrote; a list of anything else is not."""
    model = model_at("http://127.0.0.1:1/v1")
    for content, back in (([{"type": "text", "text": "a"}], True), ([5], False), ([{"text": "a"}], False)):
        raw = {"role": "assistant", "content": content}
        sent = model.sent(request(Message("assistant", "a", raw=raw, origin=model.origin))).json()["messages"]
        assert sent == [raw if back else {"role": "assistant", "content": "a"}]
