"""Local models write their reasoning into the text, between <think> and </think>; it belongs beside it.

Only a block at the very beginning counts: tags later in a text are text. A block that never closes (the reply was cut
in its thoughts) is reasoning to its end, so that no draft in it is ever taken for the answer.
"""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def split(text: str) -> tuple[str, str]:
    """Reasoning and answer text, the white space around the block dropped; without a block all of it is answer text."""
    body = text.lstrip()
    if not body.startswith(OPEN):
        return "", text
    reasoning, _, answer = body.removeprefix(OPEN).partition(CLOSE)
    return reasoning.strip(), answer.lstrip()


class Splitter:
    """The same for pieces as they arrive: says of each what kind it is; a tag may be cut anywhere.

    What it says of all pieces and of their end is, joined by kind, what `split` makes of the whole.
    """

    def __init__(self) -> None:
        self._held = ""
        self._mode = "start"
        self._begun = False

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

    def close(self) -> list[tuple[str, str]]:
        """What was held back, since it could have become a tag; nothing more will come."""
        held, self._held = self._held, ""
        return _said("reasoning", held.rstrip()) if self._mode == "reasoning" else _said("text", held)

    def _begin(self) -> list[tuple[str, str]]:
        body = self._held.lstrip()
        if body.startswith(OPEN):
            self._mode, self._held = "reasoning", body.removeprefix(OPEN)
            return self._reason()
        if OPEN.startswith(body):
            return []
        self._mode = "text"
        held, self._held = self._held, ""
        return [("text", held)]

    def _reason(self) -> list[tuple[str, str]]:
        """The white space at both ends of the block, and what may be the beginning of its end, is held back."""
        reasoning, found, rest = (self._held if self._begun else self._held.lstrip()).partition(CLOSE)
        if found:
            self._mode, self._held = "answer", rest
            return [*_said("reasoning", reasoning.rstrip()), *self._answer()]
        tag = next((size for size in range(len(CLOSE) - 1, 0, -1) if reasoning.endswith(CLOSE[:size])), 0)
        sure = reasoning[: len(reasoning) - tag].rstrip()
        self._held = reasoning[len(sure) :]
        self._begun = self._begun or bool(sure)
        return _said("reasoning", sure)

    def _answer(self) -> list[tuple[str, str]]:
        """The white space between the block and the answer is dropped."""
        body = self._held.lstrip()
        self._held = ""
        if body:
            self._mode = "text"
        return _said("text", body)


def _said(kind: str, text: str) -> list[tuple[str, str]]:
    return [(kind, text)] if text else []
