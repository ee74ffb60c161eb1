"""What the tests of models over HTTP share: a model that never really waits, and one question to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fakes import HandClock

from agentnb.core.messages import Message, user
from agentnb.core.model import Delta, ModelReply, ModelRequest, Prompt
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.server import ScriptedServer

KEY = "KEY-TEST-0123456789"
SSE = {"content-type": "text/event-stream"}


@dataclass
class Waits:
    """A sleep that only moves a hand clock, and remembers."""

    clock: HandClock = field(default_factory=HandClock)
    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        """No time passes but on the clock."""
        self.seconds.append(seconds)
        self.clock.advance(seconds)


def model_at(server: ScriptedServer | str, waits: Waits | None = None, **options: Any) -> ChatCompletionsModel:
    """A model of this server (or base URL) whose retries take no time and have no chance in them."""
    waits = waits or Waits()
    url = server if isinstance(server, str) else server.url
    model = ChatCompletionsModel(options.pop("model", "m"), url, options.pop("api_key", KEY), **options)
    model.transport = replace(model.transport, sleep=waits, clock=waits.clock, chance=lambda: 0.0)
    return model


def request(*messages: Message | str, **more: Any) -> ModelRequest:
    """A request with these messages; text is the person's."""
    made = [user(each) if isinstance(each, str) else each for each in messages or ("hello",)]
    return ModelRequest(prompt=Prompt(made), end=len(made), **more)


def ask(
    model: ChatCompletionsModel, asked: ModelRequest | None = None, deltas: list[Delta] | None = None
) -> ModelReply:
    """One question; streamed when there is a list for the pieces."""
    on_delta = None if deltas is None else deltas.append
    return asyncio.run(model.reply(asked or request(), on_delta))


def events(*payloads: str, end: str = "\n\n") -> bytes:
    """An event stream of these payloads."""
    return "".join(f"data: {payload}{end}" for payload in payloads).encode()


def shown(deltas: Sequence[Delta]) -> str:
    """The text that a reader sees in the end: a restart drops what stood there."""
    text = ""
    for delta in deltas:
        text = "" if delta.kind == "restart" else text + delta.text if delta.kind == "text" else text
    return text
