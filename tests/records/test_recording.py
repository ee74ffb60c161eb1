"""Record model calls and replay them: matching, modes, misses, streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from fakes import FunctionTool, add, collect, runtime_for, several

from agentnb.core.messages import Message, ToolCall, Usage, user
from agentnb.core.middleware import Streamed
from agentnb.core.model import Delta, ModelReply, ModelRequest, Prompt, ask, doors
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError, RecordingError, SettingsError, UsageError
from agentnb.instructions import Instructions
from agentnb.models.scripted import ScriptedModel, calls
from agentnb.records.recording import AGAIN, Recording, active_recording, recording, stop_recording, use_recording


class NoModel:
    """A model that must not be asked."""

    def __init__(self, name: str = "scripted") -> None:
        self.name = name

    async def reply(self, request: ModelRequest, on_delta: Any = None) -> ModelReply:
        """Fail the test."""
        raise AssertionError("the model was asked")


class Streaming:
    """A model that sends these pieces, then this reply."""

    name = "streaming"

    def __init__(self, pieces: Sequence[Delta], reply: ModelReply) -> None:
        self.pieces, self.answer = pieces, reply

    async def reply(self, request: ModelRequest, on_delta: Any = None) -> ModelReply:
        """Pieces first."""
        for piece in self.pieces if on_delta else ():
            on_delta(piece)
        return self.answer


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_RECORDING", "")


def asking(*texts: str, **more: Any) -> ModelRequest:
    """A request with these user messages."""
    messages = [user(text) for text in texts]
    return ModelRequest(prompt=Prompt(messages), end=len(messages), **more)


def asked(model: Any, *requests: ModelRequest) -> list[str]:
    """The texts of the replies, asked one after the other."""

    async def all_of_them() -> list[str]:
        return [(await ask(model, request)).text for request in requests]

    return asyncio.run(all_of_them())


def ran(model: Any, goal: str = "2 + 3?", **options: Any) -> State:
    """The last State of a run with the tool `add`."""
    return asyncio.run(collect(runtime_for(model, [add], **options), goal))[-1]


TWO_STEPS = [calls("add", a=2, b=3), "It is 5."]


def test_a_replayed_run_equals_the_recorded_one(tmp_path):
    """Record, then replay without a model: the States are equal, the tools ran again."""
    path = tmp_path / "sum.jsonl"
    with recording(path) as first:
        recorded = ran(ScriptedModel(TWO_STEPS))
    tool = FunctionTool(add)
    with recording(path, mode="replay") as second:
        replayed = asyncio.run(collect(runtime_for(NoModel(), [tool]), "2 + 3?"))[-1]

    assert replayed == recorded
    assert replayed.answer == "It is 5."
    assert tool.started == [{"a": 2, "b": 3}]
    assert (first.recorded, first.replayed, second.recorded, second.replayed) == (2, 0, 0, 2)
    assert doors == []


def test_auto_replays_and_records_what_is_new(tmp_path):
    """In auto a known request is not asked again, an unknown one is asked and kept."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        asked(ScriptedModel(["one"]), asking("a"))
    with recording(path) as again:
        texts = asked(ScriptedModel(["two"]), asking("a"), asking("b"))

    assert texts == ["one", "two"]
    assert (again.replayed, again.recorded) == (1, 1)
    with recording(path, mode="replay"):
        assert asked(NoModel(), asking("b"), asking("a")) == ["two", "one"]


def test_what_is_new_is_told_once(tmp_path):
    """A reader learns that the model answered something that the file lacked; of a first recording nothing is said."""
    told: list[str] = []
    for goals in (("one",), ("one", "two", "three")):
        with recording(tmp_path / "r.jsonl") as opened:
            opened.on_new = told.append
            for goal in goals:
                ran(ScriptedModel(["an answer"]), goal)

    assert told == [f"not in {tmp_path / 'r.jsonl'}: the model answered, and its reply was added there"]


