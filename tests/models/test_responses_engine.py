"""Anthropic Messages and OpenAI Responses against llama.cpp's own server: what it does, never what a model says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fakes import FunctionTool
from http_fakes import request, shown
from small_model import small_model
from test_contract import ask, run

from agentnb.core.limits import Limits
from agentnb.core.messages import Message, ToolCall
from agentnb.core.model import Delta
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError
from agentnb.instructions import Instructions
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.embedded import EmbeddedModel
from agentnb.models.engine_process import EngineSettings, Running, shared
from agentnb.models.responses import ResponsesModel
from agentnb.models.weights import find

pytestmark = [pytest.mark.slow, pytest.mark.weights, pytest.mark.timeout(300)]
MODELS = {"anthropic": AnthropicModel, "responses": ResponsesModel}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = ToolSpec("get_weather", "Current temperature of a city.", CITY)
FEW = {"max_tokens": 12}

dialects = pytest.mark.parametrize("dialect", MODELS)


def served(settings: EngineSettings) -> Iterator[Callable[..., Any]]:
    """Makes models of this engine; the engine ends with the module."""
    running: Running = asyncio.run(shared(settings).running())
    yield lambda dialect, key=running.key: MODELS[dialect]("local", f"{running.url}/v1", key)
    shared(settings).stop()


@pytest.fixture(scope="module")
def small() -> Iterator[Callable[..., Any]]:
    """The small model's engine."""
    yield from served(EmbeddedModel(small_model(), threads=2, context=1024).settings())


@pytest.fixture(scope="module")
def coder() -> Iterator[Callable[..., Any]]:
    """The engine of the default model, which calls tools; skipped until its weights were fetched."""
    if find() is None:
        pytest.skip("no weights: python -m agentnb fetch-model")
    yield from served(EmbeddedModel().settings())


@dialects
def test_whole_and_streamed(small, dialect):
    """At temperature 0 both are the same text, with usage; the pieces are the text."""
    deltas: list[Delta] = []
    model = small(dialect)
    whole, streamed = ask(model, request(parameters=FEW)), ask(model, request(parameters=FEW), deltas)

    assert whole.text == streamed.text == shown(deltas) != ""
    assert (whole.usage.input, whole.usage.output) == (streamed.usage.input, streamed.usage.output)
    assert whole.usage.output > 0
    assert whole.raw is not None


@dialects
@pytest.mark.parametrize("streamed", [False, True])
def test_a_history_with_tools_is_taken(small, dialect, streamed):
    """System prompt, tools, calls beside text, two results and a text after them."""
    history = [
        Message("system", "Be brief."),
        Message("user", "Oslo and Rome?"),
        Message(
            "assistant",
            "Let me see.",
            (ToolCall("c1", "get_weather", '{"city": "Oslo"}'), ToolCall("c2", "get_weather")),
        ),
        Message("tool", "4", call_id="c1"),
        Message("tool", "ValueError: no city", call_id="c2"),
        Message("user", "Well?"),
    ]
    reply = ask(small(dialect), request(*history, specs=(WEATHER,), parameters=FEW), [] if streamed else None)

    assert reply.usage.input > 20


@dialects
def test_connections_are_used_again(small, dialect):
    """The server closes some connections after a streamed reply without a word; no call is lost by that."""

    async def many() -> list[Any]:
        model = small(dialect)
        asked = request("Say yes.", parameters={"max_tokens": 1})
        return [await model.reply(asked, lambda delta: None) for _ in range(40)]

    replies = asyncio.run(many())
    assert all(reply.usage is not None for reply in replies)
    assert all(note.startswith("waiting 0 s") for reply in replies for note in reply.notes)


@dialects
@pytest.mark.parametrize("streamed", [False, True])
def test_too_long_a_prompt(small, dialect, streamed):
    """It has its own kind of error."""
    with pytest.raises(ModelError) as error:
        ask(small(dialect), request("word " * 2000), [] if streamed else None)
    assert error.value.kind == "context_too_long"


@dialects
def test_a_wrong_key(small, dialect):
    """It is told as such, after one request."""
    with pytest.raises(ModelError) as error:
        ask(small(dialect, "wrong-key-123"))
    assert (error.value.kind, error.value.retryable) == ("auth", False)


@dialects
@pytest.mark.parametrize("streamed", [False, True])
def test_a_real_tool_call(coder, dialect, streamed):
    """A forced call comes as a call with its argument, is run, and its result is taken in the next request."""
    tool = FunctionTool(lambda city: "4", "get_weather")
    tool.spec = WEATHER
    instructions = Instructions("Use the tools.", parameters={"tool_choice": "required", "max_tokens": 32})
    before = State.start("What is the temperature in Oslo?")
    last = run(coder(dialect), [tool], streamed, before, instructions=instructions, limits=Limits(steps=2))
    first = last.steps[0]

    assert tool.started[0] == {"city": "Oslo"}
    assert (first.reply.finish, first.results[0].content) == ("tool_calls", "4")
    assert last.steps[1].reply.usage.input > first.reply.usage.input
