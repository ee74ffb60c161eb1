"""Numbers in a provider's answer, read as Usage. Unknown is None; a 0 was counted by the provider, or follows.

It follows where the provider counts a whole (the prompt, the reply) and names no part of it: then it counted no such
part, since providers leave out what is 0. Where the whole is not told, its parts are unknown as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from agentnb.core.messages import Usage


def read_usage(said: Any, prompt: str = "prompt_tokens", completion: str = "completion_tokens") -> Usage | None:
    """Usage as OpenAI writes it: input holds the cached part, output the reasoning; None where nothing was said.

    Args:
        said: The answer's usage, whatever it is.
        prompt: The field of the input; its parts stand in `<field>_details`.
        completion: The field of the output.
    """
    if not isinstance(said, Mapping):
        return None
    input, output = count(said, prompt), count(said, completion)
    if input is None and output is None:
        return None
    of_input, of_output = said.get(f"{prompt}_details"), said.get(f"{completion}_details")
    cached = count(of_input, "cached_tokens")
    if cached is None:
        cached = count(said, "prompt_cache_hit_tokens")
    return Usage(
        input,
        output,
        cached if cached is not None or input is None else 0,
        part(of_input, "cache_write_tokens", input),
        part(of_output, "reasoning_tokens", output),
    )


def part(details: Any, name: str, whole: int | None) -> int | None:
    """A part of a whole: 0 where the whole is known and the part is not named."""
    found = count(details, name)
    return 0 if found is None and whole is not None else found


def count(said: Any, name: str) -> int | None:
    """A number of tokens; None where there is none, or something that can be none."""
    value = said.get(name) if isinstance(said, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return int(value)
