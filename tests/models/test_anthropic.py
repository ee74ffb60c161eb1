"""Anthropic Messages: what is sent, what goes back unchanged, and turns that the provider pauses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes import FunctionTool, add
from http_fakes import KEY, SSE, Waits, request, shown
from test_contract import ANSWER, HTTP, SUM, WIRE, Say, anthropic_answer, ask, check_rounds, run, stream

from agentnb.core.messages import Message, ToolCall, user
from agentnb.core.model import Delta, ModelReply, ModelRequest, Prompt
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.anthropic_turn import GIVEN_UP, PAUSED
from agentnb.models.server import Raw

ROW = next(row for row in HTTP if row.name == "anthropic")
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
CALL = Message("assistant", None, (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "add")))
RESULTS = (Message("tool", "1", call_id="c1"), Message("tool", "", call_id="c2"))


def model(base_url: str = "http://127.0.0.1:1", **options: Any) -> AnthropicModel:
    """A model that is not asked."""
    return AnthropicModel("m", base_url, KEY, **options)


def body(*messages: Message | str, **more: Any) -> dict[str, Any]:
    """What would be sent."""
    return model().sent(request(*messages, **more)).json()


def texts(*said: str) -> list[dict[str, Any]]:
    """Text blocks."""
    return [{"type": "text", "text": text} for text in said]


def message(*blocks: dict[str, Any], stop: str = "end_turn", **more: Any) -> Raw:
    """A whole answer with these blocks."""
    return Raw({"type": "message", "role": "assistant", "content": list(blocks), "stop_reason": stop, **more})


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def golden_request() -> ModelRequest:
    """The written-down conversation."""
    told = json.loads((WIRE / "requests.json").read_text("utf-8"))["conversation"]
    messages: list[Message] = []
    for turn in told["turns"]:
        made = tuple(
            ToolCall(call["id"], call["name"], json.dumps(call["arguments"], separators=(",", ":")))
            for call in turn.get("tool_calls", ())
        )
        if turn["role"] == "tool":
            messages.append(Message("tool", turn["content"], call_id=turn["id"], failed=turn["is_error"]))
        else:
            messages.append(Message(turn["role"], turn["text"], made))
    spec = ToolSpec(told["tool"]["name"], told["tool"]["description"], told["tool"]["parameters"])
    parameters = {"tool_choice": "auto", "max_tokens": told["max_tokens"]}
    return ModelRequest((Message("system", told["system"]),), Prompt(messages), len(messages), (spec,), parameters)


def test_the_golden_request():
    """One conversation gives the body that is written down for this dialect."""
    expected = json.loads((WIRE / "requests.json").read_text("utf-8"))["anthropic"]["body"]

    assert AnthropicModel("M", "http://127.0.0.1:1").sent(golden_request()).json() == expected


def test_results_and_the_text_after_them_share_a_turn():
    """All results of one message come first in one user turn, whatever is said next."""
    turns = body("hi", CALL, *RESULTS, "and?", "well?")["messages"]

    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block.get("content", block.get("text")) for block in turns[2]["content"]] == [
        "1",
        "(empty)",
        "and?",
        "well?",
    ]


def test_a_failed_call_is_told_as_such():
    """The result of a tool that raised is marked as an error; any other is not."""

    def fail() -> None:
        raise ValueError("no")

    with ROW.open([Say(calls=(("c1", "fail", {}), ("c2", "add", {"a": 1, "b": 2}))), ANSWER]) as opened:
        run(opened.model, [fail, add])
    results = opened.server.requests[1].json()["messages"][2]["content"]

    assert [block.get("is_error") for block in results] == [True, None]


def test_turns_alternate_however_long_the_run():
    """The join of the fragments is the JSON of the turns, at every length."""
    messages: list[Message] = [user("go")]
    for number in range(40):
        messages += [
            Message("assistant", None, (ToolCall(f"c{number}", "add"),)),
            Message("tool", "3", call_id=f"c{number}"),
        ]
        sent = body(*messages)["messages"]
        assert len(sent) == 3 + 2 * number
        check_rounds(ROW.told({"messages": sent}))


def test_empty_texts_are_left_out():
    """The API refuses a text block without text; a message that says nothing is no turn."""
    turns = body("hi", Message("assistant", ""), Message("assistant", " \n"), "", "again")["messages"]

    assert turns == [{"role": "user", "content": texts("hi", "again")}]


def test_the_system_prompt_stands_apart():
    """Wherever system messages are: one as text, several as blocks, an empty one not at all."""
    system = Message("system", "Be brief.")
    assert body(system, "hi")["system"] == "Be brief."
    assert body(system, "hi", Message("system", "Really."))["system"] == texts("Be brief.", "Really.")
    assert "system" not in body(Message("system", ""), "hi")
    assert body(system, "hi")["messages"] == [{"role": "user", "content": texts("hi")}]


@pytest.mark.parametrize(
    ("parameters", "fields"),
    [
        ({"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
        ({"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"tool_choice": {"type": "tool", "name": "f"}},
        ),
        ({"tool_choice": {"type": "tool", "name": "f"}}, {"tool_choice": {"type": "tool", "name": "f"}}),
        ({"parallel_tool_calls": False}, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        ({"max_completion_tokens": 7}, {"max_tokens": 7}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"reasoning_effort": "low"}, {"output_config": {"effort": "low"}}),
        ({"cache_control": {"type": "ephemeral"}}, {"cache_control": {"type": "ephemeral"}}),
        ({"thinking": {"type": "adaptive"}, "temperature": 0}, {"thinking": {"type": "adaptive"}, "temperature": 0}),
    ],
)
def test_parameters_in_this_dialects_form(parameters, fields):
    """Words of chat completions are translated, anything else goes as it is; nothing else is sent."""
    sent = body("hi", parameters=parameters)

    assert {name: sent[name] for name in sent if name not in ("model", "messages")} == {"max_tokens": 8192, **fields}


def test_the_schema_stands_beside_the_effort():
    """The reply's schema goes into output_config, where the user's own fields stay."""
    sent = body("hi", schema=SCHEMA, parameters={"reasoning_effort": "high"})
    given = body("hi", schema=SCHEMA, parameters={"output_config": {"format": {"type": "x"}}})

    assert sent["output_config"] == {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}}
    assert given["output_config"] == {"format": {"type": "x"}}


def test_strict_is_sent_when_set():
    """On each tool; unset it is not there."""
    asked = request(specs=(ToolSpec("add", "Add."),))
    assert "strict" not in model().sent(asked).json()["tools"][0]
    assert model(strict=True).sent(asked).json()["tools"][0]["strict"] is True


def test_a_server_without_schemas():
    """One that refuses the format is asked without, and that is remembered."""
    refused = Raw(
        {"error": {"type": "invalid_request_error", "message": "output_config: Extra inputs are not permitted"}}, 400
    )
    with ROW.open([refused, ANSWER, ANSWER]) as opened:
        replies = [ask(opened.model, request(schema=SCHEMA)) for _ in range(2)]

    assert ["output_config" in each.json() for each in opened.server.requests] == [True, False, False]
    assert "without the schema" in replies[0].notes[0]
    assert replies[1].notes == ()


def test_headers():
    """The key goes in a header of its own, beside the version of the API."""
    with ROW.open([ANSWER, ANSWER], version="2026-10-21", headers={"anthropic-beta": "x"}) as opened:
        ask(opened.model)
    sent = opened.server.requests[0].headers

    assert (sent["x-api-key"], sent["anthropic-version"], sent["anthropic-beta"]) == (KEY, "2026-10-21", "x")


@pytest.mark.parametrize("written", ["", "/", "/v1", "/v1/", "/v1/messages"])
def test_any_form_of_the_base_url(written):
    """With or without the version path, pasted whole, with a slash; a query stays behind it."""
    assert str(model(f"http://h.test{written}").transport.endpoint.url) == "http://h.test/v1/messages"
    url = str(model(f"http://h.test/anthropic{written}?k=1").transport.endpoint.url)
    assert url == "http://h.test/anthropic/v1/messages?k=1"


def test_a_long_reply_is_always_streamed():
    """In one piece it could take longer than servers allow; the reply is the same."""
    with ROW.open([ANSWER, ANSWER]) as opened:
        long = ask(opened.model, request(parameters={"max_tokens": 30_000}))
        short = ask(opened.model, request(parameters={"max_tokens": 20_000}))

    assert [bool(each.json().get("stream")) for each in opened.server.requests] == [True, False]
    assert long == short


# ── the provider's own words ─────────────────────────────────────────────────────────────────────────────────────────


def sent_back(*answers: Raw, streamed: bool = False, tools: Any = (add,)) -> list[dict[str, Any]]:
    """The blocks of the first assistant turn in the last request of a run."""
    with ROW.open([*answers, ANSWER]) as opened:
        assert run(opened.model, tools, streamed).answer == "It is 3."
    check_rounds(opened.told()[-1])
    blocks: list[dict[str, Any]] = opened.server.requests[-1].json()["messages"][1]["content"]
    return blocks


@pytest.mark.parametrize("name", ["anthropic_thinking_tools.json", "anthropic_stream_thinking_tools.sse"])
def test_the_golden_replay(name):
    """The recorded blocks, thinking with its signature included, go back as written down."""
    path = WIRE / name
    expected = json.loads((WIRE / f"{path.stem}.expected.json").read_text("utf-8"))["replay_content"]
    streamed = path.suffix == ".sse"
    answer = Raw(path.read_bytes(), headers=SSE if streamed else {})
    tools = [FunctionTool(lambda city: 4, "city_temp"), FunctionTool(lambda: "noon", "now")]

    assert sent_back(answer, streamed=streamed, tools=tools) == expected


BLOCKS = (
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "eHg="},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
    {"type": "text", "text": "So.", "citations": [{"type": "char_location", "cited_text": "x"}]},
    {"type": "brand_new", "deep": {"er": [1, None]}},
    {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}, "caller": {"type": "direct"}},
)


def test_every_block_goes_back():
    """Also those that are not known: as they came, in their order."""
    assert sent_back(message(*BLOCKS, stop="tool_use")) == list(BLOCKS)


def test_streamed_blocks_go_back_alike():
    """Signatures, citations and the inputs of the server's own tools are put together from the pieces."""
    events: list[Any] = [{"type": "message_start", "message": {"content": []}}]
    pieces: dict[int, list[dict[str, Any]]] = {
        0: [{"type": "signature_delta", "signature": "c2ln"}],
        2: [{"type": "input_json_delta", "partial_json": part} for part in ("", '{"query":', ' "x"}')],
        4: [{"type": "text_delta", "text": "So."}, {"type": "citations_delta", "citation": BLOCKS[4]["citations"][0]}],
        6: [{"type": "input_json_delta", "partial_json": part} for part in ('{"a": 1, ', '"b": 2}')],
    }
    empty = {0: {"signature": ""}, 2: {"input": {}}, 4: {"text": "", "citations": None}, 6: {"input": {}}}
    for index, block in enumerate(BLOCKS):
        begun = {**block, **empty.get(index, {})}
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in pieces.get(index, [])]
    events += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]

    assert sent_back(stream(*events), streamed=True) == list(BLOCKS)


