from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from small_model import small_model

from agentnb.core.messages import Message, ToolCall, user
from agentnb.core.model import Delta, ModelReply, ModelRequest, Prompt
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError, SettingsError
from agentnb.models.embedded import (
    AGAIN,
    STARTING,
    WARMING,
    EmbeddedModel,
    load_examples,
    load_system_prompt,
)
from agentnb.models.engine_process import EngineSettings, Running, shared, start
from agentnb.models.weights import DATA

pytestmark = pytest.mark.timeout(300)
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def request(text: str = "Say hello.", **more: object) -> ModelRequest:
    """One user message, with at most 12 tokens of reply."""
    return ModelRequest(**{"prompt": Prompt([user(text)]), "end": 1, "parameters": {"max_tokens": 12}, **more})  # type: ignore[arg-type]


def running_of(model: EmbeddedModel) -> Running:
    """The process that serves this model now."""
    return asyncio.run(shared(model.settings()).running())


# ── without an engine ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def nothing_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without weights."""
    monkeypatch.setenv("AGENTNB_CACHE", str(tmp_path))
    monkeypatch.setenv("AGENTNB_GGUF", "")


@pytest.mark.usefixtures("nothing_fetched")
def test_missing_weights_name_the_three_ways_on() -> None:
    """Without weights the person is told how to fetch them, and of a key and a local server."""
    with pytest.raises(SettingsError, match=r"fetch-model; or .*a key.* or a local server.*ollama"):
        asyncio.run(EmbeddedModel().reply(request()))


@pytest.mark.usefixtures("nothing_fetched")
@pytest.mark.parametrize(
    ("path", "text"),
    [("small", "fetch-model --model small"), ("/no/such.gguf", "'/no/such.gguf', but there is no such file")],
)
def test_missing_file_is_named(path: str, text: str) -> None:
    """A name is answered with the command that fetches it, a path with the path."""
    with pytest.raises(SettingsError) as caught:
        EmbeddedModel(path).settings()

    assert text in str(caught.value)


def test_missing_file_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong AGENTNB_GGUF is not silently replaced by other weights."""
    monkeypatch.setenv("AGENTNB_GGUF", "/no/such.gguf")

    with pytest.raises(SettingsError, match=r"AGENTNB_GGUF names '/no/such\.gguf'"):
        EmbeddedModel().settings()


@pytest.mark.parametrize(("name", "fenced"), [("Qwen2.5-Coder-7B-q4.gguf", True), ("Llama-3.gguf", False)])
def test_the_coder_gets_its_own_template(name: str, fenced: bool, tmp_path: Path) -> None:
    """The template in the coder's file breaks tool calls; any other file keeps the one that it holds."""
    (tmp_path / name).write_bytes(b"GGUF")

    template = EmbeddedModel(tmp_path / name).settings().template

    assert ("```json" in template) is fenced


def test_a_model_travels_by_pickle() -> None:
    """To another process goes the name, not the engine."""
    copy = pickle.loads(pickle.dumps(EmbeddedModel("small", context=512)))

    assert (copy.path, copy.name, copy.context) == ("small", "local", 512)


def test_examples_use_only_the_tools_that_are_there() -> None:
    """The worked examples end in answers; those with a tool that an agent lacks can be left out."""
    assert len(load_examples()) == 4
    assert {step.tool for each in load_examples(["calculator"]) for step in each.steps} == {"calculator"}
    assert max(len(each.steps) for each in load_examples()) == 3
    assert "tool" in load_system_prompt()


# ── with the small model: what a real server does, never what it says ────────────────────────────────────────────────


@pytest.fixture(scope="module")
def model() -> Iterator[EmbeddedModel]:
    """The small model, one engine for this module."""
    made = EmbeddedModel(small_model(), threads=2, context=1024)
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.weights
def test_whole_reply_has_text_and_usage(model: EmbeddedModel) -> None:
    """A reply in one piece: text, tokens in and out, the name it was asked by, what was sent."""
    reply = asyncio.run(model.reply(request()))

    assert reply.text
    assert reply.usage is not None
    assert (reply.usage.input or 0) > 0
    assert (reply.model, reply.finish in ("stop", "length")) == ("local", True)
    assert reply.request is not None
    sent = reply.request.json()
    assert set(sent) == {"model", "messages", "max_tokens"}
    assert sent["model"] == reply.answered_as == "SmolLM2-135M-Instruct.Q4_1"


@pytest.mark.slow
@pytest.mark.weights
def test_streamed_reply_is_the_sum_of_its_pieces(model: EmbeddedModel) -> None:
    """Streamed, with usage from the last chunk; at temperature 0 it is the same text as whole."""
    pieces: list[Delta] = []
    streamed = asyncio.run(model.reply(request(), pieces.append))
    whole = asyncio.run(model.reply(request()))

    assert "".join(piece.text for piece in pieces if piece.kind == "text") == streamed.text == whole.text
    assert streamed.usage is not None
    assert streamed.usage.output == whole.usage.output  # type: ignore[union-attr]  # asserted in the test above


@pytest.mark.slow
@pytest.mark.weights
def test_cancel_ends_the_job_on_the_server(model: EmbeddedModel) -> None:
    """After a cancel in the middle of a long reply the one slot is free: the next call is answered at once."""

    async def cancelled() -> int:
        arrived = asyncio.Event()
        long = request("Count to ten thousand.", parameters={"max_tokens": 900, "ignore_eos": True})
        task = asyncio.ensure_future(model.reply(long, lambda delta: arrived.set() if delta.kind == "text" else None))
        await arrived.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        async with asyncio.timeout(60):
            after = await model.reply(request(parameters={"max_tokens": 1}))
        assert after.usage is not None
        return after.usage.output or 0

    assert asyncio.run(cancelled()) == 1


