"""Follow the events of an OpenAI Responses stream and give the response that a whole answer would hold.

The last event carries the whole response, so nothing but what is shown on the way is put together here. Where its
output is missing, the items of the `output_item.done` events are taken, in their order. An event that comes twice (its
sequence number tells) is shown once.
"""

from __future__ import annotations

from typing import Any

from agentnb.core.model import Delta, OnDelta
from agentnb.models.chat_assembly import dicts_in, word
from agentnb.models.responses_items import reasoning_of, text_of
from agentnb.text import clean

_DELTAS = {
    "response.output_text.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
"""Type of an event to the kind of Delta that is told."""
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_GAP = "\n\n"


class ResponseAssembly:
    """One response in the making; events that are not needed, or came before, are passed over."""

    def __init__(self, tell: OnDelta) -> None:
        self.complete = False
        self.ended = False
        self._tell = tell
        self._response: dict[str, Any] = {}
        self._items: dict[Any, dict[str, Any]] = {}
        self._told: dict[str, list[str]] = {"text": [], "reasoning": []}
        self._gaps: set[str] = set()
        self._sequence = 0

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._told["text"])

    def add(self, kind: str, event: dict[str, Any]) -> None:
        """The next event."""
        is_new = self._is_new(event.get("sequence_number"))
        if kind in _DELTAS:
            if is_new:
                self._show(_DELTAS[kind], event.get("delta"))
        elif kind == "response.output_item.added":
            if is_new:
                self._begin(event.get("item"))
        elif kind == "response.output_item.done":
            self._keep(event)
        elif kind == "response.reasoning_summary_part.added":
            self._gaps.add("reasoning")
        elif kind in _LAST:
            self.complete = self.ended = True
            self._response = _dict(event.get("response"))

    def body(self) -> dict[str, Any]:
        """The response, with every item of its output."""
        output = self._response.get("output")
        if not output:
            output = [self._items[place] for place in sorted(self._items)] or self._spoken()
        return {**self._response, "output": output}

    def tell_whole(self, body: dict[str, Any]) -> None:
        """Tell of every item of a response that came in one piece."""
        for item in dicts_in(body.get("output")):
            self._begin(item)
            self._show("reasoning", reasoning_of(item))
            self._show("text", text_of(item))

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _is_new(self, number: Any) -> bool:
        """Whether an event with this number was not there before; servers that count nothing send none, or 0."""
        if type(number) is not int or number == 0:
            return True
        latest, self._sequence = self._sequence, max(self._sequence, number)
        return number > latest

    def _show(self, kind: str, text: Any) -> None:
        if type(text) is not str or not text:
            return
        told = self._told[kind]
        if kind in self._gaps:
            self._gaps.discard(kind)
            if told:
                text = _GAP + text
        told.append(text)
        self._tell(Delta(kind, clean(text)))

    def _begin(self, item: Any) -> None:
        kind, name = _dict(item).get("type"), word(_dict(item).get("name"))
        if kind == "message":
            self._gaps.add("text")
        elif kind == "reasoning":
            self._gaps.add("reasoning")
        elif kind == "function_call" and name:
            self._tell(Delta("call", clean(name)))

    def _keep(self, event: dict[str, Any]) -> None:
        index = event.get("output_index")
        if item := _dict(event.get("item")):
            self._items[index if type(index) is int else len(self._items)] = item

    def _spoken(self) -> list[dict[str, Any]]:
        """The text that came in pieces, where no item was ever sent whole."""
        parts = [{"type": "output_text", "text": self.text, "annotations": []}]
        return [{"type": "message", "role": "assistant", "content": parts}] if self.text else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
