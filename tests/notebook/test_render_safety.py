"""Nothing that a model, a tool or a user writes becomes live HTML, and everything they write can be read."""

from __future__ import annotations

import html
import re

import pytest
from hostile import PAYLOADS
from html_seen import Seen
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import call, newest, plan, result

from agentnb.core.limits import StopReason
from agentnb.core.state import State
from agentnb.notebook.bounds import shown
from agentnb.notebook.render import Block, goal_block, run_blocks, step_block

TAGS = set(
    [
        "div",
        "details",
        "summary",
        "b",
        "br",
        "code",
        "pre",
        "span",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
        "strong",
        "em",
        "s",
        "a",
        "ul",
        "ol",
        "li",
        "hr",
        "blockquote",
    ]
)
ATTRIBUTES = {"style", "class", "scope", "href", "rel", "target", "start", "tabindex"}
STYLE = re.compile(r"[a-z-]+:[\w\s.,()%+-]+(;[a-z-]+:[\w\s.,()%+-]+)*;?")


def everywhere(text: str) -> State:
    """A run in which this text stands wherever a model, a tool, a user or an error can write."""
    asked = [call(text, text, "a"), call(f"f{text}", '{"x": 1}', "b"), call("g", "{}", "c", problem=text)]
    state = plan(State.start(text), *asked, text=text, thought=text, notes=(text,), retries=(text,), finish=text)
    more = {"notes": (text,), "traceback": text, "version": f"{text}@1·abc", "arguments": {text: text}, "name": text}
    for number, status in (("a", "ok"), ("b", "error"), ("c", text)):
        state = state.answered(result(text or "x", status, number, **more))
    state = plan(state.say(f"{text}."), text=text, stop=StopReason.TRUNCATED, detail=text)
    state = plan(state.say(f"{text}."), again=text, text=text)
    return plan(state, text=text, answer=text) if text.strip() else state.stopped(StopReason.ERROR, text)


def blocks_of(text: str) -> list[Block]:
    """Every block of such a run, and the forms that only appear in other places."""
    state = everywhere(text)
    folded = run_blocks(state)
    return [*folded, *run_blocks(state.stopped(StopReason.ERROR, text), name="mine"), step_block(state.steps[0], 1_500)]


def check(block: Block) -> Seen:
    """The HTML parses, and holds only the tags, attributes, links and styles that we make."""
    seen = Seen(block.html)
    assert {tag for tag, _ in seen.tags} <= TAGS
    for _, name, value in seen.attributes():
        assert name in ATTRIBUTES
        assert value is not None
        if name == "href":
            assert re.match("(https?://|mailto:)", value, re.IGNORECASE)
        if name == "style":
            assert STYLE.fullmatch(value), value
            assert "url" not in value
        if name == "class":
            assert set(value.split()) <= {"tex2jax_ignore", "mathjax_ignore", "tex2jax_process", "mathjax_process"}
    block.html.encode()
    block.text.encode()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_is_live(payload):
    """In goal, answer, reasoning, tool name, arguments, result, error, note, traceback: text, nothing else."""
    for block in blocks_of(payload):
        check(block)
        for tag in ("<img", "<script", "<iframe", "<svg", "<style", "<!--"):
            assert tag not in block.html.lower()


def test_links_open_apart():
    """An answer's link tells the page it opens nothing about the notebook."""
    block = run_blocks(everywhere("[docs](https://docs.example/a?b=1&c=2) [mail](mailto:a@b.example)"))[-1]
    links = [attrs for tag, attrs in Seen(block.html).tags if tag == "a"]

    assert links == [
        {"href": "https://docs.example/a?b=1&c=2", "target": "_blank", "rel": "noopener noreferrer"},
        {"href": "mailto:a@b.example", "target": "_blank", "rel": "noopener noreferrer"},
    ]


def test_blocks_need_no_styles():
    """With every style and class taken away the same text is there, in tags that mean something."""
    for block in blocks_of("plain\ntext"):
        bare = re.sub(r' (?:style|class)="[^"]*"', "", block.html)

        assert Seen(bare).text == Seen(block.html).text
        assert "style" not in bare


def test_blocks_hold_no_ids_colours_or_scripts():
    """Text colours are inherited, grounds are a translucent grey; there are no ids and no style sheets."""
    for block in blocks_of("plain"):
        styles = " ".join(value or "" for _, name, value in Seen(block.html).attributes() if name == "style")

        assert not re.search(r"(?<!-)\bcolor:|#[0-9a-f]{3}|var\(", styles)
        assert set(re.findall(r"rgba\([^)]*\)", styles)) <= {
            f"rgba(128,128,128,{grey})" for grey in (".12", "0.25", "0.45", "0.75", "1")
        }


def test_colour_codes_and_controls_are_not_shown():
    """A terminal's colours are left out of the display and kept in the run."""
    state = everywhere("\x1b[31mred\x1b[0m \x07\x00")

    for block in run_blocks(state):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]", block.html + block.text)
    assert "\x1b[31mred" in state.steps[0].results[0].content


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.text(max_size=300))
def test_any_text_survives(text):
    """Property: whatever is written, it can be encoded, the HTML parses, and the text that can be shown is in it."""
    blocks = blocks_of(text)
    seen = [check(block) for block in blocks]

    assert shown(text) in seen[0].text
    first = seen[1].text
    assert shown(text) in first or not shown(text)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="<>&\"'`[]()!*_#$\\|-~:\n ax/\x1b\u202e\ud800", max_size=120))
def test_any_markup_survives(text):
    """Property: the same for texts made of what HTML, Markdown and formulas are made of."""
    for block in blocks_of(text):
        check(block)


def test_the_goal_keeps_its_form():
    """Line ends and spaces of the goal are there with and without styles."""
    goal = "Explain {x for x in y}, $HOME\n\n    if a < b & c:\n"
    block = goal_block(State.start(goal))

    assert goal in Seen(block.html).text
    assert html.escape("if a < b & c") in block.html


def test_a_step_says_exactly_what_the_tool_said():
    """A result is shown letter by letter, its first line end too."""
    content = "\n  two  spaces <b>&amp;</b>\t$5 \\(x\\)\n"
    seen = check(step_block(newest(plan(State.start("g"), call()).answered(result(content)))))

    assert content in seen.text
