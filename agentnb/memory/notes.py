"""Long-term notes: what a person, a model or a run leaves for later runs, in one SQLite file that people can read.

    notes = Notes("notes.db", project="weather")
    agent = Agent(tools=[*notes.tools()], middleware=[notes.middleware()])

    a run ends ──keep──▶ its summary is a note ──context──▶ stands before the goal of the next run
    the model  ──remember / recall──▶ notes               a person  ──add / edit / forget / list

A Notes object sees the notes of its project and agent, and those that belong to none; what it writes belongs to its
own. What a person wrote is told to a model as it is; what models and runs wrote is marked as data.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.memory import reminding
from agentnb.memory.database import Database
from agentnb.memory.summary import extract, material, summarise
from agentnb.memory.table import Shown
from agentnb.memory.words import WordIndex, match_query, terms
from agentnb.models.named import to_model
from agentnb.text import counted, shorten
from agentnb.tools.quoted import readable
from agentnb.tools.tool import Tool

MOST_CHARACTERS = 2_000
"""Of one note."""
_WORDS = WordIndex("note_words", text=1.0)
_FIELDS = "notes.id, notes.text, notes.author, notes.project, notes.agent, notes.changed"
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, "
    "agent TEXT NOT NULL, author TEXT NOT NULL, text TEXT NOT NULL, changed REAL NOT NULL, goal TEXT, material TEXT)",
    "CREATE UNIQUE INDEX IF NOT EXISTS notes_by_goal ON notes (project, agent, goal)",
    _WORDS.schema,
)
_IN_SCOPE = "notes.project IN ('', ?) AND notes.agent IN ('', ?)"


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to remember."""

    id: int
    text: str
    author: str
    """"user" (a person wrote or changed it), "model" (it called `remember`) or "run" (the summary of one)."""
    project: str
    """"" belongs to every project."""
    agent: str
    """"" belongs to every agent."""
    changed: float
    """Seconds since 1970."""


