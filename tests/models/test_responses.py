"""OpenAI Responses: what is sent, what goes back unchanged, and what a model learns of its server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes import FunctionTool, add
from http_fakes import KEY, SSE, request, shown
from test_anthropic import golden_request
from test_contract import ANSWER, HTTP, WIRE, Say, ask, check_rounds, responses_answer, run, stream

from agentnb.core.messages import Message, ToolCall
from agentnb.core.model import Delta
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError
from agentnb.models.responses import ResponsesModel
from agentnb.models.server import Raw

ROW = next(row for row in HTTP if row.name == "responses")
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
ADDED = {"store": False, "include": ["reasoning.encrypted_content"]}


def model(**options: Any) -> ResponsesModel:
    """A model that is not asked."""
    return ResponsesModel(options.pop("model", "m"), "http://127.0.0.1:1/v1", KEY, **options)


def body(*messages: Message | str, **more: Any) -> dict[str, Any]:
    """What would be sent."""
    return model().sent(request(*messages, **more)).json()


def response(*items: dict[str, Any], **more: Any) -> Raw:
    """A whole answer with these items."""
    return Raw({"object": "response", "status": "completed", "error": None, "output": list(items), **more})


def spoken(*texts: str, **more: Any) -> dict[str, Any]:
    """A message item with these parts."""
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": parts, **more}


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_golden_request():
    """One conversation gives the exact body that is written down for this dialect."""
    expected = json.loads((WIRE / "requests.json").read_text("utf-8"))["openai_responses"]["body"]

    assert model(model="M", strict=True).sent(golden_request()).json() == expected


def test_the_first_system_message_is_the_instructions():
    """A later one is an item of the conversation; an empty one is not sent."""
    system = Message("system", "Be brief.")
    sent = body(system, "hi", Message("system", "Really."))

    assert sent["instructions"] == "Be brief."
    assert [item["role"] for item in sent["input"]] == ["user", "system"]
    assert "instructions" not in body("hi")
    assert "instructions" not in body(Message("system", ""), "hi")


def test_messages_that_say_nothing_are_left_out():
    """Calls without text are calls alone; an empty result says that it is empty."""
    calls = Message("assistant", None, (ToolCall("c", "f"),))
    items = body("hi", calls, Message("tool", "", call_id="c"), Message("assistant", ""))["input"]

    assert items == [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "(empty)"},
    ]


@pytest.mark.parametrize(
    ("parameters", "fields"),
    [
        ({"max_tokens": 7}, {"max_output_tokens": 7}),
        ({"max_completion_tokens": 7}, {"max_output_tokens": 7}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"tool_choice": {"type": "function", "name": "f"}},
        ),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        (
            {"reasoning_effort": "low", "reasoning": {"summary": "auto"}},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"temperature": 0, "brand_new": [1]}, {"temperature": 0, "brand_new": [1]}),
        ({"store": True, "include": []}, {"store": True, "include": []}),
    ],
)
def test_parameters_in_this_dialects_form(parameters, fields):
    """Words of chat completions are translated, anything else goes as it is; nothing else is sent."""
    sent = body("hi", parameters=parameters)

    assert {name: sent[name] for name in sent if name not in ("model", "input")} == {**ADDED, **fields}


def test_the_schema_is_the_text_format():
    """The user's own fields of `text` stay; strict is sent when it was set."""
    form = {"type": "json_schema", "name": "reply", "schema": SCHEMA}

    assert body("hi", schema=SCHEMA, parameters={"verbosity": "low"})["text"] == {"verbosity": "low", "format": form}
    given = body("hi", schema=SCHEMA, parameters={"text": {"format": {"type": "text"}}})
    assert given["text"] == {"format": {"type": "text"}}
    strict = model(strict=True).sent(request(schema=SCHEMA)).json()
    assert strict["text"]["format"] == {**form, "strict": True}


def test_tools_are_flat():
    """Strict is sent when it was set."""
    asked = request(specs=(ToolSpec("add", "Add.", {"type": "object"}),))
    flat = {"type": "function", "name": "add", "description": "Add.", "parameters": {"type": "object"}}

    assert model().sent(asked).json()["tools"] == [flat]
    assert model(strict=False).sent(asked).json()["tools"] == [{**flat, "strict": False}]


def refusal(message: str, **more: Any) -> Raw:
    """A complaint about a field."""
    return Raw({"error": {"message": message, "type": "invalid_request_error", **more}}, 400)


@pytest.mark.parametrize(
    "complaint",
    [
        refusal("Encrypted content is not supported with this model.", param="include"),
        refusal("Encrypted content is not supported with this model."),
        refusal("Unknown parameter: 'include'."),
    ],
)
def test_a_model_without_reasoning(complaint):
    """One that refuses the wish for encrypted reasoning is asked without, and that is remembered."""
    deltas: list[Delta] = []
    with ROW.open([complaint, ANSWER, ANSWER]) as opened:
        replies = [ask(opened.model, deltas=deltas), ask(opened.model)]

    assert ["include" in each.json() for each in opened.server.requests] == [True, False, False]
    assert "without encrypted reasoning" in replies[0].notes[0]
    assert (deltas[0].kind, replies[1].notes) == ("note", ())


