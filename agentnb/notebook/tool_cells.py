"""`%%tool`: each function defined in the cell becomes a tool of the notebook; running the cell again changes it.

The body is compiled under the cell's own name with its lines in place, so a traceback points at the right line of the
right cell. What was made is shown as the model will see it, with what could be better.
"""

from __future__ import annotations

import ast
import html
import inspect
import json
import linecache
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentnb.errors import UsageError
from agentnb.notebook.bounds import shown
from agentnb.notebook.changed import changed_lines, tool_changes
from agentnb.notebook.live import publish
from agentnb.notebook.names import tools_of
from agentnb.notebook.render import Block
from agentnb.notebook.tool_history import see
from agentnb.tools.schema import lint
from agentnb.tools.tool import Tool, tool


def define_tools(shell: Any, line: str, body: str) -> None:
    """Run the body in the notebook's namespace and make tools of its functions.

    Raises:
        UsageError: The line has words, or the body defines no function.
        ToolDefinitionError: A function can't be a tool as it is written.
    """
    if line.strip():
        raise UsageError(f"%%tool takes no options, got {line.strip()!r}", remedy="Use @tool(...) above the function.")
    with _no_python(lines_before=1):
        shown = shell.transform_cell(body)
    names = _functions(shown)
    if not names:
        raise UsageError("the cell defines no function", remedy="Write def name(...) with a docstring.")
    before = {each.spec.name: each for each in tools_of(shell.user_ns)}
    see(shell.user_ns)
    _run(shell, shown)
    made = []
    for name in names:
        value = shell.user_ns[name]
        made.append(value if isinstance(value, Tool) else tool(value))
    for name, each in zip(names, made, strict=True):
        _put(shell.user_ns, name, each)
        publish(describe(each, before.get(each.spec.name)))


def _put(space: dict[str, Any], name: str, made: Tool) -> None:
    """The tool takes its variable and is the newest of its name; one in the variable of that name gives way."""
    space.pop(name, None)
    space[name] = made
    if isinstance(old := space.get(made.name), Tool) and old.name == made.name:
        space[made.name] = made


def _functions(body: str) -> list[str]:
    """The public functions defined at the top of the body."""
    try:
        tree = ast.parse(body)
    except SyntaxError:
        return ["_"]  # running it shows the error where it is
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def _run(shell: Any, body: str) -> None:
    """Run the person's own code as the notebook would: their cell, their namespace.

    Raises:
        UsageError: It is no Python.
    """
    source = "\n" + body  # the line of the magic itself
    name = shell.compile.cache(source, _number(shell))
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    with _no_python():
        code = compile(source, name, "exec", dont_inherit=True, flags=shell.compile.flags)
    shell.ex(code)


@contextmanager
def _no_python(lines_before: int = 0) -> Iterator[None]:
    """A SyntaxError in the block is told with its line of the cell."""
    try:
        yield
    except SyntaxError as error:
        what = f"line {(error.lineno or 0) + lines_before} of the cell is no Python: {error.msg}"
        raise UsageError(what, remedy=(error.text or "").strip()) from None


def _number(shell: Any) -> int:
    """The number of the cell that runs, as its own frame has it: the shell's counter may be one ahead."""
    frame = inspect.currentframe()
    while frame is not None:
        if (named := shell.compile.format_code_name(frame.f_code.co_filename)) is not None:
            return int(re.sub(r"\D", "", named[1]) or 0)
        frame = frame.f_back
    return int(shell.execution_count)


def describe(made: Tool, before: Tool | None) -> Block:
    """A tool as the model sees it, with what changed since the definition before and what could be better."""
    spec = made.spec
    news = [_change(made, before), *(f"hint: {hint}" for hint in lint(made))]
    schema = json.dumps(dict(spec.parameters), ensure_ascii=False, indent=1)
    source = [shown(line) for line in changed_lines(before.source, made.source)] if before else []
    text = "\n".join([f"tool {spec.name} {news[0]}", spec.description, schema, *source, *news[1:]])
    told = "".join(f" · {html.escape(each.removeprefix('hint: '))}" for each in news[1:])
    parts = [f"<details><summary>tool <b>{html.escape(spec.name)}</b> {html.escape(news[0])}{told}</summary>"]
    parts.append(f"<pre>{html.escape(spec.description)}\n\n{html.escape(schema)}</pre>")
    parts.append(f"<pre>{html.escape(chr(10).join(source))}</pre>" if source else "")
    return Block("".join(parts) + "</details>", text)


def _change(now: Tool, before: Tool | None) -> str:
    fingerprint = now.version.rpartition("·")[2]
    if before is None:
        return f"{fingerprint} (new)"
    return f"{fingerprint} ({', '.join(tool_changes(before, now)) or 'unchanged'})"
