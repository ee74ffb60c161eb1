"""Words to search by, in languages with and without spaces between them.

SQLite's own tokenizer takes a whole Chinese sentence for one word, and its trigrams miss words of two characters. So
what is written without spaces (Chinese, Japanese, Korean) is cut into pairs before it is indexed and before it is
looked for: 天气预报 becomes 天气 气预 预报 报. Everything else is left to SQLite: case, accents and English endings.

    text ──spaced──▶ FTS5 index ◀──match_query── what a person or a model typed, whatever it is
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from itertools import accumulate

from agentnb.memory.database import Database
from agentnb.text import clean

_UNSPACED = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_UNSPACED}]+")
_TERM = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_SIGNS = re.compile(r"[\W_]+")
"""Taken out here, since SQLite's idea of a sign is another one than Python's."""
_MOST_TERMS = 64
_MOST_RANKED = 20_000
"""Rows; to rank one takes some microseconds."""
_MOST_TYPED = 4_000
"""Characters of a query that are looked at."""


def spaced(text: str) -> str:
    """The text as it is indexed: pairs of characters where the script has no spaces.

    >>> spaced("GPT天气预报 ok")
    'GPT 天气 气预 预报 报  ok'
    """
    return _RUN.sub(_pairs, _SIGNS.sub(" ", unicodedata.normalize("NFKC", clean(text))))


def _pairs(run: re.Match[str]) -> str:
    signs = run.group()
    pairs = [signs[place : place + 2] for place in range(len(signs) - 1)]
    return f" {' '.join([*pairs, signs[-1]])} "  # the last one alone, so that every character begins some word


def terms(query: str) -> list[str]:
    """The words (and pairs of characters) of a query, each once, in order."""
    found: dict[str, None] = {}
    for run in _TERM.findall(unicodedata.normalize("NFKC", clean(query[:_MOST_TYPED]))):
        pairs = [run[place : place + 2] for place in range(len(run) - 1)] if _RUN.match(run) else []
        found.update(dict.fromkeys(pairs or [run]))
    return list(found)[:_MOST_TERMS]


def match_query(found: Sequence[str]) -> str:
    """An FTS5 query for texts with any of these terms; each is quoted, so none is read as FTS5's own language."""
    return " OR ".join(f'"{term}"*' if len(term) == 1 and _RUN.match(term) else f'"{term}"' for term in found)


class WordIndex:
    """The words of texts that are kept in another table, under the same row numbers.

    Args:
        table: Its name.
        columns: Column name to the weight that a word found there has.
    """

    def __init__(self, table: str, **columns: float) -> None:
        names = ", ".join(columns)
        marks = ", ".join("?" * len(columns))
        self.schema = (
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5({names}, content='', "
            "tokenize='porter unicode61 remove_diacritics 2')"
        )
        weights = ", ".join(f"{weight:g}" for weight in columns.values())
        self._count = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT {_MOST_RANKED})"
        self._rank = (
            f"SELECT id, score FROM (SELECT rowid AS id, -bm25({table}, {weights}) AS score FROM {table} "
            f"WHERE {table} MATCH ? LIMIT {_MOST_RANKED}) ORDER BY score DESC, id LIMIT ?"
        )
        self._insert = f"INSERT INTO {table}(rowid, {names}) VALUES (?, {marks})"
        self._delete = f"INSERT INTO {table}({table}, rowid, {names}) VALUES ('delete', ?, {marks})"

    def search(self, database: Database, query: str, most: int) -> list[tuple[int, float]]:
        """The rows that have words of the query, the best first, with their BM25 score (the higher the better)."""
        found = self._telling(database, terms(query))
        return database.rows(self._rank, (match_query(found), most)) if found and most > 0 else []

    def _telling(self, database: Database, found: list[str]) -> list[str]:
        """The rarest of the terms, as many as can be ranked in a moment; what is in most texts tells little."""
        if len(found) < 2:
            return found
        counts = {term: database.rows(self._count, (match_query([term]),))[0][0] for term in found}
        rarest = sorted(found, key=counts.__getitem__)
        ranked = [*accumulate(counts[term] for term in rarest)]
        return [term for place, term in enumerate(rarest) if not place or ranked[place] <= _MOST_RANKED]

    def add(self, connection: sqlite3.Connection, row: int, *texts: str) -> None:
        """Index the texts of a row, in the order of the columns."""
        connection.execute(self._insert, (row, *map(spaced, texts)))

    def remove(self, connection: sqlite3.Connection, row: int, *texts: str) -> None:
        """Take them out again; the same texts are needed, since the index does not keep them."""
        connection.execute(self._delete, (row, *map(spaced, texts)))
