"""The plain words for a step, a result and a stop."""

from __future__ import annotations

import pytest
from made_runs import USAGE, answered, call, long_run, newest, one_call, plan, result

from agentnb.core.limits import StopReason
from agentnb.core.messages import Usage
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.notebook.words import (
    deed,
    remedy,
    spelled,
    step_line,
    stop_words,
    total_words,
    totals_words,
    usage_words,
    version_words,
)


def line(state: State) -> str:
    """The line of the newest step."""
    return step_line(newest(state))


def test_a_call_and_what_it_got():
    """Which tool, for which arguments, what came back and what it cost."""
    assert line(one_call()) == "Step 1 · asked get_weather for city='Beijing' · got 31.0 · 212 tokens"


def test_an_answer():
    """The answer itself stands in the final block."""
    assert line(answered("31 degrees")) == "Step 1 · answered · 212 tokens"


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        ("error", "KeyError: 'Atlantis'", "error: KeyError: 'Atlantis'"),
        ("timeout", "timed out after 1 s", "timed out, may have taken effect"),
        ("cancelled", "The call was cancelled by the user.", "cancelled, may have taken effect"),
        ("denied", "Denied by the user: no", "denied by a person"),
        ("not run", "The call was not run", "not run"),
        ("ok", "x" * 100, "got " + "x" * 59 + "…"),
        ("ok", "two\nlines  and spaces", "got two lines and spaces"),
    ],
)
def test_each_outcome_has_its_words(status, content, words):
    """What became of a call is said, never only shown by a colour."""
    assert line(one_call(answer=result(content, status))) == (
        f"Step 1 · asked get_weather for city='Beijing' · {words} · 212 tokens"
    )


def test_a_result_that_a_person_gave():
    """A result that no tool gave says so."""
    state = one_call().with_result("c1", "29.0")

    assert line(state).endswith("given by a person: 29.0 · 212 tokens")


def test_a_call_that_waits_for_approval():
    """A pause says what it waits for, and the end of the run says of which tool."""
    state = plan(State.start("goal"), call()).stopped(StopReason.PAUSED, "waits for approval of get_weather (c1)")

    assert line(state) == "Step 1 · asked get_weather for city='Beijing' · waits for approval · 212 tokens"
    assert stop_words(state) == "waits for approval of get_weather"
    assert remedy(state, "mine") == (
        "Decide with mine = mine.approve(mine.open_calls[0].id), or .deny(...), then %agent resume mine."
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(None, "approved, got 31.0"), ({"city": "Oslo"}, "approved with other arguments, got 31.0")],
)
def test_a_call_that_was_approved(arguments, words):
    """Approval by a person is said, and whether the arguments were changed."""
    state = plan(State.start("goal"), call()).approve("c1", arguments).answered(result())

    assert words in line(state)


def test_a_call_under_way():
    """A call without a result says so."""
    assert line(plan(State.start("goal"), call())).endswith("no result yet · 212 tokens")


def test_several_calls():
    """Each call with its own result, the first three of them."""
    asked = [call(call_id=f"c{number}") for number in range(5)]
    state = plan(State.start("goal"), *asked)
    for each in reversed(asked):
        state = state.answered(result(f"{each.id} is warm", call_id=each.id))

    assert line(state) == (
        "Step 1 · asked 5 tools: get_weather for city='Beijing', got c0 is warm; "
        "get_weather for city='Beijing', got c1 is warm; get_weather for city='Beijing', got c2 is warm; and 2 more"
        " · 212 tokens"
    )
    assert deed(newest(state)) == "asked get_weather ×5"


@pytest.mark.parametrize(
    ("arguments", "cast", "words"),
    [
        ("{}", {}, "asked now"),
        ("", {}, "asked now"),
        ('{"a": "1"}', {"a": 1, "b": 2.0}, "asked now for a=1, b=2.0"),
        ("{broken", None, "asked now for {broken"),
        ("[1, 2]", None, "asked now for [1, 2]"),
    ],
)
def test_the_arguments_of_a_call(arguments, cast, words):
    """As cast where the tool ran, else as the model wrote them; a call without arguments has no "for"."""
    state = one_call(call("now", arguments), result(arguments=cast))

    assert line(state) == f"Step 1 · {words} · got 31.0 · 212 tokens"


