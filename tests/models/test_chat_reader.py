"""What a server's bytes mean: the golden answers, whole and streamed, cut everywhere."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from http_fakes import events, model_at, request
from hypothesis import given
from hypothesis import strategies as st

from agentnb.core.model import Delta, ModelReply
from agentnb.errors import ModelError
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.chat_reader import StreamReader, WholeReader
from agentnb.models.profiles import PROFILES

WIRE = Path(__file__).parents[1] / "fixtures" / "wire"
ANSWERS = sorted(path for path in WIRE.glob("chat_*") if not path.name.endswith(".expected.json"))
KINDS = {"truncated_stream": "connection"}
MODEL = model_at("http://127.0.0.1:1/v1")
FIELDS = ("input", "output", "cached_input", "cache_write", "reasoning")


def read(data: bytes, *cuts: int, streamed: bool, deltas: list[Delta] | None = None, model: Any = MODEL) -> ModelReply:
    """The reply in these bytes, fed in pieces."""
    told = [] if deltas is None else deltas
    reader = StreamReader("POST x", told.append, True) if streamed else WholeReader("POST x")
    reader.start("text/event-stream" if streamed else "application/json")
    places = [0, *cuts, len(data)]
    for at, to in pairwise(places):
        reader.feed(data[at:to])
    return model._read(reader.finish(), request())


def stream(*deltas: Any, finish: str | None = "stop", **last: Any) -> bytes:
    """An event stream of these deltas."""
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **last})
    return events(*map(json.dumps, chunks), "[DONE]")


def whole(message: Any, finish: str | None = "stop", **more: Any) -> bytes:
    """A whole answer with this message."""
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}).encode()


def piece(arguments: str | None = None, name: str | None = None, **more: Any) -> dict[str, Any]:
    """A delta with one piece of a tool call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"tool_calls": [{**more, "function": function}]}


def called(reply: ModelReply) -> list[tuple[str, str]]:
    """Name and arguments of each call, after checking that the ids are there and differ."""
    ids = [call.id for call in reply.calls]
    assert "" not in ids
    assert len(set(ids)) == len(ids)
    return [(call.name, call.arguments) for call in reply.calls]


@pytest.mark.slow
@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.name)
def test_golden_answers(path):
    """Each recorded answer is read as written down beside it, in one piece, byte by byte and cut in two anywhere."""
    expected = json.loads((WIRE / f"{path.stem}.expected.json").read_text("utf-8"))
    data, streamed = path.read_bytes(), path.suffix == ".sse"
    cuts = [(), tuple(range(1, len(data))), *((at,) for at in range(1, len(data), 1 if streamed else 97))]
    for cut in cuts:
        if "error" in expected:
            check_error(expected, data, cut, streamed)
        else:
            check_reply(expected, read(data, *cut, streamed=streamed))


def check_reply(expected: dict[str, Any], reply: ModelReply) -> None:
    """Every part of the reply is the expected one."""
    usage = None if reply.usage is None else {name: getattr(reply.usage, name) for name in FIELDS}
    found = {name: getattr(reply, name) for name in ("text", "reasoning", "refusal", "finish")}
    assert {**found, "usage": usage} == {name: expected[name] for name in (*found, "usage")}
    assert reply.cost == expected.get("cost")
    assert len(called(reply)) == len(expected["tool_calls"])
    for call, wanted in zip(reply.calls, expected["tool_calls"], strict=True):
        assert wanted["id"] in ("*", call.id)
        assert call.name == wanted["name"]
        if wanted["arguments"] is None:
            assert call.arguments == wanted["raw"]
        else:
            assert json.loads(call.arguments or "{}") == wanted["arguments"]


def check_error(expected: dict[str, Any], data: bytes, cut: tuple[int, ...], streamed: bool) -> None:
    """The answer is an error of the expected kind, and the text before it is kept."""
    deltas: list[Delta] = []
    with pytest.raises(ModelError) as error:
        read(data, *cut, streamed=streamed, deltas=deltas)
    wanted = expected["error"]
    kind = KINDS.get(wanted["kind"], wanted["kind"])
    assert (error.value.kind, error.value.retryable, error.value.status) == (
        kind,
        wanted["retryable"],
        wanted["status"],
    )
    assert wanted.get("message", "") in str(error.value)
    assert "".join(delta.text for delta in deltas) == expected.get("partial_text", "")


CALL = {"id": "t1", "type": "function", "function": {"name": "get_temp", "arguments": '{"city": "Rome"}'}}
TEXTS = st.text(max_size=12)
MESSAGES = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.none() | TEXTS},
    optional={
        "reasoning_content": TEXTS,
        "refusal": st.none() | TEXTS,
        "tool_calls": st.lists(st.fixed_dictionaries({"id": st.uuids().map(str), "name": TEXTS, "arguments": TEXTS})),
    },
)


