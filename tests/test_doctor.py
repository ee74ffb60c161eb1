"""The doctor: what each check finds on a good set-up and on a broken one, and that it never shows a key."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from agentnb import ScriptedModel, calls, recording
from agentnb.__main__ import main
from agentnb.core.model import ModelReply
from agentnb.doctor.check import OK, PROBLEM, SKIPPED, Check
from agentnb.doctor.checks import checks, report
from agentnb.doctor.reply_checks import repeated_unit
from agentnb.doctor.set_up import _known
from agentnb.errors import UsageError
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.server import Raw, Received, ScriptedServer
from agentnb.models.transport import Retry, Timeouts
from agentnb.notebook import commands
from agentnb.notebook.checkup import front_end
from agentnb.text import hide, mask

KEY = "sk-Tq8vLz3RmWx7NpKd2YbH"
SEVERAL = ("tools sent", "prompt", "temperature")


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """No setting and no weights of this machine."""
    for name in _known():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AGENTNB_CACHE", str(tmp_path / "cache"))
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)


def good(received: Received) -> Any:
    """What a model that does everything right answers."""
    last = received.messages[-1]
    if last["role"] == "tool":
        return f"It is {int(last['content']):,}."
    if "Count" in last["content"]:
        return "1 2 3 4 5 6 7 8 9 10"
    if "天空" in last["content"]:
        return "因为空气散射蓝光。"
    return calls("add", a=1234, b=5678) if received.tools else "It is 6912."


def but(**faults: Any) -> Callable[[Received], Any]:
    """The good model with other answers to some questions: plain, tool, result, alone, warm, count, chinese."""

    def answer(received: Received) -> Any:
        fault = faults.get(kind(received))
        return good(received) if fault is None else fault

    return answer


def kind(received: Received) -> str:
    """Which of the doctor's questions a request is."""
    last = received.messages[-1]
    if last["role"] == "tool":
        return "result"
    if "Count" in last["content"]:
        return "count"
    if "天空" in last["content"]:
        return "chinese"
    if not received.tools:
        return "plain"
    if "temperature" in received.json():
        return "warm"
    return "tool" if "Use the tool" in received.messages[0]["content"] else "alone"


@contextmanager
def served(script: Any) -> Iterator[tuple[ScriptedServer, ChatCompletionsModel]]:
    """A server with this script and its client, which does not try again."""
    with ScriptedServer(script) as server:
        yield server, ChatCompletionsModel("any", server.url, retry=Retry(attempts=1))


def found(model: Any) -> dict[str, Check]:
    """The checks of the model by name; "settings" is the last of its kind."""
    return {check.name: check for check in checks(model)}


def examined(script: Any) -> dict[str, Check]:
    """The same for a server with this script."""
    with served(script) as (_, model):
        return found(model)


def statuses(made: dict[str, Check]) -> dict[str, str]:
    """Name to status, of the checks that need the model."""
    return {name: check.status for name, check in made.items() if name not in ("versions", "settings", "weights")}


# ── a good set-up ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_good_model_has_no_problem():
    """Every check that can be made is ok, in the order in which one would look."""
    made = examined(good)

    assert list(made) == [
        "versions", "settings", "weights", "model", "base URL", "key", "reachable",
        "tools", "tools sent", "prompt", "temperature", "streaming", "ending", "language", "usage",
    ]  # fmt: skip
    assert {name for name, status in statuses(made).items() if status != OK} == {"key", "temperature"}
    assert "its result 6912 came back" in made["tools"].text
    assert "tokens for it" in made["tools sent"].text
    assert "pieces" in made["streaming"].text


def test_the_calls_are_few_and_plain():
    """Six tiny questions; nothing is sent that no user set, and only the prompt leads to the tool."""
    with served(good) as (server, model):
        found(model)
        bodies = [received.json() for received in server.requests]

    assert [kind(received) for received in server.requests] == ["plain", "tool", "result", "alone", "count", "chinese"]
    added = {name for body in bodies for name in body} - {"model", "messages", "tools", "stream", "stream_options"}
    assert added == set()
    assert [len(body.get("tools", ())) for body in bodies] == [0, 1, 1, 1, 0, 0]


def test_each_line_comes_as_soon_as_it_is_known():
    """What is known without the model is told before it is asked."""
    with served(good) as (server, model):
        told = list(itertools.takewhile(lambda check: check.name != "reachable", checks(model)))
        asked = len(server.requests)

    assert [check.name for check in told][-1] == "key"
    assert asked == 1


