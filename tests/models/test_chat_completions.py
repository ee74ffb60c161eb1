"""What is sent, what comes back as a reply, and what a model learns of its server."""

from __future__ import annotations

import asyncio
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FunctionTool, add, collect, runtime_for
from http_fakes import KEY, SSE, ask, events, model_at, request

from agentnb.core.messages import Message, ToolCall, user
from agentnb.core.model import Delta, ModelRequest, Prompt
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError
from agentnb.models.profiles import COMPATIBLE, PROFILES, Profile
from agentnb.models.scripted import calls
from agentnb.models.server import Raw, ScriptedServer

WIRE = Path(__file__).parents[1] / "fixtures" / "wire"
ADD = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {}, "b": {}}})
NOWHERE = "http://127.0.0.1:1/v1"
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


def body(asked: ModelRequest, streamed: bool = False, **options: Any) -> dict[str, Any]:
    """What would be sent."""
    return model_at(NOWHERE, **options).sent(asked, streamed).json()


def next_messages(server: ScriptedServer, tools: Any = (), streamed: bool = False, **options: Any) -> list[Any]:
    """The messages of the last request of a run against this server."""
    listeners = [lambda event: None] if streamed else []
    last = asyncio.run(collect(runtime_for(model_at(server, **options), tools, middleware=listeners)))[-1]
    assert last.answer == "done", last.detail
    check_valid(server.requests[-1].messages)
    return server.requests[-1].messages


def check_valid(messages: list[dict[str, Any]]) -> None:
    """Every call has exactly one result, right after it and in order, and every argument text is a JSON object."""
    for place, message in enumerate(messages):
        made = message.get("tool_calls") or []
        ids = [call["id"] for call in made]
        assert len(set(ids)) == len(ids)
        assert "" not in ids
        assert [each.get("tool_call_id") for each in messages[place + 1 : place + 1 + len(made)]] == ids
        assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in made)


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_golden_request():
    """One conversation gives the exact body that is written down for chat completions."""
    golden = json.loads((WIRE / "requests.json").read_text("utf-8"))
    told, expected = golden["conversation"], golden["openai_chat"]["body"]
    messages: list[Message] = []
    for turn in told["turns"]:
        made = tuple(
            ToolCall(call["id"], call["name"], json.dumps(call["arguments"], separators=(",", ":")))
            for call in turn.get("tool_calls", ())
        )
        if turn["role"] == "tool":
            messages.append(Message("tool", turn["content"], call_id=turn["id"]))
        else:
            messages.append(Message(turn["role"], turn["text"], made))
    tool = told["tool"]
    asked = ModelRequest(
        (Message("system", told["system"]),),
        Prompt(messages),
        len(messages),
        (ToolSpec(tool["name"], tool["description"], tool["parameters"]),),
        {"tool_choice": "auto", "max_tokens": told["max_tokens"]},
    )

    assert body(asked, model="M", profile=PROFILES["openai"], strict=True) == expected


