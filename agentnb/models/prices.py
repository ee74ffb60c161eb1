"""What a call costs: what the provider says, or the price list of the optional package genai-prices, or None."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from agentnb.core.messages import Usage


def told_cost(usage: Any) -> float | None:
    """US dollars, as some providers say it in the usage of an answer."""
    said = usage.get("cost") if isinstance(usage, Mapping) else None
    if isinstance(said, bool) or not isinstance(said, int | float) or not math.isfinite(said):
        return None
    return float(said)


def price(model: str, usage: Usage | None, provider: str | None = None) -> float | None:
    """US dollars by the list price, or None: no package, no usage, or a model that is not listed.

    Args:
        model: The name that the provider knows it by.
        usage: Of one call.
        provider: Its name in the price list.
    """
    library = _library()
    if library is None or usage is None or usage.input is None or usage.output is None:
        return None
    tokens = library.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cached_input,
        cache_write_tokens=usage.cache_write,
    )
    try:
        return float(library.calc_price(tokens, model_ref=model, provider_id=provider).total_price)
    except LookupError:
        return None


@cache
def _library() -> Any:
    """Imported on the first price, since that takes 0.2 to 0.5 s; its data is bundled, it asks no server."""
    try:
        import genai_prices  # type: ignore[import-not-found,unused-ignore]  # optional
    except ImportError:
        return None
    return genai_prices
