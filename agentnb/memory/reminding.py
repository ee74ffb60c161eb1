"""How notes reach a run and come out of it: two tools for the model, and middleware for those who never ask.

The notes stand in the first message of a new run, before the goal, and nowhere else: every later request begins with
the same bytes, so a provider's prompt cache holds, and a fork or a replay keeps the notes that its run began with. They
carry no times, so a run over the same notes makes the same requests.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentnb.core.limits import StopReason
from agentnb.core.messages import user
from agentnb.core.middleware import Middleware, StateMade
from agentnb.core.model import Model, Prompt
from agentnb.core.state import State
from agentnb.errors import ModelError
from agentnb.text import mask
from agentnb.tools.quoted import QUOTED, quoted
from agentnb.tools.tool import Tool, tool

if TYPE_CHECKING:
    from agentnb.memory.notes import Note, Notes

log = logging.getLogger("agentnb")
HEAD = "Notes from earlier runs, which may be out of date."
_TASK = "The task now:"
_RELATED = 5
_NEWEST = 3


class Reminder(Middleware):
    """Puts the notes that matter before the goal of each new run, and keeps the summary of each run that ends.

    Args:
        notes: Where they are.
        writer: A model that rewrites the extracts of earlier runs first; None leaves them as they are.
        most_chars: Of notes before the goal.
    """

    wants_deltas = False

    def __init__(self, notes: Notes, writer: Model | None, most_chars: int) -> None:
        self.notes = notes
        self.writer = writer
        self.most_chars = most_chars

    async def before(self, state: State) -> State:
        """The start of a run with its notes; any other State as it is."""
        if state.kind != "start" or (state.added[0].content or "").startswith(HEAD):
            return state
        if self.writer is not None:
            await self._rewrite_extracts(self.writer)
        told = context(self.notes, state.goal, self.most_chars)
        if not told:
            return state
        first = user(f"{told}\n\n{_TASK}\n{state.goal}")
        return replace(state, added=(first,), prompt=Prompt((first,)), end=1)

    def __call__(self, event: Any) -> None:
        """As a listener: keep what a run came to, if it ended with an answer or found something out."""
        if isinstance(event, StateMade) and event.state.finished and event.state.stop is not StopReason.PAUSED:
            run = event.state
            if run.answer or any(result.ok for result in run.tool_results):
                self.notes.keep(run)

    async def _rewrite_extracts(self, writer: Model) -> None:
        try:
            await self.notes.summarise(writer)
        except ModelError as error:  # the extracts serve as well
            log.warning("memory: summaries stay as they were extracted: %s", mask(str(error)))


def context(notes: Notes, goal: str, most_chars: int = 2_000) -> str:
    """What a model is told of the notes before it hears the goal; "" when there are none.

    The person's own come first, then those with words of the goal, then the newest, as far as there is room.
    """
    seen = notes.list()
    own = [note for note in reversed(seen) if note.author == "user"]
    chosen = _within([*own, *notes.search(goal, _RELATED), *seen[: -_NEWEST - 1 : -1]], most_chars)
    told = ["- " + note.text.replace("\n", "\n  ") for note in chosen if note.author == "user"]
    data = [quoted(note.text) for note in chosen if note.author != "user"]
    parts = [HEAD, *(["From the user:", *told] if told else ()), *([QUOTED, "\n>\n".join(data)] if data else ())]
    return "\n".join(parts) if chosen else ""


def _within(notes: Iterable[Note], most_chars: int) -> Sequence[Note]:
    """The first of them that have room, each once, oldest first."""
    chosen: dict[int, Note] = {}
    left = most_chars
    for note in notes:
        if note.id not in chosen and len(note.text) <= left:
            chosen[note.id] = note
            left -= len(note.text)
    return [chosen[number] for number in sorted(chosen)]


def remember_tool(notes: Notes) -> Tool:
    """A tool that keeps a note for later runs."""

    @tool
    def remember(text: str) -> str:
        """Keep one fact, decision or preference for later conversations. Do not keep what is only of use now.

        Args:
            text: One or two sentences that can be understood without this conversation.
        """
        return f"Kept as note {notes.remember(text).id}."

    return remember


def recall_tool(notes: Notes) -> Tool:
    """A tool that looks for notes of earlier runs."""

    @tool
    def recall(query: str) -> str:
        """Look for what is known from earlier conversations: facts, decisions, preferences of the user.

        Args:
            query: A few words that the note may contain.
        """
        found = notes.search(query)
        if not found:
            return "No note has any of these words."
        told = "\n".join(f"[note {note.id}]\n{quoted(note.text)}" for note in found)
        return f"{QUOTED}\n{told}"

    return recall
