"""A lesson that was handed out, opened in JupyterLab: its recording is folded, Run All works, answers open."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentnb.records.lesson import TAG, make_lesson

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]


def test_a_lesson_runs_where_nothing_else_is(lab, opened, artifacts):
    """In a folder without recordings, without weights: every cell ends well, and the recording is out of the way."""
    (lab.server.folder / "handed_out.ipynb").write_text(make_lesson(NOTEBOOKS / "00_start_here.ipynb").text, "utf-8")
    notebook = opened("handed_out.ipynb")
    cells = notebook.model()
    number = next(n for n, cell in enumerate(cells) if TAG in cell["metadata"].get("tags", ()))
    notebook.show(number)
    lab.picture(artifacts / "lesson-recording.png")

    assert notebook.cell(number).locator(".jp-InputPlaceholder, .jp-Placeholder").count() == 1
    notebook.run_all()
    assert [output for cell in notebook.model() for output in cell.get("outputs", ()) if "ename" in output] == []
    assert None not in notebook.counts()


def test_an_answer_unfolds(lab, opened, artifacts):
    """Below each question its answer is folded, and a click shows it."""
    (lab.server.folder / "handed_out.ipynb").write_text(make_lesson(NOTEBOOKS / "00_start_here.ipynb").text, "utf-8")
    notebook = opened("handed_out.ipynb")
    last = len(notebook.model()) - 1
    notebook.show(last)
    answer = notebook.cell(last).locator("li details").first

    assert notebook.cell(last).locator("li details").count() == 5
    assert answer.get_attribute("open") is None
    answer.locator("summary").click()
    assert answer.get_attribute("open") is not None
    assert "The model only wrote that it would like it" in answer.inner_text()
    lab.picture(artifacts / "lesson-answers.png")
