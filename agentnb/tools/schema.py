"""From a Python function to what the model is shown: a description, a JSON Schema, and the validator of its arguments.

In comes a callable of any kind (function, method, partial, lambda); out go `Parameters` and a description. All work is
done once, when the tool is registered, so that a hint which can't be resolved fails there and not in a run.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Optional

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import SchemaValidator, to_jsonable_python
from typing_extensions import TypedDict

from agentnb.errors import ToolDefinitionError
from agentnb.tools.signature import REQUIRED, read_hint, read_signature

if TYPE_CHECKING:
    from agentnb.core.tool import Tool

_SPREAD = inspect.Parameter.VAR_POSITIONAL
_REST = inspect.Parameter.VAR_KEYWORD
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_SCALARS = {"string", "integer", "number", "boolean", "null"}
_CONFIG = ConfigDict(extra="forbid", val_json_bytes="base64", ser_json_bytes="base64")
_DATA = ("default", "enum", "const", "examples")
"""Keys of a JSON Schema whose values are data, not schemas."""
_THIN_WORDS = 3
_SHORTEST_NAME = 3
_SAYS_NOTHING = ("func", "function", "foo", "bar", "baz", "tool", "my_tool", "test", "tmp", "do_it", "helper", "main")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool's function."""

    name: str
    kind: Any
    """As in `inspect.Parameter`."""
    default: Any
    """`REQUIRED` when there is none."""
    hinted: bool
    filled: bool
    """A copy of the default goes with each call that gives no value; else the function fills it in by itself."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Everything that turns the model's JSON into a call."""

    items: tuple[Parameter, ...]
    """In signature order, `*args` and `**kwargs` included."""
    schema: dict[str, Any]
    """JSON Schema for the model; always an object."""
    inner: dict[str, Any]
    """The schema of what the validator takes: the extra names of `**kwargs` stand under `rest`."""
    validator: SchemaValidator
    """Takes JSON text; strict mode accepts what needs no casting."""
    rest: str
    """`"**name"` of a tool that takes any name, else ""."""
    by_name: bool
    """The call is `function(**values)`; else some values go by position."""
    flat: bool
    """Every value is a number, a text or another scalar, which no function can change."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the model may use, in signature order."""
        return tuple(item.name for item in self.items if item.kind is not _REST)

    def completed(self, given: dict[str, Any]) -> dict[str, Any]:
        """The given values and a fresh copy of each default that is not given, in signature order."""
        values = {
            item.name: given[item.name] if item.name in given else deepcopy(item.default)
            for item in self.items
            if item.filled or item.name in given
        }
        return {**values, **given}

    def call_with(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for a function that can't be called by name alone."""
        args: list[Any] = []
        kwargs = dict(values)
        spread = any(item.kind is _SPREAD for item in self.items)
        for item in self.items:
            if item.kind is _SPREAD:
                args += kwargs.pop(item.name, ())
            elif item.kind is _POSITIONAL[0] or (spread and item.kind is _POSITIONAL[1]):
                args.append(kwargs.pop(item.name, item.default))
        return args, kwargs


def read_parameters(function: Callable[..., Any], told: Mapping[str, str], name: str) -> Parameters:
    """The parameters of a function.

    Args:
        function: Any callable with a signature.
        told: Parameter name to description, from the docstring.
        name: The tool's name, for error texts.

    Raises:
        ToolDefinitionError: No signature, or a hint that can't be resolved or shown to a model; names the parameter.
    """
    items: list[Parameter] = []
    hints: dict[str, Any] = {}
    for parameter in read_signature(function, name):
        hint, default = _read_default(parameter, read_hint(function, parameter, name))
        rest = parameter.kind is _REST
        hints["**" + parameter.name if rest else parameter.name] = _field(parameter, hint, default, told)
        hinted = parameter.annotation is not REQUIRED
        filled = _is_plain(default) or (isinstance(parameter.default, FieldInfo) and default is not REQUIRED)
        items.append(Parameter(parameter.name, parameter.kind, default, hinted, filled))
    adapter = _adapter(hints, name)
    inner = _tidy(adapter.json_schema())
    rest_key = next((key for key in hints if key.startswith("**")), "")
    return Parameters(
        items=tuple(items),
        schema=_shown(inner, items, rest_key),
        inner=inner,
        validator=typing.cast(SchemaValidator, adapter.validator),
        rest=rest_key,
        by_name=all(item.kind not in (_SPREAD, _POSITIONAL[0]) for item in items),
        flat=all(each.get("type") in _SCALARS and "format" not in each for each in inner["properties"].values()),
    )


def lint(tool: Tool) -> tuple[str, ...]:
    """Warnings for the author: what the model is told too little about; () when all is well."""
    spec = tool.spec
    warnings = []
    if len(spec.name) < _SHORTEST_NAME or spec.name.lower() in _SAYS_NOTHING:
        warnings.append(f"{spec.name} is a name that says nothing: say what the tool does, such as get_weather.")
    if not spec.description:
        warnings.append(f"{spec.name} has no docstring: the model can't know when to use it.")
    elif len(spec.description.split()) < _THIN_WORDS:
        warnings.append(f"{spec.name} has a thin description ({spec.description!r}): say when to use it.")
    parameters: Parameters | None = getattr(tool, "parameters", None)
    bare = {item.name for item in parameters.items if not item.hinted} if parameters else set()
    for name, shown in spec.parameters.get("properties", {}).items():
        if name in bare:
            warnings.append(f"{spec.name}: parameter {name!r} has no type hint, so any value is accepted.")
        if not shown.get("description"):
            warnings.append(f"{spec.name}: parameter {name!r} has no description; add it under Args: in the docstring.")
    return tuple(warnings)


# ── making the schema ────────────────────────────────────────────────────────────────────────────────────────────────


def _read_default(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """The hint and default; a pydantic `Field(...)` as default or a text in `Annotated` are understood."""
    default = parameter.default
    if isinstance(default, FieldInfo):
        hint = Annotated[hint, default]
        return hint, REQUIRED if default.is_required() else default.get_default(call_default_factory=True)
    if default is None and hint is not Any:
        hint = Optional[hint]  # noqa: UP045 - a hint may be a string-like form that knows no `|`
    return hint, default


def _field(parameter: inspect.Parameter, hint: Any, default: Any, told: Mapping[str, str]) -> Any:
    text = told.get(parameter.name) or _annotated_text(hint)
    if parameter.kind is _SPREAD:
        hint = list[hint]
    elif parameter.kind is _REST:
        hint = dict[str, hint]
    if text:
        hint = Annotated[hint, Field(description=text)]
    return hint if default is REQUIRED and parameter.kind not in (_SPREAD, _REST) else NotRequired[hint]


def _annotated_text(hint: Any) -> str:
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, str)), "")


