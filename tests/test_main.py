"""`python -m agentnb`: what it prints, and how it ends."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Limits, ScriptedModel, __version__, calculator, calls
from agentnb.__main__ import follow, lab_command, main, start_notebook
from agentnb.demo import CELSIUS, GOAL, get_weather
from agentnb.errors import ToolError, UsageError

WEATHER = [
    calls("get_weather", city="Beijing"),
    calls("get_weather", city="Shanghai"),
    calls("calculator", expression="31.0 + 27.5"),
    "They add up to 58.5.",
]


def scripted(script, **options):
    """The agent of the demo, on a script."""
    return Agent(model=ScriptedModel(script), tools=[get_weather, calculator], **options)


def test_without_a_command_it_shows_help(capsys):
    """Every command is listed, with what it does."""
    assert main([]) == 0
    shown = capsys.readouterr().out

    assert all(name in shown for name in ("run", "lab", "fetch-model", "help", "--version"))
    assert main(["--help"]) == 0


def test_version(capsys):
    """The version is the package's."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"agentnb {__version__}\n"


def test_an_error_of_ours_is_one_line(capsys):
    """Layer, what, remedy on stderr; nothing on stdout; exit code 2."""
    assert main(["fly"]) == 2
    out, err = capsys.readouterr()

    assert out == ""
    assert (
        err
        == "agentnb: there is no command 'fly'. Use one of run, lab, fetch-model, lesson, doctor, help, --version.\n"
    )


def test_a_mistyped_command_is_recognised(capsys):
    """As everywhere else."""
    assert main(["lessn"]) == 2
    assert "Did you mean 'lesson'?" in capsys.readouterr().err


def test_debug_brings_the_traceback(monkeypatch):
    """With AGENT_DEBUG=1 the error comes whole."""
    monkeypatch.setenv("AGENT_DEBUG", "1")

    with pytest.raises(UsageError):
        main(["fly"])


def test_an_unknown_model_names_the_ways_on(capsys):
    """A model that is none ends with our error before anything runs."""
    assert main(["run", "-m", "nobody:nothing"]) == 2
    out, err = capsys.readouterr()

    assert out == ""
    assert "nobody" in err
    assert "Traceback" not in err


def test_run_prints_goal_steps_and_answer(capsys):
    """The account of a run, in its order; the exit code says that it was answered."""
    assert follow(scripted(WEATHER), GOAL) == 0
    shown = capsys.readouterr().out
    places = [shown.index(text) for text in (GOAL, "Step 1", "Step 2", "Step 3", "Step 4", "They add up to 58.5.")]

    assert places == sorted(places)
    assert "get_weather for city='Beijing'" in shown
    assert "got Beijing: 31.0 degrees Celsius" in shown


def test_a_person_at_the_terminal_plays_the_model(capsys, monkeypatch):
    """With `--planner you` a line calls a tool or is the answer; the end of the input leaves the run paused."""
    monkeypatch.setattr("sys.stdin", io.StringIO('get_weather {"city": "Beijing"}\ncalculator {\n31 degrees.\n'))
    assert main(["run", "--planner", "you"]) == 0
    shown = capsys.readouterr().out
    assert '  get_weather {"city": ...}' in shown
    assert "got Beijing: 31.0 degrees Celsius" in shown
    assert "not valid JSON" in shown
    assert "Answer\n  31 degrees." in shown

    assert main(["run", "--planner", "you"]) == 1
    assert "waits for your decision" in capsys.readouterr().out


def test_each_step_is_printed_as_it_finishes(capsys):
    """When the model is asked for the second step, the first can already be read."""
    seen = []

    def second(request):
        seen.append(capsys.readouterr().out)
        return "done"

    follow(scripted([calls("get_weather", city="Beijing"), second]), GOAL)

    assert "Step 1" in seen[0]
    assert "31.0" in seen[0]


def test_a_run_without_an_answer_fails(capsys):
    """A run that a limit stopped ends with exit code 1 and says why."""
    assert follow(scripted(WEATHER, limits=Limits(steps=2)), GOAL) == 1
    assert "limit of 2 steps" in capsys.readouterr().out


