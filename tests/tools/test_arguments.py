"""Casting: what the model wrote becomes the tool's own types, or one text that names every problem."""

from __future__ import annotations

import json
import math
import time
from contextlib import suppress
from datetime import datetime
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agentnb.core.messages import ToolCall
from agentnb.errors import ToolArgumentError
from agentnb.text import hide
from agentnb.tools.arguments import cast_arguments
from agentnb.tools.tool import Tool, tool


class Units(Enum):
    """Two systems of measure."""

    METRIC = "metric"
    IMPERIAL = "imperial"


class Item(BaseModel):
    """A thing to buy."""

    name: str
    count: int = 1
    parts: list[Item] = []


def now() -> str:
    """The time."""
    return "12:00"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def every(
    whole: int = 0,
    real: float = 0.0,
    flag: bool = False,
    text: str = "",
    unit: Literal["celsius", "kelvin"] = "celsius",
    units: Units = Units.METRIC,
    words: list[str] = [],  # noqa: B006 - the default is part of the test
    level: Literal[1, 2, 3] = 1,
    maybe: int | None = None,
    either: int | str = 0,
) -> None:
    """One parameter of each simple type."""


def cast(function: Any, text: str, **options: Any) -> dict[str, Any]:
    """The values of a call."""
    return read(function, text, **options)[0]


def read(function: Any, text: str, extra: str = "refuse") -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values of a call, and the notes."""
    made: Tool = tool(function)
    return cast_arguments(ToolCall("c1", made.name, text), made.parameters, extra)


def refused(function: Any, text: str) -> str:
    """The text that goes back to the model."""
    with pytest.raises(ToolArgumentError) as caught:
        read(function, text)
    return str(caught.value)


@pytest.mark.parametrize("text", ["", "  ", "null", "{}", '""', '"{}"'])
def test_every_empty_form_means_no_arguments(text):
    """A tool without parameters is called whatever way the model wrote nothing."""
    assert cast(now, text) == {}


@pytest.mark.parametrize("text", ["", "  ", "null", "{}"])
def test_missing_arguments_are_named(text):
    """Each required argument that is missing stands in the error."""
    assert "a is missing" in refused(add, text)
    assert "b is missing" in refused(add, text)


def test_right_arguments_change_nothing():
    """Values of the right types pass with no note."""
    assert read(add, '{"a": 1, "b": 2}') == ({"a": 1, "b": 2}, ())


def test_an_object_written_as_a_string_is_read():
    """A whole object inside a JSON string is the object, and the step says so."""
    values, notes = read(add, json.dumps('{"a": 1, "b": 2}'))

    assert values == {"a": 1, "b": 2}
    assert "inside a string" in notes[0]


def test_text_is_decoded_only_where_the_type_is_not_text():
    """A list or dict in a string is decoded; a text parameter keeps its text."""

    def f(xs: list[int], opts: dict[str, Any], note: str) -> None: ...

    values, notes = read(f, '{"xs": "[1,2]", "opts": "{\\"k\\": 1}", "note": "[1,2]"}')

    assert values == {"xs": [1, 2], "opts": {"k": 1}, "note": "[1,2]"}
    assert [note.partition(":")[0] for note in notes] == ["xs", "opts"]
    assert cast(take_text, '{"raw": "{\\"a\\": 1}"}') == {"raw": '{"a": 1}'}


def take_text(raw: str) -> None:
    """Take text."""


def test_decoded_text_must_fit():
    """Text that decodes to another type is refused like any wrong value."""

    def f(xs: list[int]) -> None: ...

    assert "expected a valid array" in refused(f, '{"xs": "{\\"a\\": 1}"}')
    assert "expected a valid integer" in refused(f, '{"xs": "[1, \\"two\\"]"}')


@pytest.mark.parametrize(
    ("name", "given_json", "wanted"),
    [
        ("whole", '"3"', 3),
        ("whole", "3.0", 3),
        ("whole", '"3.0"', 3),
        ("whole", '" -7 "', -7),
        ("real", '"1.5"', 1.5),
        ("flag", '"false"', False),
        ("flag", '"True"', True),
        ("flag", "0", False),
        ("flag", "1", True),
        ("flag", '"no"', False),
        ("text", "90210", "90210"),
        ("text", "1.5", "1.5"),
        ("unit", '"Celsius"', "celsius"),
        ("units", '"METRIC"', Units.METRIC),
        ("level", '"2"', 2),
        ("words", "[1, 2]", ["1", "2"]),
        ("maybe", '"5"', 5),
        ("maybe", '"null"', None),
    ],
)
def test_simple_values_are_cast_and_noted(name, given_json, wanted):
    """A value whose meaning is plain is cast, and the change is visible."""
    values, notes = read(every, f'{{"{name}": {given_json}}}')

    assert values == {name: wanted}
    assert type(values[name]) is type(wanted)
    assert notes
    assert notes[0].startswith(name)


def test_a_cast_is_told_with_both_values():
    """The note shows what the model wrote and what the tool got."""
    assert read(every, '{"text": 90210}')[1] == ("text: 90210 → '90210'",)


@pytest.mark.parametrize(
    ("name", "given_json", "wanted"),
    [
        ("either", '"5"', "5"),
        ("either", "5", 5),
        ("maybe", "null", None),
        ("real", "3", 3.0),
        ("unit", '"kelvin"', "kelvin"),
    ],
)
def test_values_that_fit_are_left_alone(name, given_json, wanted):
    """Where one branch of the type fits as it is, nothing is cast or noted."""
    assert read(every, f'{{"{name}": {given_json}}}') == ({name: wanted}, ())


@pytest.mark.parametrize(
    ("name", "given_json", "expected"),
    [
        ("whole", "3.5", "integer"),
        ("whole", '"abc"', "integer"),
        ("whole", '"1e999999"', "integer"),
        ("whole", "1e999999", "finite"),
        ("whole", f'"{"9" * 5000}"', "integer"),
        ("whole", '"1e300"', "integer"),
        ("flag", '"maybe"', "boolean"),
        ("flag", "2", "boolean"),
        ("unit", '"rankine"', "'celsius' or 'kelvin'"),
        ("units", '"furlong"', "'metric' or 'imperial'"),
        ("words", '"abc"', "array"),
        ("text", "[1]", "string"),
        ("text", "true", "string"),
    ],
)
def test_values_without_a_plain_meaning_are_refused(name, given_json, expected):
    """Nothing is guessed: the error names the field and what was expected, quickly."""
    began = time.process_time()
    text = refused(every, f'{{"{name}": {given_json}}}')

    assert f"{name}=" in text
    assert expected in text
    assert time.process_time() - began < 1


def test_null_for_a_default_means_the_default():
    """Null where null is no value of the type stands for "not given"."""
    assert read(every, '{"text": null}') == ({}, ("text: null → the default",))
    assert "a=None" in refused(add, '{"a": null, "b": 1}')


def test_fields_of_models_are_cast_too():
    """Casting reaches into models, also recursive ones, and names the place."""

    def buy(item: Item) -> None: ...

    values, notes = read(buy, '{"item": {"name": 7, "parts": [{"name": "x", "count": "2"}]}}')

    assert values["item"] == Item(name="7", parts=[Item(name="x", count=2)])
    assert notes == ("item.name: 7 → '7'", "item.parts[0].count: '2' → 2")


def test_other_types_are_read_from_their_json_form():
    """Times become aware datetimes, base64 becomes bytes; a bad text is refused."""

    def f(when: datetime | None = None, data: bytes = b"") -> None: ...

    values = cast(f, '{"when": "2026-01-02T03:04:05Z", "data": "aGk="}')

    assert values["when"].isoformat() == "2026-01-02T03:04:05+00:00"
    assert values["data"] == b"hi"
    assert "base64" in refused(f, '{"data": "!!"}')


def test_unknown_arguments_refuse_the_call():
    """An argument that the tool doesn't have is never dropped in silence."""

    def remove(path: str) -> None: ...

    text = refused(remove, '{"path": "a", "dry_run": true}')

    assert "unknown argument 'dry_run'" in text
    assert "accepted: path" in text