def test_a_callable_is_examined_too():
    """A model without a server: what can't be known is skipped, the rest is checked."""

    def model(request):
        last = request.messages[-1]
        if last["role"] == "tool":
            return f"It is {last['content']}."
        return calls("add", a=1234, b=5678) if request.tools else iter(["1 ", "2 ", "3"])

    made = found(model)

    assert (made["base URL"].status, made["key"].status) == (SKIPPED, SKIPPED)
    assert [made[name].status for name in ("reachable", "tools", "tools sent", "prompt", "streaming")] == [OK] * 5
    assert made["usage"].status == PROBLEM


def test_a_callable_that_raises_is_a_problem():
    """Its error is told in words."""
    made = found(lambda request: 1 / 0)

    assert made["reachable"].text == "the model raised ZeroDivisionError: division by zero"
    assert made["tools"].status == SKIPPED


def test_a_recording_does_not_answer(tmp_path):
    """The doctor asks the model itself; nothing is replayed and nothing recorded."""
    with recording(tmp_path / "lesson.jsonl"), served(good) as (server, model):
        found(model)

    assert len(server.requests) == 6
    assert not (tmp_path / "lesson.jsonl").exists()


# ── faults of the server ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "text", "remedy"),
    [
        (Raw({"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}, 401), "401", "key"),
        (Raw({"error": {"message": "no such model", "code": "model_not_found"}}, 404), "404", "model's name"),
        (Raw({"error": {"message": "no credit", "code": "insufficient_quota"}}, 429), "no credit", "spending limit"),
        (Raw({"object": "chat.completion"}), "choices", ""),
        (Raw("<html>Welcome</html>", headers={"content-type": "text/html"}), "HTML", ""),
        (Raw("not json"), "not json", ""),
        (Raw(cut=True), "POST http://127.0.0.1", ""),
        (Raw({"error": {"message": "broken"}}, 500), "500", "later"),
    ],
    ids=["key", "model", "quota", "no choices", "html", "not json", "disconnect", "server"],
)
def test_a_model_that_can_not_be_reached(fault, text, remedy):
    """The server's answer is told with what to do; what depends on it is skipped."""
    made = examined([fault])

    assert made["reachable"].status == PROBLEM
    assert text in made["reachable"].text
    assert remedy in made["reachable"].remedy
    assert list(made)[-1] == "tools"
    assert made["tools"].status == SKIPPED


def test_an_address_without_its_version_path():
    """A bare address is pointed at, and the 404 names the address to write."""

    def routed(received):
        return good(received) if received.path.startswith("/v1/") else Raw({"error": "nothing here"}, 404)

    with ScriptedServer(routed) as server:
        bare = server.url.removesuffix("/v1")
        made = found(ChatCompletionsModel("any", bare, retry=Retry(attempts=1)))

    assert "such as /v1" in made["base URL"].remedy
    assert f"Did you mean the base URL {bare}/v1?" in made["reachable"].remedy


def test_a_server_that_is_down():
    """Nobody listens: the address is named, and the question whether it runs is asked."""
    with served(good) as (server, model):
        address = server.url
    made = found(model)

    assert address in made["reachable"].text
    assert "Is the server running" in made["reachable"].remedy


def test_a_named_model_is_asked_once(monkeypatch):
    """A name gets a client that tells of the first failure, without waiting for a better time."""
    with ScriptedServer([Raw({"error": "busy"}, 503)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        made = found("any")

    assert (made["reachable"].status, len(server.requests)) == (PROBLEM, 1)


def test_an_empty_reply_is_a_problem():
    """To answer with nothing is no answer."""
    assert examined(but(plain=""))["reachable"].status == PROBLEM


# ── the four questions about tools ───────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_takes_no_tools():
    """The refusal is shown, the other planner proposed, and what follows from it skipped."""
    refusal = Raw({"error": {"message": "any does not support tools"}}, 400)
    made = examined(but(tool=refusal))

    assert made["tools"].status == PROBLEM
    assert "does not support tools" in made["tools"].text
    assert 'planner="json"' in made["tools"].remedy
    assert [made[name].status for name in SEVERAL] == [SKIPPED] * 3
    assert made["streaming"].status == OK


def test_a_model_that_calls_no_tool():
    """Told to and not doing it: what it said instead is shown; the tool was sent all the same."""
    made = examined(but(tool="It is 6912."))

    assert made["tools"].status == PROBLEM
    assert "told to call add, it answered 'It is 6912.'" in made["tools"].text
    assert made["tools sent"].status == OK
    assert [made[name].status for name in SEVERAL[1:]] == [SKIPPED] * 2


def test_tools_that_are_dropped_on_the_way():
    """The server counts as many tokens with the tool as without it, and no call comes."""
    reply = {"role": "assistant", "content": "6912", "usage": {"prompt_tokens": 40, "completion_tokens": 2}}
    made = examined(lambda received: good(received) if kind(received) == "count" else reply)

    assert made["tools sent"].status == PROBLEM
    assert "dropped on the way" in made["tools sent"].text


def test_a_model_that_sends_no_tools():
    """A model of one's own that leaves the tools out is found by what it sent."""

    class Forgetful:
        name = "forgetful"

        async def reply(self, request, on_delta=None):
            return ModelReply("6912", request=type("Sent", (), {"json": lambda self: {"messages": []}})())

    made = found(Forgetful())

    assert (made["tools sent"].status, made["tools sent"].text) == (PROBLEM, "the request went out without tools")


def test_a_call_that_stays_in_the_text():
    """The server could not read it, agentnb could: it works, and is told."""
    text = json.dumps({"name": "add", "arguments": {"a": 1234, "b": 5678}})
    made = examined(but(tool=text))

    assert made["tools"].status == OK
    assert "left the call in the text" in made["tools"].text


@pytest.mark.parametrize("call", [calls("add", a=1, b=2), calls("sum", a=1234, b=5678), calls("add", a="many", b=5678)])
def test_a_wrong_call(call):
    """Another tool or other numbers: the call is shown."""
    made = examined(but(tool=call))

    assert made["tools"].status == PROBLEM
    assert call["tool_calls"][0]["function"]["name"] in made["tools"].text
    assert "expected add with 1234 and 5678" in made["tools"].text


def test_a_result_that_is_not_used():
    """The result was sent and the answer is another."""
    made = examined(but(result="It is 7000."))

    assert "6912 is not in the answer 'It is 7000.'" in made["tools"].text


def test_a_result_that_brings_the_same_call():
    """A model that goes on calling is told apart from one that answers wrongly."""
    made = examined(but(result=calls("add", a=1234, b=5678)))

    assert made["tools"].status == PROBLEM
    assert "asks for a call again" in made["tools"].text


def test_a_result_that_is_refused():
    """The call worked; the history with its result did not."""
    made = examined(but(result=Raw({"error": {"message": "unexpected role tool"}}, 400)))

    assert "unexpected role tool" in made["tools"].text
    assert "sending its result did not" in made["tools"].remedy


def test_a_prompt_that_does_not_lead_there():
    """A model that calls only when it is told to is fine, and one is told what to write."""
    made = examined(but(alone="It is 6912."))

    assert made["prompt"].status == OK
    assert "Say in your system prompt" in made["prompt"].remedy


def test_the_temperature_that_was_set(monkeypatch):
    """It is tried once, with a tool; what the server says of it is told."""
    monkeypatch.setenv("TEMPERATURE", "0.5")
    refusal = Raw({"error": {"message": "temperature is not supported", "param": "temperature"}}, 400)

    assert examined(good)["temperature"].text.startswith("0.5 is accepted")
    assert "Remove TEMPERATURE" in examined(but(warm=refusal))["temperature"].remedy
    assert examined(but(warm="6912"))["temperature"].status == PROBLEM


# ── streams and usage ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_does_not_stream():
    """A whole body where a stream was asked for is read, and told."""
    body = {"choices": [{"message": {"content": "1 2 3"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 3}}  # fmt: skip
    made = examined(but(count=Raw(body)))

    assert made["streaming"].status == PROBLEM
    assert "in one piece" in made["streaming"].text
    assert made["usage"].status == OK


def test_a_stream_that_breaks():
    """What went wrong is told, and that cells need streams."""
    pieces = [b'data: {"choices":[{"index":0,"delta":{"content":"1 2"}}]}\n\n']
    broken = Raw(pieces=pieces, headers={"content-type": "text/event-stream"}, cut=True)
    made = examined(but(count=broken))

    assert made["streaming"].status == PROBLEM
    assert "needs streams" in made["streaming"].remedy
    assert made["usage"].status == OK


# ── endings and languages ────────────────────────────────────────────────────────────────────────────────────────────


def chunk(text: str) -> bytes:
    """A piece of a streamed reply."""
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': text}}]})}\n\n".encode()


def without_end(text: str) -> Raw:
    """A stream that says this again and again, far longer than anybody waits."""
    return Raw(pieces=[chunk(text)] * 5_000, headers={"content-type": "text/event-stream"})


def test_a_reply_without_an_end():
    """It is broken off, and the line says what it repeats and how to bound it."""
    made = examined(but(count=without_end("and 10 again ")))

    assert made["ending"].status == PROBLEM
    assert "characters and did not stop, and repeats 'and 10 again'" in made["ending"].text
    assert "max_tokens" in made["ending"].remedy
    assert made["streaming"].status == OK


def test_a_callable_without_an_end():
    """A generator that never ends is left as well."""

    def model(request):
        last = request.messages[-1]["content"]
        return itertools.repeat("10 ") if "Count" in last else "It is 6912."

    assert found(model)["ending"].status == PROBLEM


@pytest.mark.slow
def test_a_whole_reply_that_never_comes():
    """Where the first question takes too long because the reply has no end, the doctor finds out by streaming it."""

    def answer(received: Received) -> Any:
        return without_end("no end ") if received.json().get("stream") else Raw("{}", wait_seconds=5)

    with ScriptedServer(answer) as server:
        patience = Timeouts(read=0.2)
        made = found(ChatCompletionsModel("any", server.url, retry=Retry(attempts=1), timeouts=patience))

    assert (made["reachable"].status, made["ending"].status) == (PROBLEM, PROBLEM)
    assert "repeats 'no end'" in made["ending"].text


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"content": "1 2 3", "finish_reason": "length"}, "cut at the token limit"),
        ({"content": "1 2 3. " + "That is all. " * 20}, "repeats 'That is all.'"),
    ],
)
def test_a_reply_that_ends_badly(fault, text):
    """Cut off at a limit, or the same words to its end: both are told."""
    made = examined(but(count=fault))

    assert made["ending"].status == PROBLEM
    assert text in made["ending"].text


@pytest.mark.parametrize("text", ["", "1 2 3 4 5 6 7 8 9 10", "ha ha ha", "a" * 15, "x y " * 5, "1\n2\n3\n" * 2])
def test_what_is_no_repetition(text):
    """Short texts, and a few equal words, are ordinary."""
    assert repeated_unit(text) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "status", "text"),
    [
        ({"chinese": "The sky is blue because of scattering."}, PROBLEM, "asked in Chinese, it answered 'The sky"),
        ({"chinese": "42"}, SKIPPED, "without words"),
        ({"chinese": "因为 Rayleigh 散射：空气分子更多地散射短波长的蓝光。"}, OK, "answered in Chinese"),
        ({"plain": "答案是六千九百一十二。"}, PROBLEM, "asked in English, it answered"),
        ({"chinese": Raw("{}", 400)}, PROBLEM, "400"),
    ],
)
def test_the_language_of_answers(faults, status, text):
    """A question is to be answered in its own language; what to do stands beside it."""
    made = examined(but(**faults))

    assert made["language"].status == status
    assert text in made["language"].text
    assert bool(made["language"].remedy) == (status == PROBLEM)


