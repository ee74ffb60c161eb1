"""The request of a step as a curl command: bash runs it, and the server gets what it got before."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from typing import Any

import pytest
from http_fakes import KEY
from test_contract import ANSWER, HTTP, SUM, Dialect, over_http, run

from agentnb.agent import Agent
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State, Step
from agentnb.errors import UsageError
from agentnb.models.catalog import resolve
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.curl import curl, curl_from_file
from agentnb.models.endpoint import Endpoint
from agentnb.models.scripted import ScriptedModel
from agentnb.models.transport import Retry
from agentnb.planners.you import You
from agentnb.records.recording import recording
from agentnb.settings import Secret

needs_curl = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="there is no curl here")
NOWHERE = "http://127.0.0.1:1/v1"
ODD = "it's \"$HOME\" `id` \\ !! $(id)\nJSON\n<<'JSON' \N{SNOWMAN} \u2028"


def newest(state: State) -> Step:
    """The newest step."""
    assert state.step is not None
    return state.step


def shell(command: str | None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it as a person would."""
    assert command is not None
    environment = {"PATH": os.environ["PATH"], "no_proxy": "*", **variables}
    return subprocess.run(["bash"], input=command, capture_output=True, text=True, timeout=30, env=environment)


def key_of(dialect: Dialect) -> Secret:
    """The key as a variable gives it."""
    return Secret(KEY, f"{dialect.name.upper().replace(' ', '_')}_KEY")


@needs_curl
@pytest.mark.slow
@over_http
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_the_command_sends_the_same_again(row, streamed):
    """Path, key and body are those of the step, to the byte but for a line end; the answer comes as it came."""
    key = key_of(row)
    with row.open([ANSWER, ANSWER], api_key=key) as opened:
        state = run(opened.model, state=ODD, streamed=streamed)
        command = curl(newest(state))
        done = shell(command, **{key.name: KEY})
        first, again = opened.server.requests

    assert done.returncode == 0, done.stderr
    assert KEY not in (command or "")
    assert again.body == first.body + b"\n"
    assert again.path == first.path
    sent = {name: value for name, value in first.headers.items() if name not in ("user-agent", "content-length")}
    assert {name: again.headers.get(name) for name in sent} == sent
    assert "It i" in done.stdout


@needs_curl
def test_a_long_body_is_no_problem_for_the_shell():
    """A body longer than what a shell takes as one argument goes through the here-document."""
    row = HTTP[0]
    with row.open([ANSWER, ANSWER], api_key=key_of(row)) as opened:
        state = run(opened.model, state="word " * 60_000)
        done = shell(curl(newest(state)))
        first, again = opened.server.requests

    assert done.returncode == 0, done.stderr
    assert len(first.body) > 300_000
    assert again.json() == first.json()


@needs_curl
def test_every_step_has_its_own(tmp_path):
    """Each step tells its own body; the short form reads it from a file."""
    with HTTP[0].open([SUM, ANSWER, ANSWER]) as opened:
        state = run(opened.model)
        assert curl(state.steps[0]) != curl(state.steps[1])
        (tmp_path / "request.json").write_bytes(state.steps[1].reply.request.body())
        short = curl_from_file(state.steps[1])
        done = shell(f"cd {tmp_path} && {short}")
        assert opened.server.requests[2].body == opened.server.requests[1].body

    assert done.returncode == 0
    assert short is not None
    assert len(short) < 200


