"""The notebooks: committed executed, in good form, and the same again when run without a model, twice."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import remake_notebooks
from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_LINES = 10
MOST_WORDS = 90
SECRETS = re.compile(r"^(OPENAI|ANTHROPIC|GEMINI|GOOGLE|OLLAMA|AGENTNB|AGENT_|TEMPERATURE|MAX_ITERATIONS|PYTEST)")

PARTS = ("## The new words", "## Five questions", "## One thing to build")
SHORT_PROSE = range(20, 61)
"""Words of a middling Markdown cell."""
NOTICED = {
    "00_start_here: a tool": [
        ('"Beijing": 31.0,', '"Beijing": 30.0,', 'assert get_weather("Beijing") =='),
    ],
    "00_start_here: an answer": [
        ("The sum is 47.5 degrees", "The sum is 48.5 degrees", 'assert "47.5" in what_if.answer'),
    ],
    "01_one_model_call": [
        (
            '"content": "The capital of France is Paris."',
            '"content": "It is Lyon."',
            'assert "Paris" in reply["message"]',
        ),
        ('return f"You said: ', 'return f"He said: ', 'assert run.answer == "You said: Good morning!"'),
        ("The capital of Italy is Rome.", "The capital of Italy is Milan.", 'assert "Rome" in second.answer'),
    ],
    "02_a_tool_is_a_function": [
        ("return a + b", "return a - b", "assert add(2, 3) == 5"),
        ('Beijing has 31 degrees.",', 'Beijing has 13.",', "assert run.tool_results[1].value == 31.0"),
    ],
    "03_the_agent_loop_by_hand": [
        ('{"Beijing": 31.0, "Sh', '{"Beijing": 30.0, "Sh', "assert len(messages) == 8"),
        (
            '"Together they have 58.5 degrees."},',
            '"It is 59."},',
            'assert answer == "Together they have 58.5 degrees."',
        ),
    ],
    "04_state_fork_and_rollback": [
        ('"lamp": 40, "chair": 35', '"lamp": 40, "chair": 45', 'assert run.answer == "Take the chair."'),
        ('return "Everything is paid."', 'return "All is paid."', 'assert done.answer == "Everything is paid."'),
    ],
    "05_planners": [
        ('return {"lamp": 40, "ch', 'return {"lamp": 41, "ch', "assert all(step.reply is None for step in mine.steps)"),
        ('"answer": "Together they cost 75', '"answer": "They cost 76', "assert planned.answer == called.answer"),
    ],
    "06_when_things_go_wrong": [
        ("[item] * count", "[item] + count", 'assert mended.answer == "40 euros."'),
        ('else "Eight chapters', 'else "Nine chapters', 'assert through.answer == "Eight chapters'),
    ],
    "07_watching_and_steering": [
        ("orders.append((item, count))", "orders.append((count, item))", 'assert orders == [("chair", 500)]'),
        ('if "last step" in last or', 'if "first step" in last or', 'assert run_of_three.stop == "answer"'),
    ],
    "08_memory_and_knowledge": [
        ('"Oslo": 8.0', '"Oslo": 9.0', 'assert asked.answer == "8.0 degrees Celsius"'),
        ("return lines[1] if", "return lines[0] if", 'assert run.answer.startswith("Within nine days")'),
    ],
    "09_several_agents": [
        (
            '"Otters hold hands while they sleep."',
            '"Otters swim."',
            'assert by_hand.answer == "Did you know? Otters hold',
        ),
        ("I have read {len(heard)}", "I have seen {len(heard)}", 'assert served.answer == "I have read 2 messages'),
    ],
    "10_comparing_honestly": [
        ('f" {task.expected}," in run', 'f" {task.expected};" in run', 'assert scored["outcome"] == "right"'),
        ("total(goal) if right else total(goal) + 1", "total(goal)", "assert len(set(answers)) == 2"),
    ],
    "11_a_model_against_itself": [
        ("return calculator(expression)", "return -calculator(expression)", 'assert compute("12*5") == 60'),
        ('"text": "34"', '"text": "43"', 'assert {row["outcome"] for row in pilot.rows} == {"right"}'),
    ],
    "12_mending_a_small_model: a tool": [
        ('"Tokyo": 28.0', '"Tokyo": 29.0', 'assert get_weather("Tokyo") == "Tokyo: 28.0'),
    ],
    "12_mending_a_small_model: an answer": [
        ('\\"The sum is 62', '\\"The sum is 63', 'assert shown[0].answer == "The sum is 62 degrees'),
    ],
    "13_search_then_summarise": [
        ("if any(word in text.lower()", "if all(word in text.lower()", 'assert search("moon sea") =='),
        ('" ".join(page.partition', '"; ".join(page.partition', 'assert run.answer == "The moon pulls the sea'),
    ],
    "14_two_agents_in_talk": [
        ("len(draft.split()) <= 3", "len(draft.split()) <= 4", "assert len(lines) == 7"),
        ('lambda request: "Still too long."', 'lambda request: "Fine."', 'assert other.answer == "Still too long."'),
    ],
    "15_a_crew_with_roles": [
        (
            '"Otters hold hands while they sleep."',
            '"Otters swim."',
            'assert runs[1].answer == "Did you know? Otters hold',
        ),
        ('"A fact about bees."', '"A fact about otters."', 'assert issue.answer == "Did you know? Bees dance'),
    ],
    "16_a_flow_with_a_knowledge_base": [
        (
            "Within seven days money comes back. Send",
            "Within nine days money comes back. Send",
            'startswith("Within seven days money',
        ),
        ('else "A parcel takes three', 'else "A parcel takes two', 'assert free.answer == "A parcel takes three'),
    ],
    "17_tools_from_elsewhere: tools": [
        ('("chair", 2)', '("chair", 4)', 'assert results[0].value["rows"] == [[5]]'),
        ('write_text("Nobody may', 'write_text("All may', 'assert spied.answer == "> Nobody may read'),
        ('} of {title}"', '} times {title}"', 'assert run.answer == "> 2 of Dune"'),
    ],
    "17_tools_from_elsewhere: a hint": [
        ("@server.tool()", "@server.tool(annotations=harmless)", 'assert librarian.run("shelf__count: Emma")'),
    ],
    "17_tools_from_elsewhere: an answer": [
        (".splitlines()[-1]", ".splitlines()[0]", 'assert reader.run("read_text: list.txt").answer'),
    ],
}
"""A notebook, and for it: a piece of a tool or of what a model says (in a cell or in the recording), another piece
instead, and the line that notices. The changes of one entry do not touch each other's lines."""

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
def test_prose_is_short_as_a_rule(path):
    """A middling Markdown cell has some 20 to 60 words of prose."""
    counts = [len(prose(cell).split()) for cell in read(path)["cells"] if cell["cell_type"] == "markdown"]

    assert round(median(counts)) in SHORT_PROSE, counts


