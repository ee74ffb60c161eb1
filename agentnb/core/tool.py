"""What a tool is to the loop: a ToolSpec to show the model, and `answer(call) -> ToolResult`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentnb.core.messages import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the model and the loop know of a tool."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON Schema of an object."""
    version: str = ""
    """`name@count·hash` of the source that stands behind this tool."""
    approve: bool = False
    """A person decides before each call."""
    parallel: bool = True
    """May run beside other calls of the same reply; else it runs alone, in its turn."""
    poll: bool = False
    """Asked again and again on purpose; the repetition guard leaves it alone."""

    @property
    def wire(self) -> dict[str, Any]:
        """The tool in chat-completions form."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


class Tool(Protocol):
    """Anything that can answer a call."""

    @property
    def spec(self) -> ToolSpec:
        """What is shown to the model."""
        ...

    async def answer(self, call: ToolCall) -> ToolResult:
        """Run the call. What goes wrong is a result, too; only cancellation raises."""
        ...
