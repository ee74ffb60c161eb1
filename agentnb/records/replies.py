"""A model's reply as a JSON object, and back: what is equal before is equal after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from agentnb.core.messages import ToolCall, Usage
from agentnb.core.model import Delta, ModelReply, OnDelta
from agentnb.records.canonical import encode, tidy
from agentnb.text import clean, mask

Stream = list[list[str]] | None
"""The pieces of a reply as they came, grouped by kind: ["text", "It is ", "5."]; None when it was not streamed."""
_PLAIN = ("text", "reasoning", "finish", "refusal", "cost", "raw", "origin", "model", "answered_as", "seconds")
_DEFAULTS = {each.name: each.default for each in fields(ModelReply)}
_SHOWN = ("text", "reasoning", "call")
_OPAQUE = ("id", "call_id", "signature", "encrypted_content", "thoughtSignature", "thought_signature")
"""What a provider's own message holds that is another each time, even when it says the same."""


def reply_to_json(reply: ModelReply) -> dict[str, Any]:
    """The reply without its request; what stands at its default is left out."""
    kept = {name: getattr(reply, name) for name in _PLAIN if getattr(reply, name) != _DEFAULTS[name]}
    if reply.calls:
        kept["calls"] = [_without_empty(asdict(call)) for call in reply.calls]
    if reply.usage is not None:
        kept["usage"] = {name: value for name, value in asdict(reply.usage).items() if value is not None}
    if reply.notes:
        kept["notes"] = reply.notes
    if "seconds" in kept:
        kept["seconds"] = round(reply.seconds, 3)
    tidied: dict[str, Any] = tidy(kept)
    return tidied


def _without_empty(call: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in call.items() if value}


def reply_from_json(saved: Mapping[str, Any], request: Any) -> ModelReply:
    """The reply that was saved, as the answer to this request.

    Raises:
        TypeError, KeyError: Something else was saved.
    """
    plain = {name: saved[name] for name in _PLAIN if name in saved}
    return ModelReply(
        **plain,
        calls=tuple(ToolCall(call.get("id", ""), call["name"], **_rest(call)) for call in saved.get("calls", ())),
        usage=Usage(**saved["usage"]) if "usage" in saved else None,
        notes=tuple(saved.get("notes", ())),
        request=request,
    )


def _rest(call: Mapping[str, str]) -> dict[str, str]:
    return {"arguments": call.get("arguments", ""), "problem": call.get("problem", "")}


def same_reply(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two saved replies say the same: times, ids, signatures and the server's address do not count."""
    return _essence(one) == _essence(other)


def _essence(saved: Mapping[str, Any]) -> str:
    said = {name: value for name, value in saved.items() if name not in ("seconds", "origin")}
    text = encode({**said, "raw": _without_opaque(said.get("raw"))})
    for number, call in enumerate(saved.get("calls", ()), 1):
        if call.get("id"):
            text = text.replace(encode(call["id"]), f'"call {number}"')
    return text


def _without_opaque(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_opaque(each) for name, each in value.items() if name not in _OPAQUE}
    return [_without_opaque(each) for each in value] if isinstance(value, list) else value


class Pieces:
    """Passes the pieces of a reply on and keeps those that a replay shows again, grouped by kind."""

    def __init__(self, on_delta: OnDelta) -> None:
        self.on_delta = on_delta
        self._groups: list[list[str]] = []

    @property
    def kept(self) -> list[list[str]]:
        """The groups; where a secret stood, perhaps in pieces, the group is one piece."""
        return [_masked(kind, pieces) for kind, *pieces in self._groups]

    def __call__(self, delta: Delta) -> None:
        """One piece."""
        if delta.kind == "restart":
            self._groups.clear()
        elif delta.kind in _SHOWN:
            if not self._groups or self._groups[-1][0] != delta.kind:
                self._groups.append([delta.kind])
            self._groups[-1].append(clean(delta.text))
        self.on_delta(delta)


def _masked(kind: str, pieces: list[str]) -> list[str]:
    whole = "".join(pieces)
    hidden = mask(whole)
    return [kind, *pieces] if hidden == whole else [kind, hidden]


def play_pieces(stream: Stream, reply: ModelReply, on_delta: OnDelta) -> None:
    """Show the reply piece by piece as it came, without waiting; in one piece when no stream was recorded."""
    whole = [["reasoning", reply.reasoning], ["text", reply.text], *(["call", call.name] for call in reply.calls)]
    for kind, *pieces in [group for group in whole if group[1]] if stream is None else stream:
        for piece in pieces:
            on_delta(Delta(kind, piece))
