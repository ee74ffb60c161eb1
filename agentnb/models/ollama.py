"""Models that speak Ollama's own API (/api/chat): options such as num_ctx, and thinking, are found only there.

ModelRequest ──SentOllama (ollama_wire)──▶ bytes ──Transport──▶ bytes ──OllamaReader──▶ body ──▶ ModelReply
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agentnb.core.messages import ToolCall, Usage, unique_ids
from agentnb.core.model import Delta, ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.models import think_tags
from agentnb.models.anthropic_events import Body
from agentnb.models.chat_assembly import dicts_in, word
from agentnb.models.chat_completions import _LOCAL_TIMEOUTS, _count, _key_header, read_call
from agentnb.models.chat_wire import encode_strictly, encode_tools
from agentnb.models.endpoint import Endpoint
from agentnb.models.http_errors import WireError
from agentnb.models.ollama_assembly import OllamaReader
from agentnb.models.ollama_parameters import wire_parameters
from agentnb.models.ollama_wire import INVENTED, Encoding, SentOllama
from agentnb.models.prices import price
from agentnb.models.profiles import Profile
from agentnb.models.recovered import NOTE, recover
from agentnb.models.transport import Retry, Timeouts, Transport
from agentnb.settings import Secret
from agentnb.text import clean

PATH = "/api/chat"
NATIVE = Profile("ollama-native", dialect="ollama")
_PASTED = re.compile(r"/(v1(/chat/completions)?|api(/\w+)?)$")


class OllamaModel:
    """One model of one server.

    Args:
        model: The name that the server knows it by, such as "qwen3:8b".
        base_url: Without a path; "/v1" and "/api" do no harm.
        api_key: None sends "none", which is enough for a server without keys.
        profile: The provider's quirks.
        name: Shown where a model's name is shown, such as "ollama-native:qwen3:8b".
        headers: Sent besides the key.
        recover_calls: Take a reply that is nothing but a tool call written as text for that call.
        retry: How often and how long a failed call is tried again.
        timeouts: None: longer ones for a server on this machine.

    Raises:
        SettingsError: The base URL or the key can't be used.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "http://localhost:11434",
        api_key: str | Secret | None = None,
        profile: Profile = NATIVE,
        name: str | None = None,
        *,
        headers: Mapping[str, str | Secret] | None = None,
        recover_calls: bool = True,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.model = model
        self.name = name or f"{profile.name}:{model}"
        self.profile = profile
        self.recover_calls = recover_calls
        endpoint = Endpoint(_root(base_url), PATH, {**_key_header(api_key, profile), **(headers or {})})
        local = profile.local or endpoint.is_local
        self.transport = Transport(endpoint, retry or Retry(), timeouts or (_LOCAL_TIMEOUTS if local else Timeouts()))
        self._encoding = Encoding(f"ollama:{self.name}")
        self._head = b'{"model":' + encode_strictly(model) + b',"messages":['
        self._takes_schema = True
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def __repr__(self) -> str:
        return f"OllamaModel({self.name!r}, {self.transport.endpoint.base!r})"

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
                body, waits = await self.transport.call(sent.body(), partial(self._reader, on_delta), on_delta)
                break
            except WireError as error:
                change = self._adapt(error, request)
                if change is None:
                    raise self._advised(error)  # noqa: B904  # it is the same error
                notes = (*notes, *error.notes, change)
                if on_delta is not None:
                    on_delta(Delta("note", change))
        reply = self._read(body, request)
        seconds = self.transport.clock() - began
        return replace(reply, request=sent, seconds=seconds, notes=(*notes, *waits, *reply.notes))

    def sent(self, request: ModelRequest, streamed: bool = False) -> SentOllama:
        """What would be sent for this request, with `.json()`; no message is copied."""
        return SentOllama(request, self._encoding, self._head, self._tail(request, streamed))

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def _tail(self, request: ModelRequest, streamed: bool) -> bytes:
        """Everything that follows the messages. A stream is what this API does unless it is told not to."""
        tools = b',"tools":' + self._encoded_tools(request.specs) if request.specs else b""
        schema = request.schema if self._takes_schema else None
        more = {"stream": streamed, **wire_parameters(request.parameters, schema, self.profile)}
        return b"".join((b"]", tools, b",", encode_strictly(more)[1:]))

    def _encoded_tools(self, specs: tuple[ToolSpec, ...]) -> bytes:
        kept = self._tools
        if len(kept[0]) != len(specs) or any(a is not b for a, b in zip(kept[0], specs, strict=True)):
            kept = self._tools = (specs, encode_tools(specs, None))
        return kept[1]

    def _adapt(self, error: WireError, request: ModelRequest) -> str | None:
        """Leave out what the server does not take; in words, or None when nothing can be changed."""
        if request.schema is None or not self._takes_schema or not error.names("format", "schema", "grammar"):
            return None
        self._takes_schema = False
        return "asked again without the schema: the server does not take it"

    def _advised(self, error: WireError) -> WireError:
        """A model that is not there can be fetched."""
        if error.kind == "not_found" and "model" in error.message:
            error.remedy = f"Fetch it first: ollama pull {self.model}"
        return error

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _reader(self, on_delta: OnDelta | None) -> OllamaReader:
        return OllamaReader(self.transport.endpoint.target, on_delta, self.profile.think_tags)

    def _read(self, body: Body, request: ModelRequest) -> ModelReply:
        """The reply in a body."""
        message: dict[str, Any] = body["message"]
        text, reasoning = _text(message, "content"), _text(message, "thinking")
        if self.profile.think_tags and not reasoning:
            reasoning, text = think_tags.split(text)
        calls = tuple(read_call(call) for call in dicts_in(message.get("tool_calls")))
        recovered: tuple[ToolCall, ...] = ()
        if self.recover_calls and not calls:
            recovered = recover(text, {spec.name for spec in request.specs})
        cut = body.get("done_reason") == "length"
        usage = read_usage(body)
        return ModelReply(
            text="" if recovered else text,
            calls=unique_ids(calls or recovered, f"{INVENTED}_{request.end}"),
            reasoning=reasoning,
            finish="length" if cut else "tool_calls" if calls or recovered else "stop",
            usage=usage,
            cost=price(self.model, usage, self.profile.prices) if self.profile.prices else None,
            raw=message,
            origin="" if recovered else self._encoding.origin,
            model=self.name,
            answered_as=clean(word(body.get("model"))),
            notes=(NOTE,) if recovered else (),
        )


def _root(base_url: str) -> str:
    """The address without the path of an API; a query stays at the end."""
    address, mark, query = base_url.strip().partition("?")
    return _PASTED.sub("", address.rstrip("/")) + mark + query


def _text(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    return clean(value) if isinstance(value, str) else ""


def read_usage(body: Mapping[str, Any]) -> Usage | None:
    """The counts of the last line; the prompt's is missing when all of it was cached, and stays unknown then."""
    input, output = _count(body, "prompt_eval_count"), _count(body, "eval_count")
    if input is None and output is None:
        return None
    read = None if input is None else 0
    return Usage(input, output, read, read, None if output is None else 0)
