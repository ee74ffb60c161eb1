"""Documents that an agent can search: named by a person, cut into chunks, found by words and, if wanted, by meaning.

    knowledge = Knowledge("docs.db")
    knowledge.add("docs")                       # again after a change: only what changed is read again
    knowledge.search("refund policy")           # what a person sees
    agent = Agent(tools=[knowledge.tool()])     # search_knowledge; the model needs no idea of how it works

What the tool returns is marked as data, since a document may hold instructions. The tool only searches: it can open no
file, so a model reads nothing but what a person has added.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from hashlib import blake2b
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeVar

from agentnb.errors import AgentnbError, UsageError
from agentnb.memory import vectors
from agentnb.memory.database import Database
from agentnb.memory.documents import SCHEMA, WORDS, Waiting, drop, read_chunks
from agentnb.memory.hits import Added, Hit, Hits, told
from agentnb.memory.sources import folders, sources
from agentnb.memory.table import Shown
from agentnb.text import counted, shorten
from agentnb.threads import run_in_thread
from agentnb.tools.tool import Tool, tool

T = TypeVar("T")
Embedder = Callable[[list[str]], Any]
"""A list of texts to a list of vectors, or to something to await that brings them."""
_READING = "1"
"""Part of each content hash: another number reads every document again."""
_CANDIDATES = 50
"""Of words and of meaning, before they are ranked together."""
_EMBEDDED = 64
"""Texts that are embedded at once."""
SEARCH = """Search the documents of the user. Use it before you answer what they may tell.

Args:
    query: A few words that the passage is likely to contain, in the language of the documents.
