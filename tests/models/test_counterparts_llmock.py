"""Our clients against llmock, a third-party server that breaks on demand: each fault is survived or told honestly.

llmock also judges the clients: it sees every try and its time. The last test prints faults survived / faults tried.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from fakes import add, collect, runtime_for
from http_fakes import request, shown

from agentnb.core.model import Delta, Model, ModelReply
from agentnb.errors import ModelError
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.gemini import GeminiModel
from agentnb.models.responses import ResponsesModel
from agentnb.models.transport import Timeouts

llmock = pytest.importorskip("llmock.testing")
from llmock.scenarios import Delay, Fail, Reply, SlowFirstToken, StreamFault, ToolCall, ToolFault  # noqa: E402
from llmock.verdict import judge  # noqa: E402

pytestmark = pytest.mark.slow

TEXT = "The answer that matters most is, as ever, forty-two."
SAYS = Reply(text=TEXT, times=None)
DIALECTS = {
    "chat": (ChatCompletionsModel, "/v1"),
    "responses": (ResponsesModel, "/v1"),
    "anthropic": (AnthropicModel, "/anthropic"),
    "gemini": (GeminiModel, "/gemini"),
}
"""Name to our class and where llmock speaks it."""
LONG = 20.0
"""Seconds that no test may wait."""
EVENTS = 8
"""Each dialect's stream of TEXT has more than these before its end."""
CALL_EVENTS = {"chat": 5, "responses": 5, "anthropic": 5, "gemini": 1}
"""The same for a stream of one call."""
ANSWER = {
    "rate limit": Fail(429, retry_after=0.1),
    "rate limit, no wait named": Fail(429),
    "two in a row": Fail(503, times=2, retry_after=0.1),
    **{f"status {status}": Fail(status, retry_after=0.1) for status in (408, 500, 502, 503, 504, 529)},
    "no answer": Delay(2.0),
}
"""Faults of any answer."""
STREAM = {
    **{
        f"{kind} at {at}": StreamFault(kind, after_chunks=at)
        for kind in ("disconnect", "truncate", "malformed")
        for at in range(EVENTS)
    },
    **{f"stall at {at}": StreamFault("stall", after_chunks=at, stall_seconds=LONG) for at in (1, 3)},
    "slow first token": SlowFirstToken(LONG),
}
"""Faults of streams alone."""
FINAL = {
    "status 400": (Fail(400, times=None), "bad_request"),
    "status 401": (Fail(401, times=None), "auth"),
    "status 403": (Fail(403, times=None), "auth"),
    "status 404": (Fail(404, times=None), "not_found"),
    "status 422": (Fail(422, times=None), "bad_request"),
}
"""Faults that no other try mends, and the kind of error that says so."""

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
tally: dict[str, bool] = {}


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    """One llmock for all."""
    with llmock.LLMockServer() as server:
        yield server


@pytest.fixture
def server(started: Any) -> Any:
    """The same, with nothing queued and nothing remembered."""
    started.state.reset()
    return started


def model_of(server: Any, dialect: str, longest: float = 0.1, fault: Any = None) -> Model:
    """Our client of llmock; a wait between tries is real, but at most this long. It is impatient with silence alone."""
    kind, path = DIALECTS[dialect]
    patience = 1.0 if is_silence(fault) else 30.0
    model: Any = kind("any-model", server.url + path, "key", timeouts=Timeouts(read=patience, gap=patience))
    model.transport = replace(model.transport, sleep=lambda seconds: asyncio.sleep(min(seconds, longest)))
    return model


def is_silence(fault: Any) -> bool:
    """Whether only a time-out ends this fault."""
    return isinstance(fault, Delay | SlowFirstToken) or getattr(fault, "kind", "") == "stall"


def ask(model: Model, streamed: bool) -> tuple[ModelReply, str]:
    """The reply, and the text that a reader saw in the end."""
    deltas: list[Delta] = []
    reply = asyncio.run(model.reply(request("What is it?"), deltas.append if streamed else None))
    return reply, shown(deltas) if streamed else reply.text


def ways(streamed: bool) -> str:
    """In words."""
    return "streamed" if streamed else "whole"


@contextmanager
def tried(name: str) -> Iterator[None]:
    """Count one fault; it is survived when nothing is raised here."""
    tally[name] = False
    yield
    tally[name] = True


def tries(server: Any) -> int:
    """How many requests came."""
    return len(server.state.journal.records(wait=2.0))


# ── faults that another try mends ────────────────────────────────────────────────────────────────────────────────────


def survive(server: Any, dialect: str, name: str, fault: Any, streamed: bool) -> None:
    """Ask once through this fault: the reply is right, once, and the retry is on it."""
    server.state.scenarios.add(fault, SAYS)
    with tried(f"{dialect}, {ways(streamed)}: {name}"):
        reply, seen = ask(model_of(server, dialect, fault=fault), streamed)

        assert (reply.text, seen, reply.finish) == (TEXT, TEXT, "stop")
        assert [note.split()[0] for note in reply.notes] == ["waiting"] * fault.times
        assert tries(server) == fault.times + 1


@every_dialect
@both_ways
@pytest.mark.parametrize("name", ANSWER)
def test_a_fault_of_any_answer_is_survived(server, dialect, name, streamed):
    """Rate limits, server errors, silence: asked again, and the step says so."""
    survive(server, dialect, name, ANSWER[name], streamed)