@pytest.mark.parametrize("refusals", [0, 1, 2])
def test_the_best_text_format_that_the_server_takes(refusals):
    """A schema, else any JSON, else no format; what was found is remembered."""
    complaint = refusal("Unknown field", param="text.format")
    with ROW.open([*[complaint] * refusals, ANSWER, ANSWER]) as opened:
        for _ in range(2):
            ask(opened.model, request(schema=SCHEMA))

    forms = [(each.json().get("text") or {}).get("format", {}).get("type") for each in opened.server.requests]
    best = ["json_schema", "json_object", None]
    assert forms == [*best[:refusals], best[refusals], best[refusals]]


def test_a_server_that_wants_typed_messages():
    """One that takes no plain text of the assistant gets it in parts, and that is remembered."""
    history = request("hi", Message("assistant", "So."), "and?")
    complaint = refusal("Cannot determine type of 'item'")
    with ROW.open([complaint, ANSWER, ANSWER]) as opened:
        replies = [ask(opened.model, history) for _ in range(2)]

    said = [each.json()["input"][1] for each in opened.server.requests]
    typed = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]}
    assert said == [{"role": "assistant", "content": "So."}, typed, typed]
    assert (replies[0].request.json()["input"][1], replies[1].notes) == (typed, ())


def test_other_complaints_are_errors_at_once():
    """Nothing is left out for a complaint about something else."""
    complaint = refusal("The input must include text", param="input")
    with ROW.open([complaint]) as opened, pytest.raises(ModelError, match="must include"):
        ask(opened.model, request(schema=SCHEMA))
    assert len(opened.server.requests) == 1


# ── the provider's own words ─────────────────────────────────────────────────────────────────────────────────────────


def sent_back(answer: Raw, streamed: bool = False, tools: Any = (add,)) -> list[dict[str, Any]]:
    """The items between the goal and the first result, in the last request of a run."""
    with ROW.open([answer, ANSWER]) as opened:
        assert run(opened.model, tools, streamed).answer == "It is 3."
    check_rounds([each for each in opened.told()[-1] if each[0] in ("call", "result")])
    items: list[dict[str, Any]] = opened.server.requests[-1].json()["input"]
    return items[1 : next(n for n, item in enumerate(items) if item.get("type") == "function_call_output")]


@pytest.mark.parametrize("name", ["responses_tools.json", "responses_stream_tools.sse"])
def test_the_golden_replay(name):
    """The recorded items, encrypted reasoning and phase included, go back as written down, and so does the result."""
    path = WIRE / name
    expected = json.loads((WIRE / f"{path.stem}.expected.json").read_text("utf-8"))["replay_items"]
    streamed = path.suffix == ".sse"
    answer = Raw(path.read_bytes(), headers=SSE if streamed else {})
    tool = FunctionTool(lambda city: 4, "city_temp")

    assert sent_back(answer, streamed, [tool]) == expected


def test_the_golden_result():
    """The result of the recorded call goes back in the written form."""
    expected = json.loads((WIRE / "responses_tools.expected.json").read_text("utf-8"))["next_input_tool_output"]
    with ROW.open([Raw((WIRE / "responses_tools.json").read_bytes()), ANSWER]) as opened:
        run(opened.model, [FunctionTool(lambda city: 4, "city_temp")])
    assert opened.server.requests[1].json()["input"][-1] == expected


CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "add",
    "arguments": '{"a": 1,"b":2}',
    "status": "x",
}


def test_every_item_goes_back():
    """Also those that are not known: as they came, in their order."""
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "eHg=", "status": None},
        {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}},
        spoken("Let me", " see.", phase="commentary"),
        {"type": "brand_new", "deep": [1, None]},
        CALL,
    ]
    assert sent_back(response(*items)) == items


def test_only_ids_and_broken_arguments_are_changed():
    """A call whose id was there before gets the id of its result; arguments that are no object become one."""
    first, second = sent_back(response(CALL, {**CALL, "arguments": "{cut"}))

    assert first == CALL
    assert second == {**CALL, "call_id": second["call_id"], "arguments": "{}"}
    assert second["call_id"] not in ("", "c1")


def test_another_models_items_are_rebuilt():
    """Reasoning of another model is left out, and every field that only it knows; long ids are made short."""
    raw = {"output": [{"type": "reasoning", "encrypted_content": "secret"}, CALL]}
    foreign = Message("assistant", "So.", (ToolCall("c" * 80, "add"),), raw=raw, origin="responses:other")
    items = body("hi", foreign, Message("tool", "3", call_id="c" * 80))["input"]

    id = items[2]["call_id"]
    assert items[1:] == [
        {"role": "assistant", "content": "So."},
        {"type": "function_call", "call_id": id, "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": id, "output": "3"},
    ]
    assert len(id) <= 64


