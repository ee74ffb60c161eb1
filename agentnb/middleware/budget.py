"""Tell the model in time that a limit comes near, so that it answers before the run is ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentnb.core.limits import Limits
from agentnb.core.messages import user
from agentnb.core.middleware import Middleware, budget
from agentnb.core.state import Counters, State
from agentnb.errors import SettingsError

FINISH = "Finish soon: answer with what you have before the limit ends the work."
LAST = "This is the last step: give your final answer now, with what you know. The results of further calls are lost."
_NAMES = ("steps", "tokens", "cost", "seconds", "tool_calls")
_COUNTED = ("steps", "tool_calls")
"""What comes one by one, so that the last is known before it is used."""


class BudgetWarning(Middleware):
    """A message to the model when a limit is nearly used up, once for each limit and call of `run`.

    Args:
        share: Of a limit, how much is used when the model is told; before the last step and tool call it always is.
        last_answer: Before the last step or tool call that the limits allow, tell it to answer now. Of tokens, cost and
            seconds nobody knows which step will be the last.

    Raises:
        SettingsError: `share` is not between 0 and 1.
    """

    def __init__(self, share: float = 0.8, *, last_answer: bool = False) -> None:
        if not 0 < share < 1:
            raise SettingsError(f"share={share!r}, expected a number between 0 and 1", layer="middleware")
        self.share = share
        self.last_answer = last_answer

    async def before(self, state: State) -> State:
        """The State, with a message where one is due."""
        now = budget()
        if now is None:
            return state
        given = {name: limit for name in _NAMES if (limit := getattr(now.limits, name)) is not None}
        last = {name: given[name] - 1 for name in _COUNTED if name in given}
        if self.last_answer and _reached(last, state, now.base):
            return _told(state, LAST)
        near = {name: min(self.share * limit, last.get(name, limit)) for name, limit in given.items()}
        words = [_words(name, now.limits, state, now.base) for name in _reached(near, state, now.base)]
        return _told(state, f"{'; '.join(words)} used. {FINISH}") if words else state


def _reached(marks: Mapping[str, float], state: State, base: State) -> list[str]:
    """What has been used up to its mark since the step before was planned; in the first step, by now."""
    earlier = _at_last_plan(state, base)
    return [
        name
        for name, mark in marks.items()
        if (used := state.counters.since(base.counters, name)) is not None
        and used >= mark
        and (earlier is None or (earlier.since(base.counters, name) or 0) < mark)
    ]


def _at_last_plan(state: State, base: State) -> Counters | None:
    """The counters when the step before was planned; None in the first step."""
    each: State | None = state
    while each is not None and each is not base and each.kind != "plan":
        each = each.parent
    return None if each is None or each is base or each.parent is None else each.parent.counters


def _words(name: str, limits: Limits, state: State, base: State) -> str:
    used, limit = _number(state.counters.since(base.counters, name) or 0), _number(getattr(limits, name))
    return f"${used} of ${limit}" if name == "cost" else f"{used} of {limit} {name.replace('_', ' ')}"


def _number(value: float) -> str:
    return f"{value:,.4f}".rstrip("0").rstrip(".")


def _told(state: State, text: str) -> State:
    """The next State after the model was told this; its round and what the repetition guard knows stay."""
    said = (user(text),)
    prompt, end = state.prompt.grown(state.end, said), state.end + 1
    opened = replace(state, decision=None, stop=None, answer=None, value=None, detail="")
    return replace(opened, parent=state, kind="say", added=said, prompt=prompt, end=end)
