"""Texts to vectors on this machine: the embedded engine in a second process, asked for nothing but vectors.

    embed = EmbeddedVectors("/models/bge-small-en.gguf")
    vectors = await embed(["one text", "another"])

A model that was made for embeddings says itself how the vectors of its tokens become one; of any other the mean is
taken. The chat models that can be fetched are of that other kind, and search worse with it than by words alone
(`tests/benchmarks/retrieval.py meaning`): take a GGUF file of a model for embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentnb.core.messages import Usage
from agentnb.errors import ModelError
from agentnb.models.embedded import EmbeddedModel, has_died
from agentnb.models.embeddings import Embeddings
from agentnb.models.engine_process import EngineSettings, Running, shared
from agentnb.models.retry import Retry


class EmbeddedVectors:
    """One GGUF file as an embedder.

    Args:
        path: As an EmbeddedModel takes it: a file, a name such as "smollm2-135m", or None.

    Raises:
        SettingsError: There is no such file.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        chat = EmbeddedModel(path).settings()
        self.settings: EngineSettings = replace(chat, template="", embeddings=True)
        self.name = f"local:{Path(chat.path).stem}"
        self.usage = Usage(0, 0)
        """Tokens of all calls so far."""

    def __repr__(self) -> str:
        return f"EmbeddedVectors({self.settings.path!r})"

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in their order; the engine is started when none runs, and once more when it died.

        Raises:
            ModelError: A text is too long for it, or it died twice.
            SettingsError: The engine is not installed, or can't load the file.
        """
        running = await shared(self.settings).running()
        try:
            return await self._ask(running, texts)
        except ModelError as error:
            if not await has_died(running, error):
                raise
        return await self._ask(await shared(self.settings).running(), texts)

    async def _ask(self, running: Running, texts: Sequence[str]) -> list[list[float]]:
        client = Embeddings(f"llamacpp:{running.name}", f"{running.url}/v1", running.key, retry=Retry(attempts=1))
        vectors = await client(texts)
        self.usage = self.usage.plus(client.usage)
        return vectors
