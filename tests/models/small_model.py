"""Where tests of a real engine get their weights: the small model, from the user's cache or fetched into it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from agentnb.errors import AgentnbError
from agentnb.models.weights import SMALL, fetch, find


def small_model() -> Path:
    """The small model's file; the test is skipped where it can't be had, unless AGENTNB_NO_SKIPS is set."""
    pytest.importorskip("xllamacpp")
    path, reason = _fetched()
    if path is None:
        (pytest.fail if os.environ.get("AGENTNB_NO_SKIPS", "") not in ("", "0") else pytest.skip)(reason)
    assert path is not None
    return path


@cache
def _fetched() -> tuple[Path | None, str]:
    try:
        return find(SMALL) or fetch(model=SMALL), ""
    except AgentnbError as error:
        return None, f"no weights: {error}"
