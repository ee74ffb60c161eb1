"""What every model over HTTP does: how it is made, and the way of one call.

    ModelRequest ──sent──▶ bytes ──Transport──▶ bytes ──reader──▶ answer ──parsed──▶ ModelReply
                     ▲                                    │
                     └── without what is not taken ◀── refused

A dialect is a subclass: it writes the request, reads the answer, and names what a server may not take. That is left out
on the next try and remembered by the model object.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from agentnb.core.messages import unique_ids
from agentnb.core.model import ModelReply, ModelRequest, OnDelta
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError, SettingsError
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.endpoint import Endpoint, key_header
from agentnb.models.http_errors import WireError
from agentnb.models.prices import price
from agentnb.models.profiles import Profile
from agentnb.models.recovered import NOTE, recover
from agentnb.models.retry import Retry, Way, announce
from agentnb.models.sent import Sent
from agentnb.models.transport import LOCAL_TIMEOUTS, Reader, Timeouts, Transport
from agentnb.settings import Secret

A = TypeVar("A")
"""What a dialect's reader makes of the bytes."""
_OF_ONE_SCHEMA = re.compile(r"invalid (?:json )?schema|\.schema\b|provided json schema", re.I)
"""The server takes schemas, but not this one."""
LEARNED = "asked again: another call found out what the server does not take"


