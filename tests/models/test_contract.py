"""What every Model does, whichever dialect it speaks; a new one is a new row of HTTP (or of MODELS)."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fakes import FunctionTool, add, collect, runtime_for
from http_fakes import KEY, SSE, Waits, request, shown
from native_forms import gemini_answer, gemini_told, ollama_answer, ollama_told

from agentnb.core.limits import StopReason
from agentnb.core.messages import user
from agentnb.core.model import Delta, ModelReply, ModelRequest, Prompt
from agentnb.core.state import State
from agentnb.errors import ModelError
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.gemini import GeminiModel
from agentnb.models.ollama import OllamaModel
from agentnb.models.responses import ResponsesModel
from agentnb.models.scripted import CallableModel, ScriptedModel
from agentnb.models.server import Raw, Received, ScriptedServer
from agentnb.models.server_http import send
from agentnb.planners.json_plan import JSONPlanner

WIRE = Path(__file__).parents[1] / "fixtures" / "wire"
Told = tuple[Any, ...]
"""One thing said in a request: ("user", text), ("call", id, name, arguments), ("result", id, text)."""


@dataclass(frozen=True)
class Say:
    """What a model is to answer, in no dialect."""

    text: str = ""
    calls: tuple[tuple[str | None, str, dict[str, Any]], ...] = ()
    """Id, name and arguments."""
    reasoning: str = ""
    finish: str = "stop"
    """"stop", "length" or "refusal"."""
    usage: tuple[int, int] | None = (5, 3)


ANSWER = Say("It is 3.")
SUM = Say(calls=(("c1", "add", {"a": 1, "b": 2}),))
BOTH = Say("Let me see.", (("c1", "add", {"a": 1, "b": 2}), ("c2", "add", {"a": 3, "b": 4})), "Two sums.")


class AnyPathServer(ScriptedServer):
    """The scripted server, answering whatever the path: a script of `Raw` serves any dialect."""

    async def _respond(self, received: Any, writer: Any) -> bool:
        answer = await self._answer(received)
        await send(answer, writer)
        return not answer.cut


# ── chat completions, also the form of the models without a network ──────────────────────────────────────────────────


def chat_message(say: Say) -> dict[str, Any]:
    """The answer as an assistant message."""
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
    if say.finish == "refusal":
        message = {**message, "content": None, "refusal": say.text}
    if say.reasoning:
        message["reasoning_content"] = say.reasoning
    if say.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for id, name, arguments in say.calls
        ]
    return message


def chat_answer(say: Say, streamed: bool) -> Raw:
    """The answer as chat completions."""
    message, finish = chat_message(say), "stop" if say.finish == "refusal" else say.finish
    usage = say.usage and {"prompt_tokens": say.usage[0], "completion_tokens": say.usage[1]}
    if not streamed:
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return Raw({"choices": [choice], "usage": usage})
    deltas = [{key: value} for key, value in message.items() if value and key != "tool_calls"]
    if say.text and say.finish != "refusal":
        deltas = [each for each in deltas if "content" not in each] + [{"content": part} for part in halves(say.text)]
    for index, call in enumerate(message.get("tool_calls", ())):
        first, second = halves(call["function"]["arguments"])
        begun = {**call, "index": index, "function": {**call["function"], "arguments": first}}
        deltas += [{"tool_calls": [begun]}, {"tool_calls": [{"index": index, "function": {"arguments": second}}]}]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}]
    return stream(*chunks, "[DONE]")


def chat_told(body: Mapping[str, Any]) -> list[Told]:
    """What a request in this dialect says."""
    told: list[Told] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            told.append(("result", message["tool_call_id"], message["content"]))
        elif message["content"]:
            told.append((message["role"], message["content"]))
        for call in message.get("tool_calls", ()):
            function = call["function"]
            told.append(("call", call["id"], function["name"], json.loads(function["arguments"])))
    return told


# ── Anthropic Messages ───────────────────────────────────────────────────────────────────────────────────────────────


def anthropic_answer(say: Say, streamed: bool) -> Raw:
    """The answer as a message of Anthropic."""
    blocks: list[dict[str, Any]] = []
    if say.reasoning:
        blocks.append({"type": "thinking", "thinking": say.reasoning, "signature": "c2ln"})
    if say.text and say.finish != "refusal":
        blocks.append({"type": "text", "text": say.text})
    blocks += [{"type": "tool_use", "id": id, "name": name, "input": input} for id, name, input in say.calls]
    stop = {"length": "max_tokens", "refusal": "refusal"}.get(say.finish, "tool_use" if say.calls else "end_turn")
    details = {"type": "refusal", "explanation": say.text} if say.finish == "refusal" else None
    end = {"stop_reason": stop, "stop_details": details}
    usage = say.usage and {"input_tokens": say.usage[0], "output_tokens": say.usage[1]}
    message = {"type": "message", "role": "assistant", "content": blocks, **end, "usage": usage}
    if not streamed:
        return Raw(message)
    events: list[Any] = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
    for index, block in enumerate(blocks):
        empty, deltas = block_pieces(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    return stream(*events, {"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"})


def block_pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block begins, and the deltas that fill it."""
    if block["type"] == "tool_use":
        parts = ["", *halves(json.dumps(block["input"]))]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
    name = block["type"]
    deltas = [{"type": f"{name}_delta", name: part} for part in halves(block[name])]
    if name == "thinking":
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return {"type": name, name: "", **({"signature": ""} if name == "thinking" else {})}, deltas


