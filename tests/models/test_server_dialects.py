"""One script in five dialects: our own clients read the same reply from each, and the server reads the same request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from fakes import FunctionTool, add, collect, runtime_for, says
from http_fakes import KEY, request, shown

from agentnb.core.messages import ToolCall, Usage
from agentnb.core.model import Delta, Model, ModelReply
from agentnb.errors import ModelError
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.gemini import GeminiModel
from agentnb.models.ollama import OllamaModel
from agentnb.models.responses import ResponsesModel
from agentnb.models.scripted import ScriptedModel, calls
from agentnb.models.server import Raw, ScriptedServer
from agentnb.models.transport import Retry

pytestmark = pytest.mark.slow

CLIENTS = {
    "chat": ChatCompletionsModel,
    "responses": ResponsesModel,
    "anthropic": AnthropicModel,
    "gemini": GeminiModel,
    "ollama": OllamaModel,
}
PATHS = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/messages",
    "gemini": "/models/m:generateContent",
    "ollama": "/api/chat",
}
every_dialect = pytest.mark.parametrize("dialect", CLIENTS)
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
SCRIPT = [
    "It is 3.",
    "é 日本 🎈\u2028\x85\n",
    calls("add", a=1, b=2),
    {"tool_calls": calls("add", a=1)["tool_calls"] + calls("add", a=2)["tool_calls"], "content": "Two sums."},
    {"content": "said", "reasoning_content": "thought", "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
    ModelReply("cut off in the mid", finish="length", usage=Usage(1, 2)),
    ModelReply(finish="refusal", refusal="I can't."),
    ModelReply("counted", usage=Usage(100, 20, 60, 10, 5)),
    ModelReply(calls=(ToolCall("own", "add", ""),), finish="tool_calls"),
]


def client(server: ScriptedServer, dialect: str, **options: Any) -> Model:
    """Our client of this server."""
    made: Model = CLIENTS[dialect]("any", server.url, KEY, **options)
    return made


async def replies(model: Model, count: int, streamed: bool) -> list[ModelReply]:
    """So many answers, one after the other."""
    found = []
    for _ in range(count):
        deltas: list[Delta] = []
        found.append(await model.reply(request(), deltas.append if streamed else None))
        assert not streamed or shown(deltas) == found[-1].text
    return found


@every_dialect
@both_ways
def test_a_script_means_the_same_in_every_dialect(dialect, streamed):
    """Whatever ScriptedModel makes of an entry, a client makes of it over HTTP."""
    expected = asyncio.run(replies(ScriptedModel(SCRIPT), len(SCRIPT), False))
    with ScriptedServer([*SCRIPT, iter(["in ", "pieces"])]) as server:
        *found, last = asyncio.run(replies(client(server, dialect), len(SCRIPT) + 1, streamed))

    assert last.text == "in pieces"
    for entry, want, got in zip(SCRIPT, expected, found, strict=True):
        said = (got.text, got.reasoning, got.refusal, got.finish)
        expected = (want.text, want.reasoning, want.refusal, want.finish)
        if dialect == "ollama" and want.refusal:  # it has no word for it
            expected = (want.refusal, "", None, "stop")
        assert said == expected, entry
        asked = [(call.name, json.loads(call.wire_arguments)) for call in got.calls]
        assert asked == [(call.name, json.loads(call.wire_arguments)) for call in want.calls]
        assert all(call.id for call in got.calls)
        assert want.usage is None or (got.usage.input, got.usage.output) == (want.usage.input, want.usage.output)
    assert (found[7].usage.cached_input, found[7].usage.reasoning) == ((0, 0) if dialect == "ollama" else (60, 5))
    assert found[8].calls[0].id == "own"


@every_dialect
@both_ways
def test_a_run_is_the_same_in_every_dialect(dialect, streamed):
    """A loop over the server ends as over the script, and functions of the script read each dialect alike."""
    heard: list[list[dict[str, Any]]] = []

    def last(received: Any) -> str:
        heard.append(received.messages)
        return f"It is {received.messages[-1]['content']}, by {received.tools[0]['function']['name']}."

    listener = [lambda event: None] if streamed else []
    with ScriptedServer([calls("add", a=1, b=2), last]) as server:
        runtime = runtime_for(client(server, dialect), [FunctionTool(add)], middleware=listener)
        state = asyncio.run(collect(runtime))[-1]

    assert state.answer == "It is 3, by add."
    assert [message["role"] for message in heard[0]] == ["system", "user", "assistant", "tool"]
    call = heard[0][2]["tool_calls"][0]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("add", {"a": 1, "b": 2})
    assert call["id"] == heard[0][3]["tool_call_id"]


@every_dialect
@both_ways
@pytest.mark.parametrize(
    "kind", ["auth", "quota", "rate_limit", "context_too_long", "not_found", "bad_request", "server"]
)
def test_a_model_error_arrives_as_itself(dialect, streamed, kind):
    """Kind, text, and whether and when to try again survive the way over HTTP."""
    error = ModelError("no luck", kind=kind, retryable=kind == "rate_limit", retry_after=7.0)
    with ScriptedServer([error]) as server:
        model = client(server, dialect, retry=Retry(attempts=1))
        with pytest.raises(ModelError, match="no luck") as caught:
            asyncio.run(replies(model, 1, streamed))

    got = caught.value
    assert (got.kind, got.retryable, got.retry_after) == (kind, error.retryable, 7.0)


@every_dialect
@both_ways
def test_raw_answers_in_every_dialect(dialect, streamed):
    """Bytes of the script are served as they are; a connection that breaks is tried again."""
    with ScriptedServer([Raw("<html>", 500), Raw(cut=True), "fine"]) as server:
        model = client(server, dialect)
        model.transport = type(model.transport)(model.transport.endpoint, sleep=lambda seconds: asyncio.sleep(0))
        found = asyncio.run(replies(model, 1, streamed))[0]

    assert (found.text, len(found.notes), len(server.requests)) == ("fine", 2, 3)


@every_dialect
def test_broken_arguments_are_served_as_written(dialect):
    """A call that can't be read arrives as such, so that a run can be shown to cope with it."""
    broken = ModelReply(calls=(ToolCall("c", "add", '{"a": 1,'),), finish="tool_calls")
    with ScriptedServer([broken] * 2) as server:
        found = [asyncio.run(replies(client(server, dialect), 1, streamed))[0] for streamed in (False, True)]

    assert [reply.calls[0].arguments for reply in found] == ['{"a": 1,'] * 2