def test_unknown_arguments_can_be_ignored_visibly():
    """With extra="ignore" the call runs and a note names what was left out."""
    assert read(add, '{"a": 1, "b": 2, "c": 0}', extra="ignore") == (
        {"a": 1, "b": 2},
        ("c: unknown argument ignored",),
    )


def test_any_name_is_taken_by_a_tool_that_takes_any():
    """Arguments for `**more` are cast to its type."""

    def f(x: int, **more: int) -> None: ...

    assert cast(f, '{"x": 1, "y": 2, "z": "3"}') == {"x": 1, "y": 2, "z": 3}
    assert "y='no'" in refused(f, '{"x": 1, "y": "no"}').replace("more.", "")


def test_all_problems_are_told_at_once():
    """One text names each wrong, unknown and missing argument."""

    def f(a: int, b: int, d: int) -> None: ...

    text = refused(f, '{"a": "x", "b": [1, 2], "c": 0}')

    assert all(part in text for part in ("unknown argument 'c'", "a='x'", "b=[1, 2]", "d is missing"))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"a": "x" * 1_000_000, "b": 1}),
        json.dumps({"x" * 5_000: 1}),
        json.dumps({f"name {number}": number for number in range(5_000)}),
        json.dumps({"a": ["x"] * 50_000, "b": "x"}),
        "x" * 100_000,
        "[" * 100_000,
    ],
)
def test_error_texts_are_short(text):
    """Whatever was sent, the error fits in 1,000 characters and holds no address or traceback."""
    told = refused(add, text)

    assert len(told) <= 1_000
    assert "http" not in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_many_problems_are_counted_quickly():
    """A list of wrong items shows the first ones and doesn't hold up the run."""

    def f(xs: list[int]) -> None: ...

    began = time.process_time()
    text = refused(f, json.dumps({"xs": ["x"] * 20_000}))

    assert "xs.0='x'" in text
    assert time.process_time() - began < 2


def test_secrets_are_hidden_in_errors():
    """A known secret that the model sends as an argument doesn't come back in the error."""
    hide("KEY-TEST-ARGUMENTS-1")

    assert "KEY-TEST" not in refused(add, '{"a": "KEY-TEST-ARGUMENTS-1", "b": 1}')


