"""One turn of an Anthropic model: the content blocks of its answers, and what they mean.

A turn is one answer, or several when the provider pauses it (`pause_turn`): then what it has so far is sent back and
the next answer goes on. The blocks of all of them are the turn, their usage adds up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentnb.core.messages import ToolCall, Usage
from agentnb.core.model import Delta, OnDelta
from agentnb.models.anthropic_assembly import MessageAssembly
from agentnb.models.chat_assembly import as_text, dicts_in, word
from agentnb.models.usage import count, part
from agentnb.text import clean

_MOST_PAUSES = 8
PAUSED = "the provider paused its turn; it was sent back to go on"
GIVEN_UP = f"the provider paused its turn {_MOST_PAUSES + 1} times; it was not sent back again"

Block = dict[str, Any]


class Turn:
    """What has come of a turn so far."""

    def __init__(self) -> None:
        self.blocks: tuple[Block, ...] = ()
        self.usage: Usage | None = None
        self.paused = False
        """The provider waits for its own blocks, to go on."""
        self._answers = 0

    def add(self, body: Mapping[str, Any]) -> list[str]:
        """The next answer; what a reader should know of it."""
        usage = read_usage(body.get("usage"))
        self.usage = usage if not self._answers else (self.usage or Usage()).plus(usage)
        self.blocks = (*self.blocks, *dicts_in(body.get("content")))
        self._answers += 1
        pauses = body.get("stop_reason") == "pause_turn"
        self.paused = pauses and self._answers <= _MOST_PAUSES
        return [PAUSED if self.paused else GIVEN_UP] if pauses else []

    def telling(self, tell: OnDelta | None) -> OnDelta | None:
        """The same listener; when an answer begins again, it hears once more what earlier answers of the turn said."""
        if tell is None or not self.blocks:
            return tell
        past: list[Delta] = []
        MessageAssembly(past.append).tell_whole({"content": list(self.blocks)})

        def told(delta: Delta) -> None:
            tell(delta)
            for each in past if delta.kind == "restart" else ():
                tell(each)

        return told


def text_in(blocks: Iterable[Block]) -> str:
    """The visible text; a text with citations comes in several blocks that follow each other."""
    return "".join(_texts(blocks, "text", "text"))


def reasoning_in(blocks: Iterable[Block]) -> str:
    """The thinking that is shown; "" where the provider hides it."""
    return "\n\n".join(filter(None, _texts(blocks, "thinking", "thinking")))


def _texts(blocks: Iterable[Block], kind: str, name: str) -> list[str]:
    found = (block.get(name) for block in blocks if block.get("type") == kind)
    return [text for text in found if isinstance(text, str)]


def read_call(block: Block) -> ToolCall:
    """A tool_use block as a call; its input becomes JSON text."""
    return ToolCall(
        clean(word(block.get("id"))), clean(word(block.get("name"))), clean(as_text(block.get("input") or {}))
    )


def read_usage(said: Any) -> Usage | None:
    """Usage in one form. Here the provider's input leaves out what was read from or written to its cache: it is added.

    A part that is not named is 0, as long as the whole is.
    """
    if not isinstance(said, Mapping):
        return None
    input, output = count(said, "input_tokens"), count(said, "output_tokens")
    if input is None and output is None:
        return None
    reasoning = part(said.get("output_tokens_details"), "thinking_tokens", output)
    if input is None:
        return Usage(None, output, None, None, reasoning)
    cached = count(said, "cache_read_input_tokens") or 0
    written = count(said, "cache_creation_input_tokens") or 0
    return Usage(input + cached + written, output, cached, written, reasoning)