class HttpModel(ABC, Generic[A]):
    """One model of one server.

    Args:
        model: The name that the server knows it by.
        base_url: Where the server is. None: the dialect's own provider, where it has one.
        api_key: None sends "none", which is enough for a server without keys.
        profile: The provider's quirks.
        name: Shown where a model's name is shown, such as "openai:gpt-5-mini".
        headers: Sent besides the key.
        strict: Sent with each tool and schema when set, where the dialect has a word for it.
        recover_calls: Take a reply that is nothing but a tool call written as text for that call.
        retry: How often and how long a failed call is tried again.
        timeouts: None: longer ones for a server on this machine.
        concurrency: Calls in flight at once, over all models of an event loop with this server and key. None: no bound.
        origin: Whose messages go back to this model as they came. None: those of this name at this server.

    Raises:
        SettingsError: The base URL, the key or the bound can't be used.
    """

    dialect: ClassVar[str]
    """Names the wire form; messages of one form and server go back to it unchanged."""
    path: ClassVar[str]
    home: ClassVar[str] = ""
    """The base URL where none is given."""
    compatible: ClassVar[Profile]
    """The profile where none is given."""
    opened: ClassVar[bytes] = b""
    """What closes the list of messages, where they are the last part of a request's head."""
    invented: ClassVar[str] = "call"
    """Begins the ids of calls that came without one."""
    forms: ClassVar[tuple[str, ...]] = ("json_schema", "")
    """How a reply's form can be asked for, the best first; "" asks for none."""
    form_fields: ClassVar[tuple[str, ...]] = ()
    """What a server names that does not take it."""

    has_address = True
    """False for a server that only this process can reach, so that nobody is told how to."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        profile: Profile | None = None,
        name: str | None = None,
        *,
        headers: Mapping[str, str | Secret] | None = None,
        strict: bool | None = None,
        recover_calls: bool = True,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
        concurrency: int | None = None,
        origin: str | None = None,
    ) -> None:
        self.profile = profile or self.compatible
        self.model = model
        self.name = name or f"{self.profile.name}:{model}"
        self.strict = strict
        self.recover_calls = recover_calls
        sent = {**key_header(api_key, self.profile.key_header), **(headers or {})}
        endpoint = self._endpoint(base_url or self.home, sent)
        if concurrency is not None and concurrency < 1:
            raise SettingsError(f"concurrency={concurrency!r}, expected 1 or more", remedy="Leave it out for no bound.")
        times = timeouts or (LOCAL_TIMEOUTS if self.profile.local or endpoint.is_local else Timeouts())
        self.transport = Transport(endpoint, retry or Retry(), times, concurrency)
        self.origin = origin or f"{self.dialect}:{self.name} at {endpoint.base}"
        self._form = self.profile.schema_form
        self._forms: tuple[tuple[Mapping[str, Any], str], ...] = ()
        """Schemas that the server itself can't take, and how these are asked for."""
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.transport.endpoint.base!r})"

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Answer; whole, or streamed when there is someone to tell of the pieces.

        Raises:
            ModelError: No try brought a usable reply; its `request` is what was sent.
        """
        began = self.transport.clock()
        way = Way()
        sent, answer = await self._ask(request, on_delta, way)
        return self._finished(partial(self._read, answer, request), sent, way, began)

    @abstractmethod
    def sent(self, request: ModelRequest, streamed: bool = False) -> Sent:
        """What would be sent for this request, with `.json()`; no message is copied."""

    # ── what a dialect adds ──────────────────────────────────────────────────────────────────────────────────────

    def _endpoint(self, base_url: str, headers: Mapping[str, str | Secret]) -> Endpoint:
        return Endpoint(base_url, self.path, headers, self.profile.usual_path)

    def _transport(self, streamed: bool) -> Transport:
        return self.transport

    def _curl(self, streamed: bool) -> str:
        return self._transport(streamed).endpoint.curl if self.has_address else ""

    @abstractmethod
    def _parameters(self, request: ModelRequest, streamed: bool) -> dict[str, Any]:
        """What was set, under the names and with the values of this provider, and what the dialect requires."""

    @abstractmethod
    def _encode_tools(self, specs: Sequence[ToolSpec]) -> bytes:
        """The tools as JSON."""

    @abstractmethod
    def _reader(self, on_delta: OnDelta | None) -> Reader[A]:
        """Reads one answer."""

    @abstractmethod
    def _parsed(self, answer: A) -> ModelReply:
        """What the answer holds: text, calls as they came, reasoning, finish, refusal, usage, raw, and the model."""

    def _adapt(self, error: WireError, request: ModelRequest, notes: Sequence[str]) -> str | None:
        """Leave out or rename what the server does not take; in words, or None when nothing can be changed.

        Args:
            error: What the server says.
            request: What was asked.
            notes: What happened before on the way to this reply.
        """
        return self._ask_for_simpler_form(error, request)

    # ── one call ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _ask(
        self,
        request: ModelRequest,
        on_delta: OnDelta | None,
        way: Way,
        make: Callable[[ModelRequest, bool], Sent] | None = None,
    ) -> tuple[Sent, A]:
        """What was sent at last, and its answer.

        Args:
            request: What is asked.
            on_delta: Told of the pieces.
            way: Gets the notes of what happened.
            make: Instead of `sent`.
        """
        make, streamed = make or self.sent, on_delta is not None
        readers = _Readers(partial(self._reader, on_delta))
        while True:
            sent = make(request, streamed)
            try:
                return sent, await self._transport(streamed).call(sent.body(), readers, way, on_delta)
            except WireError as error:
                outdated = error.kind == "bad_request" and make(request, streamed) != sent
                change = LEARNED if outdated else self._adapt(error, request, way.notes)
                if change is None:
                    _complete(error, sent, way)
                    raise
                way.notes.append(change)
            except ModelError as error:
                _complete(error, sent, way)
                raise
            if on_delta is not None:
                announce(on_delta, change, readers.last.shown)

    def _finished(self, read: Callable[[], ModelReply], sent: Sent, way: Way, began: float) -> ModelReply:
        """The reply that was read, with what was sent for it and what happened on the way."""
        try:
            reply = read()
        except ModelError as error:
            _complete(error, sent, way)
            raise
        seconds = self.transport.clock() - began - way.waited
        return replace(reply, request=sent, seconds=seconds, notes=(*way.notes, *reply.notes))

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────

    def _tail(self, request: ModelRequest, streamed: bool) -> bytes:
        """Everything that follows the messages: tools as encoded before, then what was set."""
        tools = b',"tools":' + self._encoded_tools(request.specs) if request.specs else b""
        more = self._parameters(request, streamed)
        return b"".join((self.opened, tools, b"," + encode_strictly(more)[1:] if more else b"}"))

    def _encoded_tools(self, specs: tuple[ToolSpec, ...]) -> bytes:
        """The tools as JSON, encoded once."""
        kept = self._tools
        if len(kept[0]) != len(specs) or any(a is not b for a, b in zip(kept[0], specs, strict=True)):
            kept = self._tools = (specs, self._encode_tools(specs))
        return kept[1]

    def _ask_for_simpler_form(self, error: WireError, request: ModelRequest) -> str | None:
        form = self._form_of(request.schema)
        if request.schema is None or not form or not error.names(*self.form_fields):
            return None
        form = self.forms[self.forms.index(form) + 1]
        if _OF_ONE_SCHEMA.search(f"{error.param} {error.message}"):
            others = tuple(each for each in self._forms if each[0] != request.schema)
            self._forms = (*others, (request.schema, form))
        else:
            self._form = form
        means = f"with {form}" if form else "without the schema"
        return f"asked again {means}: the server does not take " + ("the schema" if form else "it")

    def _form_of(self, schema: Mapping[str, Any] | None) -> str:
        """How replies are asked to follow this schema: as it was found out for it, or for any."""
        return next((form for known, form in self._forms if known == schema), self._form)

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, answer: A, request: ModelRequest) -> ModelReply:
        """The reply in an answer, however that came."""
        return self._completed(self._parsed(answer), request)

    def _completed(self, said: ModelReply, request: ModelRequest) -> ModelReply:
        """With what is the same in every dialect: calls from the text, unique ids, the price, names."""
        refused = said.finish in ("content_filter", "refusal")
        found = () if refused or said.calls else self._recovered(said.text, request)
        calls = () if refused else unique_ids(said.calls or found, f"{self.invented}_{request.end}")
        return replace(
            said,
            text="" if found else said.text,
            calls=calls,
            finish="tool_calls" if found and said.finish == "stop" else said.finish,
            cost=self._price(said) if said.cost is None else said.cost,
            origin="" if found else self.origin,
            model=self.name,
            notes=(NOTE,) if found else said.notes,
        )

    def _recovered(self, text: str, request: ModelRequest) -> Any:
        if not self.recover_calls or not request.specs:
            return ()
        return recover(text, {spec.name for spec in request.specs})

    def _price(self, said: ModelReply) -> float | None:
        return price(self.model, said.usage, self.profile.prices) if self.profile.prices else None


class _Readers(Generic[A]):
    """Makes the reader of each try, and keeps the last."""

    last: Reader[A]

    def __init__(self, make: Callable[[], Reader[A]]) -> None:
        self._make = make

    def __call__(self) -> Reader[A]:
        self.last = self._make()
        return self.last


def _complete(error: ModelError, sent: Sent, way: Way) -> None:
    """Tell in the error what was sent and all that happened on the way."""
    error.request = sent
    error.notes = tuple(way.notes)
