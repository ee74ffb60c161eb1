"""How many tokens a model takes, as far as the price list of the optional package genai-prices says."""

from __future__ import annotations

from functools import lru_cache

from agentnb.models.profiles import PROFILES


@lru_cache(maxsize=256)
def listed_window(name: str) -> int | None:
    """The context window of "provider:model" in tokens, prompt and reply together; None when it is not listed.

    The list is bundled with the package and read on first use; no server is asked.
    """
    provider, _, model = name.partition(":")
    profile = PROFILES.get(provider)
    if profile is None or not profile.prices or not model:
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot  # type: ignore[import-not-found,unused-ignore]  # optional

        return get_snapshot().find_provider_model(model, None, profile.prices, None)[1].context_window
    except (ImportError, LookupError):
        return None