@pytest.mark.parametrize(
    ("note", "word"),
    [
        ("truncated: the reply was cut at the length limit, its calls were not run", "truncated"),
        ("the JSON was repaired", "repaired"),
        ("calls recovered from text", "recovered"),
        ("retried after status 503", "retried"),
    ],
)
def test_notable_notes_are_in_the_line(note, word):
    """A step that is not quite as usual says so before it is opened."""
    assert line(one_call(notes=(note,))).endswith(f"· got 31.0 · {word} · 212 tokens")
    assert line(one_call(retries=(note,))).endswith(f"· got 31.0 · {word} · 212 tokens")


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ({"again": ""}, "empty reply, asked again"),
        ({"again": "That was no JSON."}, "asked again: That was no JSON."),
        ({"stop": StopReason.REFUSED, "detail": "refused: no"}, "the model refused: no"),
        ({"stop": StopReason.EMPTY_REPLY}, "the model replied with nothing"),
    ],
)
def test_a_step_without_calls(decision, words):
    """Asked again, refused, stopped: in words."""
    assert line(plan(State.start("goal"), **decision)) == f"Step 1 · {words} · 212 tokens"


def test_a_step_without_a_model():
    """A scripted plan used no tokens, so none are named."""
    state = State.start("goal").planned(Decision(calls=(call(),))).answered(result())

    assert line(state) == "Step 1 · asked get_weather for city='Beijing' · got 31.0"


@pytest.mark.parametrize(
    ("usage", "total", "by_kind"),
    [
        (None, "tokens n/a", "n/a"),
        (Usage(0, 0, 0, 0, 0), "0 tokens", "input 0 (cached 0), output 0 (reasoning 0)"),
        (Usage(None, 3), "at least 3 tokens", "input n/a, output 3"),
        (
            Usage(1200, 34, complete=False),
            "at least 1,234 tokens",
            "input 1,200, output 34",
        ),
        (USAGE, "212 tokens", "input 200 (cached 150), output 12 (reasoning 4)"),
    ],
)
def test_unknown_tokens_are_unknown(usage, total, by_kind):
    """What the provider did not say is "n/a", never 0."""
    assert total_words(usage) == total
    assert usage_words(usage) == by_kind


def test_totals_of_a_run():
    """Steps, calls, tokens by kind and cost since the start."""
    assert totals_words(long_run(2)) == (
        "3 steps · 2 tool calls · 636 tokens: input 600 (cached 450), output 36 (reasoning 12) · cost n/a"
    )
    assert totals_words(State.start("goal")).startswith("0 steps · 0 tool calls · tokens n/a · ")
    failed = State.start("goal").planned(Decision(stop=StopReason.ERROR))
    assert totals_words(failed) == "1 step · 0 tool calls · tokens n/a · cost n/a"


@pytest.mark.parametrize("reason", StopReason)
def test_every_stop_has_words_and_a_way_on(reason):
    """Each way to end but the answer says what to do now."""
    state = State.start("goal").stopped(reason, "why")

    assert stop_words(state)
    assert "_" not in stop_words(state)
    assert (remedy(state, "mine") == "") == (reason is StopReason.ANSWER)
    assert "{" not in remedy(state, "mine")


def test_a_stop_with_its_detail():
    """What the loop said about the stop is kept."""
    state = State.start("goal").stopped(StopReason.MAX_STEPS, "stopped after 20 steps without an answer")

    assert stop_words(state) == "stopped at the step limit: stopped after 20 steps without an answer"
    go_on = "Go on with %agent resume mine (in Python: agent.run(mine)); --steps or Limits(steps=...) gives it more."
    assert remedy(state, "mine") == go_on
    assert stop_words(State.start("goal")) == "not finished"
    assert stop_words(state.stopped(StopReason.CANCELLED, "cancelled by the user")) == "cancelled by the user"
    assert stop_words(state.stopped(StopReason.ERROR)) == "stopped by an error"


def test_a_version_is_shown_by_its_hash():
    """How often a tool was defined differs from rerun to rerun, the hash of its source doesn't."""
    assert version_words("get_weather@12·3fa9c1d0") == "get_weather (version 3fa9c1d0)"
    assert version_words("") == ""


class Sulky:
    """Its repr fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class array(Sulky):  # reprlib takes it for the one of the standard library
    """Looks like something that it isn't."""


def test_arguments_are_spelled_as_in_python():
    """Long values are cut, addresses left out, a repr that fails is replaced."""
    assert spelled({"a": 1, "b": "two", "c": [1.5, None]}) == "a=1, b='two', c=[1.5, None]"
    assert spelled({"x": object()}) == "x=<object object at 0x…>"
    assert spelled({"x": Sulky()}) == "x=<Sulky instance at 0x…>"
    assert spelled({"x": array()}) == "x=<array>"
    assert len(spelled({"x": "y" * 1_000_000}, 60)) < 80
