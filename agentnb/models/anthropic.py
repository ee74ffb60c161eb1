"""Models that speak Anthropic Messages: Claude, and the servers that are compatible with it.

    ModelRequest ──SentMessages (anthropic_wire)──▶ bytes ──Transport──▶ bytes ──Reader──▶ body ──▶ ModelReply

The reply's content blocks are kept as they came and go back unchanged. A turn that the provider pauses is sent back and
goes on, so that one reply is the whole turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agentnb.core.messages import ToolCall, unique_ids
from agentnb.core.model import Delta, ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError
from agentnb.models.anthropic_assembly import MessageAssembly
from agentnb.models.anthropic_events import Body, Reader
from agentnb.models.anthropic_parameters import wire_parameters
from agentnb.models.anthropic_turn import Turn, read_call, reasoning_in, text_in
from agentnb.models.anthropic_wire import Encoding, SentMessages, encode_tools
from agentnb.models.chat_assembly import word
from agentnb.models.chat_completions import _LOCAL_TIMEOUTS, _key_header
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.endpoint import Endpoint
from agentnb.models.http_errors import WireError
from agentnb.models.prices import price
from agentnb.models.profiles import Profile
from agentnb.models.recovered import NOTE, recover
from agentnb.models.transport import Retry, Timeouts, Transport
from agentnb.settings import Secret
from agentnb.text import clean

PATH = "/messages"
VERSION = "2023-06-01"
"""The version of the API that every server takes; later ones refuse sampling parameters."""
COMPATIBLE = Profile("anthropic-compatible", dialect="anthropic", key_header="x-api-key")
_STREAMED_FROM = 21_333
"""A longer reply is always streamed: in one piece it could take longer than servers allow."""
_FINISHES = {"max_tokens": "length", "pause_turn": "length", "refusal": "refusal", "sensitive": "content_filter"}


class AnthropicModel:
    """One model of one server.

    Args:
        model: The name that the server knows it by.
        base_url: Without the version path, such as "https://api.anthropic.com"; with it does no harm.
        api_key: None sends "none", which is enough for a server without keys.
        profile: The provider's quirks.
        name: Shown where a model's name is shown, such as "anthropic:claude-sonnet-4-5".
        headers: Sent besides the key.
        version: The header `anthropic-version`.
        max_tokens: Sent when the request sets none, since the API requires it.
        strict: Sent with each tool when set.
        recover_calls: Take a reply that is nothing but a tool call written as text for that call.
        retry: How often and how long a failed call is tried again.
        timeouts: None: longer ones for a server on this machine.

    Raises:
        SettingsError: The base URL or the key can't be used.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "https://api.anthropic.com",
        api_key: str | Secret | None = None,
        profile: Profile = COMPATIBLE,
        name: str | None = None,
        *,
        headers: Mapping[str, str | Secret] | None = None,
        version: str = VERSION,
        max_tokens: int = 8192,
        strict: bool | None = None,
        recover_calls: bool = True,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.model = model
        self.name = name or f"{profile.name}:{model}"
        self.profile = profile
        self.max_tokens = max_tokens
        self.strict = strict
        self.recover_calls = recover_calls
        sent = {**_key_header(api_key, profile), "anthropic-version": version, **(headers or {})}
        endpoint = Endpoint(_versioned(base_url), PATH, sent)
        local = profile.local or endpoint.is_local
        self.transport = Transport(endpoint, retry or Retry(), timeouts or (_LOCAL_TIMEOUTS if local else Timeouts()))
        self._encoding = Encoding(f"anthropic:{self.name}")
        self._head = b'{"model":' + encode_strictly(model) + b","
        self._takes_schema = True
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def __repr__(self) -> str:
        return f"AnthropicModel({self.name!r}, {self.transport.endpoint.base!r})"

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Answer; whole, or streamed when there is someone to tell of the pieces.

        Raises:
            ModelError: No try brought a usable reply.
        """
        began = self.transport.clock()
        tell = on_delta or (_nobody if self._is_long(request) else None)
        turn = Turn()
        while True:
            sent = self.sent(request, tell is not None, turn.blocks)
            try:
                body, waits = await self.transport.call(sent.body(), partial(self._reader, tell), turn.telling(tell))
            except ModelError as error:
                change = self._adapt(error, request)
                if change is None:
                    raise turn.failed(error)  # noqa: B904  # it is the same error
                turn.note(*error.notes, change)
                if tell is not None:
                    tell(Delta("note", change))
                continue
            turn.add(body, waits)
            if turn.paused:
                continue
            reply = self._read(turn, body, request)
            seconds = self.transport.clock() - began
            return replace(reply, request=sent, seconds=seconds, notes=(*turn.notes, *reply.notes))

    def sent(
        self, request: ModelRequest, streamed: bool = False, begun: tuple[dict[str, Any], ...] = ()
    ) -> SentMessages:
        """What would be sent for this request, with `.json()`; no message is copied.

        Args:
            request: What is asked.
            streamed: Whether the answer is to come in pieces.
            begun: Content blocks of a turn that the provider paused.
        """
        return SentMessages(request, self._encoding, self._head, self._tail(request, streamed), begun)

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def _tail(self, request: ModelRequest, streamed: bool) -> bytes:
        """Everything that follows the messages: tools as encoded before, then what was set."""
        tools = b',"tools":' + self._encoded_tools(request.specs) if request.specs else b""
        more = self._parameters(request)
        if streamed:
            more["stream"] = True
        return b"".join((tools, b",", encode_strictly(more)[1:]))

    def _encoded_tools(self, specs: tuple[ToolSpec, ...]) -> bytes:
        kept = self._tools
        if len(kept[0]) != len(specs) or any(a is not b for a, b in zip(kept[0], specs, strict=True)):
            kept = self._tools = (specs, encode_tools(specs, self.strict))
        return kept[1]

    def _parameters(self, request: ModelRequest) -> dict[str, Any]:
        schema = request.schema if self._takes_schema else None
        return {"max_tokens": self.max_tokens, **wire_parameters(request.parameters, schema, self.profile)}

    def _is_long(self, request: ModelRequest) -> bool:
        limit = self._parameters(request)["max_tokens"]
        return isinstance(limit, int) and limit > _STREAMED_FROM

    def _adapt(self, error: ModelError, request: ModelRequest) -> str | None:
        """Leave out what the server does not take; in words, or None when nothing can be changed."""
        refused = isinstance(error, WireError) and error.names("output_config", "output_format", "json_schema")
        if not refused or request.schema is None or not self._takes_schema:
            return None
        self._takes_schema = False
        return "asked again without the schema: the server does not take it"

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _reader(self, tell: OnDelta | None) -> Reader:
        return Reader(self.transport.endpoint.target, MessageAssembly, "content", tell)

    def _read(self, turn: Turn, body: Body, request: ModelRequest) -> ModelReply:
        """The reply in a whole turn.

        Raises:
            ModelError: The conversation did not fit the model's context window.
        """
        said = word(body.get("stop_reason"))
        text = clean(text_in(turn.blocks))
        if said == "model_context_window_exceeded":
            raise self._too_long(text)
        calls = tuple(read_call(block) for block in turn.blocks if block.get("type") == "tool_use")
        recovered: tuple[ToolCall, ...] = ()
        if self.recover_calls and not calls:
            recovered = recover(text, {spec.name for spec in request.specs})
        finish = _FINISHES.get(said) or ("tool_calls" if calls or recovered else "stop")
        if finish in ("refusal", "content_filter"):
            calls = recovered = ()
        return ModelReply(
            text="" if recovered else text,
            calls=unique_ids(calls or recovered, f"call_{request.end}"),
            reasoning=clean(reasoning_in(turn.blocks)),
            finish=finish,
            refusal=_refusal(body) if finish == "refusal" else None,
            usage=turn.usage,
            cost=price(self.model, turn.usage, self.profile.prices) if self.profile.prices else None,
            raw={"role": "assistant", "content": list(turn.blocks)},
            origin="" if recovered else self._encoding.origin,
            model=self.name,
            answered_as=clean(word(body.get("model"))),
            notes=(NOTE,) if recovered else (),
        )

    def _too_long(self, partial: str) -> ModelError:
        return ModelError(
            f"{self.transport.endpoint.target}: the reply reached the end of the model's context window",
            kind="context_too_long",
            status=200,
            partial=partial,
            remedy="Shorten the conversation, or take a model with a longer context.",
        )


def _versioned(base_url: str) -> str:
    """The address with the version path, whether or not it was written; a query stays at the end."""
    address, mark, query = base_url.strip().partition("?")
    root = address.rstrip("/").removesuffix(PATH).rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{root}/v1{mark}{query}"


def _refusal(body: Body) -> str | None:
    details = body.get("stop_details")
    said = details.get("explanation") if isinstance(details, Mapping) else None
    return clean(said) if isinstance(said, str) and said else None


def _nobody(delta: Delta) -> None:
    """Nobody waits for the pieces."""
