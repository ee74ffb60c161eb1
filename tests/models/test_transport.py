"""Faults of the network: what is tried again, what is said, what is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import pickle
import ssl
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import replace
from email.utils import formatdate
from functools import partial
from pathlib import Path

import httpx
import pytest
from fakes import FunctionTool, collect, runtime_for
from http_fakes import KEY, SSE, Waits, ask, events, model_at, request, shown

from agentnb.core.limits import StopReason
from agentnb.core.middleware import Streamed
from agentnb.core.model import Delta, ModelReply
from agentnb.errors import ModelError, SettingsError
from agentnb.models.clients import clients, make_client
from agentnb.models.endpoint import Endpoint
from agentnb.models.scripted import calls
from agentnb.models.server import Raw, ScriptedServer
from agentnb.models.transport import Retry, Timeouts

HALF = events('{"choices":[{"delta":{"content":"The first "}}]}', '{"choices":[{"delta":{"content":"half"}}]}')
BEGUN_CALL = events(
    '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"add","arguments":"{"}}]}}]}'
)


def error_of(server: ScriptedServer, deltas: list[Delta] | None = None, **options: object) -> ModelError:
    """The error of one question."""
    with pytest.raises(ModelError) as error:
        ask(model_at(server, **options), deltas=deltas)
    return error.value


# ── what is tried again ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_passing_error_is_tried_again(status):
    """Overload and server errors get a second request, after a short wait that is noted."""
    waits = Waits()
    with ScriptedServer([Raw({"error": {"message": "not now"}}, status), "fine"]) as server:
        reply = ask(model_at(server, waits))

    assert (reply.text, len(server.requests), waits.seconds) == ("fine", 2, [0.5])
    assert [note.partition(" (")[0] for note in reply.notes] == [
        "waiting 0.5 s: rate limit" if status == 429 else f"waiting 0.5 s: server error {status}"
    ]


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
def test_a_lasting_error_is_not(status):
    """Exactly one request, and the server's own words."""
    with ScriptedServer([Raw({"error": {"message": "never this"}}, status)] * 3) as server:
        error = error_of(server)

    assert (len(server.requests), error.status, error.notes) == (1, status, ())
    assert "never this" in str(error)
    assert str(status) in str(error)


def test_the_servers_wish_is_kept():
    """Seconds, milliseconds and dates: never earlier than asked."""
    at = time.time()
    dated = {"retry-after": formatdate(at + 2, usegmt=True), "date": formatdate(at, usegmt=True)}
    for headers in ({"retry-after": "2"}, {"retry-after-ms": "2000"}, dated):
        waits = Waits()
        with ScriptedServer([Raw("{}", 429, headers), "fine"]) as server:
            assert ask(model_at(server, waits)).text == "fine"
        assert waits.seconds == [2.0]


def test_many_callers_do_not_come_back_at_once():
    """Chance makes the usual wait shorter, and one that the server asked for longer."""
    asked = ModelError("x", retryable=True, retry_after=2.0)

    assert Retry().wait(asked, 1, 0, 1.0) == 2.5
    assert Retry().wait(ModelError("x", retryable=True), 2, 0, 1.0) == 0.75


def test_waits_grow_and_end():
    """Without a wish the wait doubles; after the last try the error says how many there were."""
    waits = Waits()
    with ScriptedServer([Raw("{}", 503)] * 9) as server:
        error = error_of(server, waits=waits, retry=Retry(attempts=4))

    assert (len(server.requests), waits.seconds) == (4, [0.5, 1.0, 2.0])
    assert "(tried 4 times)" in str(error)
    assert len(error.notes) == 3


