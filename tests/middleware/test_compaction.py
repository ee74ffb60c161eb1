"""Compaction: a long run keeps inside the window, seldom, and no request is ever broken by it."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from fakes import FunctionTool, add, check_state, check_wire, collect, runtime_for, says, states_of
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.core.limits import Limits, StopReason
from agentnb.core.messages import Message, ToolCall, Usage, user
from agentnb.core.model import ModelReply, ModelRequest, doors
from agentnb.core.state import State
from agentnb.errors import ModelError, RecordingError, SettingsError
from agentnb.middleware import shortening
from agentnb.middleware.compaction import Compaction, prompt_size
from agentnb.middleware.window import listed_window
from agentnb.models.scripted import CallableModel, ScriptedModel, calls

LONG = "word " * 200
ENDLESS = Limits(steps=None, repeats=None)


def sent_tokens(request: ModelRequest) -> int:
    """Four bytes a token, as our server counts."""
    return len(json.dumps(request.json(), ensure_ascii=False).encode()) // 4


def lookup(number: int) -> str:
    """A place, described at length."""
    return f"place {number}: {LONG}"


class Counting:
    """Calls `lookup` again and again, tells how many tokens it read, and refuses a prompt of more than `most`."""

    name = "counting"

    def __init__(self, steps: int, most: int | None = None, usage: bool = True) -> None:
        self.steps, self.most, self.usage = steps, most, usage
        self.requests: list[ModelRequest] = []
        self.refused = 0
        self.answered = 0

    async def reply(self, request: ModelRequest, on_delta: Any = None) -> ModelReply:
        """The next call, or the answer."""
        check_wire(request.messages)
        size = sent_tokens(request)
        if self.most is not None and size > self.most:
            self.refused += 1
            raise ModelError(f"the prompt has {size} tokens", kind="context_too_long")
        self.requests.append(request)
        self.answered += 1
        message = calls("lookup", number=self.answered) if self.answered < self.steps else says("done")
        message |= {"usage": {"prompt_tokens": size, "completion_tokens": 20}} if self.usage else {}
        return await ScriptedModel([message]).reply(request)


def run(model: Any, *middleware: Any, state: State | str = "find the place", limits: Limits = ENDLESS) -> State:
    """The last State; the model checks every request."""
    last = asyncio.run(collect(runtime_for(model, [lookup], middleware=middleware, limits=limits), state))[-1]
    check_state(last)
    return last


def notes(state: State) -> list[str]:
    """What was noted on the steps."""
    return [note for step in state.steps for note in step.notes]


# ── when ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_short_run_is_left_alone():
    """Below the high mark the prompt is the history."""
    model = Counting(5)
    done = run(model, Compaction(window=100_000))

    assert [state.kind for state in done.path()].count("compact") == 0
    assert notes(done) == []


def test_a_long_run_stays_inside_the_window_and_is_seldom_touched():
    """Every request is under the window; from the high mark it goes down to the low one, then nothing for a while."""
    model = Counting(60)
    done = run(model, Compaction(window=8_000))
    sizes = [sent_tokens(request) for request in model.requests]

    assert done.answer == "done"
    assert max(sizes) < 0.85 * 8_000
    assert 3 <= len(notes(done)) <= 10
    assert len(done.messages) == 120
    assert all(
        result.content.endswith(LONG.strip()[-9:] + " ") or LONG in result.content for result in done.tool_results
    )


def test_the_step_says_what_was_done():
    """A note with the number of results or rounds, and the tokens before and after."""
    done = run(Counting(30), Compaction(window=4_000, keep=2))

    first = notes(done)[0]
    assert first.startswith("cleared ")
    assert " old results: about 3," in first
    assert any(note.startswith("compacted ") and " rounds: about " in note for note in notes(done))
    assert [each.detail for each in done.path() if each.kind == "compact"] == notes(done)


@pytest.mark.slow
def test_without_reported_tokens_sizes_are_estimated():
    """A model that reports nothing is kept inside the window all the same."""
    model = Counting(40, usage=False)
    done = run(model, Compaction(window=8_000))

    assert done.answer == "done"
    assert max(map(sent_tokens, model.requests)) < 8_000
    assert notes(done)


def test_an_unknown_window_waits_for_an_overflow():
    """Nothing is shortened before the model refuses a prompt; then it is asked once more, in the same step."""
    model = Counting(40, most=6_000)
    done = run(model, Compaction())

    assert (done.answer, done.counters.steps) == ("done", 40)
    assert 1 <= model.refused <= 10
    assert len(notes(done)) == model.refused
    assert notes(done)[0].startswith("the prompt was too long: cleared ")
    assert max(map(sent_tokens, model.requests)) <= 6_000


@pytest.mark.slow
def test_after_an_overflow_the_run_grows_from_the_shorter_prompt():
    """The next request begins with the one that was taken in the end."""
    model = Counting(40, most=6_000)
    run(model, Compaction())
    wires = [request.messages for request in model.requests]
    breaks = sum(later[: len(earlier)] != earlier for earlier, later in pairwise(wires))

    assert breaks == model.refused


def test_a_second_refusal_ends_the_run():
    """One more try, no loop; the status says what happened."""
    model = Counting(10, most=50)
    done = run(model, Compaction())

    assert done.stop is StopReason.CONTEXT_TOO_LONG
    assert model.refused == 1  # there is nothing to leave out of one message


def test_a_prompt_that_is_still_too_long_is_not_tried_again():
    """Shortened once, refused again: two requests and a clear stop."""
    grown = run(Counting(8), limits=Limits(steps=7))
    model = Counting(10, most=100)
    done = run(model, Compaction(), state=grown)

    assert done.stop is StopReason.CONTEXT_TOO_LONG
    assert model.refused == 2


def test_a_run_that_was_refused_goes_on_with_a_compaction():
    """A person adds a compaction to a run that ended with "context_too_long" and runs it on."""
    ended = run(Counting(40, most=6_000))
    model = Counting(2, most=6_000)
    done = run(model, Compaction(), state=ended)

    assert ended.stop is StopReason.CONTEXT_TOO_LONG
    assert done.answer == "done"


def test_other_failures_of_a_model_are_not_its_business():
    """Only a prompt that is too long is shortened."""
    script = [calls("lookup", number=1), calls("lookup", number=2), ModelError("no credit", kind="quota"), says("done")]
    model = ScriptedModel(script)

    assert run(model, Compaction(keep=1)).stop is StopReason.ERROR
    assert len(model.requests) == 3


def test_a_compaction_that_saves_little_is_not_made():
    """Where the words of the person fill the window, the prefix stays warm."""
    words = [user("word " * 4_000), *(message for _ in range(2) for message in a_round())]
    state = State.start("go").compacted(words)

    assert prompt_size(state)[0] > 0.8 * 6_000
    assert asyncio.run(Compaction(window=6_000, keep=1).before(state)) is state


def a_round() -> tuple[Message, Message]:
    """A call and its long result."""
    return Message("assistant", None, (ToolCall("c", "lookup"),)), Message("tool", LONG, (), "c", "lookup")


def summaries(window: int, preamble: int, result: str, steps: int = 40) -> tuple[int, int]:
    """Of a run with so many tokens before the goal and these results: model calls for a summary, compactions."""
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> ModelReply:
        call = ToolCall("", "tell", f'{{"number": {len(request.history)}}}')
        return ModelReply(calls=(call,), usage=Usage(preamble + sent_tokens(request), 5), finish="tool_calls")

    def summarise(request: ModelRequest) -> str:
        asked.append(request)
        return "summary " * 100

    tool = FunctionTool(lambda number: result, "tell")
    options = {"middleware": [Compaction(summarise, window=window)], "limits": Limits(steps=steps, repeats=None)}
    done = asyncio.run(collect(runtime_for(CallableModel(model), [tool], **options)))[-1]
    check_state(done)
    return len(asked), sum(state.kind == "compact" for state in done.path())


def test_a_large_preamble_is_not_paid_for_with_a_summary_at_every_step():
    """Where system prompt and tools alone pass `high`, the prompt first grows by a tenth before the next try."""
    asked, compacted = summaries(10_000, 8_500, "word " * 100)

    assert 1 <= asked <= compacted <= 8


def test_giant_rounds_are_cleared_without_a_summary():
    """Where the newest round fills the window, a summary of what was cleared before saves nothing."""
    for window in (10_000, 3_000):
        asked, compacted = summaries(window, 0, "word " * 4_000, steps=20)

        assert asked <= 2
        assert compacted > 10


@pytest.mark.parametrize("options", [{"window": 0}, {"high": 0.3}, {"low": 0}, {"keep": 0}, {"high": 1.2}])
def test_numbers_that_make_no_sense_are_refused(options):
    """At the start, not in the middle of a run."""
    with pytest.raises(SettingsError, match="Compaction"):
        Compaction(**options)


@pytest.mark.slow
def test_the_window_comes_from_the_price_list():
    """Where the list knows the model; a local or unknown one has none."""
    assert listed_window("openai:gpt-4o") == 128_000
    assert listed_window("anthropic:claude-sonnet-4-5") == 200_000
    assert [listed_window(name) for name in ("", "local", "ollama:qwen3", "openai:no-such-model", "x:y")] == [None] * 5


# ── what is left out ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_results_are_cleared_before_rounds_are_left_out():
    """The call and its id stay, the result says that it was cleared and how it began; the newest rounds are whole."""
    model = Counting(20)
    done = run(model, Compaction(window=5_000, keep=3))
    compacted = next(state for state in done.path() if state.kind == "compact")
    results = [each for each in compacted.prompt.items[: compacted.end] if each.role == "tool"]

    assert results[0].content.startswith(shortening.CLEARED + "place 1: word")
    assert [LONG in each.content for each in results[-3:]] == [True] * 3
    assert not any(LONG in each.content for each in results[:-3])


def test_the_goal_and_what_was_said_stay_word_for_word():
    """However often the run is compacted; and the newest round is there."""
    begun = run(Counting(10), Compaction(window=2_000, keep=1), limits=Limits(steps=8, repeats=None))
    model = Counting(30)
    run(model, Compaction(window=2_000, keep=1), state=begun.say("Only places in the south, please."))
    last = [message["content"] for message in model.requests[-1].messages]

    assert last[1] == "find the place"
    assert "Only places in the south, please." in last
    assert LONG in last[-1]


@pytest.mark.slow
def test_a_summary_is_folded_into_the_next():
    """However often the run is compacted, there is one summary, and it stays small."""
    model = Counting(120)
    run(model, Compaction(window=3_000, keep=2))
    heads = [[m.content for m in r.history if shortening.is_summary(m)] for r in model.requests]

    assert max(map(len, heads)) == 1
    assert "lookup" in heads[-1][0]
    assert max(len(head[0]) for head in heads if head) < 4_500


def test_a_model_writes_the_summary():
    """It is asked through the door of every model call, and what it costs counts in the run, as no step."""
    summariser = ScriptedModel(
        [{"content": "Places 1 to 9 are dull.", "usage": {"prompt_tokens": 500, "completion_tokens": 7}}] * 9
    )
    model, asked = Counting(16), []

    class Door:
        async def reply(self, model: Any, request: Any, on_delta: Any, onward: Any) -> Any:
            asked.append(model)
            return await onward(request)

    doors.append(door := Door())
    try:
        done = run(model, Compaction(summariser, window=1_500, keep=1))
    finally:
        doors.remove(door)
    times = len(summariser.requests)
    read = sum(sent_tokens(request) for request in model.requests)

    assert asked.count(summariser) == times > 0
    assert "find the place" in summariser.requests[0].messages[0]["content"]
    assert any("Places 1 to 9 are dull." in (m.content or "") for m in model.requests[-1].history)
    assert done.counters.steps == 16
    assert done.usage.input == read + 500 * times
    assert done.usage.output == 20 * 16 + 7 * times


def test_what_a_summary_after_an_overflow_cost_is_counted():
    """It stands on the step that overflowed."""
    summariser = ScriptedModel([{"content": "dull", "usage": {"prompt_tokens": 500, "completion_tokens": 7}}] * 9)
    model = Counting(16, most=1_200)
    done = run(model, Compaction(summariser, keep=1))
    read = sum(sent_tokens(request) for request in model.requests)

    assert summariser.requests
    assert done.usage.input == read + 500 * len(summariser.requests)


def test_a_summariser_that_fails_is_done_without():
    """The run goes on with the calls and the beginnings of their results."""
    model = Counting(16)
    done = run(model, Compaction(lambda request: 1 / 0, window=1_500, keep=1))

    assert done.answer == "done"
    assert any("- lookup(" in (m.content or "") for m in model.requests[-1].history)
    assert any(note.endswith("the summary failed (division by zero)") for note in notes(done))


def test_an_empty_summary_is_told_of():
    """It was paid for and brought nothing: the calls and the beginnings of their results stand in its place."""
    done = run(Counting(16), Compaction(lambda request: " \n", window=1_500, keep=1))

    assert done.answer == "done"
    assert any(note.endswith("tokens, the summary was empty") for note in notes(done))


def test_a_summary_that_no_recording_holds_is_an_error():
    """What makes a run impossible is told, not worked round."""

    def missing(request: ModelRequest) -> str:
        raise RecordingError("holds no reply to this request")

    with pytest.raises(RecordingError):
        run(Counting(16), Compaction(missing, window=1_500, keep=1))


def test_a_summary_is_shorter_than_what_it_replaces():
    """However long the model writes, in whatever script; nothing is asked of it where little can be saved."""
    messages = [user("goal"), *(message for _ in range(6) for message in a_round())]
    state = State.start("goal").compacted(messages)
    for text in ("long " * 9_000, "很长" * 9_000):
        made = asyncio.run(Compaction(lambda request, text=text: text, window=1_700, keep=1).before(state))
        assert shortening.tokens(made.prompt.items) < 0.8 * shortening.tokens(messages)
    asked: list[ModelRequest] = []
    few = State.start("word " * 4_000).compacted([user("word " * 4_000), *messages[1:5]])
    asyncio.run(Compaction(asked.append, window=6_000, keep=1).before(few))
    assert asked == []


def test_kept_messages_go_back_as_the_provider_sent_them():
    """A raw message with its signature is the very same object before and after."""
    raw = {"role": "assistant", "content": None, "signature": "abc"}
    rounds = []
    for n in range(6):
        call = ToolCall(f"c{n}", "lookup", '{"number": 1}')
        rounds += [
            Message("assistant", None, (call,), raw=raw, origin="x"),
            Message("tool", LONG, (), call.id, "lookup"),
        ]
    state = State.start("goal").compacted((user("goal"), *rounds))
    made = asyncio.run(Compaction(window=1_900, keep=2).before(state))

    assert made.kind == "compact"
    assert made is not state
    kept = [each for each in made.prompt.items if each.role == "assistant"]
    assert kept[-2:] == [rounds[-4], rounds[-2]]
    assert all(each.raw is raw for each in kept)


def test_encoded_bytes_of_a_cleared_result_are_made_anew():
    """A message that was sent before keeps its bytes; its cleared copy must not inherit them."""
    sent = Message("tool", LONG, (), "c1", "lookup")
    sent.fragment("x", lambda message: (message.content or "").encode())
    ((cleared,),) = shortening.cleared([(sent,)])

    assert cleared.fragment("x", lambda message: (message.content or "").encode()).startswith(b"[Cleared")


def test_results_written_as_text_are_cleared_too():
    """In a JSON plan calls and results are ordinary text."""
    said = Message("assistant", '{"tool": "lookup"}', (ToolCall("c1", "lookup"),), plain=True)
    result = Message("tool", LONG, (), "c1", "lookup()", plain=True)
    (part,) = shortening.cleared([(said, result)])

    assert part[1].wire["content"].startswith("Result of lookup():\n[Cleared")


# ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_size_is_what_was_reported_and_what_came_since():
    """After a step that reported 1,000 input tokens, the reply and the result are estimated."""
    script = [{**calls("add", a=1, b=2), "usage": {"prompt_tokens": 1_000, "completion_tokens": 5}}, "3"]
    made = states_of(runtime_for(script, [FunctionTool(add)]))

    assert prompt_size(State.start("x" * 400)) == (104, "")
    assert prompt_size(made[0])[0] == 1_000 + shortening.tokens(made[0].added)
    assert 1_000 < prompt_size(made[1])[0] < 1_030
    assert prompt_size(made[1])[1] == "scripted"
    assert prompt_size(made[1].compacted((user("x" * 400),)))[0] == 104


@pytest.mark.parametrize(
    ("text", "low", "high"), [("word " * 80, 90, 110), ("北京今天气温" * 20, 100, 150), ("температура " * 20, 60, 150)]
)
def test_an_estimate_knows_other_scripts(text, low, high):
    """A token is about four letters of English, one Chinese character, two Cyrillic letters."""
    assert low < shortening.tokens([user(text)]) < high


# ── validity ─────────────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.sampled_from(["", "short", LONG, "北京" * 300])
PLAIN = st.booleans()


@st.composite
def histories(draw: Any) -> tuple[Message, ...]:
    """A valid history: the goal, then rounds with one to three calls, words of the model and of the person."""
    said = [user("goal " + draw(TEXTS))]
    for n in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["round", "round", "round", "user", "text"]))
        if kind == "user":
            said.append(user(f"said {n} {draw(TEXTS)}"))
        elif kind == "text":
            said.append(Message("assistant", f"text {n} {draw(TEXTS)}"))
        else:
            made = tuple(ToolCall(f"c{n}_{k}", "lookup", "{}") for k in range(draw(st.integers(1, 3))))
            said.append(Message("assistant", draw(TEXTS) or None, made))
            said += [Message("tool", f"r {draw(TEXTS)}", (), call.id, call.name) for call in made]
    return tuple(said)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(histories(), st.integers(1, 6), st.integers(50, 4_000))
def test_every_compaction_leaves_a_valid_history(messages, keep, window):
    """Whatever the history and the window: goal and words of the person stay, no round is split, the newest is whole."""
    state = State.start(messages[0].content).compacted(messages)
    check_state(state)
    compaction = Compaction(window=window, keep=keep)
    made = asyncio.run(compaction.before(state))
    again = asyncio.run(compaction.before(made))

    for each in (made, again):
        check_state(each)
        left = each.prompt.items[: each.end]
        assert left[0] == messages[0]
        assert [m for m in left if m.role == "user" and not shortening.is_summary(m)] == [
            m for m in messages if m.role == "user"
        ]
        newest = [part for part in shortening.rounds(messages) if shortening.is_round(part)][-1:]
        assert newest == [part for part in shortening.rounds(left) if shortening.is_round(part)][-1:]
        assert shortening.tokens(left) <= shortening.tokens(messages)


@settings(max_examples=15, deadline=None)
@given(histories(), st.integers(1, 4))
def test_every_overflow_is_answered_with_a_valid_request(messages, keep):
    """The request that is tried once more is valid and smaller; where nothing can be left out the refusal stays."""
    state = State.start(messages[0].content).compacted(messages)
    tried: list[ModelRequest] = []

    async def refuse(request: ModelRequest) -> ModelReply:
        check_wire(request.messages)
        tried.append(request)
        raise ModelError("too long", kind="context_too_long")

    with pytest.raises(ModelError, match="too long"):
        asyncio.run(Compaction(keep=keep).model(state.request(), refuse))

    assert len(tried) <= 2
    if len(tried) == 2:
        assert shortening.tokens(tried[1].history) < shortening.tokens(tried[0].history)


@pytest.mark.slow
def test_a_run_of_400_rounds():
    """Every request is valid and under the window, and nearly all that is sent is a prefix of the request before."""
    model = Counting(400)
    done = run(model, Compaction(window=20_000))
    wires = [request.messages for request in model.requests]
    sizes = [sent_tokens(request) for request in model.requests]
    compacted = [n for n, step in enumerate(done.steps) if step.notes]
    same = total = 0
    for n in range(1, len(wires)):
        if n not in compacted:
            total += sizes[n]
            same += sizes[n - 1] if wires[n][: len(wires[n - 1])] == wires[n - 1] else 0

    print(f"{len(compacted)} compactions, largest request {max(sizes)}, {same / total:.1%} of {total} tokens a prefix")
    assert (done.answer, done.counters.steps) == ("done", 400)
    assert max(sizes) <= 0.85 * 20_000
    assert same / total >= 0.95
    assert len(compacted) < 400 / 10
