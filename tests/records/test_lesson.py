"""A lesson to hand out: one notebook that carries its recordings, the same each time, without secrets."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import nbformat
import pytest
import remake_notebooks
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb import Agent, recording
from agentnb.__main__ import main
from agentnb.errors import RecordingError, UsageError
from agentnb.records.lesson import TAG, make_lesson, unpack

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
OPEN = "%load_ext agentnb\n%agent recording recordings/mine.jsonl"
OFFLINE = """import sys
def watch(event, given):
    if event in ("socket.getaddrinfo", "socket.connect") and "127.0.0.1" not in str(given):
        raise OSError(f"no network in this test: {event} {given}")
sys.addaudithook(watch)"""


def notebook(folder, *sources, **about):
    """A notebook of these code cells below a title, in a folder that has a recording."""
    cells = [nbformat.v4.new_code_cell(source, id=f"c{number}") for number, source in enumerate(sources)]
    title = nbformat.v4.new_markdown_cell("# A lesson\n[next](next.ipynb) [home](https://a.example)", id="title")
    path = folder / "mine.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[title, *cells], metadata=about), path)
    return path


def recorded(folder, reply="It's 4."):
    """A recording with one reply."""
    path = folder / "recordings" / "mine.jsonl"
    path.parent.mkdir(exist_ok=True)
    with recording(path):
        Agent(lambda request: reply).run("2 + 2?")
    return path


def carried(text):
    """What the lesson's own cell would unpack: names and texts."""
    [cell] = [cell for cell in json.loads(text)["cells"] if TAG in cell["metadata"].get("tags", ())]
    found = [node for node in ast.walk(ast.parse("".join(cell["source"]))) if isinstance(node, ast.Call)]
    return [tuple(ast.literal_eval(argument) for argument in call.args) for call in found]


def test_it_carries_the_recording(tmp_path):
    """Before the first code cell stands one that holds the recording, as text."""
    path, kept = notebook(tmp_path, OPEN, "1 + 1"), recorded(tmp_path)
    made = make_lesson(path)
    cells = json.loads(made.text)["cells"]

    assert made.recordings == ("recordings/mine.jsonl",)
    assert [cell["cell_type"] for cell in cells] == ["markdown", "markdown", "code", "code", "code"]
    assert cells[2]["metadata"]["jupyter"] == {"source_hidden": True}
    assert carried(made.text) == [("recordings/mine.jsonl", "\n" + kept.read_text("utf-8"))]
    nbformat.validate(nbformat.reads(made.text, as_version=4))


@pytest.mark.parametrize("name", ["a lesson.jsonl", "it's.jsonl", "recordings/mine.jsonl", "../up.jsonl"])
def test_a_name_between_quotes_is_found(tmp_path, name):
    """Spaces, a quote of the other kind, and a folder above belong to the name."""
    folder = tmp_path / "sub"
    folder.mkdir()
    kept = recorded(folder)
    (folder / name).write_bytes(kept.read_bytes())

    assert make_lesson(notebook(folder, f'with recording("{name}"):\n    pass')).recordings == (name,)


def test_long_words_are_no_files(tmp_path):
    """Code may hold a word that no file can be called."""
    assert make_lesson(notebook(tmp_path, f"x = '{'a' * 5000}.png'\ny = 'a\0b.png'")).recordings == ()


def test_made_again_it_is_the_same(tmp_path):
    """The same notebook and recording make the same bytes."""
    path = notebook(tmp_path, OPEN)
    recorded(tmp_path)

    assert make_lesson(path).text == make_lesson(path).text


@given(st.text(max_size=40), st.sampled_from(["", "'''", "\\'''", "\\", "\u2028", "\N{PILE OF POO}"]))
@settings(max_examples=40, deadline=None)
def test_any_reply_survives(said, more):
    """Quotes, backslashes and strange line ends in a reply come out of the cell as they went in."""
    from agentnb.records.lesson import _cells

    line = json.dumps({"reply": said + more}, ensure_ascii=False).encode("utf-8", "replace").decode()
    [_, cell] = _cells({"a.jsonl": line}, ids=True)
    [(_, text)] = carried(json.dumps({"cells": [cell]}))

    assert json.loads(text) == json.loads(line)


def test_unpacking_keeps_what_is_there(tmp_path, monkeypatch):
    """A file of this name gains the lines that it lacks, and a second time none."""
    monkeypatch.chdir(tmp_path)
    Path("recordings").mkdir()
    there = Path("recordings/mine.jsonl")
    there.write_text('{"a": 1}\n{"mine": 2}', "utf-8")

    for _ in range(2):
        unpack("recordings/mine.jsonl", '\n{"a": 1}\n{"b": 3}\n')

    assert there.read_text("utf-8") == '{"a": 1}\n{"mine": 2}\n{"b": 3}\n'


def test_the_unpacked_recording_answers(tmp_path, monkeypatch):
    """In another folder the replay finds its reply."""
    path = notebook(tmp_path, OPEN)
    recorded(tmp_path, reply="'''Four''' \\ it is.")
    [(name, text)] = carried(make_lesson(path).text)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    unpack(name, text)

    with recording(name, mode="replay"):
        assert Agent(lambda request: "asked!").run("2 + 2?").answer == "'''Four''' \\ it is."