def test_only_what_was_set_is_sent():
    """No temperature, no tool choice, no stream flag by default."""
    assert body(request("hello")) == {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def test_streams_ask_for_usage():
    """The flag is sent with streams alone, and not where the provider does not know it."""
    assert body(request(), True)["stream_options"] == {"include_usage": True}
    assert body(request(), True)["stream"] is True
    assert "stream_options" not in body(request(), True, profile=PROFILES["glm"])
    given = body(request(parameters={"stream_options": {"include_obfuscation": False}}), True)
    assert given["stream_options"] == {"include_obfuscation": False}


def test_parameters_go_under_the_providers_names():
    """The token limit, the seed and forced tools have other names in other places."""
    asked = request(parameters={"max_tokens": 9, "seed": 1, "tool_choice": "required", "temperature": 0})

    openai = body(asked, profile=PROFILES["openai"])
    mistral = body(asked, profile=PROFILES["mistral"])
    assert (openai["max_completion_tokens"], openai["seed"], openai["tool_choice"]) == (9, 1, "required")
    assert (mistral["max_tokens"], mistral["random_seed"], mistral["tool_choice"]) == (9, 1, "any")
    assert (openai["temperature"], mistral["temperature"]) == (0, 0)


def test_text_goes_out_byte_for_byte():
    """Line separators, emoji, braces and half characters arrive as they are (the last as U+FFFD)."""
    text = "a \u2028 b 你好🙂 {x} %s \\frac \x00 \ud83d"
    with ScriptedServer(["done"]) as server:
        ask(model_at(server), request(Message("user", text)))

    assert server.requests[0].messages[0]["content"] == text[:-1] + "\ufffd"


def test_numbers_that_json_lacks_become_null():
    """No bare NaN leaves this machine, wherever it came from."""
    sent = model_at(NOWHERE).sent(request(parameters={"logit_bias": {"1": float("nan")}}))

    assert b"NaN" not in sent.body()
    assert sent.json()["logit_bias"] == {"1": None}


def test_each_message_is_encoded_once():
    """The bytes of earlier messages are the same objects in the next request."""
    messages = [user(f"message {number}") for number in range(50)]
    model = model_at(NOWHERE)
    model.sent(ModelRequest(prompt=Prompt(messages), end=49)).body()
    before = [message._cache[1] for message in messages[:49]]
    model.sent(ModelRequest(prompt=Prompt(messages), end=50)).body()

    assert all(message._cache[1] is bytes for message, bytes in zip(messages, before, strict=False))


def test_the_request_is_on_the_step_and_small():
    """It is the exact JSON, also from a pickle, and shares the prompt instead of copying it."""
    with ScriptedServer([calls("add", a=1, b=2), calls("add", a=2, b=3), "done"]) as server:
        last = asyncio.run(collect(runtime_for(model_at(server), [add])))[-1]

    sent = [received.json() for received in server.requests]
    assert [step.request for step in last.steps] == sent
    assert [step.request for step in pickle.loads(pickle.dumps(last)).steps] == sent
    assert last.steps[0].reply.request.request.prompt is last.prompt


# ── the provider's own words ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": "CALL"},
        {"role": "assistant", "content": "", "reasoning_content": "so", "tool_calls": "CALL"},
        {"role": "assistant", "content": "Let me.", "x_new": {"deep": [1]}, "tool_calls": "CALL"},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}],
            "tool_calls": "CALL",
        },
    ],
)
def test_a_providers_message_goes_back_unchanged(message):
    """Unknown fields, signatures, reasoning and the form of the content survive, as they came."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a": 1,"b":2}'},
        "extra_content": {"s": "U0="},
    }
    message = {**message, "tool_calls": [call]}
    answer = Raw({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    with ScriptedServer([answer, "done"]) as server:
        assert next_messages(server, [add])[2] == message


def test_the_golden_replay():
    """The recorded message with reasoning goes back as written down beside it."""
    expected = json.loads((WIRE / "chat_reasoning_replay.expected.json").read_text("utf-8"))["replay_message"]
    answer = Raw((WIRE / "chat_reasoning_replay.json").read_bytes())
    with ScriptedServer([answer, "done"]) as server:
        assert next_messages(server, [FunctionTool(lambda city: 4, "city_temp")])[2] == expected


def test_signatures_survive():
    """The recorded signature is still on the call that it came with."""
    expected = json.loads((WIRE / "chat_signature_extra.expected.json").read_text("utf-8"))["replay_tool_call_extra"]
    answer = Raw((WIRE / "chat_signature_extra.json").read_bytes())
    with ScriptedServer([answer, "done"]) as server:
        back = next_messages(server, [FunctionTool(lambda city: 4, "city_temp")])[2]

    found = {
        call["id"]: {"extra_content": call["extra_content"]} for call in back["tool_calls"] if "extra_content" in call
    }
    assert found == expected


def test_calls_of_another_model_are_signed():
    """Where calls must be signed, the first of a message that another model wrote gets what stands for any signature."""
    made = (ToolCall("c1", "add", '{"a":1,"b":2}'), ToolCall("c2", "add", '{"a":3,"b":4}'))
    asked = request("hi", Message("assistant", None, made), Message("tool", "3", call_id="c1"))
    sent = body(asked, profile=PROFILES["gemini"])["messages"][1]["tool_calls"]

    placeholder = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [call.get("extra_content") for call in sent] == [placeholder, None]
    assert "extra_content" not in json.dumps(body(asked))


def test_own_calls_are_not_signed_anew():
    """What the provider itself wrote goes back as it came, signed or not."""
    extra = {"google": {"thought_signature": "c2ln"}}
    for signed in ({"extra_content": extra}, {}):
        said = {"content": None, "tool_calls": [{**calls("add", a=1, b=2)["tool_calls"][0], "id": "c1", **signed}]}
        with ScriptedServer([said, "done"]) as server:
            back = next_messages(server, [add], profile=PROFILES["gemini"])[2]
        assert back["tool_calls"][0].get("extra_content") == signed.get("extra_content")


def test_a_streamed_message_goes_back_like_a_whole_one():
    """Reasoning, its details and fields of calls are put together from the pieces."""
    message = {
        "role": "assistant",
        "content": "Let me see.",
        "reasoning_content": "a long thought of many pieces",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}, "extra": 1}
        ],
    }
    with ScriptedServer([message, "done"]) as server:
        assert next_messages(server, [add], streamed=True)[2] == message


def test_reasoning_details_are_joined():
    """Pieces of one detail grow together; another index or type is another detail."""
    details = [("r", "Let ", 0), ("r", "me.", 0), ("e", None, 0), ("r", "x", 1)]
    pieces = [{"reasoning_details": [{"type": kind, "text": text, "index": index}]} for kind, text, index in details]
    data = events(*(json.dumps({"choices": [{"delta": piece}]}) for piece in [*pieces, {"content": "done"}]), "[DONE]")
    with ScriptedServer([Raw(pieces=[data], headers=SSE)]) as server:
        raw = ask(model_at(server), deltas=[]).raw

    assert [(each["type"], each["text"]) for each in raw["reasoning_details"]] == [
        ("r", "Let me."),
        ("e", None),
        ("r", "x"),
    ]


@pytest.mark.parametrize("ids", [("t1", "t1", "t1"), (None, None, None), ("", "", ""), ("t1", "t2", "t3")])
@pytest.mark.parametrize("streamed", [False, True])
def test_parallel_calls_with_any_ids(ids, streamed):
    """Three calls run once each and get three results with the ids of the calls; unique ids stay."""
    started: list[str] = []

    def get_temp(city: str) -> int:
        started.append(city)
        if city == "Nowhere":
            raise ValueError("no such city")
        return 4

    made = [
        {"id": id, "type": "function", "function": {"name": "get_temp", "arguments": json.dumps({"city": city})}}
        for id, city in zip(ids, ("Rome", "Oslo", "Nowhere"), strict=True)
    ]
    with ScriptedServer([{"content": None, "tool_calls": made}, "done"]) as server:
        messages = next_messages(server, [FunctionTool(get_temp)], streamed)

    assert sorted(started) == ["Nowhere", "Oslo", "Rome"]
    assert [message["content"] for message in messages[3:]] == ["4", "4", "ValueError: no such city"]
    if len(set(ids)) == 3:
        assert tuple(call["id"] for call in messages[2]["tool_calls"]) == ids


@pytest.mark.parametrize("arguments", ["", "  ", "null", "{}", None, "absent", '{"a": ', "[1]"])
def test_arguments_go_back_as_json(arguments):
    """Whatever the model wrote, the history holds the JSON text of an object."""
    function = {"name": "now"} if arguments == "absent" else {"name": "now", "arguments": arguments}
    with ScriptedServer([{"content": None, "tool_calls": [{"id": "c", "function": function}]}, "done"]) as server:
        messages = next_messages(server, [FunctionTool(lambda: "noon", "now")])

    assert messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_name_that_no_server_takes_is_mended_in_the_history():
    """A name with a dot, or none at all, would be refused in every later request."""
    made = [
        {"id": str(n), "function": {"name": name, "arguments": "{}"}} for n, name in enumerate(["functions.add", None])
    ]
    with ScriptedServer([{"content": None, "tool_calls": made}, "done"]) as server:
        messages = next_messages(server, [add])

    assert [call["function"]["name"] for call in messages[2]["tool_calls"]] == ["functions_add", "unknown"]


def test_think_tags_do_not_go_back():
    """Reasoning that was written into the text is not sent back as answer text."""
    message = {"content": "<think>hm</think>\n\nLet me.", "tool_calls": calls("add", a=1, b=2)["tool_calls"]}
    with ScriptedServer([message, "<think>well</think>done"]) as server:
        assert next_messages(server, [add])[2]["content"] == "Let me."


def test_another_provider_gets_a_clean_history():
    """Fields of the first do not reach the second, ids get the form that it wants, and results still match."""
    first = {"content": None, "reasoning_content": "secret", **calls("add", a=1, b=2)}
    first["tool_calls"][0]["id"] = "call_" + "x" * 60
    with ScriptedServer([first, "one"]) as one, ScriptedServer(["done"]) as two:
        run = asyncio.run(collect(runtime_for(model_at(one), [add])))[-1]
        model = model_at(two, profile=PROFILES["mistral"], name="mistral:m")
        asyncio.run(collect(runtime_for(model, [add]), run.at(2)))

    check_valid(two.requests[0].messages)
    sent = two.requests[0].messages[2]
    assert set(sent) == {"role", "content", "tool_calls"}
    assert len(sent["tool_calls"][0]["id"]) == 9
    assert len(one.requests[1].messages[2]["tool_calls"][0]["id"]) <= 40


@pytest.mark.parametrize(
    ("profile", "fields"),
    [
        (PROFILES["deepseek"], {"content": None, "reasoning_content": ""}),
        (replace(COMPATIBLE, empty_content="text"), {"content": ""}),
        (replace(COMPATIBLE, system_role="developer"), {"content": None}),
    ],
)
def test_quirks_are_data(profile: Profile, fields):
    """Fields that a provider wants on calls, the form of an empty content, the name of the system role."""
    history = [
        Message("system", "Be brief."),
        Message("assistant", None, (ToolCall("c", "add"),)),
        Message("tool", "3", call_id="c"),
    ]
    messages = body(request(*history), profile=profile)["messages"]

    assert {key: messages[1][key] for key in messages[1] if key not in ("role", "tool_calls")} == fields
    assert messages[0]["role"] == profile.system_role


# ── what a model learns of its server ────────────────────────────────────────────────────────────────────────────────


def refusing(*names: str, answer: str = "fine") -> Any:
    """A server that refuses bodies with one of these fields, and says which."""

    def respond(received: Any) -> Any:
        text = received.body.decode()
        found = next((name for name in names if f'"{name}"' in text), None)
        if found is None:
            return answer
        return Raw(
            {
                "error": {
                    "message": f"Unsupported parameter: '{found}'",
                    "param": found,
                    "code": "unsupported_parameter",
                }
            },
            400,
        )

    return respond


@pytest.mark.parametrize(
    ("sent", "taken"), [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")]
)
def test_the_other_name_of_the_token_limit(sent, taken):
    """It is tried once and remembered."""
    with ScriptedServer(refusing(sent)) as server:
        model = model_at(server)
        asked = request(parameters={sent: 5})
        replies = [ask(model, asked), ask(model, asked)]

    assert [taken in received.json() for received in server.requests] == [False, True, True]
    assert "other name" in replies[0].notes[0]
    assert replies[1].notes == ()


def test_a_token_limit_that_is_too_large_keeps_its_name():
    """The server's complaint is about the value: it is told, and the model object learns nothing."""
    too_large = {"error": {"message": "max_tokens is too large: 99999", "code": "invalid_value", "param": "max_tokens"}}
    with ScriptedServer([Raw(too_large, 400), "fine"]) as server:
        model = model_at(server)
        with pytest.raises(ModelError, match="too large"):
            ask(model, request(parameters={"max_tokens": 99999}))
        assert ask(model, request(parameters={"max_tokens": 100})).text == "fine"

    assert "max_tokens" in server.requests[1].json()