"""


class Knowledge(Shown):
    """A set of documents in one SQLite file, which others may use at the same time.

    Args:
        path: The file; made when it is not there, and readable by its owner alone.
        embedder: To search by meaning too: a function of a list of texts, "provider:model", or "local:/path/to.gguf",
            a model for embeddings on this machine. Texts are embedded as they are added, queries as they are asked.
            The chat models of `fetch-model` are none for embeddings: with smollm2-135m recall@5 fell from 0.71 by
            words to 0.47 by both (250 docstrings, `tests/benchmarks/retrieval.py meaning`).
    """

    def __init__(self, path: str | Path = "knowledge.db", embedder: Embedder | str | None = None) -> None:
        self.database = Database(path, SCHEMA)
        self.embedder = _embedder(embedder)
        self.vectors = vectors.Vectors(self.database, _name(self.embedder)) if self.embedder is not None else None

    # ── what a person does ───────────────────────────────────────────────────────────────────────────────────────

    def add(self, documents: Any) -> Added:
        """Read documents and index them; those that have not changed since the last time are left alone.

        Args:
            documents: A path, a text, {"name": "text"}, or several of these. Of a folder the Markdown, text, HTML, PDF
                and notebook files are read, and those that are gone are removed.

        Returns:
            What was added, changed, removed and could not be read.

        Raises:
            UsageError: There is no such file; or the embedder is asynchronous: then `await knowledge.aadd(...)`.
            AgentnbError: Nothing could be read.
        """
        added = self._index(documents)
        _at_once(self._embed_new(), "aadd(...)")
        return added

    async def aadd(self, documents: Any) -> Added:
        """The same as `add`, awaited."""
        added: Added = await run_in_thread(self._index, documents)
        await self._embed_new()
        return added

    def remove(self, *names: str) -> None:
        """Forget documents.

        Args:
            names: As `knowledge.sources()` shows them.

        Raises:
            UsageError: There is none of that name; then nothing is removed.
        """
        with self.database.writing() as connection:
            for name in names:
                rows = connection.execute("SELECT id FROM sources WHERE name=?", (name,)).fetchall()
                if not rows:
                    raise UsageError(f"no document {name!r}", layer="memory", remedy="knowledge.sources() names them.")
                for (row,) in rows:
                    drop(connection, row)

    def sources(self) -> tuple[str, ...]:
        """The names of all documents."""
        return tuple(name for (name,) in self.database.rows("SELECT name FROM sources ORDER BY name"))

    def search(self, query: str, k: int = 5) -> Hits:
        """The passages that fit best, the best first.

        Raises:
            UsageError: The embedder is asynchronous: then `await knowledge.asearch(...)`.
        """
        return self._ranked(query, k, _at_once(self._vector(query), "asearch(...)"))

    async def asearch(self, query: str, k: int = 5) -> Hits:
        """The same as `search`, awaited."""
        vector = await self._vector(query)
        hits: Hits = await run_in_thread(self._ranked, query, k, vector)
        return hits

    def tool(self, k: int = 5, name: str = "search_knowledge", description: str = SEARCH) -> Tool:
        """The search as a tool for an agent.

        Args:
            k: How many passages it returns at most.
            name: As the model sees it; several Knowledge need several names.
            description: What is in there and when to look.
        """

        async def search_knowledge(query: str) -> str:
            return told(query, await self.asearch(query, k))

        search_knowledge.__doc__ = description
        return tool(name=name)(search_knowledge)

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    # ── to index ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _index(self, documents: Any) -> Added:
        added, waiting = Added(), Waiting(self.database)
        home = Path(self.database.path).parent
        documents = documents if isinstance(documents, str | bytes | Path | Mapping) else _listed(documents)
        found, read_folders = list(sources(documents, home)), folders(documents, home)
        known = dict(self.database.rows("SELECT key, digest FROM sources"))
        for source in {each.key: each for each in found}.values():
            try:
                data = source.data()
                digest = blake2b(data, digest_size=16, salt=_READING.encode()).hexdigest()
                if known.get(source.key) == digest:
                    added.unchanged.append(source.name)
                    continue
                found_chunks = read_chunks(source, data)
            except AgentnbError as error:
                added.failed.append((source.name, error.message + (f" {error.remedy}" if error.remedy else "")))
                continue
            waiting.put(source, digest, found_chunks)
            (added.changed if source.key in known else added.added).append(source.name)
        waiting.write()
        added.removed += self._remove_gone(read_folders, {each.key for each in found})
        if added.failed and not (added.added or added.changed or added.unchanged or added.removed):
            raise AgentnbError(f"nothing was added: {added}", layer="memory")
        return added

    def _remove_gone(self, roots: set[str], keys: set[str]) -> list[str]:
        """Remove the documents of these folders that are not among the keys: they were there and are no longer."""
        with self.database.writing() as connection:
            rows = connection.execute("SELECT id, key, root, name FROM sources").fetchall()
            gone = [(row, name) for row, key, root, name in rows if root in roots and key not in keys]
            for row, _ in gone:
                drop(connection, row)
        return [name for _, name in gone]

    async def _embed_new(self) -> None:
        """Give a vector to every chunk that has none; what is done stays done when it is stopped."""
        while self.vectors is not None and (rows := self.vectors.missing(_EMBEDDED)):
            texts = ["\n".join((*json.loads(headings), text)) for _, headings, text in rows]
            self.vectors.put([row for row, _, _ in rows], await self._embedded(texts))

    # ── to search ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _vector(self, query: str) -> Any:
        if not isinstance(query, str):
            what = f"a query is some text, not {shorten(repr(query))}"
            raise UsageError(what, layer="memory", remedy='knowledge.search("refund policy")')
        return None if self.embedder is None or not query.strip() else (await self._embedded([query]))[0]

    async def _embedded(self, texts: list[str]) -> Any:
        assert self.embedder is not None
        found = self.embedder(texts)
        return await found if isawaitable(found) else found

    def _ranked(self, query: str, k: int, vector: Any) -> Hits:
        if vector is None or self.vectors is None:
            return Hits(query, self._hits(WORDS.search(self.database, query, k)))
        candidates = max(k, _CANDIDATES)
        by_words = [row for row, _ in WORDS.search(self.database, query, candidates)]
        scores = vectors.fused(by_words, self.vectors.nearest(vector, candidates))[: max(k, 0)]
        return Hits(query, self._hits(scores))

    def _hits(self, scores: Iterable[tuple[int, float]]) -> list[Hit]:
        sql = (
            "SELECT chunks.text, sources.name, headings, place FROM chunks "
            "JOIN sources ON sources.id = chunks.source WHERE chunks.id = ?"
        )
        hits = []
        for row, score in scores:
            for text, name, headings, place in self.database.rows(sql, (row,)):
                hits.append(Hit(text, name, tuple(json.loads(headings)), place, score))
        return hits

    # ── as a value ───────────────────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return int(self.database.rows("SELECT count(*) FROM chunks")[0][0])

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Knowledge:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Knowledge({Path(self.database.path).name!r})"

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[Any]], int]:
        rows = self.database.rows(
            "SELECT name, count(chunks.id) FROM sources LEFT JOIN chunks ON chunks.source = sources.id "
            "GROUP BY sources.id ORDER BY name"
        )
        title = f"{counted(len(rows), 'document')}, {counted(len(self), 'passage')} in {Path(self.database.path).name}"
        return title, ("document", "passages"), rows, len(rows)


def _listed(documents: Any) -> Any:
    """Several documents as a list, since they are looked at twice."""
    return list(documents) if isinstance(documents, Iterable) else documents


def _embedder(given: Embedder | str | None) -> Embedder | None:
    if isinstance(given, str):
        from agentnb.models.embeddings import embedder

        return embedder(given)
    if given is None or callable(given):
        return given
    raise UsageError(f"{given!r} is no embedder", layer="memory", remedy='Give a function, or "provider:model".')


def _name(embedder: Any) -> str:
    return str(getattr(embedder, "name", None) or getattr(embedder, "__qualname__", type(embedder).__name__))


def _at_once(work: Coroutine[Any, Any, T], instead: str) -> T:
    """The result of a coroutine that has nothing to wait for.

    Raises:
        UsageError: It waits for an asynchronous embedder, which only a loop can serve.
    """
    try:
        waits_for: Awaitable[Any] | None = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    del waits_for
    raise UsageError("the embedder is asynchronous", layer="memory", remedy=f"Write: await knowledge.{instead}")
