"""Streams of typed events (Anthropic Messages, OpenAI Responses): golden answers, cut everywhere, and odd ones."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from http_fakes import request
from hypothesis import given
from hypothesis import strategies as st
from test_chat_reader import KINDS, check_reply
from test_contract import WIRE, Say, anthropic_answer, responses_answer, stream

from agentnb.core.model import Delta, ModelReply
from agentnb.errors import ModelError
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.responses import ResponsesModel
from agentnb.models.server import Raw

NOWHERE = "http://127.0.0.1:1/v1"
MODELS = {"anthropic": AnthropicModel("m", NOWHERE), "responses": ResponsesModel("m", NOWHERE)}
ANSWERS = {"anthropic": anthropic_answer, "responses": responses_answer}
GOLDEN = [
    path for name in MODELS for path in sorted(WIRE.glob(f"{name}_*")) if not path.name.endswith(".expected.json")
]
dialects = pytest.mark.parametrize("dialect", MODELS)


def read(
    dialect: str, data: bytes, *cuts: int, streamed: bool, deltas: list[Delta] | None = None, kind: str | None = None
) -> ModelReply:
    """The reply in these bytes, fed in pieces."""
    model: Any = MODELS[dialect]
    told = [] if deltas is None else deltas
    reader = model._reader(told.append if streamed else None)
    reader.start(kind if kind is not None else "text/event-stream" if streamed else "application/json")
    for at, to in pairwise((0, *cuts, len(data))):
        reader.feed(data[at:to])
    return model._read(reader.finish(), request())


def bytes_of(answer: Raw) -> bytes:
    """What goes over the wire."""
    return b"".join(answer.pieces) if answer.pieces is not None else json.dumps(answer.body).encode()


@pytest.mark.slow
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_golden_answers(path):
    """Each recorded answer is read as written down beside it, in one piece, byte by byte and cut in two anywhere."""
    expected = json.loads((WIRE / f"{path.stem}.expected.json").read_text("utf-8"))
    data, streamed, dialect = path.read_bytes(), path.suffix == ".sse", path.name.partition("_")[0]
    for cut in [(), tuple(range(1, len(data))), *((at,) for at in range(1, len(data), 1 if streamed else 97))]:
        if "error" in expected:
            check_error(expected, dialect, data, cut)
        else:
            reply = read(dialect, data, *cut, streamed=streamed)
            check_reply(expected, reply)
            assert reply.raw is not None
            replay = expected.get("replay_content") or expected.get("replay_items")
            assert replay in (None, reply.raw.get("content") or reply.raw.get("output"))


def check_error(expected: dict[str, Any], dialect: str, data: bytes, cut: tuple[int, ...]) -> None:
    """The answer is an error of the expected kind, and the text before it is kept."""
    deltas: list[Delta] = []
    with pytest.raises(ModelError) as error:
        read(dialect, data, *cut, streamed=True, deltas=deltas)
    wanted = expected["error"]
    kind = {**KINDS, "overloaded": "server"}.get(wanted["kind"], wanted["kind"])
    found = (error.value.kind, error.value.retryable, error.value.status)
    assert found == (kind, wanted["retryable"], wanted["status"])
    assert wanted["message"] in str(error.value)
    assert "".join(delta.text for delta in deltas) == expected["partial_text"]


TEXTS = st.text(max_size=12)
ARGUMENTS = st.dictionaries(
    TEXTS, st.none() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.lists(TEXTS), max_size=3
)
CALLS = st.lists(st.tuples(st.uuids().map(str), TEXTS, ARGUMENTS), max_size=3).map(tuple)
SAYS = st.builds(Say, TEXTS, CALLS, TEXTS, st.sampled_from(["stop", "length"]), st.none() | st.just((5, 3)))


@pytest.mark.slow
@dialects
@given(say=SAYS, data=st.data())
def test_whole_and_streamed_answers_are_read_alike(dialect, say, data):
    """The same content gives the same reply, whatever the cuts of the stream, and the told pieces are its text."""
    streamed, whole = (bytes_of(ANSWERS[dialect](say, way)) for way in (True, False))
    cuts = sorted(data.draw(st.lists(st.integers(1, len(streamed)), max_size=6)))
    deltas: list[Delta] = []
    reply = read(dialect, streamed, *cuts, streamed=True, deltas=deltas)

    assert reply == read(dialect, whole, streamed=False)
    assert reply.raw == read(dialect, whole, streamed=False).raw
    for kind, text in (("text", reply.text), ("reasoning", reply.reasoning)):
        assert "".join(delta.text for delta in deltas if delta.kind == kind) == text


@dialects
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_framing(dialect, end):
    """Comments, other line ends, data without a space, no event names, no last line end: the same reply."""
    say = Say("a \u2028 b 你好🙂", (("c", "f", {"x": "\u0085"}),), "hm")
    plain = bytes_of(ANSWERS[dialect](say, True))
    lines = plain.decode().split("\n")
    odd = [line.replace("data: ", "data:") for line in lines if not line.startswith("event:")]
    framed = end.join([": keep-alive", "retry: 1", "event: ping", *odd]).rstrip().encode()

    assert read(dialect, framed, streamed=True) == read(dialect, plain, streamed=True)
    assert read(dialect, plain + b"data: [DONE]\n\n", streamed=True) == read(dialect, plain, streamed=True)


@dialects
def test_unknown_events_are_passed_over(dialect):
    """New kinds of events, pings and odd deltas say nothing."""
    pieces = list(ANSWERS[dialect](Say("So."), True).pieces or ())
    odd: list[Any] = [
        {"type": "ping"},
        {"type": "brand_new", "delta": {"type": "text_delta", "text": "no"}},
        {"type": ["no"]},
        {},
        {"type": "content_block_delta", "index": 99, "delta": {"type": "text_delta", "text": "no"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "text": "no"}},
        {"type": "response.output_text.delta", "delta": None},
    ]
    between = [pieces[0], *(stream(*odd).pieces or ()), *pieces[1:]]

    assert read(dialect, b"".join(between), streamed=True).text == "So."


@dialects
def test_an_event_that_is_not_json(dialect):
    """It is an error that names the payload; it may be damage on the way, so it is worth another try."""
    pieces = ANSWERS[dialect](Say("So."), True).pieces or ()
    with pytest.raises(ModelError, match="oops") as error:
        read(dialect, b"".join([pieces[0], b"data: {oops\n\n", *pieces[1:]]), streamed=True)
    assert (error.value.kind, error.value.retryable) == ("reply", True)


@dialects
@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"type": "overloaded_error", "message": "busy"}, "server", True),
        ({"type": "api_error", "message": "busy"}, "server", True),
        ({"type": "rate_limit_error", "message": "busy"}, "rate_limit", True),
        ({"type": "invalid_request_error", "message": "busy: prompt is too long"}, "context_too_long", False),
        ({"type": "authentication_error", "message": "busy"}, "auth", False),
        ({"code": "server_error", "message": "busy"}, "server", True),
        ({"code": "rate_limit_exceeded", "message": "busy"}, "rate_limit", True),
        ({"code": "insufficient_quota", "message": "busy"}, "quota", False),
    ],
)
def test_error_events(dialect, error, kind, retryable):
    """An error in the middle of a stream counts like the status that it means, in either form."""
    first = (ANSWERS[dialect](Say("So."), True).pieces or ())[0]
    for event in (
        {"type": "error", "error": error},
        {**error, "type": "error", "code": error.get("code") or error["type"]},
    ):
        with pytest.raises(ModelError, match="busy") as raised:
            read(dialect, first + bytes_of(stream(event)), streamed=True)
        assert (raised.value.kind, raised.value.retryable) == (kind, retryable)


@dialects
def test_without_a_content_type(dialect):
    """What was asked for decides."""
    for streamed in (False, True):
        assert read(dialect, bytes_of(ANSWERS[dialect](Say("So."), streamed)), streamed=streamed, kind="").text == "So."


def cpu(work: Any) -> float:
    """CPU seconds of one run."""
    began = time.process_time()
    work()
    return time.process_time() - began


WORDS = ["type", "content", "text", "thinking", "input", "name", "id", "index", "delta", "content_block", "message"]
WORDS += [
    "usage",
    "stop_reason",
    "stop_details",
    "item",
    "output",
    "summary",
    "response",
    "status",
    "arguments",
    "call_id",
]
TYPES = ["message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "text_delta"]
TYPES += [
    "text",
    "thinking",
    "tool_use",
    "message",
    "reasoning",
    "function_call",
    "output_text",
    "refusal",
    "incomplete",
]
TYPES += ["response.output_text.delta", "response.output_item.added", "response.output_item.done", "response.completed"]
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(["", "{}", *TYPES])
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.slow
@dialects
@given(bodies=st.lists(ANYTHING, min_size=1, max_size=5))
def test_odd_answers_never_break_the_reader(dialect, bodies):
    """Whatever a body or the events of a stream hold: a reply or a ModelError, never an error of Python."""
    with suppress(ModelError):
        read(dialect, json.dumps(bodies[0]).encode(), streamed=False)
    ends = ({"type": "message_stop"}, {"type": "response.completed", "response": bodies[0]})
    with suppress(ModelError):
        read(dialect, b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in (*bodies, *ends)), streamed=True)


@pytest.mark.slow
@dialects
@given(blocks=st.lists(st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=5), max_size=4))
def test_odd_blocks_and_items_never_break_the_reply(dialect, blocks):
    """The same for what an answer is made of; and what goes back is always JSON."""
    model: Any = MODELS[dialect]
    body = {"content": blocks, "output": blocks, "stop_reason": "tool_use"}
    with suppress(ModelError):
        reply = read(dialect, json.dumps(body).encode(), streamed=False)
        sent = model.sent(request("hi", reply.message(reply.calls)))
        assert sent.json()["model"] == "m"
