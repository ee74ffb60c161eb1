"""The scripted server: a real one, with a plain client."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from agentnb.core.model import ModelReply
from agentnb.models.scripted import calls
from agentnb.models.server import Raw, ScriptedServer


def post(server: ScriptedServer, **body: Any) -> httpx.Response:
    """One request, as anyone would send it."""
    return httpx.post(f"{server.url}/chat/completions", json={"model": "x", "messages": [], **body}, trust_env=False)


def test_it_plays_the_script_in_order():
    """Text, messages, replies and functions are answers; requests are kept."""
    script = [
        "one",
        calls("add", a=1),
        ModelReply("three", reasoning="hm"),
        lambda received: received.messages[0]["content"],
    ]
    with ScriptedServer(script) as server:
        bodies = [post(server, messages=[{"role": "user", "content": "four"}]).json() for _ in script]

    messages = [body["choices"][0]["message"] for body in bodies]
    assert [message["content"] for message in messages] == ["one", None, "three", "four"]
    assert messages[1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1}'}
    assert messages[1]["tool_calls"][0]["id"]
    assert messages[2]["reasoning_content"] == "hm"
    assert [received.method for received in server.requests] == ["POST"] * 4


def test_it_streams_when_asked():
    """The same answer in small pieces, usage when asked for, and the end mark."""
    with ScriptedServer(["a longer answer"] * 2) as server:
        lines = post(server, stream=True, stream_options={"include_usage": True}).text.split("\n\n")
        assert "usage" not in post(server, stream=True).text

    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert (text, lines[-2], chunks[-1]["choices"]) == ("a longer answer", "data: [DONE]", [])
    assert chunks[-1]["usage"]["prompt_tokens"] > 0


@pytest.mark.slow
def test_it_fails_as_told():
    """Errors of the script, other addresses and the end of the script are error answers."""
    with ScriptedServer([ValueError("broken"), Raw({"error": "busy"}, 429, {"retry-after": "1"})]) as server:
        answers = [post(server) for _ in range(3)]
        nowhere = httpx.get(f"{server.url}/nothing", trust_env=False)
        models = httpx.get(f"{server.url}/models", trust_env=False).json()

    assert [answer.status_code for answer in answers] == [500, 429, 500]
    assert "broken" in answers[0].text
    assert answers[1].headers["retry-after"] == "1"
    assert "played out" in answers[2].text
    assert nowhere.status_code == 404
    assert models["data"][0]["id"] == "scripted"


def test_it_breaks_off_as_told():
    """A cut answer is an error in the client."""
    with ScriptedServer([Raw("half", cut=True), Raw(cut=True)]) as server:
        for _ in range(2):
            with pytest.raises(httpx.RemoteProtocolError):
                post(server)


def test_one_function_answers_everything():
    """Instead of a list; it may be async."""

    async def answer(received: Any) -> str:
        return f"{len(received.tools)} tools"

    with ScriptedServer(answer) as server:
        assert post(server, tools=[{}, {}]).json()["choices"][0]["message"]["content"] == "2 tools"


def test_it_listens_on_this_machine_alone_and_stops():
    """Nobody else can reach it, and after the end nobody can."""
    with ScriptedServer([]) as server:
        assert server.url.startswith("http://127.0.0.1:")
    server.stop()

    with pytest.raises(httpx.ConnectError):
        post(server)