def test_a_server_that_counts_nothing():
    """No usage is a problem of its own; the rest is unharmed."""

    def silent(received):
        if kind(received) == "count":
            return good(received)
        message = good(received)
        message = {"content": message} if isinstance(message, str) else message
        calls_ = [{"id": "c1", **call} for call in message.get("tool_calls", ())]
        return Raw({"choices": [{"message": {"role": "assistant", **message, "tool_calls": calls_}}]})

    made = examined(silent)

    assert made["usage"].status == PROBLEM
    assert "in streams only" in made["usage"].text
    assert "limit the steps" in made["usage"].remedy
    assert "does not tell its tokens" in made["tools sent"].text
    assert made["tools"].status == OK


# ── the set-up ───────────────────────────────────────────────────────────────────────────────────────────────────────


def settings_lines() -> list[str]:
    """What is said of the settings."""
    return [str(check) for check in checks(ScriptedModel([])) if check.name == "settings"]


def test_nothing_is_set():
    """No .env and no variable: both are said, neither is a problem; without a model the ways on are named."""
    made = found(None)

    assert settings_lines()[0].startswith("skipped  settings     there is no .env here")
    assert settings_lines()[1] == "ok       settings     set: AGENTNB_CACHE"
    assert made["weights"].status == SKIPPED
    assert made["model"].status == PROBLEM
    assert "fetch-model" in made["model"].remedy
    assert list(made)[-1] == "reachable"


