"""Every dialect over HTTP, recorded from a real server and replayed with the network blocked."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
from fakes import add, collect, runtime_for
from test_contract import ANSWER, BOTH, HTTP, SUM, both_ways, over_http

from agentnb.agent import Agent
from agentnb.core.middleware import Streamed
from agentnb.core.state import State
from agentnb.errors import ModelError, RecordingError
from agentnb.models.named import NamedModel
from agentnb.models.scripted import ScriptedModel
from agentnb.records.recording import recording

SCRIPT = [BOTH, SUM, ANSWER]


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_RECORDING", "")


@contextmanager
def blocked_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """While the block runs, no name is looked up and nothing connects; the list tells who tried."""
    tried: list[Any] = []

    def refuse(*args: Any, **options: Any) -> NoReturn:
        tried.append(args)
        raise OSError("the network is blocked")

    with monkeypatch.context() as patch:
        for name in ("connect", "connect_ex", "sendto"):
            patch.setattr(socket.socket, name, refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        patch.setattr(socket, "create_connection", refuse)
        yield tried


def ran(model: Any, streamed: bool) -> tuple[State, list[Any]]:
    """The last State of a run, and the pieces that a listener saw."""
    seen: list[Any] = []
    listening = [seen.append] if streamed else []
    run = asyncio.run(collect(runtime_for(model, [add], middleware=listening), "Add them."))[-1]
    return run, [event.delta for event in seen if isinstance(event, Streamed)]


@pytest.mark.slow
@over_http
@both_ways
def test_a_replay_is_equal_and_opens_no_socket(row, streamed, tmp_path, monkeypatch):
    """States, pieces and requests of the replay are those of the recorded run, whole and streamed."""
    path = tmp_path / "r.jsonl"
    with row.open(SCRIPT) as opened, recording(path):
        recorded, pieces = ran(opened.model, streamed)
    with blocked_network(monkeypatch) as tried, recording(path, mode="replay") as made:
        replayed, again = ran(opened.model, streamed)

    assert tried == []
    assert recorded.answer == "It is 3."
    assert len(opened.server.requests) == made.replayed == 3
    assert replayed == recorded
    assert [step.reply for step in replayed.steps] == [step.reply for step in recorded.steps]
    assert [step.reply.raw for step in replayed.steps] == [step.reply.raw for step in recorded.steps]
    assert again == pieces
    assert len({piece.kind for piece in pieces}) == (3 if streamed else 0)
    assert [step.request for step in replayed.steps] == [each.json() for each in opened.server.requests]


@over_http
def test_the_chunk_borders_are_in_the_file(row, tmp_path):
    """The pieces of a stream can be read in the recording, grouped by kind, beside the reply."""
    path = tmp_path / "r.jsonl"
    with row.open([ANSWER]) as opened, recording(path):
        ran(opened.model, True)

    entry = json.loads(path.read_text().splitlines()[-1])
    assert entry["stream"] == [["text", "It i", "s 3."]]
    assert entry["reply"]["text"] == "It is 3."


@over_http
def test_no_key_and_no_header_is_recorded(row, tmp_path):
    """The file holds neither the key nor the word for it."""
    path = tmp_path / "r.jsonl"
    with row.open([ANSWER], api_key="KEY-TEST-0123456789") as opened, recording(path):
        ran(opened.model, False)

    assert "KEY-TEST-0123456789" in str(opened.server.requests[0].headers)
    written = path.read_text().lower()
    assert not any(word in written for word in ("key-test", "0123456789", "authorization", "x-api-key", "bearer"))


@pytest.mark.slow
@over_http
def test_recording_again_changes_only_what_changed(row, tmp_path):
    """Other ids and signatures of the provider change no byte; another answer changes its line alone."""
    path = tmp_path / "r.jsonl"

    def record(script: list[Any], mode: str = "record") -> list[str]:
        with row.open(script, origin="here") as opened, recording(path, mode):
            ran(opened.model, False)
        return path.read_text().splitlines()

    def fresh_ids(answer: Any) -> Any:
        made = answer(SUM, False)
        return type(made)(json.dumps(made.body).replace("c1", "c987").replace("c2ln", "eHl6"))

    first = record([SUM, ANSWER])
    assert record([fresh_ids, ANSWER]) == first
    changed = record([SUM, type(ANSWER)("It is three.")])
    assert len(changed) == len(first)
    assert [number for number, pair in enumerate(zip(first, changed, strict=True)) if pair[0] != pair[1]] == [
        len(first) - 1
    ]


def test_a_named_model_replays_without_a_key(tmp_path, monkeypatch):
    """A name whose key is not here shows the request that it would send, and sends nothing."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "")
    path = tmp_path / "r.jsonl"
    named = "anthropic:claude-sonnet-4-5"
    with recording(path):
        Agent(model=ScriptedModel(["Hello."], named)).run("Hi")
    with blocked_network(monkeypatch), recording(path, mode="replay"):
        run = Agent(model=named).run("Hi")
        with pytest.raises(RecordingError, match="message 2: user text was 'Hi', is 'Ho'"):
            Agent(model=named).run("Ho")

    assert run.answer == "Hello."
    sent = run.steps[0].request
    assert sent is not None
    assert (sent["model"], sent["max_tokens"]) == ("claude-sonnet-4-5", 8192)
    assert not hasattr(NamedModel("openai:x"), "transport")


def test_the_default_model_replays_without_any_model(tmp_path, monkeypatch):
    """Where no model is set up, the request is shown in chat-completions form."""
    for name in ("OPENAI_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("AGENTNB_CACHE", str(tmp_path / "nothing"))
    path = tmp_path / "r.jsonl"
    with recording(path):
        Agent(model=ScriptedModel(["Hello."])).run("Hi")
    with blocked_network(monkeypatch), recording(path, mode="replay"):
        run = Agent().run("Hi")

    assert run.steps[0].request is not None
    assert list(run.steps[0].request) == ["messages"]


def test_the_block_on_the_network_works(monkeypatch):
    """Without a recording the same run meets the blocked socket."""
    with HTTP[0].open(SCRIPT) as opened, blocked_network(monkeypatch) as tried, pytest.raises(ModelError):
        asyncio.run(opened.model.reply(State.start("x").request()))

    assert tried
