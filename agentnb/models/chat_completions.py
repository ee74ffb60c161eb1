"""Models that speak chat completions: OpenAI's own and the many servers that are compatible with it.

    ModelRequest ──SentChat (chat_wire)──▶ bytes ──Transport──▶ bytes ──Reader (chat_reader)──▶ Answer ──▶ ModelReply

What differs between providers stands in their Profile; what a server turns out not to take is learned (http_model.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentnb.core.messages import ToolCall
from agentnb.core.model import ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.models import think_tags
from agentnb.models.chat_assembly import as_text, dicts_in, reasoning_of, text_of, word
from agentnb.models.chat_reader import FILTERED, Answer, StreamReader, WholeReader
from agentnb.models.chat_wire import Encoding, SentChat, encode_strictly, encode_tools
from agentnb.models.http_errors import WireError
from agentnb.models.http_model import HttpModel
from agentnb.models.prices import told_cost
from agentnb.models.profiles import COMPATIBLE
from agentnb.models.usage import read_usage
from agentnb.text import clean

_UNREAD = "asked again: the provider could not read the model's call"
_TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
_FINISHES = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    **dict.fromkeys(FILTERED, "content_filter"),
}


class ChatCompletionsModel(HttpModel[Answer]):
    """One model of one server; `base_url` has the version path, such as "https://api.openai.com/v1"."""

    dialect = "chat"
    path = "/chat/completions"
    opened = b"]"
    compatible = COMPATIBLE
    forms = ("json_schema", "json_object", "")
    form_fields = ("response_format", "json_schema", "JSON schema")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._encoding = Encoding(self.origin, self.profile)
        self._head = b'{"model":' + encode_strictly(self.model) + b',"messages":['
        self._stream_usage = self.profile.stream_usage
        self._other_limit = False

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def sent(self, request: ModelRequest, streamed: bool = False) -> SentChat:
        """What would be sent for this request, with `.json()`; no message is copied."""
        return SentChat(request, self._encoding, self._head, self._tail(request, streamed), curl=self._curl(streamed))

    def _encode_tools(self, specs: Sequence[ToolSpec]) -> bytes:
        return encode_tools(specs, self.strict)

    def _parameters(self, request: ModelRequest, streamed: bool) -> dict[str, Any]:
        found = {self._own_name(name): value for name, value in self.profile.own_words(request.parameters)}
        if request.schema is not None and (form := self._form_of(request.schema)):
            found.setdefault("response_format", self._response_format(request.schema, form))
        if streamed:
            found["stream"] = True
            if self._stream_usage:
                found.setdefault("stream_options", {"include_usage": True})
        return found

    def _own_name(self, name: str) -> str:
        if self._other_limit and name in _TOKEN_LIMITS:
            return _TOKEN_LIMITS[1 - _TOKEN_LIMITS.index(name)]
        return name

    def _response_format(self, schema: Mapping[str, Any], form: str) -> dict[str, Any]:
        if form == "json_object":
            return {"type": "json_object"}
        described: dict[str, Any] = {"name": "reply", "schema": schema}
        if self.strict is not None:
            described["strict"] = self.strict
        return {"type": "json_schema", "json_schema": described}

    def _adapt(self, error: WireError, request: ModelRequest, notes: Sequence[str]) -> str | None:
        if error.failed_generation and not any(note.startswith(_UNREAD) for note in notes):
            return f"{_UNREAD} {clean(error.failed_generation)[:120]!r}"
        limited = set(_TOKEN_LIMITS) & set(request.parameters)
        if limited and not self._other_limit and error.does_not_know(*_TOKEN_LIMITS):
            self._other_limit = True
            return "asked again with the token limit under its other name"
        if self._stream_usage and error.names("stream_options", "include_usage"):
            self._stream_usage = False
            return "asked again without usage in the stream"
        return super()._adapt(error, request, notes)

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _reader(self, on_delta: OnDelta | None) -> WholeReader | StreamReader:
        target = self.transport.endpoint.target
        if on_delta is None:
            return WholeReader(target)
        return StreamReader(target, on_delta, self.profile.think_tags)

    def _parsed(self, answer: Answer) -> ModelReply:
        message = answer.message
        text, reasoning = clean(text_of(message.get("content"))), clean(reasoning_of(message))
        if self.profile.think_tags and not reasoning:
            reasoning, text = think_tags.split(text)
        calls = tuple(read_call(call) for call in dicts_in(message.get("tool_calls")))
        refusal = message.get("refusal")
        return ModelReply(
            text,
            calls,
            reasoning,
            _finish(answer.finish, bool(calls), bool(refusal)),
            clean(refusal) if isinstance(refusal, str) and refusal else None,
            read_usage(answer.usage),
            told_cost(answer.usage),
            message,
            answered_as=clean(answer.model),
        )


def read_call(call: Mapping[str, Any]) -> ToolCall:
    """A tool call as a server wrote it; arguments that came as an object become text, missing ones ""."""
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    id, name, arguments = word(call.get("id")), word(function.get("name")), as_text(function.get("arguments"))
    return ToolCall(clean(id), clean(name), clean(arguments))


def _finish(said: str, has_calls: bool, refused: bool) -> str:
    """What the message holds decides; only a cut and a filter are taken from the server's word."""
    if said in _FINISHES:
        return _FINISHES[said]
    if has_calls:
        return "tool_calls"
    return "refusal" if refused else "stop"
