"""Ollama's own API: what is sent, what goes back unchanged, endings and numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes import add
from http_fakes import KEY, request, shown
from native_forms import NDJSON, lines
from test_contract import ANSWER, HTTP, WIRE, Say, ask, check_rounds, run

from agentnb.core.messages import Message, ToolCall
from agentnb.core.model import Delta, ModelRequest, Prompt
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError
from agentnb.models.ollama import OllamaModel
from agentnb.models.server import Raw

ROW = next(row for row in HTTP if row.name == "ollama")
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


def model(base_url: str = "http://127.0.0.1:1", **options: Any) -> OllamaModel:
    """A model that is not asked."""
    return OllamaModel("m", base_url, KEY, **options)


def body(*messages: Message | str, **more: Any) -> dict[str, Any]:
    """What would be sent."""
    return model().sent(request(*messages, **more)).json()


def said(content: str = "", done_reason: str | None = "stop", counts: Any = None, **message: Any) -> Raw:
    """A whole answer."""
    made = {"role": "assistant", "content": content, **message}
    return Raw({"model": "m", "message": made, "done": True, "done_reason": done_reason, **(counts or {})})


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_golden_request():
    """One conversation gives the body that is written down for this dialect."""
    golden = json.loads((WIRE / "requests.json").read_text("utf-8"))
    told = golden["conversation"]
    messages: list[Message] = []
    for turn in told["turns"]:
        made = tuple(
            ToolCall(call["id"], call["name"], json.dumps(call["arguments"])) for call in turn.get("tool_calls", ())
        )
        if turn["role"] == "tool":
            messages.append(Message("tool", turn["content"], call_id=turn["id"], name="city_temp"))
        else:
            messages.append(Message(turn["role"], turn["text"], made))
    spec = ToolSpec(told["tool"]["name"], told["tool"]["description"], told["tool"]["parameters"])
    system = (Message("system", told["system"]),)
    asked = ModelRequest(system, Prompt(messages), len(messages), (spec,), {"max_tokens": told["max_tokens"]})

    assert OllamaModel("M").sent(asked).json() == golden["ollama"]["body"]


@pytest.mark.parametrize(
    ("parameters", "fields"),
    [
        ({"temperature": 0, "seed": 1, "top_p": 0.5}, {"options": {"temperature": 0, "seed": 1, "top_p": 0.5}}),
        ({"max_completion_tokens": 7}, {"options": {"num_predict": 7}}),
        ({"stop": "END"}, {"options": {"stop": ["END"]}}),
        ({"num_ctx": 16_384}, {"options": {"num_ctx": 16_384}}),
        ({"options": {"new": 1, "seed": 2}, "seed": 1}, {"options": {"new": 1, "seed": 2}}),
        ({"options": {"new": 1}}, {"options": {"new": 1}}),
        ({"think": True, "keep_alive": "5m"}, {"think": True, "keep_alive": "5m"}),
        ({"reasoning_effort": "high"}, {"think": "high"}),
        ({"reasoning_effort": "none"}, {"think": False}),
        ({"response_format": {"type": "json_object"}}, {"format": "json"}),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}, {"format": SCHEMA}),
        ({"format": "json"}, {"format": "json"}),
    ],
)
def test_parameters_at_their_native_place(parameters, fields):
    """Words of chat completions are translated, anything else goes as it is; nothing else is sent."""
    sent = body("hi", parameters=parameters)
    assert {name: sent[name] for name in sent if name not in ("model", "messages")} == {"stream": False, **fields}


def test_the_schema():
    """It is the format of the reply; one that the user chose stays."""
    assert body("hi", schema=SCHEMA)["format"] == SCHEMA
    assert body("hi", schema=SCHEMA, parameters={"format": "json"})["format"] == "json"


def test_a_server_that_refuses_the_schema():
    """An old one is asked without, and that is remembered."""
    words = "json: cannot unmarshal object into Go struct field ChatRequest.format of type string"
    with ROW.open([Raw({"error": words}, 400), ANSWER, ANSWER]) as opened:
        replies = [ask(opened.model, request(schema=SCHEMA)) for _ in range(2)]

    assert ["format" in each.json() for each in opened.server.requests] == [True, False, False]
    assert "without the schema" in replies[0].notes[0]
    assert replies[1].notes == ()


@pytest.mark.parametrize("written", ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/api", "/api/chat"])
def test_any_form_of_the_base_url(written):
    """As for the compatible API, pasted whole, with a slash; a query stays behind it."""
    assert str(model(f"http://h.test{written}").transport.endpoint.url) == "http://h.test/api/chat"
    assert str(model(f"http://h.test/o{written}?k=1").transport.endpoint.url) == "http://h.test/o/api/chat?k=1"


def test_a_model_that_is_not_there():
    """The error says how to fetch it."""
    with ROW.open([Raw({"error": "model 'm' not found"}, 404)]) as opened, pytest.raises(ModelError) as error:
        ask(opened.model)
    assert (error.value.kind, error.value.remedy) == ("not_found", "Fetch it first: ollama pull m")


def test_a_full_queue():
    """A busy server is asked again."""
    busy = Raw({"error": "server busy, please try again.  maximum pending requests exceeded"}, 503)
    with ROW.open([busy, ANSWER]) as opened:
        reply = ask(opened.model)
    assert (reply.text, len(reply.notes)) == ("It is 3.", 1)


# ── the model's own words ────────────────────────────────────────────────────────────────────────────────────────────


def sent_back(answer: Raw, streamed: bool = False, tools: Any = (add,)) -> list[dict[str, Any]]:
    """The messages of the second request of a run, after the system prompt and the goal."""
    with ROW.open([answer, ANSWER]) as opened:
        assert run(opened.model, tools, streamed).answer == "It is 3."
    check_rounds(opened.told()[1])
    messages: list[dict[str, Any]] = opened.server.requests[1].json()["messages"][2:]
    return messages


def test_the_golden_turn_goes_back_unchanged():
    """With its thinking; a call without an id stays so, and so does its result."""

    def city_temp(city: str) -> int:
        return len(city)

    def now() -> str:
        return "noon"

    expected = json.loads((WIRE / "ollama_stream_tools.expected.json").read_text("utf-8"))
    golden = Raw((WIRE / "ollama_stream_tools.ndjson").read_bytes(), headers=NDJSON)
    turn, *results = sent_back(golden, True, [city_temp, now])

    assert turn == expected["replay_message"]
    assert results[0] == expected["next_tool_message"]
    assert results[1] == {"role": "tool", "tool_name": "now", "tool_call_id": "call_ol2", "content": "noon"}


def test_unknown_fields_go_back():
    """Of the message and of its calls, streamed or not."""
    call = {"id": "c", "x": 1, "function": {"name": "add", "arguments": {"a": 1, "b": 2}, "y": [None]}}
    line = {"message": {"role": "assistant", "content": "", "brand_new": 1, "tool_calls": [call]}, "done": False}
    end = {"message": {"role": "assistant", "content": ""}, "done": True}
    turn = {"role": "assistant", "content": "", "brand_new": 1, "tool_calls": [call]}

    assert sent_back(said(brand_new=1, tool_calls=[call]))[0] == turn
    assert sent_back(lines(line, end), streamed=True)[0] == turn


def test_another_models_message_is_rebuilt():
    """Its thinking and fields that only it knows are left out."""
    own = {"role": "assistant", "content": "So.", "thinking": "hm", "x": 1}
    foreign = Message("assistant", "So.", reasoning="hm", raw=own, origin="ollama:other")

    assert body("hi", foreign)["messages"][1] == {"role": "assistant", "content": "So."}


def test_arguments_as_text():
    """A model that writes them as a string is read; an object goes back."""
    call = {"function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    turn = sent_back(said(tool_calls=[call]))[0]

    assert turn["tool_calls"] == [{"function": {"name": "add", "arguments": {"a": 1, "b": 2}}}]


@pytest.mark.parametrize("streamed", [False, True])
def test_thinking_inside_the_text(streamed):
    """A server that does not know the model's thinking leaves it in the text: it is taken apart, and does not go back."""
    text = "<think>Two sums.</think>\n\nIt is 3."
    pieces = [{"message": {"content": sign}, "done": False} for sign in text]
    deltas: list[Delta] = []
    with ROW.open([lines(*pieces, {"message": {"content": ""}, "done": True}) if streamed else said(text)]) as opened:
        reply = ask(opened.model, deltas=deltas if streamed else None)

    assert (reply.text, reply.reasoning) == ("It is 3.", "Two sums.")
    assert not streamed or shown(deltas) == "It is 3."
    own = reply.message(())
    assert opened.model.sent(request("hi", own)).json()["messages"][1] == {"role": "assistant", "content": "It is 3."}


