"""Search by meaning beside search by words, with any embedder."""

from __future__ import annotations

import asyncio
import math

import pytest

from agentnb.core.messages import ToolCall
from agentnb.errors import AgentnbError, ModelError, UsageError
from agentnb.memory.knowledge import Knowledge
from agentnb.memory.vectors import fused
from agentnb.models.embeddings import Embeddings
from agentnb.models.server import Raw, ScriptedServer
from agentnb.models.transport import Retry

MEANINGS = {"car": (1, 0), "automobile": (1, 0.1), "vehicle": (1, 0.2), "fruit": (0, 1), "apple": (0.1, 1)}
"""Words to what they mean, in two dimensions."""


def meaning(texts: list[str]) -> list[list[float]]:
    """A small embedder: the sum of what the words mean."""
    asked.append(list(texts))
    return [
        [sum(each[axis] for word, each in MEANINGS.items() if word in text) + 1e-3 for axis in (0, 1)] for text in texts
    ]


asked: list[list[str]] = []


@pytest.fixture
def knowledge(tmp_path):
    """Three short documents with vectors."""
    asked.clear()
    with Knowledge(tmp_path / "k.db", embedder=meaning) as made:
        made.add({"a": "An automobile in the yard.", "b": "An apple a day.", "c": "A vehicle and a fruit."})
        yield made


def test_meaning_finds_what_words_do_not(knowledge):
    """No document has the word, the nearest comes first."""
    assert [hit.source for hit in knowledge.search("car")] == ["a", "c", "b"]


def test_words_and_meaning_are_ranked_together(knowledge):
    """A document that both find is before one that only one finds."""
    assert knowledge.search("apple")[0].source == "b"


def test_only_new_texts_are_embedded(knowledge):
    """A document is embedded once, as long as it stays the same."""
    knowledge.add({"a": "An automobile in the yard.", "d": "A car."})

    assert [len(each) for each in asked] == [3, 1]


def test_a_removed_document_is_found_by_nothing(knowledge):
    """Its vector goes with it, also from the copy in memory."""
    knowledge.search("car")
    knowledge.remove("a")

    assert [hit.source for hit in knowledge.search("car")] == ["c", "b"]
    assert knowledge.database.rows("SELECT count(*) FROM vectors") == [(2,)]


def test_what_another_process_added_is_found(tmp_path, knowledge):
    """The copy of the vectors in memory follows the file."""
    knowledge.search("car")
    with Knowledge(tmp_path / "k.db", embedder=meaning) as other:
        other.add({"z": "car car"})

    assert "z" in [hit.source for hit in knowledge.search("car")]


def test_another_embedder_embeds_anew(tmp_path, knowledge):
    """Vectors of different models are never compared."""

    def other(texts):
        asked.append(list(texts))
        return [[1.0, 0.0, 0.0] for _ in texts]

    with Knowledge(tmp_path / "k.db", embedder=other) as second:
        assert second.search("zebra") == ()
        second.add({"a": "An automobile in the yard."})
        assert len(second.search("zebra")) == 3


@pytest.mark.parametrize("wrong", [[], [[]], [[math.nan, 1]], "text", None, [[1, 2], [1, 2]], [["a"]]])
def test_a_wrong_embedder_is_told(tmp_path, wrong):
    """Too few, too many, no numbers, no vectors: an error that says what is expected; the words are kept."""
    with Knowledge(tmp_path / "k.db", embedder=lambda texts: wrong) as knowledge:
        with pytest.raises(AgentnbError, match="the embedder gave"):
            knowledge.add({"a": "apple"})
        assert len(knowledge) == 1


def test_an_interrupted_embedding_goes_on(tmp_path):
    """What was embedded before a failure is not embedded again."""
    given = []

    def failing(texts):
        if given:
            raise KeyboardInterrupt
        given.append(len(texts))
        return [[1.0] for _ in texts]

    failing.name = "one model"
    documents = {f"d{number}": f"text {number}" for number in range(100)}
    with Knowledge(tmp_path / "k.db", embedder=failing) as knowledge, pytest.raises(KeyboardInterrupt):
        knowledge.add(documents)

    rest = []
    whole = lambda texts: rest.append(len(texts)) or [[1.0] for _ in texts]
    whole.name = "one model"
    with Knowledge(tmp_path / "k.db", embedder=whole) as again:
        again.add(documents)
    assert (given, rest) == ([64], [36])