def test_the_longest_own_wait():
    """Where the server does not say how long, waits double up to a setting."""
    waits = Waits()
    with ScriptedServer([Raw("{}", 503)] * 5) as server:
        error_of(server, waits=waits, retry=Retry(attempts=5, longest_backoff_seconds=1.0))

    assert waits.seconds == [0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("headers", "retry"),
    [
        ({"retry-after": "61"}, Retry()),
        ({"retry-after": "6"}, Retry(longest_wait_seconds=5)),
        ({"retry-after": "6"}, Retry(total_seconds=5)),
        ({"x-should-retry": "false"}, Retry()),
        ({}, Retry(attempts=1)),
    ],
)
def test_every_cap_is_a_setting(headers, retry):
    """A wait longer than allowed, a total that is used up, a server that says no, one try only: no second request."""
    with ScriptedServer([Raw("{}", 503, headers)] * 2) as server:
        error_of(server, retry=retry)

    assert len(server.requests) == 1


def test_a_wait_that_is_too_long_is_said():
    """The person learns how long the server asks to wait."""
    with ScriptedServer([Raw("{}", 429, {"retry-after": "3600"})]) as server:
        assert "asks to wait 3600 s" in error_of(server).remedy


def test_a_wait_is_shown_while_it_lasts():
    """The note comes as a piece of the reply, before the wait."""
    deltas: list[Delta] = []
    with ScriptedServer([Raw({"error": {"message": "slow down"}}, 429, {"retry-after": "12"}), "fine"]) as server:
        ask(model_at(server), deltas=deltas)

    assert deltas[0] == Delta(
        "note", f"waiting 12 s: rate limit (POST {server.url}/chat/completions answered 429: slow down)"
    )
    assert shown(deltas) == "fine"


def test_nobody_there():
    """A server that is down: three tries, then a connection error that says what to look at."""
    waits = Waits()
    with ScriptedServer([]) as server:
        url = server.url
    with pytest.raises(ModelError) as error:
        ask(model_at(url, waits))

    assert (error.value.kind, waits.seconds) == ("connection", [0.5, 1.0])
    assert "could not connect" in str(error.value)
    assert "Is the server running" in error.value.remedy


def test_a_server_that_says_nothing():
    """The read time-out is a connection error, tried again."""
    with ScriptedServer([Raw(wait_seconds=30), "fine"]) as server:
        reply = ask(model_at(server, timeouts=Timeouts(read=0.2)))

    assert reply.text == "fine"
    assert "timed out" in reply.notes[0]


def test_a_stream_that_stands_still():
    """The time between two pieces is bounded; what had come is in the error."""
    stalled = Raw(pieces=[HALF, b"data: "], headers=SSE, gap_seconds=30)
    with ScriptedServer([stalled] * 3) as server:
        error = error_of(server, deltas=[], timeouts=Timeouts(gap=0.2), retry=Retry(attempts=2))

    assert (error.kind, error.partial, len(server.requests)) == ("connection", "The first half", 2)


def test_one_try_has_a_deadline():
    """A stream that drips for ever ends, and is not tried again."""
    drip = Raw(pieces=[b": alive\n\n"] * 200, headers=SSE, gap_seconds=0.05)
    with ScriptedServer([drip] * 2) as server:
        error = error_of(server, deltas=[], timeouts=Timeouts(total=0.3))

    assert (error.kind, len(server.requests)) == ("connection", 1)
    assert "took longer than 0.3 s" in str(error)


# ── answers that break off ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("begun", [HALF, BEGUN_CALL])
def test_a_stream_that_breaks_off_is_begun_again(begun, cut):
    """With the socket or in good order: no half answer, no half call; the text is replaced, not doubled."""
    deltas: list[Delta] = []
    with ScriptedServer([Raw(pieces=[begun], headers=SSE, cut=cut), "All of it."]) as server:
        reply = ask(model_at(server), deltas=deltas)

    assert (reply.text, reply.calls, len(server.requests)) == ("All of it.", (), 2)
    assert shown(deltas) == "All of it."
    assert [delta.kind for delta in deltas if delta.kind in ("restart", "note")] == ["restart", "note"]
    assert "connection failed" in reply.notes[0]


