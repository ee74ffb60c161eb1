"""What was asked of a model as a JSON object, and back, without the conversation: that is in the run already.

A request points into the prompt of the State it was planned from. What stands around it (system prompt, tools,
parameters, how the provider writes messages) is the same in almost every step of a run, so it is kept once. Where a
middleware changed the conversation, what it changed is kept beside the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any

from agentnb.core.model import ModelRequest, Prompt
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.records.canonical import tidy
from agentnb.records.state_back import message_from_json, prompt_items
from agentnb.records.state_json import Json, message_to_json, prompt_to_json, spelled

_WIRES = {
    "SentChat": "agentnb.models.chat_wire",
    "SentResponses": "agentnb.models.responses_wire",
    "SentMessages": "agentnb.models.anthropic_wire",
    "SentGemini": "agentnb.models.gemini_wire",
    "SentOllama": "agentnb.models.ollama_wire",
}
"""What went over the wire, by the name of its class: the module that can join it again."""
MOST_CHANGED = 50_000
"""Characters: so much of a conversation that a middleware changed is kept with one step."""


def request_of(state: State) -> Any:
    """What this plan sent, if it is of a form that can be told; else None."""
    reply = state.decision.reply if state.decision else None
    sent = reply.request if reply else None
    return None if state.parent is None or _inner(sent) is None else sent


def tell_conversation(sent: Any, state: State, aside: Json) -> bool:
    """Note in `aside` the conversation that was sent, where it is not the one of the State that was planned from.

    Returns:
        Whether that could be: not where more than `MOST_CHANGED` characters of it are in no State.
    """
    request, parent = _inner(sent), state.parent
    assert request is not None
    assert parent is not None
    asked, known = request.prompt.items, parent.prompt.items
    if request.end == parent.end and (asked is known or asked[: parent.end] == known[: parent.end]):
        return True
    told = prompt_to_json(asked[: request.end], known[: parent.end])
    if len(spelled(told)) > MOST_CHANGED:
        return False
    aside["messages"] = told
    return True


def can_be_told(sent: Any) -> bool:
    """Whether its parameters are JSON and hold no secret."""
    request = _inner(sent)
    return request is not None and bool(tidy(request.parameters) == request.parameters)


def was_asked(state: State) -> bool:
    """Whether a model was sent something for this State."""
    reply = state.decision.reply if state.decision else None
    return reply is not None and reply.request is not None


def _inner(sent: Any) -> ModelRequest | None:
    if isinstance(sent, ModelRequest):
        return sent
    kind = type(sent)
    return sent.request if _WIRES.get(kind.__name__) == kind.__module__ else None


def same_frame(sent: Any, other: Any) -> bool:
    """Whether two requests differ in their conversation alone."""
    if type(sent) is not type(other):
        return False
    if isinstance(sent, ModelRequest):
        return _around(sent) == _around(other)
    about = _parts(sent.__class__)
    return about(sent) == about(other) and _around(sent.request) == _around(other.request)


_around = attrgetter("specs", "preamble", "parameters", "schema")


@cache
def _parts(kind: Any) -> Callable[[Any], Any]:
    """What gets all of it but the conversation."""
    return attrgetter(*(each.name for each in fields(kind) if each.name != "request"))


def frame_to_json(sent: Any) -> Json:
    """What stands around the conversation."""
    request = _inner(sent)
    assert request is not None
    told: Json = {}
    if request.preamble:
        told["preamble"] = [message_to_json(each) for each in request.preamble]
    if request.specs:
        told["tools"] = [_plain(spec) for spec in request.specs]
    if request.parameters:
        told["parameters"] = dict(request.parameters)
    if request.schema is not None:
        told["schema"] = request.schema
    if sent is not request:
        told["wire"] = {"form": type(sent).__name__, **_plain(sent, "request")}
    return told


def _plain(value: Any, *without: str) -> Any:
    """A dataclass as its fields that are not at their default; bytes are JSON text."""
    if isinstance(value, bytes):
        return value.decode()
    if not is_dataclass(value):
        return value
    told = [each for each in fields(value) if each.init and each.name not in without]
    return {each.name: _plain(own) for each in told if (own := getattr(value, each.name)) != _default(each)}


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


Frame = Callable[[Prompt, int], Any]


def request_from_json(frame: Frame, parent: State, aside: Mapping[str, Any]) -> Any:
    """The request that was sent to go on from `parent`."""
    if "messages" not in aside:
        return frame(parent.prompt, parent.end)
    items = prompt_items(aside["messages"], parent.prompt.items)
    return frame(Prompt(items), len(items))


def frame_from_json(told: Mapping[str, Any]) -> Frame:
    """What makes, of a prompt and of how much of it was sent, the request that was sent.

    Raises:
        TypeError, KeyError, ValueError, AttributeError: Something else was told.
    """
    request = ModelRequest(
        preamble=tuple(map(message_from_json, told.get("preamble", ()))),
        specs=tuple(_made(ToolSpec, each) for each in told.get("tools", ())),
        parameters=told.get("parameters", {}),
        schema=told.get("schema"),
    )
    if "wire" not in told:
        return lambda prompt, end: replace(request, prompt=prompt, end=end)
    sent = _wire_from_json(told["wire"], request)
    return lambda prompt, end: replace(sent, request=replace(request, prompt=prompt, end=end))


def _wire_from_json(told: Mapping[str, Any], request: ModelRequest) -> Any:
    module = import_module(_WIRES[told["form"]])
    encoding = dict(told["encoding"])
    if "profile" in encoding:
        encoding["profile"] = _made(module.Profile, encoding["profile"])
    more = {"request": request, "encoding": _made(module.Encoding, encoding)}
    return _made(getattr(module, told["form"]), {**told, **more})


def _made(kind: Any, told: Mapping[str, Any]) -> Any:
    """The dataclass of these fields; those that it does not have are left aside."""
    values = {each.name: (each.type, told[each.name]) for each in fields(kind) if each.init and each.name in told}
    return kind(**{name: _typed(*pair) for name, pair in values.items()})


def _typed(kind: Any, value: Any) -> Any:
    if kind == "bytes":
        return value.encode()
    return tuple(value) if isinstance(value, list) else value
