"""Whatever a tool returns or raises becomes non-empty, bounded text, and the object itself stays as it was."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections import OrderedDict, UserList, deque, namedtuple
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agentnb.errors import ToolError
from agentnb.text import hide
from agentnb.tools.results import error_text, result_text, traceback_text
from agentnb.tools.sketch import NON_FINITE, SHORTENED

LIMIT = 16_000


class Size(Enum):
    """Two sizes."""

    SMALL = "small"


class Item(BaseModel):
    """A thing."""

    name: str
    when: date


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    secret: str = dataclasses.field(default="hidden", repr=False)


class Broken:
    """Can't be shown."""

    def __repr__(self) -> str:
        raise ValueError("no")


class BrokenMapping(Mapping[str, int]):
    """Promises what it doesn't hold."""

    def __getitem__(self, key: str) -> int:
        raise KeyError(key)

    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 3


class Bare:
    """Has no words of its own."""


def text_of(value: Any, limit: int = LIMIT) -> str:
    """The text alone."""
    return result_text(value, limit)[0]


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("plain text", "plain text"),
        ("", '""'),
        ("  \n", "(3 characters of white space)"),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (33.5, "33.5"),
        (float("nan"), "null"),
        (np.int64(7), "7"),
        (np.float32(0.5), "0.5"),
        (np.bool_(True), "true"),
        (np.float64("nan"), "null"),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (np.array([[1, 2], [3, 4]]), "[[1, 2], [3, 4]]"),
        (np.array(5), "5"),
        ([], "[]"),
        ({}, "{}"),
        ((1, "a"), '[1, "a"]'),
        ({"t": datetime(2026, 1, 2, tzinfo=UTC), "v": float("nan")}, '{"t": "2026-01-02T00:00:00+00:00", "v": null}'),
        ({3, 1, 2}, "[1, 2, 3]"),
        (frozenset({"b", "a"}), '["a", "b"]'),
        ({1: "a", "1": "b"}, '{"1": "a", "1 (str)": "b"}'),
        ({(1, 2): None}, '{"(1, 2)": null}'),
        (Point(1), '{"x": 1}'),
        (Item(name="é", when=date(2026, 1, 2)), '{"name": "é", "when": "2026-01-02"}'),
        (Pair(1, 2), '{"left": 1, "right": 2}'),
        (Size.SMALL, "small"),
        (Decimal("7.50"), "7.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a/b"), "/a/b"),
        (timedelta(days=1), "1 day, 0:00:00"),
        (range(3), "[0, 1, 2]"),
        (deque([1]), "[1]"),
        (UserList([1]), "[1]"),
        (OrderedDict(a=1), '{"a": 1}'),
        (b"\xff\x00", "2 bytes as base64: /wA="),
        ({"b": b"hi"}, '{"b": "2 bytes as base64: aGk="}'),
        ({"y": np.arange(3), "z": np.float32(0.5)}, '{"y": [0, 1, 2], "z": 0.5}'),
        (np.array([1.0, np.nan]), "[1.0, null]"),
        ({"b": 1, "a": 2}.keys(), '["b", "a"]'),
        ({"b": 1}.values(), "[1]"),
        (ValueError("x"), "ValueError('x')"),
        (int, "<class 'int'>"),
        ("\x1b[31mred\x1b[0m", "red"),
        (["\x1b[31mred\x1b[0m"], '["red"]'),
        ("half \ud83d", "half �"),
        ({"half \ud83d": "\ud83d"}, '{"half �": "�"}'),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_values_become_text(value, wanted):
    """Each kind of value has its text: JSON for data, its own words for the rest."""
    assert text_of(value) == wanted


def test_objects_have_no_address():
    """The text is the same in every process."""
    assert text_of(Bare()) == "<test_results.Bare object>"


def test_numbers_that_json_lacks_are_noted():
    """NaN inside data becomes null, and the step says so."""
    assert result_text([1.0, float("inf")], LIMIT) == ("[1.0, null]", (NON_FINITE,))


def test_a_list_that_holds_itself():
    """A cycle is named once and doesn't recurse."""
    loop: list[Any] = [1]
    loop.append(loop)

    assert text_of(loop) == '[1, "(contains itself)"]'


@pytest.mark.parametrize("value", [Broken(), [Broken()], BrokenMapping(), {"a": BrokenMapping()}])
def test_objects_that_can_not_be_shown(value):
    """A repr or a mapping that raises never ends a run."""
    assert "can't be shown" in text_of(value)