def test_a_run_whose_connection_is_lost_for_good():
    """The run ends as such, with the partial text; the tool of the step before is not run again, no half call is."""
    started: list[int] = []

    def add(a: int, b: int) -> int:
        started.append(a)
        return a + b

    broken = Raw(pieces=[HALF, BEGUN_CALL], headers=SSE, cut=True)
    with ScriptedServer([calls("add", a=1, b=2), broken, broken, broken]) as server:
        runtime = runtime_for(model_at(server), [FunctionTool(add)], middleware=[lambda event: None])
        last = asyncio.run(collect(runtime))[-1]

    assert (last.stop, started, len(server.requests)) == (StopReason.CONNECTION_LOST, [1], 4)
    assert last.steps[-1].reply.text == "The first half"
    assert len(last.steps[-1].notes) == 2


def test_a_complete_stream_may_lack_its_end():
    """With a finish reason and usage it is complete, also when the socket breaks after them."""
    finish = '{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}'
    for cut in (False, True):
        with ScriptedServer([Raw(pieces=[HALF, events(finish)], headers=SSE, cut=cut)]) as server:
            reply = ask(model_at(server), deltas=[])
        assert (reply.text, reply.usage.total, len(server.requests)) == ("The first half", 3, 1)


def test_an_end_mark_is_enough():
    """A server that holds the connection open after the end mark does not hold the reply."""
    body = HALF + events("[DONE]")
    began = time.monotonic()
    with ScriptedServer([Raw(pieces=[body, b": more\n\n"], headers=SSE, gap_seconds=20)]) as server:
        assert ask(model_at(server), deltas=[]).text == "The first half"
    assert time.monotonic() - began < 5


def test_a_whole_answer_that_breaks_off():
    """A body that is shorter than promised is a lost connection, tried again."""
    with ScriptedServer([Raw(b'{"choices":[', cut=True), "fine"]) as server:
        reply = ask(model_at(server))

    assert (reply.text, len(server.requests)) == ("fine", 2)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_damaged_answer_is_tried_again(streamed):
    """JSON that can't be read, from a server that promised JSON."""
    damaged = Raw(pieces=[b"data: {oh no\n\n"], headers=SSE) if streamed else Raw(b"{oh no")
    with ScriptedServer([damaged, "fine"]) as server:
        assert ask(model_at(server), deltas=[] if streamed else None).text == "fine"
    assert len(server.requests) == 2


def test_an_error_in_the_middle_of_a_stream():
    """It is tried again like the status that it names, and not when that is none of the passing ones."""
    full = Raw(pieces=[HALF, events('{"error":{"message":"worker is full","code":502}}')], headers=SSE)
    bad = Raw(pieces=[HALF, events('{"error":{"message":"bad tool","code":400}}')], headers=SSE)
    deltas: list[Delta] = []
    with ScriptedServer([full, "fine"]) as server:
        reply = ask(model_at(server), deltas=deltas)
        assert "worker is full" in reply.notes[0]
        assert shown(deltas) == "fine"
    with ScriptedServer([bad] * 2) as server:
        error = error_of(server, deltas=[])
    assert (error.kind, error.partial, len(server.requests)) == ("bad_request", "The first half", 1)