@pytest.mark.parametrize("city", ["Beijing", "beijing", " Shanghai "])
def test_the_table_of_temperatures(city):
    """A city is found however it is written."""
    name = city.strip().title()

    assert get_weather(city) == f"{name}: {CELSIUS[name]} degrees Celsius"


def test_an_unknown_city_names_those_there_are():
    """The model reads which cities it may ask for."""
    with pytest.raises(ToolError, match="no weather for 'Atlantis'; the cities are Beijing, Shanghai"):
        get_weather("Atlantis")


def test_lab_opens_the_notebook_of_this_folder(tmp_path):
    """A first notebook that is there is opened as it is."""
    made = tmp_path / "notebooks" / "00_start_here.ipynb"
    made.parent.mkdir()
    made.write_text("mine")

    assert start_notebook(tmp_path) == made
    assert made.read_text() == "mine"


def test_lab_copies_the_packaged_notebooks(tmp_path, capsys):
    """Elsewhere the notebooks and their recordings are copied, and nothing of the user's is replaced."""
    packaged = tmp_path / "packaged"
    (packaged / "recordings").mkdir(parents=True)
    (packaged / "00_start_here.ipynb").write_text("first")
    (packaged / "recordings" / "start.jsonl").write_text("theirs")
    here = tmp_path / "here"
    (here / "notebooks" / "recordings").mkdir(parents=True)
    (here / "notebooks" / "recordings" / "start.jsonl").write_text("mine")

    assert start_notebook(here, [tmp_path / "nowhere", packaged]).read_text() == "first"
    assert (here / "notebooks" / "recordings" / "start.jsonl").read_text() == "mine"
    assert str(here / "notebooks") in capsys.readouterr().out


def test_lab_without_any_notebook(tmp_path):
    """Where no notebook came along, the error says what to do."""
    with pytest.raises(UsageError, match="name a notebook"):
        start_notebook(tmp_path, [])


def test_lab_names_a_missing_notebook(capsys):
    """A notebook that is not there is refused before a server starts."""
    assert main(["lab", "nowhere.ipynb"]) == 2
    assert "there is no notebook 'nowhere.ipynb'" in capsys.readouterr().err


def test_lab_hands_further_options_on():
    """What is not ours goes to JupyterLab."""
    command = lab_command(Path("a.ipynb"), ["--no-browser"])

    assert command[1:4] == ["-m", "jupyterlab", "a.ipynb"]
    assert "--no-browser" in command


def test_lab_says_when_jupyterlab_is_missing(tmp_path):
    """Without JupyterLab the error names the command that brings it."""
    code = "import sys; sys.modules['jupyterlab'] = None; from agentnb.__main__ import main; sys.exit(main(['lab']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "JupyterLab is not installed" in done.stderr
    assert "-m pip install jupyterlab" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_lab_ends_with_one_interrupt(tmp_path):
    """The server starts, and one Ctrl-C ends everything, with exit code 0."""
    notebook = tmp_path / "mine.ipynb"
    notebook.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    with served(notebook, tmp_path) as process:
        lines = until_served(process)
        os.killpg(process.pid, signal.SIGINT)
        lines += process.stdout  # to its end: no process of the server is left

    assert process.returncode == 0, "".join(lines)


@contextmanager
def served(notebook: Path, folder: Path) -> Iterator[Any]:
    """`python -m agentnb lab NOTEBOOK` in a process group of its own, which is gone afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "agentnb", "lab", str(notebook), "--no-browser", f"--ServerApp.port={port}"],
        cwd=folder,
        env={**os.environ, "JUPYTER_CONFIG_DIR": str(folder), "JUPYTER_RUNTIME_DIR": str(folder / "runtime")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
            process.wait(30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def until_served(process: Any) -> list[str]:
    """Read what the server says until its page can be had."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if found := re.search(r"http://127\.0\.0\.1:\d+/lab\S*", line):
            wait_for(found.group())  # it says so a moment before it listens
            return lines
    raise AssertionError("".join(lines))


def wait_for(address: str) -> None:
    """Ask for a page until it comes."""
    end = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(address, timeout=30) as page:
                assert page.status == 200
            return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)
