"""Gemini's own API: what is sent, what goes back unchanged, endings and numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes import add
from http_fakes import KEY, Waits, request, shown
from native_forms import events
from test_contract import ANSWER, HTTP, SUM, WIRE, Say, ask, check_rounds, run

from agentnb.core.messages import Message, ToolCall, user
from agentnb.core.model import Delta
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError
from agentnb.models.gemini import GeminiModel
from agentnb.models.profiles import ANY_SIGNATURE
from agentnb.models.server import Raw

ROW = next(row for row in HTTP if row.name == "gemini")
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
CALL = Message("assistant", None, (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "sub")))
RESULTS = (Message("tool", "1", call_id="c1", name="add"), Message("tool", "", call_id="c2", name="sub"))


def model(base_url: str = "http://127.0.0.1:1", name: str = "m", **options: Any) -> GeminiModel:
    """A model that is not asked."""
    return GeminiModel(name, base_url, KEY, **options)


def body(*messages: Message | str, **more: Any) -> dict[str, Any]:
    """What would be sent."""
    return model().sent(request(*messages, **more)).json()


def said(*parts: dict[str, Any], finish: str = "STOP", **more: Any) -> Raw:
    """A whole answer with these parts."""
    return Raw({"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}], **more})


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation():
    """Roles, calls with objects, all results of a turn in one content in call order, what is said next apart."""
    sent = body(Message("system", "Be brief."), "hi", CALL, *RESULTS, "and?", specs=(ToolSpec("add", "Add."),))

    assert sent == {
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1}}},
                    {"functionCall": {"id": "c2", "name": "sub", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "add", "response": {"output": "1"}}},
                    {"functionResponse": {"id": "c2", "name": "sub", "response": {"output": "(empty)"}}},
                ],
            },
            {"role": "user", "parts": [{"text": "and?"}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "add",
                        "description": "Add.",
                        "parametersJsonSchema": {"type": "object", "properties": {}},
                    }
                ]
            }
        ],
    }


def test_the_body_is_valid_at_every_length():
    """The join of the fragments is the JSON of the contents, wherever a request ends."""
    messages: list[Message] = [Message("system", "s"), user("go")]
    for number in range(12):
        ids = [f"c{number}", f"d{number}"]
        messages.append(Message("assistant", "" if number % 2 else "So.", tuple(ToolCall(id, "add") for id in ids)))
        messages += [Message("tool", "3", call_id=id, name="add") for id in ids]
        messages += [Message("system", "more"), Message("assistant", ""), user("x")] if number % 3 == 0 else []
    for end in range(1, len(messages) + 1):
        told = ROW.told(body(*messages[:end]))
        if messages[end - 1].role == "user":
            check_rounds(told)


def test_empty_texts_are_left_out():
    """The API refuses a content without parts; a message that says nothing is none. Several system prompts are parts."""
    sent = body(
        Message("system", "a"), "hi", Message("assistant", ""), "", Message("system", ""), Message("system", "b")
    )

    assert sent["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert sent["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}
    assert "systemInstruction" not in body(Message("system", ""), "hi")


def test_a_failed_call():
    """Its result is told as an error."""
    failed = Message("tool", "no such city", call_id="c2", name="sub", failed=True)
    answers = body("hi", CALL, RESULTS[0], failed)["contents"][2]["parts"]

    assert [part["functionResponse"]["response"] for part in answers] == [{"output": "1"}, {"error": "no such city"}]


def test_names_and_ids_that_no_server_takes():
    """They are made legal, alike in a call and in its result."""
    odd = Message("assistant", None, (ToolCall("c 1|é", "add it!", "[1]"), ToolCall("c2", "")))
    results = (Message("tool", "1", call_id="c 1|é", name="add it!"), Message("tool", "2", call_id="c2"))
    contents = body("hi", odd, *results)["contents"]
    calls = [part["functionCall"] for part in contents[1]["parts"]]
    answers = [part["functionResponse"] for part in contents[2]["parts"]]

    assert [call["name"] for call in calls] == [answer["name"] for answer in answers] == ["add_it_", "unknown"]
    assert [call["id"] for call in calls] == [answer["id"] for answer in answers]
    assert calls[0]["args"] == {}


@pytest.mark.parametrize(
    ("parameters", "fields"),
    [
        ({"temperature": 0, "seed": 1}, {"generationConfig": {"temperature": 0, "seed": 1}}),
        ({"top_p": 0.5, "top_k": 3}, {"generationConfig": {"topP": 0.5, "topK": 3}}),
        ({"max_tokens": 7}, {"generationConfig": {"maxOutputTokens": 7}}),
        ({"max_completion_tokens": 7}, {"generationConfig": {"maxOutputTokens": 7}}),
        ({"stop": "END"}, {"generationConfig": {"stopSequences": ["END"]}}),
        ({"stop": ["A", "B"]}, {"generationConfig": {"stopSequences": ["A", "B"]}}),
        ({"reasoning_effort": "low"}, {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}}),
        ({"reasoning_effort": "none"}, {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}),
        (
            {"thinkingConfig": {"includeThoughts": True}},
            {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
        ),
        ({"generationConfig": {"topK": 1}, "top_k": 9, "seed": 1}, {"generationConfig": {"topK": 1, "seed": 1}}),
        ({"tool_choice": "required"}, {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}},
        ),
        ({"response_format": {"type": "json_object"}}, {"generationConfig": {"responseMimeType": "application/json"}}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": SCHEMA}}},
            {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
        ),
        ({"safetySettings": [{"x": 1}]}, {"safetySettings": [{"x": 1}]}),
        ({"tools": [{"googleSearch": {}}]}, {"tools": [{"googleSearch": {}}]}),
    ],
)
def test_parameters_at_their_native_place(parameters, fields):
    """Words of chat completions are translated, anything else goes as it is; nothing else is sent."""
    sent = body("hi", parameters=parameters)
    assert {name: sent[name] for name in sent if name != "contents"} == fields


def test_the_providers_own_tools_stand_beside_ours():
    """Both are in one list."""
    sent = body("hi", specs=(ToolSpec("add"),), parameters={"tools": [{"googleSearch": {}}]})
    assert [list(tool) for tool in sent["tools"]] == [["functionDeclarations"], ["googleSearch"]]


def test_the_schema():
    """It goes into the generation's settings; what the user wrote there stays."""
    own = {"responseJsonSchema": {"type": "array"}, "temperature": 0}
    sent = [body("hi", schema=SCHEMA, parameters=each)["generationConfig"] for each in ({}, own)]

    assert sent[0] == {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    assert sent[1] == {"responseMimeType": "application/json", **own}


@pytest.mark.parametrize("with_tools", [False, True])
def test_a_server_that_refuses_the_schema(with_tools):
    """It is asked without, and that is remembered: for requests with tools apart, where many models refuse it."""
    words = "Function calling with a response mime type: 'application/json' is unsupported"
    refused = Raw([{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}], 400)
    asked = request(schema=SCHEMA, specs=(ToolSpec("add"),) * with_tools)
    other = request(schema=SCHEMA, specs=(ToolSpec("add"),) * (not with_tools))
    with ROW.open([refused, ANSWER, ANSWER, ANSWER]) as opened:
        replies = [ask(opened.model, each) for each in (asked, asked, other)]

    assert ["generationConfig" in each.json() for each in opened.server.requests] == [True, False, False, True]
    assert "without the schema" in replies[0].notes[0]
    assert replies[1].notes == ()


def test_the_address_says_whether_to_stream():
    """The model's name and the wish are in the path; the key in a header of its own."""
    with ROW.open([ANSWER, ANSWER], headers={"x-extra": "1"}) as opened:
        ask(opened.model)
        ask(opened.model, deltas=[])
    whole, streamed = opened.server.requests

    assert whole.path == "/v1/models/m:generateContent"
    assert streamed.path == "/v1/models/m:streamGenerateContent?alt=sse"
    assert whole.body == streamed.body
    assert (whole.headers["x-goog-api-key"], whole.headers["x-extra"]) == (KEY, "1")
    assert "authorization" not in whole.headers


@pytest.mark.parametrize(
    "written", ["", "/", "/v1beta", "/v1beta/", "/v1beta/openai", "/v1beta/models/m:generateContent"]
)
def test_any_form_of_the_base_url(written):
    """With or without the version, pasted whole, with a slash; a query stays."""
    made = model(f"http://h.test{written}")
    assert str(made.transport.endpoint.url) == "http://h.test/v1beta/models/m:generateContent"
    assert str(made._streaming.url) == "http://h.test/v1beta/models/m:streamGenerateContent?alt=sse"
    assert str(model(f"http://h.test{written}?k=1")._streaming.url).endswith(":streamGenerateContent?k=1&alt=sse")


@pytest.mark.parametrize(
    ("name", "path"), [("models/g", "models/g"), ("g-3", "models/g-3"), ("tunedModels/t", "tunedModels/t")]
)
def test_any_form_of_the_models_name(name, path):
    """With its collection or without."""
    url = str(model("http://h.test/v1", name).transport.endpoint.url)
    assert url == f"http://h.test/v1/{path}:generateContent"


# ── the provider's own words ─────────────────────────────────────────────────────────────────────────────────────────


def sent_back(*answers: Raw, streamed: bool = False, tools: Any = (add,)) -> list[dict[str, Any]]:
    """The contents of the last request of a run, after the goal."""
    with ROW.open([*answers, ANSWER]) as opened:
        assert run(opened.model, tools, streamed).answer == "It is 3."
    check_rounds(opened.told()[-1])
    contents: list[dict[str, Any]] = opened.server.requests[-1].json()["contents"][1:]
    return contents


def test_the_golden_turn_goes_back_unchanged():
    """Signatures stay in their parts; calls without an id stay so, and so do their results."""

    def city_temp(city: str) -> int:
        return len(city)

    expected = json.loads((WIRE / "gemini_stream_tools.expected.json").read_text("utf-8"))["replay_parts"]
    golden = Raw((WIRE / "gemini_stream_tools.sse").read_bytes(), headers={"content-type": "text/event-stream"})
    turn, results = sent_back(golden, streamed=True, tools=[city_temp])

    assert turn == {"role": "model", "parts": [{"text": "Planning the calls.", "thought": True}, *expected]}
    assert results["parts"] == [
        {"functionResponse": {"name": "city_temp", "response": {"output": text}}} for text in ("4", "6")
    ]


def test_every_part_goes_back():
    """Also those that are not known, and a text without text that carries a signature: as they came, in their order."""
    parts: list[dict[str, Any]] = [
        {"text": "", "thoughtSignature": "YQ=="},
        {"text": "So.", "thoughtSignature": "Yg=="},
        {"text": " And."},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"brandNew": [1, None]},
        {"functionCall": {"id": "x1", "name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": "Yw=="},
        {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}},
    ]
    pieces = events(*({"candidates": [{"content": {"parts": [part]}}]} for part in parts))
    end = events({"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}]})
    streamed = Raw(pieces=[*(pieces.pieces or ()), *(end.pieces or ())], headers=pieces.headers)

    whole = sent_back(said(*parts, {"text": ""}))
    assert whole == sent_back(streamed, streamed=True)
    assert whole[0]["parts"] == parts
    assert [part["functionResponse"].get("id") for part in whole[1]["parts"]] == ["x1", None]


def test_texts_of_one_kind_are_joined():
    """Thoughts and text come in pieces; each is one part when it goes back."""
    kinds = [("T", True), ("h", True), ("S", False), ("o", False)]
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": text, **({"thought": True} if thought else {})}]}}]}
        for text, thought in kinds
    ]
    call = {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}
    end = {"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]}

    assert sent_back(events(*chunks, end), streamed=True)[0]["parts"] == [
        {"text": "Th", "thought": True},
        {"text": "So"},
        call,
    ]


def test_another_models_parts_are_rebuilt():
    """Its thoughts, its signatures and fields that only it knows are left out."""
    own = {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "So.", "thoughtSignature": "YQ=="}]}
    foreign = Message("assistant", "So.", raw=own, origin="gemini:other")

    assert body("hi", foreign)["contents"][1] == {"role": "model", "parts": [{"text": "So."}]}


