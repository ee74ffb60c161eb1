"""What the user set, under the names and in the forms of OpenAI Responses.

Parameters in the words of chat completions are translated, so that a run can change its provider; any other goes out as
it is. Added is only what makes the exchange stateless: nothing is stored, and hidden reasoning comes back encrypted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.models.profiles import Profile

STATELESS: Mapping[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
"""Sent where the user set nothing else."""
_NAMES = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}


def wire_parameters(
    parameters: Mapping[str, Any], text_format: Mapping[str, Any] | None, profile: Profile
) -> dict[str, Any]:
    """The fields to send.

    Args:
        parameters: As the user set them.
        text_format: The form that the reply's text should have, if any.
        profile: Its renames and replacements come first.
    """
    found = {_NAMES.get(name, name): value for name, value in profile.own_words(parameters)}
    choice = found.get("tool_choice")
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        found["tool_choice"] = {"type": "function", "name": choice["function"].get("name")}
    if "reasoning_effort" in found:
        _join(found, "reasoning", {"effort": found.pop("reasoning_effort")})
    if "verbosity" in found:
        _join(found, "text", {"verbosity": found.pop("verbosity")})
    if text_format is not None:
        _join(found, "text", {"format": text_format})
    return found


def _join(found: dict[str, Any], name: str, fields: Mapping[str, Any]) -> None:
    """Fields of one object; what the user wrote into it stays."""
    given = found.get(name)
    found[name] = {**fields, **(given if isinstance(given, Mapping) else {})}
