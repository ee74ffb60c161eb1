"""One transition of a run as a JSON object: what a State added to its parent, nothing that can be made again.

    state_to_json(state)          ──▶ told (what counts), aside (times, values, what was left out)
    state_from_json(parent, ...)  ──▶ the State, made by the same transition that made it first (`state_back`)

A plan is kept as its decision, an act as its result; both are carried out again, so that messages, counters and the
shared prompt come out as they were. Any other transition is kept as the fields in which it differs from its parent, and
so is whatever a plan or an act holds beyond what it should (a middleware of the user may have made it).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from agentnb.core.limits import StopReason
from agentnb.core.messages import Message, ToolCall, ToolResult, Usage, unique_ids, user
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import Counters, State
from agentnb.errors import ModelError
from agentnb.records.canonical import HUGE_BITS, tidy
from agentnb.text import clean, knows_secrets, mask

Json = dict[str, Any]

NOT_KEPT = {
    "request": "the file holds no request of this step: it could not be told as JSON, or was too long",
    "value": "the file holds no value of this answer, which was no plain JSON; its text is there",
}
"""What of a plan may be left out, and the note by which a reader learns of it."""
_MOST_VALUE = 20_000
_DEEPEST_VALUE = 20


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
_encode = _json.encode
"""Without the search for circles, a third of the time; a circle is a RecursionError all the same."""
_UNSEEN_SIGNS = ("\\u00", "\\t", "\\b", "\\f")


def spelled(value: Any) -> str:
    """The value as one line of strict JSON without secrets; what JSON can't say becomes text."""
    try:
        text = clean(_encode(value))
    except (TypeError, ValueError):
        return _encode(tidy(value))
    if not knows_secrets():
        return text
    unseen = "\\" in text and any(each in text for each in _UNSEEN_SIGNS)  # they may stand inside a key
    return _encode(tidy(value)) if unseen or mask(text) != text else text


# ── a State to JSON ──────────────────────────────────────────────────────────────────────────────────────────────────


def state_to_json(state: State, nested: str = "", by_loop: bool = False) -> tuple[Json, Json]:
    """What the State added to its parent: `told`, by which it is known, and `aside`, which equality ignores.

    Args:
        state: Any State.
        nested: How the run behind its newest result is known, where that is kept beside it.
        by_loop: The loop has just made it; so it holds what its transition makes, which need not be looked at.
    """
    told: Json = {"kind": state.kind}
    aside: Json = {}
    parent, decision = state.parent, state.decision
    spent = state.counters.seconds - (parent.counters.seconds if parent else 0.0)
    if spent:
        aside["seconds"] = round(spent, 6)
    if decision is not None:
        told["decision"] = _decision_to_json(decision, aside)
    if is_act := _is_act(state):
        told["result"] = _result_to_json(state.results[-1], aside, nested)
        if len(state.results) == len(state.calls) and not state.ring:
            told["guarded"] = False
    if by_loop and not state.finished and (is_act or (decision is not None and parent is not None)):
        return told, aside
    is_now, should_be = _compared(state), _expected(state, is_act)
    if is_now != should_be:
        pairs = zip(_FIELDS.items(), is_now, should_be, strict=True)
        told |= {name: encode(value) for (name, encode), value, same in pairs if value != same}
    if not _has_grown(state):
        known = parent.prompt.items[: parent.end] if parent else []
        told["prompt"] = prompt_to_json(state.prompt.items[: state.end], known)
    return told, aside


def _is_act(state: State) -> bool:
    """Whether the State is its parent with one more result."""
    parent = state.parent
    if parent is None or state.kind != "act" or len(state.results) != len(parent.results) + 1:
        return False
    return state.calls == parent.calls and state.results[:-1] == parent.results


def _expected(state: State, is_act: bool) -> tuple[Any, ...]:
    """The fields that the transition makes by itself, in the order of `_FIELDS`.

    Those of the core's own transitions, said once more without making States: half the cost of a save.
    """
    parent, decision = state.parent, state.decision
    if parent is None:
        return _compared(blank(state.kind))
    if decision is not None and state.kind == "plan":
        return _expected_of_plan(state, parent, decision)
    added: tuple[Message, ...] = ()
    counters, results, ring = parent.counters, parent.results, parent.ring
    if is_act:
        added = state.added if _tells_results(state) else ()
        counters, results = _counted(counters, state), state.results
        ring = state.ring if len(results) == len(state.calls) else ring
    same = (parent.warned, parent.asks, None, None, "")
    return (parent.goal, added, counters, parent.calls, results, parent.approvals, ring, *same)