@pytest.mark.slow
@pytest.mark.weights
def test_schema_makes_the_reply_valid(model: EmbeddedModel) -> None:
    """With a JSON Schema even the smallest model writes JSON of that shape."""
    reply = asyncio.run(model.reply(request("Where?", schema=CITY, parameters={"max_tokens": 60})))

    assert set(json.loads(reply.text)) == {"city"}


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.parametrize("streamed", [False, True])
def test_too_long_prompt_has_its_own_kind(model: EmbeddedModel, streamed: bool) -> None:
    """A prompt over the context is told as such, also when streaming."""
    on_delta = (lambda delta: None) if streamed else None
    with pytest.raises(ModelError) as caught:
        asyncio.run(model.reply(request("word " * 2000), on_delta))

    assert caught.value.kind == "context_too_long"


@pytest.mark.slow
@pytest.mark.weights
def test_bad_parameter_is_the_servers_error(model: EmbeddedModel) -> None:
    """A 4xx answer is a ModelError with the status and the server's words; it is not tried again."""
    with pytest.raises(ModelError) as caught:
        asyncio.run(model.reply(request(parameters={"tool_choice": "nonsense"}, specs=(ToolSpec("a"),))))

    assert (caught.value.kind, caught.value.retryable) == ("bad_request", False)


@pytest.mark.slow
@pytest.mark.weights
def test_prefix_is_sent_once(model: EmbeddedModel) -> None:
    """A new prefix is warmed up with a note, and is then in the cache for every run."""
    preamble = (Message("system", "You answer in one word. " * 20),)
    notes: list[list[str]] = []
    for text in ("one", "two"):
        heard: list[Delta] = []
        reply = asyncio.run(model.reply(request(text, preamble=preamble), heard.append))
        notes.append([delta.text for delta in heard if delta.kind == "note"])
        assert reply.usage is not None
        assert (reply.usage.cached_input or 0) > 90

    assert notes[0][-1:] == [WARMING]
    assert notes[1] == []


@pytest.mark.slow
@pytest.mark.weights
def test_two_runs_share_one_process(model: EmbeddedModel) -> None:
    """Two requests at once, and one from a later loop, are answered by the same process."""

    async def both() -> list[ModelReply]:
        return list(await asyncio.gather(model.reply(request("one")), model.reply(request("two"))))

    before = running_of(model)
    replies = asyncio.run(both())
    asyncio.run(EmbeddedModel(small_model(), threads=2, context=1024).reply(request("three")))

    assert all(reply.text for reply in replies)
    assert running_of(model) is before


@pytest.mark.slow
@pytest.mark.weights
def test_killed_engine_is_started_again(model: EmbeddedModel) -> None:
    """When the process is killed in the middle of a reply, the call begins again on a new one, and says so."""
    heard: list[Delta] = []
    first = running_of(model)

    def kill_once(delta: Delta) -> None:
        heard.append(delta)
        if delta.kind == "text" and first.alive:
            first.process.kill()
            first.process.wait()

    long = request("Tell a story.", parameters={"max_tokens": 200, "ignore_eos": True})
    reply = asyncio.run(model.reply(long, kill_once))

    assert [delta.text for delta in heard if delta.kind in ("restart", "note")] == ["", AGAIN, STARTING]
    last = max(place for place, delta in enumerate(heard) if delta.kind == "restart")
    assert "".join(delta.text for delta in heard[last:] if delta.kind == "text") == reply.text
    assert running_of(model) is not first


@pytest.mark.slow
@pytest.mark.weights
def test_engine_that_dies_twice_is_given_up() -> None:
    """A second death in the same call is an error that names the likely cause."""
    model = EmbeddedModel(small_model(), threads=1, context=512)

    def kill(delta: Delta) -> None:
        if delta.kind == "text":
            running = shared(model.settings())._latest
            assert running is not None
            running.result().process.kill()

    long = request("Tell a story.", parameters={"max_tokens": 200, "ignore_eos": True})
    with pytest.raises(ModelError, match=r"ended twice .*memory") as caught:
        asyncio.run(model.reply(long, kill))

    assert caught.value.kind == "connection"
    assert caught.value.partial
    model.stop()


@pytest.mark.slow
@pytest.mark.weights
def test_template_shows_each_result_with_its_call() -> None:
    """The coder's template names the call before a result: after a bare number it forgot what the number was.

    An id that comes again in a later round belongs to the newer call.
    """
    template = (DATA / "qwen-fence.jinja").read_text("utf-8")
    running = start(EngineSettings(str(small_model()), template, 512, threads=1))
    wanted = [ToolCall("a", "look_up", '{"city": "Oslo"}'), ToolCall("b", "look_up", '{"city": "Rome"}')]
    again = ToolCall("a", "add", '{"x": 1}')
    history = [
        user("Add them."),
        Message("assistant", None, tuple(wanted)),
        Message("tool", "8.0", call_id="a"),
        Message("tool", "25.0", call_id="b"),
        Message("assistant", None, (again,)),
        Message("tool", "33.0", call_id="a"),
    ]
    try:
        body = {"messages": [message.wire for message in history]}
        headers = {"authorization": f"Bearer {running.key}"}
        prompt = httpx.post(f"{running.url}/apply-template", json=body, headers=headers).json()["prompt"]
    finally:
        running.stop()

    assert 'Tool results:\nlook_up({"city": "Oslo"}) = 8.0\nlook_up({"city": "Rome"}) = 25.0<|im_end|>' in prompt
    assert 'Tool results:\nadd({"x": 1}) = 33.0<|im_end|>' in prompt