@pytest.mark.parametrize("refused", [(), ("json_schema",), ("response_format",)])
def test_the_best_response_format_that_the_server_takes(refused):
    """A schema, else any JSON, else no format; what was found is remembered."""
    with ScriptedServer(refusing(*refused)) as server:
        model = model_at(server)
        asked = request(schema=SCHEMA)
        ask(model, asked)
        ask(model, asked)

    forms = [(received.json().get("response_format") or {}).get("type") for received in server.requests]
    steps = {(): [], ("json_schema",): ["json_schema"], ("response_format",): ["json_schema", "json_object"]}[refused]
    best = {(): "json_schema", ("json_schema",): "json_object", ("response_format",): None}[refused]
    assert forms == [*steps, best, best]


def test_the_schema_goes_whole():
    """The schema stands in the format as given; strict is sent when it was set."""
    assert body(request(schema=SCHEMA))["response_format"]["json_schema"] == {"name": "reply", "schema": SCHEMA}
    assert body(request(schema=SCHEMA), strict=True)["response_format"]["json_schema"]["strict"] is True
    given = body(request(schema=SCHEMA, parameters={"response_format": {"type": "text"}}))
    assert given["response_format"] == {"type": "text"}


def test_a_server_that_counts_no_streams():
    """One that refuses stream_options is asked without."""
    deltas: list[Delta] = []
    with ScriptedServer(refusing("stream_options")) as server:
        model = model_at(server)
        assert ask(model, deltas=deltas).text == "fine"
        ask(model, deltas=deltas)

    assert len(server.requests) == 3
    assert deltas[0].kind == "note"


