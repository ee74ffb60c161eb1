"""Models that speak Ollama's own API (/api/chat): options such as num_ctx, and thinking, are found only there.

ModelRequest ──SentOllama (ollama_wire)──▶ bytes ──Transport──▶ bytes ──OllamaReader──▶ body ──▶ ModelReply
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentnb.core.messages import Usage
from agentnb.core.model import ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.models import think_tags
from agentnb.models.chat_assembly import dicts_in, word
from agentnb.models.chat_completions import read_call
from agentnb.models.chat_wire import encode_strictly, encode_tools
from agentnb.models.endpoint import Endpoint
from agentnb.models.event_reader import Body
from agentnb.models.http_errors import WireError
from agentnb.models.http_model import HttpModel
from agentnb.models.ollama_assembly import OllamaReader
from agentnb.models.ollama_parameters import wire_parameters
from agentnb.models.ollama_wire import INVENTED, Encoding, SentOllama
from agentnb.models.profiles import Profile
from agentnb.models.usage import count
from agentnb.settings import Secret
from agentnb.text import clean

_PASTED = re.compile(r"/(v1(/chat/completions)?|api(/\w+)?)$")


class OllamaModel(HttpModel[Body]):
    """One model of one server; `base_url` has no path ("/v1" and "/api" do no harm)."""

    dialect = "ollama"
    path = "/api/chat"
    opened = b"]"
    home = "http://localhost:11434"
    compatible = Profile("ollama-native", dialect="ollama")
    invented = INVENTED
    form_fields = ("format", "grammar")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._encoding = Encoding(self.origin)
        self._head = b'{"model":' + encode_strictly(self.model) + b',"messages":['

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def sent(self, request: ModelRequest, streamed: bool = False) -> SentOllama:
        """What would be sent for this request, with `.json()`; no message is copied."""
        return SentOllama(request, self._encoding, self._head, self._tail(request, streamed), curl=self._curl(streamed))

    def _endpoint(self, base_url: str, headers: Mapping[str, str | Secret]) -> Endpoint:
        return Endpoint(_root(base_url), self.path, headers)

    def _parameters(self, request: ModelRequest, streamed: bool) -> dict[str, Any]:
        """A stream is what this API does unless it is told not to."""
        schema = request.schema if self._form_of(request.schema) else None
        return {"stream": streamed, **wire_parameters(request.parameters, schema, self.profile)}

    def _encode_tools(self, specs: Sequence[ToolSpec]) -> bytes:
        return encode_tools(specs, None)

    def _adapt(self, error: WireError, request: ModelRequest, notes: Sequence[str]) -> str | None:
        if error.kind == "not_found" and "model" in error.message:
            error.remedy = f"Fetch it first: ollama pull {self.model}"
        return super()._adapt(error, request, notes)

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _reader(self, on_delta: OnDelta | None) -> OllamaReader:
        return OllamaReader(self.transport.endpoint.target, on_delta, self.profile.think_tags)

    def _parsed(self, answer: Body) -> ModelReply:
        message: dict[str, Any] = answer["message"]
        text, reasoning = _text(message, "content"), _text(message, "thinking")
        if self.profile.think_tags and not reasoning:
            reasoning, text = think_tags.split(text)
        calls = tuple(read_call(call) for call in dicts_in(message.get("tool_calls")))
        cut = answer.get("done_reason") == "length"
        return ModelReply(
            text,
            calls,
            reasoning,
            "length" if cut else "tool_calls" if calls else "stop",
            usage=read_usage(answer),
            raw=message,
            answered_as=clean(word(answer.get("model"))),
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
    input, output = count(body, "prompt_eval_count"), count(body, "eval_count")
    if input is None and output is None:
        return None
    read = None if input is None else 0
    return Usage(input, output, read, read, None if output is None else 0)
