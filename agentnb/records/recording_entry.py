"""One recorded model call: what was asked, by ids, and what was answered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from agentnb.records.replies import Stream


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, by ids: equal when the content of two requests is equal."""

    history: str
    """The id of the last message."""
    tools: tuple[str, ...] = ()
    schema: str | None = None
    parameters: str = "{}"
    """As JSON text."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded model call."""

    asked: Asked
    model: str
    """The name of the model that answered; "" when it has none."""
    ask: int
    """How often this request had been asked in its session, this time included."""
    reply: dict[str, Any]
    stream: Stream = None
    versions: dict[str, str] = field(default_factory=dict)
    """Tool name to the version that stood behind it: `2·3fa9c1d0` (how often defined, hash)."""
    line: int = field(default=0, compare=False)
    """Where in the file."""

    @property
    def slot(self) -> tuple[Asked, str, int]:
        """A recording holds one entry of each."""
        return self.asked, self.model, self.ask


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """The line of this entry; what says nothing is left out."""
    asked = entry.asked
    request: dict[str, Any] = {"messages": asked.history}
    if asked.tools:
        request["tools"] = list(asked.tools)
    if asked.schema:
        request["schema"] = asked.schema
    if asked.parameters != "{}":
        request["parameters"] = json.loads(asked.parameters)
    line = {"ask": entry.ask, "model": entry.model, "request": request, "reply": entry.reply}
    more = {"stream": entry.stream, "tool_versions": entry.versions or None}
    return {**line, **{name: value for name, value in more.items() if value is not None}}
