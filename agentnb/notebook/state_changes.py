"""What differs between two States: of one run, one transition or many apart, or of two runs."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.limits import DIGEST
from agentnb.core.messages import Message
from agentnb.core.state import State
from agentnb.notebook.words import UNKNOWN, brief, count, stop_words
from agentnb.text import counted

_BRIEF = 48
_MOST_MESSAGES = 4


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs, before and after."""

    what: str
    before: str
    after: str


def changes(before: State, after: State) -> tuple[Change, ...]:
    """Each thing that differs, in the order in which a State is read; times do not count."""
    pairs = zip(_facts(before).items(), _facts(after).values(), strict=True)
    found = [Change(what, old, new) for (what, old), new in pairs if old != new]
    return (*found, *_messages(before, after))


def said(message: Message) -> str:
    """What a message says, in a few words."""
    asked = [f"{call.name}({call.arguments})" for call in message.calls]
    return brief("; ".join(filter(None, [message.content, *asked])), _BRIEF)


def _facts(state: State) -> dict[str, str]:
    """Everything about a State that has a short form."""
    used = state.counters
    return {
        "State": str(len(state.path())),
        "made by": state.kind,
        "goal": brief(state.goal, _BRIEF),
        "sent next": counted(state.end, "message"),
        "open calls": ", ".join(brief(call.name, 30) for call in state.open_calls) or "none",
        "results of the round": str(len(state.results)),
        "rounds remembered": str(len(state.ring) // DIGEST),
        "warned of repetition": "yes" if state.warned else "no",
        "steps": str(used.steps),
        "tool calls": str(used.tool_calls),
        "tokens": count(used.usage.total),
        "cost": UNKNOWN if used.cost is None else f"${used.cost:.4f}",
        "stop": brief(stop_words(state), _BRIEF),
        "answer": brief(state.answer or "none yet", _BRIEF),
    }


def _messages(before: State, after: State) -> tuple[Change, ...]:
    """The messages of the one history that the other has not, behind all that they share."""
    old, new = before.messages, after.messages
    pairs = enumerate(zip(old, new, strict=False))
    shared = next((n for n, (mine, theirs) in pairs if mine != theirs), min(len(old), len(new)))
    gone, come = old[shared:], new[shared:]
    if not gone and not come:
        return ()
    return (Change("messages", _told(gone), _told(come)),)


def _told(messages: tuple[Message, ...]) -> str:
    if not messages:
        return "none"
    more = len(messages) - _MOST_MESSAGES
    told = "; ".join(f"{message.role}: {said(message)}" for message in messages[:_MOST_MESSAGES])
    return told + (f"; and {more} more" if more > 0 else "")
