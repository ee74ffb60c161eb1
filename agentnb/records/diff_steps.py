"""What differs between two steps: what was sent, what the model said and asked, what the tools gave back.

A difference is a plain dict: its `kind` ("sent", "said", "done"), `what` in words, and its value in the one `run` and
in the `other`; None where there is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.model import ModelRequest
from agentnb.core.state import State, Step
from agentnb.strict_json import normalised
from agentnb.text import clean, mask, shorten

Difference = dict[str, Any]


def always_sent(one: Step, other: Step) -> list[Difference]:
    """What differs in what goes along with every request: goal, model, system prompt, tools, parameters."""
    return list(_always_sent(one, other))


def step_differences(one: Step, other: Step) -> list[Difference]:
    """What else differs in two steps, in the order in which it happened."""
    return [*_said_before(one, other), *_replied(one, other), *_called(one, other)]


def difference(kind: str, what: str, one: Any, other: Any) -> Iterator[Difference]:
    """A difference, if it is one; texts are freed of secrets."""
    if one != other:
        yield {"kind": kind, "what": shorten(mask(what), 80), "run": _told(one), "other": _told(other)}


def _told(value: Any) -> str | None:
    if value is None:
        return None
    return mask(clean(value if isinstance(value, str) else _json(value)))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)


# ── what was sent ────────────────────────────────────────────────────────────────────────────────────────────────


def _always_sent(one: Step, other: Step) -> Iterator[Difference]:
    yield from difference("sent", "goal", one.plan.goal, other.plan.goal)
    yield from difference("sent", "model", *(step.reply.model if step.reply else None for step in (one, other)))
    asked, asked_other = _request(one), _request(other)
    if asked is None or asked_other is None:
        return
    if asked.preamble != asked_other.preamble:
        yield from difference("sent", "system prompt", *(_system(each.preamble) for each in (asked, asked_other)))
        yield from difference("sent", "examples", *(_examples(each.preamble) for each in (asked, asked_other)))
    if asked.specs != asked_other.specs:
        tools = [{spec.name: spec.wire["function"] for spec in each.specs} for each in (asked, asked_other)]
        yield from _by_name("sent", "tool {}, as offered", *tools)
    if asked.parameters != asked_other.parameters:
        yield from _by_name("sent", "parameter {}", asked.parameters, asked_other.parameters)
    yield from difference("sent", "schema of the reply", asked.schema, asked_other.schema)


def _request(step: Step) -> ModelRequest | None:
    """The request in no dialect; None where only its JSON was kept, or none was made."""
    sent = step.reply.request if step.reply else None
    found = getattr(sent, "request", sent)
    return found if isinstance(found, ModelRequest) else None


def _system(preamble: Sequence[Message]) -> str | None:
    return "\n\n".join(each.content or "" for each in preamble if each.role == "system") or None


def _examples(preamble: Sequence[Message]) -> list[Any] | None:
    return [each.wire for each in preamble if each.role != "system"] or None


def _by_name(kind: str, what: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*one, *other)):
        yield from difference(kind, what.format(name), one.get(name), other.get(name))


def _said_before(one: Step, other: Step) -> Iterator[Difference]:
    for said, said_other in zip_longest(_between(one.plan), _between(other.plan)):
        if said != said_other:
            yield from difference("sent", (said or said_other)[0], *(each and each[1] for each in (said, said_other)))


def _between(plan: State) -> list[tuple[str, str]]:
    """What the model was told since the last round, oldest first: the person's words, warnings; a compaction, with all
    that is sent from there on. The goal is compared for itself."""
    found: list[tuple[str, str]] = []
    state = plan.parent
    while state is not None and state.kind not in ("start", "plan", "act"):
        messages = state.prompt.items[: state.end] if state.kind == "compact" else state.added
        what = "compacted prompt" if state.kind == "compact" else "message of the user"
        found += [(what, _as_text(message)) for message in reversed(messages)]
        state = state.parent
    return found[::-1]


def _as_text(message: Message) -> str:
    return message.content or "" if message.role == "user" else _json(message.wire)


# ── what was said and done ───────────────────────────────────────────────────────────────────────────────────────


def _replied(one: Step, other: Step) -> Iterator[Difference]:
    yield from difference("said", "reasoning", one.reasoning or None, other.reasoning or None)
    answers = (one.decision.answer, other.decision.answer)
    both_answer = None not in answers
    if not both_answer or (one.reply is None and other.reply is None):
        yield from difference(
            "said", "text", *(step.reply.text or None if step.reply else None for step in (one, other))
        )
    yield from difference("said", "answer", *answers)
    yield from difference("said", "asked again", one.decision.again, other.decision.again)
    yield from difference("done", "stop", *(step.decision.stop and str(step.decision.stop) for step in (one, other)))
    yield from difference("done", "detail", one.decision.detail or None, other.decision.detail or None)


def _called(one: Step, other: Step) -> Iterator[Difference]:
    results, others = ({result.call_id: result for result in step.results} for step in (one, other))
    for call, call_other in zip_longest(one.calls, other.calls):
        result = results.get(call.id) if call else None
        result_other = others.get(call_other.id) if call_other else None
        yield from _call(call, call_other)
        yield from difference(
            "done", f"result of {(call or call_other).name}", _content(result), _content(result_other)
        )
        yield from _version(result, result_other)
    approvals = ({key: text for key, text in step.last.approvals if text is not None} for step in (one, other))
    yield from _by_name("done", "approved arguments of {}", *approvals)


def _call(call: ToolCall | None, other: ToolCall | None) -> Iterator[Difference]:
    if call is None or other is None or call.name != other.name:
        yield from difference("done", "call", *(each and f"{each.name}({each.arguments})" for each in (call, other)))
    elif call.arguments != other.arguments and normalised(call.arguments) != normalised(other.arguments):
        yield from difference("done", f"arguments of {call.name}", call.arguments, other.arguments)


def _content(result: ToolResult | None) -> str | None:
    if result is None:
        return None
    return result.content if result.ok else f"{result.status}: {result.content}"


def _version(one: ToolResult | None, other: ToolResult | None) -> Iterator[Difference]:
    """The source that ran, by its hash; how often it was defined differs from kernel to kernel."""
    if one and other and one.name == other.name:
        hashes = (each.version.rpartition("·")[2] or None for each in (one, other))
        yield from difference("done", f"version of {one.name}", *hashes)
