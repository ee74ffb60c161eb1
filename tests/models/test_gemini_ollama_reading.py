"""Answers of Gemini's and Ollama's own APIs: golden ones, cut everywhere, and odd ones."""

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
from native_forms import events, gemini_answer, lines, ollama_answer
from test_chat_reader import check_reply
from test_contract import WIRE, Say

from agentnb.core.model import Delta, ModelReply
from agentnb.errors import ModelError
from agentnb.models.gemini import GeminiModel
from agentnb.models.ollama import OllamaModel
from agentnb.models.server import Raw

NOWHERE = "http://127.0.0.1:1"
MODELS: dict[str, Any] = {"gemini": GeminiModel("m", NOWHERE), "ollama": OllamaModel("m", NOWHERE)}
ANSWERS = {"gemini": gemini_answer, "ollama": ollama_answer}
FRAMES = {"gemini": events, "ollama": lines}
TYPES = {"gemini": "text/event-stream", "ollama": "application/x-ndjson"}
dialects = pytest.mark.parametrize("dialect", MODELS)


def read(
    dialect: str, data: bytes, *cuts: int, streamed: bool, deltas: list[Delta] | None = None, kind: str | None = None
) -> ModelReply:
    """The reply in these bytes, fed in pieces."""
    told: list[Delta] = [] if deltas is None else deltas
    reader = MODELS[dialect]._reader(told.append if streamed else None)
    reader.start(kind if kind is not None else TYPES[dialect] if streamed else "application/json")
    for at, to in pairwise((0, *cuts, len(data))):
        reader.feed(data[at:to])
    reply: ModelReply = MODELS[dialect]._read(reader.finish(), request())
    return reply


def bytes_of(answer: Raw) -> bytes:
    """What goes over the wire."""
    return b"".join(answer.pieces) if answer.pieces is not None else json.dumps(answer.body).encode()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemini_stream_tools.sse", "ollama_stream_tools.ndjson"])
def test_golden_streams(name):
    """Each is read as written down beside it, in one piece, byte by byte and cut in two anywhere."""
    dialect, data = name.partition("_")[0], (WIRE / name).read_bytes()
    expected = json.loads((WIRE / f"{name.partition('.')[0]}.expected.json").read_text("utf-8"))
    for cut in [(), tuple(range(1, len(data))), *((at,) for at in range(1, len(data)))]:
        deltas: list[Delta] = []
        reply = read(dialect, data, *cut, streamed=True, deltas=deltas)
        check_reply(expected, reply)
        assert len({call.id for call in reply.calls}) == 2
        assert "".join(delta.text for delta in deltas if delta.kind == "reasoning") == expected["reasoning"]


TEXTS = st.text(max_size=12)
ARGUMENTS = st.dictionaries(
    TEXTS, st.none() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.lists(TEXTS), max_size=3
)
CALLS = st.lists(st.tuples(st.none() | st.uuids().map(str), TEXTS, ARGUMENTS), max_size=3).map(tuple)
SAYS = st.builds(Say, TEXTS, CALLS, TEXTS, st.sampled_from(["stop", "length", "refusal"]), st.none() | st.just((5, 3)))


@pytest.mark.slow
@dialects
@given(say=SAYS, data=st.data())
def test_whole_and_streamed_answers_are_read_alike(dialect, say, data):
    """The same content gives the same reply, whatever the cuts of the stream, and the told pieces are its text."""
    streamed, whole = (bytes_of(ANSWERS[dialect](say, way)) for way in (True, False))
    cuts = sorted(data.draw(st.lists(st.integers(1, len(streamed)), max_size=6)))
    deltas: list[Delta] = []
    reply = read(dialect, streamed, *cuts, streamed=True, deltas=deltas)
    other = read(dialect, whole, streamed=False)

    assert (reply, reply.raw) == (other, other.raw)
    for kind, text in (("text", reply.text), ("reasoning", reply.reasoning)):
        assert "".join(delta.text for delta in deltas if delta.kind == kind) == text


@dialects
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_stream_without_its_end(dialect, kept):
    """What has no last chunk is no answer: the connection was lost, and another try may help."""
    data = bytes_of(ANSWERS[dialect](Say("It is long, but not for ever.", reasoning="hm"), True))
    data = data[: int(data.rindex(b'"finishReason"' if dialect == "gemini" else b'"done": true') * kept)]
    with pytest.raises(ModelError) as error:
        read(dialect, data, streamed=True)
    assert (error.value.kind, error.value.retryable) == ("connection", True)


def test_only_a_finish_reason_completes_a_stream():
    """Other fields of a candidate may come early."""
    chunk = {"content": {"parts": [{"text": "It is"}]}, "safetyRatings": [], "avgLogprobs": -0.1, "index": 0}
    with pytest.raises(ModelError) as error:
        read("gemini", bytes_of(events({"candidates": [chunk], "usageMetadata": {}})), streamed=True)
    assert error.value.kind == "connection"


