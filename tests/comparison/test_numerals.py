"""Numbers in texts: signs, groups, decimals, percent, digits of other scripts, powers."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.comparison.numerals import read_number, read_numbers


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("31.0 degrees C", ["31.0"]),
        ("1,234,567.89", ["1234567.89"]),
        ("1.234.567,89", ["1234567.89"]),
        ("1.234,5", ["1234.5"]),
        ("1.234,567", ["1234.567"]),
        ("3,5", ["3.5"]),
        ("0,123", ["0.123"]),
        ("1,234", ["1234"]),
        ("1.234", ["1.234"]),
        ("12,34,567", ["1234567"]),
        ("12\u202f345 and 1'000 and 1_000", ["12345", "1000", "1000"]),
        ("12 345", ["12", "345"]),
        ("1,2,3", ["1", "2", "3"]),
        ("version 1.2.3", ["1", "2", "3"]),
        ("−3.5, –2, - 1, +4", ["-3.5", "-2", "-1", "4"]),
        ("10-20, GPT-4", ["10", "20", "4"]),
        ("(-5) = -5", ["-5", "-5"]),
        ("-$5 or $-6", ["-5", "-6"]),
        ("٣١٫٥ and １２．５", ["31.5", "12.5"]),
        ("-.5 .5", ["-0.5", "0.5"]),
        ("1.2e-3", ["0.0012"]),
        ("3 × 10⁵, 3x10^-2, $3 \\times 10^{4}$", ["3E+5", "0.03", "3E+4"]),
        ("10^3 and 10⁻¹", ["1000", "0.1"]),
        ("1{,}234 \\%", ["1234"]),
        ("2024-05-01 14:30", ["2024", "5", "1", "14", "30"]),
        ("31 m²", ["31"]),
        ("about 7. Then 100,000.", ["7", "100000"]),
        ("no number, x², NaN, infinity", []),
        ("0^-1", []),
    ],
)
def test_how_numbers_are_read(text, values):
    """The rules at the top of the module, one by one."""
    assert [reading.value for reading in read_numbers(text)] == [Decimal(value) for value in values]


@pytest.mark.parametrize("text", ["12 %", "12%", "12 percent", "12 per cent", "１２％", "12 \\%"])
def test_percent_means_two_numbers(text):
    """A percent sign lets 12 stand for 12 and for 0.12."""
    (reading,) = read_numbers(text)

    assert reading.meanings == (Decimal(12), Decimal("0.12"))


@pytest.mark.parametrize("value", ["31 degrees", "", "a", "1,2,3", True, None, float("nan"), [1], "t1"])
def test_what_is_not_one_number(value):
    """Only a number, or a text that is nothing else, is a number."""
    assert read_number(value) is None


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12))
@settings(max_examples=50, deadline=None)
def test_a_written_number_comes_back(value):
    """Plain, with groups, and in the middle of a sentence."""
    assert read_number(str(value)).value == value
    assert [reading.value for reading in read_numbers(f"It is {value:,} units")] == [value]


@given(st.text())
@settings(max_examples=50, deadline=None)
def test_any_text_can_be_looked_through(text):
    """Nothing makes the reading fail."""
    assert all(reading.value.is_finite() for reading in read_numbers(text))