def anthropic_told(body: Mapping[str, Any]) -> list[Told]:
    """What a request says, after checking that turns alternate and that results stand first in theirs."""
    told: list[Told] = [("system", body["system"])] if "system" in body else []
    turns = body["messages"]
    assert all(one["role"] != other["role"] for one, other in pairwise(turns))
    for turn in turns:
        kinds = [block["type"] for block in turn["content"]]
        assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")
        for block in turn["content"]:
            if block["type"] == "text":
                told.append((turn["role"], block["text"]))
            elif block["type"] == "tool_use":
                told.append(("call", block["id"], block["name"], block["input"]))
            elif block["type"] == "tool_result":
                told.append(("result", block["tool_use_id"], block["content"]))
    return told


# ── OpenAI Responses ─────────────────────────────────────────────────────────────────────────────────────────────────


def responses_answer(say: Say, streamed: bool) -> Raw:
    """The answer as a response."""
    items: list[dict[str, Any]] = []
    if say.reasoning:
        items.append({"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": say.reasoning}]})
    if say.text:
        refused = say.finish == "refusal"
        part = {"type": "refusal", "refusal": say.text} if refused else {"type": "output_text", "text": say.text}
        items.append({"type": "message", "id": "m", "role": "assistant", "content": [part]})
    for id, name, arguments in say.calls:
        call = {"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(arguments)}
        items.append({**call, "id": f"fc_{id}"})
    cut = say.finish == "length"
    response = {
        "object": "response",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "output": items,
        "usage": say.usage and {"input_tokens": say.usage[0], "output_tokens": say.usage[1]},
    }
    if not streamed:
        return Raw(response)
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "output": []}}]
    for index, item in enumerate(items):
        events += [{**event, "output_index": index} for event in item_events(item)]
    events.append({"type": f"response.{response['status']}", "response": response})
    return stream(*({**event, "sequence_number": number} for number, event in enumerate(events)))


def item_events(item: dict[str, Any]) -> list[dict[str, Any]]:
    """The events that an item makes."""
    kinds = {
        "reasoning": "response.reasoning_summary_text.delta",
        "output_text": "response.output_text.delta",
        "refusal": "response.refusal.delta",
        "function_call": "response.function_call_arguments.delta",
    }
    part = item["content"][0] if item["type"] == "message" else item
    text = part.get("text") or part.get("refusal") or part.get("arguments") or item["summary"][0]["text"]
    empty = {**item, **{name: [] for name in ("content", "summary") if name in item}}
    deltas = [{"type": kinds[part["type"]], "delta": piece} for piece in halves(text)]
    begun, done = {"type": "response.output_item.added", "item": empty}, {"type": "response.output_item.done"}
    return [begun, *deltas, {**done, "item": item}]