class Notes(Shown):
    """The notes of one project and agent, in a file that others may use at the same time.

    Args:
        path: The SQLite file; made when it is not there, and readable by its owner alone.
        project: Keeps the notes of one piece of work together; "" writes notes for all.
        agent: The same for one agent, such as its name.
        most: How many notes a project and agent may have; the oldest of runs, then of models, make room. Those of
            people stay.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        path: str | Path = "notes.db",
        project: str = "",
        agent: str = "",
        *,
        most: int = 1_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.project = project
        self.agent = agent
        self.most = most
        self.clock = clock
        self.database = Database(path, _SCHEMA)

    # ── what a person does ───────────────────────────────────────────────────────────────────────────────────────

    def add(self, text: str) -> Note:
        """Keep a note; one that is already there is given back.

        Raises:
            UsageError: It is empty, longer than 2,000 characters, or there is no room left.
        """
        return self._put(text, "user")

    def edit(self, note_id: int, text: str) -> Note:
        """Change the text of a note, of whatever project; from then on it is the person's.

        Raises:
            UsageError: There is no such note, or the text can't be kept.
        """
        text = _checked(text)
        with self.database.writing() as connection:
            old = _one(connection, note_id)
            _rewrite(connection, old, text)
            connection.execute(
                "UPDATE notes SET author='user', goal=NULL, material=NULL, changed=? WHERE id=?", (self.clock(), old.id)
            )
            return _one(connection, note_id)

    def forget(self, *note_ids: int) -> None:
        """Delete notes, of whatever project.

        Raises:
            UsageError: There is no such note; then none is deleted.
        """
        with self.database.writing() as connection:
            for note_id in note_ids:
                _remove(connection, _one(connection, note_id))

    def list(self, everywhere: bool = False) -> tuple[Note, ...]:
        """The notes that this project and agent see, oldest first; or all in the file."""
        where, values = ("1", ()) if everywhere else (_IN_SCOPE, (self.project, self.agent))
        return _notes(self.database.rows(f"SELECT {_FIELDS} FROM notes WHERE {where} ORDER BY id", values))

    def search(self, query: str, k: int = 5) -> tuple[Note, ...]:
        """The notes in sight that have words of the query, the best first."""
        match = match_query(terms(query))
        if not match:
            return ()
        found = self.database.rows(
            f"SELECT {_FIELDS} FROM note_words JOIN notes ON notes.id = note_words.rowid "
            f"WHERE note_words MATCH ? AND {_IN_SCOPE} ORDER BY rank, notes.id LIMIT ?",
            (match, self.project, self.agent, k),
        )
        return _notes(found)

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    # ── what agents do ───────────────────────────────────────────────────────────────────────────────────────────

    def tools(self) -> tuple[Tool, Tool]:
        """`remember` and `recall` for an agent's `tools=`; `remember.replace(approve=True)` asks a person first."""
        return reminding.remember_tool(self), reminding.recall_tool(self)

    def middleware(self, model: Any = None, most_chars: int = 2_000) -> reminding.Reminder:
        """For an agent's `middleware=`: notes stand before the goal of each new run, and each run leaves its summary.

        Args:
            model: Rewrites the summaries, when the next run begins; a name or a Model. None keeps the extracts.
            most_chars: Bounds what stands before the goal.
        """
        return reminding.Reminder(self, None if model is None else to_model(model), most_chars)

    def remember(self, text: str) -> Note:
        """Keep a note as a model's: later runs read it as data. Raises what `add` raises."""
        return self._put(text, "model")

    def keep(self, run: State) -> Note:
        """Keep the summary of a run, extracted without a model; an earlier one for the same goal is replaced."""
        goal = hashlib.blake2b(run.goal.encode(), digest_size=16).hexdigest()
        text = _checked(extract(run))
        with self.database.writing() as connection:
            row = (self.project, self.agent, goal)
            for old in connection.execute(f"SELECT {_FIELDS} FROM notes WHERE (project, agent, goal)=(?,?,?)", row):
                _remove(connection, Note(*old))
            return self._insert(connection, text, "run", goal, material(run))

    async def summarise(self, model: Any = None) -> int:
        """Let a model rewrite the extracts that were kept since the last time; returns how many were.

        Args:
            model: A name or a Model; None is the default model.

        Raises:
            ModelError: It can't be asked; what it has not rewritten stays as it is.
        """
        scope, asked, rewritten = (self.project, self.agent), to_model(model), 0
        waiting = f"SELECT {_FIELDS}, material FROM notes WHERE material IS NOT NULL AND (project, agent)=(?,?)"
        for *fields, source in self.database.rows(f"{waiting} ORDER BY id", scope):
            old, text = Note(*fields), await summarise(source, asked)
            rewritten += self._replace_extract(old, text or old.text)
        return rewritten

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _put(self, text: str, author: str) -> Note:
        text = _checked(text)
        with self.database.writing() as connection:
            same = connection.execute(
                f"SELECT {_FIELDS} FROM notes WHERE (project, agent, text)=(?,?,?) AND (author=? OR author='user')",
                (self.project, self.agent, text, author),
            ).fetchone()
            return Note(*same) if same else self._insert(connection, text, author)

    def _insert(
        self, connection: sqlite3.Connection, text: str, author: str, goal: str | None = None, source: str | None = None
    ) -> Note:
        self._make_room(connection)
        values = (self.project, self.agent, author, text, self.clock(), goal, source)
        sql = "INSERT INTO notes (project, agent, author, text, changed, goal, material) VALUES (?,?,?,?,?,?,?)"
        row = connection.execute(sql, values).lastrowid or 0
        _WORDS.add(connection, row, text)
        return _one(connection, row)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        scope = (self.project, self.agent)
        where = "WHERE (project, agent)=(?,?)"
        over = connection.execute(f"SELECT count(*) FROM notes {where}", scope).fetchone()[0] + 1 - self.most
        oldest = (
            f"SELECT {_FIELDS} FROM notes {where} AND author != 'user' ORDER BY author != 'run', changed, id LIMIT ?"
        )
        gone = connection.execute(oldest, (*scope, over)).fetchall() if over > 0 else []
        if len(gone) < over:
            what = f"there is no room: people's own notes fill all {self.most:,} places"
            raise UsageError(what, layer="memory", remedy="notes.forget(id) makes room, or Notes(most=...).")
        for old in gone:
            _remove(connection, Note(*old))

    def _replace_extract(self, old: Note, text: str) -> bool:
        """Put a model's summary in the place of the extract, unless someone has changed it meanwhile."""
        with self.database.writing() as connection:
            same = "SELECT 1 FROM notes WHERE id=? AND changed=? AND material IS NOT NULL"
            if not connection.execute(same, (old.id, old.changed)).fetchone():
                return False
            _rewrite(connection, old, text)
            connection.execute("UPDATE notes SET material=NULL WHERE id=?", (old.id,))
            return text != old.text

    # ── as a value ───────────────────────────────────────────────────────────────────────────────────────────────

    def __iter__(self) -> Iterator[Note]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self.list())

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Notes:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Notes({Path(self.database.path).name!r}, project={self.project!r}, agent={self.agent!r})"

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[Any]], int]:
        seen, all_notes = self.list(), len(self.list(everywhere=True))
        others = f", {all_notes - len(seen):,} of other projects and agents" if all_notes > len(seen) else ""
        title = f"{counted(len(seen), 'note')} in {Path(self.database.path).name}{others}"
        rows = ((each.id, each.author, each.project, each.agent, each.text) for each in reversed(seen))
        return title, ("id", "author", "project", "agent", "text"), rows, len(seen)


def _checked(text: str) -> str:
    """The text as it is kept.

    Raises:
        UsageError: It is no text, empty or too long.
    """
    if not isinstance(text, str) or not (kept := readable(text).strip()):
        raise UsageError(f"a note is some text, not {shorten(repr(text))}", layer="memory", remedy="notes.add('...')")
    if len(kept) > MOST_CHARACTERS:
        what = f"the note has {len(kept):,} characters, at most {MOST_CHARACTERS:,} are kept"
        raise UsageError(what, layer="memory", remedy="Say it shorter, or in several notes.")
    return kept


def _notes(rows: Iterable[Sequence[Any]]) -> tuple[Note, ...]:
    return tuple(Note(*row) for row in rows)


def _one(connection: sqlite3.Connection, note_id: int) -> Note:
    row = connection.execute(f"SELECT {_FIELDS} FROM notes WHERE id=?", (note_id,)).fetchone()
    if row is None:
        raise UsageError(f"there is no note {note_id!r}", layer="memory", remedy="notes.list() shows them.")
    return Note(*row)


def _rewrite(connection: sqlite3.Connection, old: Note, text: str) -> None:
    _WORDS.remove(connection, old.id, old.text)
    _WORDS.add(connection, old.id, text)
    connection.execute("UPDATE notes SET text=? WHERE id=?", (text, old.id))


def _remove(connection: sqlite3.Connection, old: Note) -> None:
    _WORDS.remove(connection, old.id, old.text)
    connection.execute("DELETE FROM notes WHERE id=?", (old.id,))
