"""A State from the JSON object that `state_json` told of it: the same transition, carried out again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentnb.core.limits import StopReason
from agentnb.core.messages import Message, ToolCall, ToolResult, Usage
from agentnb.core.model import Prompt
from agentnb.core.planner import Decision
from agentnb.core.state import Counters, State
from agentnb.errors import ModelError
from agentnb.records.replies import reply_from_json
from agentnb.records.state_json import (
    CALL,
    COUNTED,
    DECISION,
    ERROR,
    MESSAGE,
    NOT_KEPT,
    RESULT,
    USAGE,
    Json,
    bare_child,
    blank,
)


def state_from_json(parent: State | None, told: Mapping[str, Any], aside: Mapping[str, Any], request: Any) -> State:
    """The State that was told, as a child of `parent`.

    Args:
        parent: None for the first State of a run.
        told: What `state_to_json` made.
        aside: The same.
        request: What was sent to the model, where it is known.

    Raises:
        TypeError, KeyError, ValueError, AttributeError: It is something else.
    """
    kind, spent = told["kind"], aside.get("seconds", 0.0)
    decision = _decision_from_json(told["decision"], aside, request) if "decision" in told else None
    if parent is None:
        state = blank(kind)
    elif kind == "plan" and decision is not None:
        state = parent.planned(decision, spent)
    elif "result" in told:
        state = parent.answered(_result_from_json(told["result"], aside), spent, told.get("guarded", True))
    else:
        state = bare_child(parent, kind)
    changes = {name: read(told[name]) for name, read in _READ.items() if name in told}
    if decision is not state.decision:
        changes |= {"decision": decision, "value": decision and decision.value}
    if parent is None or state.kind not in ("plan", "act") or "counters" in changes:
        counters = changes.get("counters", state.counters)
        changes["counters"] = replace(counters, seconds=(parent.counters.seconds if parent else 0.0) + spent)
    changes |= _prompt_from_json(parent, told, changes)
    return replace(state, **changes) if changes else state


def _prompt_from_json(parent: State | None, told: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    if "prompt" in told:
        items = parent.prompt.items if parent else []
        made = prompt_items(told["prompt"], items)
        return {"prompt": Prompt(made), "end": len(made)}
    if not (added := changes.get("added")):
        return {}
    prompt, end = (parent.prompt, parent.end) if parent else (Prompt(), 0)
    return {"prompt": prompt.grown(end, added), "end": end + len(added)}


def prompt_items(told: Sequence[Any], known: Sequence[Message]) -> list[Message]:
    """The messages that `prompt_to_json` told; `known` are those of the parent's prompt."""
    made: list[Message] = []
    for each in told:
        if isinstance(each, list):
            made += known[each[0] : each[0] + each[1]]
        else:
            made.append(message_from_json(each))
    return made


def _decision_from_json(told: Mapping[str, Any], aside: Mapping[str, Any], request: Any) -> Decision:
    reply = None
    if "reply" in told:
        reply = reply_from_json({**told["reply"], "seconds": aside.get("model_seconds", 0.0)}, request)
    plain = DECISION.read(told) | {"stop": _stop(told.get("stop")), "notes": _notes(told, aside)}
    calls = _calls_from_json(told["calls"]) if "calls" in told else (reply.calls if reply else ())
    answer = told.get("answer")
    answer = reply.text if answer is True and reply else answer
    return Decision(
        reply,
        answer,
        calls,
        error=_error_from_json(aside.get("error"), request),
        value=answer if aside.get("value_is_text") else aside.get("value"),
        **plain,
    )


def _notes(told: Mapping[str, Any], aside: Mapping[str, Any]) -> tuple[str, ...]:
    """The notes of a decision, and what a reader should know of what the file does not hold."""
    left_out = aside.get("left_out", ())
    return (*told.get("notes", ()), *(note for what, note in NOT_KEPT.items() if what in left_out))


def _error_from_json(told: Mapping[str, Any] | None, request: Any) -> ModelError | None:
    if told is None:
        return None
    options = {name: value for name, value in told.items() if name in ERROR and name not in ("message", "notes")}
    error = ModelError(told["message"], request=request, **options)
    error.notes = tuple(told.get("notes", ()))
    return error


def _result_from_json(told: Mapping[str, Any], aside: Mapping[str, Any] | None = None) -> ToolResult:
    aside = aside or {}
    return ToolResult(
        **{**RESULT.read(told), "notes": tuple(told.get("notes", ()))},
        used=_counters_from_json(told["used"]) if "used" in told else None,
        value=told["content"] if aside.get("value_is_text") else aside.get("value"),
        seconds=aside.get("tool_seconds", 0.0),
        traceback=aside.get("traceback", ""),
    )


def message_from_json(told: Mapping[str, Any]) -> Message:
    """The message that `message_to_json` told."""
    return Message(**MESSAGE.read(told), calls=_calls_from_json(told.get("calls", ())))


def _calls_from_json(told: Sequence[Mapping[str, str]]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(*(each.get(name, "") for name in CALL)) for each in told)


def _counters_from_json(told: Mapping[str, Any]) -> Counters:
    return Counters(**COUNTED.read(told), usage=Usage(**USAGE.read(told["usage"])))


def _stop(told: str | None) -> StopReason | None:
    return None if told is None else StopReason(told)


_READ: dict[str, Callable[[Any], Any]] = {
    "goal": str,
    "added": lambda told: tuple(map(message_from_json, told)),
    "counters": _counters_from_json,
    "calls": _calls_from_json,
    "results": lambda told: tuple(map(_result_from_json, told)),
    "approvals": lambda told: tuple((call_id, arguments) for call_id, arguments in told),
    "ring": bytes.fromhex,
    "warned": bool,
    "asks": int,
    "stop": _stop,
    "answer": lambda told: told,
    "detail": str,
}