def missing(as_finish_reason: bool) -> Raw:
    """How a server says that a signature is missing."""
    if as_finish_reason:
        return Raw({"candidates": [{"finishReason": "MISSING_THOUGHT_SIGNATURE"}]})
    faults = json.loads((WIRE / "errors.json").read_text("utf-8"))
    fault = next(each for each in faults if each["name"] == "gemini_error_list")
    return Raw(fault["body"], fault["status"])


@pytest.mark.parametrize("as_finish_reason", [False, True])
def test_a_missing_signature(as_finish_reason):
    """Calls that another model made get the signature that stands for any, once the server misses it; remembered."""
    asked = request("hi", CALL, *RESULTS)
    with ROW.open([missing(as_finish_reason), ANSWER, ANSWER]) as opened:
        first, second = (ask(opened.model, asked) for _ in range(2))

    signatures = [
        [part.get("thoughtSignature") for part in received.json()["contents"][1]["parts"]]
        for received in opened.server.requests
    ]
    assert signatures == [[None, None], [ANY_SIGNATURE, None], [ANY_SIGNATURE, None]]
    assert "another model made" in first.notes[0]
    assert (second.notes, first.request.json()) == ((), opened.server.requests[1].json())


# ── endings and numbers ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("SPII", "content_filter"),
        ("BRAND_NEW", "stop"),
        (None, "stop"),
    ],
)
def test_how_a_text_ends(reason, finish):
    """The provider's word, as far as it is known."""
    with ROW.open([said({"text": "So."}, finish=reason)]) as opened:
        assert ask(opened.model).finish == finish


