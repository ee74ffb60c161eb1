"""Vectors from the embedded engine: a process of its own beside the one that replies."""

from __future__ import annotations

import asyncio
import types
from pathlib import Path

import pytest
from small_model import small_model

from agentnb import Knowledge
from agentnb.errors import ModelError, SettingsError
from agentnb.models.embedded import EmbeddedModel
from agentnb.models.embedded_vectors import EmbeddedVectors
from agentnb.models.embeddings import Embeddings, embedder
from agentnb.models.engine import names_pooling, parameters
from agentnb.models.engine_process import shared


def test_an_engine_for_vectors_takes_a_whole_text_at_once() -> None:
    """A text must fit into one batch, whose size is 512 tokens when nothing is said."""
    space = types.SimpleNamespace
    config = {"path": "model.gguf", "key": "secret", "name": "model", "embeddings": True}
    params = parameters(space(model=space(), cpuparams=space(), cpuparams_batch=space(), sampling=space()), config)

    assert (params.embedding, params.n_batch, params.n_ubatch) == (True, 4096, 4096)


def test_a_model_for_embeddings_is_left_its_own_pooling(tmp_path: Path) -> None:
    """What its file says counts; a chat model's file says nothing."""
    (tmp_path / "bge.gguf").write_bytes(b"GGUF\x03general.architecture\x04bert\x11bert.pooling_type\x02")
    (tmp_path / "chat.gguf").write_bytes(b"GGUF\x03general.architecture\x05llama" + b"x" * 20_000 + b".pooling_type")

    assert names_pooling(tmp_path / "bge.gguf")
    assert not names_pooling(tmp_path / "chat.gguf")


def test_a_name_becomes_an_embedder(tmp_path: Path) -> None:
    """A provider's, or a file of this machine; a file that is not there is told at once."""
    (tmp_path / "bge.gguf").touch()
    here = embedder(f"local:{tmp_path}/bge.gguf")

    assert isinstance(embedder("ollama:nomic-embed-text"), Embeddings)
    assert isinstance(here, EmbeddedVectors)
    assert here.name == "local:bge"
    assert here.settings != EmbeddedModel(tmp_path / "bge.gguf").settings()
    with pytest.raises(SettingsError, match="there is no such file"):
        Knowledge(tmp_path / "k.db", embedder=f"local:{tmp_path}/none.gguf")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_engine_brings_vectors(tmp_path: Path) -> None:
    """One for each text, of one length; what is too long is told; a killed engine is started again; search uses it."""
    embed = EmbeddedVectors(small_model())
    try:
        first, second, again = asyncio.run(embed(["a cat", "the stock market", "a cat"]))
        assert len(first) == len(second) == 576
        assert first == pytest.approx(again, abs=1e-3)
        assert embed.usage.input
        with pytest.raises(ModelError, match=r"too large|context"):
            asyncio.run(embed(["word " * 6_000]))
        asyncio.run(shared(embed.settings).running()).process.kill()
        assert len(asyncio.run(embed(["a cat"]))) == 1
        assert shared(embed.settings).starts == 2
        with Knowledge(tmp_path / "k.db", embedder=embed) as knowledge:
            hits = asyncio.run(_searched(knowledge))
        assert hits[0].source == "pets"
    finally:
        shared(embed.settings).stop()


async def _searched(knowledge: Knowledge) -> object:
    await knowledge.aadd({"pets": "Cats and dogs live with people.", "money": "Shares rose on the market."})
    return await knowledge.asearch("cats")
