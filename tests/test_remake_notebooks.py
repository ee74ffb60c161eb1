"""Making the notebooks again: the same notebook gives the same file, and a recording survives a failure."""

from __future__ import annotations

import nbformat
import pytest
import remake_notebooks
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

OPEN = """from agentnb import Agent
from agentnb.records.recording import use_recording
use_recording("recordings/07_lesson.jsonl")"""


def written(path, *sources):
    """A notebook of these code cells, never run."""
    cells = [new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources, 1)]
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": {"name": "mine", "display_name": "Mine"}}), path)
    return path


def recorded_before(path):
    """A recording of this notebook, with something in it."""
    recording = remake_notebooks.recording_of(path)
    recording.parent.mkdir()
    recording.write_text("as it was\n", "utf-8")
    return recording


@pytest.mark.slow
def test_the_same_notebook_makes_the_same_file(tmp_path):
    """No time, id or name of a session is left, so a diff shows what really changed."""
    path = written(tmp_path / "07_lesson.ipynb", "print(1)\nprint(2)", "1 + 1")

    remake_notebooks.remake(path)
    once = path.read_bytes()
    remake_notebooks.remake(path)

    assert path.read_bytes() == once
    assert [cell.execution_count for cell in remake_notebooks.read(path).cells] == [1, 2]


@pytest.mark.slow
def test_nothing_but_the_recording_can_answer(tmp_path, monkeypatch):
    """A key in the environment does not reach the kernel, nor do weights: what is not recorded fails."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-person")
    monkeypatch.setenv("OPENAI_MODEL", "gpt-of-a-person")
    path = written(tmp_path / "07_lesson.ipynb", "from agentnb import Agent\nAgent().run('Hello').raise_for_stop()")
    before = path.read_bytes()

    with pytest.raises(CellExecutionError, match="there is no model to ask"):
        remake_notebooks.remake(path)

    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_recording_is_made_from_nothing(tmp_path):
    """What the old recording held does not answer, and is gone afterwards."""
    path = written(tmp_path / "07_lesson.ipynb", OPEN, "run = Agent(lambda request: 'Good morning.').run('Hello')")
    recording = recorded_before(path)

    remake_notebooks.record(path)

    text = recording.read_text("utf-8")
    assert "Good morning." in text
    assert "as it was" not in text


@pytest.mark.slow
def test_a_failed_recording_keeps_the_old_one(tmp_path):
    """When a cell fails on the way, the recording is what it was."""
    path = written(tmp_path / "07_lesson.ipynb", OPEN, "assert False")
    recording = recorded_before(path)

    with pytest.raises(CellExecutionError):
        remake_notebooks.record(path)

    assert recording.read_text("utf-8") == "as it was\n"


def test_a_name_that_begins_no_notebook_is_refused():
    """A wrong word ends the command and names what there is."""
    with pytest.raises(SystemExit, match="there are: 00_start_here"):
        remake_notebooks.chosen(["99"])
