"""Tools of an MCP server in this process: names, schemas, approval, contents, errors, loops, changes."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from typing import Any

import pytest
from fakes import unquoted
from mcp_servers import EVERY_KIND, Demo, text, tool
from mcp_types import CallToolResult

from agentnb import Agent, ScriptedModel, StopReason, calls
from agentnb.core.messages import ToolCall
from agentnb.errors import SettingsError
from agentnb.tools.mcp import MCPServer, mcp
from agentnb.tools.mcp_content import prefixed, server_name

SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"city": {"type": "string", "description": "English name"}, "server": {"type": "integer"}},
    "required": ["city"],
}


@pytest.fixture
def server():
    """`server(demo, **options)`: an MCPServer that is closed when the test ends."""
    opened = []

    def opening(demo: Demo, **options: Any) -> MCPServer:
        opened.append(mcp(demo.server, **options))
        return opened[-1]

    yield opening
    for each in opened:
        each.close()


def answered(made: Any, **arguments: Any) -> Any:
    """The result of one call."""
    return unquoted(asyncio.run(made.answer(ToolCall("c1", made.spec.name, json.dumps(arguments)))))


def test_an_agent_uses_the_tools_of_a_server(server):
    """Names are prefixed, the schema is the server's, arguments arrive as they were given."""
    demo = Demo(tool("weather", "The weather of a city.", SCHEMA, read_only_hint=True))
    script = ScriptedModel([calls("demo__weather", city="Beijing", server=2, self=[1, {"a": None}]), "fine"])
    run = Agent(model=script, tools=[server(demo)]).run("weather?")

    assert (run.answer, unquoted(run.tool_results[0]).content) == ("fine", "weather was called")
    assert demo.calls == [("weather", {"city": "Beijing", "server": 2, "self": [1, {"a": None}]})]
    (sent,) = (run.steps[0].request or {})["tools"]
    assert sent["function"]["description"] == "The weather of a city."
    assert sent["function"]["parameters"] == {key: value for key, value in SCHEMA.items() if key != "$schema"}


@pytest.mark.parametrize(
    ("hints", "asks"),
    [
        ({}, True),
        ({"read_only_hint": True}, False),
        ({"destructive_hint": False}, False),
        ({"destructive_hint": True}, True),
        ({"read_only_hint": True, "destructive_hint": True}, False),
        ({"idempotent_hint": True}, True),
    ],
)
def test_hints_decide_who_is_asked(server, hints, asks):
    """A tool that is not called harmless pauses the run; a missing hint counts as a dangerous one."""
    demo = Demo(tool("do", **hints))
    agent = Agent(model=ScriptedModel([calls("demo__do"), "done"]), tools=[server(demo)])
    run = agent.run("go")

    assert run.stop is (StopReason.PAUSED if asks else StopReason.ANSWER)
    assert demo.calls == ([] if asks else [("do", {})])
    if asks:
        assert agent.run(run.approve(run.open_calls[0].id)).answer == "done"


def test_who_is_asked_can_be_set(server):
    """`approve=` overrules the hints, for good or bad."""
    assert [each.spec.approve for each in server(Demo(tool("a"), tool("b", read_only_hint=True)), approve=True)] == [
        True,
        True,
    ]
    assert [each.spec.approve for each in server(Demo(tool("a")), approve=False)] == [False]


def test_each_kind_of_content_becomes_bounded_text(server):
    """Text as it is, other parts by kind and size; the parts themselves are the value."""

    async def answer(name: str, arguments: Any) -> CallToolResult:
        return CallToolResult(content=EVERY_KIND)

    result = answered(server(Demo(tool("all"), answer=answer))["all"])
    assert result.content.splitlines() == [
        "first",
        "[image, image/png, 9 bytes]",
        "[audio, audio/wav, 9 bytes]",
        "[resource file:///a.txt] a.txt a file",
        "[resource note://1]",
        "a note",
        "[resource blob://1, x/y, 9 bytes]",
    ]
    assert [part.type for part in result.value] == [part.type for part in EVERY_KIND]


@pytest.mark.parametrize(
    ("result", "content", "value"),
    [
        (CallToolResult(content=[], structured_content={"a": 1}), '{"a": 1}', {"a": 1}),
        (text("one", structured_content={"a": 1}), "one", {"a": 1}),
        (text("one"), "one", "one"),
        (CallToolResult(content=[]), "(no content)", "(no content)"),
    ],
)
def test_structured_content_is_the_value(server, result, content, value):
    """The model reads the text, or the JSON where there is none; the person gets the structure."""

    async def answer(name: str, arguments: Any) -> CallToolResult:
        return result

    got = answered(server(Demo(tool("all"), answer=answer))["all"])
    assert (got.content, got.value) == (content, value)


def test_a_huge_result_is_bounded(server):
    """A text of a megabyte becomes a preview that says so."""

    async def answer(name: str, arguments: Any) -> CallToolResult:
        return text("x" * 1_000_000)

    assert len(answered(server(Demo(tool("big"), answer=answer))["big"]).content) <= 16_000


