"""The scripted server against clients that are not ours: the official SDKs, with full validation of every answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from agentnb.core.messages import ToolCall, Usage
from agentnb.core.model import ModelReply
from agentnb.errors import ModelError
from agentnb.models.scripted import calls
from agentnb.models.server import Raw, ScriptedServer

pytestmark = pytest.mark.slow

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

GOAL = "What is 1 + 2?"
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
ASKED = {"name": "add", "arguments": {"a": 1, "b": 2}}
RICH = ModelReply(
    "Let me see: é, 日本, 🎈.",
    (ToolCall("c1", "add", '{"a": 1, "b": 2}'), ToolCall("c2", "add", "")),
    reasoning="Two sums are needed.",
    finish="tool_calls",
    usage=Usage(100, 20, 60, 10, 5),
)


@dataclass(frozen=True)
class Heard:
    """What an SDK made of one answer, in no dialect."""

    text: str
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    """Id, name and arguments."""
    reasoning: str = ""
    finish: str = ""
    """In the words of the dialect."""
    usage: tuple[int, int] = (0, 0)
    own: Any = None
    """The SDK's object, for the next request."""


# ── the clients ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Chat:
    """The OpenAI SDK on chat completions."""

    module = openai
    finishes = ("stop", "tool_calls", "length")
    usage = (100, 20)

    def __init__(self, url: str, **options: Any) -> None:
        self.client = openai.OpenAI(base_url=url, api_key="key", _strict_response_validation=True, **options)

    def ask(self, messages: list[Any], streamed: bool, **more: Any) -> Heard:
        """One question with the tool at hand."""
        tools = [{"type": "function", "function": {"name": "add", "parameters": PARAMETERS}}]
        body = {"model": "any", "messages": messages, "tools": tools, **more}
        if streamed:
            with self.client.chat.completions.stream(**body, stream_options={"include_usage": True}) as events:
                found = finished(events)
        else:
            found = self.client.chat.completions.create(**body)
        choice = found.choices[0]
        asked = tuple(
            (call.id, call.function.name, json.loads(call.function.arguments or "{}"))
            for call in choice.message.tool_calls or ()
        )
        usage = (found.usage.prompt_tokens, found.usage.completion_tokens)
        thought = getattr(choice.message, "reasoning_content", "") or ""
        return Heard(choice.message.content or "", asked, thought, choice.finish_reason, usage, choice.message)

    def answered(self, heard: Heard, *results: str) -> list[Any]:
        """The messages that follow the question: the model's own, and the results of its calls."""
        made = zip(heard.calls, results, strict=True)
        return [
            heard.own.model_dump(exclude_none=True),
            *({"role": "tool", "tool_call_id": call[0], "content": text} for call, text in made),
        ]


def finished(events: Any) -> Any:
    """The completion; a cut one comes with the error that the SDK raises for it."""
    try:
        return events.get_final_completion()
    except openai.LengthFinishReasonError as error:
        return error.completion


class Responses:
    """The OpenAI SDK on Responses."""

    module = openai
    finishes = ("completed", "completed", "incomplete")
    usage = (100, 20)

    def __init__(self, url: str, **options: Any) -> None:
        self.client = openai.OpenAI(base_url=url, api_key="key", _strict_response_validation=True, **options)

    def ask(self, messages: list[Any], streamed: bool, **more: Any) -> Heard:
        """One question with the tool at hand."""
        tools = [{"type": "function", "name": "add", "parameters": PARAMETERS, "strict": False}]
        body = {"model": "any", "input": messages, "tools": tools, **more}
        if streamed:
            with self.client.responses.stream(**body) as events:
                found = list(events)[-1].response  # get_final_response() knows no incomplete one
        else:
            found = self.client.responses.create(**body)
        asked = tuple(
            (item.call_id, item.name, json.loads(item.arguments or "{}"))
            for item in found.output
            if item.type == "function_call"
        )
        thought = "".join(part.text for item in found.output if item.type == "reasoning" for part in item.summary)
        usage = (found.usage.input_tokens, found.usage.output_tokens)
        return Heard(found.output_text, asked, thought, found.status, usage, found.output)

    def answered(self, heard: Heard, *results: str) -> list[Any]:
        """The items that follow the question."""
        made = zip(heard.calls, results, strict=True)
        return [
            *(item.model_dump(exclude_none=True) for item in heard.own),
            *({"type": "function_call_output", "call_id": call[0], "output": text} for call, text in made),
        ]


class Messages:
    """The Anthropic SDK."""

    module = anthropic
    finishes = ("end_turn", "tool_use", "max_tokens")
    usage = (30, 20)
    """Its input leaves out the cache."""

    def __init__(self, url: str, **options: Any) -> None:
        address = url.removesuffix("/v1")
        self.client = anthropic.Anthropic(base_url=address, api_key="key", _strict_response_validation=True, **options)

    def ask(self, messages: list[Any], streamed: bool, **more: Any) -> Heard:
        """One question with the tool at hand."""
        tools = [{"name": "add", "input_schema": PARAMETERS}]
        body = {"model": "any", "max_tokens": 100, "messages": messages, "tools": tools, **more}
        if streamed:
            with self.client.messages.stream(**body) as events:
                found = events.get_final_message()
        else:
            found = self.client.messages.create(**body)
        blocks = found.content
        asked = tuple((block.id, block.name, block.input) for block in blocks if block.type == "tool_use")
        text = "".join(block.text for block in blocks if block.type == "text")
        thought = "".join(block.thinking for block in blocks if block.type == "thinking")
        usage = (found.usage.input_tokens, found.usage.output_tokens)
        return Heard(text, asked, thought, found.stop_reason, usage, blocks)

    def answered(self, heard: Heard, *results: str) -> list[Any]:
        """The turns that follow the question."""
        made = zip(heard.calls, results, strict=True)
        content = [{"type": "tool_result", "tool_use_id": call[0], "content": text} for call, text in made]
        return [
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in heard.own]},
            {"role": "user", "content": content},
        ]