def test_only_ids_and_broken_arguments_are_changed():
    """A call whose id was there before gets the id of its result; arguments that are no object become one."""
    calls = [
        {"type": "tool_use", "id": "t", "name": "add", "input": input, "x": 1} for input in ({"a": 1, "b": 2}, "{cut")
    ]
    first, second = sent_back(message(*calls, stop="tool_use"))

    assert first == calls[0]
    assert second == {**calls[1], "id": second["id"], "input": {}}
    assert second["id"] not in ("", "t")


def test_an_empty_text_block_does_not_go_back():
    """Servers send one now and then, and refuse it."""
    call = {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1, "b": 2}}
    assert sent_back(message({"type": "text", "text": ""}, call, stop="tool_use")) == [call]


def test_another_models_blocks_are_rebuilt():
    """What another model of the same provider thought is left out, and fields that only it knows."""
    own = {"role": "assistant", "content": list(BLOCKS)}
    foreign = Message("assistant", "So.", (ToolCall("t.1", "add.it", '{"a": 1}'),), raw=own, origin="anthropic:other")
    turns = body("hi", foreign, Message("tool", "3", call_id="t.1"))["messages"]

    call = turns[1]["content"][1]
    assert turns[1]["content"][:1] == texts("So.")
    assert call == {"type": "tool_use", "id": call["id"], "name": "add_it", "input": {"a": 1}}
    assert turns[2]["content"][0]["tool_use_id"] == call["id"]