@every_dialect
@pytest.mark.parametrize("name", STREAM)
def test_a_fault_of_a_stream_is_survived(server, dialect, name):
    """A stream that breaks, ends early, stalls or is damaged at any event: its text is replaced by the whole one."""
    survive(server, dialect, name, STREAM[name], True)


@pytest.mark.parametrize(("dialect", "at"), [(name, at) for name in DIALECTS for at in range(CALL_EVENTS[name])])
def test_a_call_that_breaks_off_is_made_once(server, dialect, at):
    """A connection that drops while a tool call arrives leaves nothing of it behind."""
    call = Reply(tool_calls=(ToolCall("add", {"a": 1, "b": 2}),), times=None)
    server.state.scenarios.add(StreamFault("disconnect", after_chunks=at), call)
    with tried(f"{dialect}, streamed: call cut at {at}"):
        reply, _ = ask(model_of(server, dialect), True)

        assert [(each.name, json.loads(each.arguments)) for each in reply.calls] == [("add", {"a": 1, "b": 2})]
        assert tries(server) == 2


@every_dialect
@both_ways
@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
def test_a_broken_call_goes_back_to_the_model(server, dialect, streamed, kind):
    """A call that can't be run is answered with its error, and the run reaches its answer."""
    server.state.scenarios.add(ToolFault(kind), Reply(tool_calls=(ToolCall("add", {"a": 1, "b": 2}),)))
    listener = [lambda event: None] if streamed else []
    with tried(f"{dialect}, {ways(streamed)}: {kind}"):
        last = asyncio.run(collect(runtime_for(model_of(server, dialect), [add], middleware=listener)))[-1]

        assert (last.stop, bool(last.answer)) == ("answer", True)
        assert [record.stream for record in server.state.journal.records(wait=2.0)] == [streamed] * 2


# ── faults that are told ─────────────────────────────────────────────────────────────────────────────────────────────


@every_dialect
@both_ways
@pytest.mark.parametrize("name", FINAL)
def test_a_fault_that_stays_is_told_at_once(server, dialect, streamed, name):
    """A request that can't succeed is sent once, and the error is of the right kind."""
    fault, kind = FINAL[name]
    server.state.scenarios.add(fault)
    with pytest.raises(ModelError) as caught:
        ask(model_of(server, dialect), streamed)

    assert (caught.value.kind, caught.value.retryable, tries(server)) == (kind, False, 1)


@every_dialect
@both_ways
def test_a_prompt_that_is_too_long_is_told(server, dialect, streamed):
    """Each provider's own words for it are understood."""
    server.state.limiter.configure(replace(server.state.limiter.settings, context_window=1))
    try:
        with pytest.raises(ModelError) as caught:
            ask(model_of(server, dialect), streamed)
    finally:
        server.state.limiter.configure(replace(server.state.limiter.settings, context_window=None))

    assert (caught.value.kind, tries(server)) == ("context_too_long", 1)


@every_dialect
@both_ways
def test_an_outage_ends_after_three_tries(server, dialect, streamed):
    """No storm: three tries, and the error names them."""
    server.state.scenarios.add(Fail(503, times=None, retry_after=0.1))
    with pytest.raises(ModelError, match="tried 3 times") as caught:
        ask(model_of(server, dialect, 0.0), streamed)

    assert (caught.value.kind, caught.value.status, tries(server)) == ("server", 503, 3)


@every_dialect
def test_a_stream_that_always_ends_early_is_no_answer(server, dialect):
    """What had come is on the error, not in an answer."""
    server.state.scenarios.add(StreamFault("truncate", after_chunks=6, times=None), SAYS)
    with pytest.raises(ModelError) as caught:
        ask(model_of(server, dialect, 0.0), True)

    assert (caught.value.kind, tries(server)) == ("connection", 3)
    assert 0 < len(caught.value.partial) < len(TEXT)
    assert TEXT.startswith(caught.value.partial)


# ── the other side's judgement ───────────────────────────────────────────────────────────────────────────────────────


@every_dialect
def test_llmock_finds_nothing_to_blame(server, dialect):
    """Its strict verdict over real waits: Retry-After kept, waits that grow, no storm, no half answer taken."""
    faults = [
        Fail(429, retry_after=0.3),
        Fail(503, times=2),
        StreamFault("disconnect", after_chunks=2),
        StreamFault("truncate", after_chunks=3),
        StreamFault("malformed", after_chunks=2),
        StreamFault("stall", after_chunks=2, stall_seconds=LONG),
    ]
    for fault in faults:
        server.state.scenarios.add(fault, SAYS)
        ask(model_of(server, dialect, 10.0, fault), True)
        server.state.scenarios.clear()

    verdict = judge(server.state.journal.records(wait=2.0))
    verdict.assert_ok(strict=True)
    assert verdict.faults == len(faults) + 1


def test_the_count(capsys):
    """Faults survived / faults tried, over the tests above that ran."""
    survived = sum(tally.values())
    with capsys.disabled():
        print(f"\nllmock: {survived} faults survived / {len(tally)} tried")

    assert [name for name, whole in tally.items() if not whole] == []
