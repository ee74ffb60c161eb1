"""What a search found, for a person (a table) and for a model (text that is marked as data); what adding did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.memory.table import Shown
from agentnb.memory.words import terms
from agentnb.text import counted, shorten
from agentnb.tools.quoted import QUOTED, label, quoted

_SNIPPET = 200
_MOST_FAILURES = 10


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage."""

    text: str
    """The whole chunk."""
    source: str
    """The document, as it was named."""
    headings: tuple[str, ...]
    """Those above it, the outermost first."""
    place: str
    """Where it begins: "line 12", "page 3", "cell 4, line 1"."""
    score: float
    """The higher the better; comparable within one search."""

    def snippet(self, query: str) -> str:
        """The part of it that has the most words of the query, in one line."""
        lower = self.text.lower()
        places = [place for term in terms(query) if (place := lower.find(term.lower())) >= 0]
        starts = [max(0, place - _SNIPPET // 4) for place in places]
        start = max(starts, key=lambda begin: (sum(0 <= each - begin < _SNIPPET for each in places), -begin), default=0)
        return ("…" if start else "") + shorten(self.text[start:], _SNIPPET)


class Hits(tuple[Hit, ...], Shown):
    """The passages of one search, the best first; a tuple that shows itself as a table."""

    query: str

    def __new__(cls, query: str, hits: Iterable[Hit] = ()) -> Hits:
        """The hits of a query."""
        made = super().__new__(cls, hits)
        made.query = query
        return made

    def __reduce__(self) -> Any:
        return Hits, (self.query, tuple(self))

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[Any]], int]:
        rows = ((hit.source, hit.place, " > ".join(hit.headings), hit.snippet(self.query)) for hit in self)
        title = f"{counted(len(self), 'passage')} for {shorten(self.query)!r}"
        return title, ("document", "place", "under", "passage"), rows, len(self)


def told(query: str, hits: Sequence[Hit]) -> str:
    """What a model reads of a search."""
    if not hits:
        return f"No passage has any of these words: {label(query)}. Try other words, or say that it is not known."
    passages = []
    for number, hit in enumerate(hits, 1):
        under = f"# {' > '.join(hit.headings)}\n" if hit.headings else ""
        passages.append(f"[{number}] {label(hit.source)}, {hit.place}\n{quoted(under + hit.text)}")
    return "\n".join([QUOTED, *passages])


@dataclass(slots=True)
class Added:
    """What became of the documents that were to be added; names of documents."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """They were in a folder that was added before, and are there no longer."""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Name and reason; what an earlier version said can still be found."""

    def __repr__(self) -> str:
        counts = [f"{len(getattr(self, each))} {each}" for each in ("added", "changed", "unchanged", "removed")]
        lines = [f"{name}: {why}" for name, why in self.failed[:_MOST_FAILURES]]
        failed = [f"{len(self.failed)} failed", *lines] if self.failed else []
        return "\n".join([", ".join(counts), *failed])