def test_special_numbers_are_accepted():
    """NaN and Infinity, which many models write, are read as numbers."""

    def f(y: list[float]) -> None: ...

    y = cast(f, '{"y": [1, NaN, Infinity]}')["y"]

    assert y[0] == 1.0
    assert math.isnan(y[1])
    assert y[2] == math.inf


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r'{"raw": "\d+"}', r"\d+"),
        (r'{"raw": "a\\d \n \t é"}', "a\\d \n \t é"),
        ('{"raw": "one\ntwo"}', "one\ntwo"),
        (r'{"raw": "caf\u00e9 \ud83d\ude00"}', "café 😀"),
        (r'{"raw": "cut \ud83d"}', "cut �"),
        (r'{"raw": "C:\users"}', r"C:\users"),
    ],
)
def test_strings_keep_their_meaning(text, wanted):
    """Bad escapes and raw line ends are read literally, valid escapes as JSON has them, half emojis replaced."""
    assert cast(take_text, text) == {"raw": wanted}


@pytest.mark.parametrize("text", ['{"a": 1,', "{'a': 1}", '{"a": 1} {"b": 2}', "[1, 2]", "5", '"[1]"', "a=1", '"x"'])
def test_anything_else_is_refused_with_the_reason(text):
    """Text that is no JSON object is never guessed at."""
    assert "JSON" in refused(add, text)


def test_where_a_text_breaks_off_is_said_once():
    """Python's own message of an open string ends in "at", and so does not need ours before the place."""
    assert "Unterminated string starting at character 7" in refused(add, '{"a": "tw')


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(["whole", "real", "flag", "text", "unit", "units", "words", "level", "maybe", "either", "no"])
EVERY = tool(every)


BRIEFLY = settings(max_examples=50, deadline=None)


@pytest.mark.slow
@given(st.dictionaries(names, json_values) | json_values)
@BRIEFLY
def test_casting_raises_nothing_but_its_own_error(value):
    """Any JSON is cast or refused with a text that can be sent."""
    call = ToolCall("c1", "every", json.dumps(value))
    told = ""
    try:
        values, notes = cast_arguments(call, EVERY.parameters)
    except ToolArgumentError as error:
        values, notes, told = {}, (), str(error)

    assert len(told.encode()) < 4_000
    assert set(values) <= set(EVERY.parameters.names)
    assert all(note.encode() for note in notes)


@given(st.text() | st.text(alphabet='{}[]":,\\ud8310aexNn\n', max_size=40))
@BRIEFLY
def test_any_text_is_read_or_refused(text):
    """Text that is hardly JSON never raises anything else."""
    with suppress(ToolArgumentError):
        cast_arguments(ToolCall("c1", "every", text), EVERY.parameters)


@pytest.mark.slow
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "whole": st.integers(-(10**18), 10**18),
            "real": st.floats(allow_nan=False, allow_infinity=False),
            "flag": st.booleans(),
            "text": st.text(st.characters(exclude_categories=["Cs"])),
            "unit": st.sampled_from(["celsius", "kelvin"]),
            "words": st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=3),
            "maybe": st.none() | st.integers(-99, 99),
            "either": st.integers(-99, 99) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        },
    )
)
@BRIEFLY
def test_valid_values_round_trip(values):
    """What fits comes out as it went in, without a note."""
    assert read_every(json.dumps(values)) == (values, ())
    assert read_every(json.dumps(json.dumps(values)))[0] == values


def read_every(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The same as `read`, with the tool made once."""
    return cast_arguments(ToolCall("c1", "every", text), EVERY.parameters)


# ── a name given twice ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b": 2, "a": 3}',
        '{"a": 1, "b": 2, "\\u0061": 1}',
        '"{\\"a\\": 1, \\"b\\": 2, \\"a\\": 3}"',
        '{"a": "1", "b": 2, "a": 3}',
        '{"a": 1, "b": 2, "a": "C:\\path"}',
    ],
)
def test_a_name_given_twice_is_refused(text):
    """Which value is meant is not for us to guess; the model reads which name it was."""
    assert "the name 'a' is given twice, give it once" in refused(add, text)


def test_a_name_given_twice_inside_a_value_is_refused():
    """Inside an object or a list of objects, too."""
    assert "'x' is given twice" in refused(take_any, '{"value": [{"x": 1, "y": 2, "x": 3}]}')
    assert cast(take_any, '{"value": [{"x": 1}, {"x": 2}]}') == {"value": [{"x": 1}, {"x": 2}]}


def take_any(value: Any) -> Any:
    """Take anything."""
    return value


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9)), max_size=4))
@settings(max_examples=40, deadline=None)
def test_no_value_is_lost(pairs):
    """Whatever names stand there, either each value reaches the function or the call is refused."""
    text = "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in pairs) + "}"
    names = sorted(name for name, _ in pairs)

    if names == ["a", "b"]:
        assert cast(add, text) == dict(pairs)
    else:
        assert ("given twice" in refused(add, text)) == (len(set(names)) < len(names))