def test_errors_over_there_are_error_results(server):
    """What the server calls an error, and what breaks in it, is read by the model; the run goes on."""

    async def answer(name: str, arguments: Any) -> CallToolResult:
        if name == "breaks":
            raise ValueError("inside")
        return text("no such city", is_error=True)

    made = server(Demo(tool("fails"), tool("breaks"), answer=answer))
    assert (answered(made["fails"]).status, answered(made["fails"]).content) == ("error", "no such city")
    assert answered(made["breaks"]).status == "error"


def test_a_call_that_takes_too_long_is_cancelled_over_there(server):
    """The time-out is a result of its own, and the server hears of it."""
    cancelled = threading.Event()

    async def answer(name: str, arguments: Any) -> CallToolResult:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return text("never")

    result = answered(server(Demo(tool("slow"), answer=answer), timeout=0.05)["slow"])
    assert (result.status, result.content) == ("timeout", "timed out after 0.05 s")
    assert cancelled.wait(5)


def test_calls_come_from_any_loop(server):
    """One connection serves `run`, a loop of somebody else, a thread, and several calls side by side."""
    both = threading.Barrier(2, timeout=10)

    async def answer(name: str, arguments: Any) -> CallToolResult:
        if arguments:
            await asyncio.to_thread(both.wait)
        return text("ok")

    made = server(Demo(tool("meet", read_only_hint=True), answer=answer))
    two = {"tool_calls": calls("demo__meet", n=1)["tool_calls"] + calls("demo__meet", n=2)["tool_calls"]}
    agent = Agent(
        model=ScriptedModel([two, "both", calls("demo__meet"), "loop", calls("demo__meet"), "thread"]), tools=[made]
    )
    assert agent.run("go").answer == "both"

    async def main() -> Any:
        return await agent.arun("go")

    assert asyncio.run(main()).answer == "loop"
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(agent.run("go").answer))
    thread.start()
    thread.join()
    assert answers == ["thread"]


def test_a_closed_server_is_opened_again_and_says_what_changed(server):
    """After `close` the next call connects anew; the model reads the result, the person the change."""
    demo = Demo(tool("a"), tool("b"))
    made = server(demo)
    first = made["a"]
    assert made.status == "connected, 2 tools"
    made.close()
    assert made.status == "closed"
    demo.tools = [tool("a"), tool("c"), tool("d")]

    result = answered(first)
    assert result.content == "a was called"
    assert result.notes == ("the server was started again; its tools changed (new: c, d; gone: b)",)
    assert [each.name for each in made] == ["demo__a", "demo__c", "demo__d"]
    assert answered(first).notes == ()


def test_a_list_in_pages_is_read_to_its_end(server):
    """Every page is asked for."""
    demo = Demo(*(tool(f"t{n}") for n in range(7)))
    demo.pages = 3

    assert [each.name for each in server(demo)] == [f"demo__t{n}" for n in range(7)]


def test_names_are_legal_short_and_different():
    """At most 64 legal characters; what would be equal gets a number."""
    taken: set[str] = set()
    names = [prefixed("my", each, taken) for each in ("get weather", "get.weather", "x" * 90, "x" * 91)]

    assert names[:2] == ["my__get_weather", "my__get_weather_2"]
    assert len(set(names)) == 4
    assert all(len(name) <= 64 for name in names)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (["npx", "-y", "@modelcontextprotocol/server-everything"], "everything"),
        (["npx", "-y", "@modelcontextprotocol/server-filesystem@2.1", "/tmp"], "filesystem"),
        (["uvx", "mcp-server-git"], "git"),
        (["python", "-u", "/home/me/weather_server.py"], "weather"),
        (["/opt/bin/thing"], "thing"),
        ("https://mcp.example.com/v1", "example"),
        ("http://127.0.0.1:8000/mcp", "server"),
        ("http://localhost:8000/mcp", "server"),
    ],
)
def test_a_server_is_named_by_its_target(target, name):
    """What stands before the tools' names when nothing is said."""
    assert server_name(target) == name


def test_a_server_is_a_value(server):
    """Its repr hides secrets; a command can be pickled, and connects where it arrives."""
    made = mcp("npx -y thing --token=abc", headers={"Authorization": "Bearer very-secret-key"})
    copy = pickle.loads(pickle.dumps(made))

    assert (copy.name, copy.target, copy.status) == (made.name, made.target, "not connected")
    assert repr(made) == "<MCP server thing: npx -y thing --token=abc>"
    assert "very-secret" not in repr(mcp("https://x.org/?key=Bearer very-secret-key"))


@pytest.mark.parametrize(
    ("target", "words"), [(3, "expected a server"), ("", "a command or a URL"), ([1], "a command or a URL")]
)
def test_what_is_no_server_is_refused(target, words):
    """With what to write instead."""
    with pytest.raises(SettingsError, match=words):
        mcp(target)


def test_a_variable_that_is_not_set_is_named(monkeypatch):
    """`env=` names a setting that is missing: said before anything is started."""
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    with pytest.raises(SettingsError, match="NO_SUCH_TOKEN is not set"):
        mcp("no-such-program", env=["NO_SUCH_TOKEN"]).tools  # noqa: B018


def test_a_program_that_is_not_there_is_told():
    """To build the agent fails with the reason."""
    from agentnb.errors import ToolError

    with pytest.raises(ToolError, match=r"can't be reached \(FileNotFoundError.*no-such-program"):
        Agent(model="x", tools=[mcp("no-such-program --now")])
