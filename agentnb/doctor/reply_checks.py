"""How the model replies: in pieces? does it come to an end? in the language that it was asked in? counting its tokens?

streaming, ending       one question, answered in pieces; an answer without an end is broken off
language                one question in Chinese
usage                   what the replies told of their tokens
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from agentnb.core.model import Delta, Model, ModelReply
from agentnb.doctor.check import OK, PROBLEM, SKIPPED, Check
from agentnb.doctor.questions import COUNTING, IN_CHINESE, asked, failed
from agentnb.errors import AgentnbError, ModelError
from agentnb.text import shorten

LONGEST_TEXT = 3_000
"""Characters of an answer that needs twenty."""
LONGEST_REASONING = 60_000
_REPEATED = 6
_LATE = re.compile("took longer|timed out")
_LONGEST_UNIT = 300
_MOSTLY = 0.3
"""So much of a text's letters makes its language."""
BOUND = 'Look at the server\'s chat template and stop words; bound every reply: parameters={"max_tokens": 1000}.'


async def reply_checks(model: Model, plain: ModelReply) -> AsyncIterator[Check]:
    """Each check as it is done.

    Args:
        model: Is asked.
        plain: What it replied before, whole, to a question in English.
    """
    pieces = Pieces()
    streamed = await counted(model, pieces)
    reply = streamed if isinstance(streamed, ModelReply) else None
    if pieces.endless:
        yield Check("streaming", OK, f"the reply came in {pieces.count} pieces")
    else:
        yield streaming(streamed, pieces)
    yield ending(streamed, pieces, plain)
    yield language(await asked(model, IN_CHINESE), plain)
    yield usage(plain, reply)


async def endless(model: Model, whole: AgentnbError) -> Check | None:
    """A whole reply that takes too long may be one without an end; None when it is not that."""
    if not isinstance(whole, ModelError) or whole.kind != "connection" or not _LATE.search(whole.message):
        return None
    pieces = Pieces()
    reply = await counted(model, pieces)
    return ending(reply, pieces, ModelReply()) if pieces.endless else None


@dataclass(slots=True)
class Pieces:
    """What arrives of a reply; it is broken off when it does not come to an end."""

    count: int = 0
    """Pieces of text."""
    text: str = ""
    reasoning: int = 0
    """Characters."""
    task: asyncio.Task[ModelReply | AgentnbError] | None = None
    endless: bool = False

    def __call__(self, delta: Delta) -> None:
        """One more, or all over again."""
        if delta.kind == "restart":
            self.count, self.text, self.reasoning = 0, "", 0
        elif delta.kind == "text":
            self.count, self.text = self.count + 1, self.text + delta.text
        elif delta.kind == "reasoning":
            self.reasoning += len(delta.text)
        if not self.endless and (len(self.text) > LONGEST_TEXT or self.reasoning > LONGEST_REASONING):
            self.endless = True
            if self.task is not None:
                self.task.cancel()


async def counted(model: Model, pieces: Pieces) -> ModelReply | AgentnbError:
    """The reply to a question with a short answer, or why there is none; `pieces` says when it was broken off."""
    pieces.task = asyncio.ensure_future(asked(model, COUNTING, pieces))
    try:
        return await pieces.task
    except asyncio.CancelledError:
        if not pieces.endless:
            raise
        return ModelError("the reply did not come to an end", kind="reply")


def streaming(reply: ModelReply | AgentnbError, pieces: Pieces) -> Check:
    """Whether a reply arrives in pieces."""
    if not isinstance(reply, ModelReply):
        return failed("streaming", reply, "A cell shows steps while they arrive, so it needs streams.")
    if pieces.count > 1:
        return Check("streaming", OK, f"the reply came in {pieces.count} pieces")
    text = "the reply came in one piece, so a step's text appears only at its end"
    return Check("streaming", PROBLEM, text, "Look whether the server, or a proxy before it, holds streams back.")


def ending(reply: ModelReply | AgentnbError, pieces: Pieces, plain: ModelReply) -> Check:
    """Whether a reply stops by itself, and does not say the same again and again."""
    text = reply.text if isinstance(reply, ModelReply) else pieces.text
    unit = repeated_unit(text) or repeated_unit(plain.text)
    again = f", and repeats {shorten(unit, 60)!r}" if unit else ""
    if pieces.endless or len(text) > LONGEST_TEXT:
        wrote = f"{max(len(text), pieces.reasoning):,} characters"
        return Check("ending", PROBLEM, f"asked to count to 10, it wrote {wrote} and did not stop{again}", BOUND)
    if not isinstance(reply, ModelReply) and not unit:
        return Check("ending", SKIPPED, "the streamed call failed")
    if unit:
        return Check("ending", PROBLEM, f"its reply does not end by itself{again}", BOUND)
    if "length" in (reply.finish if isinstance(reply, ModelReply) else "", plain.finish):
        return Check("ending", PROBLEM, "a short reply was cut at the token limit instead of ending", BOUND)
    return Check("ending", OK, "its replies stop by themselves")


def repeated_unit(text: str) -> str:
    """What a text says at its end again and again, at least six times; "" when it does not."""
    text = text.strip()
    for size in range(1, min(_LONGEST_UNIT, len(text) // _REPEATED) + 1):
        unit = text[-size:]
        if len(unit) * _REPEATED >= 20 and text.endswith(unit * _REPEATED):
            return unit.strip()
    return ""


def language(chinese: ModelReply | AgentnbError, english: ModelReply) -> Check:
    """Whether questions in Chinese and in English are answered in their language."""
    if foreign(english.text) > _MOSTLY:
        text = f"asked in English, it answered {english.text[:100]!r}"
        return Check("language", PROBLEM, text, 'Say it in the system prompt: "Always answer in English."')
    if not isinstance(chinese, ModelReply):
        return failed("language", chinese)
    if not any(map(str.isalpha, chinese.text)):
        return Check("language", SKIPPED, "asked in Chinese, it answered without words")
    if foreign(chinese.text) > _MOSTLY:
        return Check("language", OK, "a question in Chinese is answered in Chinese")
    text = f"asked in Chinese, it answered {chinese.text[:100]!r}"
    remedy = "For other languages than English, name the language in the system prompt, or take another model."
    return Check("language", PROBLEM, text, remedy)


def foreign(text: str) -> float:
    """The part of a text's letters that are not Latin, from 0 to 1; 0 where there are none."""
    letters = [sign for sign in text if sign.isalpha()]
    return sum(sign > "\u024f" for sign in letters) / len(letters) if letters else 0.0


def usage(plain: ModelReply, streamed: ModelReply | None) -> Check:
    """Whether the tokens of whole and of streamed replies are told; `streamed` is None when that call failed."""
    told = [reply.usage is not None for reply in (plain, streamed) if reply is not None]
    if plain.usage is not None and all(told):
        where = ", also in streams" if streamed else ""
        return Check("usage", OK, f"reported{where} (input {plain.usage.input}, output {plain.usage.output})")
    where = "not at all" if not any(told) else "for whole replies only" if told[0] else "in streams only"
    text = f"tokens are reported {where}; where they are not, they show as n/a"
    remedy = "Token and cost limits can't count what is not told: limit the steps instead, Limits(steps=...)."
    return Check("usage", PROBLEM, text, remedy)