def _counted(before: Counters, state: State) -> Counters:
    """The counters with the newest result: those of the State itself where they say what the others would."""
    now, result = state.counters, state.results[-1]
    same = now.usage is before.usage and (now.steps, now.known_cost, now.unpriced) == _kept_counts(before)
    if same and result.used is None and result.ok and now.tool_calls == before.tool_calls + 1:
        return now
    return before.with_result(result, 0.0)


_kept_counts = attrgetter("steps", "known_cost", "unpriced")


def _expected_of_plan(state: State, parent: State, decision: Decision) -> tuple[Any, ...]:
    reply, calls = decision.reply, decision.calls
    if state.calls != calls:
        calls = unique_ids(calls, f"call_{state.counters.steps}")
    plain, answer, again = decision.plain, decision.answer, decision.again
    said = (reply or ModelReply(answer or "")).message(calls, plain)
    kept = (said,) if (calls or said.content) and not (reply and reply.finish == "error") else ()
    added = (*kept, user(again)) if again else kept
    asks = 0 if again is None else parent.asks + 1
    ending = (decision.stop if answer is None else StopReason.ANSWER, answer, decision.detail)
    counters = parent.counters.with_reply(reply, 0.0)
    return (parent.goal, added, counters, calls, (), (), parent.ring, parent.warned, asks, *ending)


def _tells_results(state: State) -> bool:
    """Whether the messages of a closed round say what its results do; of an open one there are none."""
    if len(state.results) < len(state.calls):
        return not state.added
    said = {each.call_id: each.content for each in state.results}
    return [each.content for each in state.added] == [said.get(call.id) for call in state.calls]


def blank(kind: str) -> State:
    """A first State that says nothing."""
    return State(None, kind, "", ())


def bare_child(parent: State, kind: str) -> State:
    """A child that says nothing; how its parent ended is not inherited."""
    ended: Json = {"decision": None, "stop": None, "answer": None, "value": None, "detail": ""}
    return replace(parent, parent=parent, kind=kind, added=(), **ended)


def _has_grown(state: State) -> bool:
    """Whether the prompt is that of the parent, with the added messages behind it."""
    parent, items = state.parent, state.prompt.items
    before = parent.end if parent else 0
    if state.end != before + len(state.added) or items[before : state.end] != list(state.added):
        return False
    return parent is None or state.prompt is parent.prompt or items[:before] == parent.prompt.items[:before]


def prompt_to_json(items: Sequence[Message], known: Sequence[Message]) -> list[Any]:
    """The messages of a prompt; a run of those that the parent's prompt has is [first, how many]."""
    first: dict[Message, int] = {}
    for number, message in enumerate(known):
        first.setdefault(message, number)
    told: list[Any] = []
    for message in items:
        row = told[-1] if told and isinstance(told[-1], list) else None
        places = (
            sum(row) if row else 0,
            first.get(message, len(known)),
        )  # by value, so that a loaded run tells the same
        place = next((n for n in places if n < len(known) and _same(known[n], message)), None)
        if place is None:
            told.append(message_to_json(message))
        elif row and sum(row) == place:
            row[1] += 1
        else:
            told.append([place, 1])
    return told


def _same(one: Message, other: Message) -> bool:
    return one == other and one.raw == other.raw and one.origin == other.origin


def _decision_to_json(decision: Decision, aside: Json) -> Json:
    told = DECISION(decision)
    if decision.notes:
        _take_out_notes(told, aside)
    reply = decision.reply
    if reply is not None:
        told["reply"] = _reply_to_json(reply, aside)
    if decision.calls != (reply.calls if reply else ()):
        told["calls"] = _calls_to_json(decision.calls)
    if decision.answer is not None:
        told["answer"] = True if reply and reply.text == decision.answer else decision.answer
    if isinstance(decision.error, ModelError):
        aside["error"] = {name: getattr(decision.error, name) for name in ERROR}
    elif decision.error is not None:
        leave_out(aside, "error")
    _value_to_json(decision.value, decision.answer, aside)
    return told


def _take_out_notes(told: Json, aside: Json) -> None:
    """What a file said that it does not hold is noted as such again, so that a loaded run is saved as it was."""
    for what, note in NOT_KEPT.items():
        if note in told["notes"]:
            leave_out(aside, what)
    told["notes"] = [note for note in told["notes"] if note not in NOT_KEPT.values()]
    if not told["notes"]:
        del told["notes"]


def _reply_to_json(reply: ModelReply, aside: Json) -> Json:
    told = REPLY(reply)
    if reply.calls:
        told["calls"] = _calls_to_json(reply.calls)
    if reply.usage is not None:
        told["usage"] = USAGE(reply.usage)
    if reply.seconds:
        aside["model_seconds"] = round(reply.seconds, 6)
    return told


