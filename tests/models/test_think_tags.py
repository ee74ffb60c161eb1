"""Reasoning between <think> tags: apart from the answer, whole or in pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.models.think_tags import Splitter, split

WORDS = st.lists(st.sampled_from(["<think>", "</think>", "<thi", "</th", " ", "\n", "a", "b c", "<"]), max_size=8)


def told(pieces: list[str]) -> tuple[str, str]:
    """What a Splitter says of these pieces and their end: reasoning and text."""
    splitter = Splitter()
    said = [pair for piece in pieces for pair in splitter.feed(piece)] + splitter.close()
    assert all(text for _, text in said)
    reasoning, text = ("".join(text for kind, text in said if kind == wanted) for wanted in ("reasoning", "text"))
    return reasoning, text


@pytest.mark.slow
@settings(max_examples=100)
@given(words=WORDS, data=st.data())
def test_pieces_say_the_same_as_the_whole(words, data):
    """Wherever a text is cut, its pieces are told as what they are in the whole."""
    text = "".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[at:to] for at, to in pairwise((0, *cuts, len(text)))]

    assert told([piece for piece in pieces if piece]) == split(text)
    assert told(list(text)) == split(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\na\n</think>\n\nb", ("a", "b")),
        (" <think></think>b", ("", "b")),
        ('<think>Maybe {"tool": "delete_file"}', ('Maybe {"tool": "delete_file"}', "")),
        ("<think>a </th", ("a </th", "")),
        ("<thin", ("", "<thin")),
        ("  ", ("", "  ")),
        ("b <think>a</think>", ("", "b <think>a</think>")),
    ],
)
def test_split(text, expected):
    """A block at the beginning is reasoning, also one that never ends; anything else is text."""
    assert split(text) == expected == told(list(text))
