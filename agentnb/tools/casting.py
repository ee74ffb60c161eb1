"""Casting by JSON Schema: a value whose meaning is plain becomes the type that is asked for; all else stays as it is.

"3" becomes 3 for an integer, "Celsius" becomes "celsius" for a choice, "[1]" becomes [1] for an array; 3.5 stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agentnb.text import shorten

SHOWN_NOTES = 20
"""How many casts of one call are written down; the rest is counted."""
_EXACT = 2**53
"""Whole floats up to here are exact."""
_WHOLE = re.compile(r"\s*[+-]?\d{1,4000}\s*")
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_MISSING = object()


class Fitting:
    """Casts JSON values to what a JSON Schema asks for, where the meaning is plain; leaves everything else alone.

    Args:
        definitions: What `$ref` points to.
        notes: Receives one line per changed value.
    """

    def __init__(self, definitions: Mapping[str, Any], notes: list[str]) -> None:
        self.definitions = definitions
        self.notes = notes

    def fit(self, value: Any, schema: Any, path: str) -> Any:
        """The value as the schema wants it, or unchanged."""
        schema = self._resolved(schema)
        if not self.accepts(value, schema):
            value = self._changed(value, schema, path)
        for branch in schema.get("anyOf") or schema.get("oneOf") or ():
            if self.accepts(value, branch):
                return self.fit(value, branch, path)
        if isinstance(value, list):
            return self._fit_items(value, schema, path)
        return self._fit_fields(value, schema, path) if isinstance(value, dict) else value

    def accepts(self, value: Any, schema: Any) -> bool:
        """Whether the value has the JSON type that the schema asks for, its parts not looked at."""
        schema = self._resolved(schema)
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            return any(self.accepts(value, branch) for branch in branches)
        allowed = _allowed(schema)
        if allowed is not None:
            return any(type(value) is type(each) and value == each for each in allowed)
        kind = schema.get("type")
        return kind is None or _json_type(value) == kind or (kind == "number" and _json_type(value) == "integer")

    def _changed(self, value: Any, schema: Mapping[str, Any], path: str) -> Any:
        for branch in schema.get("anyOf") or schema.get("oneOf") or (schema,):
            changed = _cast(value, self._resolved(branch))
            if changed is not _MISSING and self.accepts(changed, branch):
                told = len(self.notes) < SHOWN_NOTES
                self.notes.append(f"{path}: {short(value)} → {short(changed)}" if told else "")
                return changed
        return value

    def _fit_items(self, values: list[Any], schema: Mapping[str, Any], path: str) -> list[Any]:
        first = schema.get("prefixItems", ())
        rest = schema.get("items")
        rest = rest if isinstance(rest, dict) else {}
        return [
            self.fit(value, first[number] if number < len(first) else rest, f"{path}[{number}]")
            for number, value in enumerate(values)
        ]

    def _fit_fields(self, values: dict[str, Any], schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        fields = schema.get("properties", {})
        more = schema.get("additionalProperties")
        more = more if isinstance(more, dict) else {}
        return {name: self.fit(value, fields.get(name, more), f"{path}.{name}") for name, value in values.items()}

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        if not isinstance(schema, dict):
            return {}
        key = str(schema.get("$ref", "")).rpartition("/")[2]
        found: Mapping[str, Any] = self.definitions.get(key, schema)
        return found


# ── casting one value ────────────────────────────────────────────────────────────────────────────────────────────────


def _cast(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value read as the schema's type, or _MISSING where it can't be."""
    allowed = _allowed(schema)
    if allowed is not None:
        return _one_of(value, allowed)
    kind = schema.get("type")
    if kind == "string":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return str(value) if number and "format" not in schema and "contentEncoding" not in schema else _MISSING
    if kind == "integer":
        return _whole(value)
    if kind == "boolean":
        return _yes_or_no(value)
    return _decoded(value) if isinstance(value, str) and kind in ("array", "object", "number", "null") else _MISSING


def _one_of(value: Any, allowed: list[Any]) -> Any:
    wanted = str(value).strip().casefold()
    found = [each for each in allowed if str(each).casefold() == wanted]
    return found[0] if len(found) == 1 and isinstance(value, str | int | float) else _MISSING


def _whole(value: Any) -> Any:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, str):
        value = _decoded(value)
    exact = isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT
    return int(value) if exact else _MISSING


def _yes_or_no(value: Any) -> Any:
    word = str(value).strip().casefold().removesuffix(".0")
    if isinstance(value, str | int | float):
        return True if word in _TRUE else False if word in _FALSE else _MISSING
    return _MISSING


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _MISSING


def _allowed(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    found: list[Any] | None = schema.get("enum")
    return found


def _json_type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def short(value: Any, limit: int = 60) -> str:
    """A value for a person or a model to recognise, at a bounded cost."""
    if isinstance(value, str):
        return repr(value) if len(value) <= limit else f"{value[: limit - 1]!r}… ({len(value):,} characters)"
    if isinstance(value, list | tuple | dict | set) and len(value) > limit:
        return f"{_json_type(value)} of {len(value):,} items"
    try:
        return shorten(repr(value), limit)
    except Exception:
        return f"{type(value).__name__}"
