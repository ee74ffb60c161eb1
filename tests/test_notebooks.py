"""The notebooks: committed executed, in good form, and the same again when run without a model, twice."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import remake_notebooks
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_LINES = 10
MOST_WORDS = 90
SECRETS = re.compile(r"^(OPENAI|ANTHROPIC|GEMINI|GOOGLE|OLLAMA|AGENTNB|AGENT_|TEMPERATURE|MAX_ITERATIONS|PYTEST)")

CHANGES = [
    ("04_state_fork_and_rollback", '"lamp": 40, "chair": 35', '"lamp": 40, "chair": 45'),
    ("04_state_fork_and_rollback", "Take the {min(", "Take the {max("),
    ("05_planners", 'return {"lamp": 40, "chair": 35}[item]', 'return {"lamp": 41, "chair": 35}[item]'),
    ("05_planners", '"answer": "Together they cost 75 euros."', '"answer": "Together they cost 76 euros."'),
    ("06_when_things_go_wrong", "[item] * count", "[item] + count"),
    ("06_when_things_go_wrong", "['content']} euros.", "['content']} dollars."),
    ("07_watching_and_steering", "orders.append((item, count))", "orders.append((count, item))"),
    ("07_watching_and_steering", 'if "last step" in last or', 'if "first step" in last or'),
    ("08_memory_and_knowledge", '"Oslo": 8.0', '"Oslo": 9.0'),
    ("08_memory_and_knowledge", "return lines[1] if", "return lines[0] if"),
    ("09_several_agents", '"Otters hold hands while they sleep."', '"Otters swim."'),
    ("09_several_agents", "I have read {len(heard)} messages", "I have seen {len(heard)} messages"),
    ("10_comparing_honestly", 'f" {task.expected}," in run.answer', 'f" {task.expected};" in run.answer'),
    ("10_comparing_honestly", "total(goal) if right else total(goal) + 1", "total(goal)"),
]
"""A notebook, a piece of one of its tools or scorers or of what its model says, and another one."""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


# ── form ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@every_notebook
def test_is_committed_executed(path):
    """Every code cell ran, in order, from 1: nbval compares nothing in a cell without a count."""
    counts = [cell["execution_count"] for cell in code_cells(path)]

    assert counts == list(range(1, len(counts) + 1))


@every_notebook
def test_shows_every_run(path):
    """A cell that runs an agent, draws a plot or ends in a value shows what came of it."""
    silent = [
        source(cell).splitlines()[0]
        for cell in code_cells(path)
        if source(cell).startswith("%%agent") and not shown(cell)
    ]

    assert silent == []


@every_notebook
def test_holds_no_widget_state(path):
    """A dead widget shows as an error on reopening, and widget state makes GitHub refuse the notebook."""
    notebook = read(path)

    assert "widgets" not in notebook["metadata"]
    assert "widget-view" not in path.read_text("utf-8")


@every_notebook
def test_every_cell_is_compared(path):
    """No cell takes itself out of the comparison."""
    text = path.read_text("utf-8").lower().replace("_", "-")

    assert not re.search(r"nbval-(skip|ignore-output)", text)


@every_notebook
def test_only_cells_that_say_so_fail(path):
    """A cell that ends in an error is one that is meant to, and the other way round."""
    for cell in code_cells(path):
        failed = any(output["output_type"] == "error" for output in cell["outputs"])
        assert failed == ("raises-exception" in tags(cell)), source(cell)


@every_notebook
def test_cells_are_short(path):
    """One thought a cell: at most ten lines of code (or the tag "long"), and prose of a paragraph or two."""
    for cell in code_cells(path):
        assert "long" in tags(cell) or len(source(cell).splitlines()) <= MOST_LINES, source(cell)
    for cell in read(path)["cells"]:
        if cell["cell_type"] == "markdown":
            assert len(prose(cell).split()) <= MOST_WORDS, source(cell)


@every_notebook
def test_names_no_place_of_one_machine(path):
    """Outputs hold no path or user of the machine that they were made on."""
    assert not re.search(r"/(root|home|Users|tmp)/", path.read_text("utf-8"))


# ── behaviour ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not NOTEBOOKS, reason="there are no notebooks yet")
def test_run_the_same_without_a_model_twice(copy, tmp_path):
    """With no key and no weights the recordings answer, and each output is what was committed; then once more."""
    for _ in range(2):
        done = nbval(copy, tmp_path / "no-weights")
        assert done.returncode == 0, done.stdout[-8000:]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not NOTEBOOKS, reason="there are no notebooks yet")
def test_another_reply_is_noticed(copy, tmp_path):
    """A changed reply in a recording makes the comparison fail: it really is the recording that answers."""
    notebook = keep_only(copy, "00_start_here.ipynb")
    for recording in copy.rglob("*.jsonl"):
        lines = recording.read_text("utf-8").splitlines()
        recording.write_text("\n".join(map(changed_answer, lines)) + "\n", "utf-8")
    done = nbval(copy, tmp_path / "no-weights")

    assert done.returncode == 1, done.stdout[-8000:]
    assert notebook.name in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not NOTEBOOKS, reason="there are no notebooks yet")
def test_another_output_is_noticed(copy, tmp_path):
    """A committed output that says something else makes the comparison fail."""
    path = keep_only(copy, "00_start_here.ipynb")
    notebook = read(path)
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code" and shown(cell))
    data = next(output["data"] for output in cell["outputs"] if "data" in output)
    data["text/plain"] = "another step"
    path.write_text(json.dumps(notebook), "utf-8")

    assert nbval(copy, tmp_path / "no-weights").returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "old", "new"), CHANGES, ids=[f"{name[:2]}-{old}" for name, old, _ in CHANGES])
def test_another_tool_or_answer_fails_an_assert(name, old, new, tmp_path):
    """A lesson checks what it claims: with another tool or another model a cell raises, whoever runs it."""
    notebook = remake_notebooks.read(FOLDER / f"{name}.ipynb")
    for cell in notebook.cells:
        cell.source = cell.source.replace(old, new)

    with pytest.raises(CellExecutionError, match="AssertionError"):
        remake_notebooks.execute(notebook, tmp_path, {"AGENTNB_CACHE": str(tmp_path)}, seconds=60)


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
    """The notebooks with their recordings in a folder of their own, so that nothing can be written into the real ones."""
    folder = tmp_path / "notebooks"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    before = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    yield folder
    grown = [path.name for path, content in before.items() if len(path.read_bytes()) > len(content) + 100]
    assert grown == [], "a notebook wrote into its recording"


def nbval(folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run the notebooks of a folder strictly, in a process that has no model at hand."""
    cache.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not SECRETS.match(name)}
    environment.update(AGENTNB_CACHE=str(cache), PYTHONPATH="", JUPYTER_PLATFORM_DIRS="1")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=60"]
    command += [f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval.cfg'}", "-p", "no:cacheprovider", "-W", "ignore"]
    command += ["-c", os.devnull, "--rootdir", str(folder), str(folder)]
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def keep_only(folder: Path, name: str) -> Path:
    """Remove the other notebooks of the copy."""
    for path in folder.glob("*.ipynb"):
        if path.name != name:
            path.unlink()
    return folder / name


def changed_answer(line: str) -> str:
    """A line of a recording; where it holds a reply with text, another text."""
    entry = json.loads(line)
    if not entry.get("reply", {}).get("text"):
        return line
    entry["reply"]["text"] = "Nobody knows."
    entry.pop("stream", None)
    return json.dumps(entry, ensure_ascii=False)


def read(path: Path) -> dict[str, Any]:
    """The notebook."""
    return json.loads(path.read_text("utf-8"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    """Its code cells that hold anything."""
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code" and source(cell).strip()]


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def prose(cell: dict[str, Any]) -> str:
    """The text of a Markdown cell without its tables and lists."""
    lists = re.compile(r"\||\d+\.|[-*] ")
    return "\n".join(line for line in source(cell).splitlines() if not lists.match(line.lstrip()))


def tags(cell: dict[str, Any]) -> list[str]:
    """Its tags."""
    return cell["metadata"].get("tags", [])


def shown(cell: dict[str, Any]) -> bool:
    """Whether it has an output of its own making."""
    return any("data" in output for output in cell["outputs"])