def test_a_filter_and_a_refusal_cost_one_request():
    """What is held back on purpose is not asked for again."""
    filtered = Raw({"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]})
    refused = {"content": None, "refusal": "I can't help with that."}
    azure = Raw({"error": {"message": "filtered", "code": "content_filter"}}, 400)
    for script in ([filtered], [refused], [azure]):
        with ScriptedServer(script) as server:
            last = asyncio.run(collect(runtime_for(model_at(server))))[-1]
        assert (last.stop, len(server.requests)) == (StopReason.REFUSED, 1)


# ── addresses and answers that are none ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("form", "path"),
    [
        ("{}/v1", "/v1/chat/completions"),
        ("{}/v1/", "/v1/chat/completions"),
        (" {}/v1 \n", "/v1/chat/completions"),
        ("{}/api/v1//", "/api/v1/chat/completions"),
        ("{}/v1/chat/completions", "/v1/chat/completions"),
        ("{}/v1/chat/completions/", "/v1/chat/completions"),
        (
            "{}/openai/deployments/d?api-version=2026-01-01",
            "/openai/deployments/d/chat/completions?api-version=2026-01-01",
        ),
    ],
)
def test_base_urls_of_every_form(form, path):
    """One slash, the version kept, the query where it belongs."""
    with ScriptedServer(["fine"]) as server:
        assert ask(model_at(form.replace("{}", f"http://127.0.0.1:{server.port}"))).text == "fine"
    assert server.requests[0].path == path


@pytest.mark.parametrize(
    "url", ["", "api.openai.com/v1", "ftp://x/v1", "http://", "http://x:port/v1", "http://me:pass@x/v1"]
)
def test_an_address_that_is_none_is_refused(url):
    """Before any request, without what may be a password."""
    with pytest.raises(SettingsError) as error:
        Endpoint(url, "/chat/completions")
    assert "pass@" not in str(error.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Raw("<html><body>Not here</body></html>", 404, {"content-type": "text/html"}), "answered 404: an HTML page"),
        (Raw("<html>Bad Gateway</html>", 502, {"content-type": "text/html"}), "answered 502: an HTML page"),
        (Raw("<!doctype html><p>Sign in", 200, {"content-type": "text/html"}), "an HTML page, not JSON"),
        (Raw(b"", 500), "answered 500"),
        (Raw({"error": "just text"}, 400), "answered 400: just text"),
        (Raw("hello", 200, {"content-type": "text/plain"}), "not JSON: hello"),
        (Raw("", 302, {"location": "https://example.org"}), "answered 302"),
    ],
)
def test_answers_that_are_no_json(answer, words):
    """Method, address and status, with a hint instead of a web page."""
    with ScriptedServer([answer] * 3) as server:
        for deltas in (None, []):
            text = str(error_of(server, deltas=deltas, retry=Retry(attempts=1)))
            assert words in text
            assert f"POST {server.url}/chat/completions" in text
            assert len(text) < 600


@pytest.mark.parametrize("answer", [Raw("{}", 400), Raw(cut=True), Raw("hello"), Raw("", 204)])
def test_the_query_is_in_no_local_of_a_traceback(answer):
    """Debuggers and error trackers show the locals of every frame; none of ours holds the whole address."""
    key = "query-secret-0123"
    with ScriptedServer([answer]) as server, pytest.raises(ModelError) as error:
        ask(model_at(f"{server.url}?key={key}", retry=Retry(attempts=1)))

    frames = traceback.TracebackException.from_exception(error.value, capture_locals=True)
    shown = [f"{frame.locals}" for frame in frames.stack if "agentnb/models" in frame.filename]
    assert len(shown) > 3
    assert not any(key in text for text in (*shown, repr(error.value.request)))


def test_an_endpoint_holds_no_whole_address():
    """Its fields show where it leads, not what is secret in it."""
    endpoint = Endpoint("http://127.0.0.1:9/v1?key=query-secret-0123", "/chat/completions")
    assert endpoint.url.query == b"key=query-secret-0123"
    assert "query-secret" not in repr(vars(endpoint))
    assert str(endpoint.origin) == "http://127.0.0.1:9/"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Raw("", 204), "answered 204"),
        (Raw("", 400, {"location": "https://example.org"}), "answered 400. Read the server's message"),
        (Raw("", 301, {"location": "https://example.org/v1?key=query-secret-1"}), "https://example.org/v1"),
        (Raw("", 307, {"location": "/v2/chat/completions"}), "/v2/chat/completions"),
        (Raw("no gzip", 200, {"content-encoding": "gzip"}), "answered with damaged data"),
    ],
)
def test_what_is_said_fits_the_answer(answer, words):
    """The status that came, where a redirection leads, and no lost connection where the data were damaged."""
    with ScriptedServer([answer]) as server:
        text = str(error_of(server, retry=Retry(attempts=1)))
    assert words in text
    assert "query-secret" not in text
    assert "Is the server running" not in text