# ── pauses ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
USAGE = {"input_tokens": 5, "output_tokens": 3}


def paused(text: str, streamed: bool = False) -> Raw:
    """An answer that the provider paused after this text."""
    if not streamed:
        return message(*texts(text), SEARCH, stop="pause_turn", usage=USAGE)
    pieces = list(anthropic_answer(Say(text), True).pieces or ())
    end = {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": USAGE}
    return Raw(pieces=[*pieces[:-2], *(stream(end, {"type": "message_stop"}).pieces or ())], headers=SSE)


def test_a_paused_turn_goes_on():
    """Its blocks are sent back as they are, and the reply is the whole turn, with the tokens of both requests."""
    with ROW.open([paused("Let me look. "), SUM]) as opened:
        reply = ask(opened.model)

    first, second = (received.json() for received in opened.server.requests)
    turn = {"role": "assistant", "content": [*texts("Let me look. "), SEARCH]}
    assert second["messages"] == [*first["messages"], turn]
    assert (reply.text, len(reply.calls), reply.finish) == ("Let me look. ", 1, "tool_calls")
    assert (reply.usage.input, reply.usage.output, reply.usage.complete) == (10, 6, True)
    assert reply.raw["content"][:2] == turn["content"]
    assert (reply.notes, reply.request.json()) == ((PAUSED,), second)


def test_a_turn_that_is_paused_for_ever():
    """It is sent back a few times, then taken as cut off."""
    with ROW.open([paused("more ")] * 9) as opened:
        reply = ask(opened.model)

    assert (reply.finish, reply.text, reply.notes[-1]) == ("length", "more " * 9, GIVEN_UP)
    assert len(opened.server.requests) == 9


def test_a_retry_inside_a_paused_turn():
    """What the earlier answer said is shown again, since a restart drops all that stood there."""
    deltas: list[Delta] = []
    cut = Raw(pieces=(anthropic_answer(Say("It was"), True).pieces or ())[:-3], headers=SSE, cut=True)
    with ROW.open([paused("Look: ", True), cut, ANSWER], Waits()) as opened:
        reply = ask(opened.model, deltas=deltas)

    assert shown(deltas) == reply.text == "Look: It is 3."
    assert len(reply.notes) == 2


def test_a_paused_turn_that_fails():
    """The error holds the text and the notes of the whole turn."""
    with (
        ROW.open([paused("Look: "), Raw({"error": {"message": "no"}}, 400)]) as opened,
        pytest.raises(ModelError) as error,
    ):
        ask(opened.model)

    assert (error.value.partial, error.value.notes) == ("Look: ", (PAUSED,))


# ── endings and numbers ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "refusal"),
        ("new", "stop"),
        (None, "stop"),
    ],
)
def test_how_a_text_ends(stop, finish):
    """The provider's word, as far as it is known."""
    with ROW.open([message(*texts("So."), stop=stop)]) as opened:
        assert ask(opened.model).finish == finish


