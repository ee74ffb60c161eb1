"""Queries over one database file: what comes back, its bounds, and every way out or into it that was tried."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes import unquoted

from agentnb.core.messages import ToolCall
from agentnb.errors import ToolDefinitionError
from agentnb.tools.sql import sql

duckdb = pytest.importorskip("duckdb", reason="needs the package duckdb")


def asked(tool: Any, query: str) -> Any:
    """The result of one query."""
    return unquoted(asyncio.run(tool.answer(ToolCall("c1", "sql", json.dumps({"query": query})))))


def make(path: Path) -> Path:
    """A small database, of SQLite or DuckDB by the name."""
    connect = duckdb.connect if path.suffix == ".duckdb" else sqlite3.connect
    with closing(connect(str(path))) as made:
        if path.suffix != ".duckdb":
            made.execute("PRAGMA synchronous = OFF")
        made.execute("CREATE TABLE city (name VARCHAR, people INTEGER)")
        made.execute("INSERT INTO city VALUES ('Beijing', 21), ('北京', 22)")
        made.commit()
    return path


@pytest.fixture(params=["sqlite", pytest.param("duckdb", marks=pytest.mark.slow)])
def database(request, tmp_path) -> Path:
    """Both kinds."""
    return make(tmp_path / f"cities.{request.param}")


@pytest.fixture
def sqlite(tmp_path) -> Path:
    """A SQLite file; beside it lies another one with a secret."""
    with closing(sqlite3.connect(tmp_path / "secret.db")) as other:
        other.execute("PRAGMA synchronous = OFF")
        other.execute("CREATE TABLE secret AS SELECT 'the secret outside' AS word")
        other.commit()
    return make(tmp_path / "cities.sqlite")


def test_a_query_brings_columns_and_rows(database):
    """As data; the tables stand in the description."""
    tool = sql(database)

    assert asked(tool, "SELECT name, people FROM city ORDER BY people").value == {
        "columns": ["name", "people"],
        "rows": [["Beijing", 21], ["北京", 22]],
    }
    assert "CREATE TABLE city" in tool.spec.description
    assert "It can only be read." in tool.spec.description


def test_rows_and_values_are_bounded(database):
    """The first rows, the beginning of a long text, the size of bytes."""
    tool = sql(database, most_rows=3)
    many = asked(tool, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i FROM n")
    assert (many.value["rows"], many.value["more"]) == ([[1], [2], [3]], "only the first 3 rows are shown")

    long = "replace(hex(zeroblob(5000)), '00', 'x')" if database.suffix == ".sqlite" else "repeat('x', 5000)"
    ((text, data),) = asked(tool, f"SELECT {long}, CAST('abc' AS BLOB)").value["rows"]
    assert text == "x" * 1000 + "… (5,000 characters)"
    assert data == "<3 bytes>"


def test_mistakes_are_told(database):
    """The database's own words go back to the model."""
    assert "nothing" in asked(sql(database), "SELECT * FROM nothing").content
    assert asked(sql(database), "SELEC 1").status == "error"
    assert asked(sql(database), "").status == "error"


WRITES = [
    "INSERT INTO city VALUES ('x', 1)", "UPDATE city SET people = 0", "DELETE FROM city", "DROP TABLE city",
    "CREATE TABLE x (a INTEGER)", "CREATE TEMP TABLE x (a INTEGER)", "ALTER TABLE city ADD COLUMN x INTEGER",
    "CREATE VIEW v AS SELECT 1", "CREATE INDEX i ON city (name)", "VACUUM", "BEGIN IMMEDIATE",
    "SELECT 1; DROP TABLE city", "WITH x AS (SELECT 1) DELETE FROM city", "EXPLAIN ANALYZE DELETE FROM city",
    "INSERT INTO city SELECT * FROM city RETURNING name",
]  # fmt: skip


@pytest.mark.parametrize("query", WRITES)
def test_nothing_is_written(database, query):
    """Whatever is tried, the file stays byte for byte the same."""
    tool, before = sql(database), hashlib.sha256(database.read_bytes()).hexdigest()
    result = asked(tool, query)

    assert hashlib.sha256(database.read_bytes()).hexdigest() == before
    assert result.status == "error" or query in ("BEGIN IMMEDIATE", "VACUUM") or "TEMP" in query
    assert asked(tool, "SELECT count(*) FROM city").value["rows"] == [[2]]


SQLITE_WAYS = [
    "ATTACH DATABASE '{folder}/secret.db' AS other", "ATTACH 'file:{folder}/secret.db?mode=rw' AS other",
    "ATTACH ':memory:' AS other", "DETACH DATABASE main", "VACUUM INTO '{folder}/copy.db'",
    "SELECT load_extension('{folder}/x')", "SELECT readfile('{folder}/secret.db')",
    "SELECT writefile('{folder}/made', 'x')", "SELECT fts3_tokenizer('simple')", "SELECT edit('x', 'sh')",
    "PRAGMA writable_schema = 1", "PRAGMA journal_mode = DELETE", "PRAGMA temp_store_directory = '{folder}'",
    "PRAGMA query_only = 0", "PRAGMA trusted_schema = 1", "PRAGMA database_list", "PRAGMA main.key = 'x'",
    "SELECT * FROM pragma_database_list", "SELECT * FROM pragma_compile_options", "PRAGMA mmap_size = 999999999999",
    "CREATE VIRTUAL TABLE v USING csv(filename='{folder}/secret.db')", "SELECT * FROM other.secret",
]  # fmt: skip


