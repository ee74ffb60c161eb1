"""The source of a tool as a `%%tool` cell that defines it again, with the names that its own module gives it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import ModuleType
from typing import Any

from agentnb.errors import UsageError
from agentnb.tools.signature import inner_function
from agentnb.tools.tool import Tool, ToolOptions


def source_cell(tool: Tool, space: Mapping[str, Any]) -> str:
    """The text of the cell.

    Args:
        tool: Whose source it is.
        space: The notebook's variables, which the cell finds anyway.

    Raises:
        UsageError: There is no source, or a cell could not define the tool again.
    """
    function: Any = inner_function(tool.function)
    if not tool.source:
        raise UsageError(f"the source of {tool.name!r} is not at hand", remedy="Open the file that defines it.")
    if why := _bound_to(function):
        what = f"{tool.name!r} {why}, which a cell of its own does not have"
        raise UsageError(what, remedy=f"Change it where it stands: {_place(function)}.")
    lines = [*_imports(function, tool.source, space), *_options(tool, space)]
    return "\n".join(["%%tool", *lines, tool.source])


def _bound_to(function: Any) -> str:
    if "." in function.__qualname__.rpartition("<locals>.")[2] or not hasattr(function, "__code__"):
        return "belongs to a class or an object"
    return "uses variables of the function around it" if function.__code__.co_freevars else ""


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}" if code else f"module {function.__module__}"


def _imports(function: Any, source: str, space: Mapping[str, Any]) -> Iterator[str]:
    """The line that brings what the function finds in its module and the notebook lacks."""
    module = sys.modules.get(function.__module__)
    known = function.__globals__
    if known is space or module is None or vars(module) is not known:
        return
    used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    missing = [name for name in sorted(used) if name in known and space.get(name, known) is not known[name]]
    for name in missing:
        if isinstance(known[name], ModuleType):
            whole = known[name].__name__
            yield f"import {name}" if name == whole else f"import {whole} as {name}"
    values = [name for name in missing if not _is_module_or(function, known[name])]
    if values:
        yield f"from {module.__name__} import {', '.join(values)}"


def _is_module_or(function: Any, value: Any) -> bool:
    return isinstance(value, ModuleType) or inner_function(getattr(value, "function", value)) is function


def _options(tool: Tool, space: Mapping[str, Any]) -> Iterator[str]:
    """The decorator of a tool that was made with options, but without a decorator."""
    told = {each.name: getattr(tool.options, each.name) for each in fields(ToolOptions) if each.name != "examples"}
    default = ToolOptions()
    changed = {name: value for name, value in told.items() if value != getattr(default, name)}
    if not changed or tool.source.startswith("@"):
        return
    if "tool" not in space:
        yield "from agentnb import tool"
    yield f"@tool({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
