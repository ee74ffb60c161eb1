"""Prices: known, or None."""

from __future__ import annotations

import pytest

from agentnb.core.messages import Usage
from agentnb.models.prices import price


def test_what_is_unknown_has_no_price():
    """Without usage, with half of it, or for a model that is in no list: None, never 0."""
    assert price("gpt-4o-mini", None, "openai") is None
    assert price("gpt-4o-mini", Usage(input=1000), "openai") is None
    assert price("my-own-model", Usage(1000, 100), "openai") is None


def test_list_prices():
    """A listed model costs what its list says; cached tokens cost less."""
    pytest.importorskip("genai_prices", reason="the optional package genai-prices is not installed")
    full = price("gpt-4o-mini", Usage(1_000_000, 0, 0, 0, 0), "openai")

    assert full is not None
    assert full > 0
    assert price("gpt-4o-mini", Usage(1_000_000, 0, 500_000, 0, 0), "openai") < full
