"""How much is shown: cutting a text, dividing the room, and the bound of a whole run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import answered, call, long_run, newest, one_call, plan, result

from agentnb.core.state import State
from agentnb.notebook.bounds import LEAST_BYTES, Budget, cost, cut, shares, shown, within
from agentnb.notebook.render import Block, goal_block, run_blocks, step_block
from agentnb.text import hide

MEGABYTES = "x<&\"'é\n" * 700_000


def bytes_of(*blocks: Block) -> int:
    """What these blocks take in a notebook file, as nbformat writes it: texts are lists of lines."""
    outputs = [
        {
            "data": {mime: text.splitlines(keepends=True) for mime, text in block.bundle.items()},
            "metadata": block.metadata,
            "output_type": "display_data",
        }
        for block in blocks
    ]
    return len(json.dumps({"cells": [{"outputs": outputs}]}, ensure_ascii=False, indent=1).encode())


def test_a_short_text_is_whole():
    """Nothing is said about a text that is all there."""
    assert cut("one\ntwo", 100) == ("one\ntwo", "")
    assert cut("", 100) == ("", "")


def test_a_long_text_says_where_the_rest_is():
    """The note counts in the characters of the whole text."""
    assert cut("x" * 5_000, 1_002, "run.answer") == (
        "x" * 1_000,
        "… 1,000 of 5,000 characters, the rest is in run.answer",
    )
    assert cut("y" * 10 + "x" * 5_000, 102, "there", tail=True) == (
        "x" * 100,
        "… the last 100 of 5,010 characters, the rest is in there",
    )
    assert cut("x" * 5_000, 0) == ("", "… 0 of 5,000 characters")


def test_a_cut_tears_no_character():
    """A letter keeps its accent, a joined emoji stays one."""
    family = "👨‍👩‍👧"

    assert cut("e\u0301" * 100, 17)[0] == "e\u0301" * 5
    piece, _ = cut(family * 40, 100)
    assert piece == family * (len(piece) // len(family))


@pytest.mark.slow
@given(st.text(max_size=400), st.integers(0, 600), st.booleans())
def test_cut_keeps_its_bound(text, room, tail):
    """Whatever the text, what is shown of it costs at most its room, and a whole text comes without a note."""
    from html import escape

    piece, missing = cut(text, room, "run.answer", tail)

    assert cost(escape(piece, quote=False)) <= max(room, 2)
    assert bool(missing) or piece == shown(text)


@pytest.mark.slow
@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=20), st.integers(3_000, 20_000))
def test_shares_divide_the_room(costs, room):
    """Nobody gets more than asked for, all together no more than there is, and nothing is left while one goes short."""
    given_out = shares(costs, room)

    assert all(got <= asked for got, asked in zip(given_out, costs, strict=True))
    assert sum(given_out) <= room
    if given_out != costs:
        assert sum(given_out) > room - len(costs)


def test_within_finds_the_most_that_fits():
    """The whole when it fits, else nearly the most, else the least there is."""
    assert within(100, lambda room: "x" * room)[:90] == "x" * 90
    assert len(within(1_000, lambda room: "x" * (3 * room) if room else "least")) > 900
    assert within(100, lambda room: "x" * 1_000 if room else "least") == "least"


def test_a_step_gets_an_eighth_of_what_is_left():
    """Up to 30 kB, a fifth of the whole set aside for the final block, and never less than its line needs."""
    budget = Budget(200_000)
    assert budget.step == 20_000

    budget.spend("x" * 79_698, step=1)
    assert (budget.spent, budget.step, budget.final) == (80_000, 10_000, 120_000)
    budget.spend("x" * 120_000)
    assert (budget.step, budget.final) == (LEAST_BYTES, LEAST_BYTES)
    assert Budget(2_000_000).step == 30_000


def test_few_steps_share_what_there_is():
    """Where fewer than eight steps are to come each gets an even share; what one leaves, the next ones have."""
    budget = Budget(40_000, ahead=2)
    assert budget.step == 16_000
    budget.spend("x" * 1_698, step=1)
    assert (budget.ahead, budget.step) == (1, 30_000)
    budget.spend("x" * 29_698, step=2)
    assert (budget.ahead, budget.step) == (1, LEAST_BYTES)

    assert Budget(40_000, ahead=30).step == Budget(40_000).step == 4_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "content"),
    [
        (3, MEGABYTES),
        (300, "a line of text <b>&amp;\n" * 850),
        (30, "\n" * 20_000),
        (30, "\x1b[31m" * 4_000 + "漢字" * 2_000),
        (300, "31.0"),
    ],
    ids=["5 MB", "300 steps of 20 kB", "only line ends", "colour codes and Chinese", "300 short steps"],
)
def test_a_run_stays_within_its_bound(steps, content):
    """The saved output of a run is below 200 kB, with its 40 step displays and its final one, whatever tools return."""
    blocks = run_blocks(long_run(steps, content, answer="**done** " * 2_000))

    assert bytes_of(*blocks) < 200_000
    assert len(blocks) <= 42
    assert all(block.html.count("Step ") for block in blocks[1:-1])


@pytest.mark.slow
def test_a_smaller_bound_is_kept_as_well():
    """The bound is a setting."""
    for total in (20_000, 60_000):
        assert bytes_of(*run_blocks(long_run(10, "x" * 30_000), total)) < total


@pytest.fixture(scope="module")
def huge() -> State:
    """A step in which everything that a model or a tool can write has 5 MB."""
    asked = [call(MEGABYTES, json.dumps({"a": MEGABYTES}), str(number)) for number in range(3)]
    more = {"traceback": MEGABYTES, "notes": (MEGABYTES,), "version": MEGABYTES}
    state = plan(State.start("goal"), *asked, text=MEGABYTES, thought=MEGABYTES, notes=(MEGABYTES,))
    for number in range(3):
        state = state.answered(result(MEGABYTES, call_id=str(number), arguments={"a": MEGABYTES}, **more))
    return state


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1_000, 2_000, 5_000, 30_000])
def test_a_step_keeps_its_limit(huge, limit):
    """Text, arguments, result, traceback, notes and names of 5 MB each fit into any limit."""
    block = step_block(newest(huge), limit)

    assert bytes_of(replace(block, metadata={})) < max(limit, 2_500) + 300
    assert "Step 1" in block.html


@pytest.mark.slow
def test_goal_and_ending_keep_their_limits():
    """A goal of 5 MB, an answer of 5 MB, an error of 5 MB."""
    from agentnb.core.limits import StopReason

    assert bytes_of(goal_block(State.start(MEGABYTES))) < 8_400
    assert "of 4,900,000 characters, the rest is in run.goal" in goal_block(State.start(MEGABYTES)).text
    assert bytes_of(*run_blocks(answered(MEGABYTES))) < 200_000
    assert bytes_of(*run_blocks(one_call().stopped(StopReason.ERROR, MEGABYTES))) < 200_000


def test_what_can_be_shown():
    """Colour codes, control characters, direction overrides and half emojis go; tabs and line ends stay."""
    assert shown("\x1b[31mred\x1b[0m \x9b1mbold\x07 a\x00b") == "red bold ab"
    assert shown("one\r\ntwo\rthree\n\tfour") == "one\ntwo\nthree\n\tfour"
    assert shown("admin\u202etxt.exe\u2066") == "admintxt.exe"
    assert shown("half \ud83d emoji") == "half \ufffd emoji"


@pytest.mark.slow
def test_secrets_are_not_shown():
    """A known key is masked wherever it turns up, also when it is cut."""
    hide("sk-render-0123456789abcdef")
    text = "key=sk-render-0123456789abcdef " * 300
    blocks = run_blocks(plan(one_call(answer=result(text), text=text, thought=text), text=text, answer=text))

    for block in blocks:
        for start in range(len("sk-render-0123456789abcdef") - 8):
            assert "sk-render-0123456789abcdef"[start : start + 8] not in block.html + block.text
    assert "[hidden]" in blocks[-1].html


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 15), st.text(max_size=3_000))
def test_any_run_keeps_its_bound(steps, content):
    """Property: any text in any number of steps stays below the bound."""
    assert bytes_of(*run_blocks(long_run(steps, content, answer=content or "ok"), 50_000)) < 50_000