def test_the_query_of_an_address_is_not_shown():
    """It may hold a key."""
    with ScriptedServer([Raw("{}", 400)]) as server, pytest.raises(ModelError) as error:
        ask(model_at(f"{server.url}?key=query-secret-1"))
    assert "query-secret" not in str(error.value)
    assert server.requests[0].path.endswith("?key=query-secret-1")


@pytest.mark.parametrize("key", ["qqqq\nzzzzz", "käse-0123456789", "tab\there-0123456789", "zero\x00byte-01234"])
def test_a_key_that_no_header_may_hold(key):
    """It is refused at once, and not shown."""
    with pytest.raises(SettingsError) as error:
        model_at("http://127.0.0.1:1/v1", api_key=key)
    assert key[:4] not in str(error.value)
    assert key[-5:] not in str(error.value)


def test_white_space_around_a_key_does_no_harm():
    """The commonest slip of all."""
    with ScriptedServer(["fine"]) as server:
        ask(model_at(server, api_key=f" {KEY}\r\n"))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


# ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_connection_is_used_again():
    """Calls one after the other share a connection, whole and streamed; calls beside each other do not wait."""
    with ScriptedServer(lambda received: "fine") as server:
        model = model_at(server)

        async def run() -> None:
            for deltas in (None, [].append, None):
                await model.reply(request(), deltas)
            assert server.connections == 1
            await asyncio.gather(*(model.reply(request()) for _ in range(4)))

        asyncio.run(run())
    assert server.connections == 4


