"""Models that speak Gemini's own API (generateContent).

    ModelRequest ──SentGemini (gemini_wire)──▶ bytes ──Transport──▶ bytes ──GeminiReader──▶ body ──▶ ModelReply

The model's name and the wish for a stream stand in the address. The parts of a reply are kept as they came and go back
unchanged, each with its signature.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from agentnb.core.messages import ToolCall, Usage, unique_ids
from agentnb.core.model import Delta, ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.models.anthropic_events import Body
from agentnb.models.chat_assembly import word
from agentnb.models.chat_completions import _LOCAL_TIMEOUTS, _key_header
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.endpoint import Endpoint
from agentnb.models.gemini_assembly import GeminiReader, candidate_in, parts_in
from agentnb.models.gemini_parameters import wire_parameters
from agentnb.models.gemini_reply import (
    UNSIGNED,
    broken_call,
    calls_in,
    finish_of,
    read_usage,
    reasoning_in,
    refusal_in,
    text_in,
)
from agentnb.models.gemini_wire import INVENTED, Encoding, SentGemini, encode_tools
from agentnb.models.http_errors import WireError, unreadable
from agentnb.models.prices import price
from agentnb.models.profiles import Profile
from agentnb.models.recovered import NOTE, recover
from agentnb.models.transport import Retry, Timeouts, Transport
from agentnb.settings import Secret
from agentnb.text import clean

VERSION = "/v1beta"
"""The version path where the base URL has none."""
NATIVE = Profile("gemini-native", dialect="gemini", key_header="x-goog-api-key", think_tags=False)
ASKED_AGAIN = "asked again: the provider could not read the model's call"
_VERSIONED = re.compile(r"/v\d\w*$")
_PASTED = re.compile(r"/models(/[^/]*)?$|/openai$")
_SCHEMA_FIELDS = ("response_json_schema", "responseJsonSchema", "response_schema", "responseSchema")
_FORMAT_FIELDS = ("response mime type", "response_mime_type", "responseMimeType", *_SCHEMA_FIELDS)


class GeminiModel:
    """One model of one server.

    Args:
        model: The name that the server knows it by, with or without "models/".
        base_url: With or without the version path.
        api_key: None sends "none", which is enough for a server without keys.
        profile: The provider's quirks.
        name: Shown where a model's name is shown, such as "google:gemini-3-flash".
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
        base_url: str = "https://generativelanguage.googleapis.com/v1beta",
        api_key: str | Secret | None = None,
        profile: Profile = NATIVE,
        name: str | None = None,
        *,
        headers: Mapping[str, str | Secret] | None = None,
        recover_calls: bool = True,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.model = model.removeprefix("models/")
        self.name = name or f"{profile.name}:{model}"
        self.profile = profile
        self.recover_calls = recover_calls
        sent = {**_key_header(api_key, profile), **(headers or {})}
        path = "/" + (self.model if "/" in self.model else f"models/{self.model}")
        endpoint = Endpoint(_address(base_url), f"{path}:generateContent", sent)
        self._streaming = Endpoint(_address(base_url, "alt=sse"), f"{path}:streamGenerateContent", sent)
        local = profile.local or endpoint.is_local
        self.transport = Transport(endpoint, retry or Retry(), timeouts or (_LOCAL_TIMEOUTS if local else Timeouts()))
        self._encoding = Encoding(f"gemini:{self.name}")
        self._without_schema: frozenset[bool] = frozenset()
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def __repr__(self) -> str:
        return f"GeminiModel({self.name!r}, {self.transport.endpoint.base!r})"

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Answer; whole, or streamed when there is someone to tell of the pieces.

        Raises:
            ModelError: No try brought a usable reply.
        """
        began = self.transport.clock()
        transport = self.transport if on_delta is None else replace(self.transport, endpoint=self._streaming)
        notes: tuple[str, ...] = ()
        before: Usage | None = None
        while True:
            sent = self.sent(request)
            try:
                body, waits = await transport.call(sent.body(), partial(self._reader, on_delta), on_delta)
            except WireError as error:
                change, waits = self._adapt(error, request), error.notes
                if change is None:
                    raise
            else:
                change = self._unread(body, before)
                if change is None:
                    break
                before = read_usage(body.get("usageMetadata")) or Usage()
            notes = (*notes, *waits, change)
            if on_delta is not None:
                on_delta(Delta("restart"))
                on_delta(Delta("note", change))
        reply = self._read(body, request, before)
        seconds = self.transport.clock() - began
        return replace(reply, request=sent, seconds=seconds, notes=(*notes, *waits, *reply.notes))

    def sent(self, request: ModelRequest, streamed: bool = False) -> SentGemini:
        """What would be sent for this request, with `.json()`, streamed or not; no message is copied."""
        return SentGemini(request, self._encoding, self._tail(request))

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def _tail(self, request: ModelRequest) -> bytes:
        """Everything that follows the messages: tools as encoded before, then what was set."""
        schema = None if bool(request.specs) in self._without_schema else request.schema
        more = wire_parameters(request.parameters, schema, self.profile)
        others = more.pop("tools", ())
        tools = [self._encoded_tools(request.specs)] if request.specs else []
        tools += [encode_strictly(tool) for tool in (others if isinstance(others, list | tuple) else [others])]
        parts = [b',"tools":[', b",".join(tools), b"]"] if tools else []
        if more:
            parts += (b",", encode_strictly(more)[1:-1])
        return b"".join((*parts, b"}"))

    def _encoded_tools(self, specs: tuple[ToolSpec, ...]) -> bytes:
        kept = self._tools
        if len(kept[0]) != len(specs) or any(a is not b for a, b in zip(kept[0], specs, strict=True)):
            kept = self._tools = (specs, encode_tools(specs))
        return kept[1]

    def _adapt(self, error: WireError, request: ModelRequest) -> str | None:
        """Leave out what the server refuses, add what it misses; in words, or None when nothing can be changed."""
        with_tools = bool(request.specs)
        if not self._encoding.signs and error.names("thought_signature", "thoughtSignature", "thought signature"):
            return self._sign()
        if request.schema is not None and with_tools not in self._without_schema and error.names(*_FORMAT_FIELDS):
            self._without_schema |= {with_tools}
            return "asked again without the schema: the server does not take it" + (" beside tools" * with_tools)
        return None

    def _unread(self, body: Body, before: Usage | None) -> str | None:
        """A call that the provider could not read is asked for once more; in words, or None when all is well."""
        broken = broken_call(body)
        if not broken or before is not None:
            return None
        if candidate_in(body).get("finishReason") == UNSIGNED and not self._encoding.signs:
            return self._sign()
        return f"{ASKED_AGAIN} {broken[:120]!r}"

    def _sign(self) -> str:
        self._encoding = replace(self._encoding, signs=True)
        return "asked again with a signature that stands for any: another model made some of the calls"

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _reader(self, on_delta: OnDelta | None) -> GeminiReader:
        endpoint = self.transport.endpoint if on_delta is None else self._streaming
        return GeminiReader(endpoint.target, on_delta)

    def _read(self, body: Body, request: ModelRequest, before: Usage | None = None) -> ModelReply:
        """The reply in a body.

        Args:
            body: A whole answer.
            request: What it answers.
            before: The tokens of an answer that could not be used.

        Raises:
            ModelError: The provider could not read the model's call.
        """
        if broken := broken_call(body):
            raise unreadable(
                self.transport.endpoint.target,
                "with a call that the provider itself could not take",
                broken,
                remedy="Ask again, or in other words; simpler parameters of the tools help.",
            )
        text, calls = text_in(body), calls_in(body)
        recovered: tuple[ToolCall, ...] = ()
        if self.recover_calls and not calls:
            recovered = recover(text, {spec.name for spec in request.specs})
        finish = finish_of(body, bool(calls or recovered))
        if finish in ("refusal", "content_filter"):
            calls = recovered = ()
        usage = read_usage(body.get("usageMetadata"))
        usage = usage if before is None else before.plus(usage)
        return ModelReply(
            text="" if recovered else text,
            calls=unique_ids(calls or recovered, f"{INVENTED}_{request.end}"),
            reasoning=reasoning_in(body),
            finish=finish,
            refusal=refusal_in(body),
            usage=usage,
            cost=price(self.model, usage, self.profile.prices) if self.profile.prices else None,
            raw={"role": "model", "parts": parts_in(body)},
            origin="" if recovered else self._encoding.origin,
            model=self.name,
            answered_as=clean(word(body.get("modelVersion"))),
            notes=(NOTE,) if recovered else (),
        )


def _address(base_url: str, wish: str = "") -> str:
    """The base URL with the version path, whatever else was pasted; a query stays at the end, before the wish."""
    address, _, query = base_url.strip().partition("?")
    root = _PASTED.sub("", address.rstrip("/"))
    query = "&".join(filter(None, (query, wish)))
    return root + ("" if _VERSIONED.search(root) else VERSION) + (f"?{query}" if query else "")
