"""Models that speak chat completions: OpenAI's own and the many servers that are compatible with it.

    ModelRequest ──SentChat (chat_wire)──▶ bytes ──Transport──▶ bytes ──Reader (chat_reader)──▶ Answer ──▶ ModelReply

What differs between providers stands in their Profile. What a server turns out not to take (a name of the token limit,
a response format, usage in streams) is left out on the next try and remembered by the model object.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agentnb.core.messages import ToolCall, Usage, unique_ids
from agentnb.core.model import Delta, ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.models import think_tags
from agentnb.models.chat_assembly import as_text, dicts_in, reasoning_of, text_of, word
from agentnb.models.chat_reader import Answer, StreamReader, WholeReader
from agentnb.models.chat_wire import Encoding, SentChat, encode_strictly, encode_tools
from agentnb.models.endpoint import Endpoint
from agentnb.models.http_errors import WireError
from agentnb.models.prices import price
from agentnb.models.profiles import COMPATIBLE, Profile
from agentnb.models.recovered import NOTE, recover
from agentnb.models.transport import Retry, Timeouts, Transport
from agentnb.settings import Secret
from agentnb.text import clean

PATH = "/chat/completions"
_LOCAL_TIMEOUTS = Timeouts(read=600.0, gap=300.0, total=1800.0)
_TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
_FORMATS = ("json_schema", "json_object", "")
_FINISHES = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
}


@dataclass(slots=True)
class Learned:
    """What a server was found not to take; only ever set, so that threads may share it."""

    format: str
    """The best response format that is left."""
    stream_usage: bool
    other_limit: bool = False
    """The token limit goes under its other name."""


class ChatCompletionsModel:
    """One model of one server.

    Args:
        model: The name that the server knows it by.
        base_url: With the version path, such as "https://api.openai.com/v1".
        api_key: None sends "none", which is enough for a server without keys.
        profile: The provider's quirks.
        name: Shown where a model's name is shown, such as "openai:gpt-5-mini".
        headers: Sent besides the key.
        strict: Sent with each tool and schema when set.
        recover_calls: Take a reply that is nothing but a tool call written as text for that call.
        retry: How often and how long a failed call is tried again.
        timeouts: None: longer ones for a server on this machine.

    Raises:
        SettingsError: The base URL or the key can't be used.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str | Secret | None = None,
        profile: Profile = COMPATIBLE,
        name: str | None = None,
        *,
        headers: Mapping[str, str | Secret] | None = None,
        strict: bool | None = None,
        recover_calls: bool = True,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.model = model
        self.name = name or f"{profile.name}:{model}"
        self.profile = profile
        self.strict = strict
        self.recover_calls = recover_calls
        endpoint = Endpoint(base_url, PATH, {**_key_header(api_key, profile), **(headers or {})})
        local = profile.local or endpoint.is_local
        self.transport = Transport(endpoint, retry or Retry(), timeouts or (_LOCAL_TIMEOUTS if local else Timeouts()))
        self._encoding = Encoding(f"chat:{self.name}", profile)
        self._head = b'{"model":' + encode_strictly(model) + b',"messages":['
        self._learned = Learned(profile.schema_form, profile.stream_usage)
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def __repr__(self) -> str:
        return f"ChatCompletionsModel({self.name!r}, {self.transport.endpoint.base!r})"

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Answer; whole, or streamed when there is someone to tell of the pieces.

        Raises:
            ModelError: No try brought a usable reply.
        """
        began = self.transport.clock()
        notes: tuple[str, ...] = ()
        while True:
            sent = self.sent(request, on_delta is not None)
            try:
                answer, waits = await self.transport.call(sent.body(), partial(self._reader, on_delta), on_delta)
            except WireError as error:
                change = self._adapt(error, request, notes)
                if change is None:
                    raise
                notes = (*notes, *error.notes, change)
                if on_delta is not None:
                    on_delta(Delta("note", change))
                continue
            reply = self._read(answer, request)
            seconds = self.transport.clock() - began
            return replace(reply, request=sent, seconds=seconds, notes=(*notes, *waits, *reply.notes))

    def sent(self, request: ModelRequest, streamed: bool = False) -> SentChat:
        """What would be sent for this request, with `.json()`; no message is copied."""
        return SentChat(request, self._encoding, self._head, self._tail(request, streamed))

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def _tail(self, request: ModelRequest, streamed: bool) -> bytes:
        """Everything that follows the messages: tools as encoded before, then what was set."""
        parts = [b"]"]
        if request.specs:
            parts += (b',"tools":', self._encoded_tools(request.specs))
        more = self._parameters(request)
        if streamed:
            more["stream"] = True
            if self._learned.stream_usage:
                more.setdefault("stream_options", {"include_usage": True})
        if more:
            parts += (b",", encode_strictly(more)[1:-1])
        parts.append(b"}")
        return b"".join(parts)

    def _encoded_tools(self, specs: tuple[ToolSpec, ...]) -> bytes:
        kept = self._tools
        if len(kept[0]) != len(specs) or any(a is not b for a, b in zip(kept[0], specs, strict=True)):
            kept = self._tools = (specs, encode_tools(specs, self.strict))
        return kept[1]

    def _parameters(self, request: ModelRequest) -> dict[str, Any]:
        """What the user set, under the names and with the values of this provider; the schema's response format."""
        found = {}
        for name, value in request.parameters.items():
            word = self.profile.replaces.get(name, {}).get(value, value) if isinstance(value, str) else value
            found[self._own_name(name)] = word
        if request.schema is not None and self._learned.format:
            found.setdefault("response_format", self._response_format(request.schema))
        return found

    def _own_name(self, name: str) -> str:
        name = self.profile.renames.get(name, name)
        if self._learned.other_limit and name in _TOKEN_LIMITS:
            return _TOKEN_LIMITS[1 - _TOKEN_LIMITS.index(name)]
        return name

    def _response_format(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if self._learned.format == "json_object":
            return {"type": "json_object"}
        described: dict[str, Any] = {"name": "reply", "schema": schema}
        if self.strict is not None:
            described["strict"] = self.strict
        return {"type": "json_schema", "json_schema": described}

    def _adapt(self, error: WireError, request: ModelRequest, notes: tuple[str, ...]) -> str | None:
        """Leave out or rename what the server does not take; in words, or None when nothing can be changed."""
        learned = self._learned
        if len(notes) > len(_FORMATS) + 2:
            return None
        if error.failed_generation and not notes:
            return f"asked again: the provider could not read the model's call {clean(error.failed_generation)[:120]!r}"
        if (
            not learned.other_limit
            and error.does_not_know(*_TOKEN_LIMITS)
            and set(_TOKEN_LIMITS) & set(request.parameters)
        ):
            learned.other_limit = True
            return "asked again with the token limit under its other name"
        if learned.stream_usage and error.names("stream_options", "include_usage"):
            learned.stream_usage = False
            return "asked again without usage in the stream"
        if request.schema is not None and learned.format and error.names("response_format", "json_schema", "schema"):
            learned.format = _FORMATS[_FORMATS.index(learned.format) + 1]
            return f"asked again with {learned.format or 'no response format'}: the server does not take the schema"
        return None

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _reader(self, on_delta: OnDelta | None) -> WholeReader | StreamReader:
        target = self.transport.endpoint.target
        if on_delta is None:
            return WholeReader(target)
        return StreamReader(target, on_delta, self.profile.think_tags)

    def _read(self, answer: Answer, request: ModelRequest) -> ModelReply:
        """The reply in an answer, however that came."""
        message = answer.message
        text, reasoning = clean(text_of(message.get("content"))), clean(reasoning_of(message))
        if self.profile.think_tags and not reasoning:
            reasoning, text = think_tags.split(text)
        calls = tuple(read_call(call) for call in dicts_in(message.get("tool_calls")))
        recovered = recover(text, {spec.name for spec in request.specs}) if self._may_recover(calls, request) else ()
        refusal = message.get("refusal")
        usage = read_usage(answer.usage)
        finish = _finish(answer.finish, bool(calls or recovered), bool(refusal))
        if finish == "content_filter":
            calls = recovered = ()
        return ModelReply(
            text="" if recovered else text,
            calls=unique_ids(calls or recovered, f"call_{request.end}"),
            reasoning=reasoning,
            finish=finish,
            refusal=clean(refusal) if isinstance(refusal, str) and refusal else None,
            usage=usage,
            cost=self._cost(answer, usage),
            raw=message,
            origin="" if recovered else self._encoding.origin,
            model=self.name,
            answered_as=clean(answer.model),
            notes=(NOTE,) if recovered else (),
        )

    def _may_recover(self, calls: tuple[ToolCall, ...], request: ModelRequest) -> bool:
        return self.recover_calls and not calls and bool(request.specs)

    def _cost(self, answer: Answer, usage: Usage | None) -> float | None:
        """What the provider says; else the list price, where there is one."""
        said = answer.usage.get("cost") if isinstance(answer.usage, Mapping) else None
        if isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said):
            return float(said)
        return price(self.model, usage, self.profile.prices) if self.profile.prices else None