def test_settings_are_named_without_their_values(tmp_path, monkeypatch):
    """Which .env is read, and which variables are set."""
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\nDEEPSEEK_API_KEY={KEY}\nOTHER=secret-thing\n")
    monkeypatch.setenv("OPENAI_MODEL", "my-own-model")
    lines = settings_lines()

    assert lines[0].startswith(f"ok       settings     {tmp_path / '.env'} is read")
    assert "set: OPENAI_API_KEY, DEEPSEEK_API_KEY, OPENAI_MODEL" in lines[1]
    assert not any(word in "".join(lines) for word in ("sk-", "secret-thing", "my-own-model"))


def test_a_key_at_a_wrong_place_is_told_and_hidden(monkeypatch):
    """Pasted as the model's name it would else be printed, and sent."""
    monkeypatch.setenv("OPENAI_MODEL", "sk-proj-Wrong0123456789Place")
    lines = settings_lines()

    assert any("OPENAI_MODEL holds what looks like a key" in line for line in lines)
    assert "Wrong0123" not in "".join(lines) + mask("it is sk-proj-Wrong0123456789Place")


def test_a_variable_that_hides_the_env_file(tmp_path, monkeypatch):
    """Set to nothing in the environment, it wins over .env: that is hard to see, so it is told."""
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    monkeypatch.setenv("OPENAI_API_KEY", "")

    assert any("the environment sets it to nothing" in line for line in settings_lines())