def test_the_same_request_is_kept_apart_by_how_often_it_was_asked(tmp_path):
    """The n-th equal request gets the n-th reply; one more than recorded is a miss that says so."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        asked(ScriptedModel(["one", "two"]), asking("a"), asking("a"))
    with recording(path, mode="replay"):
        assert asked(NoModel(), asking("a"), asking("a")) == ["one", "two"]
        with pytest.raises(RecordingError, match=r"asked 2 times in the recording, this is time 3"):
            asked(NoModel(), asking("a"))
    with recording(path, mode="replay"):
        assert asked(NoModel(), asking("a")) == ["one"]


def test_parallel_calls_may_come_in_the_other_order(tmp_path):
    """Two calls at once are told apart by what they ask."""
    path = tmp_path / "r.jsonl"

    async def both(model: Any, *texts: str) -> list[str]:
        replies = await asyncio.gather(*(ask(model, asking(text)) for text in texts))
        return [reply.text for reply in replies]

    def echo(request: ModelRequest) -> str:
        return request.messages[0]["content"].upper()

    with recording(path):
        asyncio.run(both(ScriptedModel([echo, echo]), "a", "b"))
    with recording(path, mode="replay"):
        assert asyncio.run(both(NoModel(), "b", "a")) == ["B", "A"]


def test_the_order_of_keys_does_not_matter(tmp_path):
    """A request is known by its content, not by how its JSON is written."""
    path = tmp_path / "r.jsonl"
    one = {"type": "object", "properties": {"a": {}, "b": {}}}
    other = {"properties": {"b": {}, "a": {}}, "type": "object"}
    with recording(path):
        asked(
            ScriptedModel(["one"]),
            asking("a", specs=(ToolSpec("t", "", one),), parameters={"x": 1, "y": 2}, schema=one),
        )
    with recording(path, mode="replay"):
        request = asking("a", specs=(ToolSpec("t", "", other),), parameters={"y": 2, "x": 1}, schema=other)
        assert asked(NoModel(), request) == ["one"]


def test_what_does_not_change_the_question_does_not_matter(tmp_path):
    """Streaming, request and trace ids, and the version of a tool are no part of a request."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        asked(
            ScriptedModel(["one"]), asking("a", specs=(ToolSpec("t", version="t@1·aa"),), parameters={"stream": True})
        )
    with recording(path, mode="replay"):
        request = asking(
            "a", specs=(ToolSpec("t", version="t@2·bb"),), parameters={"trace_id": "7", "extra_headers": {"x-id": "1"}}
        )
        assert asked(NoModel(), request) == ["one"]


def test_ids_of_calls_do_not_matter(tmp_path):
    """A provider's random call ids are no part of a request; which call a result answers is."""

    def request(id_a: str, id_b: str, first: str) -> ModelRequest:
        pair = (ToolCall(id_a, "add", '{"a": 1}'), ToolCall(id_b, "add", '{"a": 2}'))
        results = [
            Message("tool", text, call_id=name, name="add")
            for text, name in (("1", first), ("2", id_b if first == id_a else id_a))
        ]
        messages = [user("go"), Message("assistant", None, pair), *results]
        return ModelRequest(prompt=Prompt(messages), end=4)

    path = tmp_path / "r.jsonl"
    with recording(path):
        asked(ScriptedModel(["one"]), request("x1", "x2", "x1"))
    with recording(path, mode="replay"):
        assert asked(NoModel(), request("y1", "y2", "y1")) == ["one"]
        with pytest.raises(RecordingError, match="message 3"):
            asked(NoModel(), request("y1", "y2", "y2"))


