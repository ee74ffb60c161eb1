"""From the model's JSON text to values of the tool's own types, or to one text that says all that is wrong.

Text that is right as it stands takes one call into pydantic. Only what fails there is read leniently: each repair
and each cast becomes a note, a string's content is never guessed, and what still doesn't fit is refused as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from agentnb.core.messages import ToolCall
from agentnb.errors import ToolArgumentError
from agentnb.strict_json import RepeatedName, once
from agentnb.text import bound, clean, counted, mask, plain, shorten
from agentnb.tools.casting import SHOWN_NOTES, Fitting, short
from agentnb.tools.schema import Parameters
from agentnb.tools.signature import REQUIRED

MAX_ERROR_CHARACTERS = 1_000
_SHOWN_PROBLEMS = 8
_MANY = 1_000
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')


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
        cast = parameters.validator.validate_json(call.arguments, strict=True)
        if call.arguments.count(":") != len(cast):  # else nothing is nested and no name came twice
            json.loads(call.arguments, object_pairs_hook=once)
        return cast, ()
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
        raise self._error(f"the arguments must be one JSON object, got {short(value)}")

    def _parsed(self, text: str) -> Any:
        try:
            return self._loaded(text, strict=True)
        except ValueError:
            pass
        mended = _ESCAPE.sub(lambda found: found[0] if len(found[0]) > 1 else "\\\\", text)
        try:
            value = self._loaded(mended, strict=False)
        except ValueError as error:
            raise self._error(f"the arguments are not valid JSON ({_reason(error)}): {short(text)}") from error
        self.notes.append("arguments: bad escapes or raw line ends inside a JSON string were read literally")
        return value

    def _loaded(self, text: str, strict: bool) -> Any:
        try:
            return _sound(json.loads(text, strict=strict, object_pairs_hook=once), text)
        except RepeatedName as error:
            raise self._error(f"the name {shorten(str(error))!r} is given twice, give it once") from error

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
            f"{name}: {short(values[name])} → {short(value)}"
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


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _told(error: ValidationError) -> Iterable[str]:
    """One line per problem: field, what was expected, the shortened value."""
    for each in error.errors(include_url=False, include_context=False)[:_SHOWN_PROBLEMS]:
        field = ".".join(str(part) for part in each["loc"]).lstrip("*")
        if each["type"] == "missing":
            yield f"{field} is missing"
            continue
        wanted = shorten(each["msg"].replace("Input should be ", "expected ", 1), 300)
        yield f"{shorten(field)}={short(each['input'])}, {wanted}"
    if error.error_count() > _SHOWN_PROBLEMS:
        yield f"and {counted(error.error_count() - _SHOWN_PROBLEMS, 'more problem')}"


def _first_items(value: Any) -> Any:
    if isinstance(value, list):
        return [_first_items(each) for each in value[:SHOWN_NOTES]]
    if isinstance(value, dict):
        return {name: _first_items(each) for name, each in islice(value.items(), _MANY)}
    return value


def _few(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN_NOTES
    return lines if more <= 0 else [*lines[:SHOWN_NOTES], f"and {counted(more, 'more change')}"]


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.removesuffix(' at')} at character {error.pos + 1}"
    return shorten(str(error).partition(";")[0], 100)


def _sound(value: Any, text: str) -> Any:
    """Without the halves of emojis that JSON escapes may have brought in."""
    return json.loads(clean(json.dumps(value, ensure_ascii=False))) if "\\u" in text else value


def _differs(before: Any, after: Any) -> bool:
    try:
        return bool(to_jsonable_python(after, bytes_mode="base64") != before)
    except Exception:
        return False