@pytest.mark.slow
@given(MESSAGES, st.sampled_from(["stop", "length", "tool_calls", "content_filter", "eos"]), st.data())
def test_whole_and_streamed_answers_are_read_alike(message, finish, data):
    """The same content gives the same reply, whatever the pieces and the cuts of the stream."""
    calls = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in message.pop("tool_calls", ())
    ]
    usage = {"prompt_tokens": 5, "completion_tokens": 3}
    deltas: list[Any] = [{"role": "assistant"}, {"content": None if message["content"] is None else ""}]
    for key, value in message.items():
        at = data.draw(st.integers(0, 4))
        if key != "role" and value:
            deltas += [{key: value[:at]}, {key: value[at:]}]
    for index, call in enumerate(calls):
        at, text = data.draw(st.integers(0, 4)), call["function"]["arguments"]
        begin = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": text[:at]}}
        deltas += [{"tool_calls": [begin]}, {"tool_calls": [{"index": index, "function": {"arguments": text[at:]}}]}]
    streamed = stream(*deltas, finish=finish, usage=usage)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(streamed)), max_size=5)))

    full = {**message, "tool_calls": calls} if calls else message
    assert read(streamed, *cuts, streamed=True) == read(whole(full, finish, usage=usage), streamed=False)


def test_calls_without_any_index():
    """A piece with a name begins a call, one without goes on with the last; all is run, none is glued."""
    data = stream({"role": "assistant"}, piece('{"city":', "get_temp", id="t1"), piece(' "Rome"}'))
    assert called(read(data, streamed=True)) == [("get_temp", '{"city": "Rome"}')]


@pytest.mark.parametrize("ids", [("t1", "t2", "t3"), ("", "", ""), (None, None, None)])
def test_whole_calls_that_share_an_index(ids):
    """Calls that all claim index 0 stay apart, with ids of their own or without any."""
    texts = ['{"city":"Rome"}', '{"city":"Oslo"}', '{"city":"Bern"}']
    pieces = [piece(text, "get_temp", index=0, id=id) for text, id in zip(texts, ids, strict=True)]

    assert called(read(stream(*pieces), streamed=True)) == [("get_temp", text) for text in texts]


def test_the_index_decides_when_ids_are_missing():
    """One call for each index; the ids are made up and differ."""
    data = stream(
        piece('{"a"', "f", index=0), piece("{}", "g", index=1), piece(": 1}", index=0), piece("", "", index=1, id="")
    )
    assert called(read(data, streamed=True)) == [("f", '{"a": 1}'), ("g", "{}")]


def test_equal_ids_with_different_indexes_are_different_calls():
    """A server that gives every call the same id has still made several."""
    data = stream(*(piece(f'{{"n":{n}}}', "f", index=n, id="t1") for n in range(3)))

    assert called(read(data, streamed=True)) == [("f", '{"n":0}'), ("f", '{"n":1}'), ("f", '{"n":2}')]


@pytest.mark.parametrize("ids", [("t1", "t1", "t1"), (None, None, None), ("", "x", "")])
def test_bad_ids_of_a_whole_answer(ids):
    """Ids that are missing or equal are replaced; one that was unique stays."""
    calls = [{**CALL, "id": id} for id in ids]
    reply = read(whole({"content": None, "tool_calls": calls}), streamed=False)

    assert len(called(reply)) == 3
    assert "x" not in ids or reply.calls[1].id == "x"


