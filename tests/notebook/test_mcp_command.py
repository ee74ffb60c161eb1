"""`%agent mcp` in a real kernel: connect, list, use and close a server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from kernel import Kernel

SERVERS = Path(__file__).parents[1] / "tools"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kernel():
    """A kernel with the extension loaded."""
    kernel = Kernel()
    kernel.run("%load_ext agentnb\nfrom agentnb import ScriptedModel, calls")
    yield kernel
    kernel.stop()


def test_a_server_is_connected_used_and_closed(kernel, tmp_path, monkeypatch):
    """The tools are told; a cell uses them with -t, after a person agreed; closing ends the program."""
    monkeypatch.syspath_prepend(str(SERVERS))
    from mcp_servers import FRAGILE

    (tmp_path / "server.py").write_text(FRAGILE)
    told = kernel.run(f"%agent mcp there {sys.executable} {tmp_path / 'server.py'} {tmp_path}").text
    assert "there__echo (asks before each call)  echo, of the server there" in told
    assert "connected, 4 tools" in kernel.run("%agent mcp").text

    kernel.run('model = ScriptedModel([calls("there__echo"), "done"])')
    assert "waits for approval" in kernel.run("%%agent -m model -t there -o run\ngo").text
    kernel.run("run = run.approve(run.open_calls[0].id)")
    assert "done" in kernel.run("%agent resume run -m model -t there").text
    kernel.run("%agent mcp close there")
    assert "closed" in kernel.run("%agent mcp").text


def test_a_program_sees_the_variables_that_are_named(kernel, tmp_path, monkeypatch):
    """Those behind --env and no other; their values are in no output."""
    monkeypatch.syspath_prepend(str(SERVERS))
    from mcp_servers import FRAGILE

    (tmp_path / "server.py").write_text(FRAGILE)
    kernel.run(
        "import os\nos.environ |= {'ONE_TOKEN': 'tok-one-12345678', 'TWO_TOKEN': 't2', 'OTHER_KEY': 'no-no-no-no'}"
    )
    command = f"-- {sys.executable} {tmp_path / 'server.py'} {tmp_path}"
    assert "echo" in kernel.run(f"%agent mcp seen --env ONE_TOKEN,TWO_TOKEN {command}").text
    seen = kernel.run("from agentnb.core.messages import ToolCall\nimport asyncio").text
    seen = kernel.run("(await seen['environment'].answer(ToolCall('c', 'x', '{}'))).content").text

    assert "ONE_TOKEN" in seen
    assert "TWO_TOKEN" in seen
    assert "KEY" not in seen
    missing = kernel.run(f"%agent mcp other --env NO_SUCH_TOKEN {command}").text
    assert "NO_SUCH_TOKEN is not set" in missing
    kernel.run("%agent mcp close seen")


def test_a_value_has_no_place_on_the_line(kernel):
    """It would be kept in the notebook; the error does not repeat it."""
    told = kernel.run("%agent mcp x --env TOKEN=tok-value-12345678 -- npx thing").text

    assert "takes the names of variables" in told
    assert "tok-value" not in told.replace("--env TOKEN=tok-value-12345678 -- npx thing", "")


@pytest.mark.parametrize(
    "line", ["mcp just_a_name", "mcp 1x npx thing", "mcp close nothing", "mcp x --env A", "mcp x http://a.test b"]
)
def test_words_that_make_no_sense_are_refused(kernel, line):
    """With the line to write instead."""
    assert "UsageError" in kernel.run(f"%agent {line}").text
    assert "%agent mcp" in kernel.run(f"%agent {line}").text