def test_other_refusals_are_not_tried_again():
    """A complaint about something else is an error at once."""
    with ScriptedServer(refusing("temperature")) as server, pytest.raises(ModelError, match="temperature"):
        ask(model_at(server), request(parameters={"temperature": 1, "max_tokens": 5}, schema=SCHEMA))
    assert len(server.requests) == 1


def test_a_call_that_the_provider_could_not_read():
    """It is asked for once more, with what the model wrote in the note; then it is an error."""
    failed = Raw(
        {"error": {"message": "Failed", "code": "tool_use_failed", "failed_generation": "<function=add>{"}}, 400
    )
    with ScriptedServer([failed, "fine"]) as server:
        assert "<function=add>{" in ask(model_at(server)).notes[0]
    with ScriptedServer([failed, failed]) as server, pytest.raises(ModelError):
        ask(model_at(server))
    assert len(server.requests) == 2


# ── calls written as text ────────────────────────────────────────────────────────────────────────────────────────────

WRITTEN = '{"name":"add","arguments":{"a":1,"b":2}}'


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{WRITTEN}</tool_call>",
        f" <tool_call>\n{WRITTEN}\n</tool_call>\n",
        WRITTEN,
        f"```json\n{WRITTEN}\n```",
        f"<think>well</think>{WRITTEN}",
        '{"name":"add","arguments":"{\\"a\\":1,\\"b\\":2}"}',
    ],
)
def test_a_call_written_as_text_is_run(text):
    """When it is all that the reply holds and names a tool, it runs, and the step says so."""
    with ScriptedServer([text, "done"]) as server:
        last = asyncio.run(collect(runtime_for(model_at(server), [add])))[-1]

    assert (last.answer, [result.content for result in last.tool_results]) == ("done", ["3"])
    assert last.steps[0].notes == ("recovered from text",)
    check_valid(server.requests[1].messages)