def test_a_folder_that_can_not_be_written_is_told(tmp_path, monkeypatch):
    """Where nothing can be written, the error says what to do."""
    monkeypatch.chdir(tmp_path)
    Path("recordings").write_text("a file, where a folder should be")

    with pytest.raises(RecordingError, match=r"mine.jsonl can't be written: .*a folder of your own"):
        unpack("recordings/mine.jsonl", '{"a": 1}')


def test_a_key_is_refused(tmp_path, monkeypatch):
    """A lesson with a key, known from the settings or by its looks, is not made; the text names the cell, not the key."""
    monkeypatch.setenv("OPENAI_API_KEY", "the-secret-of-a-person")
    for source in ("key = 'the-secret-of-a-person'", "key = 'sk-proj-abcdefghijklmnop0123'"):
        with pytest.raises(UsageError, match="a key in cell 3") as caught:
            make_lesson(notebook(tmp_path, "1 + 1", source))
        assert "secret-of" not in str(caught.value)
        assert "abcdefgh" not in str(caught.value)


def test_an_absolute_path_is_refused(tmp_path):
    """A recording that only this machine has by that name would not be found elsewhere."""
    kept = recorded(tmp_path)

    with pytest.raises(UsageError, match="which no other machine has"):
        make_lesson(notebook(tmp_path, f"%agent recording {kept}"))


def test_a_damaged_recording_is_refused(tmp_path):
    """What can't be replayed is not handed out."""
    path, kept = notebook(tmp_path, OPEN), recorded(tmp_path)
    kept.write_text(kept.read_text("utf-8") + "not JSON\n", "utf-8")

    with pytest.raises(RecordingError, match="can't be read"):
        make_lesson(path)


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"cells": [{}], "metadata": {}}', '{"cells": 1, "metadata": {}}'])
def test_what_is_no_notebook_is_refused(tmp_path, text):
    """The error says so, whatever the file holds."""
    path = tmp_path / "mine.ipynb"
    path.write_text(text)

    with pytest.raises(UsageError, match="it is no notebook"):
        make_lesson(path)


def test_a_lesson_is_not_made_of_a_lesson(tmp_path):
    """Its source is what is changed and made again."""
    made = tmp_path / "made.ipynb"
    made.write_text(make_lesson(notebook(tmp_path, "1 + 1")).text, "utf-8")

    with pytest.raises(UsageError, match="is a lesson already"):
        make_lesson(made)


def test_widget_state_stays_behind(tmp_path):
    """Dead widgets are not handed out."""
    made = make_lesson(notebook(tmp_path, "1 + 1", widgets={"state": {}}))

    assert "widgets" not in json.loads(made.text)["metadata"]
    assert made.recordings == ()


def test_the_command(tmp_path, monkeypatch, capsys):
    """It says what is inside and what is not, writes its own file again, and overwrites no other."""
    path = notebook(tmp_path, OPEN, "open('data.csv')")
    recorded(tmp_path)
    (tmp_path / "data.csv").write_text("a,b")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)

    assert [main(["lesson", str(path), "-o", "out"]) for _ in range(2)] == [0, 0]
    shown = capsys.readouterr().out
    assert "carries recordings/mine.jsonl\nleft out, but named in it: data.csv, next.ipynb\n" in shown
    assert main(["lesson", str(path), "-o", str(path)]) == 2
    assert "is there, and is no lesson" in capsys.readouterr().err
    assert Path("out", "mine.lesson.ipynb").read_text("utf-8") == make_lesson(path).text


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["00_start_here", "01_one_model_call"])
def test_a_lesson_runs_in_an_empty_folder(tmp_path, name):
    """In a real kernel, with no other file, no weights, no key and no network, each output is what it was."""
    source = remake_notebooks.read(NOTEBOOKS / f"{name}.ipynb")
    lesson = nbformat.reads(make_lesson(NOTEBOOKS / f"{name}.ipynb").text, as_version=4)
    lesson.cells.insert(0, nbformat.v4.new_code_cell(OFFLINE))
    folder = tmp_path / "fresh"
    folder.mkdir()

    remake_notebooks.execute(lesson, folder, {"AGENTNB_CACHE": str(tmp_path)}, seconds=60)
    remake_notebooks.tidy(lesson)
    shown = [_said(cell) for cell in lesson.cells if cell.cell_type == "code"]

    assert shown[2:] == [_said(cell) for cell in source.cells if cell.cell_type == "code"]
    assert [path.name for path in folder.rglob("*.*")] == [f"{name}.jsonl"]


def _said(cell):
    """The outputs of a cell but for its number and its pictures."""
    kept = ("text", "evalue", "data")
    told = [{part: output[part] for part in kept if part in output} for output in cell.outputs]
    return [{**each, "data": {**each.get("data", {}), "image/png": ""}} for each in told]