def test_settings_that_can_not_be_read(tmp_path, monkeypatch):
    """A number that is none, and a file that is no text."""
    monkeypatch.setenv("TEMPERATURE", "warm")
    assert any(line.startswith("problem") and "TEMPERATURE='warm'" in line for line in settings_lines())

    (tmp_path / ".env").write_bytes(b"\xff\xfe\x00broken")
    assert any(line.startswith("problem") and "can't be read" in line for line in settings_lines())


def test_a_file_that_can_not_be_read_is_told_once(tmp_path):
    """However many settings were looked for in it."""
    (tmp_path / ".env").write_bytes(b"\xff\xfe\x00broken")
    assert sum("can't be read" in line for line in settings_lines()) == 1


def test_every_variable_that_counts_is_named(monkeypatch):
    """Tokens and headers change what is sent, so they are among what is set; a token is hidden like a key."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "a: b")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "a: b")
    (line,) = (line for line in settings_lines() if "set: " in line)

    assert all(f"{name}_CUSTOM_HEADERS" in line for name in ("OPENAI", "ANTHROPIC"))
    assert "ANTHROPIC_AUTH_TOKEN" in line
    assert mask(KEY) == "[hidden]"


@pytest.mark.parametrize("address", ["http://[::1", "localhost:8000/v1"])
def test_an_address_that_is_none(address, monkeypatch):
    """The doctor says so instead of failing."""
    monkeypatch.setenv("OPENAI_MODEL", "m")
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    made = found(None)

    assert made["model"].status == PROBLEM
    assert address in made["model"].text


def test_a_check_never_raises(monkeypatch):
    """A model that breaks what looks at it is a problem, not the end of the doctor."""

    class Broken:
        name = "broken"

        @property
        def transport(self) -> Any:
            raise RuntimeError("no such thing")

        async def reply(self, request: Any, on_delta: Any = None) -> Any:
            raise AssertionError

    def front_end() -> Iterator[Check]:
        raise OSError("gone")
        yield

    told = list(checks(Broken(), front_end()))
    assert [
        check.text for check in told if "RuntimeError: no such thing" in check.text or "OSError: gone" in check.text
    ]
    assert [check.status for check in told].count(PROBLEM) == 2


@pytest.mark.parametrize("name", ["anthropic:m", "openai:m"])
def test_the_word_for_no_key_is_no_key(name, monkeypatch):
    """A server on this machine is asked with "none", which is not a key that is present."""
    with ScriptedServer([Raw({"error": "x"}, 400)] * 9) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway-Token: secret-gw-123")
        assert found(name)["key"].status == SKIPPED


def test_weights_that_are_not_where_they_should_be(tmp_path, monkeypatch):
    """A file that is named and missing is a problem; one that is there is shown with its size."""
    monkeypatch.setenv("AGENTNB_GGUF", str(tmp_path / "mine.gguf"))
    assert found(ScriptedModel([]))["weights"].status == PROBLEM

    (tmp_path / "mine.gguf").write_bytes(b"GGUF" * 1000)
    assert "mine.gguf" in found(ScriptedModel([]))["weights"].text


# ── secrecy, and the command ─────────────────────────────────────────────────────────────────────────────────────────


def test_no_piece_of_a_key_is_shown(tmp_path, monkeypatch, capsys):
    """Neither from the settings nor from a server that says it back, whole or in part."""
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")

    def telling(received):
        return Raw({"error": {"message": f"wrong key {KEY}, it ends in {KEY[-10:]}"}}, 401)

    with ScriptedServer(telling) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert report("gpt") == 1
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    shown = "".join(capsys.readouterr())

    assert "present, from OPENAI_API_KEY" in shown
    assert "401" in shown
    assert not any(KEY[at : at + 8] in shown for at in range(len(KEY) - 7))


def test_a_key_that_a_function_tells_is_hidden(monkeypatch):
    """Also a key that only the user's own code has read."""
    monkeypatch.setenv("MISTRAL_API_KEY", KEY[::-1])

    def model(request):
        raise ValueError(f"no luck with {os.environ['MISTRAL_API_KEY']}")

    assert found(model)["reachable"].text == "the model raised ValueError: no luck with [hidden]"