def responses_told(body: Mapping[str, Any]) -> list[Told]:
    """What a request in this dialect says."""
    told: list[Told] = [("system", body["instructions"])] if "instructions" in body else []
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "function_call":
            told.append(("call", item["call_id"], item["name"], json.loads(item["arguments"])))
        elif kind == "function_call_output":
            told.append(("result", item["call_id"], item["output"]))
        elif kind == "message":
            content = item["content"]
            told.append((item["role"], content if isinstance(content, str) else content[0].get("text", "")))
    return told


def halves(text: str) -> tuple[str, str]:
    """The text in two pieces."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def stream(*payloads: Any) -> Raw:
    """An event stream; each event has the name that its payload has as its type."""
    frames = []
    for payload in payloads:
        name = f"event: {payload['type']}\n" if isinstance(payload, dict) and "type" in payload else ""
        text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        frames.append(f"{name}data: {text}\n\n".encode())
    return Raw(pieces=frames, headers=SSE)


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Opened:
    """A model with a script before it."""

    model: Any
    told: Callable[[], list[list[Told]]]
    """What each request said."""
    server: ScriptedServer | None = None


@dataclass(frozen=True)
class Dialect:
    """A model over HTTP: how it is made, what its server answers, what its requests say."""

    name: str
    make: Callable[..., Any]
    answer: Callable[[Say, bool], Raw]
    told: Callable[[Mapping[str, Any]], list[Told]]
    required: frozenset[str] = frozenset()
    """Fields that it sends besides the model and the conversation."""
    refuses: bool = True
    """Has a word for a refusal."""

    @contextmanager
    def open(self, script: Sequence[Any], waits: Waits | None = None, **options: Any) -> Iterator[Opened]:
        """The model, and a server that plays the script: a Say, a Raw, or a function of Say's streamed Raw."""
        waits = waits or Waits()
        with AnyPathServer([self.served(entry) for entry in script]) as server:
            model = self.make("m", server.url, options.pop("api_key", KEY), **options)
            model.transport = replace(model.transport, sleep=waits, clock=waits.clock, chance=lambda: 0.0)
            yield Opened(model, lambda: [self.told(each.json()) for each in server.requests], server)

    def served(self, entry: Any) -> Any:
        """The entry as this dialect's server plays it."""
        if isinstance(entry, Say):
            return lambda received: self.answer(entry, wants_stream(received))
        return (lambda received: entry(self.answer)) if callable(entry) else entry


def wants_stream(received: Received) -> bool:
    """Whether a request asks for a stream: in its body or in its address."""
    return bool(received.json().get("stream")) or ":stream" in received.path


@dataclass(frozen=True)
class Local:
    """A model without a network."""

    name: str
    make: Callable[[list[Any]], Any]

    @contextmanager
    def open(self, script: Sequence[Any]) -> Iterator[Opened]:
        """The model; it remembers its requests."""
        asked: list[ModelRequest] = []

        def answering(entry: Say) -> Callable[[ModelRequest], Any]:
            def answer(request: ModelRequest) -> Any:
                asked.append(request)
                usage = entry.usage and {"prompt_tokens": entry.usage[0], "completion_tokens": entry.usage[1]}
                finish = ("tool_calls" if entry.calls else "stop") if entry.finish == "stop" else entry.finish
                return {**chat_message(entry), "usage": usage, "finish_reason": finish}

            return answer

        yield Opened(self.make([answering(entry) for entry in script]), lambda: [chat_told(r.json()) for r in asked])


def callable_model(script: list[Any]) -> CallableModel:
    """One function that plays the script."""
    entries = iter(script)
    return CallableModel(lambda request: next(entries)(request))


HTTP = (
    Dialect("chat completions", ChatCompletionsModel, chat_answer, chat_told),
    Dialect("anthropic", AnthropicModel, anthropic_answer, anthropic_told, frozenset({"max_tokens"})),
    Dialect("responses", ResponsesModel, responses_answer, responses_told, frozenset({"store", "include"})),
    Dialect("gemini", GeminiModel, gemini_answer, gemini_told),
    Dialect("ollama", OllamaModel, ollama_answer, ollama_told, frozenset({"stream"}), refuses=False),
)
LOCAL = (Local("scripted", ScriptedModel), Local("callable", callable_model))
MODELS = (*HTTP, *LOCAL)