@pytest.mark.slow
def test_one_model_serves_many_loops_and_threads():
    """Each loop has its own clients; nothing warns when loops end."""
    with ScriptedServer(lambda received: "fine") as server:
        model = model_at(server)
        texts = [ask(model).text for _ in range(3)]
        threads = [threading.Thread(target=lambda: texts.append(ask(model).text)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
    assert texts == ["fine"] * 7


@pytest.mark.slow
def test_clients_are_closed_with_their_loop():
    """After the loop there is no client left, and no open socket to warn of."""
    with ScriptedServer(["fine"]) as server:
        model = model_at(server)

        async def run() -> object:
            await model.reply(request())
            own = clients()
            assert sum(map(len, own.idle.values())) == 1
            return own

        own = asyncio.run(run())
        gc.collect()
    assert own.idle == {}


def test_a_connection_that_was_closed_meanwhile():
    """The next call opens another, without a word."""
    with ScriptedServer(["one"]) as server:
        model, port = model_at(server), server.port

        async def run() -> list[str]:
            texts = [(await model.reply(request())).text]
            await asyncio.to_thread(server.stop)
            again = ScriptedServer(["two"])
            again.port = port
            await asyncio.to_thread(again.start)
            second = await model.reply(request())
            await asyncio.to_thread(again.stop)
            return [*texts, second.text, *second.notes]

        assert asyncio.run(run()) == ["one", "two"]


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_kept_connection_that_dies_under_the_request(attempts):
    """It is asked again at once on a new one, which does not count as a try, and the step says so."""
    waits = Waits()
    with ScriptedServer(["one", "one", Raw(cut=True), "two", "two"]) as server:
        model = model_at(server, waits, retry=Retry(attempts=attempts))

        async def run() -> ModelReply:
            await asyncio.gather(model.reply(request()), model.reply(request()))
            return await model.reply(request())

        reply = asyncio.run(run())
    assert (reply.text, waits.seconds, server.connections) == ("two", [0.0], 3)
    assert reply.notes[0].startswith("waiting 0 s: connection failed")


def test_a_server_that_closes_every_connection():
    """One free try is all: what follows counts."""
    with ScriptedServer(["one", *[Raw(cut=True)] * 9]) as server:
        model = model_at(server, retry=Retry(attempts=2))

        async def run() -> None:
            await model.reply(request())
            await model.reply(request())

        with pytest.raises(ModelError, match="tried 2 times"):
            asyncio.run(run())
    assert len(server.requests) == 4


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
def test_a_cancelled_call_ends_at_once(streamed):
    """Before the answer, or in the middle of a stream; the connection is closed, the model works on."""
    slow = Raw(pieces=[HALF, HALF], headers=SSE, gap_seconds=30) if streamed else Raw(wait_seconds=30)
    with ScriptedServer([slow, "fine"]) as server:
        model = model_at(server)

        async def run() -> None:
            begun = asyncio.Event()
            task = asyncio.create_task(model.reply(request(), (lambda delta: begun.set()) if streamed else None))
            await (begun.wait() if streamed else asyncio.to_thread(server.arrived.wait, 10))
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 1
            assert (await model.reply(request())).text == "fine"

        asyncio.run(run())
        gc.collect()


def test_a_model_travels_without_its_key(monkeypatch):
    """Pickled, it holds no piece of a key given in code; one from the environment is read where it arrives."""
    from agentnb.settings import Secret

    with ScriptedServer(["fine"]) as server:
        model = model_at(server, api_key=Secret(KEY, "AGENTNB_TEST_KEY"))
        model.transport = replace(model.transport, sleep=asyncio.sleep, clock=time.monotonic, chance=float)
        data = pickle.dumps(model)
        assert KEY[:8].encode() not in data
        monkeypatch.setenv("AGENTNB_TEST_KEY", KEY)
        assert ask(pickle.loads(data)).text == "fine"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("url", "variables", "proxied"),
    [
        ("https://api.example.org", {"https_proxy": "http://proxy:3128"}, True),
        ("https://api.example.org", {"https_proxy": "proxy:3128", "no_proxy": "example.org"}, False),
        ("http://api.example.org", {"all_proxy": "http://proxy:3128"}, True),
        ("http://127.0.0.1:1", {"http_proxy": "http://proxy:3128"}, False),
    ],
)
def test_proxies_of_the_environment(monkeypatch, url, variables, proxied):
    """They are used, but for this machine and for hosts that are excepted."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    pool = make_client(httpx.URL(url)).transport._pool
    assert ("Proxy" in type(pool).__name__) == proxied


@pytest.mark.slow
def test_encrypted_connections(tmp_path: Path, monkeypatch):
    """A certificate that is trusted works, whole and streamed; one that is not is refused, with advice, at once."""
    port, stop = encrypted_server(tmp_path)
    code = (
        "import asyncio, sys; sys.path[:0] = ['tests', 'tests/models']\n"
        "from http_fakes import ask, model_at\n"
        f"model = model_at('https://localhost:{port}/v1')\n"
        "print(ask(model).text, ask(model, deltas=[]).text)\n"
    )
    try:
        root = Path(__file__).parents[2]
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.stderr) == ("secret secret\n", "")

        monkeypatch.delenv("SSL_CERT_FILE")
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
        assert "found no trusted certificate" in done.stderr
        assert "SSL_CERT_FILE" in done.stderr.splitlines()[-1]
    finally:
        stop()


def encrypted_server(folder: Path) -> tuple[int, object]:
    """A TLS server for localhost with a certificate of its own, in a thread; its port, and how to stop it."""
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(
        [*make.split(), "-keyout", "key.pem", "-out", "cert.pem"], cwd=folder, check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    body = json.dumps({"choices": [{"message": {"content": "secret"}, "finish_reason": "stop"}]}).encode()
    started, ports, ends = threading.Event(), [], []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        ended = asyncio.Event()
        ends.append(partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set))
        started.set()
        await ended.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    started.wait(10)

    def stop() -> None:
        ends[0]()
        thread.join(10)

    return ports[0], stop


def test_a_listener_hears_of_the_wait():
    """In a run the note reaches the listeners, and stands on the step."""
    heard: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, Streamed) and event.delta.kind == "note":
            heard.append(event.delta.text)

    with ScriptedServer([Raw("{}", 429, {"retry-after": "12"}), "fine"]) as server:
        last = asyncio.run(collect(runtime_for(model_at(server), middleware=[listen])))[-1]

    assert heard == list(last.steps[0].notes)
    assert heard[0].startswith("waiting 12 s: rate limit")
