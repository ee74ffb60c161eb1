"""What the user set, under the names and at the places of Ollama's own API.

Parameters in the words of chat completions are translated, so that a run can change its provider. What steers the
engine stands together in `options`; any other goes out as it is. Nothing is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.models.profiles import Profile

_NAMES = {"max_tokens": "num_predict", "max_completion_tokens": "num_predict", "max_output_tokens": "num_predict"}
_OPTIONS = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "typical_p",
        "seed",
        "stop",
        "num_predict",
        "num_ctx",
        "num_keep",
        "num_batch",
        "num_gpu",
        "num_thread",
        "main_gpu",
        "use_mmap",
        "use_mlock",
        "numa",
        "low_vram",
        "repeat_last_n",
        "repeat_penalty",
        "presence_penalty",
        "frequency_penalty",
        "penalize_newline",
        "mirostat",
        "mirostat_eta",
        "mirostat_tau",
        "tfs_z",
        "draft_num_predict",
    }
)
"""What stands in `options`."""


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
    options: dict[str, Any] = {}
    for name, value in profile.own_words(parameters):
        name = _NAMES.get(name, name)
        (options if name in _OPTIONS else found)[name] = value
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    if "reasoning_effort" in found:
        effort = found.pop("reasoning_effort")
        found.setdefault("think", False if effort == "none" else effort)
    _fit_format(found, schema)
    given = found.get("options")
    options.update(given if isinstance(given, Mapping) else {})
    return {**found, "options": options} if options else found


def _fit_format(found: dict[str, Any], schema: Mapping[str, Any] | None) -> None:
    """The schema, or what the user asked for in the words of chat completions; `format` itself stays."""
    asked = found.pop("response_format", None)
    kind = asked.get("type") if isinstance(asked, Mapping) else None
    if schema is None and kind == "json_schema":
        schema = (asked.get("json_schema") or {}).get("schema")
    if schema is not None:
        found.setdefault("format", schema)
    elif kind == "json_object":
        found.setdefault("format", "json")