@pytest.mark.parametrize("query", SQLITE_WAYS)
@pytest.mark.parametrize("write", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_way_out_of_sqlite(sqlite, query, write):
    """No other file, no extension, no switch of the engine, also where the database itself may be changed."""
    tool = sql(sqlite, write=write).replace(approve=False)
    before = sorted(each.name for each in sqlite.parent.iterdir())
    result = asked(tool, query.format(folder=sqlite.parent))

    assert result.status == "error"
    assert sorted(each.name for each in sqlite.parent.iterdir() if "-journal" not in each.name) == before


DUCKDB_WAYS = [
    "SELECT * FROM '{folder}/secret.csv'", "SELECT * FROM read_csv('{folder}/secret.csv')", "SELECT * FROM glob('/*')",
    "SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_blob('/etc/passwd')", "SELECT getenv('HOME')",
    "ATTACH '{folder}/other.duckdb'", "ATTACH ':memory:' AS m", "ATTACH 'sqlite:{folder}/secret.db'",
    "COPY city TO '{folder}/copy.csv'", "COPY (SELECT 1) TO '{folder}/copy.csv'", "EXPORT DATABASE '{folder}/all'",
    "IMPORT DATABASE '{folder}/all'", "INSTALL httpfs", "LOAD httpfs", "LOAD '{folder}/x.duckdb_extension'",
    "SET enable_external_access = true", "RESET enable_external_access", "SET memory_limit = '100GB'",
    "SET lock_configuration = false", "PRAGMA enable_external_access", "SET temp_directory = '{folder}'",
    "SELECT * FROM read_json('https://example.org/x.json')", "SELECT 1; SELECT 2", "SET secret_directory = '/tmp'",
    "CREATE SECRET s (TYPE s3, KEY_ID 'x')", "SELECT * FROM read_parquet('s3://bucket/x')", "PRAGMA enable_profiling",
    "SET profiling_output = '{folder}/made'", "SET log_query_path = '{folder}/made'",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("query", DUCKDB_WAYS)
def test_no_way_out_of_duckdb(tmp_path, query):
    """No file, no network, no extension, no setting."""
    (tmp_path / "secret.csv").write_text("word\nthe secret outside\n")
    tool = sql(make(tmp_path / "cities.duckdb"))
    before = sorted(each.name for each in tmp_path.iterdir())
    result = asked(tool, query.format(folder=tmp_path))

    assert result.status == "error" or query == "PRAGMA enable_profiling"
    assert "the secret" not in result.content
    assert sorted(each.name for each in tmp_path.iterdir()) == before


HEAVY = [
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "SELECT count(*) FROM city a, city b, city c, city d, city e, city f, city g, city h, city i, city j, city k, city l, "
    "city m, city n, city o, city p, city q, city r, city s, city t, city u, city v, city w, city x, city y, city z",
]


@pytest.mark.slow
@pytest.mark.parametrize("query", HEAVY)
def test_a_query_without_end_is_stopped(database, query):
    """Given up by the run's time-out, the engine stops working too."""
    result = asked(sql(database).replace(timeout=0.3), query)
    assert result.status in ("timeout", "ok")

    time.sleep(0.3)
    began = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - began < 0.3


@pytest.mark.parametrize(
    "query",
    ["SELECT zeroblob(2000000000)", "SELECT hex(randomblob(900000000))", "SELECT printf('%.*c', 2000000000, 'x')"],
)
def test_a_huge_value_is_refused(sqlite, query):
    """Ten megabytes are the most for one value."""
    result = asked(sql(sqlite), query)

    assert result.status == "error" or result.value["rows"] in ([[None]], [[""]])


def test_writing_asks_and_is_kept(database):
    """With `write=True` a person is asked; what is written stays."""
    tool = sql(database, write=True)
    assert tool.spec.approve

    assert asked(tool, "INSERT INTO city VALUES ('Rome', 3)").status == "ok"
    assert asked(sql(database), "SELECT count(*) FROM city").value["rows"] == [[3]]


def test_what_is_no_database_is_refused(tmp_path):
    """A missing file, or another kind."""
    (tmp_path / "notes.txt").write_text("not a database at all")
    with pytest.raises(ToolDefinitionError, match="no SQLite or DuckDB file"):
        sql(tmp_path / "notes.txt")
    with pytest.raises(ToolDefinitionError, match="there is no database file"):
        sql(tmp_path / "nothing.db")


def test_any_character_may_be_in_the_path(tmp_path):
    """Also those that mean something in an address."""
    path = make(tmp_path / "a?mode=rw&b#c %41.sqlite")

    assert asked(sql(path), "SELECT count(*) FROM city").value["rows"] == [[2]]
    assert asked(sql(path), "DELETE FROM city").status == "error"
