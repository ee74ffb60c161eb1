"""Models that speak Anthropic Messages: Claude, and the servers that are compatible with it.

    ModelRequest ──SentMessages (anthropic_wire)──▶ bytes ──Transport──▶ bytes ──Reader──▶ body ──▶ ModelReply

The reply's content blocks are kept as they came and go back unchanged. A turn that the provider pauses is sent back and
goes on, so that one reply is the whole turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from agentnb.core.model import Delta, ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError
from agentnb.models.anthropic_assembly import MessageAssembly
from agentnb.models.anthropic_parameters import wire_parameters
from agentnb.models.anthropic_turn import Turn, read_call, reasoning_in, text_in
from agentnb.models.anthropic_wire import Encoding, SentMessages, encode_tools
from agentnb.models.chat_assembly import word
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.endpoint import Endpoint
from agentnb.models.event_reader import Body, Reader
from agentnb.models.http_model import HttpModel
from agentnb.models.profiles import Profile
from agentnb.models.retry import Way
from agentnb.settings import Secret
from agentnb.text import clean

VERSION = "2023-06-01"
"""The version of the API that every server takes; later ones refuse sampling parameters."""
_STREAMED_FROM = 21_333
"""A longer reply is always streamed: in one piece it could take longer than servers allow."""
_FINISHES = {"max_tokens": "length", "pause_turn": "length", "refusal": "refusal", "sensitive": "content_filter"}


class AnthropicModel(HttpModel[Body]):
    """One model of one server; `base_url` has no version path, such as "https://api.anthropic.com" (it does no harm).

    Args:
        args: As of every HttpModel.
        version: The header `anthropic-version`.
        max_tokens: Sent when the request sets none, since the API requires it.
        headers: Sent besides the key.
        options: As of every HttpModel.
    """

    dialect = "anthropic"
    path = "/messages"
    home = "https://api.anthropic.com"
    compatible = Profile("anthropic-compatible", dialect="anthropic", key_header="x-api-key")
    form_fields = ("output_config", "output_format", "json_schema")

    def __init__(
        self,
        *args: Any,
        version: str = VERSION,
        max_tokens: int = 8192,
        headers: Mapping[str, str | Secret] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, headers={"anthropic-version": version, **(headers or {})}, **options)
        self.max_tokens = max_tokens
        self._encoding = Encoding(self.origin)
        self._head = b'{"model":' + encode_strictly(self.model) + b","

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Answer; whole, or streamed when there is someone to tell of the pieces.

        Raises:
            ModelError: No try brought a usable reply; its `request` is what was sent.
        """
        began = self.transport.clock()
        tell = on_delta or (_nobody if self._is_long(request) else None)
        turn, way, paused = Turn(), Way(), True
        while paused:
            make = partial(self.sent, begun=turn.blocks)
            try:
                sent, body = await self._ask(request, turn.telling(tell), way, make)
            except ModelError as error:
                error.partial = text_in(turn.blocks) + error.partial
                raise
            way.notes += turn.add(body)
            paused = turn.paused
        return self._finished(lambda: self._completed(self._turned(turn, body), request), sent, way, began)

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def sent(
        self, request: ModelRequest, streamed: bool = False, begun: tuple[dict[str, Any], ...] = ()
    ) -> SentMessages:
        """What would be sent for this request, with `.json()`; no message is copied.

        Args:
            request: What is asked.
            streamed: Whether the answer is to come in pieces.
            begun: Content blocks of a turn that the provider paused.
        """
        return SentMessages(
            request, self._encoding, self._head, self._tail(request, streamed), begun, curl=self._curl(streamed)
        )

    def _endpoint(self, base_url: str, headers: Mapping[str, str | Secret]) -> Endpoint:
        return Endpoint(_versioned(base_url), self.path, headers)

    def _encode_tools(self, specs: Sequence[ToolSpec]) -> bytes:
        return encode_tools(specs, self.strict)

    def _parameters(self, request: ModelRequest, streamed: bool) -> dict[str, Any]:
        more = wire_parameters(
            request.parameters, request.schema if self._form_of(request.schema) else None, self.profile
        )
        return {"max_tokens": self.max_tokens, **more, **({"stream": True} if streamed else {})}

    def _is_long(self, request: ModelRequest) -> bool:
        limit = self._parameters(request, False)["max_tokens"]
        return isinstance(limit, int) and limit > _STREAMED_FROM

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _reader(self, on_delta: OnDelta | None) -> Reader:
        return Reader(self.transport.endpoint.target, MessageAssembly, "content", on_delta)

    def _parsed(self, answer: Body) -> ModelReply:
        turn = Turn()
        turn.add(answer)
        return self._turned(turn, answer)

    def _turned(self, turn: Turn, body: Body) -> ModelReply:
        """The reply in a whole turn, of which this was the last answer.

        Raises:
            ModelError: The conversation did not fit the model's context window.
        """
        said, text = word(body.get("stop_reason")), clean(text_in(turn.blocks))
        if said == "model_context_window_exceeded":
            raise self._too_long(text)
        calls = tuple(read_call(block) for block in turn.blocks if block.get("type") == "tool_use")
        finish = _FINISHES.get(said) or ("tool_calls" if calls else "stop")
        return ModelReply(
            text,
            calls,
            clean(reasoning_in(turn.blocks)),
            finish,
            _refusal(body) if finish == "refusal" else None,
            turn.usage,
            raw={"role": "assistant", "content": list(turn.blocks)},
            answered_as=clean(word(body.get("model"))),
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
    root = address.rstrip("/").removesuffix(AnthropicModel.path).rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{root}/v1{mark}{query}"


def _refusal(body: Body) -> str | None:
    details = body.get("stop_details")
    said = details.get("explanation") if isinstance(details, Mapping) else None
    return clean(said) if isinstance(said, str) and said else None


def _nobody(delta: Delta) -> None:
    """Nobody waits for the pieces."""
