"""What a model gets to see before it decides: the messages that are new to it, word by word, and its tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentnb.core.messages import Message
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.notebook import render_html, render_text
from agentnb.notebook.account import Part, Section
from agentnb.notebook.bounds import shown, within
from agentnb.notebook.words import brief

_BYTES = 12_000
_MOST_TOOLS = 30


def new_messages(state: State) -> tuple[Message, ...]:
    """The messages that the next request holds and the one before it did not."""
    before = state.step.plan.parent if state.step else None
    start = before.end if before is not None and before.prompt is state.prompt else 0
    return tuple(state.prompt.items[start : state.end])


@dataclass(frozen=True, slots=True)
class Seen:
    """Messages, oldest first, and what may be called."""

    messages: Sequence[Message]
    specs: Sequence[ToolSpec] = ()

    def html(self, title: str) -> str:
        """As HTML, under a title, bounded."""
        drawn = within(_BYTES * 2 // 3, lambda room: render_html.draw_sections(self._sections(), room))
        return render_html.block(f"<div>{render_html.lead(title)}</div>{drawn}")

    def text(self, title: str) -> str:
        """The same as text."""
        drawn = within(_BYTES // 3, lambda room: render_text.draw_sections(self._sections(), room))
        return f"{shown(title)}\n{drawn}"

    def _sections(self) -> tuple[Section, ...]:
        told = Section("", tuple(map(_part, self.messages)))
        tools = tuple(map(_tool, self.specs[:_MOST_TOOLS]))
        return (told, Section(f"Tools ({len(self.specs)})", tools, folded=True)) if tools else (told,)


def _part(message: Message) -> Part:
    """The message as it goes out: a JSON plan's result is a user's text, arguments that are no JSON are `{}`."""
    wire = message.wire
    label = f"tool {brief(message.name, 60)}" if wire["role"] == "tool" else str(wire["role"])
    calls = [call["function"] for call in wire.get("tool_calls", ())]
    asked = [f"{brief(call['name'], 60)}({call['arguments']})" for call in calls]
    return Part(label, "\n".join([*([wire["content"]] if wire["content"] else []), *asked]))


def _tool(spec: ToolSpec) -> Part:
    told = ", ".join(_argument(spec, name) for name in spec.parameters.get("properties", {}))
    return Part(f"{spec.name}({told})", spec.description, words=True)


def _argument(spec: ToolSpec, name: str) -> str:
    schema = spec.parameters["properties"][name]
    kind = schema.get("type", "") if isinstance(schema, dict) else ""
    optional = "" if name in spec.parameters.get("required", ()) else "?"
    return f"{name}{optional}: {kind}" if isinstance(kind, str) and kind else f"{name}{optional}"