SDKS = (Chat, Responses, Messages)
every_sdk = pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.__name__.lower())
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@contextmanager
def served(sdk: Callable[..., Any], script: list[Any], **options: Any) -> Iterator[tuple[Any, ScriptedServer]]:
    """An SDK's client of a server with this script."""
    with ScriptedServer(script) as server:
        made = sdk(server.url, **{"max_retries": 0, **options})
        with made.client:
            yield made, server


def question() -> list[Any]:
    """The same in every dialect."""
    return [{"role": "user", "content": GOAL}]


# ── what they must read ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@every_sdk
@both_ways
def test_the_sdk_reads_all_of_a_reply(sdk, streamed):
    """Text, reasoning, two calls, the finish and the usage of one script arrive in every dialect."""
    with served(sdk, [RICH]) as (client, _):
        heard = client.ask(question(), streamed)

    assert heard.text == RICH.text
    assert heard.calls == (("c1", "add", {"a": 1, "b": 2}), ("c2", "add", {}))
    assert heard.reasoning == RICH.reasoning
    assert (heard.finish, heard.usage) == (sdk.finishes[1], sdk.usage)


@every_sdk
@both_ways
def test_a_tool_round_trip(sdk, streamed):
    """The model's own message goes back with the result, and the server reads the same conversation in each dialect."""
    with served(sdk, [calls("add", a=1, b=2), "It is 3."]) as (client, server):
        asked = client.ask(question(), streamed)
        heard = client.ask([*question(), *client.answered(asked, "3")], streamed)

    assert (heard.text, heard.finish) == ("It is 3.", sdk.finishes[0])
    told = server.requests[1].messages
    assert [message["role"] for message in told] == ["user", "assistant", "tool"]
    assert told[0]["content"] == GOAL
    function = told[1]["tool_calls"][0]["function"]
    assert {"name": function["name"], "arguments": json.loads(function["arguments"])} == ASKED
    assert told[1]["tool_calls"][0]["id"] == told[2]["tool_call_id"] == asked.calls[0][0]
    assert told[2]["content"] == "3"
    assert server.requests[1].tools == [{"type": "function", "function": {"name": "add", "parameters": PARAMETERS}}]


@pytest.mark.slow
@every_sdk
@both_ways
@pytest.mark.parametrize("text", ["", "x", "one\u2028line\x85and\x0banother", "data: [DONE]\n\n", '"}]}'])
def test_any_text_arrives(sdk, streamed, text):
    """Empty, short, with signs that are lines to some, or that look like the protocol."""
    with served(sdk, [text]) as (client, _):
        assert client.ask(question(), streamed).text == text


@every_sdk
@both_ways
def test_a_cut_reply_is_marked(sdk, streamed):
    """A script's length finish is the dialect's own."""
    with served(sdk, [ModelReply("It wa", finish="length")]) as (client, _):
        heard = client.ask(question(), streamed)

    assert (heard.text, heard.finish) == ("It wa", sdk.finishes[2])


@every_sdk
@both_ways
def test_a_refusal_is_read(sdk, streamed):
    """A refusal validates in each dialect, and is where the dialect has it."""
    with served(sdk, [ModelReply(finish="refusal", refusal="I can't help.")]) as (client, _):
        heard = client.ask(question(), streamed)

    assert heard.text == ""
    if sdk is Chat:
        assert heard.own.refusal == "I can't help."
    elif sdk is Responses:
        assert heard.own[0].content[0].refusal == "I can't help."
    else:
        assert heard.finish == "refusal"


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────

ERRORS = {
    "auth": "AuthenticationError",
    "rate_limit": "RateLimitError",
    "not_found": "NotFoundError",
    "bad_request": "BadRequestError",
    "server": "InternalServerError",
}
"""Kind of a ModelError in the script to the class that both SDKs raise."""


@pytest.mark.slow
@every_sdk
@both_ways
@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_of_the_script_is_the_sdks_error(sdk, streamed, kind):
    """Status and body are such that the SDK raises its own class, with the script's message."""
    kept = getattr(sdk.module, ERRORS[kind])
    with served(sdk, [ModelError("no luck today", kind=kind)]) as (client, _), pytest.raises(kept) as caught:
        client.ask(question(), streamed)

    assert "no luck today" in caught.value.message


@every_sdk
@pytest.mark.parametrize("retryable", [True, False])
def test_the_sdk_retries_as_the_script_says(sdk, retryable):
    """A ModelError that is retryable is asked again, after the wait it names; another is final."""
    error = ModelError("busy", kind="rate_limit", retryable=retryable, retry_after=0.01)
    with served(sdk, [error, "fine"], max_retries=1) as (client, server):
        if retryable:
            assert client.ask(question(), False).text == "fine"
        else:
            with pytest.raises(sdk.module.RateLimitError):
                client.ask(question(), False)

    assert len(server.requests) == 1 + retryable


@every_sdk
def test_raw_faults_reach_the_sdk(sdk):
    """Bytes of the script are served on every path as they are: a bare status, a broken connection."""
    with served(sdk, [Raw("overloaded", 503), Raw(cut=True)]) as (client, server):
        with pytest.raises(sdk.module.InternalServerError):
            client.ask(question(), False)
        with pytest.raises(sdk.module.APIConnectionError):
            client.ask(question(), False)

    assert len(server.requests) == 2


def test_the_sdk_lists_the_models():
    """The one model there is."""
    with served(Chat, []) as (client, _):
        assert [model.id for model in client.client.models.list()] == ["scripted"]