def rows(models: Sequence[Any]) -> list[Any]:
    """The models as parameters: of the dialects only the first is quick enough for every small change."""
    return [pytest.param(row, marks=pytest.mark.slow) if row in HTTP[1:] else row for row in models]


every = pytest.mark.parametrize("row", rows(MODELS), ids=lambda row: row.name)
over_http = pytest.mark.parametrize("row", rows(HTTP), ids=lambda row: row.name)
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def ask(model: Any, asked: ModelRequest | None = None, deltas: list[Delta] | None = None) -> ModelReply:
    """One question; streamed when there is a list for the pieces."""
    reply: ModelReply = asyncio.run(model.reply(asked or request(), None if deltas is None else deltas.append))
    return reply


def run(
    model: Any, tools: Sequence[Any] = (add,), streamed: bool = False, state: Any = "the goal", **options: Any
) -> State:
    """The last State of a run."""
    listeners = [lambda event: None] if streamed else []
    return asyncio.run(collect(runtime_for(model, tools, middleware=listeners, **options), state))[-1]


def check_rounds(told: Sequence[Told]) -> None:
    """Every call has exactly one result, in call order, before anything else is said; no id is there twice."""
    place = 0
    while place < len(told):
        calls = [each for each in told[place:] if each[0] == "call"] if told[place][0] == "call" else []
        calls = calls[: next((n for n, each in enumerate(told[place:]) if each[0] != "call"), len(told))]
        results = told[place + len(calls) : place + 2 * len(calls)]
        ids = [call[1] for call in calls]
        assert all(ids)
        assert len(set(ids)) == len(ids)
        assert [(each[0], each[1]) for each in results] == [("result", id) for id in ids]
        assert calls or told[place][0] != "result", f"a result without its call: {told[place]}"
        place += 2 * len(calls) or 1


# ── replies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@every
@both_ways
def test_a_text(row, streamed):
    """Text, finish, usage, the model's name, and the request that was sent."""
    with row.open([ANSWER]) as opened:
        reply = ask(opened.model, deltas=[] if streamed else None)

    assert (reply.text, reply.calls, reply.finish, reply.refusal) == ("It is 3.", (), "stop", None)
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.output, reply.usage.total) == (5, 3, 8)
    assert reply.model == opened.model.name != ""
    assert ("user", "hello") in opened.told()[0]


@every
@both_ways
def test_calls(row, streamed):
    """Calls beside text, in order, with their ids; reasoning apart."""
    with row.open([BOTH]) as opened:
        reply = ask(opened.model, deltas=[] if streamed else None)

    assert (reply.text, reply.reasoning, reply.finish) == ("Let me see.", "Two sums.", "tool_calls")
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls] == list(BOTH.calls)


@over_http
@pytest.mark.parametrize(
    "say",
    [
        ANSWER,
        SUM,
        BOTH,
        Say("Half a", finish="length"),
        Say(calls=SUM.calls, finish="length"),
        Say("No.", finish="refusal"),
        Say('a \u2028 b \u0085 你好🙂 \\ " { \x7f'),
        Say("x", usage=None),
        Say(),
    ],
    ids=lambda say: say.text[:8] or str(len(say.calls)),
)
def test_whole_and_streamed_are_equal(row, say):
    """The same content gives the same reply, and the pieces that were told are its text."""
    deltas: list[Delta] = []
    with row.open([say, say]) as opened:
        whole, streamed = ask(opened.model), ask(opened.model, deltas=deltas)

    assert whole == streamed
    assert (whole.raw, whole.origin) == (streamed.raw, streamed.origin) or row.name == "chat completions"
    assert shown(deltas) == streamed.text
    assert "".join(delta.text for delta in deltas if delta.kind == "reasoning") == streamed.reasoning
    assert [delta.text for delta in deltas if delta.kind == "call"] == [call.name for call in streamed.calls]


