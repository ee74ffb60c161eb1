"""From the model's JSON text to values of the tool's own types, or to one text that says all that is wrong.

Text that is right as it stands takes one call into pydantic. Only what fails there is read leniently: each repair
and each cast becomes a note, a string's content is never guessed, and what still doesn't fit is refused as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from agentnb.core.messages import ToolCall
from agentnb.errors import ToolArgumentError
from agentnb.text import bound, clean, mask, plain, shorten
from agentnb.tools.schema import REQUIRED, Parameters

MAX_ERROR_CHARACTERS = 1_000
_SHOWN_PROBLEMS = 8
_SHOWN_NOTES = 20
_MANY = 1_000
_EXACT = 2**53
"""Whole floats up to here are exact."""
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_WHOLE = re.compile(r"\s*[+-]?\d{1,4000}\s*")
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_MISSING = object()


def cast_arguments(
    call: ToolCall, parameters: Parameters, extra: str = "refuse"
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Turn the model's JSON arguments into values of the tool's own types.

    Args:
        call: One tool call; `call.arguments` is the raw JSON text, "" and "null" stand for no arguments.
        parameters: What the tool takes.
        extra: What to do with unknown names: "refuse" the call, or "ignore" them with a note.

    Returns:
        Name to value (only what the model gave), and a note for every value that was changed.

    Raises:
        ToolArgumentError: A name is unknown or missing, or a value can't be read as its type. Its text names all
            problems at once and goes back to the model for another try.
    """
    try:
        return parameters.validator.validate_json(call.arguments, strict=True), ()
    except Exception:
        return _Reading(call.name, parameters, extra).read(call.arguments)