def test_two_calls_written_as_text():
    """Several blocks are several calls."""
    with ScriptedServer([f"<tool_call>{WRITTEN}</tool_call>\n<tool_call>{WRITTEN}</tool_call>", "done"]) as server:
        assert len(next_messages(server, [add])[2]["tool_calls"]) == 2


@pytest.mark.parametrize(
    "text",
    [
        f"You could send <tool_call>{WRITTEN}</tool_call> to the server.",
        f"<tool_call>{WRITTEN}</tool_call> Shall I?",
        '{"name":"delete","arguments":{}}',
        '{"name":"add","arguments":{"a":1},"why":"because"}',
        '{"name":"add"}',
        '{"name":"add","arguments":[1]}',
        "<tool_call>add</tool_call>",
        f"{WRITTEN} {WRITTEN}",
        f"<think>{WRITTEN}</think>no",
    ],
)
def test_a_text_that_mentions_a_call_is_an_answer(text):
    """Nothing runs from a text with anything else in it, or for a tool that is not there."""
    with ScriptedServer([text]) as server:
        last = asyncio.run(collect(runtime_for(model_at(server), [add])))[-1]

    assert last.answer == text.partition("</think>")[2] or last.answer == text
    assert last.tool_results == ()


def test_recovering_can_be_switched_off():
    """Then such a text is the answer."""
    with ScriptedServer([WRITTEN]) as server:
        last = asyncio.run(collect(runtime_for(model_at(server, recover_calls=False), [add])))[-1]
    assert last.answer == WRITTEN


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_reply_tells_of_its_model():
    """The asked name, the answering name, the time by the given clock, the provider's own cost."""
    message = {
        "choices": [{"message": {"content": "x"}}],
        "model": "m-2026",
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.25},
    }
    with ScriptedServer([Raw(message)]) as server:
        reply = ask(model_at(server, name="router:m"))

    assert (reply.model, reply.answered_as, reply.cost, reply.seconds) == ("router:m", "m-2026", 0.25, 0.0)


def test_the_object_shows_no_key():
    """Neither the model's repr nor that of its parts."""
    model = model_at(NOWHERE)

    assert "ChatCompletionsModel('compatible:m'" in repr(model)
    assert KEY[:8] not in repr(model) + repr(vars(model)) + repr(model.transport.endpoint.headers)


@pytest.mark.parametrize("code", ["context_length_exceeded", "exceed_context_size_error"])
def test_a_run_whose_context_is_too_long(code):
    """It ends as such after one request, so that a compaction can take over."""
    with ScriptedServer([Raw({"error": {"message": "too big", "code": 400, "type": code}}, 400)]) as server:
        last = asyncio.run(collect(runtime_for(model_at(server)), State.start("count the words")))[-1]
    assert (last.stop, len(server.requests)) == ("context_too_long", 1)