@over_http
def test_a_server_that_does_not_stream(row):
    """One that ignores the wish answers in one piece, which is told at once."""
    deltas: list[Delta] = []
    with row.open([lambda answer: answer(BOTH, False)]) as opened:
        reply = ask(opened.model, deltas=deltas)

    assert shown(deltas) == reply.text == BOTH.text
    assert len(reply.calls) == len([delta for delta in deltas if delta.kind == "call"]) == 2


@over_http
def test_a_server_that_streams_unasked(row):
    """It is understood as well."""
    with row.open([lambda answer: answer(BOTH, True), BOTH]) as opened:
        assert ask(opened.model) == ask(opened.model)


@every
@pytest.mark.parametrize("text", ["a \u2028 b", "你好🙂", '{x} %s \\frac "quoted"', "tab\tand\nline\r\nend", "\x00"])
def test_text_goes_out_as_it_is(row, text):
    """Nothing on the way changes a text."""
    with row.open([Say(text)]) as opened:
        reply = ask(opened.model, request(text))

    assert ("user", text) in opened.told()[0]
    assert reply.text == text


@every
def test_unknown_usage_is_none(row):
    """What a provider does not say is not 0."""
    with row.open([Say("x", usage=None)]) as opened:
        assert ask(opened.model).usage is None


@every
def test_a_reply_travels_by_pickle(row):
    """With it goes what was sent, as exact JSON."""
    with row.open([BOTH]) as opened:
        reply = ask(opened.model)
    copy = pickle.loads(pickle.dumps(reply))

    assert copy == reply
    assert (copy.raw, copy.request.json()) == (reply.raw, reply.request.json())


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@every
@both_ways
def test_a_run(row, streamed):
    """Two rounds of tools and an answer; every request holds a valid history that only grows."""
    with row.open([BOTH, SUM, ANSWER]) as opened:
        last = run(opened.model, streamed=streamed)

    assert (last.answer, last.counters.steps) == ("It is 3.", 3)
    asked = opened.told()
    for told in asked:
        check_rounds(told)
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(asked))
    assert [each[2] for each in asked[-1] if each[0] == "result"] == ["3", "7", "3"]


@every
@both_ways
@pytest.mark.parametrize("ids", [("t", "t", "t"), ("", "", ""), (None, None, None)], ids=["same", "empty", "none"])
def test_ids_that_can_not_be_told_apart(row, streamed, ids):
    """Each call runs once and gets its own result; the history has three different ids."""
    started: list[str] = []

    def look(city: str) -> str:
        started.append(city)
        return city.upper()

    say = Say(calls=tuple((id, "look", {"city": city}) for id, city in zip(ids, ("a", "b", "c"), strict=True)))
    with row.open([say, ANSWER]) as opened:
        run(opened.model, [look], streamed)

    told = opened.told()[1]
    check_rounds(told)
    assert sorted(started) == ["a", "b", "c"]
    assert [each[2] for each in told if each[0] == "result"] == ["A", "B", "C"]


@every
@both_ways
def test_calls_that_were_cut_off(row, streamed):
    """At the length limit no call runs; the model is told so, in a valid history."""
    tool = FunctionTool(add)
    with row.open([Say(calls=SUM.calls, finish="length"), ANSWER]) as opened:
        last = run(opened.model, [tool], streamed)

    assert (tool.started, last.answer) == ([], "It is 3.")
    check_rounds(opened.told()[1])
    assert "length limit" in opened.told()[1][-1][2]


@pytest.mark.parametrize(
    "row", rows([row for row in MODELS if getattr(row, "refuses", True)]), ids=lambda row: row.name
)
@both_ways
def test_a_refusal(row, streamed):
    """It ends the run as refused, with the model's words, after one request; where a dialect has a form for it."""
    with row.open([Say("I can't help with that.", finish="refusal")]) as opened:
        last = run(opened.model, streamed=streamed)

    assert last.stop is StopReason.REFUSED
    assert "I can't help with that." in last.detail
    assert len(opened.told()) == 1


@every
def test_an_empty_reply(row):
    """It is no success: asked once more, then the run ends and says so."""
    with row.open([Say(), Say()]) as opened:
        assert run(opened.model).stop is StopReason.EMPTY_REPLY
    assert len(opened.told()) == 2


