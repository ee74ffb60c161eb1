"""Keep a long run inside the model's context window: seldom, so that the prefix of the prompt stays the same.

    size of the prompt   ────────────── high ─▶ compacted to low ────────────── high ─▶ …

`before` a step the State gets a shorter prompt when the last reported input plus what was added since passes `high` of
the window. A model that refuses a prompt as too long is asked once more with a shorter one. What is left out of the
prompt stays in the run: `run.messages` is the whole history. `shortening.py` says what goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from agentnb.core.messages import Message, user
from agentnb.core.middleware import Middleware
from agentnb.core.model import Model, ModelReply, ModelRequest, Next, Prompt, ask
from agentnb.core.state import Counters, State
from agentnb.errors import AgentnbError, ModelError, SettingsError
from agentnb.middleware import shortening
from agentnb.middleware.shortening import Round
from agentnb.middleware.window import listed_window
from agentnb.models.named import to_model
from agentnb.text import bound, mask, shorten

TASK = (
    "Below is the earlier part of the work on a task. Summarise it for the one who goes on, in at most 300 words: "
    "what was done, what was found (exact names, numbers, paths, ids), what is still open. Write only the summary."
)
_WORTH_IT = 0.9
"""To save less than a tenth is not worth a cold cache; nor is a summary worth its call after results were cleared."""
_GROWN = 0.1
"""A prompt that stays above `high`, since what can't be left out is so large, is left alone until it grew by this."""
_KEPT_OVERFLOWS = 64
_note: ContextVar[str] = ContextVar("agentnb_compaction", default="")
"""What `before` did, for the step that follows."""


class Compaction(Middleware):
    """Shortens the prompt of a run that grows too long.

    Args:
        model: Writes the summary of what is left out, best a small one; None: the calls and the beginnings of results.
        window: Tokens that the model takes; None: as the price list says, and where it is silent only when the model
            refuses a prompt.
        high: The share of the window that starts a compaction.
        low: The share that it brings the prompt down to.
        keep: The newest rounds that stay as they are, where they fit.

    Raises:
        SettingsError: One of these makes no sense.
    """

    def __init__(
        self, model: Any = None, *, window: int | None = None, high: float = 0.8, low: float = 0.4, keep: int = 4
    ) -> None:
        if not 0 < low < high <= 1 or keep < 1 or (window is not None and window < 1):
            what = f"Compaction(window={window!r}, high={high!r}, low={low!r}, keep={keep!r})"
            raise SettingsError(what, layer="middleware", remedy="Write 0 < low < high <= 1, keep and window above 0.")
        self.summariser: Model | None = None if model is None else to_model(model)
        self.window = window
        self.high = high
        self.low = low
        self.keep = keep
        self._overflows: deque[tuple[Prompt, int, tuple[Message, ...]]] = deque(maxlen=_KEPT_OVERFLOWS)

    async def before(self, state: State) -> State:
        """The State with a shorter prompt when its own comes near the window."""
        for prompt, end, messages in tuple(self._overflows):
            if prompt is state.prompt and end < state.end:  # grown from a prompt that had to be shortened on its way
                return state.compacted((*messages, *prompt.items[end : state.end]))
        size, model = prompt_size(state)
        window = self.window or listed_window(model)
        if window is None or size < self.high * window or _hardly_grown(state, size):
            return state
        made = await self._shorter(state.prompt.items[: state.end], self.low * window / size, _WORTH_IT)
        if made is None:
            return state
        _note.set(made.note(size))
        counters = state.counters if made.reply is None else _with(state.counters, made.reply)
        return replace(state.compacted(made.messages), counters=counters, detail=made.note(size))

    async def model(self, request: ModelRequest, next: Next) -> ModelReply:
        """The call; when the prompt is refused as too long, once more with a shorter one."""
        note, _ = _note.get(), _note.set("")
        try:
            reply = await next(request)
        except ModelError as error:
            if error.kind != "context_too_long":
                raise
            made = await self._shorter(request.prompt.items[: request.end], self.low / self.high)
            if made is None:
                raise
            return await self._again(request, made, next)
        return replace(reply, notes=(note, *reply.notes)) if note else reply

    async def _again(self, request: ModelRequest, made: _Shorter, next: Next) -> ModelReply:
        reply = await next(replace(request, prompt=Prompt(made.messages), end=len(made.messages)))
        self._overflows.append((request.prompt, request.end, made.messages))
        size = shortening.tokens(request.prompt.items[: request.end])
        notes = (f"the prompt was too long: {made.note(size)}", *reply.notes)
        if made.reply is None:
            return replace(reply, notes=notes)
        both = _with(_with(Counters(), reply), made.reply)
        return replace(reply, usage=both.usage, cost=both.cost, notes=notes)

    async def _shorter(self, messages: Sequence[Message], share: float, most: float = 1.0) -> _Shorter | None:
        """These messages in about `share` of their tokens; None when more than `most` of them would be left."""
        parts, estimate = shortening.rounds(messages), max(1, shortening.tokens(messages))
        made = _cleared(parts, self.keep)
        if shortening.tokens(made.messages) > share * estimate:
            keep = shortening.fitting(parts, self.keep, share * estimate)
            made = await self._summarised(parts, keep, (1 - most) * estimate) or _cleared(parts, keep)
        left = shortening.tokens(made.messages) / estimate
        return replace(made, share=left) if left < 1 and left <= most else None

    async def _summarised(self, parts: Sequence[Round], keep: int, least: float) -> _Shorter | None:
        """The newest `keep` rounds and a summary of the rest; None when it saves under `least`, also after clearing."""
        older, recent = shortening.split(parts, keep)
        if not any(map(shortening.is_round, older)) or shortening.saving(older) <= least:
            return None
        if shortening.left_out(shortening.cleared(older)) <= least:
            return None
        summary, reply, problem = await self._summary(parts[0][0], older)
        made = shortening.flat(shortening.summarised(parts, older, recent, summary))
        return _Shorter(made, f"compacted {sum(map(shortening.is_round, older))} rounds", problem, reply)

    async def _summary(self, goal: Message, older: Sequence[Round]) -> tuple[str, ModelReply | None, str]:
        """A summary of these rounds; with the reply that brought it, or with why the model wrote none."""
        if self.summariser is None:
            return "", None, ""
        text = bound(shortening.transcript(older, 2_000), 4 * (self.window or 16_000))
        prompt = Prompt([user(f"{TASK}\n\nThe task:\n{goal.content}\n\nThe work:\n{text}")])
        try:
            reply = await ask(self.summariser, ModelRequest(prompt=prompt, end=1))
        except Exception as error:
            if isinstance(error, AgentnbError) and not isinstance(error, ModelError):
                raise  # a setting or a recording makes the run impossible
            return "", None, f", the summary failed ({mask(shorten(str(error)))})"
        summary = reply.text.strip()
        return summary, reply, "" if summary else ", the summary was empty"


