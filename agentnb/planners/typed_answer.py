"""The type of an answer: the JSON Schema that a model is told, and how a text becomes a value; nothing is guessed.

    type ──TypedAnswer──▶ schema, form (for the model)        text ──read──▶ a value of the type, or Unfit (why not)

The form is always an object, since providers want one: a type that is none (int, list, Literal, a union) is wrapped
in {"value": ...}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agentnb.core.tool import ToolSpec
from agentnb.errors import SettingsError
from agentnb.planners.loose_json import LooseObject, read_object
from agentnb.text import clean, shorten
from agentnb.tools.casting import short

VALUE = "value"
TOOL = "final_answer"
_SHOWN_PROBLEMS = 8
_DATA = ("default", "enum", "const", "examples")
_FENCED = re.compile(r"(```+|~~~+)[\w-]*\s*\n(.*?)\n?\s*\1", re.DOTALL)
_OBJECT = re.compile(r"""\{(?=\s*["'}])""")


class Unfit(ValueError):
    """Why a text is no answer of the type, in words for the model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that fits."""

    value: Any
    """Of the output type."""
    text: str
    """What the model said: JSON, without the wrapping object; a plain string as it is."""
    notes: tuple[str, ...] = ()


class TypedAnswer:
    """An output type: what the model is told of it, and how its text becomes a value.

    Args:
        output: Whatever pydantic can validate: a BaseModel, a dataclass, list[...], Literal, int, a union.

    Raises:
        SettingsError: pydantic can't validate it or has no JSON Schema for it.
    """

    def __init__(self, output: Any) -> None:
        self._adapter, own = _described(output)
        self._own = own
        self.wrapped = own.get("type") != "object"
        self.schema: dict[str, Any] = _wrap(own) if self.wrapped else own
        """JSON Schema of an object."""

    @property
    def form(self) -> str:
        """What is expected, in words for the model."""
        return f"one JSON object that fits this JSON Schema: {json.dumps(self.schema, ensure_ascii=False)}"

    @property
    def rule(self) -> str:
        """The line of the system prompt where the answer is the whole reply."""
        return f"Your answer is {self.form}\nSend that object and nothing else."

    def spec(self, taken: Sequence[str]) -> ToolSpec:
        """The tool that takes the answer, under a name that no other tool has."""
        name = TOOL
        while name in taken:
            name += "_"
        return ToolSpec(name, "Give the final answer. Call it once, alone, as soon as you know it.", self.schema)

    def read(self, text: str) -> Answer:
        """The answer in a text: the text itself, in a fence, or the one object in it that fits.

        Raises:
            Unfit: There is none, or more than one.
        """
        text = text.strip()
        fenced = _FENCED.fullmatch(text)
        body = fenced.group(2).strip() if fenced else text
        try:
            value = _whole(body)
        except ValueError:
            return self._in_prose(body)
        return self._of(value, body)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _of(self, value: Any, body: str) -> Answer:
        """The answer that is the whole reply, read as JSON."""
        if not self.wrapped:
            return self._valid(value)
        if isinstance(value, dict) and value.keys() == {VALUE}:
            return self._valid(value[VALUE])
        try:
            return self._valid(value)
        except Unfit:
            if isinstance(value, dict | list | str):
                raise
            return self._valid(body)  # text that only looks like a number

    def _in_prose(self, body: str) -> Answer:
        """The one object that fits among other words; where a plain string can be the answer, the words themselves."""
        objects = _objects(body)
        if problem := next((each.problem for each in objects if each.value is None), ""):
            raise Unfit(f"its JSON can't be read: {problem}")
        if self.wrapped:
            objects = [each for each in objects if isinstance(each.value, dict) and each.value.keys() == {VALUE}]
        if not objects and self.wrapped and body and body[0] not in "{[":
            return self._valid(body)
        return self._only(objects)

    def _only(self, objects: Sequence[LooseObject]) -> Answer:
        fits: dict[str, Answer] = {}
        problem = "it holds no JSON object of the form that was asked for"
        for each in objects:
            value = (each.value or {})[VALUE] if self.wrapped else each.value
            try:
                answer = self._valid(value)
            except Unfit as error:
                problem = str(error)
            else:
                notes = ("repaired: the JSON was not valid, its punctuation was mended",) if each.repaired else ()
                fits[json.dumps(value, sort_keys=True)] = replace(answer, notes=notes)
        if len(fits) > 1:
            raise Unfit(f"it holds {len(fits)} different answers, of which one is expected")
        if not fits:
            raise Unfit(problem)
        return next(iter(fits.values()))

    def _valid(self, value: Any) -> Answer:
        try:
            if unknown := list(_unknown(value, self._own, self._own.get("$defs", {}))):
                raise Unfit("; ".join(unknown[:_SHOWN_PROBLEMS]))
            text = json.dumps(value, ensure_ascii=False)
            return Answer(self._adapter.validate_json(text), value if isinstance(value, str) else text)
        except Unfit:
            raise
        except ValidationError as error:
            raise Unfit("; ".join(_told(error))) from error
        except Exception as error:  # a validator of the user's own type may raise anything
            raise Unfit(f"{type(error).__name__}: {shorten(str(error), 200)}") from error


# ── the schema ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _described(output: Any) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    try:
        if isinstance(output, str):
            raise TypeError("it is a text")
        adapter: TypeAdapter[Any] = TypeAdapter(output)
        return adapter, _closed(adapter.json_schema())
    except Exception as error:  # pydantic has many ways to say no, and types have code of their own
        why = shorten(str(error).partition("\n")[0], 200)
        raise SettingsError(
            f"output={shorten(repr(output))} can't be the type of an answer ({why})",
            layer="agent",
            remedy="Use a pydantic model, a dataclass, or plain types such as int, list[str] and Literal.",
        ) from error


def _wrap(own: Mapping[str, Any]) -> dict[str, Any]:
    inner = {name: each for name, each in own.items() if name != "$defs"}
    schema = {"type": "object", "properties": {VALUE: inner}, "required": [VALUE], "additionalProperties": False}
    return {**schema, "$defs": own["$defs"]} if "$defs" in own else schema


def _closed(node: Any) -> Any:
    """The schema without titles, every object with named fields closed to others, as some providers demand."""
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {
        name: _beneath(name, each) for name, each in node.items() if not (name == "title" and isinstance(each, str))
    }
    return (
        {**found, "additionalProperties": found.get("additionalProperties", False)} if "properties" in found else found
    )


def _beneath(name: str, node: Any) -> Any:
    if name in _DATA:
        return node
    return {key: _closed(each) for key, each in node.items()} if name in ("properties", "$defs") else _closed(node)


def _unknown(value: Any, schema: Mapping[str, Any], defs: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Fields that the schema has not: pydantic would drop them in silence, and a default would stand in their place."""
    schema = defs.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"), schema)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for place, each in enumerate(value):
            yield from _unknown(each, schema["items"], defs, f"{path}[{place}]")
    fields = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(fields, Mapping):
        return
    for name, each in value.items():
        where = f"{path}.{name}" if path else name
        if name in fields:
            yield from _unknown(each, fields[name], defs, where)
        elif schema.get("additionalProperties") is False:
            yield f"there is no field {shorten(where)!r} (the fields are: {shorten(', '.join(fields) or 'none', 300)})"


# ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _whole(body: str) -> Any:
    """The JSON value that the text is, strictly read.

    Raises:
        ValueError: It is none; an object with a name twice is none either.
    """
    if body.startswith("{"):
        found = read_object(body, 0)
        if found.value is None or found.repaired or body[found.end :].strip():
            raise ValueError(body)
        return found.value
    try:
        return json.loads(clean(body))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _objects(body: str) -> list[LooseObject]:
    """Every outermost object of the text, also those that can't be read."""
    found: list[LooseObject] = []
    position = 0
    while place := _OBJECT.search(body, position):
        found.append(read_object(body, place.start()))
        position = found[-1].end
    return found


def _told(error: ValidationError) -> Iterator[str]:
    """One line per problem: the field, its value, what was expected."""
    for each in error.errors(include_url=False, include_context=False)[:_SHOWN_PROBLEMS]:
        field = ".".join(str(part) for part in each["loc"])
        if each["type"] == "missing":
            yield f"{field} is missing"
            continue
        wanted = shorten(each["msg"].replace("Input should be ", "expected ", 1), 300)
        yield f"{shorten(field) or 'the answer'}={short(each['input'])}, {wanted}"
    if error.error_count() > _SHOWN_PROBLEMS:
        yield f"and {error.error_count() - _SHOWN_PROBLEMS:,} more problems"