@every
def test_plans_as_text(row):
    """Calls and results of a JSON plan are ordinary text, in the roles of user and assistant."""
    plan = '{"reasoning": "I add.", "tool": "add", "args": {"a": 1, "b": 2}}'
    with row.open([Say(plan), Say('{"reasoning": "Done.", "answer": "3"}')]) as opened:
        last = run(opened.model, planner=JSONPlanner())

    assert last.answer == "3"
    assert [each[0] for each in opened.told()[1]] == ["system", "user", "assistant", "user"]
    assert opened.told()[1][-2:] == [("assistant", plan), ("user", 'Result of add({"a": 1, "b": 2}):\n3')]


@every
def test_many_at_once(row):
    """Calls side by side do not disturb each other."""
    says = [Say(f"number {number}") for number in range(12)]
    with row.open(says) as opened:

        async def all_of_them() -> list[ModelReply]:
            return list(await asyncio.gather(*(opened.model.reply(request()) for _ in says)))

        assert sorted(reply.text for reply in asyncio.run(all_of_them())) == sorted(say.text for say in says)


@pytest.mark.parametrize("first", rows(MODELS), ids=lambda row: row.name)
@pytest.mark.parametrize("second", rows(MODELS), ids=lambda row: f"to {row.name}")
def test_another_model_goes_on(first, second):
    """The history of one model is valid for any other: foreign reasoning is left out, ids and results still match."""
    odd = (("call.1|" + "x" * 80, "add", {"a": 1, "b": 2}), ("c 2", "add", {"a": 3, "b": 4}))
    with first.open([replace(BOTH, calls=odd, reasoning="a secret thought"), SUM, ANSWER]) as opened:
        before = run(opened.model)
    with second.open([SUM, ANSWER]) as other:
        after = run(other.model, state=before.at(2))

    assert after.answer == "It is 3."
    for told in other.told():
        check_rounds(told)
    assert [each[-1] for each in other.told()[1] if each[0] == "result"] == ["3", "7", "3"]
    if first is not second:
        assert "secret" not in json.dumps(after.steps[1].request)


@over_http
def test_the_request_is_on_the_step(row):
    """It is the exact JSON that arrived, for every step, and shares the prompt instead of copying it."""
    with row.open([BOTH, SUM, ANSWER]) as opened:
        last = run(opened.model)

    sent = [received.json() for received in opened.server.requests]
    assert [step.request for step in last.steps] == sent
    assert [step.request for step in pickle.loads(pickle.dumps(last)).steps] == sent
    assert last.steps[0].reply.request.request.prompt is last.prompt


@over_http
def test_only_what_was_set_is_sent(row):
    """The model, the conversation, and what the dialect requires."""
    with row.open([ANSWER, ANSWER]) as opened:
        ask(opened.model)
        ask(opened.model, deltas=[])
    whole, streamed = (set(received.json()) for received in opened.server.requests)

    around = {"model", "messages", "input", "contents"}
    assert whole - around == row.required
    assert whole & around
    assert streamed - whole <= {"stream", "stream_options"}


@over_http
def test_each_message_is_encoded_once(row):
    """The bytes of earlier messages are the same objects in the next request, so a step costs the same at any length."""
    messages = [user(f"message {number}") for number in range(50)]
    with row.open([]) as opened:
        opened.model.sent(ModelRequest(prompt=Prompt(messages), end=49)).body()
        before = [message._cache[1] for message in messages[:49]]
        opened.model.sent(ModelRequest(prompt=Prompt(messages), end=50)).body()

    assert all(message._cache[1] is kept for message, kept in zip(messages, before, strict=False))


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────────

SLOW_DOWN = Raw({"error": {"message": "slow down", "type": "rate_limit_error"}}, 429, {"retry-after": "2"})


@over_http
@both_ways
def test_a_rate_limit(row, streamed):
    """The wait that the server asks for is kept, told and noted; the call then succeeds."""
    waits, deltas = Waits(), []
    with row.open([SLOW_DOWN, ANSWER], waits) as opened:
        reply = ask(opened.model, deltas=deltas if streamed else None)

    assert waits.seconds == [2.0]
    assert reply.text == "It is 3."
    assert reply.notes[0].startswith("waiting 2 s: rate limit")
    assert [delta.kind for delta in deltas[:1]] == ["note"] * streamed


