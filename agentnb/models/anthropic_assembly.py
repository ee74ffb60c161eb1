"""Put the events of a streamed Anthropic message together to the message that a whole answer would hold.

message_start ─▶ for each block: content_block_start, deltas, content_block_stop ─▶ message_delta ─▶ message_stop
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from agentnb.core.model import Delta, OnDelta
from agentnb.models.chat_assembly import dicts_in, word
from agentnb.text import clean

_GROWING = {"text_delta": ("text", "text"), "thinking_delta": ("thinking", "reasoning")}
"""Type of a delta to the field that grows in its block, and to the kind of Delta that is told."""


class MessageAssembly:
    """One message in the making; unknown events and deltas are passed over, unknown blocks and fields are kept."""

    def __init__(self, tell: OnDelta) -> None:
        self.complete = False
        self.ended = False
        self._tell = tell
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[Any, _Block] = {}

    @property
    def text(self) -> str:
        """The text of all blocks so far."""
        return "".join("".join(block.grown["text"]) for block in self._blocks.values() if "text" in block.grown)

    def add(self, kind: str, event: dict[str, Any]) -> None:
        """The next event."""
        if kind == "content_block_delta":
            self._grow(event, event.get("delta"))
        elif kind == "content_block_start":
            self._begin(event.get("index"), event.get("content_block"))
        elif kind == "message_start":
            self._take(event.get("message"))
        elif kind == "message_delta":
            self._take(event.get("delta"))
            self._count(event.get("usage"))
            self.complete = self.complete or bool(self._message.get("stop_reason"))
        elif kind == "message_stop":
            self.complete = self.ended = True

    def body(self) -> dict[str, Any]:
        """The message, with everything that came."""
        blocks = [block.whole() for block in self._blocks.values()]
        return {**self._message, "content": blocks, "usage": self._usage or None}

    def tell_whole(self, body: dict[str, Any]) -> None:
        """Tell of every block of a message that came in one piece."""
        for block in dicts_in(body.get("content")):
            self._tell_begin(block)
            for name, kind in _GROWING.values():
                if isinstance(text := block.get(name), str) and text:
                    self._tell(Delta(kind, clean(text)))

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, fields: Any) -> None:
        """Fields of the message; one that is not said again keeps its value."""
        if isinstance(fields, Mapping):
            self._message |= {key: value for key, value in fields.items() if value is not None}
            self._count(fields.get("usage"))

    def _count(self, usage: Any) -> None:
        """Usage is cumulative: a later number replaces the earlier one."""
        if isinstance(usage, Mapping):
            self._usage |= {key: value for key, value in usage.items() if value is not None}

    def _begin(self, index: Any, start: Any) -> None:
        start = start if isinstance(start, dict) else {}
        block = self._blocks[index if type(index) is int else len(self._blocks)] = _Block(start)
        self._tell_begin(start)
        for name, kind in _GROWING.values():
            if text := "".join(block.grown.get(name, ())):
                self._tell(Delta(kind, clean(text)))

    def _tell_begin(self, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use" and (name := word(block.get("name"))):
            self._tell(Delta("call", clean(name)))

    def _grow(self, event: dict[str, Any], delta: Any) -> None:
        index = event.get("index")
        block = self._blocks.get(index if type(index) is int else len(self._blocks) - 1)
        if block is None or type(delta) is not dict:
            return
        kind = delta.get("type")
        grows = _GROWING.get(kind) if type(kind) is str else None
        if grows is None:
            return block.take(delta)
        name, told = grows
        text = delta.get(name)
        if type(text) is str and text:
            block.grown[name].append(text)
            self._tell(Delta(told, clean(text)))


class _Block:
    """One content block in the making."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.grown: defaultdict[str, list[str]] = defaultdict(list)
        self.citations: list[Any] = []
        for name, _ in _GROWING.values():
            if isinstance(start.get(name), str):
                self.grown[name].append(start[name])

    def take(self, delta: dict[str, Any]) -> None:
        """A delta that is not shown: more of the input, a signature, a citation."""
        kind = delta.get("type")
        if kind == "input_json_delta" and isinstance(delta.get("partial_json"), str):
            self.grown["input"].append(delta["partial_json"])
        elif kind == "signature_delta":
            self.start = {**self.start, "signature": delta.get("signature")}
        elif kind == "citations_delta":
            self.citations.append(delta.get("citation"))

    def whole(self) -> dict[str, Any]:
        """The block as a whole answer has it; input that is no JSON stays text."""
        block = {**self.start, **{name: "".join(parts) for name, parts in self.grown.items() if name != "input"}}
        if self.citations:
            block["citations"] = [*(self.start.get("citations") or ()), *self.citations]
        if text := "".join(self.grown["input"]):
            block["input"] = _parsed(text)
        elif block.get("type") in ("tool_use", "server_tool_use"):
            block.setdefault("input", {})
        return block


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