def _key_header(api_key: str | Secret | None, profile: Profile) -> dict[str, str | Secret]:
    if api_key is None and profile.key_header == "authorization":
        return {"authorization": "Bearer none"}
    key = api_key if isinstance(api_key, Secret) else Secret(api_key or "none")
    if profile.key_header == "authorization":
        return {"authorization": key.with_prefix("Bearer ")}
    return {profile.key_header: key}


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


def read_usage(said: Mapping[str, Any] | None) -> Usage | None:
    """Usage in one form: input holds the cached part, output the reasoning; None where the server said nothing.

    A server that counts the whole but names no part of it has no such part: 0.
    """
    if not isinstance(said, Mapping):
        return None
    input, output = _count(said, "prompt_tokens"), _count(said, "completion_tokens")
    if input is None and output is None:
        return None
    prompt, completion = said.get("prompt_tokens_details"), said.get("completion_tokens_details")
    cached = _count(prompt, "cached_tokens")
    if cached is None:
        cached = _count(said, "prompt_cache_hit_tokens")
    return Usage(
        input,
        output,
        cached if cached is not None or input is None else 0,
        _part(prompt, "cache_write_tokens", input),
        _part(completion, "reasoning_tokens", output),
    )


def _part(details: Any, name: str, whole: int | None) -> int | None:
    found = _count(details, name)
    return 0 if found is None and whole is not None else found


def _count(said: Any, name: str) -> int | None:
    value = said.get(name) if isinstance(said, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return int(value)