SPEC = ToolSpec("get_weather", "Weather of a city.", {"type": "object", "properties": {"city": {"type": "string"}}})


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (asking("a", "the weather in Rome"), "message 2: user text was 'the weather in Oslo', is 'the weather in Rome'"),
        (asking("a"), "message 2 is missing: user text 'the weather in Oslo'"),
        (asking("a", "the weather in Oslo", "b"), "message 3 is new: user text 'b'"),
        (asking("a", "the weather in Oslo", specs=(ToolSpec("get_weather", "Rain.", SPEC.parameters),)),
         "tools: get_weather's description changed"),
        (asking("a", "the weather in Oslo", specs=(ToolSpec("get_weather", SPEC.description),)),
         "tools: get_weather's parameters changed"),
        (asking("a", "the weather in Oslo"), "tools: get_weather is missing"),
        (asking("a", "the weather in Oslo", specs=(SPEC, ToolSpec("add"))), "tools: add is new"),
        (asking("a", "the weather in Oslo", specs=(SPEC,), parameters={"temperature": 0.5}),
         "parameters: temperature was 0, is 0.5"),
        (asking("a", "the weather in Oslo", specs=(SPEC,)), "parameters: temperature was 0, is not set"),
        (asking("a", "the weather in Oslo", specs=(SPEC,), parameters={"temperature": 0}, schema={}),
         "the schema of the reply changed"),
    ],
)  # fmt: skip
def test_a_miss_says_what_differs(tmp_path, request_, words):
    """In replay an unknown request is an error with the nearest entry and the first difference, in words."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        asked(
            ScriptedModel(["far", "one"]),
            asking("another conversation"),
            asking("a", "the weather in Oslo", specs=(SPEC,), parameters={"temperature": 0}),
        )
    with recording(path, mode="replay"), pytest.raises(RecordingError) as caught:
        asked(NoModel(), request_)

    assert words in str(caught.value)
    assert "nearest is on line 7" in str(caught.value)
    assert 'mode="auto"' in str(caught.value)


def test_a_changed_tool_result_is_named(tmp_path):
    """The message that differs is named by what it is and what it said."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        ran(ScriptedModel(TWO_STEPS))

    def add_wrongly(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b + 1

    tool = FunctionTool(add_wrongly, "add")
    with recording(path, mode="replay"), pytest.raises(RecordingError, match="tool result was '5', is '6'"):
        asyncio.run(collect(runtime_for(NoModel(), [tool]), "2 + 3?"))


def test_a_named_model_gets_only_its_own_replies(tmp_path):
    """With a chosen model only its recordings match; without one any does."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        asked(ScriptedModel(["by a"], "a"), asking("x"))
        asked(ScriptedModel(["by b"], "b"), asking("x"))
    with recording(path, mode="replay"):
        assert asked(NoModel("b"), asking("x")) == ["by b"]
        assert asked(NoModel("a"), asking("x")) == ["by a"]
        assert asked(NoModel(""), asking("x")) == ["by a"]
        with pytest.raises(RecordingError, match="model: was 'a', is 'c'"):
            asked(NoModel("c"), asking("x"))


def test_a_model_without_a_name_is_recorded_by_the_one_that_answered(tmp_path):
    """The name in the reply stands for a default that is found only when it is asked."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        asked(ScriptedModel([ModelReply("one", model="local:qwen")], ""), asking("x"))
    with recording(path, mode="replay"):
        assert asked(NoModel("local:qwen"), asking("x")) == ["one"]
        with pytest.raises(RecordingError):
            asked(NoModel("openai:gpt"), asking("x"))


EVERYTHING = ModelReply(
    text="one\u2028two ünï",
    calls=(ToolCall("c1", "add", '{"a": 1}'), ToolCall("", "sub", "{", "cut")),
    reasoning="hm",
    finish="length",
    refusal="no",
    usage=Usage(5, None, cached_input=0, complete=False),
    cost=0.25,
    raw={"role": "assistant", "content": None, "deep": [{"x": 1.5}]},
    origin="openai",
    model="streaming",
    answered_as="m-2026",
    seconds=1.25,
    notes=("retried once",),
)


def test_every_field_of_a_reply_comes_back(tmp_path):
    """A replayed reply equals the recorded one, also in what equality leaves out."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        asyncio.run(ask(Streaming([], EVERYTHING), asking("x")))
    with recording(path, mode="replay"):
        request = asking("x")
        replayed = asyncio.run(ask(NoModel("streaming"), request))

    assert replayed == EVERYTHING
    assert (replayed.raw, replayed.origin, replayed.seconds) == (EVERYTHING.raw, "openai", 1.25)
    assert replayed.request is request


def test_a_stream_is_replayed_with_its_borders(tmp_path):
    """The pieces come as they came; what was dropped by a restart, and notes on waiting, do not."""
    pieces = [
        Delta("text", "lost"), Delta("restart"), Delta("note", "retrying"), Delta("reasoning", "h"),
        Delta("reasoning", "m"), Delta("text", "on"), Delta("text", ""), Delta("text", "e"), Delta("call", "add"),
    ]  # fmt: skip
    path = tmp_path / "r.jsonl"
    live: list[Delta] = []
    seen: list[Delta] = []
    with recording(path):
        asyncio.run(ask(Streaming(pieces, ModelReply("one", reasoning="hm")), asking("x"), live.append))
    with recording(path, mode="replay"):
        asyncio.run(ask(NoModel("streaming"), asking("x"), seen.append))

    assert live == pieces
    assert seen == pieces[3:]


def test_what_was_not_streamed_is_shown_in_one_piece(tmp_path):
    """A reply that was recorded whole can be replayed as a stream."""
    path = tmp_path / "r.jsonl"
    seen: list[Delta] = []
    with recording(path):
        asyncio.run(ask(Streaming([], ModelReply("one", reasoning="hm")), asking("x")))
    with recording(path, mode="replay"):
        asyncio.run(ask(NoModel("streaming"), asking("x"), seen.append))

    assert seen == [Delta("reasoning", "hm"), Delta("text", "one")]


def test_a_streamed_run_is_replayed_for_its_listeners(tmp_path):
    """A listener of a replayed run sees the same pieces as one of the recorded run."""
    path = tmp_path / "r.jsonl"

    def pieces(model: Any, mode: str) -> list[Any]:
        seen: list[Any] = []
        with recording(path, mode):
            ran(model, middleware=[seen.append])
        return [event for event in seen if isinstance(event, Streamed)]

    assert pieces(ScriptedModel([calls("add", a=1, b=1), iter(["It ", "is 2."])]), "auto") == pieces(
        NoModel(), "replay"
    )


def test_a_failed_call_is_not_recorded(tmp_path):
    """The failure reaches the caller; the next try takes its place in the recording."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        model = ScriptedModel([ModelError("down"), "one"])
        with pytest.raises(ModelError):
            asked(model, asking("x"))
        assert asked(model, asking("x")) == ["one"]
    with recording(path, mode="replay"):
        assert asked(NoModel(), asking("x")) == ["one"]


def test_record_asks_always_and_replaces(tmp_path):
    """After mode="record" the new replies are there, in the place of the old ones."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        asked(ScriptedModel(["old", "other"]), asking("x"), asking("y"))
    with recording(path, mode="record") as again:
        assert asked(ScriptedModel(["new"]), asking("x")) == ["new"]

    assert (again.replayed, again.recorded) == (0, 1)
    replies = [json.loads(line)["reply"]["text"] for line in path.read_text().splitlines() if '"reply"' in line]
    assert replies == ["new", "other"]


def test_recording_again_drops_what_followed_from_old_replies(tmp_path):
    """A conversation that took another way leaves nothing of the old way behind; others stay."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        ran(ScriptedModel([calls("add", a=1, b=1), "It is 2."]))
        ran(ScriptedModel(["Hello."]), goal="hi")
    with recording(path, mode="record"):
        ran(ScriptedModel(TWO_STEPS))
    once = path.read_bytes()

    texts = [json.loads(line)["reply"].get("text") for line in once.decode().splitlines() if '"reply"' in line]
    assert texts == [None, "Hello.", "It is 5."]
    with recording(path, mode="replay"):
        assert ran(NoModel()).answer == "It is 5."
        assert ran(NoModel(), goal="hi").answer == "Hello."


def test_recording_one_cell_again_leaves_the_others(tmp_path):
    """Another cell forks the run of this one: as long as the replies are the same, what it recorded stays."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        run = ran(ScriptedModel(TWO_STEPS))
        forked = asyncio.run(collect(runtime_for(ScriptedModel(["Five."]), [add]), run.at(2).say("in words")))[-1]
        asked(ScriptedModel(["again"]), asking("2 + 3?"))
    before = path.read_bytes()
    with recording(path, mode="record"):
        assert ran(ScriptedModel(TWO_STEPS)) == run

    assert path.read_bytes() == before
    with recording(path, mode="replay"):
        run = ran(NoModel())
        assert asyncio.run(collect(runtime_for(NoModel(), [add]), run.at(2).say("in words")))[-1] == forked


def test_recording_one_reply_again_drops_what_followed_from_it_alone(tmp_path):
    """The same question was asked twice; the first time it is answered otherwise now, the second is not asked."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        first, second = (ran(ScriptedModel([text])) for text in ("one", "two"))
        for run in (first, second):
            asyncio.run(collect(runtime_for(ScriptedModel(["more of " + run.answer]), [add]), run.say("more")))
    with recording(path, mode="record"):
        ran(ScriptedModel(["new"]))

    replies = [json.loads(line)["reply"]["text"] for line in path.read_text().splitlines() if '"reply"' in line]
    assert replies == ["new", "two", "more of two"]


def test_recording_again_the_same_changes_no_byte(tmp_path):
    """Other times and other random call ids are no change."""

    def script(call_id: str, seconds: float) -> list[Any]:
        reply = ModelReply("", (ToolCall(call_id, "add", '{"a": 2, "b": 3}'),), seconds=seconds, model="scripted",
                           raw={"tool_calls": [{"id": call_id}]})  # fmt: skip
        return [reply, ModelReply("It is 5.", seconds=seconds)]

    path = tmp_path / "r.jsonl"
    with recording(path):
        ran(ScriptedModel(script("call_a81", 1.0)))
    before = path.read_bytes()
    with recording(path, mode="record") as again:
        ran(ScriptedModel(script("call_77f", 2.0)))

    assert again.recorded == 2
    assert path.read_bytes() == before


def test_a_failure_while_recording_drops_nothing(tmp_path):
    """When the block fails, what was recorded before is kept."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        ran(ScriptedModel([calls("add", a=1, b=1), "It is 2."]))
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), recording(path, mode="record"):
        ran(ScriptedModel([calls("add", a=1, b=2), "It is 3."]))
        raise ZeroDivisionError

    assert path.read_bytes().startswith(before)
    with recording(path, mode="replay"):
        assert ran(NoModel()).answer == "It is 3."


def test_off_asks_and_records_nothing(tmp_path):
    """Mode "off" is as if no recording stood there."""
    with recording(tmp_path / "r.jsonl", mode="off"):
        assert asked(ScriptedModel(["one"]), asking("x")) == ["one"]

    assert list(tmp_path.iterdir()) == []


def test_the_environment_overrides_the_mode(tmp_path, monkeypatch):
    """AGENTNB_RECORDING decides for every recording; a wrong value is named."""
    monkeypatch.setenv("AGENTNB_RECORDING", "off")
    assert recording(tmp_path / "r.jsonl", mode="replay").mode == "off"
    monkeypatch.setenv("AGENTNB_RECORDING", "play")
    with pytest.raises(SettingsError, match="AGENTNB_RECORDING='play', expected one of auto, replay, record, off"):
        recording(tmp_path / "r.jsonl")


def test_a_wrong_mode_is_named(tmp_path):
    """A mode that does not exist is refused before anything is read."""
    with pytest.raises(UsageError, match="mode='live', expected one of"):
        recording(tmp_path / "r.jsonl", mode="live")


def test_replay_needs_a_file(tmp_path):
    """A missing recording is said at once, not at the first call."""
    with pytest.raises(RecordingError, match="there is no recording"), recording(tmp_path / "r.jsonl", mode="replay"):
        pass

    assert doors == []


def test_a_recording_can_stay_open(tmp_path):
    """`use_recording` stands until `stop_recording`; a second one takes its place."""
    first = use_recording(tmp_path / "a.jsonl")
    try:
        second = use_recording(tmp_path / "b.jsonl")
        assert doors == [second]
        asked(ScriptedModel(["one"]), asking("x"))
    finally:
        closed = stop_recording()

    assert closed is second
    assert (first.recorded, second.recorded) == (0, 1)
    assert doors == []
    assert stop_recording() is None


def test_the_inner_recording_answers_first(tmp_path):
    """Of two open recordings the one opened last is asked first; what it does not know goes on to the other."""
    outer, inner = tmp_path / "outer.jsonl", tmp_path / "inner.jsonl"
    with recording(inner):
        asked(ScriptedModel(["inner"]), asking("x"))
    seen: list[Delta] = []
    with recording(outer) as one, recording(inner) as two:
        assert asked(ScriptedModel(["outer"]), asking("x"), asking("y")) == ["inner", "outer"]
        asyncio.run(ask(Streaming([Delta("text", "z")], ModelReply("z")), asking("z"), seen.append))

    assert (one.recorded, two.recorded, two.replayed) == (2, 2, 1)
    assert seen == [Delta("text", "z")]


def test_a_recording_shows_what_it_did(tmp_path):
    """Its repr names file, mode and counts."""
    with recording(tmp_path / "r.jsonl") as made:
        asked(ScriptedModel(["one"]), asking("x"))

    assert isinstance(made, Recording)
    assert repr(made) == f"<Recording {tmp_path / 'r.jsonl'} · auto · 0 replayed, 1 recorded>"


def test_forks_and_several_calls_replay(tmp_path):
    """A run with parallel calls and a fork from its middle are both found again."""
    path = tmp_path / "r.jsonl"
    script = [several(calls("add", a=1, b=2), calls("add", a=3, b=4)), "3 and 7", "three and seven"]

    def both(model: Any) -> tuple[State, State]:
        runtime = runtime_for(model, [add], instructions=Instructions("Be brief."))
        run = asyncio.run(collect(runtime, "go"))[-1]
        return run, asyncio.run(collect(runtime, run.at(2).say("in words")))[-1]

    with recording(path):
        recorded = both(ScriptedModel(script))
    with recording(path, mode="replay"):
        replayed = both(NoModel())

    assert replayed == recorded
    assert [run.answer for run in replayed] == ["3 and 7", "three and seven"]


def test_without_a_model_a_request_asked_again_gets_its_recorded_reply(tmp_path: Any) -> None:
    """A reader without key or weights can run a cell twice and is told so; a changed cell is told what differs, too."""

    class Unset:
        name = ""

        async def reply(self, request: ModelRequest, on_delta: Any = None) -> ModelReply:
            raise SettingsError("there is no model to ask", remedy="Set a key.")

    path = tmp_path / "lesson.jsonl"
    with recording(path):
        asyncio.run(ask(ScriptedModel(["4"]), asking("2+2?")))
    with recording(path):
        replies = [asyncio.run(ask(Unset(), asking("2+2?"))) for _ in range(2)]
        with pytest.raises(RecordingError) as caught:
            asyncio.run(ask(Unset(), asking("3+3?")))

    assert "was '2+2?', is '3+3?'" in str(caught.value)
    assert "No model could be asked: there is no model to ask. Set a key." in str(caught.value)
    assert [reply.text for reply in replies] == ["4", "4"]
    assert [reply.notes for reply in replies] == [(), (AGAIN,)]


def test_a_re_recording_that_fails_drops_nothing(tmp_path: Any) -> None:
    """A failed model call is no exception to the caller, but the old entries stay all the same."""
    path = tmp_path / "lesson.jsonl"
    with recording(path):
        for text in ("1+1?", "2+2?"):
            asyncio.run(ask(ScriptedModel(["x"]), asking(text)))
    with recording(path, mode="record"):
        asyncio.run(ask(ScriptedModel(["y"]), asking("1+1?")))
        with pytest.raises(ModelError):
            asyncio.run(ask(ScriptedModel([ModelError("down")]), asking("2+2?")))
    with recording(path, mode="replay"):
        assert asyncio.run(ask(NoModel(), asking("2+2?"))).text == "x"


def test_a_recording_that_cannot_be_opened_leaves_the_open_one(tmp_path: Any) -> None:
    """A wrong file name must not send the next cells to a paid model."""
    use_recording(tmp_path / "a.jsonl")
    try:
        with pytest.raises(RecordingError):
            use_recording(tmp_path / "typo.jsonl", mode="replay")
        assert active_recording() is not None
    finally:
        stop_recording()
