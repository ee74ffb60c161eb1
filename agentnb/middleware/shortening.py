"""How a conversation gets shorter and stays valid; pure functions of its messages.

    goal · round 1 … round 40 · "in kelvin" · round 41 … round 44
    goal · round 1 … round 40 · "in kelvin" · round 41 … round 44       the results of rounds 1 to 40 cleared, or else
    goal · "in kelvin" · summary of rounds 1 to 40 · round 41 … round 44

A round is one message of the model with the results of its calls; it is never split. The messages of a person and the
newest rounds stay as they are. Sizes are estimates: a token is about four letters of English, or one Chinese character.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agentnb.core.messages import Message, user
from agentnb.text import bound, shorten

Round = tuple[Message, ...]
SUMMARY = "Summary of the earlier part of this conversation, whose messages are left out to save room:\n"
CLEARED = "[Cleared to save room; call again if it is needed. It began: "
_WORTH_CLEARING = 200
_PER_MESSAGE = 4
_MOST_TOKENS = 1_000
_HEAD_TOKENS = 50
"""Of a summary, besides its text: what says that it is one, and that it was cut."""


def tokens(messages: Iterable[Message]) -> int:
    """About how many tokens these messages are."""
    return int(sum(_PER_MESSAGE + sum(_text_tokens(text) for text in _texts(message)) for message in messages))


def rounds(messages: Iterable[Message]) -> list[Round]:
    """The messages, grouped: a message of the model with the results of its calls, any other message alone."""
    found: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and found:
            found[-1].append(message)
        else:
            found.append([message])
    return [tuple(each) for each in found]


def flat(parts: Iterable[Round]) -> tuple[Message, ...]:
    """The messages of these rounds, in order."""
    return tuple(message for part in parts for message in part)


def split(parts: Sequence[Round], keep: int) -> tuple[Sequence[Round], Sequence[Round]]:
    """What comes before the newest `keep` rounds of the model, and the rest; the goal is in neither."""
    starts = [n for n, part in enumerate(parts) if is_round(part)]
    border = starts[-keep] if len(starts) > keep else 1
    return parts[1:border], parts[border:]


def fitting(parts: Sequence[Round], keep: int, room: float) -> int:
    """How many of the newest rounds fit into `room` tokens: `keep`, or else half of it, and so on, at least one."""
    while keep > 1 and tokens(flat(split(parts, keep)[1])) > room:
        keep //= 2
    return keep


def cleared(parts: Sequence[Round]) -> tuple[Round, ...]:
    """The same with every long result replaced by a line that says so and how it began; call ids stay."""
    return tuple(tuple(_cleared(message) for message in part) for part in parts)


def summarised(parts: Sequence[Round], older: Sequence[Round], recent: Sequence[Round], summary: str) -> list[Round]:
    """The goal, what the person said since, the summary in place of the older rounds, the recent rounds.

    Args:
        summary: "" takes the calls and how each result began.
    """
    said = [part for part in older if part[0].role == "user" and not is_summary(part[0])]
    text = _within(summary or transcript(older, 120), min(_MOST_TOKENS, left_out(older) // 2))
    return [parts[0], *said, (user(SUMMARY + text),), *recent]


def saving(older: Sequence[Round]) -> int:
    """About how many tokens a summary of these rounds saves at least; it has at most half of them."""
    return left_out(older) // 2 - _HEAD_TOKENS


def left_out(older: Iterable[Round]) -> int:
    """About how many tokens a summary of these rounds stands for; what a person said stays beside it."""
    return tokens(message for part in older for message in part if message.role != "user" or is_summary(message))


def is_round(part: Round) -> bool:
    """Whether the model said it."""
    return part[0].role == "assistant"


def is_summary(message: Message) -> bool:
    """Whether it stands for rounds that were left out before."""
    return message.role == "user" and (message.content or "").startswith(SUMMARY)


def transcript(older: Iterable[Round], longest: int) -> str:
    """Rounds and earlier summaries as text, one line a call; a text of more than `longest` characters is cut."""
    return "\n".join(line for part in older for line in _lines(part, longest))


def _lines(part: Round, longest: int) -> list[str]:
    first = part[0]
    if not is_round(part):
        return [(first.content or "")[len(SUMMARY) :]] if is_summary(first) else []
    results = {message.call_id: message.content or "" for message in part[1:]}
    said = [shorten(first.content, longest)] if first.content and not first.plain else []
    return said + [
        f"- {call.name}({shorten(call.arguments, longest)}): {shorten(results.get(call.id, ''), longest)}"
        for call in first.calls
    ]


def _cleared(message: Message) -> Message:
    content = message.content or ""
    if message.role != "tool" or len(content) <= _WORTH_CLEARING:
        return message
    return replace(message, content=f"{CLEARED}{shorten(content)}]", _cache=None)


def _texts(message: Message) -> Iterable[str]:
    yield message.content or ""
    yield message.reasoning
    if not message.plain:
        for call in message.calls:
            yield call.name
            yield call.arguments


def _within(text: str, most: int) -> str:
    size = _text_tokens(text)
    return text if size <= most else bound(text, int(len(text) * most / size))


def _text_tokens(text: str) -> float:
    if text.isascii():
        return len(text) / 4
    beyond = (len(text.encode("utf-8", "replace")) - len(text)) / 2  # a Chinese character has two bytes beyond its one
    return max(0.0, len(text) - beyond) / 4 + beyond
