"""Search by meaning: a vector for each chunk, kept beside it, compared one by one.

To compare 100,000 vectors takes some tens of milliseconds, so there is no index to build or to trust.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from agentnb.errors import AgentnbError
from agentnb.memory.database import Database

SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (chunk INTEGER PRIMARY KEY, model TEXT NOT NULL, vector BLOB NOT NULL)"
_SMOOTHING = 60
"""Of reciprocal rank fusion: how little the first places count above the next."""


class Vectors:
    """The vectors of one embedding model.

    Args:
        database: Holds them, with the chunks.
        model: Its name; vectors of another model are not compared.
    """

    def __init__(self, database: Database, model: str) -> None:
        self.database = database
        self.model = model
        self._kept: tuple[Any, Any, Any] = (None, None, None)

    def missing(self, most: int) -> list[tuple[int, str, str]]:
        """Row, headings and text of chunks that have no vector of this model yet."""
        return self.database.rows(
            "SELECT chunks.id, headings, text FROM chunks LEFT JOIN vectors ON vectors.chunk = chunks.id "
            "AND vectors.model = ? WHERE vectors.chunk IS NULL ORDER BY chunks.id LIMIT ?",
            (self.model, most),
        )

    def put(self, rows: Sequence[int], vectors: Any) -> None:
        """Keep the vectors of these chunks, those that are still there.

        Raises:
            AgentnbError: There is not one for each, or they hold no finite numbers.
        """
        packed = [each.tobytes() for each in _unit(vectors, len(rows))]
        with self.database.writing() as connection:
            for row, vector in zip(rows, packed, strict=True):
                connection.execute(
                    "INSERT OR REPLACE INTO vectors SELECT id, ?, ? FROM chunks WHERE id = ?", (self.model, vector, row)
                )

    def nearest(self, vector: Any, most: int) -> list[int]:
        """The rows of the chunks that mean the most similar things, the nearest first."""
        import numpy as np

        wanted = _unit([vector], 1)[0]
        rows, matrix = self._matrix(len(wanted))
        if not len(rows):
            return []
        likeness = matrix @ wanted
        most = min(most, len(rows))
        best = np.argpartition(-likeness, most - 1)[:most]
        return [int(rows[each]) for each in best[np.lexsort((rows[best], -likeness[best]))]]

    def _matrix(self, length: int) -> tuple[Any, Any]:
        """Rows and vectors, kept until the file changes."""
        import numpy as np

        state = (*self.database.state(), length)
        if self._kept[0] != state:
            sql = "SELECT chunk, vector FROM vectors WHERE model = ? AND length(vector) = ? ORDER BY chunk"
            found = self.database.rows(sql, (self.model, 4 * length))
            matrix = np.frombuffer(b"".join(vector for _, vector in found), "<f4").reshape(-1, length)
            self._kept = (state, np.array([row for row, _ in found]), matrix)
        return self._kept[1:]


def remove(connection: sqlite3.Connection, row: int) -> None:
    """Delete the vector of a chunk."""
    connection.execute("DELETE FROM vectors WHERE chunk = ?", (row,))


def fused(*rankings: Sequence[int]) -> list[tuple[int, float]]:
    """Several rankings of the same rows as one, by reciprocal ranks; row and score, the best first.

    Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion", SIGIR 2009.

    >>> [row for row, score in fused([1, 2, 3], [3, 1])]
    [1, 3, 2]
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, row in enumerate(ranking, 1):
            scores[row] = scores.get(row, 0.0) + 1 / (_SMOOTHING + place)
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


def _unit(vectors: Any, count: int) -> Any:
    """The vectors as float32 of length one.

    Raises:
        AgentnbError: They are not `count` rows of finite numbers.
    """
    import numpy as np

    try:
        found = np.asarray(vectors, dtype="<f4")
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 2 or len(found) != count or not found.shape[1] or not np.isfinite(found).all():
        what = f"the embedder gave an array of shape {found.shape} for {count} texts, expected one vector for each"
        raise AgentnbError(what, layer="memory", remedy="It takes a list of texts and returns a list of vectors.")
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