def test_a_check_hides_and_bounds_what_it_is_given():
    """One line, of bounded length, whatever a server said."""
    check = Check("reachable", PROBLEM, "a\nb\x1b[31m" + "x" * 5000, "Do\nthis.")

    assert "\n" not in str(check)
    assert "\x1b" not in str(check)
    assert len(str(check)) < 700


def test_a_check_hides_a_key_cut_by_control_characters():
    """Without them it would read as the key."""
    hide(KEY)
    check = Check("x", OK, f"{KEY[:6]}\x00{KEY[6:]}", f"{KEY[:9]}\x1b[0m{KEY[9:]}")

    assert (check.text, check.remedy) == ("[hidden]", "[hidden]")


def test_the_command_ends_with_the_number_of_problems(monkeypatch, capsys):
    """Exit code 0 without a problem, 1 with one; the last line says so."""
    with ScriptedServer(good) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert main(["doctor", "-m", "any"]) == 0
    assert capsys.readouterr().out.endswith("No problem found.\n")

    assert main(["doctor", "-m", "nobody:nothing"]) == 1
    shown = capsys.readouterr().out
    assert "there is no provider 'nobody'" in shown
    assert shown.endswith("1 problem found.\n")


def test_the_front_end_is_told_by_the_notebook(capsys):
    """Checks of another layer stand between the set-up and the model."""
    front = [Check("front end", OK, "a person sits in front"), Check("widgets", PROBLEM, "too old", "Update.")]

    assert report(ScriptedModel([]), front) == 1
    names = [line.split()[1] for line in capsys.readouterr().out.splitlines()[:-1]]
    assert names.index("weights") < names.index("front") < names.index("widgets") < names.index("model")


def test_the_magic(capsys):
    """`%agent doctor`: the notebook's model, or a variable that holds one; other words are refused."""
    shell = SimpleNamespace(user_ns={"mine": ScriptedModel([])})
    magics: Any = SimpleNamespace(shell=shell, model="nobody:nothing")
    commands.run(magics, "doctor -m mine")
    commands.run(magics, "doctor")
    shown = capsys.readouterr().out

    assert "front end    IPython without a kernel" in shown
    assert "ok       model        scripted\n" in shown
    assert "the script of 0 replies is played out" in shown
    assert "there is no provider 'nobody'" in shown
    for words, told in {"--fast": "--fast is not known", "mine": "does not know 'mine'", "-m": "-m lacks"}.items():
        with pytest.raises(UsageError, match=told):
            commands.run(magics, f"doctor {words}")


def test_the_front_end_in_a_kernel():
    """A person in front needs widgets; a program that runs the notebook does not."""
    live, headless = (SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=asks)) for asks in (True, False))

    assert [(check.name, check.status) for check in front_end(live)] == [("front end", OK), ("widgets", OK)]
    assert [check.status for check in front_end(headless)] == [OK, SKIPPED]