def test_thinking_tags_of_other_texts_stay():
    """Where the profile says that no model writes them."""
    from dataclasses import replace

    plain = OllamaModel("m", profile=replace(OllamaModel.compatible, think_tags=False))
    reply = plain._read({"message": {"content": "<think>a</think>b"}}, request())
    assert (reply.text, reply.reasoning) == ("<think>a</think>b", "")


# ── endings and numbers ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reason", "finish"), [("stop", "stop"), ("length", "length"), ("load", "stop"), ("new", "stop"), (None, "stop")]
)
def test_how_a_text_ends(reason, finish):
    """The server's word, as far as it is known."""
    with ROW.open([said("So.", reason)]) as opened:
        assert ask(opened.model).finish == finish


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"prompt_eval_count": 5, "eval_count": 3}, (5, 3, 0, 0, 0)),
        ({"eval_count": 3}, (None, 3, None, None, 0)),
        ({"prompt_eval_count": 5}, (5, None, 0, 0, None)),
        ({}, None),
    ],
)
def test_usage(counts, expected):
    """A prompt that was cached is not counted by the server: unknown, never 0."""
    with ROW.open([said("x", counts=counts)]) as opened:
        usage = ask(opened.model).usage
    assert (usage and (usage.input, usage.output, usage.cached_input, usage.cache_write, usage.reasoning)) == expected


def test_an_error_in_the_middle_is_tried_again():
    """A line that tells of overload: the text is taken back, and the call is made again."""
    half = lines({"message": {"content": "It was"}, "done": False}, {"error": "model runner is at capacity"})
    deltas: list[Delta] = []
    with ROW.open([half, ANSWER]) as opened:
        reply = ask(opened.model, deltas=deltas)

    assert shown(deltas) == reply.text == "It is 3."
    assert "at capacity" in reply.notes[0]


def test_a_call_written_as_text():
    """The whole text is one call of a known tool: it is run, and the step says so; the text does not go back as such."""
    with ROW.open([Say('{"name": "add", "arguments": {"a": 1, "b": 2}}'), ANSWER]) as opened:
        last = run(opened.model)

    assert (last.answer, last.steps[0].notes) == ("It is 3.", ("recovered from text",))
    check_rounds(opened.told()[1])
