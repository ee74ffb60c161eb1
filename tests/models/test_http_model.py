"""What all models over HTTP share: asking again without what a server refuses, and failures that tell what was sent."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

import pytest
from http_fakes import SSE, ask, model_at, request, shown
from test_contract import ANSWER, both_ways, over_http, run

from agentnb.core.limits import StopReason
from agentnb.core.model import Delta
from agentnb.errors import ModelError
from agentnb.models.http_model import LEARNED
from agentnb.models.server import Raw, ScriptedServer

NO_SUCH_MODEL = Raw({"error": {"message": "no such model"}}, 404)
NO_SCHEMA = Raw({"error": {"message": "json_schema is not supported", "param": "response_format"}}, 400)


@over_http
@both_ways
def test_a_failed_call_tells_what_was_sent(row, streamed):
    """The error holds the exact request, and so does its pickle."""
    with row.open([NO_SUCH_MODEL]) as opened, pytest.raises(ModelError) as error:
        asyncio.run(opened.model.reply(request(), [].append if streamed else None))
    sent = opened.server.requests[0].json()

    assert error.value.request.json() == sent
    assert pickle.loads(pickle.dumps(error.value)).request.json() == sent


@over_http
def test_a_reply_that_is_none_tells_what_was_sent(row):
    """Also where the server answered, but with nothing that is a reply."""
    with row.open([Raw("{}")]) as opened, pytest.raises(ModelError) as error:
        asyncio.run(opened.model.reply(request()))

    assert error.value.request.json() == opened.server.requests[0].json()


@over_http
def test_the_step_of_a_failed_call_shows_its_request(row):
    """A run that ends with a failed call has the exact body on its last step."""
    with row.open([NO_SUCH_MODEL]) as opened:
        last = run(opened.model)

    assert last.stop is StopReason.ERROR
    assert last.steps[-1].request == opened.server.requests[0].json()


@over_http
def test_notes_of_a_failed_call(row):
    """What was tried before stands in the error, each try once."""
    busy = Raw({"error": {"message": "busy"}}, 503)
    with row.open([busy, busy, busy, ANSWER]) as opened, pytest.raises(ModelError) as error:
        asyncio.run(opened.model.reply(request()))

    assert [note.partition(":")[0] for note in error.value.notes] == ["waiting 0.5 s", "waiting 1 s"]


def test_servers_do_not_share_raw_messages():
    """A message goes back as it came to the server that wrote it, and to no other with a model of the same name."""
    said = {"content": "It is 3.", "reasoning_content": "hm"}
    with ScriptedServer([said]) as server:
        here, there = model_at(server), model_at(f"http://127.0.0.1:{server.port + 1}/v1")
        message = ask(here).message(())

    own, foreign = (model.sent(request("hi", message)).json()["messages"][1] for model in (here, there))
    assert own == {"role": "assistant", **said}
    assert foreign == {"role": "assistant", "content": "It is 3."}
    assert here.name == there.name


def test_calls_side_by_side_learn_from_each_other():
    """When a server refuses a field, every call that was under way with it is asked again, not only the first."""

    def answer(received: Any) -> Any:
        return NO_SCHEMA if "response_format" in received.json() else "{}"

    async def all_of_them(model: Any) -> list[Any]:
        return list(await asyncio.gather(*(model.reply(request(schema={"type": "object"})) for _ in range(4))))

    with ScriptedServer(answer) as server:
        replies = asyncio.run(all_of_them(model_at(server)))

    assert {reply.text for reply in replies} == {"{}"}
    assert any(LEARNED in reply.notes for reply in replies)


def test_text_that_was_shown_is_taken_back():
    """When a call is asked again after pieces were told, they are dropped with a note before the new ones come."""
    piece = {"choices": [{"index": 0, "delta": {"content": "I call "}}]}
    fault = {"error": {"message": "can't read it", "code": "tool_use_failed", "failed_generation": "<f=add>"}}
    frames = [f"data: {json.dumps(each)}\n\n".encode() for each in (piece, fault)]
    deltas: list[Delta] = []
    with ScriptedServer([Raw(pieces=frames, headers=SSE), "It is 3."]) as server:
        reply = ask(model_at(server), deltas=deltas)

    assert shown(deltas) == reply.text == "It is 3."
    assert [delta.kind for delta in deltas][:3] == ["text", "restart", "note"]
