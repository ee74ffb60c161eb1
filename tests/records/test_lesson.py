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

KEY = "sk-Zk4Qw8Er7Vy6Uj5Ob3LmNn"
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


def recorded(folder, reply="It's 4.", ask="2 + 2?", anew=False):
    """A recording with one reply."""
    path = folder / "recordings" / "mine.jsonl"
    path.parent.mkdir(exist_ok=True)
    if anew:
        path.unlink()
    with recording(path):
        Agent(lambda request: reply).run(ask)
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


@pytest.mark.parametrize("name", ["a lesson.jsonl", "it's.jsonl", "recordings/mine.jsonl", "recordings/../up.jsonl"])
def test_a_name_between_quotes_is_found(tmp_path, name):
    """Spaces, a quote of the other kind, and folders belong to the name."""
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
    """A recording of this name gains the lines that it lacks, and a second time none."""
    monkeypatch.chdir(tmp_path)
    lesson = recorded(tmp_path).read_text("utf-8")
    there = recorded(tmp_path, ask="2 + 3?", reply="It's 5.", anew=True)
    mine = there.read_text("utf-8")
    there.write_text(mine.removesuffix("\n"), "utf-8")

    for _ in range(2):
        unpack("recordings/mine.jsonl", lesson)

    new = [line for line in lesson.splitlines(keepends=True) if line not in mine]
    assert there.read_text("utf-8") == mine + "".join(new)
    assert len(new) == 2


def test_replies_of_ones_own_stay(tmp_path, monkeypatch, capsys):
    """A student's recording of the same requests is not overruled; a line says how to get the lesson's."""
    monkeypatch.chdir(tmp_path)
    lesson = recorded(tmp_path).read_text("utf-8")
    there = recorded(tmp_path, reply="Mine: 4.", anew=True)
    mine = there.read_bytes()
    unpack("recordings/mine.jsonl", lesson)

    assert there.read_bytes() == mine
    assert capsys.readouterr().out.startswith("recordings/mine.jsonl has other replies and stays as it is; for the")
    there.rename(tmp_path / "own.jsonl")
    unpack("recordings/mine.jsonl", lesson)
    assert there.read_text("utf-8") == lesson


def test_beside_its_original_nothing_is_added(tmp_path, monkeypatch, capsys):
    """However the cell writes the same lines, and though a reply in the file took another's place."""
    monkeypatch.chdir(tmp_path)
    former = recorded(tmp_path, reply="not yet").read_text("utf-8")
    there = recorded(tmp_path, reply="It's '''4'''.", anew=True)
    there.write_text(former + there.read_text("utf-8"), "utf-8")
    before = there.read_bytes()
    for name, text in carried(make_lesson(notebook(tmp_path, OPEN)).text):
        unpack(name, text)

    assert there.read_bytes() == before
    assert not capsys.readouterr().out


def test_half_a_line_is_no_part_of_a_recording(tmp_path, monkeypatch):
    """One that a crash left is not handed out, and makes room where a recording is unpacked."""
    monkeypatch.chdir(tmp_path)
    path, there = notebook(tmp_path, OPEN), recorded(tmp_path)
    whole = there.read_text("utf-8")
    there.write_text(whole + '{"half', "utf-8")
    with pytest.warns(UserWarning, match="half written"):
        [(name, text)] = carried(make_lesson(path).text)
    there.write_text(whole.splitlines(keepends=True)[0] + '{"half', "utf-8")
    with pytest.warns(UserWarning, match="half written"):
        unpack(name, text)

    assert text == "\n" + whole
    assert there.read_text("utf-8") == whole


def test_what_is_no_recording_is_left_alone(tmp_path, monkeypatch):
    """Another file of this name gains no lines; a cell that was changed is told."""
    monkeypatch.chdir(tmp_path)
    Path("mine.jsonl").write_text('{"a": 1}\n')

    with pytest.raises(RecordingError, match="it is not a recording"):
        unpack("mine.jsonl", '{"b": 1}')
    with pytest.raises(RecordingError, match="the cell has been changed"):
        unpack("new.jsonl", "not JSON")
    assert Path("mine.jsonl").read_text() == '{"a": 1}\n'


@pytest.mark.parametrize("name", ["../up.jsonl", "a/../../up.jsonl", "/up.jsonl", "..\\up.jsonl", "C:up.jsonl"])
def test_nothing_is_unpacked_outside_the_folder(name):
    """Whoever made the lesson."""
    with pytest.raises(UsageError, match="lies outside the notebook's folder"):
        unpack(name, '{"a": 1}')


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


PLACED = {
    "below a line": f"key:\n{KEY}",
    "after a tab": f"\t{KEY}",
    "in colours": f"\x1b[31m{KEY}\x1b[0m",
    "in JSON": json.dumps({"body": json.dumps({"content": f"key:\n{KEY}"})}),
    "in a repr": repr(f"key:\n{KEY}"),
    "another service's": KEY.replace("sk-", "nvapi-"),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", PLACED.values(), ids=PLACED)
def test_a_key_is_found_wherever_it_stands(tmp_path, text):
    """In prose, code, an output, and a recording's reply, of which the error names file and line, not the key."""
    recorded(tmp_path)
    output = nbformat.v4.new_output("error", ename="E", evalue="", traceback=["a", text])
    for cell in (
        nbformat.v4.new_markdown_cell(text),
        nbformat.v4.new_code_cell(f"x = '''{text}'''"),
        nbformat.v4.new_code_cell("1", outputs=[output]),
    ):
        path = notebook(tmp_path, OPEN)
        with_key = nbformat.read(path, as_version=4)
        with_key.cells.append(cell)
        nbformat.write(with_key, path)
        with pytest.raises(UsageError, match="a key in cell 3"):
            make_lesson(path)

    recorded(tmp_path, reply=text, anew=True)
    with pytest.raises(UsageError, match=r"a key in recordings/mine.jsonl, line \d\.") as caught:
        make_lesson(notebook(tmp_path, OPEN))
    assert KEY[8:] not in str(caught.value)


def test_a_bearer_is_a_key(tmp_path, monkeypatch):
    """A token that stands in the place of a key is known from the settings, too; also in the notebook's metadata."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "the-token-of-a-company")

    with pytest.raises(UsageError, match="a key in the notebook's metadata"):
        make_lesson(notebook(tmp_path, "1", note="the-token-of-a-company"))


def test_a_path_out_of_the_folder_is_refused(tmp_path):
    """A recording that only this machine has by that name would not be found elsewhere."""
    kept = recorded(tmp_path)
    (tmp_path / "sub").mkdir()

    for name in (kept, "../recordings/mine.jsonl"):
        with pytest.raises(UsageError, match="which no other machine has"):
            make_lesson(notebook(tmp_path / "sub", f"%agent recording {name}"))


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


def test_what_only_says_lesson_is_not_overwritten(tmp_path, monkeypatch, capsys):
    """What counts is a lesson's own mark; and what can't be read is told in our words."""
    theirs = notebook(tmp_path, "2", other={"lesson": True}).rename(tmp_path / "theirs.ipynb")
    path = notebook(tmp_path, "1 + 1")
    monkeypatch.chdir(tmp_path)
    Path("folder/mine.lesson.ipynb").mkdir(parents=True)

    for out, said in (("theirs.ipynb", "is there, and is no lesson"), ("folder", "can't be written: Is a directory")):
        assert main(["lesson", str(path), "-o", out]) == 2
        assert said in capsys.readouterr().err
    assert '"lesson": true' in theirs.read_text("utf-8")


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
