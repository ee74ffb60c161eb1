"""MCP servers that are programs: the three reference servers of npm, and one that crashes on demand."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any

import pytest
from fakes import unquoted
from mcp_servers import FRAGILE
from processes import is_alive, soon

from agentnb import Agent, ScriptedModel, calls
from agentnb.core.messages import ToolCall
from agentnb.tools.mcp import MCPServer, mcp

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
]
needs_npx = pytest.mark.skipif(shutil.which("npx") is None, reason="needs npx, which comes with node")


def answered(server: MCPServer, name: str, **arguments: Any) -> Any:
    """The result of one call."""
    tool = server[name]
    return unquoted(asyncio.run(tool.answer(ToolCall("c1", tool.name, json.dumps(arguments)))))


@pytest.fixture(scope="module")
def everything():
    """The reference server that has a tool for every part of the protocol."""
    with mcp("npx -y @modelcontextprotocol/server-everything") as server:
        yield server


@needs_npx
def test_everything_lists_and_answers(everything):
    """Its tools carry its name; text, an image, structured content and a resource come back."""
    assert {"everything__echo", "everything__get-sum"} <= {tool.name for tool in everything}
    assert answered(everything, "echo", message="hello").content == "Echo: hello"
    assert "5" in answered(everything, "get-sum", a=2, b=3).content
    assert "[image, image/png," in answered(everything, "get-tiny-image").content
    structured = answered(everything, "get-structured-content", location="New York")
    assert isinstance(structured.value, dict)
    assert "[resource " in answered(everything, "get-resource-reference", resourceType="Text", resourceId=1).content


@needs_npx
def test_everything_refuses_bad_arguments_in_words(everything):
    """A wrong type is an error result that the model can read."""
    result = answered(everything, "get-sum", a="two", b=3)

    assert result.status == "error"
    assert "expected number" in result.content


@needs_npx
def test_everything_sees_only_what_was_named(monkeypatch):
    """Its own tool that prints its environment shows no variable of ours but the one that was named, and that hidden."""
    monkeypatch.setenv("SOME_API_KEY", "secret-key-1234567")
    monkeypatch.setenv("WANTED_TOKEN", "token-abcdefgh-123")
    with mcp("npx -y @modelcontextprotocol/server-everything", env=["WANTED_TOKEN"]) as server:
        result = answered(server, "get-env")

    assert "secret-key" not in result.content
    assert "SOME_API_KEY" not in result.content
    assert '"WANTED_TOKEN": "[hidden]"' in result.content


@needs_npx
def test_an_agent_works_in_a_folder(tmp_path):
    """The filesystem server writes where it was allowed to, after a person agreed; outside it refuses."""
    outside = tmp_path / "outside.txt"
    folder = tmp_path / "folder"
    folder.mkdir()
    note = str(folder / "note.txt")
    with mcp(["npx", "-y", "@modelcontextprotocol/server-filesystem", str(folder)]) as server:
        write = calls("filesystem__write_file", path=note, content="hello")
        agent = Agent(
            model=ScriptedModel([write, calls("filesystem__read_text_file", path=note), "done"]), tools=[server]
        )
        paused = agent.run("write it down")
        assert (str(paused.stop), (folder / "note.txt").exists()) == ("paused", False)
        run = agent.run(paused.approve(paused.open_calls[0].id))
        assert unquoted(run.tool_results[1]).content == "hello"
        refused = answered(server, "write_file", path=str(outside), content="x")

    assert (folder / "note.txt").read_text() == "hello"
    assert (refused.status, outside.exists()) == ("error", False)
    assert "outside allowed directories" in refused.content


@needs_npx
def test_memory_keeps_what_it_was_told(tmp_path):
    """The memory server writes into the file that its environment names, and finds it again after a restart."""
    target, env = "npx -y @modelcontextprotocol/server-memory", {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    with mcp(target, env=env) as server:
        entity = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}
        assert answered(server, "create_entities", entities=[entity]).status == "ok"
        server.close()
        assert "likes tea" in answered(server, "search_nodes", query="tea").content
    assert "likes tea" in (tmp_path / "memory.json").read_text()


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def fragile(tmp_path):
    """A server with the tools echo (its process id), crash, environment and sleep; and the folder it works in."""
    program = tmp_path / "fragile_server.py"
    program.write_text(FRAGILE)
    with mcp([sys.executable, str(program), str(tmp_path)]) as server:
        yield server, tmp_path


def test_a_crash_is_an_error_result_and_the_next_call_starts_it_again(fragile):
    """The model reads that it broke and why; the next call works, and tells what changed."""
    server, _ = fragile
    first = answered(server, "echo").content
    crashed = answered(server, "crash")
    assert crashed.status == "error"
    assert crashed.content.startswith(
        "the connection to the MCP server broke during the call, which may have taken effect"
    )
    assert "its last words: dying of something" in crashed.content
    assert server.status.startswith("broken: ")

    again = answered(server, "echo")
    assert (again.status, again.content == first) == ("ok", False)
    assert again.notes == ("the server was started again; its tools changed (new: new)",)
    assert "fragile__new" in {tool.name for tool in server}


def test_a_server_killed_while_idle_comes_back(fragile):
    """Killed between two calls: one error at most, then it answers again."""
    server, _ = fragile
    os.kill(int(answered(server, "echo").content), 9)
    time.sleep(0.3)
    results = [answered(server, "echo") for _ in range(2)]

    assert results[-1].status == "ok"


def test_five_crashes_in_a_row_are_survived(fragile):
    """Each is one error result; no process is left behind."""
    server, _ = fragile
    pids = []
    for _ in range(5):
        pids.append(int(answered(server, "echo").content))
        assert answered(server, "crash").status == "error"

    assert len(set(pids)) == 5
    assert not any(is_alive(pid) for pid in pids)


def test_a_started_program_sees_little_of_the_environment(fragile, monkeypatch):
    """Only PATH, HOME and the like."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-others")
    server, _ = fragile
    seen = set(answered(server, "environment").content.split("\n"))

    assert seen <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}


def test_an_interrupted_run_cancels_the_call_over_there(fragile):
    """Cancelling the run reaches the program."""
    server, folder = fragile
    agent = Agent(model=ScriptedModel([calls("fragile__sleep")]), tools=[mcp_free(server)])

    async def main() -> None:
        task = asyncio.ensure_future(agent.arun("go"))
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert soon(lambda: (folder / "cancelled").exists())
    assert answered(server, "echo").status == "ok"


def test_no_process_outlives_the_connection(fragile):
    """`close` ends the program, and so does the end of the process that started it."""
    server, folder = fragile
    pid = int(answered(server, "echo").content)
    server.close()
    assert not is_alive(pid)

    script = (
        "import asyncio, sys\n"
        "from agentnb.tools.mcp import mcp\n"
        "from agentnb.core.messages import ToolCall\n"
        "server = mcp(sys.argv[1:])\n"
        "print(asyncio.run(server['echo'].answer(ToolCall('c', 'echo', '{}'))).content)\n"
    )
    words = [sys.executable, "-c", script, sys.executable, str(folder / "fragile_server.py"), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert soon(lambda: not is_alive(int(done.stdout.split()[-1])))


def mcp_free(server: MCPServer) -> list[Any]:
    """The server's tools, none of which asks."""
    return [tool.replace(approve=False) for tool in server]