@pytest.mark.slow
def test_very_deep_data_is_cut():
    """A hundred thousand levels are no recursion."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    assert "…" in text_of(deep)


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        list(range(1_000_000)),
        dict.fromkeys(range(300_000), "x"),
        set(range(300_000)),
        "x" * 5_000_000,
        ["y" * 1_000_000] * 5,
        np.arange(1_000_000),
        np.zeros((1_000, 1_000)),
        pd.DataFrame(np.zeros((100_000, 3)), columns=list("abc")),
        pd.DataFrame(np.zeros((5, 5_000))),
        pd.Series(range(100_000)),
        b"z" * 5_000_000,
        10**100_000,
        {"log": "é" * 5_000_000, "status": "fine"},
    ],
    ids=["list", "dict", "set", "text", "texts", "array", "matrix", "frame", "wide", "series", "bytes", "int", "log"],
)
def test_huge_values_are_bounded_in_size_and_time(value):
    """The text stays within the limit and costs little, whatever the size of the value."""
    began = time.process_time()
    text, notes = result_text(value, LIMIT)

    assert 0 < len(text) <= LIMIT
    assert time.process_time() - began < 2
    assert SHORTENED in notes or "digits" in text


@pytest.mark.slow
def test_previews_say_what_they_show():
    """Type, size and how much is shown stand in the text."""
    assert text_of(list(range(1_000_000))).startswith("list of 1,000,000 items, showing ")
    assert "of 1,000,000" in text_of(list(range(1_000_000)))[-40:]
    assert text_of(np.arange(1_000_000)).startswith("array of int64, shape (1000000,), showing 20 of 1,000,000: [0, 1,")
    frame = text_of(pd.DataFrame({"a": range(100_000), "b": 0.5}))
    assert frame.startswith("DataFrame, 100,000 rows x 2 columns (a int64, b float64), showing 20 of 100,000 rows:")
    assert text_of(pd.DataFrame({"a": [1]})).endswith("a\n0  1")


def test_a_long_part_leaves_room_for_the_others():
    """One long field of a dict doesn't push the short ones out."""
    text = text_of({"log": "x" * 100_000, "status": "fine"})

    assert '"status": "fine"' in text
    assert "(100,000 characters)" in text


def test_what_fits_is_whole():
    """A long first field is left whole when everything fits."""
    value = {"text": "x" * 10_000, "rest": list(range(100))}

    assert json.loads(text_of(value)) == value


def test_long_text_keeps_head_and_tail():
    """The cut says how much was left out, and whole characters stay."""
    text = text_of("head " + "日本" * 1_000_000 + " tail")

    assert text.startswith("head ")
    assert text.endswith(" tail")
    assert "characters left out" in text


def test_secrets_are_hidden_in_results():
    """A known secret never reaches the model through a result."""
    hide("KEY-TEST-RESULTS-123")

    assert "KEY-TEST" not in text_of({"env": "x KEY-TEST-RESULTS-123 y"})
    assert "KEY-TEST" not in error_text(ValueError("KEY-TEST-RESULTS-123"), LIMIT)
    assert "KEY-TEST" not in traceback_text(ValueError("KEY-TEST-RESULTS-123"))


@pytest.mark.slow
def test_figures_are_named_and_closed():
    """Thirty figures leave no open figure, no warning, and can still be drawn."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    for _ in range(30):
        figure, axes = pyplot.subplots(figsize=(6.4, 4.8), dpi=100)
        assert text_of(figure) == "figure 640x480"
        assert text_of(axes) == "figure 640x480"
        assert text_of([figure]) == '["figure 640x480"]'

    assert pyplot.get_fignums() == []
    figure.canvas.draw()


def test_other_libraries_are_not_imported():
    """Arrays, frames and figures are recognised without loading their libraries."""
    code = (
        "import sys; from agentnb.tools.results import result_text; result_text({'a': [object()]}, 100);"
        "sys.exit(str({'numpy', 'pandas', 'matplotlib'} & set(sys.modules)) if "
        "{'numpy', 'pandas', 'matplotlib'} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (ValueError("bad value"), "ValueError: bad value"),
        (AssertionError(), "AssertionError"),
        (ValueError("  "), "ValueError"),
        (KeyError("x"), "KeyError: 'x'"),
        (SystemExit(3), "SystemExit: 3"),
        (ToolError("Say it in these words."), "Say it in these words."),
        (ToolError(""), "ToolError"),
        (ValueError("\x1b[31mred \ud83d"), "ValueError: red �"),
        (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "ValueError: a"),
    ],
)
def test_errors_become_text(error, wanted):
    """Type and message; a ToolError chooses its text."""
    assert wanted in error_text(error, LIMIT)


def test_errors_are_bounded():
    """Two million characters of message are cut; a message that can't be read is no failure."""

    class Unreadable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert len(error_text(ValueError("x" * 2_000_000), LIMIT)) <= 4_000
    assert error_text(Unreadable(), LIMIT).startswith("Unreadable")
    assert len(traceback_text(ValueError("x" * 2_000_000))) <= 10_000


nested = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=300)
    | st.binary(max_size=50)
    | st.dates()
    | st.decimals()
    | st.builds(Bare)
    | st.builds(Broken),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text(max_size=5) | st.integers() | st.none(), inner, max_size=6)
        | st.tuples(inner, inner)
        | st.sets(st.integers() | st.text(max_size=3), max_size=4)
    ),
    max_leaves=40,
)


BRIEFLY = settings(max_examples=50, deadline=None)


@pytest.mark.slow
@given(nested, st.integers(100, 3_000))
@BRIEFLY
def test_any_nested_value_is_bounded_text(value, limit):
    """Whatever is nested in whatever: non-empty text within the limit that can be encoded."""
    text, notes = result_text(value, limit)

    assert 0 < len(text) <= limit
    assert text.strip()
    assert text.encode()
    assert isinstance(notes, tuple)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(alphabet="abc é", max_size=9),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet="abc", max_size=3), inner),
        max_leaves=20,
    ).filter(lambda value: not isinstance(value, str))
)
@BRIEFLY
def test_plain_data_is_whole_strict_json(value):
    """Data that fits is JSON with nothing lost."""
    assert json.loads(text_of(value)) == value