class _Reading:
    """One lenient reading of one call's arguments; it collects notes and problems on the way."""

    def __init__(self, tool: str, parameters: Parameters, extra: str) -> None:
        self.tool = tool
        self.parameters = parameters
        self.extra = extra
        self.notes: list[str] = []
        self.problems: list[str] = []

    def read(self, text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
        try:
            values = self._fit(self._known(self._object(text)))
            return self._validated(values), tuple(_few(self.notes))
        except RecursionError as error:
            raise self._error("the arguments are nested too deeply") from error

    # ── text to object ───────────────────────────────────────────────────────────────────────────────────────────

    def _object(self, text: str) -> dict[str, Any]:
        value = self._parsed(text) if text and text.strip() else None
        if isinstance(value, str):
            value = self._parsed(value) if value.strip() else None
            self.notes.append("arguments: were JSON inside a string, read as the object they hold")
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        raise self._error(f"the arguments must be one JSON object, got {_short(value)}")

    def _parsed(self, text: str) -> Any:
        try:
            return _sound(json.loads(text), text)
        except ValueError:
            pass
        mended = _ESCAPE.sub(lambda found: found[0] if len(found[0]) > 1 else "\\\\", text)
        try:
            value = _sound(json.loads(mended, strict=False), mended)
        except ValueError as error:
            raise self._error(f"the arguments are not valid JSON ({_reason(error)}): {_short(text)}") from error
        self.notes.append("arguments: bad escapes or raw line ends inside a JSON string were read literally")
        return value

    # ── object to known names ────────────────────────────────────────────────────────────────────────────────────

    def _known(self, given: dict[str, Any]) -> dict[str, Any]:
        names = self.parameters.names
        values = {name: given[name] for name in names if name in given}
        more = {name: value for name, value in given.items() if name not in values}
        if more and self.parameters.rest:
            values[self.parameters.rest] = more
        elif more and self.extra == "ignore":
            self.notes += [f"{shorten(name)}: unknown argument ignored" for name in more]
        elif more:
            unknown = ", ".join(repr(shorten(name, 40)) for name in list(more)[:_SHOWN_PROBLEMS])
            accepted = ", ".join(names) or "none"
            self.problems.append(f"unknown argument {unknown} (accepted: {shorten(accepted, 300)})")
        return values

    # ── values to types ──────────────────────────────────────────────────────────────────────────────────────────

    def _fit(self, values: dict[str, Any]) -> dict[str, Any]:
        schema = self.parameters.inner
        fitting = Fitting(schema.get("$defs", {}), self.notes)
        optional = {item.name for item in self.parameters.items if item.default is not REQUIRED}
        fitted = {}
        for name, value in values.items():
            wanted = schema["properties"][name]
            if value is None and name in optional and not fitting.accepts(None, wanted):
                self.notes.append(f"{name}: null → the default")
                continue
            fitted[name] = fitting.fit(value, wanted, name.lstrip("*"))
        return fitted

    def _validated(self, values: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(values)
        validate = self.parameters.validator.validate_json
        try:
            cast: dict[str, Any] = validate(text, strict=True)
        except Exception:
            cast = self._laxly(text, values)
        if self.problems:
            raise self._error("; ".join(self.problems))
        cast.update(cast.pop(self.parameters.rest, {}) if self.parameters.rest else {})
        return cast

    def _laxly(self, text: str, values: dict[str, Any]) -> dict[str, Any]:
        try:
            cast: dict[str, Any] = self.parameters.validator.validate_json(text, strict=False)
        except ValidationError as error:
            self.problems += _told(error if error.error_count() <= _MANY else self._fewer(values, error))
            return {}
        except Exception as error:  # a validator of the user's own types may raise anything
            self.problems.append(f"{type(error).__name__}: {shorten(str(error), 200)}")
            return {}
        self.notes += [
            f"{name}: {_short(values[name])} → {_short(value)}"
            for name, value in cast.items()
            if _differs(values[name], value)
        ]
        return cast

    def _fewer(self, values: dict[str, Any], error: ValidationError) -> ValidationError:
        """The problems of the first items alone: to list a hundred thousand would hold the loop for seconds."""
        try:
            self.parameters.validator.validate_json(json.dumps(_first_items(values)), strict=False)
        except ValidationError as fewer:
            return fewer
        return error

    def _error(self, text: str) -> ToolArgumentError:
        remedy = "The tool was not run. Correct the arguments and call it again."
        room = MAX_ERROR_CHARACTERS - len(remedy) - 200
        text = bound(mask(plain(clean(text))), room)
        return ToolArgumentError(f"tool {shorten(self.tool, 64)!r}: {text}", remedy=remedy)


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
                told = len(self.notes) < _SHOWN_NOTES
                self.notes.append(f"{path}: {_short(value)} → {_short(changed)}" if told else "")
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


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _told(error: ValidationError) -> Iterable[str]:
    """One line per problem: field, what was expected, the shortened value."""
    for each in error.errors(include_url=False, include_context=False)[:_SHOWN_PROBLEMS]:
        field = ".".join(str(part) for part in each["loc"]).lstrip("*")
        if each["type"] == "missing":
            yield f"{field} is missing"
            continue
        wanted = shorten(each["msg"].replace("Input should be ", "expected ", 1), 300)
        yield f"{shorten(field)}={_short(each['input'])}, {wanted}"
    if error.error_count() > _SHOWN_PROBLEMS:
        yield f"and {error.error_count() - _SHOWN_PROBLEMS:,} more problems"


def _first_items(value: Any) -> Any:
    if isinstance(value, list):
        return [_first_items(each) for each in value[:_SHOWN_NOTES]]
    if isinstance(value, dict):
        return {name: _first_items(each) for name, each in islice(value.items(), _MANY)}
    return value


def _few(lines: list[str]) -> list[str]:
    more = len(lines) - _SHOWN_NOTES
    return lines if more <= 0 else [*lines[:_SHOWN_NOTES], f"and {more:,} more changes"]


def _short(value: Any, limit: int = 60) -> str:
    """A value for a person or a model to recognise, at a bounded cost."""
    if isinstance(value, str):
        return repr(value) if len(value) <= limit else f"{value[: limit - 1]!r}… ({len(value):,} characters)"
    if isinstance(value, list | tuple | dict | set) and len(value) > limit:
        return f"{_json_type(value)} of {len(value):,} items"
    try:
        return shorten(repr(value), limit)
    except Exception:
        return f"{type(value).__name__}"


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    return shorten(str(error).partition(";")[0], 100)


def _sound(value: Any, text: str) -> Any:
    """Without the halves of emojis that JSON escapes may have brought in."""
    return json.loads(clean(json.dumps(value, ensure_ascii=False))) if "\\u" in text else value


def _differs(before: Any, after: Any) -> bool:
    try:
        return bool(to_jsonable_python(after, bytes_mode="base64") != before)
    except Exception:
        return False
