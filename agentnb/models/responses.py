"""Models that speak OpenAI Responses, where OpenAI's reasoning models keep their reasoning across tool calls.

    ModelRequest ──SentResponses (responses_wire)──▶ bytes ──Transport──▶ bytes ──Reader──▶ body ──▶ ModelReply

The exchange is stateless: nothing is stored at the provider, and the items of its output, encrypted reasoning included,
are kept as they came and go back unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentnb.core.model import ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.models.chat_assembly import dicts_in, word
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.event_reader import Body, Reader
from agentnb.models.http_errors import WireError, unreadable
from agentnb.models.http_model import HttpModel
from agentnb.models.prices import told_cost
from agentnb.models.profiles import Profile
from agentnb.models.responses_assembly import ResponseAssembly
from agentnb.models.responses_items import read_calls, reasoning_in, refusal_in, text_in
from agentnb.models.responses_parameters import STATELESS, wire_parameters
from agentnb.models.responses_wire import Encoding, SentResponses, encode_tools
from agentnb.models.usage import read_usage
from agentnb.text import clean

_INCLUDES = ("'include'", "encrypted", "Encrypted", "encrypted_content")


class ResponsesModel(HttpModel[Body]):
    """One model of one server; `base_url` has the version path, such as "https://api.openai.com/v1"."""

    dialect = "responses"
    path = "/responses"
    compatible = Profile("responses-compatible", dialect="responses")
    forms = ("json_schema", "json_object", "")
    form_fields = ("text.format", "response_format", "json_schema", "JSON schema")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._encoding = Encoding(self.origin, self.profile.system_role)
        self._head = b'{"model":' + encode_strictly(self.model) + b","
        self._includes = True

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def sent(self, request: ModelRequest, streamed: bool = False) -> SentResponses:
        """What would be sent for this request, with `.json()`; no message is copied."""
        return SentResponses(
            request, self._encoding, self._head, self._tail(request, streamed), curl=self._curl(streamed)
        )

    def _encode_tools(self, specs: Sequence[ToolSpec]) -> bytes:
        return encode_tools(specs, self.strict)

    def _parameters(self, request: ModelRequest, streamed: bool) -> dict[str, Any]:
        added = dict(STATELESS)
        if not self._includes:
            del added["include"]
        more = wire_parameters(request.parameters, self._text_format(request.schema), self.profile)
        return {**added, **more, **({"stream": True} if streamed else {})}

    def _text_format(self, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
        form = self._form_of(schema)
        if schema is None or not form:
            return None
        if form == "json_object":
            return {"type": "json_object"}
        described = {"type": "json_schema", "name": "reply", "schema": schema}
        return described if self.strict is None else {**described, "strict": self.strict}

    def _adapt(self, error: WireError, request: ModelRequest, notes: Sequence[str]) -> str | None:
        if not self._encoding.typed and error.names("type of 'item'", "output_text"):
            self._encoding = replace(self._encoding, typed=True)
            return "asked again with typed messages: the server takes no plain text of the assistant"
        if self._includes and "include" not in request.parameters and _names_include(error):
            self._includes = False
            return "asked again without encrypted reasoning: the model has none"
        return super()._adapt(error, request, notes)

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _reader(self, on_delta: OnDelta | None) -> Reader:
        return Reader(self.transport.endpoint.target, ResponseAssembly, "output", on_delta)

    def _parsed(self, answer: Body) -> ModelReply:
        items = dicts_in(answer["output"])
        calls, refusal = read_calls(items), refusal_in(items)
        return ModelReply(
            clean(text_in(items)),
            calls,
            clean(reasoning_in(items)),
            self._finish(answer, bool(calls), refusal is not None),
            None if refusal is None else clean(refusal),
            read_usage(answer.get("usage"), "input_tokens", "output_tokens"),
            told_cost(answer.get("usage")),
            {"output": items},
            answered_as=clean(word(answer.get("model"))),
        )

    def _finish(self, body: Body, has_calls: bool, refused: bool) -> str:
        """What the response holds decides; only a cut and a filter are taken from the server's word.

        Raises:
            ModelError: The response failed, was cancelled, or is not there yet.
        """
        status = body.get("status")
        if status in ("failed", "cancelled", "queued", "in_progress"):
            raise unreadable(self.transport.endpoint.target, f"with a response that is {status}", "")
        if status == "incomplete":
            details = body.get("incomplete_details")
            filtered = isinstance(details, Mapping) and details.get("reason") == "content_filter"
            return "content_filter" if filtered else "length"
        if has_calls:
            return "tool_calls"
        return "refusal" if refused else "stop"


def _names_include(error: WireError) -> bool:
    """Whether the server complains of the `include`; the word alone may stand in any message."""
    return error.kind == "bad_request" and (error.param.startswith("include") or error.names(*_INCLUDES))