def test_chunks_of_every_shape():
    """Frames without choices, empty deltas and null content are skipped; a later usage replaces an earlier one."""
    chunks = [
        {"choices": [], "prompt_filter_results": []},
        {"choices": [{"delta": {"role": "assistant"}}]},
        {"choices": [{"delta": {}}]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": None}}]},
        {"choices": [{"delta": {"content": "Hel"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
        {"choices": [{"delta": {"content": "lo"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 3}},
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}},
        {"choices": None},
    ]
    reply = read(events('""', *map(json.dumps, chunks), "[DONE]"), streamed=True)

    assert (reply.text, reply.usage.input, reply.usage.output) == ("Hello", 5, 3)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": None, "completion_tokens": 3}, (None, 3)),
        ({"prompt_tokens": float("nan"), "completion_tokens": 3}, (None, 3)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (0, 0)),
        ("many", None),
    ],
)
def test_unknown_usage_stays_unknown(usage, expected):
    """What the server did not say is None, not 0."""
    reply = read(whole({"content": "x"}, usage=usage), streamed=False)

    assert (reply.usage and (reply.usage.input, reply.usage.output)) == expected
    if expected and expected[0] is None:
        assert reply.usage.cached_input is None


@pytest.mark.parametrize("place", ["choice", "groq"])
def test_usage_in_odd_places(place):
    """Some servers put usage into the last choice, or into a field of their own."""
    usage = {"prompt_tokens": 4, "completion_tokens": 2}
    last = {"index": 0, "delta": {}, "finish_reason": "stop", **({"usage": usage} if place == "choice" else {})}
    extra = {"x_groq": {"usage": usage}} if place == "groq" else {}
    data = events(
        json.dumps({"choices": [{"delta": {"content": "x"}}]}), json.dumps({"choices": [last], **extra}), "[DONE]"
    )

    assert read(data, streamed=True).usage.total == 6


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        (None, "", ""),
        ("", "", ""),
        ([{"type": "text", "text": "4"}, {"type": "text", "text": "2"}], "42", ""),
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "6*7"}]}, {"type": "text", "text": "42"}],
            "42",
            "6*7",
        ),
        ("<think>6*7</think>42", "42", "6*7"),
        ("a <think>b</think> c", "a <think>b</think> c", ""),
        ("half an emoji \ud83d", "half an emoji \ufffd", ""),
    ],
)
def test_contents_of_every_form(content, text, reasoning):
    """Null, empty text, parts and think tags; whole and streamed."""
    deltas: list[Delta] = []
    reply = read(whole({"content": content}), streamed=False)
    streamed = read(stream({"content": content}), streamed=True, deltas=deltas)

    assert reply == streamed
    assert (reply.text, reply.reasoning) == (text, reasoning)
    assert "".join(delta.text for delta in deltas if delta.kind == "text") == text


def test_an_emoji_cut_between_two_deltas_is_whole():
    """Two halves of a surrogate pair in two pieces make one character again."""
    data = events(
        '{"choices":[{"delta":{"content":"\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude00"}}]}', "[DONE]"
    )

    assert read(data, streamed=True).text == "😀"


@pytest.mark.slow
@given(st.data())
def test_think_tags_may_be_cut_anywhere(data):
    """What is shown while it arrives is split like the whole, wherever the tags are cut."""
    text = "\n<think>\nShort <b>question.</think>\n\nFour </think> it is."
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    places = [0, *cuts, len(text)]
    deltas: list[Delta] = []
    pieces = [{"content": text[at:to]} for at, to in pairwise(places)]
    reply = read(stream(*pieces), streamed=True, deltas=deltas)

    assert (reply.reasoning, reply.text) == ("Short <b>question.", "Four </think> it is.")
    assert "".join(delta.text for delta in deltas if delta.kind == "text") == reply.text
    assert "".join(delta.text for delta in deltas if delta.kind == "reasoning").strip() == reply.reasoning


def test_think_tags_are_left_alone_where_the_profile_says_so():
    """A provider with a field for reasoning writes tags only when it means them."""
    model = ChatCompletionsModel("m", "http://127.0.0.1:1/v1", "k", PROFILES["openai"])

    assert read(whole({"content": "<think>a</think>b"}), streamed=False, model=model).text == "<think>a</think>b"


@pytest.mark.parametrize("finish", ["stop", None, "tool_calls", "function_call", "eos", "whatever"])
def test_the_message_decides_not_the_finish_reason(finish):
    """A reply with calls wants them run; one without has none to run, whatever the server calls it."""
    with_calls = whole({"content": None, "tool_calls": [CALL]}, finish)
    assert read(with_calls, streamed=False).finish == "tool_calls"
    assert read(stream({"tool_calls": [CALL]}, finish=finish), streamed=True).finish == "tool_calls"
    assert read(whole({"content": "", "tool_calls": []}, finish), streamed=False).finish == "stop"


@pytest.mark.parametrize(
    ("said", "finish"), [("length", "length"), ("model_length", "length"), ("sensitive", "content_filter")]
)
def test_cut_and_filter_are_taken_from_the_server(said, finish):
    """Of a filtered reply nothing is run; the calls of a cut one are kept, for the planner to refuse."""
    reply = read(whole({"content": None, "tool_calls": [CALL]}, said), streamed=False)

    assert (reply.finish, len(reply.calls)) == (finish, 1 if finish == "length" else 0)


@pytest.mark.parametrize("finish", ["error", "network_error"])
def test_a_finish_reason_may_be_an_error(finish):
    """A reply that ended with an error is a failed call, and may be tried again."""
    for data, streamed in ((whole({"content": "x"}, finish), False), (stream({"content": "x"}, finish=finish), True)):
        with pytest.raises(ModelError) as error:
            read(data, streamed=streamed)
        assert (error.value.kind, error.value.retryable) == ("server", True)


