"""Arguments as they go into the history: always the strict JSON of an object."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentnb.strict_json import encode, normalised, object_text


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('{ "a" : 1 }', '{ "a" : 1 }'),
        ("", "{}"),
        ("  ", "{}"),
        ("null", "{}"),
        ("[1]", "{}"),
        ('{"a": ', "{}"),
        ('"{\\"city\\": \\"Oslo\\"}"', '{"city": "Oslo"}'),
        ('{"y": [1, NaN, Infinity]}', '{"y": [1, null, null]}'),
        ('{"re": "\\d+"}', '{"re": "\\\\d+"}'),
        ('{"t": "one\ntwo"}', '{"t": "one\\ntwo"}'),
        ('{"t": "cut \\ud83d"}', '{"t": "cut \ufffd"}'),
        ('{"t": "\\ud83d\\ude00"}', '{"t": "\\ud83d\\ude00"}'),
    ],
)
def test_arguments_become_the_strict_json_of_an_object(text: str, sent: str) -> None:
    """What is fine stays as it was written, the rest keeps its meaning as far as JSON can say it."""
    assert object_text(text) == sent


@pytest.mark.slow
@given(st.text() | st.recursive(st.none() | st.floats() | st.text(), st.lists, max_leaves=5).map(json.dumps))
def test_any_text_gives_an_object_that_every_server_takes(text: str) -> None:
    """No text can break a later request."""
    encode(json.loads(object_text(text)))
    object_text(text).encode()


def test_the_same_value_has_one_spelling() -> None:
    """Key order and spaces don't count; what is no JSON is compared as it is."""
    assert normalised('{"b":1, "a":2}') == normalised('{"a": 2,"b": 1}')
    assert normalised("{oops") == "{oops"
