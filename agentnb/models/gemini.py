"""Models that speak Gemini's own API (generateContent).

    ModelRequest ──SentGemini (gemini_wire)──▶ bytes ──Transport──▶ bytes ──GeminiReader──▶ body ──▶ ModelReply

The model's name and the wish for a stream stand in the address. The parts of a reply are kept as they came and go back
unchanged, each with its signature.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agentnb.core.messages import Usage
from agentnb.core.model import ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.models.chat_assembly import word
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.endpoint import Endpoint
from agentnb.models.event_reader import Body
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
from agentnb.models.http_model import HttpModel
from agentnb.models.profiles import Profile
from agentnb.models.retry import Way, announce
from agentnb.models.transport import Transport
from agentnb.settings import Secret
from agentnb.text import clean

VERSION = "/v1beta"
"""The version path where the base URL has none."""
ASKED_AGAIN = "asked again: the provider could not read the model's call"
_VERSIONED = re.compile(r"/v\d\w*$")
_PASTED = re.compile(r"/models(/[^/]*)?$|/openai$")
_SCHEMA_FIELDS = ("response_json_schema", "responseJsonSchema", "response_schema", "responseSchema")


class GeminiModel(HttpModel[Body]):
    """One model of one server; its name has "models/" before it or not, `base_url` the version path or not."""

    dialect = "gemini"
    path = ":generateContent"
    home = "https://generativelanguage.googleapis.com/v1beta"
    compatible = Profile("gemini-native", dialect="gemini", key_header="x-goog-api-key", think_tags=False)
    invented = INVENTED
    form_fields = ("response mime type", "response_mime_type", "responseMimeType", *_SCHEMA_FIELDS)

    def __init__(self, model: str, *args: Any, **options: Any) -> None:
        super().__init__(model.removeprefix("models/"), *args, **options)
        self._encoding = Encoding(self.origin)
        self._without_schema: frozenset[bool] = frozenset()

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Answer; whole, or streamed when there is someone to tell of the pieces.

        Raises:
            ModelError: No try brought a usable reply; its `request` is what was sent.
        """
        began, before, way = self.transport.clock(), None, Way()
        sent, body = await self._ask(request, on_delta, way)
        if (change := self._unread(body)) is not None:
            before = read_usage(body.get("usageMetadata")) or Usage()
            if on_delta is not None:
                announce(on_delta, change, shown=True)
            way.notes.append(change)
            sent, body = await self._ask(request, on_delta, way)
        return self._finished(partial(self._read, body, request, before), sent, way, began)

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def sent(self, request: ModelRequest, streamed: bool = False) -> SentGemini:
        """What would be sent for this request, with `.json()`, streamed or not; no message is copied."""
        return SentGemini(
            request, self._encoding, b'{"contents":[', self._tail(request, streamed), curl=self._curl(streamed)
        )

    def _endpoint(self, base_url: str, headers: Mapping[str, str | Secret]) -> Endpoint:
        path = "/" + (self.model if "/" in self.model else f"models/{self.model}")
        self._streaming = Endpoint(_address(base_url, "alt=sse"), f"{path}:streamGenerateContent", headers)
        return Endpoint(_address(base_url), path + self.path, headers)

    def _transport(self, streamed: bool) -> Transport:
        return replace(self.transport, endpoint=self._streaming) if streamed else self.transport

    def _tail(self, request: ModelRequest, streamed: bool) -> bytes:
        """Everything that follows the messages: our tools as encoded before, the user's beside them, what was set."""
        more = self._parameters(request, streamed)
        others = more.pop("tools", ())
        tools = [self._encoded_tools(request.specs)] if request.specs else []
        tools += [encode_strictly(tool) for tool in (others if isinstance(others, list | tuple) else [others])]
        parts = [b',"tools":[', b",".join(tools), b"]"] if tools else []
        return b"".join((*parts, b"," + encode_strictly(more)[1:] if more else b"}"))

    def _parameters(self, request: ModelRequest, streamed: bool) -> dict[str, Any]:
        schema = None if bool(request.specs) in self._without_schema else request.schema
        return wire_parameters(request.parameters, schema, self.profile)

    def _encode_tools(self, specs: Sequence[ToolSpec]) -> bytes:
        return encode_tools(specs)

    def _adapt(self, error: WireError, request: ModelRequest, notes: Sequence[str]) -> str | None:
        with_tools = bool(request.specs)
        if not self._encoding.signs and error.names("thought_signature", "thoughtSignature", "thought signature"):
            return self._sign()
        if request.schema is not None and with_tools not in self._without_schema and error.names(*self.form_fields):
            self._without_schema |= {with_tools}
            return "asked again without the schema: the server does not take it" + (" beside tools" * with_tools)
        return None

    def _unread(self, body: Body) -> str | None:
        """A call that the provider could not read is asked for once more; in words, or None when all is well."""
        broken = broken_call(body)
        if not broken:
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

    def _read(self, answer: Body, request: ModelRequest, before: Usage | None = None) -> ModelReply:
        """The reply in a body.

        Args:
            answer: A whole answer.
            request: What it answers.
            before: The tokens of an answer that could not be used.
        """
        said = self._parsed(answer)
        usage = said.usage if before is None else before.plus(said.usage)
        return self._completed(replace(said, usage=usage), request)

    def _parsed(self, answer: Body) -> ModelReply:
        if broken := broken_call(answer):
            raise unreadable(
                self.transport.endpoint.target,
                "with a call that the provider itself could not take",
                broken,
                remedy="Ask again, or in other words; simpler parameters of the tools help.",
            )
        calls = calls_in(answer)
        return ModelReply(
            text_in(answer),
            calls,
            reasoning_in(answer),
            finish_of(answer, bool(calls)),
            refusal_in(answer),
            read_usage(answer.get("usageMetadata")),
            raw={"role": "model", "parts": parts_in(answer)},
            answered_as=clean(word(answer.get("modelVersion"))),
        )


def _address(base_url: str, wish: str = "") -> str:
    """The base URL with the version path, whatever else was pasted; a query stays at the end, before the wish."""
    address, _, query = base_url.strip().partition("?")
    root = _PASTED.sub("", address.rstrip("/"))
    query = "&".join(filter(None, (query, wish)))
    return root + ("" if _VERSIONED.search(root) else VERSION) + (f"?{query}" if query else "")