@dialects
def test_line_ends(dialect):
    """CRLF and a missing last line end change nothing; nor do the line separators of Unicode inside a text."""
    data = bytes_of(ANSWERS[dialect](Say("a \u2028 b \u0085 你好🙂", (("c", "f", {"x": "\u2029"}),), "hm"), True))
    expected = read(dialect, data, streamed=True)

    assert expected.text == "a \u2028 b \u0085 你好🙂"
    assert read(dialect, data.replace(b"\n", b"\r\n"), streamed=True) == expected
    assert read(dialect, data.rstrip(b"\n"), streamed=True) == expected


@dialects
def test_an_error_in_the_middle(dialect):
    """It ends the call, with the server's words; overload is worth another try, a wrong request is not."""
    begun = bytes_of(FRAMES[dialect](*[{}])) + (ANSWERS[dialect](Say("It is 3."), True).pieces or [b""])[0]
    for error, retryable in [
        ({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}, True),
        ({"error": "server busy, please try again later"}, True),
        ({"error": {"code": 400, "message": "no such field", "status": "INVALID_ARGUMENT"}}, False),
        ({"error": "an error was encountered while running the model"}, False),
    ]:
        deltas: list[Delta] = []
        with pytest.raises(ModelError) as raised:
            read(dialect, begun + bytes_of(FRAMES[dialect](error)), streamed=True, deltas=deltas)
        assert raised.value.retryable is retryable
        assert [delta.text for delta in deltas] == ["It i"]
        said: Any = error["error"]
        assert (said if isinstance(said, str) else said["message"]) in str(raised.value)


@dialects
def test_a_line_that_is_not_json(dialect):
    """It is an error that names it; it may be damage on the way, so it is worth another try."""
    damaged = b"data: {oops\n\n" if dialect == "gemini" else b"{oops\n"
    with pytest.raises(ModelError, match="oops") as error:
        read(dialect, damaged + bytes_of(ANSWERS[dialect](Say("So."), True)), streamed=True)
    assert (error.value.kind, error.value.retryable) == ("reply", True)


@dialects
def test_without_a_content_type(dialect):
    """What was asked for decides."""
    for streamed in (False, True):
        assert read(dialect, bytes_of(ANSWERS[dialect](Say("So."), streamed)), streamed=streamed, kind="").text == "So."


@dialects
def test_a_stream_in_one_piece(dialect):
    """Chunks that come as one JSON body (a list without `alt=sse`, lines that are not announced) are joined as well."""
    say = Say("Let me see.", (("c", "f", {"x": 1}),), "hm")
    data = bytes_of(ANSWERS[dialect](say, True))
    if dialect == "gemini":
        data = b"[" + data.replace(b"data: ", b"").replace(b"\n\n", b",").rstrip(b",") + b"]"
    expected = read(dialect, bytes_of(ANSWERS[dialect](say, False)), streamed=False)
    deltas: list[Delta] = []

    assert read(dialect, data, streamed=False) == expected
    assert read(dialect, data, streamed=True, kind="application/json", deltas=deltas) == expected
    assert "".join(delta.text for delta in deltas if delta.kind == "text") == expected.text


def seconds(work: Any) -> float:
    """CPU seconds of one run."""
    began = time.process_time()
    work()
    return time.process_time() - began


WORDS = ["candidates", "content", "parts", "text", "thought", "functionCall", "name", "id", "args", "index", "error"]
WORDS += ["finishReason", "promptFeedback", "blockReason", "usageMetadata", "thoughtSignature", "role", "message"]
WORDS += ["thinking", "tool_calls", "function", "arguments", "done", "done_reason", "eval_count", "promptTokenCount"]
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(["", "{}", "STOP", "x"])
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.slow
@dialects
@given(bodies=st.lists(ANYTHING, min_size=1, max_size=5))
def test_odd_answers_never_break_the_reader(dialect, bodies):
    """Whatever a body or the chunks of a stream hold: a reply or a ModelError, never an error of Python."""
    with suppress(ModelError):
        read(dialect, json.dumps(bodies[0]).encode(), streamed=False)
    end = {"candidates": [{"finishReason": "STOP"}], "message": {"content": ""}, "done": True}
    with suppress(ModelError):
        read(dialect, bytes_of(FRAMES[dialect](*bodies, end)), streamed=True)


@pytest.mark.slow
@dialects
@given(inner=st.lists(st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=5), max_size=4))
def test_odd_parts_never_break_the_reply(dialect, inner):
    """The same for what an answer is made of; and what goes back is always JSON."""
    message = {"content": "", "tool_calls": inner, **(inner[0] if inner else {})}
    body = {"candidates": [{"content": {"parts": inner}}], "message": message, "done": True}
    with suppress(ModelError):
        reply = read(dialect, json.dumps(body).encode(), streamed=False)
        sent = MODELS[dialect].sent(request("hi", reply.message(reply.calls))).json()
        assert len(sent.get("contents") or sent["messages"]) >= 1
