"""Documents in the database: each in one version, whole, with its chunks and the index of their words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import PurePath

from agentnb.errors import AgentnbError
from agentnb.memory import vectors
from agentnb.memory.chunks import Chunk, chunks
from agentnb.memory.database import Database
from agentnb.memory.readers import read_blocks
from agentnb.memory.sources import Source
from agentnb.memory.words import WordIndex
from agentnb.text import mask

WORDS = WordIndex("chunk_words", title=2.0, body=1.0)
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sources (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, "
    "name TEXT NOT NULL, root TEXT NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS chunks (id INTEGER PRIMARY KEY AUTOINCREMENT, source INTEGER NOT NULL, "
    "headings TEXT NOT NULL, place TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS chunks_by_source ON chunks (source)",
    WORDS.schema,
    vectors.SCHEMA,
)
_TOGETHER = 2_000
"""Chunks that are written in one transaction."""


class Waiting:
    """Documents that were read and wait to be written, some together in one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._read: list[tuple[Source, str, list[Chunk]]] = []
        self._size = 0

    def put(self, source: Source, digest: str, found: list[Chunk]) -> None:
        """Take one more; enough of them are written."""
        self._read.append((source, digest, found))
        self._size += len(found)
        if self._size >= _TOGETHER:
            self.write()

    def write(self) -> None:
        """Write those that wait."""
        if self._read:
            with self.database.writing() as connection:
                for each in self._read:
                    _replace(connection, *each)
        self._read, self._size = [], 0


def read_chunks(source: Source, data: bytes) -> list[Chunk]:
    """The chunks of a document.

    Raises:
        AgentnbError: It can't be read, or holds no text.
    """
    name = source.path.name if source.path else source.name if PurePath(source.name).suffix else f"{source.name}.md"
    found = [each for each in chunks(read_blocks(name, data)) if each.text.strip()]
    if not found:
        raise AgentnbError("holds no text", layer="memory")
    return found


def _replace(connection: sqlite3.Connection, source: Source, digest: str, found: Sequence[Chunk]) -> None:
    """Put a document in the place of its earlier version, unless another process has just done so."""
    old = connection.execute("SELECT id, digest FROM sources WHERE key=?", (source.key,)).fetchone()
    if old and old[1] == digest:
        return
    if old:
        drop(connection, old[0])
    sql = "INSERT INTO sources (key, name, root, digest) VALUES (?,?,?,?)"
    row = connection.execute(sql, (source.key, source.name, source.root, digest)).lastrowid
    for each in found:
        text, headings = mask(each.text), json.dumps(each.headings, ensure_ascii=False)
        sql = "INSERT INTO chunks (source, headings, place, text) VALUES (?,?,?,?)"
        chunk = connection.execute(sql, (row, headings, each.place, text)).lastrowid or 0
        WORDS.add(connection, chunk, _title(source.name, headings), text)


def drop(connection: sqlite3.Connection, source: int) -> None:
    """Take a document out, with its chunks, their words and their vectors."""
    name = connection.execute("SELECT name FROM sources WHERE id=?", (source,)).fetchone()[0]
    rows = connection.execute("SELECT id, headings, text FROM chunks WHERE source=?", (source,)).fetchall()
    for row, headings, text in rows:
        WORDS.remove(connection, row, _title(name, headings), text)
        vectors.remove(connection, row)
    connection.execute("DELETE FROM chunks WHERE source=?", (source,))
    connection.execute("DELETE FROM sources WHERE id=?", (source,))


def _title(name: str, headings: str) -> str:
    return " ".join((PurePath(name).stem, *json.loads(headings)))
