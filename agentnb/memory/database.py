"""One SQLite file that several threads, kernels and processes share without losing or damaging anything.

Write-ahead logging lets readers go on while one writes; writers queue for up to 30 seconds. A change is one
transaction: it is there whole or not at all, whatever ends the process. Keep the file on a local disk, since
write-ahead logging does not work on network drives.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agentnb.errors import AgentnbError

WAIT_SECONDS = 30.0
OURS = 0x61676E62
"""The application id of our files: "agnb"."""
VERSION = 1
_LOG_BYTES = 8_000_000
_inherited: list[sqlite3.Connection] = []
"""Connections of a parent process: SQLite forbids a child to use or close them."""


class Database:
    """A file and this process's one connection to it, opened on first use and after a fork.

    Args:
        path: Made with its tables when it is not there; ":memory:" lives as long as this object.
        schema: The statements that make the tables; each can be run again without harm.
    """

    def __init__(self, path: str | Path, schema: Sequence[str]) -> None:
        self.path = str(path)
        if self.path != ":memory:":
            self.path = str(Path(path).expanduser().absolute())
        self.schema = tuple(schema)
        self._forget_connection()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Every row that the query finds.

        Raises:
            AgentnbError: The file can't be read; the error says why.
        """
        with self._open() as connection:
            return connection.execute(sql, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other process writes beside: kept when the block ends, undone when it raises.

        Raises:
            AgentnbError: The file can't be written, or others held it for longer than 30 seconds.
        """
        with self._open() as connection, _transaction(connection):
            yield connection

    def state(self) -> tuple[int, int]:
        """A value that changes when anyone, here or elsewhere, has changed the file."""
        with self._open() as connection:
            return connection.execute("PRAGMA data_version").fetchone()[0], connection.total_changes

    def close(self) -> None:
        """Close the file; it is opened again when it is needed."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._forget_connection()

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _forget_connection(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if self._pid != os.getpid():
            if self._connection is not None:
                _inherited.append(self._connection)
            self._forget_connection()
        with self._lock:
            try:
                self._connection = self._connection or self._connected()
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                raise self._told(error) from error

    def _connected(self) -> sqlite3.Connection:
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # what is remembered is its owner's alone
        connection = sqlite3.connect(self.path, WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._check_owner(connection)
            _write_ahead(connection)
            self._make_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_owner(self, connection: sqlite3.Connection) -> None:
        """Refuse a file of another program, or of a later version of this one."""
        with _transaction(connection, "BEGIN"):  # one view of the file, which another process may just be making
            owner, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _MARKS)
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and owner != OURS:
            raise AgentnbError(f"{self.path} belongs to another program", layer="memory", remedy="Name another file.")
        if version > VERSION:
            remedy = "Update agentnb, or name another file."
            raise AgentnbError(f"{self.path} was made by a later version of agentnb", layer="memory", remedy=remedy)

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        with _transaction(connection):
            for statement in (f"PRAGMA application_id={OURS}", f"PRAGMA user_version={VERSION}", *self.schema):
                connection.execute(statement)

    def _told(self, error: Exception) -> AgentnbError:
        said = str(error)
        if "locked" in said:
            remedy = f"Another process has written to it for {WAIT_SECONDS:g} seconds: try again, or stop that one."
        elif "not a database" in said or "malformed" in said:
            remedy = "It is no database, or damaged: name another file, or bring back a copy of it."
        else:
            remedy = "Check that the folder exists, can be written and has room."
        return AgentnbError(f"{self.path}: {said}", layer="memory", remedy=remedy)

    def __getstate__(self) -> tuple[str, tuple[str, ...]]:
        return self.path, self.schema

    def __setstate__(self, kept: tuple[str, tuple[str, ...]]) -> None:
        self.__init__(*kept)  # type: ignore[misc]  # a pickle opens the file anew

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


_MARKS = ("application_id", "user_version")


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turn write-ahead logging on; SQLite does not wait by itself when another process is just doing the same."""
    last = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > last:
                raise
            time.sleep(0.01)
