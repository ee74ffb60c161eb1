"""Answers whose framing is not what was announced, and streams that say the same as a whole answer in odd ways."""

from __future__ import annotations

import json
import time
from itertools import product
from typing import Any

import pytest
from http_fakes import events, request, shown

from agentnb.core.model import Delta, ModelReply
from agentnb.errors import ModelError
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.gemini import GeminiModel
from agentnb.models.ollama import OllamaModel
from agentnb.models.ollama_assembly import LineSplitter
from agentnb.models.responses import ResponsesModel
from agentnb.models.sse import EventSplitter

URL = "http://127.0.0.1:1/v1"
MODELS = {kind.dialect: kind("m", URL) for kind in (AnthropicModel, ResponsesModel, GeminiModel, OllamaModel)}
CHAT = ChatCompletionsModel("m", URL)
MODELS["chat"] = CHAT
TEXT = {"type": "output_text", "text": "So."}
WHOLE: dict[str, Any] = {
    "chat": {"choices": [{"index": 0, "message": {"role": "assistant", "content": "So."}, "finish_reason": "stop"}]},
    "anthropic": {"type": "message", "content": [{"type": "text", "text": "So."}], "stop_reason": "end_turn"},
    "responses": {"status": "completed", "output": [{"type": "message", "role": "assistant", "content": [TEXT]}]},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "So."}]}, "finishReason": "STOP"}]},
    "ollama": {"message": {"role": "assistant", "content": "So."}, "done": True, "done_reason": "stop"},
}
STREAM: dict[str, list[Any]] = {
    "chat": [{"choices": [{"index": 0, "delta": {"content": "So."}, "finish_reason": "stop"}]}],
    "anthropic": [
        {"type": "message_start", "message": {"type": "message"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "So."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
    "responses": [
        {"type": "response.output_text.delta", "delta": "So."},
        {"type": "response.completed", "response": WHOLE["responses"]},
    ],
    "gemini": [WHOLE["gemini"]],
    "ollama": [WHOLE["ollama"]],
}
TYPES = [
    "",
    "text/plain; charset=utf-8",
    "application/octet-stream",
    "application/json",
    "TEXT/EVENT-STREAM",
    "text/html",
]
dialects = pytest.mark.parametrize("dialect", list(MODELS))
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def read(
    data: bytes, kind: str, streamed: bool, dialect: str = "chat", size: int = 0, deltas: list[Delta] | None = None
) -> ModelReply:
    """The reply in these bytes, which come with this content type, in pieces of this size."""
    told: list[Delta] = [] if deltas is None else deltas
    reader: Any = MODELS[dialect]._reader(told.append if streamed else None)
    reader.start(kind)
    for at in range(0, len(data), size or len(data)):
        reader.feed(data[at : at + (size or len(data))])
    return MODELS[dialect]._read(reader.finish(), request())


def streamed_chat(*choices: Any, **more: Any) -> ModelReply:
    """The reply of a stream with these choices, one in each chunk."""
    data = events(*(json.dumps({"choices": [choice]}) for choice in choices), "[DONE]")
    return read(data, "text/event-stream", True, **more)


def whole_chat(choice: Any) -> ModelReply:
    """The reply of a whole answer with this choice."""
    return read(json.dumps({"choices": [choice]}).encode(), "application/json", False)


# ── the framing ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dialects
@both_ways
def test_an_event_stream_under_any_name(dialect, streamed):
    """The data tells what it is, whatever the content type says and whatever was asked for."""
    data = b"\xef\xbb\xbf: hello\n\n" + events(*map(json.dumps, STREAM[dialect]))
    for kind, size in product(TYPES, (1, 0)):
        assert read(data, kind, streamed, dialect, size).text == "So.", kind


@dialects
@both_ways
def test_one_body_under_any_name(dialect, streamed):
    """The same for an answer in one piece, after blank lines or a byte order mark."""
    for kind, before in product(("text/event-stream", *TYPES), (b"", b"\n\n ", b"\xef\xbb\xbf")):
        assert read(before + json.dumps(WHOLE[dialect]).encode(), kind, streamed, dialect, 2).text == "So.", kind


@dialects
@both_ways
def test_what_is_neither_is_no_reply(dialect, streamed):
    """Nothing, a word and a web page are errors, under each name."""
    for data in (b"", b"hello", b"dat", b"<html><body>Sign in"):
        for kind in ("", "text/plain", "text/event-stream"):
            with pytest.raises(ModelError):
                read(data or b" ", kind, streamed, dialect)


def test_pieces_are_told_under_a_wrong_name():
    """A stream that is announced as text is shown while it arrives, not at its end."""
    deltas: list[Delta] = []
    reader: Any = CHAT._reader(deltas.append)
    reader.start("text/plain")
    reader.feed(events(json.dumps(STREAM["chat"][0])))
    assert shown(deltas) == "So."


# ── whole and streamed are read alike ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("numbered", [{}, {"index": 0}], ids=["no index", "index 0"])
def test_complete_calls_with_one_id(numbered):
    """Each is a call, as in a whole answer; a repeated name or id alone begins none."""
    calls = [{"id": "t", "type": "function", "function": {"name": "f", "arguments": f'{{"n":{n}}}'}} for n in range(3)]
    whole = whole_chat({"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"})
    deltas = [{"delta": {"tool_calls": [{**call, **numbered}]}} for call in calls]

    assert len(whole.calls) == 3
    assert streamed_chat(*deltas, {"delta": {}, "finish_reason": "tool_calls"}).calls == whole.calls


def test_a_name_that_is_repeated_begins_no_call():
    """Some servers say id and name with every piece, also when white space follows the last brace."""
    pieces = ['{"a":', '{"b":1}', "}", " \n"]
    made = [{"index": 0, "id": "t", "function": {"name": "f", "arguments": piece}} for piece in pieces]
    reply = streamed_chat(*({"delta": {"tool_calls": [each]}} for each in made), {"finish_reason": "tool_calls"})

    assert [call.arguments.strip() for call in reply.calls] == ['{"a":{"b":1}}']


@dialects
def test_bytes_that_are_no_text(dialect):
    """Each becomes U+FFFD, whole as streamed."""
    broken = [json.dumps(each).encode().replace(b"So.", b"a\xff\xfeb") for each in (WHOLE[dialect], *STREAM[dialect])]
    stream = b"".join(b"data: " + each + b"\n\n" for each in broken[1:])

    assert read(broken[0], "application/json", False, dialect).text == "a��b"
    assert read(stream, "text/event-stream", True, dialect).text == "a��b"


@pytest.mark.parametrize("index", [0, "0", None, 1, "1"])
def test_the_only_choice_counts_whatever_its_number(index):
    """As in a whole answer."""
    choice = {"index": index, "delta": {"content": "x"}, "message": {"content": "x"}, "finish_reason": "length"}
    deltas: list[Delta] = []
    streamed = streamed_chat(choice, deltas=deltas)

    assert streamed == whole_chat({**choice, "delta": None})
    assert (streamed.text, streamed.finish, shown(deltas)) == ("x", "length", "x")


def test_the_first_of_several_choices():
    """Where there are several, the one with number 0 is the reply, whichever began."""
    said = [(1, "no"), (0, "y"), (1, "no"), (0, "es")]
    choices = [{"index": index, "delta": {"content": text}} for index, text in said]
    assert streamed_chat(*choices, {"index": 0, "delta": {}, "finish_reason": "stop"}).text == "yes"


def test_a_whole_message_at_the_end_of_its_pieces():
    """It says nothing twice, and adds what the pieces left out."""
    call = {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    deltas: list[Delta] = []
    reply = streamed_chat(
        {"delta": {"role": "assistant"}},
        {"delta": {"content": "Hel"}},
        {"delta": {"content": "lo"}},
        {"delta": {}},
        {"message": {"role": "assistant", "content": "Hello", "tool_calls": [call]}, "finish_reason": "stop"},
        deltas=deltas,
    )

    assert (reply.text, shown(deltas), [call.name for call in reply.calls]) == ("Hello", "Hello", ["f"])


def test_messages_in_the_place_of_deltas():
    """A server that calls its pieces messages is understood."""
    pieces = [{"message": {"content": "Hel"}}, {"message": {"content": "lo"}, "finish_reason": "stop"}]
    assert streamed_chat(*pieces).text == "Hello"


@both_ways
def test_a_null_in_the_place_of_a_list(streamed):
    """The ending still tells: a refusal and a cut are no damaged answers."""
    refused = {"type": "message", "content": None, "stop_reason": "refusal"}
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": None}

    assert read(json.dumps(refused).encode(), "application/json", streamed, "anthropic").finish == "refusal"
    assert read(json.dumps(cut).encode(), "application/json", streamed, "responses").finish == "length"
    with pytest.raises(ModelError, match="without a list of content"):
        read(b'{"content": null}', "application/json", streamed, "anthropic")


@pytest.mark.slow
@pytest.mark.parametrize("splitter", [EventSplitter, LineSplitter])
def test_one_large_event_takes_linear_time(splitter):
    """Thirty megabytes in two thousand pieces are no matter of seconds."""
    data = b"data: " + b"x" * 16_000

    def seconds(pieces: int) -> float:
        made, began = splitter(), time.process_time()
        for _ in range(pieces):
            made.feed(data)
        assert len(made.feed(b"\n\n")) == 1
        return time.process_time() - began

    assert seconds(2_000) < 1.5  # gluing each piece to the last ones takes several seconds