def test_calls_count_more_than_the_word():
    """A message with calls wants them run, whatever the stop reason; a refusal does not."""
    call = {"type": "tool_use", "id": "t", "name": "add", "input": {}}
    with ROW.open([message(call, stop="end_turn"), message(call, stop="refusal")]) as opened:
        first, second = ask(opened.model), ask(opened.model)

    assert (first.finish, len(first.calls)) == ("tool_calls", 1)
    assert (second.finish, second.calls) == ("refusal", ())


def test_the_end_of_the_context_window():
    """A reply that filled it is an error of its own kind, with the text so far; it is not tried again."""
    full = message(*texts("So"), stop="model_context_window_exceeded")
    with ROW.open([full]) as opened, pytest.raises(ModelError) as error:
        ask(opened.model)

    assert (error.value.kind, error.value.partial, error.value.retryable) == ("context_too_long", "So", False)


def usage_of(*said: Any) -> Any:
    """The usage of a streamed reply: what message_start said, then each message_delta."""
    start = {"type": "message_start", "message": {"content": [], "usage": said[0]}}
    more = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage} for usage in said[1:]]
    with ROW.open([stream(start, *more, {"type": "message_stop"})]) as opened:
        return ask(opened.model, deltas=[]).usage


def test_streamed_usage_is_cumulative():
    """A later number replaces the earlier one; what is not said again keeps its value."""
    start = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    usage = usage_of(start, {"output_tokens": 5}, {"output_tokens": 9, "input_tokens": None})

    assert (usage.input, usage.output, usage.cached_input, usage.cache_write, usage.reasoning) == (130, 9, 100, 20, 0)


def test_what_is_not_said_is_unknown():
    """Half a usage stays half; none is none."""
    half = usage_of(None, {"output_tokens": 9})
    assert (half.input, half.output, half.total) == (None, 9, 9)
    assert usage_of(None, None) is None
    assert usage_of({"input_tokens": float("inf")}, {"output_tokens": -1}) is None


def test_overload_in_the_middle_of_a_stream():
    """The error event counts like its status: the text is taken back, and the call is made again."""
    deltas: list[Delta] = []
    broken = Raw((WIRE / "anthropic_stream_overloaded.sse").read_bytes(), headers=SSE)
    with ROW.open([broken, ANSWER]) as opened:
        reply = ask(opened.model, deltas=deltas)

    assert shown(deltas) == reply.text == "It is 3."
    assert "529" in reply.notes[0]


def test_a_call_written_as_text():
    """The whole text is one call of a known tool: it is run, and the step says so; the text does not go back as such."""
    written = Say('{"name": "add", "arguments": {"a": 1, "b": 2}}')
    with ROW.open([written, ANSWER]) as opened:
        last = run(opened.model)

    assert (last.answer, last.steps[0].notes) == ("It is 3.", ("recovered from text",))
    check_rounds(opened.told()[1])


def test_a_reply_says_who_answered():
    """The provider's name for the model, as it came."""
    with ROW.open([message(*texts("x"), model="claude-nb-1")]) as opened:
        reply: ModelReply = ask(opened.model)
    assert (reply.answered_as, reply.model) == ("claude-nb-1", opened.model.name)