@pytest.mark.parametrize(
    "body",
    [
        '{"choices":[]}',
        '{"choices":null}',
        '{"choices":[{"index":0}]}',
        "[1,2]",
        "null",
        '{"choices":[{"message":null}]}',
    ],
)
def test_answers_without_a_message(body):
    """No choices, no message or a list: an error that shows the body, not a KeyError."""
    with pytest.raises(ModelError) as error:
        read(body.encode(), streamed=False)
    assert error.value.kind == "reply"
    assert body.replace('":', '": ').replace(",", ", ")[:40] in str(error.value)


def test_a_stream_without_choices():
    """The same for a stream that ends in order and said nothing."""
    with pytest.raises(ModelError, match="no choices"):
        read(events('{"choices":[]}', "[DONE]"), streamed=True)


def test_an_event_that_is_no_json_is_named():
    """It is an error that shows the payload, shortened."""
    with pytest.raises(ModelError, match="upstream gone wrong") as error:
        read(events("upstream gone wrong " + "x" * 1000), streamed=True)
    assert len(str(error.value)) < 500


def test_events_without_blank_lines_between():
    """A server that forgets the blank lines is understood."""
    lines = stream({"content": "a"}, {"content": "b"}).replace(b"\n\n", b"\n")

    assert read(lines, streamed=True).text == "ab"


def test_a_stream_without_the_end_mark():
    """With a finish reason it is complete; without, it was cut, whatever stands before."""
    complete = stream({"content": "x"}).replace(b"data: [DONE]\n\n", b"")
    assert read(complete, streamed=True).text == "x"

    for cut in (
        events('{"choices":[{"delta":{"content":"x"}}]}'),
        events('{"choices":[{"delta":{"content":"x"}}]}') + b"data: {",
    ):
        with pytest.raises(ModelError) as error:
            read(cut, streamed=True)
        assert (error.value.kind, error.value.retryable) == ("connection", True)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "worker is full", "code": 502}, "server", True),
        ({"message": "worker is full"}, "server", True),
        ({"type": "overloaded_error", "message": "Overloaded"}, "server", True),
        ({"message": "no", "code": 400}, "bad_request", False),
        ({"message": "too long", "code": "context_length_exceeded"}, "context_too_long", False),
        ({"message": "something odd"}, "server", False),
        ("worker is full", "server", True),
    ],
)
def test_an_error_inside_a_good_answer(error, kind, retryable):
    """An error object in a 200, whole or as an event, counts like the status that it names; text and code are kept."""
    body = json.dumps({"error": error, "choices": []})
    for data, streamed in ((body.encode(), False), (events(body), True)):
        with pytest.raises(ModelError) as caught:
            read(data, streamed=streamed)
        assert (caught.value.kind, caught.value.retryable) == (kind, retryable)
        assert (error if isinstance(error, str) else error["message"]) in str(caught.value)


def test_a_stream_that_comes_as_one_body_and_the_other_way_round():
    """A server that ignores `stream`, or streams unasked, is understood."""
    deltas: list[Delta] = []
    reader = StreamReader("POST x", deltas.append)
    reader.start("application/json; charset=utf-8")
    reader.feed(whole({"content": "x", "tool_calls": [CALL]}))
    assert reader.finish().message["content"] == "x"
    assert deltas == [Delta("call", "get_temp"), Delta("text", "x")]

    unasked = WholeReader("POST x")
    unasked.start("text/event-stream")
    unasked.feed(stream({"content": "y"}))
    assert unasked.finish().message["content"] == "y"


def test_pieces_are_told_in_order():
    """Reasoning, text and the names of calls are reported while they arrive."""
    deltas: list[Delta] = []
    read(
        stream({"reasoning": "hm", "content": ""}, {"content": "so"}, piece("", "f", index=0), piece("{}", index=0)),
        streamed=True,
        deltas=deltas,
    )
    assert deltas == [Delta("reasoning", "hm"), Delta("text", "so"), Delta("call", "f")]


WORDS = [
    "choices",
    "message",
    "delta",
    "content",
    "tool_calls",
    "function",
    "arguments",
    "name",
    "id",
    "index",
    "usage",
]
WORDS += [
    "finish_reason",
    "reasoning",
    "reasoning_details",
    "text",
    "type",
    "thinking",
    "error",
    "model",
    "x_groq",
    "code",
]
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(["", "text", "thinking", "{}"])
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=6))
def test_odd_messages_never_break_the_reader(message):
    """Whatever a message holds: a reply or a ModelError, never an error of Python."""
    for data, streamed in ((whole(message), False), (stream(message, message), True)):
        with suppress(ModelError):
            read(data, streamed=streamed)


@pytest.mark.slow
@given(ANYTHING)
def test_odd_bodies_never_break_the_reader(body):
    """The same for whole bodies and chunks of any shape."""
    text = json.dumps(body)
    for data, streamed in ((text.encode(), False), (events(text, "[DONE]"), True)):
        with suppress(ModelError):
            read(data, streamed=streamed)
