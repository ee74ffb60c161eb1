"""Rate limits in headers, in the forms of several providers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.models.rate_limits import _LIMITS, duration, until_reset

NOW = 1_800_000_000.0
"""2027-01-15, 08:00 UTC."""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("12ms", 0.012),
        ("1h2m3.5s", 3723.5),
        ("1d", 86400.0),
        ("20", 20.0),
        ("2027-01-15T08:00:07Z", 7.0),
        ("2027-01-15T09:00:07+01:00", 7.0),
        ("2027-01-15T07:00:00Z", 0.0),
        ("1800000009", 9.0),
        ("1800000009500", 9.5),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("-1", None),
    ],
)
@pytest.mark.parametrize("names", _LIMITS, ids=lambda names: names[1])
def test_every_form(names, text, seconds):
    """A duration, seconds, a date, seconds or milliseconds since 1970; anything else says nothing."""
    remaining, reset = names
    found = until_reset({remaining: "0", reset: text}, NOW)
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_only_limits_that_are_used_up_count():
    """And of those the one that lasts longest."""
    headers = {f"x-ratelimit-remaining-{what}": "0" for what in ("requests", "tokens")}
    headers |= {"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "3s"}

    assert until_reset(headers, NOW) == 3.0
    assert until_reset({**headers, "x-ratelimit-remaining-tokens": "7"}, NOW) == 1.0
    assert until_reset({"x-ratelimit-reset-requests": "1s"}, NOW) is None
    assert until_reset({}, NOW) is None


@settings(max_examples=50)
@given(st.text(max_size=30))
def test_no_text_breaks_it(text):
    """Whatever a header holds: seconds from now on, or nothing."""
    found = until_reset({"x-ratelimit-remaining": "0", "x-ratelimit-reset": text}, NOW)
    assert found is None or found >= 0
    assert (duration(text) or 0) >= 0