@pytest.mark.parametrize(
    ("name", "variable", "expected"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY", '-H "authorization: Bearer $OPENAI_API_KEY"'),
        ("openai-responses:gpt-5-mini", "OPENAI_API_KEY", '-H "authorization: Bearer $OPENAI_API_KEY"'),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY", '-H "x-api-key: $ANTHROPIC_API_KEY"'),
        ("google:gemini-3-flash", "GEMINI_API_KEY", '-H "x-goog-api-key: $GEMINI_API_KEY"'),
        ("deepseek:deepseek-chat", "DEEPSEEK_API_KEY", '-H "authorization: Bearer $DEEPSEEK_API_KEY"'),
        ("ollama-native:qwen3", "", "-H 'authorization: Bearer none'"),
    ],
)
def test_the_key_is_named_by_its_variable(monkeypatch, name, variable, expected):
    """Each provider's own header, with the variable that held the key."""
    if variable:
        monkeypatch.setenv(variable, "KEY-TEST-5555566666")
    monkeypatch.setenv("OLLAMA_API_KEY", "")
    model: Any = resolve(name)
    command = model.sent(State.start("hi").request()).curl

    assert expected in command
    assert "5555566666" not in command
    assert command.startswith("curl -sS -N http")


@pytest.mark.parametrize(
    ("query", "headers", "expected"),
    [
        ("", {"x-own": "it's $HOME"}, """-H 'x-own: it'"'"'s $HOME'"""),
        ("", {"x-token": "KEY-TEST-1"}, '-H "x-token: $X_TOKEN"'),
        ("", {"authorization": Secret("KEY-TEST-2").with_prefix("Bearer ")}, '-H "authorization: Bearer $API_KEY"'),
        ("?api-version=1&key=KEY-TEST-3", {}, '"http://127.0.0.1:1/v1/x?api-version=1&key=$KEY"'),
        ("?a=1&b=2", {}, "'http://127.0.0.1:1/v1/x?a=1&b=2'"),
    ],
)
def test_values_are_quoted_and_secrets_are_variables(query, headers, expected):
    """In headers and in the address."""
    command = Endpoint(NOWHERE + query, "/x", headers).curl

    assert expected in command
    assert "KEY-TEST" not in command


def test_secrets_in_the_body_are_hidden():
    """A key that got into the conversation is not shown."""
    model = ChatCompletionsModel("m", NOWHERE, KEY)
    sent = model.sent(State.start(f"my key is {KEY}").request())
    state = State.start("x").planned(Decision(ModelReply("hi", request=sent), answer="hi"))

    assert KEY[:8] not in str(curl(newest(state)))
    assert "[hidden]" in str(curl(newest(state)))


def test_where_no_http_is_spoken_a_comment_says_so():
    """A scripted model has no address; where a person or a script planned, nobody was asked."""
    step = newest(Agent(model=ScriptedModel(["hi"])).run("x"))
    unasked = newest(Agent(model=ScriptedModel([]), planner=You(["hi"])).run("x"))

    assert curl(step) == "# nothing was sent over HTTP: the model 'scripted' answers on this machine"
    assert curl(unasked) == "# nothing was sent: no model was asked in this step"
    assert curl_from_file(step) is None


def test_a_run_is_no_step():
    """The error says which part of a run is one."""
    with pytest.raises(UsageError, match=r"not State. curl\(run.steps\[0\]\)"):
        curl(Agent(model=ScriptedModel(["hi"])).run("x"))  # type: ignore[arg-type]


def test_it_survives_a_pickle_and_a_replay(tmp_path, monkeypatch):
    """A run that was sent to another process, and one that is replayed, tell the same command."""
    monkeypatch.setenv("AGENTNB_RECORDING", "")
    path = tmp_path / "r.jsonl"
    with HTTP[1].open([ANSWER]) as opened:
        with recording(path):
            state = run(opened.model)
        with recording(path, mode="replay"):
            replayed = run(opened.model)

    assert curl(newest(replayed)) == curl(newest(state)) == curl(newest(pickle.loads(pickle.dumps(state))))
    assert str(curl(newest(state))).startswith("curl ")


def test_a_failed_call_has_one_too():
    """What the server refused can be sent again by hand."""
    state = run(ChatCompletionsModel("m", NOWHERE, retry=Retry(attempts=1)))

    assert state.stop == "connection_lost"
    assert str(curl(newest(state))).startswith("curl -sS -N http://127.0.0.1:1/v1/chat/completions")