def _is_plain(default: Any) -> bool:
    """Whether strict JSON can hold it, so that the model can be shown it and a file can keep it."""
    if default is REQUIRED:
        return False
    try:
        json.dumps(to_jsonable_python(default), allow_nan=False).encode()
    except Exception:
        return False
    return True


def _adapter(hints: Mapping[str, Any], name: str) -> TypeAdapter[Any]:
    try:
        return _adapter_of(hints)
    except Exception as error:
        raise ToolDefinitionError(
            f"tool {name!r}, parameter {_culprit(hints)!r}: this type can't be described to a model "
            f"({str(error).splitlines()[0]})",
            remedy="Use plain types, pydantic models or dataclasses; bind other things with functools.partial.",
        ) from error


def _adapter_of(hints: Mapping[str, Any]) -> TypeAdapter[Any]:
    make: Any = TypedDict
    arguments = make("arguments", dict(hints))
    arguments.__pydantic_config__ = _CONFIG
    adapter: TypeAdapter[Any] = TypeAdapter(arguments)
    adapter.json_schema()
    return adapter


def _culprit(hints: Mapping[str, Any]) -> str:
    for name, hint in hints.items():
        try:
            _adapter_of({name: hint})
        except Exception:
            return name
    return next(iter(hints), "")


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Without titles, with every reference that isn't recursive written out."""
    definitions = schema.pop("$defs", {})
    tidy: dict[str, Any] = _written_out(schema, definitions, ())
    tidy.setdefault("properties", {})
    kept = {key: _written_out(each, definitions, (key,)) for key, each in definitions.items() if _loops(key, tidy)}
    return {**tidy, "$defs": kept} if kept else tidy


def _loops(key: str, node: Any) -> bool:
    if isinstance(node, dict):
        return node.get("$ref") == f"#/$defs/{key}" or any(_loops(key, each) for each in node.values())
    return isinstance(node, list) and any(_loops(key, each) for each in node)


def _written_out(node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_written_out(each, definitions, inside) for each in node]
    if not isinstance(node, dict):
        return node
    key = str(node.get("$ref", "")).rpartition("/")[2]
    if key in definitions and key not in inside:
        beside = {name: each for name, each in node.items() if name != "$ref"}
        return _written_out({**definitions[key], **beside}, definitions, (*inside, key))
    return {
        name: _beneath(name, each, definitions, inside)
        for name, each in _as_base64(node).items()
        if not (name == "title" and isinstance(each, str)) and not (name == "default" and not _is_plain(each))
    }


def _beneath(name: str, node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if name in _DATA:
        return node
    if name == "properties":
        return {key: _written_out(each, definitions, inside) for key, each in node.items()}
    return _written_out(node, definitions, inside)


def _as_base64(node: dict[str, Any]) -> dict[str, Any]:
    if node.get("format") != "base64url":
        return node
    other = {name: each for name, each in node.items() if name != "format"}
    return {**other, "contentEncoding": "base64", "description": other.get("description", "bytes, as base64 text")}


def _shown(inner: Mapping[str, Any], items: list[Parameter], rest: str) -> dict[str, Any]:
    """The schema as the model sees it: defaults shown, the names of `**kwargs` open."""
    properties = dict(inner["properties"])
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema.update({key: inner[key] for key in ("required", "$defs") if key in inner})
    schema["additionalProperties"] = properties.pop(rest)["additionalProperties"] if rest else False
    for item in items:
        if item.default is not None and item.name in properties and _is_plain(item.default):
            shown = to_jsonable_python(item.default, bytes_mode="base64")
            properties[item.name] = {**properties[item.name], "default": shown}
    return schema
