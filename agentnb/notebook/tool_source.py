"""The source of a tool as a `%%tool` cell that defines it again: with its options, and names that its module gives it.

What a cell could not define again is refused with the reason: a method, a lambda, a function that needs variables of
the one around it, one whose names mean something else in the notebook.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from symtable import SymbolTable, symtable
from types import ModuleType
from typing import Any

from agentnb.errors import UsageError
from agentnb.tools.signature import inner_function
from agentnb.tools.tool import Tool, ToolOptions
from agentnb.tools.tool import tool as make_tool

Definition = ast.FunctionDef | ast.AsyncFunctionDef
_PLAIN = (int, float, complex, str, bytes, tuple, frozenset)


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
    definition = _definition(tool.source)
    if why := _unfit(tool, function, definition):
        raise UsageError(f"{tool.name!r} {why}", remedy=f"Change it where it stands: {_place(function)}.")
    assert definition is not None
    ours = "tool" if space.get("tool", function.__globals__.get("tool")) is make_tool else "agentnb.tool"
    source = _with_options(tool, definition, ours)
    more = ["import agentnb"] if ours != "tool" and source is not tool.source else []
    return "\n".join(["%%tool", *more, *_imports(tool, function, source, space), source])


# ── what a cell can define ───────────────────────────────────────────────────────────────────────────────────────────


def _definition(source: str) -> Definition | None:
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return None
    return body[0] if len(body) == 1 and isinstance(body[0], Definition) else None


def _unfit(tool: Tool, function: Any, definition: Definition | None) -> str:
    """Why a cell could not define the tool again; "" when it can."""
    if isinstance(tool.function, partial):
        return "has arguments that a partial fixes"
    if "." in function.__qualname__.rpartition("<locals>.")[2] or not hasattr(function, "__code__"):
        return "belongs to a class or an object, which a cell does not have"
    if definition is None:
        return "is not defined by a def of its own"
    if function.__code__.co_freevars:
        return "uses variables of the function around it, which a cell does not have"
    if function.__module__ != "__main__" and any(isinstance(each, ast.Global) for each in ast.walk(definition)):
        return "changes variables of its module"
    return ""


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}" if code else f"module {function.__module__}"


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _with_options(tool: Tool, definition: Definition, ours: str) -> str:
    """The source with a decorator that says the tool's options; as it is where it says them already.

    Raises:
        UsageError: They can't be written down.
    """
    default, options = ToolOptions(), tool.options
    changed = {each.name: getattr(options, each.name) for each in fields(ToolOptions)}
    changed = {name: value for name, value in changed.items() if value != getattr(default, name)}
    old = next((each for each in definition.decorator_list if _is_tool(each)), None)
    if _says(old, changed):
        return tool.source
    if "examples" in changed:
        what = f"{tool.name!r} was given its examples elsewhere"
        raise UsageError(what, remedy="Change it where they stand.")
    told = ", ".join(f"{name}={_spelled(value)}" for name, value in changed.items())
    lines = tool.source.split("\n")
    if old is not None:
        del lines[old.lineno - 1 : old.end_lineno]
    return "\n".join([f"@{ours}({told})" if told else f"@{ours}", *lines])


def _is_tool(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (
        isinstance(named, ast.Name | ast.Attribute)
        and (named.id if isinstance(named, ast.Name) else named.attr) == "tool"
    )


def _says(decorator: ast.expr | None, changed: Mapping[str, Any]) -> bool:
    """Whether the decorator gives just these options, as far as its words tell."""
    given = decorator.keywords if isinstance(decorator, ast.Call) else []
    if {each.arg for each in given} != set(changed):
        return False
    return all(not isinstance(each.value, ast.Constant) or each.value.value == changed[str(each.arg)] for each in given)


def _spelled(value: Any) -> str:
    return 'float("inf")' if value == float("inf") else repr(value)


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _imports(tool: Tool, function: Any, source: str, space: Mapping[str, Any]) -> list[str]:
    """The lines that bring what the function finds in its module and the notebook lacks.

    Raises:
        UsageError: The notebook holds something else by one of these names.
    """
    module, known = sys.modules.get(function.__module__), function.__globals__
    if known is space or module is None or vars(module) is not known:
        return []
    names = [name for name in sorted(set(_globals_of(source))) if name in known and name != function.__name__]
    missing = [name for name in names if name not in space]
    if other := [name for name in names if name in space and not _serves(space[name], known[name])]:
        what = f"{tool.name!r} needs {', '.join(other)} of {module.__name__}, and the notebook has others of that name"
        raise UsageError(what, remedy="Rename yours, or change the tool where it stands.")
    modules = [_import_of(name, known[name]) for name in missing if isinstance(known[name], ModuleType)]
    values = [name for name in missing if not isinstance(known[name], ModuleType)]
    return [*modules, *([f"from {module.__name__} import {', '.join(values)}"] if values else [])]


def _import_of(name: str, module: ModuleType) -> str:
    return f"import {name}" if name == module.__name__ else f"import {module.__name__} as {name}"


def _serves(held: Any, needed: Any) -> bool:
    """Whether the notebook's value does as well: the same, an equal constant, or a tool of that name, perhaps newer."""
    if isinstance(held, Tool) and isinstance(needed, Tool):
        return held.name == needed.name
    return held is needed or (isinstance(held, _PLAIN) and type(held) is type(needed) and held == needed)


def _globals_of(source: str) -> Iterator[str]:
    """Every name that the source takes from outside, also in a quoted type hint."""
    yield from _outer(symtable(source, "cell", "exec"))
    hints = [each.annotation for each in ast.walk(ast.parse(source)) if isinstance(each, ast.arg)]
    for hint in hints:
        if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
            yield from _outer(symtable(hint.value, "cell", "eval"))


def _outer(table: SymbolTable) -> Iterator[str]:
    is_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or (is_top and not symbol.is_assigned())):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _outer(child)
