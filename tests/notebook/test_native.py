"""The magics beside the rest of Jupyter: completer, help, %config, papermill, jupytext, unloading."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
import pytest
from kernel import Kernel, started

SET_UP = """
%load_ext agentnb
from agentnb import ScriptedModel, calls, tool
def echo(request):
    return request.messages[-1]["content"]
"""
CELLS = (
    "%load_ext agentnb",
    '%%tool\ndef price(item: str) -> int:\n    """Price of an item."""\n    return 7',
    "%%prompt ask\nHow warm is it in {{city}}?\n\n# a line that looks like a comment",
    "%%agent -m echo --prompt ask -o run\n",
    "%%agent -m echo -o run\nHow warm?\n!ls {x}\n\n%time is short",
    "%agent resume run\nx = 1\n%agent plot run",
)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """A kernel for one test."""
    yield from started(SET_UP)


def test_jupytext_keeps_every_cell():
    """A notebook of magics goes through py:percent and comes back the same."""
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "P"}}
    )
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    again = jupytext.reads(jupytext.writes(notebook, "py:percent"), "py:percent")

    assert [cell.source for cell in again.cells] == [cell.strip("\n") for cell in CELLS]


@pytest.mark.slow
def test_the_extension_loads_beside_a_file_of_settings_that_can_not_be_read(kernel, tmp_path: Path):
    """The first agent tells it; the magics are there."""
    (tmp_path / ".env").write_bytes(b"OPENAI_API_KEY=\xff\xfe")
    loaded = kernel.run(f"%unload_ext agentnb\n%cd -q {tmp_path}\n%load_ext agentnb")
    asked = kernel.run("%%agent -m echo\ngo")

    assert loaded.errors == []
    assert "SettingsError" in asked.text


@pytest.mark.slow
def test_papermill_parameters_reach_prompts_and_options(tmp_path: Path):
    """Injected parameters are variables, which prompts and options name."""
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "P"}}
    )
    notebook.cells = [
        nbformat.v4.new_code_cell(SET_UP),
        nbformat.v4.new_code_cell("city, steps, model = 'Rome', 9, 'nobody'", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("model = {'echo': echo}[model]"),
        nbformat.v4.new_code_cell("%%prompt ask\nHow warm is it in {{city}}?"),
        nbformat.v4.new_code_cell("%%agent -m model --steps steps --prompt ask -o run"),
        nbformat.v4.new_code_cell("assert run.answer == 'How warm is it in Oslo?', run.answer"),
        nbformat.v4.new_code_cell(
            "agent = get_ipython().find_line_magic('agent').__self__.agents['run']\nassert agent.limits.steps == 3"
        ),
    ]
    nbformat.write(notebook, tmp_path / "in.ipynb")
    words = ["-p", "city", "Oslo", "-p", "steps", "3", "-p", "model", "echo", "--no-progress-bar"]
    command = [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    assert "How warm is it in Oslo?" in (tmp_path / "out.ipynb").read_text("utf-8")


@pytest.mark.slow
def test_the_completer_and_the_help_of_the_kernel(kernel):
    """A front end's own completion request is answered; `%agent?` and `--help` show the options and run nothing."""
    kernel.client.complete("%%agent -m ec", 13)
    found = kernel.client.get_shell_msg(timeout=60)["content"]
    assert (found["matches"], found["cursor_start"], found["cursor_end"]) == (["echo"], 11, 13)

    kernel.client.execute("%agent?")
    pages = kernel.client.get_shell_msg(timeout=60)["content"]["payload"]
    assert "--prompt" in pages[0]["data"]["text/plain"]

    for cell in ("%agent --help", "%%agent --help", "%%agent -m echo --help\nhello", "%%agent --help -o run\nhello"):
        shown = kernel.run(cell)
        assert shown.status == "ok"
        assert "--prompt" in shown.text
        assert not shown.displays
    for cell in (
        "%agent resume --help",
        "%%compare --help",
        "%%compare --help\nx",
        "%%tool --help\nx",
        "%%prompt -h\nx",
    ):
        shown = kernel.run(cell)
        assert (shown.status, "xample" in shown.text or "  %%" in shown.text) == ("ok", True)


@pytest.mark.slow
def test_config_holds_for_every_cell(kernel):
    """`%config Agentnb` lists the traits; what is set holds where a line says nothing else."""
    assert "Agentnb.show" in kernel.run("%config Agentnb").text
    kernel.run("%config Agentnb.show = 'answer'\n%config Agentnb.model = 'echo'")
    assert len(kernel.run("%%agent -o run\nhello").displays) == 1
    assert len(kernel.run("%%agent -o run --show steps\nhello").displays) == 2
    assert "model: echo" in kernel.run("%agent status").text
    kernel.run("%config Agentnb.show = 'steps'\n%config Agentnb.output_bytes = 10_000\nlong = 'x' * 200_000")
    shown = kernel.run("%%prompt big\n{{long}}") and kernel.run("%%agent --prompt big")
    assert sum(len(text) for data in shown.displays for text in data.values()) < 10_000


@pytest.mark.slow
def test_unloading_leaves_nothing_behind(kernel):
    """Magics, transformer, completer, traits, hooks and the magics object are gone; loading works again."""
    kernel.run("%unload_ext agentnb")
    left = kernel.value(
        "(lambda ip: [each for each in ['agent', 'agent_awaited', 'tool', 'prompt', 'compare', 'compare_awaited']"
        " if ip.find_line_magic(each) or ip.find_cell_magic(each)]"
        " + [type(c).__name__ for c in ip.configurables if 'gent' in type(c).__name__]"
        " + [c.__name__ for c in ip.events.callbacks['post_run_cell'] if '_after_cell' in c.__name__]"
        " + [t.__name__ for t in ip.input_transformers_post if 'agent' in getattr(t, '__name__', '')]"
        " + [m for m in ip.Completer.custom_matchers] + [n for n in ip.magics_manager.registry if 'Agent' in n]"
        ")(get_ipython())"
    )

    assert left == "[]"
    assert kernel.run("%load_ext agentnb").status == "ok"
    assert kernel.run("%%agent -m echo -o run\nhello").status == "ok"
    kernel.run("%reload_ext agentnb")
    assert kernel.value("len(get_ipython().Completer.custom_matchers)") == "1"
