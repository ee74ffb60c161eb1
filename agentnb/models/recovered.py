"""A call that a model wrote into its text, because its server could not read it: taken for a call when all fits.

All means: the whole text is one or several such blocks and nothing else, and every name is a tool of the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from agentnb.core.messages import ToolCall

NOTE = "recovered from text"
_TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.S)
_FENCED = re.compile(r"```(?:json|tool_call)?\s*\n(.*?)\n\s*```", re.S)


def recover(text: str, names: Collection[str]) -> tuple[ToolCall, ...]:
    """The calls that the whole text stands for, without ids; none when there is anything else in it.

    Args:
        text: Without reasoning.
        names: The tools of the request.
    """
    body = text.strip()
    if not body.startswith(("{", "<tool_call>", "```")):
        return ()
    calls = [_call(block, names) for block in _blocks(body)]
    found = tuple(call for call in calls if call is not None)
    return found if len(found) == len(calls) else ()


def _blocks(body: str) -> list[str]:
    for pattern in (_TAGGED, _FENCED):
        if pattern.match(body):
            return pattern.findall(body) if not pattern.sub("", body).strip() else [""]
    return [body]


def _call(block: str, names: Collection[str]) -> ToolCall | None:
    try:
        value = json.loads(block)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Mapping) or not set(value) <= {"name", "arguments", "parameters", "id", "type"}:
        return None
    name, arguments = value.get("name"), _arguments(value)
    return ToolCall("", name, arguments) if isinstance(name, str) and name in names and arguments is not None else None


def _arguments(value: Mapping[str, Any]) -> str | None:
    given = value.get("arguments", value.get("parameters"))
    if isinstance(given, str):
        return given
    return json.dumps(given, ensure_ascii=False) if isinstance(given, Mapping) else None
