"""One file for several threads, forks and processes: nothing is lost, whatever ends them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentnb.errors import AgentnbError
from agentnb.memory.database import Database
from agentnb.memory.knowledge import Knowledge
from agentnb.memory.notes import Notes

WRITER = """
import sys
from agentnb.memory.notes import Notes
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
notes = Notes(path, most=100_000)
for number in range(count):
    notes.add(f"{name} {number}")
    print(number, flush=True)
"""
"""Waits for a line, then adds notes and tells of each that is kept."""
INDEXER = """
import sys
from agentnb.memory.knowledge import Knowledge
print("ready", flush=True)
sys.stdin.readline()
knowledge = Knowledge(sys.argv[1])
for number in range(10_000):
    knowledge.add({"one": f"version{number} " * 300, f"d{number}": f"# H\\n\\nbody{number}"})
    print(number, flush=True)
"""
"""The same for documents, one of them changed again and again."""
ONE_TABLE = ("CREATE TABLE IF NOT EXISTS things (name TEXT)",)


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another Python, ready to begin."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    """Let it begin."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def is_sound(path: Path) -> bool:
    """Whether SQLite finds no damage, in the tables and in the index of words."""
    connection = sqlite3.connect(path)
    whole = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%USING fts5%'").fetchall():
        connection.execute(f"INSERT INTO {name}({name}) VALUES ('integrity-check')")
    connection.close()
    return whole


@pytest.mark.slow
def test_six_processes_make_and_fill_one_file(tmp_path):
    """They begin at the same moment, none fails, every note is there and is found."""
    path = tmp_path / "notes.db"
    writers = [start(WRITER, path, f"writer{number}", 50) for number in range(6)]
    for each in writers:
        go(each)
    for each in writers:
        each.communicate(timeout=100)

    assert [each.returncode for each in writers] == [0] * 6
    assert {note.text for note in Notes(path).list()} == {f"writer{name} {n}" for name in range(6) for n in range(50)}
    assert len(Notes(path).search("writer3", 99)) == 50
    assert is_sound(path)


@pytest.mark.slow
def test_a_killed_writer_loses_nothing(tmp_path):
    """SIGKILL in the middle of writing, while another writes on: what was kept is there, the file is sound."""
    path = tmp_path / "notes.db"
    other = start(WRITER, path, "other", 100)
    go(other)
    kept = {}
    for round_ in range(5):
        victim = start(WRITER, path, f"victim{round_}", 100_000)
        go(victim)
        told = [victim.stdout.readline() for _ in range(5 + 3 * round_)]
        victim.send_signal(signal.SIGKILL)
        rest = victim.communicate(timeout=100)[0].split()
        kept[round_] = max(map(int, [*told, *rest]))
    other.communicate(timeout=100)

    texts = {note.text for note in Notes(path).list()}
    assert other.returncode == 0
    assert {f"other {number}" for number in range(100)} <= texts
    for round_, last in kept.items():
        assert {f"victim{round_} {number}" for number in range(last + 1)} <= texts
    assert is_sound(path)


@pytest.mark.slow
def test_a_killed_indexer_leaves_whole_documents(tmp_path):
    """A document is in the index in one version, whole, or not at all."""
    path = tmp_path / "k.db"
    for _ in range(3):
        victim = start(INDEXER, path)
        go(victim)
        for _ in range(8):
            victim.stdout.readline()
        victim.send_signal(signal.SIGKILL)
        victim.communicate(timeout=100)

    assert is_sound(path)
    with Knowledge(path) as knowledge:
        texts = {hit.text.split()[0] for hit in knowledge.search("one", 99) if hit.source == "one"}
        assert len(texts) == 1
        number = texts.pop().removeprefix("version")
        assert knowledge.search(f"body{number}")[0].source == f"d{number}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.slow
def test_a_forked_process_opens_the_file_anew(tmp_path):
    """A child never uses its parent's connection; both write."""
    notes = Notes(tmp_path / "n.db")
    notes.add("parent")
    child = os.fork()
    if child == 0:
        notes.add("child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    notes.add("parent again")

    assert [note.text for note in notes.list()] == ["parent", "child", "parent again"]


def test_threads_share_one_object(tmp_path):
    """Tools run in threads of their own."""
    notes = Notes(tmp_path / "n.db")
    threads = [threading.Thread(target=notes.add, args=(f"note {number}",)) for number in range(12)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(notes) == 12


def test_what_fails_is_undone(tmp_path):
    """A change is whole or not there, also when it is interrupted."""
    database = Database(tmp_path / "d.db", ONE_TABLE)
    with pytest.raises(KeyboardInterrupt), database.writing() as connection:
        connection.execute("INSERT INTO things VALUES ('half')")
        raise KeyboardInterrupt

    assert database.rows("SELECT * FROM things") == []
    with database.writing() as connection:
        connection.execute("INSERT INTO things VALUES ('whole')")
    assert database.rows("SELECT * FROM things") == [("whole",)]


def test_a_reader_does_not_wait_for_a_writer(tmp_path):
    """While one writes, others read what was there before."""
    one, two = Database(tmp_path / "d.db", ONE_TABLE), Database(tmp_path / "d.db", ONE_TABLE)
    two.rows("SELECT * FROM things")
    with one.writing() as connection:
        connection.execute("INSERT INTO things VALUES ('new')")
        assert two.rows("SELECT * FROM things") == []
    assert two.rows("SELECT * FROM things") == [("new",)]


def test_a_file_of_another_program_is_left_alone(tmp_path):
    """A database of something else is refused, and not one byte of it changes."""
    path = tmp_path / "app.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customers (name)")
    connection.commit()
    connection.close()
    before = path.read_bytes()

    with pytest.raises(AgentnbError, match="belongs to another program"):
        Notes(path).list()
    assert path.read_bytes() == before


def test_a_file_of_a_later_version_is_left_alone(tmp_path):
    """What this version does not know it does not touch."""
    Notes(tmp_path / "n.db").add("kept")
    connection = sqlite3.connect(tmp_path / "n.db")
    connection.execute("PRAGMA user_version=99")
    connection.close()

    with pytest.raises(AgentnbError, match="later version"):
        Notes(tmp_path / "n.db").list()


def test_a_damaged_file_is_told(tmp_path):
    """Not an empty list: an error with the way on."""
    notes = Notes(tmp_path / "n.db")
    for number in range(3):
        notes.add(f"note {number}")
    notes.close()
    data = bytearray((tmp_path / "n.db").read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    (tmp_path / "n.db").write_bytes(data)

    with pytest.raises(AgentnbError, match="bring back a copy"):
        Notes(tmp_path / "n.db").list()


def test_a_folder_that_can_not_be_made_is_told(tmp_path):
    """The path goes through a file."""
    (tmp_path / "file").write_text("")

    with pytest.raises(AgentnbError, match="Check that the folder"):
        Notes(tmp_path / "file" / "n.db").list()
