"""What is safe to show: a key stays hidden however unseen signs are put into it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.notebook.bounds import shown
from agentnb.text import counted, hide, holds_key, looks_like_key, mask, plain
from agentnb.tools.quoted import readable

KEY = "sk-Zq7xW2vKp9LmT4"
UNSEEN = (
    "\x00",
    "\x7f",
    "\x85",
    "\x9b0m",
    "\x1b[31m",
    "\u200b",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\xad",
    "\ufe0f",
    "\u3164",
    "\uffa0",
    "\ufffa",
    "\U000e0041",
)
hide(KEY)


@pytest.mark.parametrize("sign", UNSEEN)
def test_a_key_is_hidden_whatever_stands_between_its_letters(sign):
    """What takes no room when it is shown leaves a key readable, so it leaves it hidden, too."""
    text = f"the key is {sign.join(KEY)}, keep it"

    assert mask(text) == "the key is [hidden], keep it"


@given(
    st.lists(st.sampled_from(UNSEEN), min_size=len(KEY), max_size=len(KEY)), st.text(max_size=20), st.text(max_size=20)
)
@settings(max_examples=40, deadline=None)
def test_no_piece_of_a_key_is_shown(signs, before, after):
    """Whatever is put into it and around it, no way to show a text shows eight letters of the key in a row."""
    text = before + "".join(sign + letter for sign, letter in zip(signs, KEY, strict=True)) + after

    for told in (mask(text), mask(plain(text)), shown(text), readable(text)):
        assert not any(KEY[place : place + 8] in plain(told).translate(GONE) for place in range(len(KEY) - 7))


GONE = {ord(sign): None for sign in UNSEEN if len(sign) == 1}


@given(st.text(max_size=60))
@settings(max_examples=40, deadline=None)
def test_a_text_without_a_key_stays_as_it_is(text):
    """Masking takes nothing away: joined emoji, Persian and marks of direction keep their signs."""
    assert mask(text) == text
    assert mask(f"{text} {KEY} {text}").replace("[hidden]", KEY) == f"{text} {KEY} {text}"


def test_a_key_that_was_pasted_with_an_unseen_sign_is_hidden():
    """A copied key may begin with a byte order mark."""
    hide("\ufeffsk-Pasted-0123456789")

    assert mask("it is sk-Pasted-0123456789.") == "it is [hidden]."


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[1mbold\x1b[0m", "bold"),
        ("\x9b1mbold\x9b0m", "bold"),
        ("a\x85b\x90c", "abc"),
        ("tab\tline\n", "tab\tline\n"),
    ],
)
def test_control_signs_are_taken_out(text, seen):
    """Those of one byte, too, which some terminals obey."""
    assert plain(text) == seen


@pytest.mark.parametrize(("number", "told"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (1_000, "1,000 steps")])
def test_a_number_has_its_noun(number, told):
    """One is not many."""
    assert counted(number, "step") == told


KEYS = (
    "sk-proj-abcdefghijklmnop0123",
    "gsk_0123456789abcdefgh",
    "nvapi-abcdefghijklmnop1234",
    "r8_abcdefghijklmnop1234",
    "ghp_abcdefghijklmnop1234",
    "github_pat_abcdefghijklmnop1234",
    "hf_abcdefghijklmNOPqrstuvwxyz",
    "AIzaSyabcdefghijklmnop1234",
    "AKIAIOSFODNN7EXAMPLE",
)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_known_by_its_looks(key):
    """Alone, in prose, below a line, in colours, between quotes, and as JSON, a repr or an address writes it down."""
    places = [
        "{}",
        "it is {}, keep it",
        "key:\n{}",
        "key:\t{}",
        "\x1b[31m{}\x1b[0m",
        "K={}",
        "ключ{}",
        "https://a.example/?k%3D{}",
    ]
    texts = [place.format(key) for place in places]

    assert looks_like_key(key)
    for text in [*texts, "\u200b".join(key), *map(repr, texts), *(json.dumps(json.dumps(text)) for text in texts)]:
        assert holds_key(text), text


@pytest.mark.parametrize(
    "text",
    [
        "a risk-averse-investor-2024-portfolio",
        "<div class='sk-text-repr-fallback sk-container-id-1'>",
        "hf_hub_download_with_retries",
        "sk-short1",
        "a1" * 16,
        "",
    ],
)
def test_what_only_begins_like_a_key_is_none(text):
    """Words of prose, of pages and of programs, and sums over files."""
    assert not holds_key(text)


@pytest.mark.parametrize("piece", ["\\", "sk-", "hf_", "\\x1b[1;", "%41"])
@pytest.mark.timeout(20)
def test_a_long_text_is_searched_in_one_go(piece):
    """Thirty times as long takes no minutes."""
    assert not holds_key(piece * 30_000)
