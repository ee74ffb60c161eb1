"""Models that speak OpenAI Responses, where OpenAI's reasoning models keep their reasoning across tool calls.

    ModelRequest ──SentResponses (responses_wire)──▶ bytes ──Transport──▶ bytes ──Reader──▶ body ──▶ ModelReply

The exchange is stateless: nothing is stored at the provider, and the items of its output, encrypted reasoning included,
are kept as they came and go back unchanged. What a server turns out not to take is left out on the next try and
remembered by the model object.
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
from agentnb.models.anthropic_events import Body, Reader
from agentnb.models.chat_assembly import dicts_in, word
from agentnb.models.chat_completions import _FORMATS, _LOCAL_TIMEOUTS, _key_header
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.endpoint import Endpoint
from agentnb.models.http_errors import WireError, unreadable
from agentnb.models.prices import price
from agentnb.models.profiles import Profile
from agentnb.models.recovered import NOTE, recover
from agentnb.models.responses_assembly import ResponseAssembly
from agentnb.models.responses_items import read_calls, read_usage, reasoning_in, refusal_in, text_in
from agentnb.models.responses_parameters import STATELESS, wire_parameters
from agentnb.models.responses_wire import Encoding, SentResponses, encode_tools
from agentnb.models.transport import Retry, Timeouts, Transport
from agentnb.settings import Secret
from agentnb.text import clean

PATH = "/responses"
COMPATIBLE = Profile("responses-compatible", dialect="responses")


@dataclass(slots=True)
class Learned:
    """What a server was found not to take; only ever set, so that threads may share it."""

    format: str
    """The best text format that is left: "json_schema", "json_object" or ""."""
    includes: bool = True
    """Takes the `include` of encrypted reasoning; models that do not reason may refuse it."""


class ResponsesModel:
    """One model of one server.

    Args:
        model: The name that the server knows it by.
        base_url: With the version path, such as "https://api.openai.com/v1".
        api_key: None sends "none", which is enough for a server without keys.
        profile: The provider's quirks.
        name: Shown where a model's name is shown, such as "openai-responses:gpt-5-mini".
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
        self._encoding = Encoding(f"responses:{self.name}", profile.system_role)
        self._head = b'{"model":' + encode_strictly(model) + b","
        self._learned = Learned(profile.schema_form)
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def __repr__(self) -> str:
        return f"ResponsesModel({self.name!r}, {self.transport.endpoint.base!r})"

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
            except WireError as error:
                change = self._adapt(error, request)
                if change is None:
                    raise
                notes = (*notes, *error.notes, change)
                if on_delta is not None:
                    on_delta(Delta("note", change))
                continue
            reply = self._read(body, request)
            seconds = self.transport.clock() - began
            return replace(reply, request=sent, seconds=seconds, notes=(*notes, *waits, *reply.notes))

    def sent(self, request: ModelRequest, streamed: bool = False) -> SentResponses:
        """What would be sent for this request, with `.json()`; no message is copied."""
        return SentResponses(request, self._encoding, self._head, self._tail(request, streamed))

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def _tail(self, request: ModelRequest, streamed: bool) -> bytes:
        """Everything that follows the input: tools as encoded before, then what was set."""
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
        added = dict(STATELESS)
        if not self._learned.includes:
            del added["include"]
        return {**added, **wire_parameters(request.parameters, self._text_format(request.schema), self.profile)}

    def _text_format(self, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if schema is None or not self._learned.format:
            return None
        if self._learned.format == "json_object":
            return {"type": "json_object"}
        described = {"type": "json_schema", "name": "reply", "schema": schema}
        return described if self.strict is None else {**described, "strict": self.strict}

    def _adapt(self, error: WireError, request: ModelRequest) -> str | None:
        """Leave out what the server does not take; in words, or None when nothing can be changed."""
        learned = self._learned
        if not self._encoding.typed and error.names("type of 'item'", "output_text"):
            self._encoding = replace(self._encoding, typed=True)
            return "asked again with typed messages: the server takes no plain text of the assistant"
        if learned.includes and "include" not in request.parameters and _names_include(error):
            learned.includes = False
            return "asked again without encrypted reasoning: the model has none"
        if request.schema is not None and learned.format and error.names("text.format", "json_schema", "schema"):
            learned.format = _FORMATS[_FORMATS.index(learned.format) + 1]
            return f"asked again with {learned.format or 'no text format'}: the server does not take the schema"
        return None

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _reader(self, on_delta: OnDelta | None) -> Reader:
        return Reader(self.transport.endpoint.target, ResponseAssembly, "output", on_delta)

    def _read(self, body: Body, request: ModelRequest) -> ModelReply:
        """The reply in a response, however that came.

        Raises:
            ModelError: The response failed, was cancelled, or is not there yet.
        """
        items = dicts_in(body["output"])
        text, refusal, usage = clean(text_in(items)), refusal_in(items), read_usage(body.get("usage"))
        calls = read_calls(items)
        recovered: tuple[ToolCall, ...] = ()
        if self.recover_calls and not calls:
            recovered = recover(text, {spec.name for spec in request.specs})
        finish = self._finish(body, bool(calls or recovered), refusal is not None)
        if finish == "content_filter":
            calls = recovered = ()
        return ModelReply(
            text="" if recovered else text,
            calls=unique_ids(calls or recovered, f"call_{request.end}"),
            reasoning=clean(reasoning_in(items)),
            finish=finish,
            refusal=None if refusal is None else clean(refusal),
            usage=usage,
            cost=self._cost(body, usage),
            raw={"output": items},
            origin="" if recovered else self._encoding.origin,
            model=self.name,
            answered_as=clean(word(body.get("model"))),
            notes=(NOTE,) if recovered else (),
        )

    def _finish(self, body: Body, has_calls: bool, refused: bool) -> str:
        """What the response holds decides; only a cut and a filter are taken from the server's word."""
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

    def _cost(self, body: Body, usage: Usage | None) -> float | None:
        """What the provider says; else the list price, where there is one."""
        said = body["usage"].get("cost") if isinstance(body.get("usage"), Mapping) else None
        if isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said):
            return float(said)
        return price(self.model, usage, self.profile.prices) if self.profile.prices else None


def _names_include(error: WireError) -> bool:
    """Whether the server complains of the `include`; the word alone may stand in any message."""
    return error.kind == "bad_request" and (error.param.startswith("include") or error.names("'include'", "ncrypted"))