def test_an_answer_without_content():
    """The filter, or thinking that reached the limit, leaves a candidate with nothing in it."""
    for reason, finish in (("SAFETY", "content_filter"), ("MAX_TOKENS", "length")):
        candidate = {"candidates": [{"finishReason": reason}]}
        with ROW.open([Raw(candidate), events(candidate)]) as opened:
            whole, streamed = ask(opened.model), ask(opened.model, deltas=[])
        assert whole == streamed
        assert (whole.text, whole.finish) == ("", finish)


def test_a_filtered_call_is_not_run():
    """What the filter stopped may be half of what was meant."""
    with ROW.open([said({"functionCall": {"name": "add", "args": {}}}, finish="SAFETY")]) as opened:
        assert ask(opened.model).calls == ()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_blocked_prompt(streamed):
    """No candidate at all: refused, with the provider's reason."""
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 5}}
    with ROW.open([events(blocked) if streamed else Raw(blocked)]) as opened:
        reply = ask(opened.model, deltas=[] if streamed else None)

    assert (reply.finish, reply.text) == ("refusal", "")
    assert "PROHIBITED_CONTENT" in (reply.refusal or "")


BROKEN = {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: print(add(1, 2))"}


@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_that_the_provider_could_not_read(streamed):
    """It is asked for once more, and the tokens of both answers count; what was shown is taken back."""
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 2}
    broken = {"candidates": [{"content": {"parts": [{"text": "Wait"}]}, **BROKEN}], "usageMetadata": usage}
    deltas: list[Delta] = []
    with ROW.open([events(broken) if streamed else Raw(broken), SUM]) as opened:
        reply = ask(opened.model, deltas=deltas if streamed else None)

    assert (len(reply.calls), reply.usage.input, reply.usage.output) == (1, 15, 5)
    assert "print(add(1, 2))" in reply.notes[0]
    assert shown(deltas) == ""


