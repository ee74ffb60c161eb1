"""The tool `sql`: one query at a time over one SQLite or DuckDB file, read-only unless writing was asked for.

The file is opened by the database's own read-only mode, and the query can name nothing outside it: no other database is
attached, no file is read or written, no extension is loaded. Rows, their size, the time and the memory are bounded.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from agentnb.errors import SettingsError, ToolDefinitionError, ToolError
from agentnb.text import shorten
from agentnb.threads import begun
from agentnb.tools.tool import Tool, ToolOptions

MOST_ROWS = 200
SECONDS = 20.0
_MOST_CELL = 1_000
_MOST_SCHEMA = 3_000
_MOST_VALUE = 10_000_000
"""Bytes of one value inside SQLite."""
_STEPS = 10_000
"""Instructions of SQLite between two looks at the clock."""
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
_OUTSIDE = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
_PRAGMAS = ("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list")
_FUNCTIONS = ("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "printf", "format")
"""Those that reach outside, and two that fill gigabytes without ever looking at the clock."""
_DUCKDB_SETTINGS = {"enable_external_access": "false", "memory_limit": "1GB", "temp_directory": "", "threads": "2"}
_DUCKDB_SCHEMA = "SELECT sql FROM duckdb_tables() UNION ALL SELECT sql FROM duckdb_views() WHERE NOT internal"
_SQLITE_SCHEMA = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"


def sql(path: str | Path, *, write: bool = False, most_rows: int = MOST_ROWS) -> Tool:
    """A tool `sql(query)` over one database file; its tables stand in the tool's description.

    Args:
        path: A SQLite or DuckDB file; which it is, its first bytes tell.
        write: It may be changed; then a person is asked before each call.
        most_rows: Returned by one query.

    Raises:
        ToolDefinitionError: There is no such file, or it is no database.
        SettingsError: It is a DuckDB file, and the package duckdb is not installed.
    """
    database = _Database.of(Path(path).expanduser().resolve(), write)

    def query(query: str) -> dict[str, Any]:
        """Run one SQL query.

        Args:
            query: One statement; ask for few columns and rows.
        """
        return database.rows(query, most_rows)

    can = "It can be changed." if write else "It can only be read."
    about = f"Run one SQL query over {Path(path).name!r} ({database.kind}). {can} Its tables:\n{database.schema()}"
    return Tool(query, ToolOptions("sql", about, approve=write, timeout=SECONDS + 5, quoted=True))


class _Database(NamedTuple):
    path: Path
    kind: str
    """"SQLite" or "DuckDB"."""
    write: bool

    @classmethod
    def of(cls, path: Path, write: bool) -> _Database:
        """The database of a file.

        Raises:
            ToolDefinitionError: There is none.
        """
        if not path.is_file():
            raise ToolDefinitionError(f"there is no database file {str(path)!r}", remedy="Make it first.")
        with path.open("rb") as file:
            head = file.read(16)
        if head[8:12] == b"DUCK":
            return cls(path, "DuckDB", write)
        if head == b"SQLite format 3\0" or not head:
            return cls(path, "SQLite", write)
        raise ToolDefinitionError(f"{str(path)!r} is no SQLite or DuckDB file", remedy="Check the path.")

    def rows(self, query: str, most: int) -> dict[str, Any]:
        """The columns and rows of a query; `more` says that there are others.

        Raises:
            ToolError: The database refuses the query, or it takes too long.
        """
        run = _duckdb if self.kind == "DuckDB" else _sqlite
        with run(self.path, self.write) as execute:
            columns, rows = execute(query)
            found = [[_cell(each) for each in row] for row in islice(rows, most + 1)]
        answer: dict[str, Any] = {"columns": columns, "rows": found[:most]}
        return answer | ({"more": f"only the first {most} rows are shown"} if len(found) > most else {})

    def schema(self) -> str:
        """What its tables are, as far as there is room."""
        found = self.rows(_DUCKDB_SCHEMA if self.kind == "DuckDB" else _SQLITE_SCHEMA, MOST_ROWS)["rows"]
        text = "\n".join(shorten(each[0], _MOST_CELL) for each in found)
        return text[:_MOST_SCHEMA] + (" …" if len(text) > _MOST_SCHEMA else "") or "(none yet)"


Execute = Callable[[str], tuple[list[str], Iterator[Sequence[Any]]]]


def _cell(value: Any) -> Any:
    """A value as it is shown: long texts cut, bytes counted."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value):,} bytes>"
    if isinstance(value, str) and len(value) > _MOST_CELL:
        return f"{value[:_MOST_CELL]}… ({len(value):,} characters)"
    return value


# ── SQLite ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _sqlite(path: Path, write: bool) -> Iterator[Execute]:
    end = time.monotonic() + SECONDS
    address = f"file:{quote(str(path))}?mode={'rw' if write else 'ro'}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=SECONDS / 4)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.set_authorizer(_writing if write else _reading)
            connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            with begun(connection.interrupt):
                yield lambda query: _executed(connection, query)
                connection.commit()
    except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
        raise ToolError(_why(error)) from error


def _executed(connection: sqlite3.Connection, query: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
    if not query.strip():
        raise ToolError("the query is empty")
    cursor = connection.execute(query)
    if cursor.description is None:
        return ["rows changed"], iter([[max(0, cursor.rowcount)]])
    return [each[0] for each in cursor.description], cursor


def _reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS:
        return sqlite3.SQLITE_DENY
    reads = action in _READING or (action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS)
    return sqlite3.SQLITE_OK if reads else sqlite3.SQLITE_DENY


def _writing(action: int, first: str | None, second: str | None, *others: str | None) -> int:
    if action in _OUTSIDE or action in (sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION):
        return _reading(action, first, second, *others)
    return sqlite3.SQLITE_OK


def _why(error: BaseException) -> str:
    text = str(error)
    if "not authorized" in text or "readonly" in text or "prohibited" in text:
        return f"not allowed: this tool reads one database and changes nothing ({text})"
    if text == "interrupted":
        return f"stopped after {SECONDS:g} seconds: ask for less"
    return f"{type(error).__name__}: {shorten(text, 500)}"


# ── DuckDB ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _duckdb(path: Path, write: bool) -> Iterator[Execute]:
    try:
        import duckdb
    except ImportError as error:
        what, remedy = "the package duckdb is not installed", "pip install 'agentnb-jupyter[duckdb]'"
        raise SettingsError(what, layer="tools", remedy=remedy) from error
    try:
        with closing(duckdb.connect(str(path), read_only=not write, config=dict(_DUCKDB_SETTINGS))) as connection:
            connection.execute("SET lock_configuration = true")
            with begun(connection.interrupt):
                yield lambda query: _executed_by_duckdb(connection, query)
    except (duckdb.Error, MemoryError) as error:
        raise ToolError(f"{type(error).__name__}: {shorten(str(error), 500)}") from error


def _executed_by_duckdb(connection: Any, query: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
    if len(connection.extract_statements(query)) != 1:
        raise ToolError("one statement at a time, please")
    result = connection.execute(query)
    columns = [each[0] for each in result.description or ()]
    return columns, iter(result.fetchone, None)
