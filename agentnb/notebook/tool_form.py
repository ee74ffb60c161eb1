"""`%agent try NAME`: call a tool as a model would, and see the arguments as they were cast and the result.

    %agent try get_weather city=Oslo     calls it now; the words after the name are arguments
    %agent try get_weather               a form with a field for each argument, where a person sits in front

`try_tool(tool, {...})` does the same in Python. Nothing is asked before the call, also of a tool with `approve=True`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentnb import bridge
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.errors import UsageError
from agentnb.notebook.bounds import STEP_BYTES, cut, escaped, shown
from agentnb.notebook.live import publish
from agentnb.notebook.names import tool_named
from agentnb.notebook.render import Block
from agentnb.notebook.render_html import block, lead, pre, quiet
from agentnb.notebook.widget_cell import WidgetCell, can_show
from agentnb.notebook.words import spelled, version_words
from agentnb.text import shorten

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics

USAGE = "%agent try NAME [argument=value ...]"
MOST_RECORDS = 40


@dataclass(frozen=True, slots=True)
class Field:
    """One argument of a tool, as a form asks for it."""

    name: str
    kind: str
    """"text", "number", "yes or no", "choice" or "JSON"."""
    required: bool
    description: str = ""
    default: str = ""
    """As text; "" when there is none."""
    choices: tuple[str, ...] = ()


def fields_of(tool: Any) -> tuple[Field, ...]:
    """The fields of a tool's form, in the order of its schema."""
    schema = tool.spec.parameters
    needed = schema.get("required", ())
    return tuple(_field(name, each, name in needed) for name, each in schema.get("properties", {}).items())


def _field(name: str, schema: Mapping[str, Any], required: bool) -> Field:
    kinds = {"string": "text", "integer": "number", "number": "number", "boolean": "yes or no"}
    choices = tuple(map(_text, schema.get("enum", ())))
    kind = "choice" if choices else kinds.get(_type(schema), "JSON")
    default = _text(schema["default"]) if schema.get("default") is not None else ""
    return Field(name, kind, required, schema.get("description", ""), default, choices)


def _type(schema: Mapping[str, Any]) -> str:
    """The type, where null is only the way to leave a value out."""
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return str((options[0] if len(options) == 1 else schema).get("type", ""))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def arguments_of(tool: Any, texts: Mapping[str, str]) -> str:
    """The JSON that a model would write for these texts; an empty one leaves an optional argument out.

    Args:
        tool: Its schema tells what is text and what is JSON; a text that is no JSON is given as it is, so that the
            tool's own casting reads or refuses it.
        texts: Argument to text.
    """
    known = {field.name: field for field in fields_of(tool)}
    given = {}
    for name, text in texts.items():
        field = known.get(name)
        if text == "" and field is not None and not (field.required and field.kind == "text"):
            continue
        given[name] = text if field is not None and _is_text(field, tool, name) else _value(text)
    return json.dumps(given, ensure_ascii=False)


def _is_text(field: Field, tool: Any, name: str) -> bool:
    schema = tool.spec.parameters["properties"][name]
    return field.kind == "text" or (field.kind == "choice" and all(isinstance(each, str) for each in schema["enum"]))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# ── the call ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def try_tool(tool: Any, arguments: Mapping[str, Any] | str) -> ToolResult:
    """Call a tool once, as a model would.

    Args:
        tool: Any tool.
        arguments: The values, or the JSON text that a model wrote.

    Returns:
        With `arguments` as they were cast, `content` as the model reads it, `value`, `status` and `traceback`.
    """
    result: ToolResult = bridge.run_sync(tool.answer(_call(tool, arguments)))
    return result


def _call(tool: Any, arguments: Mapping[str, Any] | str) -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False)
    return ToolCall("try", tool.spec.name, text)