def test_calls_that_the_provider_can_never_read():
    """The second time it is an error about the reply, with the provider's words."""
    with ROW.open([Raw({"candidates": [BROKEN]})] * 2) as opened, pytest.raises(ModelError, match="print") as error:
        ask(opened.model)
    assert (error.value.kind, len(opened.server.requests)) == ("reply", 2)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"promptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}, (5, 7, 0, 0, 4)),
        ({"promptTokenCount": 5, "candidatesTokenCount": 3, "cachedContentTokenCount": 2}, (5, 3, 2, 0, 0)),
        ({"promptTokenCount": 5, "thoughtsTokenCount": 4, "totalTokenCount": 9}, (5, 4, 0, 0, 4)),
        ({"promptTokenCount": 5, "totalTokenCount": 8}, (5, 3, 0, 0, 0)),
        ({"promptTokenCount": 5, "toolUsePromptTokenCount": 6, "candidatesTokenCount": 1}, (11, 1, 0, 0, 0)),
        ({"candidatesTokenCount": 3}, (None, 3, None, None, 0)),
        ({"promptTokenCount": 5}, (5, None, 0, 0, None)),
        ({}, None),
        ({"promptTokenCount": True, "candidatesTokenCount": -1}, None),
    ],
)
def test_usage(counts, expected):
    """Thoughts belong to the output; what is not said is unknown, a part that is not written is 0."""
    with ROW.open([said({"text": "x"}, usageMetadata=counts)]) as opened:
        usage = ask(opened.model).usage
    assert (usage and (usage.input, usage.output, usage.cached_input, usage.cache_write, usage.reasoning)) == expected


def test_the_providers_wait_is_kept():
    """The delay among the details of the error, in a list as this provider sends it."""
    fault = next(
        each for each in json.loads((WIRE / "errors.json").read_text("utf-8")) if each["name"] == "gemini_exhausted"
    )
    waits = Waits()
    with ROW.open([Raw(fault["body"], fault["status"]), ANSWER], waits) as opened:
        assert ask(opened.model).text == "It is 3."
    assert waits.seconds == [7.0]


def test_a_call_written_as_text():
    """The whole text is one call of a known tool: it is run, and the step says so; the text does not go back as such."""
    with ROW.open([Say('{"name": "add", "arguments": {"a": 1, "b": 2}}'), ANSWER]) as opened:
        last = run(opened.model)

    assert (last.answer, last.steps[0].notes) == ("It is 3.", ("recovered from text",))
    check_rounds(opened.told()[1])
