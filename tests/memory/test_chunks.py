"""Cutting: along headings, blocks and sentences; nothing lost, nothing too wide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.memory.chunks import Block, chunks, sentences, width

PROSE = st.text(st.sampled_from(list('ab. !?。！天气\n  "”')), max_size=300)


@given(PROSE)
@settings(max_examples=30, deadline=None)
def test_sentences_are_the_text(text):
    """Joined, they are the text again."""
    assert "".join(sentences(text)) == text


@given(st.lists(st.tuples(PROSE, st.sampled_from([("A",), ("A", "B"), ()]), st.booleans()), max_size=6))
@settings(max_examples=30, deadline=None)
def test_nothing_is_lost_and_nothing_too_wide(given_blocks):
    """Every character but white space is in some chunk, in order; each chunk fits and is under its headings."""
    blocks = [Block(text, headings, "line 1", lined) for text, headings, lined in given_blocks]

    made = list(chunks(blocks, widest=40))

    assert "".join("".join(each.text.split()) for each in made) == "".join(
        "".join(each.text.split()) for each in blocks
    )
    assert all(width(each.text.replace("\n\n", "")) <= 40 for each in made)
    assert all(each.text.strip() for each in made)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ("今天下雨。明天晴！“真的？”他问。", ["今天下雨。", "明天晴！", "“真的？”", "他问。"]),
        ("Dr. Wu has 3.5 cats, e.g. Miau. Yes.", ["Dr. Wu has 3.5 cats, e.g. Miau. ", "Yes."]),
        ("See example.org for more... Then go.", ["See example.org for more... ", "Then go."]),
        ("one\ntwo\n\nthree", ["one\ntwo\n\n", "three"]),
    ],
)
def test_where_sentences_end(text, parts):
    """English and Chinese ends, quotes behind them, abbreviations, numbers, addresses, blank lines."""
    assert sentences(text) == parts


def test_neighbours_under_one_heading_share_a_chunk():
    """As far as they fit; a heading begins another one."""
    blocks = [Block("a" * 30, ("A",), "line 1"), Block("b" * 30, ("A",), "line 3"), Block("c", ("A", "B"), "line 5")]

    assert [(each.text[0], each.place) for each in chunks(blocks)] == [("a", "line 1"), ("c", "line 5")]
    assert [each.text[0] for each in chunks(blocks, widest=50)] == ["a", "b", "c"]


def test_pages_do_not_share_a_chunk():
    """A page is a place that a reader looks up."""
    pages = [Block("one", (), "page 1"), Block("two", (), "page 2")]

    assert [each.place for each in chunks(pages)] == ["page 1", "page 2"]


def test_code_that_fits_stays_whole_and_other_code_is_cut_between_lines():
    """No line is torn, and each piece knows its line."""
    code = "\n".join(f"value_{number} = {number}." for number in range(20))
    assert [each.text for each in chunks([Block(code, lined=True)])] == [code]

    cut = list(chunks([Block(code, (), "cell 2, line 1", lined=True)], widest=100))
    assert "\n".join(each.text for each in cut) == code
    assert [each.place for each in cut] == ["cell 2, line 1", "cell 2, line 8", "cell 2, line 15"]


def test_a_long_paragraph_is_cut_between_sentences():
    """Each piece ends a sentence."""
    text = " ".join(f"This is sentence number {number}." for number in range(30))

    assert all(each.text.endswith(".") for each in chunks([Block(text)], widest=200))


def test_chinese_takes_its_room():
    """A chunk of Chinese has a third of the characters, since each is about a token."""
    made = list(chunks([Block("天气很好。" * 200)], widest=300))

    assert {len(each.text) for each in made} == {100}


@pytest.mark.slow
@pytest.mark.parametrize("piece", [".", "a.", "a \n", "。", "\n ", "A. "])
def test_no_text_takes_long(piece):
    """The work grows with the text, not with its square: fifty thousand signs of the worst kinds."""
    text = piece * (50_000 // len(piece))

    assert sum(len(each.text) for each in chunks([Block(text)])) <= len(text) + 2 * len(text)
