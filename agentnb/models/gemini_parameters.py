"""What the user set, under the names and at the places of Gemini's own API.

Parameters in the words of chat completions are translated, so that a run can change its provider. Those of the
generation stand together in `generationConfig`; any other goes out as it is. Nothing is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.models.profiles import Profile

_NAMES = {
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "max_output_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "stop_sequences": "stopSequences",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "n": "candidateCount",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
    "generation_config": "generationConfig",
    "tool_config": "toolConfig",
}
_CONFIG = frozenset(
    {
        "temperature",
        "topP",
        "topK",
        "maxOutputTokens",
        "stopSequences",
        "seed",
        "presencePenalty",
        "frequencyPenalty",
        "candidateCount",
        "responseLogprobs",
        "logprobs",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "responseModalities",
        "thinkingConfig",
        "speechConfig",
        "imageConfig",
        "mediaResolution",
        "enableEnhancedCivicAnswers",
    }
)
"""What stands in `generationConfig`."""
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


def wire_parameters(
    parameters: Mapping[str, Any], schema: Mapping[str, Any] | None, profile: Profile
) -> dict[str, Any]:
    """The fields to send.

    Args:
        parameters: As the user set them.
        schema: JSON Schema for the reply's text, if it is to follow one.
        profile: Its renames and replacements come first.
    """
    found: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for name, value in profile.own_words(parameters):
        name = _NAMES.get(name, name)
        (config if name in _CONFIG else found)[name] = value
    _fit_tool_choice(found)
    _fit_config(found, config)
    _fit_format(found, config, schema)
    return {**found, "generationConfig": config} if config else found


def _fit_tool_choice(found: dict[str, Any]) -> None:
    choice = found.pop("tool_choice", None)
    if isinstance(choice, str):
        calling: dict[str, Any] = {"mode": _MODES.get(choice, choice)}
    elif isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        calling = {"mode": "ANY", "allowedFunctionNames": [choice["function"].get("name")]}
    else:
        return
    found.setdefault("toolConfig", {"functionCallingConfig": calling})


def _fit_config(found: dict[str, Any], config: dict[str, Any]) -> None:
    """What the user wrote in the provider's own form stays."""
    if isinstance(config.get("stopSequences"), str):
        config["stopSequences"] = [config["stopSequences"]]
    if "reasoning_effort" in found:
        thinking = _thinking(found.pop("reasoning_effort"))
        config["thinkingConfig"] = {**thinking, **(config.get("thinkingConfig") or {})}
    given = found.pop("generationConfig", None)
    config.update(given if isinstance(given, Mapping) else {})


def _thinking(effort: Any) -> dict[str, Any]:
    if effort == "none":
        return {"thinkingBudget": 0}
    return {"thinkingLevel": effort.upper() if isinstance(effort, str) else effort}


def _fit_format(found: dict[str, Any], config: dict[str, Any], schema: Mapping[str, Any] | None) -> None:
    asked = found.pop("response_format", None)
    kind = asked.get("type") if isinstance(asked, Mapping) else None
    if kind == "json_schema" and schema is None:
        schema = (asked.get("json_schema") or {}).get("schema")
    if schema is not None or kind == "json_object":
        config.setdefault("responseMimeType", "application/json")
    if schema is not None and "responseSchema" not in config:
        config.setdefault("responseJsonSchema", schema)
