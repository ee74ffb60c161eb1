"""Reading a callable of any kind: its parameters, its type hints, its docstring, the plain function behind it."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from agentnb.errors import ToolDefinitionError
from agentnb.text import clean

REQUIRED = inspect.Parameter.empty
"""The default of a parameter that has none."""


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What a docstring (Google, NumPy or reST style) says: of the function and its result, and of each parameter."""
    while isinstance(function, functools.partial):
        function = function.func
    text = clean(_docstring(function))
    if not text:
        return "", {}
    import docstring_parser

    try:
        doc = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    parts = [doc.short_description or "", doc.long_description or ""]
    for returned in doc.many_returns:
        parts.append(f"Returns: {returned.description or returned.type_name or ''}")
    parts += [f"Example: {each.snippet or ''}{each.description or ''}" for each in doc.examples]
    told = {each.arg_name.lstrip("*"): " ".join((each.description or "").split()) for each in doc.params}
    return "\n".join(part.strip() for part in parts if part.strip()), told


def is_unbound(function: Callable[..., Any]) -> bool:
    """Whether this is a method as it stands in a class body: its first parameter is `self`."""
    if not inspect.isfunction(function) or function.__code__.co_varnames[:1] != ("self",):
        return False
    home = function.__qualname__.rpartition(".")[0]
    return bool(home) and not home.endswith("<locals>")


def inner_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The plain function behind partials, methods, decorators and objects with `__call__`."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif not inspect.isroutine(function) and not inspect.isclass(function):
            function = type(function).__call__
            if not inspect.isroutine(function) or inspect.ismethoddescriptor(function):
                return function
        else:
            return function


def read_signature(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """The parameters that a model fills in: without `self`, without what a partial has fixed.

    Raises:
        ToolDefinitionError: The callable doesn't say what it takes.
    """
    options: dict[str, Any] = {}
    if sys.version_info >= (3, 14):
        import annotationlib

        options["annotation_format"] = annotationlib.Format.FORWARDREF
    try:
        parameters = list(inspect.signature(function, **options).parameters.values())
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(
            f"tool {name!r} has no readable signature: {error}",
            remedy="Wrap it in a function of your own: def my_tool(x: int): return original(x).",
        ) from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    unbound = is_unbound(function)
    return [each for each in parameters[unbound:] if each.name not in bound]


def read_hint(function: Callable[..., Any], parameter: inspect.Parameter, name: str) -> Any:
    """The parameter's type, with names looked up where the function stands; Any when there is no hint.

    Raises:
        ToolDefinitionError: A name in the hint has no meaning there.
    """
    if parameter.annotation is REQUIRED:
        return Any
    home = inner_function(function)

    def shim() -> None: ...

    shim.__annotations__ = {parameter.name: parameter.annotation}
    problem: Exception | None = None
    for local in _scopes(home):
        try:
            found = typing.get_type_hints(shim, getattr(home, "__globals__", {}), local, include_extras=True)
            return found[parameter.name]
        except Exception as error:
            problem = error
    raise ToolDefinitionError(
        f"tool {name!r}, parameter {parameter.name!r}: the type hint {_written(parameter.annotation)} "
        f"can't be resolved ({type(problem).__name__}: {problem})",
        remedy="Define or import that type before the tool.",
    ) from problem


def _scopes(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Where to look for the names in a hint, beside the function's globals: its closure, then the code around it."""
    closure = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    yield dict(closure)
    yield {**_names_around(function), **closure}


def _names_around(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The locals of the code that defines the function, while it runs: classes made inside a function are there."""
    frame: FrameType | None = sys._getframe()
    code = getattr(function, "__code__", None)
    while frame is not None and code not in frame.f_code.co_consts:
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def _written(annotation: Any) -> str:
    return repr(annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", annotation))


def _docstring(function: Callable[..., Any]) -> str:
    own = inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "__wrapped__")
    return inspect.getdoc(function if own else type(function).__call__) or ""