@every_notebook
def test_ends_with_words_questions_and_a_thing_to_build(path):
    """The last two cells: a table of the new words, then five questions, each with its answer, and one thing to build."""
    *_, words, rest = [source(cell) for cell in read(path)["cells"]]
    questions = rest.partition(PARTS[2])[0]

    assert words.startswith(PARTS[0])
    assert rest.startswith(PARTS[1])
    assert PARTS[2] in rest
    assert words.count("\n| **") >= 2
    assert re.findall(r"^(\d)\. ", questions, re.MULTILINE) == list("12345")
    assert questions.count("<details>") == questions.count("</details>") == 5


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
    halves = [sorted(copy.glob("*.ipynb"))[first::2] for first in (0, 1)]
    for _ in range(2):
        with ThreadPoolExecutor() as both:
            for done in both.map(lambda half: nbval(copy, tmp_path / "no-weights", half), halves):
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
@pytest.mark.parametrize("which", NOTICED)
def test_another_tool_or_answer_fails_an_assert(which, copy):
    """A lesson checks what it claims: with another tool or another model a cell raises, whoever runs it."""
    changes = NOTICED[which]
    notebook = remake_notebooks.read(copy / f"{which.partition(':')[0]}.ipynb")
    for old, new, _ in changes:
        assert changed(notebook, copy, old, new), old
    ends = [max(at for at, cell in enumerate(notebook.cells) if noticed in cell.source) for *_, noticed in changes]
    notebook.cells = notebook.cells[: max(ends) + 1]

    remake_notebooks.execute(notebook, copy, {"AGENTNB_CACHE": str(copy)}, seconds=60)
    failed = [cell.source for cell in notebook.cells if failure(cell) == "AssertionError"]
    for *_, noticed in changes:
        assert any(noticed in source for source in failed), noticed


def test_each_notebook_is_changed_in_two_places():
    """No lesson is left out: each has a changed tool (or scorer) and a changed answer."""
    counted = Counter({path.stem: 0 for path in NOTEBOOKS})
    counted.update(which.partition(":")[0] for which, changes in NOTICED.items() for _ in changes)

    assert [name for name, count in counted.items() if count < 2] == []


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


def nbval(folder: Path, cache: Path, some: Sequence[Path] = ()) -> subprocess.CompletedProcess[str]:
    """Run the notebooks of a folder, or some of them, strictly, in a process that has no model at hand."""
    cache.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not SECRETS.match(name)}
    environment.update(AGENTNB_CACHE=str(cache), PYTHONPATH="", JUPYTER_PLATFORM_DIRS="1")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=60"]
    command += [f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval.cfg'}", "-p", "no:cacheprovider", "-W", "ignore"]
    command += ["-c", os.devnull, "--rootdir", str(folder), *map(str, some or [folder])]
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def changed(notebook: NotebookNode, folder: Path, old: str, new: str) -> bool:
    """Put `new` for `old` in the code cells, which then may fail, or in the notebook's recording; whether it was there."""
    found = False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found |= old in cell.source
            cell.source = cell.source.replace(old, new)
            cell.metadata["tags"] = ["raises-exception"]
    for path in () if found else folder.glob("recordings/*.jsonl"):
        if path.name in "".join(cell.source for cell in notebook.cells):
            found |= old in path.read_text("utf-8")
            path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    return found


def failure(cell: NotebookNode) -> str | None:
    """The name of the error in which the cell ended."""
    return next((each.ename for each in cell.get("outputs", ()) if each.output_type == "error"), None)


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


@cache
def read(path: Path) -> dict[str, Any]:
    """The notebook; many tests look at the same."""
    return json.loads(path.read_text("utf-8"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    """Its code cells that hold anything."""
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code" and source(cell).strip()]


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def prose(cell: dict[str, Any]) -> str:
    """The text of a Markdown cell without its tables, lists and folded answers."""
    lists = re.compile(r"\||\d+\.|[-*] ")
    text = re.sub(r"<details>.*?</details>", "", source(cell), flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not lists.match(line.lstrip()))


def tags(cell: dict[str, Any]) -> list[str]:
    """Its tags."""
    return cell["metadata"].get("tags", [])


def shown(cell: dict[str, Any]) -> bool:
    """Whether it has an output of its own making."""
    return any("data" in output for output in cell["outputs"])
