"""What the user set, under the names and in the forms of Anthropic Messages.

Parameters in the words of chat completions are translated, so that a run can change its provider; any other goes out as
it is. Nothing is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.models.profiles import Profile

_NAMES = {"max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens", "stop": "stop_sequences"}
_TOOL_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def wire_parameters(
    parameters: Mapping[str, Any], schema: Mapping[str, Any] | None, profile: Profile
) -> dict[str, Any]:
    """The fields to send.

    Args:
        parameters: As the user set them.
        schema: JSON Schema for the reply's text, if it is to follow one.
        profile: Its renames and replacements come first.
    """
    found = {_NAMES.get(name, name): value for name, value in profile.own_words(parameters)}
    _fit_tool_choice(found)
    if isinstance(found.get("stop_sequences"), str):
        found["stop_sequences"] = [found["stop_sequences"]]
    _fit_output(found, schema)
    return found


def _fit_tool_choice(found: dict[str, Any]) -> None:
    choice = found.get("tool_choice")
    if isinstance(choice, str):
        found["tool_choice"] = {"type": _TOOL_CHOICES.get(choice, choice)}
    elif isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        found["tool_choice"] = {"type": "tool", "name": choice["function"].get("name")}
    parallel = found.pop("parallel_tool_calls", None)
    if parallel is not None:
        chosen = found.get("tool_choice") or {"type": "auto"}
        found["tool_choice"] = {**chosen, "disable_parallel_tool_use": not parallel}


def _fit_output(found: dict[str, Any], schema: Mapping[str, Any] | None) -> None:
    """Effort and format stand together in one field; what the user wrote into that field stays."""
    given = found.get("output_config")
    output: dict[str, Any] = {}
    if "reasoning_effort" in found:
        output["effort"] = found.pop("reasoning_effort")
    if schema is not None:
        output["format"] = {"type": "json_schema", "schema": schema}
    if output:
        found["output_config"] = {**output, **(given if isinstance(given, Mapping) else {})}