def result_block(call: ToolCall, result: ToolResult) -> Block:
    """One try: what was given, what the function got, what came back."""
    got = "not called" if result.arguments is None else f"{call.name}({spelled(result.arguments)})"
    title = f"{version_words(result.version) or call.name} · {result.status}"
    told, missing = cut(result.content, STEP_BYTES // 3)
    notes = [*result.notes, *([missing] if missing else [])]
    html = [f"<div>{lead(title)}</div>", quiet(f"as given: {shorten(call.arguments, 400)}")]
    html += [quiet(f"as cast: {shorten(got, 400)}"), pre(told), *map(quiet, notes)]
    trace = cut(result.traceback, STEP_BYTES // 3, tail=True)[0]
    html += [f"<details><summary>traceback</summary>{pre(trace)}</details>"] if trace else []
    rows = [("as given", shown(shorten(call.arguments, 400))), ("as cast", shown(shorten(got, 400))), ("result", told)]
    text = "\n".join([shown(title), *(f"  {name:<8}  {value}" for name, value in rows), *map(shown, notes)])
    return Block(block("".join(html)), text)


# ── the command and the form ─────────────────────────────────────────────────────────────────────────────────────────


def try_command(magics: AgentMagics, words: list[str]) -> None:
    """`%agent try NAME [argument=value ...]`.

    Raises:
        UsageError: There is no such tool, or a word is no argument.
    """
    tool, pairs = tool_named(words, magics.shell.user_ns, USAGE), [word.partition("=") for word in words[1:]]
    wrong = next((name for name, sign, _ in pairs if not sign), None)
    if wrong is not None:
        raise UsageError(f"%agent try: {wrong!r} is no argument", remedy=USAGE)
    if pairs or not fields_of(tool):
        call = _call(tool, arguments_of(tool, {name: text for name, _, text in pairs}))
        publish(result_block(call, bridge.run_sync(tool.answer(call))))
        return
    publish(form_block(tool))
    if can_show(magics.shell):
        ToolForm(tool).show()


def form_block(tool: Any) -> Block:
    """What a tool asks for, and the line that calls it."""
    fields = fields_of(tool)
    line = f"%agent try {tool.spec.name} {' '.join(f'{field.name}=...' for field in fields if field.required)}".rstrip()
    rows = [f"{field.name}: {_asked(field)}" for field in fields]
    text = "\n".join([f"try {version_words(tool.spec.version)}", *(f"  {shown(row)}" for row in rows), f"  {line}"])
    html = [
        f"<div>{lead(f'try · {version_words(tool.spec.version)}')}</div>",
        *(f"<div>{escaped(row)}</div>" for row in rows),
    ]
    return Block(block("".join([*html, f"<div><code>{escaped(line)}</code></div>"])), text)


def _asked(field: Field) -> str:
    kind = f"one of {', '.join(field.choices)}" if field.choices else field.kind
    need = "" if field.required else f", default {field.default}" if field.default else ", may be left out"
    return f"{kind}{need}" + (f". {field.description}" if field.description else "")


class ToolForm:
    """The form as widgets; each try leaves one ordinary output below it."""

    def __init__(self, tool: Any) -> None:
        self.tool = tool
        self._records = 0
        self._task: Any = None
        self._cell = WidgetCell(self)
        self.inputs: dict[str, Any] = {}

    def show(self) -> None:
        """Show it below the cell that runs now."""
        import ipywidgets

        self.inputs = {field.name: input_for(ipywidgets, field) for field in fields_of(self.tool)}
        self.button = ipywidgets.Button(description="Try it", icon="play")
        self.button.on_click(lambda _: self._cell.call(self.press))
        shut = ipywidgets.Button(description="Close form", icon="times")
        shut.on_click(lambda _: self._cell.call(self.close))
        self._cell.show(ipywidgets.VBox([*self.inputs.values(), ipywidgets.HBox([self.button, shut])]))

    def press(self) -> Any:
        """Call the tool with what stands in the fields; called in the loop. Returns the task."""
        self.button.disabled = True
        texts = {name: str(each.value) for name, each in self.inputs.items()}
        self._task = asyncio.get_running_loop().create_task(self._try(_call(self.tool, arguments_of(self.tool, texts))))
        return self._task

    async def _try(self, call: ToolCall) -> None:
        try:
            result = await bridge.together(self.tool.answer(call))
        finally:
            self.button.disabled = False
        self._records += 1
        if self._records <= MOST_RECORDS:
            publish(result_block(call, result))

    def refresh(self) -> None:
        """A form shows nothing that cells change."""

    def close(self) -> None:
        """Take the form away; what was tried stays."""
        if self._task is not None:
            self._task.cancel()
        self._cell.close()


def input_for(kit: Any, field: Field) -> Any:
    """The widget for one argument."""
    told = shorten(field.description, 80) or field.kind
    about = {"description": field.name, "layout": kit.Layout(width="36em"), "style": {"description_width": "10em"}}
    if field.kind == "choice":
        empty = () if field.required else ("",)
        return kit.Dropdown(
            options=[*empty, *field.choices], value=field.default or (*empty, *field.choices)[0], **about
        )
    if field.kind == "yes or no":
        return kit.Dropdown(options=["", "true", "false"], value=field.default, **about)
    make = kit.Textarea if field.kind == "JSON" else kit.Text
    return make(value=field.default, placeholder=told, **about)
