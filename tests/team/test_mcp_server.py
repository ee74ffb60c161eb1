"""An agent, or its tools, offered to MCP clients: in process, over stdio and over HTTP, with the SDK's own client."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from typing import Any

import pytest
from fakes import unquoted
from mcp import Client, StdioServerParameters

from agentnb import Agent, ScriptedModel, calls, tool
from agentnb.errors import SettingsError
from agentnb.team.mcp_server import mcp_server
from agentnb.tools.mcp import mcp


@tool
def double(n: int) -> int:
    """Twice a number.

    Args:
        n: The number.
    """
    return 2 * n


@tool(approve=True)
def delete(path: str) -> str:
    """Delete a file."""
    return "gone"


def helper(*script: Any, **options: Any) -> Agent:
    """An agent that plays this script."""
    return Agent(
        model=ScriptedModel(list(script)),
        name="helper",
        **{"system_prompt": "You help.", "tools": [double, delete], **options},
    )


async def asked(target: Any, *questions: tuple[str, dict[str, Any]]) -> tuple[Any, list[Any]]:
    """The tools of a server and its answers, as the SDK's own client sees them."""
    async with Client(target) as client:
        listed = await client.list_tools()
        return listed.tools, [await client.call_tool(name, arguments) for name, arguments in questions]


def test_an_agent_is_one_tool():
    """A client gives it a task and reads its answer."""
    agent = helper(calls("double", n=21), "It is 42.")
    tools, (result,) = asyncio.run(asked(mcp_server(agent).server, ("helper", {"task": "Twice 21?"})))

    assert [(each.name, each.description) for each in tools] == [("helper", "Another agent, helper. You help.")]
    assert tools[0].input_schema["required"] == ["task"]
    assert (result.content[0].text, result.is_error) == ("It is 42.", False)


def test_a_run_without_an_answer_is_an_error():
    """Why it has none is read by the client; so is a call that waits for a person."""
    agent = helper(calls("delete", path="x"))
    _, (result,) = asyncio.run(asked(mcp_server(agent).server, ("helper", {"task": "Delete x"})))

    assert result.is_error
    assert "a person must approve delete" in result.content[0].text


def test_its_tools_are_offered_but_those_that_ask():
    """With `tools=True` each tool is one; bad arguments and unknown names come back as errors in words."""
    questions = [("double", {"n": 4}), ("double", {"n": "four"}), ("delete", {"path": "x"})]
    tools, results = asyncio.run(asked(mcp_server(helper(), tools=True).server, *questions))

    assert [each.name for each in tools] == ["double"]
    assert tools[0].input_schema["properties"]["n"]["description"] == "The number."
    assert [(each.content[0].text, each.is_error) for each in results[:1]] == [("8", False)]
    assert [each.is_error for each in results[1:]] == [True, True]
    assert "expected" in results[1].content[0].text
    assert "no tool named 'delete'" in results[2].content[0].text


def test_calls_of_a_tool_that_runs_alone_wait_for_each_other():
    """`parallel=False` holds for clients, too."""
    inside: list[int] = []
    most: list[int] = []

    @tool(parallel=False)
    async def alone() -> str:
        """Run alone."""
        inside.append(1)
        most.append(len(inside))
        await asyncio.sleep(0)
        inside.pop()
        return "ok"

    async def main() -> None:
        async with Client(mcp_server(helper(tools=[alone]), tools=True).server) as client:
            await asyncio.gather(*(client.call_tool("alone", {}) for _ in range(5)))

    asyncio.run(main())
    assert most == [1] * 5


def test_an_agent_can_use_another_one_served():
    """Both ends are ours: the tool of the served agent in another agent's hands."""
    with mcp(mcp_server(helper("It is 42.")).server, approve=False) as server:
        run = Agent(model=ScriptedModel([calls("helper__helper", task="?"), "42"]), tools=[server]).run("go")

    assert unquoted(run.tool_results[0]).content == "It is 42."


def test_what_can_not_be_offered_is_refused():
    """No tools but such that ask; no agent; no such transport."""
    with pytest.raises(SettingsError, match="helper has no tools that can be offered"):
        mcp_server(helper(tools=[delete]), tools=True)
    with pytest.raises(SettingsError, match="expected an Agent"):
        mcp_server(len)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="expected 'stdio' or 'http'"):
        mcp_server(helper()).run("carrier pigeon")


PROGRAM = """
import sys
from agentnb import Agent, tool
from agentnb.team.mcp_server import mcp_server

@tool
def double(n: int) -> int:
    print("a print goes elsewhere")
    return 2 * n

agent = Agent(model=lambda request: "It is 42.", name="helper", tools=[double])
if sys.argv[1] == "stdio":
    mcp_server(agent, tools=sys.argv[2] == "tools").run()
else:
    mcp_server(agent).run("http", port=int(sys.argv[2]))
"""


@pytest.mark.slow
def test_over_stdio(tmp_path):
    """A program of three lines serves over its standard streams; what a tool prints does not disturb."""
    program = tmp_path / "serve.py"
    program.write_text(PROGRAM)
    as_agent = StdioServerParameters(command=sys.executable, args=[str(program), "stdio", "agent"])
    as_tools = StdioServerParameters(command=sys.executable, args=[str(program), "stdio", "tools"])

    _, (answer,) = asyncio.run(asked(as_agent, ("helper", {"task": "?"})))
    _, (eight,) = asyncio.run(asked(as_tools, ("double", {"n": 4})))
    assert (answer.content[0].text, eight.content[0].text) == ("It is 42.", "8")


@pytest.mark.slow
def test_over_http(tmp_path):
    """The same over streamable HTTP, by the SDK's client and by our own."""
    program = tmp_path / "serve.py"
    program.write_text(PROGRAM)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(program), "http", str(port)])
    try:
        wait_for(port)
        url = f"http://127.0.0.1:{port}/mcp"
        _, (answer,) = asyncio.run(asked(url, ("helper", {"task": "?"})))
        with mcp(url, approve=False) as server:
            agent = Agent(model=ScriptedModel([calls("server__helper", task="?"), "done"]), tools=[server])
            run = agent.run("go")
    finally:
        process.kill()
        process.wait()

    assert answer.content[0].text == unquoted(run.tool_results[0]).content == "It is 42."


def wait_for(port: int) -> None:
    """Until something listens there."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