@every_dialect
@both_ways
def test_unknown_usage_stays_unknown(dialect, streamed):
    """A script may say that the provider says nothing."""
    with ScriptedServer([ModelReply("x", usage=Usage())]) as server:
        assert asyncio.run(replies(client(server, dialect), 1, streamed))[0].usage is None


def test_the_forms_of_a_request():
    """System text, worked examples, strings instead of lists: all are read as chat completions."""
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}
    asked = [
        ("chat", {"messages": [system, user]}),
        ("responses", {"instructions": "Be brief.", "input": "Hi."}),
        ("responses", {"input": [system, {**user, "type": "message", "content": [{"type": "input_text", "text": "Hi."}]}]}),
        ("anthropic", {"system": "Be brief.", "messages": [user]}),
        ("anthropic", {"system": [{"type": "text", "text": "Be brief."}], "messages": [{**user, "content": [{"type": "text", "text": "Hi."}]}]}),
        ("gemini", {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}),
        ("ollama", {"messages": [system, user]}),
    ]  # fmt: skip
    with ScriptedServer(lambda received: "fine") as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        for dialect, body in asked:
            assert http.post(PATHS[dialect], json=body).status_code == 200

    assert [received.messages for received in server.requests] == [[system, user]] * len(asked)
    assert [received.tools for received in server.requests] == [[]] * len(asked)


def test_a_conversation_is_read_alike(wire_requests):
    """The same conversation in the bodies of four dialects is the same in chat-completions form."""
    bodies = {"chat": "openai_chat", "responses": "openai_responses", "anthropic": "anthropic", "ollama": "ollama"}
    with ScriptedServer(lambda received: "fine") as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        for dialect, name in bodies.items():
            assert http.post(PATHS[dialect], json=wire_requests[name]["body"]).status_code == 200

    told = [[plain(message) for message in received.messages] for received in server.requests]
    assert told[0] == told[1] == told[2] == told[3]
    assert [message["role"] for message in told[0]] == ["system", "user", "assistant", "tool", "tool", "user"]
    tools = [received.tools[0]["function"] for received in server.requests]
    assert all(tool["parameters"] == tools[0]["parameters"] for tool in tools)


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message with its arguments parsed, so that their spelling does not matter."""
    asked = [(call["id"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", ())]
    return {**message, "tool_calls": asked}


@pytest.fixture(scope="module")
def wire_requests() -> dict[str, Any]:
    """One conversation in four dialects."""
    from pathlib import Path

    found: dict[str, Any] = json.loads((Path(__file__).parents[1] / "fixtures" / "wire" / "requests.json").read_text())
    return found


def test_the_same_script_gives_the_same_bytes():
    """No clock and no chance is in an answer, so outputs can be compared."""
    bodies = []
    for _ in range(2):
        with ScriptedServer(lambda received: says("fine")) as server:
            for path in PATHS.values():
                answer = httpx.post(server.url + path, json={"stream": True}, trust_env=False)
                bodies.append(answer.content)

    assert bodies[: len(PATHS)] == bodies[len(PATHS) :]
