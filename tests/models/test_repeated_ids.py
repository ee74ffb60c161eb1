"""Ids that come again in a later message: every call has its own in the history, and its result carries the same."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from http_fakes import request
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.core.messages import Message, ToolCall, user
from agentnb.core.model import ModelRequest, Prompt
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.gemini import GeminiModel
from agentnb.models.ollama import OllamaModel
from agentnb.models.profiles import PROFILES
from agentnb.models.responses import ResponsesModel

URL = "http://127.0.0.1:1/v1"
MODELS = [kind("m", URL) for kind in (AnthropicModel, ChatCompletionsModel, ResponsesModel, GeminiModel, OllamaModel)]
STRICT = ChatCompletionsModel("m", URL, profile=PROFILES["mistral"])
every = pytest.mark.parametrize("model", [*MODELS, STRICT], ids=lambda model: f"{model.dialect}-{model.profile.name}")


def rounds(*ids: tuple[str, ...], origin: str = "", raw: Any = None) -> list[Message]:
    """A goal, then one message with calls for each tuple, and their results."""
    messages = [user("go")]
    for each in ids:
        made = tuple(ToolCall(id, "add", "{}") for id in each)
        messages.append(Message("assistant", None, made, raw=raw, origin=origin))
        messages += [Message("tool", "3", call_id=id, name="add") for id in each]
    return messages


def ids_of(model: Any, messages: list[Message]) -> tuple[list[str], list[str]]:
    """The ids of the calls and of the results that would be sent."""
    body = model.sent(request(*messages)).json()
    if model.dialect == "anthropic":
        blocks = [block for turn in body["messages"] for block in turn["content"]]
        return [b["id"] for b in blocks if "id" in b], [b["tool_use_id"] for b in blocks if "tool_use_id" in b]
    if model.dialect == "responses":
        items = [item for item in body["input"] if "call_id" in item]
        called, answered = ([i["call_id"] for i in items if ("output" in i) is result] for result in (False, True))
        return called, answered
    if model.dialect == "gemini":
        parts = [part for turn in body["contents"] for part in turn["parts"]]
        called, answered = (
            [p[kind]["id"] for p in parts if kind in p] for kind in ("functionCall", "functionResponse")
        )
        return called, answered
    told = body["messages"]
    called = [call["id"] for message in told for call in message.get("tool_calls", ())]
    return called, [message["tool_call_id"] for message in told if message["role"] == "tool"]


@pytest.mark.slow
@every
@settings(max_examples=20)
@given(st.lists(st.sets(st.sampled_from(["a", "a_2", "call_1", "x" * 70]), min_size=1).map(tuple), max_size=6))
def test_every_call_has_its_own_id(model, ids):
    """Whatever ids come again, those on the wire differ, and the results follow their calls."""
    called, answered = ids_of(model, rounds(*ids))

    assert called == answered
    assert len(set(called)) == len(called) == sum(map(len, ids))


@every
def test_ids_that_were_unique_stay(model):
    """Nothing is written otherwise where nothing comes again."""
    if model is not STRICT:
        assert ids_of(model, rounds(("a", "b"), ("c",)))[0] == ["a", "b", "c"]


def test_a_providers_own_message_gets_the_ids_too():
    """Its blocks go back as they came but for the id, which the API refuses a second time."""
    model = MODELS[0]
    block = {"type": "tool_use", "id": "t", "name": "add", "input": {}, "extra": 1}
    messages = rounds(("t",), ("t",), origin=model.origin, raw={"role": "assistant", "content": [block]})
    turns = [turn["content"] for turn in model.sent(request(*messages)).json()["messages"]]

    assert turns[1] == [block]
    assert turns[3] == [{**block, "id": "t_2"}]
    assert turns[4][0]["tool_use_id"] == "t_2"


@every
def test_a_longer_history_begins_with_the_same_bytes(model):
    """What was sent stays as it was when more is said, and no message is encoded anew."""
    messages = rounds(*[("a",)] * 20)
    model.sent(ModelRequest(prompt=Prompt(messages), end=39)).body()
    before = [message._cache for message in messages[:39]]
    model.sent(ModelRequest(prompt=Prompt(messages), end=41)).body()

    assert all(message._cache is kept for message, kept in zip(messages, before, strict=False))


def test_invented_ids_stay_at_home():
    """Where calls have no ids, those that were made for them are not sent, also when they come again."""
    for model in MODELS:
        if model.dialect in ("gemini", "ollama"):
            name = f"{model.dialect}_3_1"
            assert name not in json.dumps(model.sent(request(*rounds((name,), (name,)))).json())


def test_the_parsed_history_is_left_alone():
    """The renaming lives on the wire: the messages keep the ids that the steps show."""
    messages = rounds(("a",), ("a",))
    MODELS[1].sent(request(*messages)).body()

    assert all(one == other for one, other in pairwise(call.id for message in messages for call in message.calls))
