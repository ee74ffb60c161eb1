"""Texts to vectors: the `/embeddings` call that OpenAI and the servers compatible with it share.

    embed = Embeddings("openai:text-embedding-3-small")
    vectors = await embed(["one text", "another"])

Address, key, retries and errors are those of the chat models of the same provider.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentnb.core.messages import Usage
from agentnb.errors import ModelError, SettingsError
from agentnb.models.catalog import LOCAL, resolve
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.chat_wire import encode_strictly
from agentnb.models.endpoint import Endpoint
from agentnb.models.faults import looks_like_html
from agentnb.models.http_errors import body_error, unreadable
from agentnb.models.retry import Way
from agentnb.settings import Secret

PATH = "/embeddings"
_MOST_TEXTS = 64
"""In one request."""


def embedder(name: str) -> Callable[[Sequence[str]], Awaitable[list[list[float]]]]:
    """What turns texts into vectors: "provider:model", or "local:/path/to.gguf" for a model on this machine.

    Raises:
        SettingsError: The provider is unknown or has no such call, or its key or the file is missing.
    """
    provider, _, path = name.strip().partition(":")
    if provider != LOCAL:
        return Embeddings(name)
    from agentnb.models.embedded_vectors import EmbeddedVectors

    return EmbeddedVectors(path.strip() or None)


class Embeddings:
    """One embedding model of one server.

    Args:
        name: "provider:model", or a bare model name (OpenAI, or the server in OPENAI_BASE_URL).
        base_url: Instead of the provider's own.
        api_key: Instead of the one in the environment or `.env`.
        parameters: Sent as they are, such as {"dimensions": 256}.
        options: Those of a model, such as retry=Retry(attempts=1).

    Raises:
        SettingsError: The provider is unknown, has no such call, or its key is missing.
    """

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        chat = resolve(name, base_url, api_key, **options)
        if not isinstance(chat, ChatCompletionsModel):
            remedy = "Use one that speaks OpenAI's form, or any function of a list of texts."
            raise SettingsError(f"{name!r} has no {PATH} call", layer="models", remedy=remedy)
        self.name = chat.name
        self.model = chat.model
        self.parameters = dict(parameters or {})
        self.transport = replace(chat.transport, endpoint=_beside(chat.transport.endpoint))
        self.usage = Usage(0, 0)
        """Tokens of all calls so far."""

    def __repr__(self) -> str:
        return f"Embeddings({self.name!r}, {self.transport.endpoint.base!r})"

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in their order; all have the same length.

        Raises:
            ModelError: No try brought usable vectors.
        """
        found: list[list[float]] = []
        for first in range(0, len(texts), _MOST_TEXTS):
            found += await self._ask(texts[first : first + _MOST_TEXTS])
        return found

    async def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        body = encode_strictly({"model": self.model, "input": list(texts), **self.parameters})
        target = self.transport.endpoint.target
        vectors, usage = await self.transport.call(body, lambda: _Reader(target, len(texts)), Way())
        self.usage = self.usage.plus(usage)
        return vectors


def _beside(chat: Endpoint) -> Endpoint:
    """The endpoint for embeddings on the server of a chat model."""
    return Endpoint(str(chat.url), PATH, chat.headers)


class _Reader:
    """Reads one JSON body."""

    done = False
    complete = False
    shown = False
    partial = ""

    def __init__(self, target: str, count: int) -> None:
        self.target = target
        self.count = count
        self._type = ""
        self._body = b""

    def start(self, content_type: str) -> None:
        """Remember the content type."""
        self._type = content_type

    def feed(self, data: bytes) -> None:
        """Keep it."""
        self._body += data

    def finish(self) -> tuple[list[list[float]], Usage | None]:
        """The vectors in the order of the texts, and the tokens where the server told them.

        Raises:
            ModelError: It is an error, or not as many vectors of one length as there were texts.
        """
        text = self._body.decode("utf-8", "replace")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            what = "with a web page" if looks_like_html(text, self._type) else "with no JSON"
            raise unreadable(self.target, what, text, remedy="Check the base URL.") from None
        if not isinstance(answer, Mapping) or answer.get("error"):
            raise body_error(self.target, answer)
        vectors = _vectors(answer.get("data"))
        if len(vectors) != self.count or len({len(each) for each in vectors}) != 1:
            raise self._wrong(f"with {len(vectors)} usable vectors for {self.count} texts", text)
        return vectors, _usage(answer.get("usage"))

    def _wrong(self, what: str, text: str) -> ModelError:
        return unreadable(self.target, what, text, remedy="Is this a model for embeddings?")


def _vectors(data: Any) -> list[list[float]]:
    """The vectors by their index; those that hold anything but finite numbers are left out."""
    rows = [each for each in data if isinstance(each, Mapping)] if isinstance(data, list) else []
    if all(isinstance(row.get("index"), int) for row in rows):
        rows.sort(key=lambda row: int(row["index"]))
    return [row["embedding"] for row in rows if _is_vector(row.get("embedding"))]


def _is_vector(found: Any) -> bool:
    numbers = isinstance(found, list) and bool(found)
    return numbers and all(isinstance(each, int | float) and math.isfinite(each) for each in found)


def _usage(told: Any) -> Usage | None:
    tokens = told.get("prompt_tokens") if isinstance(told, Mapping) else None
    return Usage(tokens, 0) if isinstance(tokens, int) else None
