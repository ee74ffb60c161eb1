"""Local models write their reasoning into the text, between <think> and </think>; it belongs beside it.

Only a block at the very beginning counts: tags later in a text are text.
"""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def split(text: str) -> tuple[str, str]:
    """Reasoning and answer text; all of it is answer text when no whole block stands first."""
    body = text.lstrip()
    if not body.startswith(OPEN) or CLOSE not in body:
        return "", text
    reasoning, _, answer = body.removeprefix(OPEN).partition(CLOSE)
    return reasoning.strip(), answer.lstrip()


class Splitter:
    """The same for pieces as they arrive: says of each what kind it is; a tag may be cut anywhere."""

    def __init__(self) -> None:
        self._held = ""
        self._mode = "start"

    def feed(self, piece: str) -> list[tuple[str, str]]:
        """(kind, text) pairs to show now; kind is "reasoning" or "text"."""
        if self._mode == "text":
            return [("text", piece)]
        self._held += piece
        if self._mode == "start":
            return self._begin()
        if self._mode == "reasoning":
            return self._reason()
        return self._answer()

    def _begin(self) -> list[tuple[str, str]]:
        body = self._held.lstrip()
        if body.startswith(OPEN):
            self._mode, self._held = "reasoning", body.removeprefix(OPEN)
            return self._reason()
        if OPEN.startswith(body):
            return []
        self._mode = "text"
        return [("text", self._held)]

    def _reason(self) -> list[tuple[str, str]]:
        reasoning, found, rest = self._held.partition(CLOSE)
        if found:
            self._mode, self._held = "answer", rest
            return [*_said("reasoning", reasoning), *self._answer()]
        kept = next((size for size in range(len(CLOSE) - 1, 0, -1) if reasoning.endswith(CLOSE[:size])), 0)
        self._held = reasoning[len(reasoning) - kept :]
        return _said("reasoning", reasoning[: len(reasoning) - kept])

    def _answer(self) -> list[tuple[str, str]]:
        """The white space between the block and the answer is dropped."""
        body = self._held.lstrip()
        self._held = ""
        if body:
            self._mode = "text"
        return _said("text", body)


def _said(kind: str, text: str) -> list[tuple[str, str]]:
    return [(kind, text)] if text else []