# ── what comes back ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_several_messages_are_paragraphs():
    """Comment and answer stand apart, shown as in the reply; the parts of one message are joined."""
    items = [spoken("First", " one."), {**spoken("Then the other."), "id": "m_2"}]
    deltas: list[Delta] = []
    with ROW.open([response(*items), response(*items)]) as opened:
        whole, streamed = ask(opened.model), ask(opened.model, deltas=deltas)

    assert whole.text == streamed.text == shown(deltas) == "First one.\n\nThen the other."


def test_reasoning_is_the_summary_or_else_the_text():
    """Open models send their reasoning as text."""
    both = {
        "type": "reasoning",
        "summary": [{"text": "short"}],
        "content": [{"type": "reasoning_text", "text": "long"}],
    }
    with ROW.open([response(both, spoken("x")), response({**both, "summary": []}, spoken("x"))]) as opened:
        assert [ask(opened.model).reasoning for _ in range(2)] == ["short", "long"]


@pytest.mark.parametrize(
    ("more", "finish"),
    [
        ({"status": "completed"}, "stop"),
        ({"status": None}, "stop"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "incomplete", "incomplete_details": None}, "length"),
    ],
)
def test_how_a_response_ends(more, finish):
    """A cut and a filter are told apart."""
    with ROW.open([response(spoken("So."), **more)]) as opened:
        assert ask(opened.model).finish == finish


def test_a_filtered_response_runs_nothing():
    """What a content filter held back is not acted on."""
    filtered = response(CALL, status="incomplete", incomplete_details={"reason": "content_filter"})
    with ROW.open([filtered]) as opened:
        assert ask(opened.model).calls == ()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_failed_response(streamed):
    """Its error counts like the status that it means: a server's fault is tried again, a refused prompt is not."""

    def failed(code: str) -> Raw:
        said = {"status": "failed", "output": [], "error": {"code": code, "message": "it broke"}}
        return stream({"type": "response.failed", "response": said}) if streamed else Raw(said)

    deltas: list[Delta] | None = [] if streamed else None
    with ROW.open([failed("server_error"), ANSWER]) as opened:
        assert "it broke" in ask(opened.model, deltas=deltas).notes[0]
    with ROW.open([failed("invalid_prompt")]) as opened, pytest.raises(ModelError, match="it broke"):
        ask(opened.model, deltas=deltas)


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued", "in_progress"])
def test_a_response_that_is_none(status):
    """One that failed without a word, or is still to come, is an error and not an empty answer."""
    with ROW.open([response(status=status)]) as opened, pytest.raises(ModelError, match=status):
        ask(opened.model)


def test_events_that_come_twice():
    """A repeated event is shown once, as its sequence number tells."""
    pieces = [piece for piece in responses_answer(Say("So it is."), True).pieces or () for _ in range(2)]
    deltas: list[Delta] = []
    with ROW.open([Raw(pieces=pieces, headers=SSE)]) as opened:
        assert ask(opened.model, deltas=deltas).text == shown(deltas) == "So it is."


@pytest.mark.parametrize("done", [True, False])
def test_a_last_event_without_output(done):
    """The items that came before are taken, else the text that was shown."""
    item = spoken("So.")
    events: list[Any] = [{"type": "response.output_text.delta", "delta": "So."}]
    if done:
        events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": {"status": "completed", "output": []}})
    with ROW.open([stream(*events)]) as opened:
        reply = ask(opened.model, deltas=[])

    assert reply.text == "So."
    assert done == (reply.raw == {"output": [item]})


def test_a_stream_needs_its_last_event():
    """Without it the call is made again, even when every item is there."""
    pieces = list(responses_answer(ANSWER, True).pieces or ())
    with ROW.open([Raw(pieces=pieces[:-1], headers=SSE), ANSWER]) as opened:
        assert "connection failed" in ask(opened.model, deltas=[]).notes[0]


def test_the_cost_that_the_provider_says():
    """It is taken as it is; without one the cost is unknown."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    with ROW.open([response(spoken("x"), usage={**usage, "cost": 0.25}), response(spoken("x"), usage=usage)]) as opened:
        assert [ask(opened.model).cost for _ in range(2)] == [0.25, None]


def test_a_call_written_as_text():
    """The whole text is one call of a known tool: it is run, and the step says so."""
    written = Say('<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>')
    with ROW.open([written, ANSWER]) as opened:
        last = run(opened.model)
    with ROW.open([written], recover_calls=False) as opened:
        assert run(opened.model).answer == written.text

    assert (last.answer, last.steps[0].notes) == ("It is 3.", ("recovered from text",))
