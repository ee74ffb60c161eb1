"""The planner that lets the model call tools in its provider's own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentnb.core.limits import StopReason
from agentnb.core.messages import Message
from agentnb.core.model import ModelReply
from agentnb.core.planner import Ask, Decision
from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.instructions import Instructions
from agentnb.planners.preamble import LANGUAGE, NO_REPEATS, example_messages, system_text

CUT = "The reply was cut at the length limit, so this call was not run. Send a shorter call."

TRUNCATED = "truncated: the reply was cut at the length limit, its calls were not run"


class ToolCallingPlanner:
    """One model call; its tool calls are run, a reply without calls is the answer."""

    name = "tools"

    def __init__(self) -> None:
        self._kept: tuple[tuple[Instructions, tuple[Tool, ...]], dict[str, Any]] | None = None

    async def plan(self, state: State, tools: Sequence[Tool], ask: Ask) -> Decision:
        """Ask the model and read its reply."""
        request = state.request(**self._around(ask.instructions, tuple(tools)))
        return read_reply(await ask(request), state)

    def _around(self, instructions: Instructions, tools: tuple[Tool, ...]) -> dict[str, Any]:
        """The part of a request that stays the same from step to step."""
        if (kept := self._kept) is None or kept[0] != (instructions, tools):
            rules = (NO_REPEATS, LANGUAGE) if tools else (LANGUAGE,)
            system = Message("system", system_text(instructions.system_prompt, *rules))
            preamble = (system, *example_messages(instructions.examples))
            specs = tuple(tool.spec for tool in tools)
            fields = {"specs": specs, "preamble": preamble, "parameters": instructions.parameters}
            self._kept = kept = ((instructions, tools), fields)
        return kept[1]


def read_reply(reply: ModelReply, state: State) -> Decision:
    """What a reply means: calls, an answer, another try, or a stop."""
    if reply.calls:
        return Decision(reply, calls=reply.calls) if reply.finish != "length" else _cut(reply)
    if reply.refusal is not None or reply.finish in ("content_filter", "refusal"):
        why = reply.refusal or reply.text or "the provider's content filter held the reply back"
        return Decision(reply, stop=StopReason.REFUSED, detail=f"refused: {why}")
    if reply.finish == "length":
        return Decision(reply, stop=StopReason.TRUNCATED, detail="the answer was cut at the length limit")
    if reply.text.strip():
        return Decision(reply, answer=reply.text)
    if state.asks:
        return Decision(reply, stop=StopReason.EMPTY_REPLY, detail="the model replied twice with nothing")
    return Decision(reply, again="", notes=("empty reply, asked again",))


def _cut(reply: ModelReply) -> Decision:
    return Decision(reply, calls=tuple(replace(call, problem=CUT) for call in reply.calls), notes=(TRUNCATED,))
