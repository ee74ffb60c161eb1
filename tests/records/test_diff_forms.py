"""A comparison as HTML and Markdown: nothing of the runs becomes markup, bare tags tell the same as the text."""

from __future__ import annotations

import pytest
from html_seen import Seen
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.records.diff import Diff, diff
from agentnb.records.diff_align import SHORT, matches

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "```\n![x](http://127.0.0.1/leak.png)\n~~~",
    "[click](javascript:alert(1)) $x^2$ \\(y\\)",
    "\x1b[31mred\x1b[0m\x00\x07",
    "\u202eright to left\u2066",
    "half \ud83d of an emoji",
    "</code></td></details>",
]
OURS = {"div", "b", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "code"}


def compared(hostile: str) -> Diff:
    """Two runs in which this text is everywhere: goal, tool name, arguments, result, answer, names."""

    def ran(more: str) -> State:
        asked = (ToolCall("c", f"t{hostile}{more}", f'{{"x": "{hostile}{more}"}}'),)
        state = State.start(f"{hostile}{more}")
        state = state.planned(Decision(ModelReply(reasoning=hostile + more, calls=asked), calls=asked))
        state = state.answered(ToolResult("c", asked[0].name, f"{hostile}{more}", "error"))
        return state.planned(Decision(ModelReply(hostile + more), answer=hostile + more))

    return diff(ran(""), ran("!"), names=(f"a{hostile}", f"b{hostile}"))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_html_holds_only_our_tags(hostile):
    """Whatever a model or a tool wrote is text, without characters that could move others."""
    seen = Seen(compared(hostile).html)

    assert {tag for tag, _ in seen.tags} <= OURS
    assert {name for _, attributes in seen.tags for name in attributes} <= {"class", "style", "scope", "open"}
    assert seen.tags[0][1]["class"] == "tex2jax_ignore mathjax_ignore"
    assert all(sign.isprintable() for sign in seen.text)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_markdown_is_one_fence(hostile):
    """All of it stands in a fence that nothing inside can close."""
    first, *inside, last = compared(hostile).markdown.split("\n")

    assert first == f"{last}diff"
    assert set(last) == {"`"}
    assert len(last) >= 3
    assert not any(last in line for line in inside)
    assert all(line.isprintable() for line in inside)


def test_the_html_says_what_the_text_says():
    """Each difference of the text stands in a table; the first divergence is open."""
    made = compared("x")
    seen = Seen(made.html)

    for row in made.rows:
        for each in row["differences"]:
            assert each["what"] in seen.text
    assert [attributes for tag, attributes in seen.tags if tag == "details"] == [{"open": None}, {}]
    assert "what" in seen.text


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from("abcde"), max_size=12), st.lists(st.sampled_from("abcde"), max_size=12))
def test_matches_are_equal_stretches_in_order(one, other):
    """No place is in two stretches; what is matched is equal; equal lists match whole."""
    found = list(matches(one, other))
    at = other_at = 0
    for start, other_start, size in found:
        assert start >= at
        assert other_start >= other_at
        assert one[start : start + size] == other[other_start : other_start + size]
        at, other_at = start + size, other_start + size
    assert one != other or sum(size for _, _, size in found) == len(one)


def run_of(names: str, start: State | None = None) -> State:
    """A run with one call to each of these tools."""
    state = start or State.start("goal")
    for name in names:
        calls = (ToolCall("c", name),)
        state = state.planned(Decision(ModelReply(calls=calls), calls=calls)).answered(ToolResult("c", name, name))
    return state


@settings(max_examples=25, deadline=None)
@given(st.text("abc", max_size=8), st.text("abc", max_size=8), st.text("abc", max_size=4))
def test_every_step_has_its_place(one, other, shared):
    """Each step of both runs stands in one row, in order; rows that say "same" hold equal steps; forks share."""
    base = run_of(shared)
    runs = [run_of(names, base) for names in (one, other)]
    made = diff(*runs)

    assert [row["step"] for row in made.rows if row["step"]] == [step.number for step in runs[0].steps]
    assert [row["other_step"] for row in made.rows if row["other_step"]] == [step.number for step in runs[1].steps]
    assert all(row["did"] == row["other_did"] for row in made.rows if row["status"] in ("same", "shared"))
    assert [row["status"] for row in made.rows].count("shared") == len(shared)
    assert made.equal == (one == other)
    assert str(made) == str(diff(*runs))


def test_long_runs_are_cut_at_what_stands_once():
    """With every second pair swapped half of the steps can match, and do."""
    count = 4 * SHORT
    swapped = [number ^ 1 for number in range(count)]

    assert sum(size for _, _, size in matches(range(count), swapped)) == count // 2
    assert sum(size for _, _, size in matches([1] * count, [2] + [1] * count)) == count
    assert sum(size for _, _, size in matches([1] * count + [2], [1] * count + [3])) == count
    assert sum(size for _, _, size in matches([1, 2] * count, [2, 1] * count)) <= 2 * count