@dataclass(frozen=True, slots=True)
class _Shorter:
    """What a compaction made."""

    messages: tuple[Message, ...]
    what: str
    problem: str = ""
    reply: ModelReply | None = None
    """The model call that wrote the summary."""
    share: float = 1.0
    """Of the estimated tokens, how many are left."""

    def note(self, size: int) -> str:
        """What was done to a prompt of so many tokens, in words."""
        return f"{self.what}: about {size:,} → {int(size * self.share):,} tokens{self.problem}"


def prompt_size(state: State) -> tuple[int, str]:
    """About how many tokens the next request has, and the name of the model that answered last ("" when none did).

    The last reported input plus an estimate of what was added since; all is estimated where nothing was reported.
    """
    each: State | None = state
    while each is not None and each.kind not in ("plan", "compact"):
        each = each.parent
    reply = each.decision.reply if each is not None and each.decision is not None else None
    asked = each.parent if each is not None else None
    if reply is None or asked is None or reply.usage is None or reply.usage.input is None:
        return shortening.tokens(state.prompt.items[: state.end]), reply.model if reply else ""
    return reply.usage.input + shortening.tokens(state.prompt.items[asked.end : state.end]), reply.model


def _hardly_grown(state: State, size: int) -> bool:
    """Whether the prompt, of `size` tokens, was compacted here before and is about as long as it was left then."""
    each: State | None = state
    while each is not None and each.kind != "compact":
        each = each.parent
    if each is None or not each.detail:  # a person's own prompt has none
        return False
    added = shortening.tokens(state.prompt.items[each.end : state.end])
    return added < _GROWN * (size - added)


def _cleared(parts: Sequence[Round], keep: int) -> _Shorter:
    """The same rounds, the results of all but the newest `keep` cleared."""
    older, recent = shortening.split(parts, keep)
    smaller = shortening.cleared(older)
    what = f"cleared {_changed(older, smaller)} old results"
    return _Shorter(shortening.flat([parts[0], *smaller, *recent]), what)


def _changed(before: Sequence[Round], after: Sequence[Round]) -> int:
    pairs = zip(shortening.flat(before), shortening.flat(after), strict=False)
    return sum(one is not other for one, other in pairs)


def _with(counters: Counters, reply: ModelReply) -> Counters:
    """These counters with one model call more, which is no step."""
    return replace(counters.with_reply(reply, 0.0), steps=counters.steps)
