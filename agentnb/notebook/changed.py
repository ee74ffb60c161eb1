"""What changed between two versions of a text or of a tool, in lines for a reader."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

_MOST_LINES = 200
_FLAGS = ("approve", "parallel", "poll")


def changed_lines(before: str, now: str) -> list[str]:
    """The lines that went ("-") and came ("+"), with one line around them; [] when nothing changed."""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=1)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))][:_MOST_LINES]


def tool_changes(before: Any, now: Any) -> list[str]:
    """What the model sees otherwise, or that only the code is another; [] when neither changed.

    Args:
        before: The tool that the name stood for.
        now: The one that it stands for.
    """
    if before.spec.version == now.spec.version:
        return []
    return [*_seen_changes(before.spec, now.spec)] or ["code changed"]


def _seen_changes(before: Any, now: Any) -> Iterator[str]:
    if before.description != now.description:
        yield "description changed"
    yield from _parameter_changes(before.parameters, now.parameters)
    for name in _FLAGS:
        if (flag := getattr(now, name)) != getattr(before, name):
            yield f"{name} is {flag}"


def _parameter_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = before.get("properties", {}), now.get("properties", {})
    for name in {**old, **new}:
        was, is_ = name in before.get("required", ()), name in now.get("required", ())
        if name not in old or name not in new:
            yield f"parameter {name} {'added' if name in new else 'removed'}"
        elif was != is_:
            yield f"parameter {name} {'is required' if is_ else 'is optional'}"
        elif old[name] != new[name]:
            yield f"parameter {name} changed"
