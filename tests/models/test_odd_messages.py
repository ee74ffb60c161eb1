"""Messages that no server should send: each is read, and never breaks a request that follows it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fakes import add, collect, runtime_for
from http_fakes import model_at, request

from agentnb.core.messages import Message
from agentnb.errors import ModelError
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.ollama import OllamaModel
from agentnb.models.responses import ResponsesModel
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


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}}
PLAIN = {"type": "object"}


def refused(text: str, **more: str) -> Raw:
    """A request that is not taken."""
    return Raw({"error": {"message": text, "type": "invalid_request_error", **more}}, 400)


@pytest.mark.parametrize("kind", [ChatCompletionsModel, ResponsesModel, OllamaModel, AnthropicModel])
@pytest.mark.parametrize(
    "text",
    ["Invalid schema for function 'add': 'additionalProperties' is required", "bad option; read the information there"],
)
def test_a_complaint_about_something_else_leaves_the_form(kind, text):
    """It is told at once, and the next request asks for the same form."""
    with ScriptedServer([refused(text)] * 2) as server:
        model = kind("m", server.url)
        for _ in range(2):
            with pytest.raises(ModelError, match=text[:10]):
                asyncio.run(model.reply(request(schema=SCHEMA)))

    assert len(server.requests) == 2
    assert all(b"minimum" in received.body for received in server.requests)


@pytest.mark.parametrize(
    ("kind", "field", "text"),
    [
        (
            ChatCompletionsModel,
            "response_format",
            "Invalid schema for response_format 'reply': 'minimum' is not permitted",
        ),
        (
            ResponsesModel,
            "text.format.schema",
            "Invalid schema for response_format 'reply': 'minimum' is not permitted",
        ),
        (AnthropicModel, "", "output_config.format.schema: For 'integer' type, property 'minimum' is not supported"),
        (OllamaModel, "", "invalid JSON schema in format"),
    ],
)
def test_a_schema_that_the_server_can_not_take(kind, field, text):
    """It alone is asked for in a simpler form from then on; other schemas keep the best one."""
    with ScriptedServer([refused(text, param=field), *["{}"] * 3]) as server:
        model = kind("m", server.url)
        for schema in (SCHEMA, dict(SCHEMA), PLAIN):
            asyncio.run(model.reply(request(schema=schema)))

    bodies = [received.body for received in server.requests]
    assert [b"minimum" in body for body in bodies] == [True, False, False, False]
    assert b'"type":"object"' in bodies[3].replace(b" ", b"")


@pytest.mark.parametrize("finish", ["content_filter", "sensitive"])
def test_a_message_that_a_filter_took_away_is_a_refusal(finish):
    """Some providers then send none; without such a reason, none is an answer that can't be read."""
    filtered = Raw({"choices": [{"index": 0, "message": None, "finish_reason": finish}]})
    with ScriptedServer([filtered, filtered]) as server:
        model = model_at(server)
        replies = [asyncio.run(model.reply(request(), told)) for told in (None, [].append)]
    unread = Raw({"choices": [{"index": 0, "message": None, "finish_reason": "stop"}]})
    with ScriptedServer([unread]) as server, pytest.raises(ModelError, match="no message"):
        asyncio.run(model_at(server).reply(request()))

    assert [(each.finish, each.text, each.calls) for each in replies] == [("content_filter", "", ())] * 2