def test_an_asynchronous_embedder_is_awaited(tmp_path):
    """The awaited forms serve it, and so does the tool; the plain ones say so."""

    async def later(texts):
        await asyncio.sleep(0)
        return meaning(texts)

    async def use(knowledge):
        await knowledge.aadd({"a": "An automobile.", "b": "An apple."})
        hits = await knowledge.asearch("car", 1)
        result = await knowledge.tool(k=1).answer(ToolCall("c", "search_knowledge", '{"query": "car"}'))
        return hits, result.content

    with Knowledge(tmp_path / "k.db", embedder=later) as knowledge:
        with pytest.raises(UsageError, match=r"await knowledge.aadd"):
            knowledge.add({"a": "An automobile."})
        hits, told = asyncio.run(use(knowledge))
        assert hits[0].source == "a"
        assert '[1] "a", line 1\n> An automobile.' in told
        with pytest.raises(UsageError, match=r"await knowledge.asearch"):
            knowledge.search("car")


def test_ranks_are_fused():
    """A row in both rankings is before the first of one; ties go by row."""
    assert [row for row, _ in fused([1, 2], [3, 2])] == [2, 1, 3]
    assert fused([], []) == []


# ── /embeddings of a provider ────────────────────────────────────────────────────────────────────────────────────────


class EmbeddingServer(ScriptedServer):
    """The scripted server, for one more path."""

    async def _respond(self, received, writer):
        from agentnb.models.server_http import send

        answer = await self._answer(received)
        await send(answer, writer)
        return not answer.cut


def embeddings(server, **options) -> Embeddings:
    """A client of it."""
    return Embeddings("openai:small", server.url, "sk-embed-12345678", retry=Retry(attempts=1), **options)


def answer(received) -> Raw:
    """What OpenAI would answer, out of order."""
    texts = received.json()["input"]
    rows = [{"index": place, "embedding": [float(len(text)), 1.0]} for place, text in enumerate(texts)]
    return Raw({"object": "list", "data": rows[::-1], "usage": {"prompt_tokens": len(texts), "total_tokens": 9}})


def test_vectors_come_in_the_order_of_the_texts():
    """By their index, in requests of 64, and tokens are counted; nothing is sent but model, input and what was set."""
    with EmbeddingServer(answer) as server:
        embed = embeddings(server, parameters={"dimensions": 2})
        vectors = asyncio.run(embed(["x" * number for number in range(1, 101)]))

    assert [vector[0] for vector in vectors] == [float(number) for number in range(1, 101)]
    assert [len(each.json()["input"]) for each in server.requests] == [64, 36]
    assert set(server.requests[0].json()) == {"model", "input", "dimensions"}
    assert server.requests[0].path == "/v1/embeddings"
    assert server.requests[0].headers["authorization"] == "Bearer sk-embed-12345678"
    assert (embed.usage.input, embed.usage.complete) == (100, True)
    assert "sk-embed" not in repr(embed)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Raw({"data": []}), "0 usable vectors for 2 texts"),
        (Raw({"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}), "2 usable vectors"),
        (Raw({"data": [{"embedding": [1]}, {"embedding": ["a"]}]}), "1 usable vectors"),
        (Raw({"data": "text"}), "0 usable vectors"),
        (Raw({"error": {"message": "no such model"}}), "no such model"),
        (Raw({"error": {"message": "bad key"}}, 401), "bad key"),
        (Raw("<html>hello</html>", headers={"content-type": "text/html"}), "web page"),
        (Raw("hello"), "no JSON"),
    ],
)
def test_a_wrong_answer_is_an_error(wrong, said):
    """Each says what came."""
    with EmbeddingServer([wrong]) as server, pytest.raises(ModelError, match=said):
        asyncio.run(embeddings(server)(["one", "two"]))


def test_hybrid_search_over_http(tmp_path):
    """Documents and queries are embedded by a server."""
    with EmbeddingServer(answer) as server, Knowledge(tmp_path / "k.db", embedder=embeddings(server)) as knowledge:

        async def use():
            await knowledge.aadd({"a": "short", "b": "a very long text of many words"})
            return await knowledge.asearch("brief", 1)

        assert [hit.source for hit in asyncio.run(use())] == ["a"]


def test_a_provider_without_the_call_is_refused():
    """Before anything is sent."""
    with pytest.raises(AgentnbError, match="has no /embeddings call"):
        Embeddings("anthropic:claude", api_key="sk-ant-12345678")