@over_http
@pytest.mark.parametrize(
    ("status", "kind", "requests"),
    [
        (400, "bad_request", 1),
        (401, "auth", 1),
        (402, "quota", 1),
        (404, "not_found", 1),
        (500, "server", 3),
        (529, "server", 3),
    ],
)
def test_error_statuses(row, status, kind, requests):
    """What can't get better is not tried again; the status and the server's words are told."""
    with (
        row.open([Raw({"error": {"message": "no such luck"}}, status)] * 3) as opened,
        pytest.raises(ModelError) as error,
    ):
        ask(opened.model)

    assert (error.value.kind, error.value.status) == (kind, status)
    assert "no such luck" in str(error.value)
    assert len(opened.server.requests) == requests


@pytest.mark.slow
@over_http
def test_a_stream_that_ends_early(row):
    """Wherever it is cut, the half answer is taken back and asked for anew; nothing is shown twice."""
    total = len(row.answer(BOTH, True).pieces)
    for kept in range(total - 2):
        for cut in (False, True):
            deltas: list[Delta] = []
            answer = row.answer(BOTH, True)
            with row.open([replace(answer, pieces=answer.pieces[:kept], cut=cut), BOTH]) as opened:
                reply = ask(opened.model, deltas=deltas)
            assert (reply.text, len(reply.calls)) == ("Let me see.", 2)
            assert shown(deltas) == "Let me see."
            assert "connection failed" in reply.notes[0]


@over_http
def test_a_stream_that_always_ends_early(row):
    """When no try succeeds, the error keeps the text that had come."""
    answer = row.answer(Say("It is 3."), True)
    half = replace(answer, pieces=answer.pieces[:-3])
    with row.open([half] * 3) as opened, pytest.raises(ModelError) as error:
        ask(opened.model, deltas=[])

    assert (error.value.kind, len(error.value.notes)) == ("connection", 2)
    assert error.value.partial in ("It i", "It is 3.")


@over_http
@pytest.mark.parametrize(
    "body",
    ["", "null", "[]", "{}", '"text"', "<!doctype html><p>hello", '{"choices": null, "content": null, "output": null}'],
)
@both_ways
def test_a_body_that_is_no_reply(row, body, streamed):
    """It is an error about the reply, never one of Python and never an empty success."""
    with row.open([Raw(body)] * 3) as opened, pytest.raises(ModelError) as error:
        ask(opened.model, deltas=[] if streamed else None)
    assert error.value.kind == "reply"


@over_http
@both_ways
def test_an_error_with_status_200(row, streamed):
    """An error object in a good answer counts like the status that it names."""
    broken = {"error": {"message": "worker is full", "code": 502}}
    with row.open([Raw(broken), stream(broken), ANSWER]) as opened:
        reply = ask(opened.model, deltas=[] if streamed else None)

    assert reply.text == "It is 3."
    assert all("worker is full" in note for note in reply.notes)
    assert len(opened.server.requests) == 3


@pytest.mark.slow
@over_http
def test_a_cancelled_call(row):
    """Cancelled in the middle of a stream, the model answers the next call as ever."""

    async def cancelled(model: Any) -> ModelReply:
        begun = asyncio.Event()
        task = asyncio.ensure_future(model.reply(request(), lambda delta: begun.set()))
        await asyncio.wait_for(begun.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        reply: ModelReply = await model.reply(request())
        return reply

    with row.open([lambda answer: replace(answer(BOTH, True), gap_seconds=0.3), ANSWER]) as opened:
        assert asyncio.run(cancelled(opened.model)).text == "It is 3."


@over_http
def test_no_key_is_shown(row):
    """Neither in the model's repr, nor in an error that repeats it."""
    with row.open([Raw({"error": {"message": f"wrong key {KEY}"}}, 401)]) as opened, pytest.raises(ModelError) as error:
        ask(opened.model)

    shown_texts = f"{opened.model!r} {error.value} {error.value!r}"
    assert not any(KEY[at : at + 8] in shown_texts for at in range(len(KEY) - 7))
    assert KEY in str(opened.server.requests[0].headers)