def _result_to_json(result: ToolResult, aside: Json | None = None, nested: str = "") -> Json:
    told = RESULT(result)
    if result.used is not None:
        told["used"] = _counters_to_json(result.used)
    if aside is None:
        return told
    if result.seconds:
        aside["tool_seconds"] = round(result.seconds, 6)
    if result.traceback:
        aside["traceback"] = result.traceback
    if nested:
        aside["run"] = nested
    else:
        _value_to_json(result.value, result.content, aside)
    return told


def _value_to_json(value: Any, text: str | None, aside: Json) -> None:
    """Keep the value itself where it is plain JSON and not large; else say that it was left out."""
    if value is None:
        return
    if isinstance(value, str) and value == text:
        aside["value_is_text"] = True
    elif _size(value, _DEEPEST_VALUE, _MOST_VALUE) <= _MOST_VALUE:
        aside["value"] = value
    else:
        leave_out(aside, "value")


def _size(value: Any, depth: int, most: int) -> int:
    """About how many characters the value takes as JSON; more than `most` where it is not plain JSON, or too large."""
    kind = type(value)
    if kind is str:
        return len(value) + 2
    if value is None or kind is bool or (kind is float and value - value == 0):
        return 5
    if kind is int:
        return int(value.bit_length() // 3) if value.bit_length() < HUGE_BITS else most + 1
    if kind not in (list, dict) or not depth or (kind is dict and any(type(key) is not str for key in value)):
        return most + 1
    size = 2
    for each in value.values() if kind is dict else value:
        size += 1 + _size(each, depth - 1, most - size)
        if size > most:
            return size
    return size + (sum(map(len, value)) if kind is dict else 0)


def leave_out(aside: Json, what: str) -> None:
    """Note in `aside` what is not kept."""
    if what not in aside.setdefault("left_out", []):
        aside["left_out"].append(what)


def message_to_json(message: Message) -> Json:
    """One message; what stands at its default is left out."""
    told = MESSAGE(message)
    return told | {"calls": _calls_to_json(message.calls)} if message.calls else told


def _calls_to_json(calls: Sequence[ToolCall]) -> list[Json]:
    return [{name: value for name in CALL if (value := getattr(call, name))} for call in calls]


def _counters_to_json(counters: Counters) -> Json:
    return COUNTED(counters) | {"usage": USAGE(counters.usage)}


class Fields:
    """Some fields of a dataclass; of a value those that are not at their default."""

    def __init__(self, kind: type, *names: str) -> None:
        defaults = {each.name: each.default for each in fields(kind)}
        self.names = names
        self._defaults = tuple(defaults[name] for name in names)
        self._get = attrgetter(*names)

    def __call__(self, value: Any) -> Json:
        """The fields of this value that say something."""
        told = zip(self.names, self._get(value), self._defaults)  # noqa: B905  # of one length
        return {name: each for name, each, default in told if each is not default and each != default}

    def read(self, told: Mapping[str, Any]) -> Json:
        """Those that were told, to make one again."""
        return {name: told[name] for name in self.names if name in told}


CALL = ("id", "name", "arguments", "problem")
DECISION = Fields(Decision, "again", "stop", "detail", "reasoning", "plain", "notes")
_REPLY_NAMES = ("text", "reasoning", "finish", "refusal", "cost", "raw", "origin", "model", "answered_as", "notes")
REPLY = Fields(ModelReply, *_REPLY_NAMES)
RESULT = Fields(ToolResult, "call_id", "name", "content", "status", "arguments", "version", "notes")
_MESSAGE_NAMES = ("role", "content", "call_id", "name", "reasoning", "plain", "raw", "origin", "failed")
MESSAGE = Fields(Message, *_MESSAGE_NAMES)
USAGE = Fields(Usage, *(each.name for each in fields(Usage)))
COUNTED = Fields(Counters, *(each.name for each in fields(Counters) if each.name not in ("usage", "seconds")))
ERROR = ("message", "kind", "status", "retryable", "retry_after", "partial", "remedy", "notes")
_FIELDS: dict[str, Callable[[Any], Any]] = {
    "goal": str,
    "added": lambda added: [*map(message_to_json, added)],
    "counters": _counters_to_json,
    "calls": _calls_to_json,
    "results": lambda results: [*map(_result_to_json, results)],
    "approvals": list,
    "ring": bytes.hex,
    "warned": bool,
    "asks": int,
    "stop": lambda stop: stop,
    "answer": lambda answer: answer,
    "detail": str,
}
_compared = attrgetter(*_FIELDS)
