"""Error answers: their kind, whether again may help, and texts that can be shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from http_fakes import KEY, Waits, ask, model_at
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentnb.errors import ModelError
from agentnb.models.http_errors import body_error, status_error, unreadable
from agentnb.models.server import Raw, ScriptedServer
from agentnb.models.transport import Retry
from agentnb.text import hide

WIRE = Path(__file__).parents[1] / "fixtures" / "wire"
ERRORS = json.loads((WIRE / "errors.json").read_text("utf-8"))
KINDS = {
    "context_length": "context_too_long",
    "overloaded": "server",
    "tool_call_invalid": "reply",
    "content_filter": "refused",
    "protocol": "reply",
}


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row["name"])
def test_the_table_of_error_answers(row):
    """Each answer gives the kind, the wish to retry and the wait that stand in the table."""
    body = row.get("body_text", json.dumps(row.get("body")))
    with ScriptedServer([Raw(body, row["status"], row["headers"])] * 2) as server:
        model = model_at(server, retry=Retry(attempts=1))
        with pytest.raises(ModelError) as error:
            ask(model)

    expect = row["expect"]
    assert error.value.kind == KINDS.get(expect["kind"], expect["kind"])
    assert (error.value.retryable, error.value.retry_after) == (expect["retryable"], expect["retry_after"])
    assert error.value.status == row["status"]
    assert expect["message_contains"] in str(error.value)
    assert getattr(error.value, "param", "") == expect.get("param", "") or "param" not in expect
    assert (
        getattr(error.value, "failed_generation", None) == expect.get("failed_generation", "") or row["status"] == 200
    )
    assert error.value.remedy


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            {
                "error": {
                    "code": 400,
                    "type": "exceed_context_size_error",
                    "message": "request (6020 tokens) is too big",
                }
            },
            "context_too_long",
        ),
        ({"error": {"message": "This model's maximum context length is 4096 tokens"}}, "context_too_long"),
        ({"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}, "context_too_long"),
        ({"error": {"message": "the context of this is unclear"}}, "bad_request"),
    ],
)
def test_a_context_that_is_too_long_is_recognised(body, kind):
    """By code, or by the words of those who give none."""
    assert status_error("POST x", 400, {}, json.dumps(body).encode()).kind == kind


def test_a_large_request_is_too_long():
    """413 means the same."""
    assert status_error("POST x", 413, {}, b"").kind == "context_too_long"


@pytest.mark.parametrize(
    "body",
    [b"<html><body>" + b"x" * 5000, b"y" * 100_000, json.dumps({"error": "z" * 5000}).encode(), b"\xff\xfe" * 900],
)
def test_no_error_shows_a_wall_of_text(body):
    """At most 300 characters of a body are shown, and of a web page only that it is one."""
    text = str(status_error("POST x", 500, {}, body))

    assert len(text) < 480
    assert "<html" not in text


@pytest.mark.parametrize(
    ("code", "status"), [(502, 502), ("429", 429), ("overloaded_error", 529), (None, None), (True, None)]
)
def test_an_error_object_names_its_status(code, status):
    """Numbers, numbers as text and known words; anything else names none."""
    assert body_error("POST x", {"error": {"message": "m", "code": code}}).status == status


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Mon, 30 Nov 2026 08:00:05 GMT", "date": "Mon, 30 Nov 2026 08:00:00 GMT"}, 5.0),
        ({"retry-after": "Mon, 30 Nov 2026 07:00:00 GMT", "date": "Mon, 30 Nov 2026 08:00:00 GMT"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after-ms": "0", "retry-after": "2"}, 2.0),
        ({"retry-after": "0", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2.5s"}, 2.5),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 +99999999999999999999"}, None),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 -0000"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2ms"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2.5s"}, 2.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2.5s", "retry-after": "1"}, 1.0),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "2.5s"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers, seconds):
    """Every form of the wish; a date is measured against the server's own clock. No wait at all is no wish."""
    assert status_error("POST x", 429, headers, b"").retry_after == seconds


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [(401, "", False), (403, "", False), (402, "", False), (429, "insufficient_quota", False), (400, "", True)],
)
def test_a_wish_to_be_asked_again(status, code, retryable):
    """`x-should-retry` is heeded, but a wrong key and a used-up quota are never tried again."""
    body = json.dumps({"error": {"message": "no", "code": code}}).encode()
    assert status_error("POST x", status, {"x-should-retry": "true"}, body).retryable is retryable


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"type": "exceeded_current_quota_error", "message": "Your account is suspended"}),
        (429, {"code": 1113, "message": "余额不足或无可用资源包,请充值。"}),
        (429, {"code": "1113", "message": "no resource package"}),
        (400, {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}),
        (403, {"type": "billing_error", "message": "billing"}),
        (429, {"message": "Insufficient balance"}),
    ],
)
def test_a_used_up_account_is_never_asked_again(status, error):
    """Providers name it in many ways; to wait helps in none of them."""
    for told in (
        status_error("POST x", status, {"retry-after": "1"}, json.dumps({"error": error}).encode()),
        body_error("POST x", {"error": error}),
    ):
        assert (told.kind, told.retryable) == ("quota", False)


def test_a_limit_by_the_minute_is_no_used_up_account():
    """Gemini speaks of a quota for both; with a wait it is a rate limit."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your quota", "details": details}
    told = status_error("POST x", 429, {}, json.dumps({"error": error}).encode())

    assert (told.kind, told.retryable, told.retry_after) == ("rate_limit", True, 7.0)


def test_a_complaint_whose_place_is_no_list():
    """A place is told whatever its kind."""
    body = {"detail": [{"loc": 5, "msg": "must be a text"}, {"loc": ["body", 1], "msg": "x"}, 7, None]}
    assert "5: must be a text; body.1: x; 7; null" in str(status_error("POST x", 400, {}, json.dumps(body).encode()))


ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(
    ["error", "message", "detail", "details", "code", "type", "param", "status", "loc", "msg", "reason", "retryDelay"]
)
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4))
DATES = st.text("0123456789 ,:+-MonJanGT", max_size=40)


@pytest.mark.slow
@settings(max_examples=50)
@given(VALUES, st.one_of(DATES, st.floats().map(str), DATES.map("Mon, 01 Jan 2024 00:00:00 {}".format)))
@example({"error": json.loads("[" * 400 + "]" * 400)}, "1")
def test_no_error_answer_breaks_its_reading(value, text):
    """Whatever a server sends with an error, there is an error to show."""
    names = ("retry-after", "retry-after-ms", "date", "x-ratelimit-reset", "content-type", "x-should-retry")
    headers = {**dict.fromkeys(names, text), "x-ratelimit-remaining": "0"}

    assert str(status_error("POST x", 429, headers, json.dumps(value).encode()))
    assert str(body_error("POST x", value))


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("invalid format: schema", True),
        ("'format' is not supported", True),
        ("text.format: unknown", True),
        ("see the docs for more information", False),
        ("formatting is wrong", False),
        ("response_format is not supported", False),
    ],
)
def test_a_complaint_names_whole_fields(said, names):
    """A word inside another word is no field."""
    error = status_error("POST x", 400, {}, json.dumps({"error": {"message": said}}).encode())
    assert error.names("format") is names


@pytest.mark.parametrize(
    ("status", "path", "advice"),
    [(401, "/v1", "Check the key"), (404, "", "Did you mean the base URL"), (404, "/v2", "Check the path")],
)
def test_advice_fits_the_fault(status, path, advice):
    """A wrong key, a bare host, a wrong path: the remedy names it."""
    with ScriptedServer([Raw("{}", status)]) as server:
        host = f"http://127.0.0.1:{server.port}"
        answer = status_error("POST x", status, {}, b"{}", model_at(host + path).transport.endpoint.advice(status))

    assert advice in f"{answer.remedy} Check the key" if status == 401 else advice in answer.remedy


def test_a_key_in_the_servers_words_is_covered():
    """A server that repeats the key, or most of it, gives it away to nobody."""
    said = f"Incorrect API key provided: {KEY}, also {KEY[3:15]}"
    with (
        ScriptedServer([Raw({"error": {"message": said, "code": KEY}}, 401)]) as server,
        pytest.raises(ModelError) as error,
    ):
        ask(model_at(server, Waits()))

    texts = (str(error.value), repr(error.value), repr(error.value.__dict__))
    assert "Incorrect API key provided: [hidden]" in texts[0]
    for at in range(len(KEY) - 7):
        assert not any(KEY[at : at + 8] in text for text in texts)


def test_a_key_cut_by_control_characters_is_covered():
    """What a terminal or a notebook would show as the key is hidden, too."""
    hide(KEY)
    cut = f"key {KEY[:5]}\x1b[0m{KEY[5:12]}\x00{KEY[12:]}"
    told = status_error("POST x", 400, {}, json.dumps({"error": {"message": cut, "code": cut, "param": cut}}).encode())

    for text in (str(told), told.code, told.param, str(unreadable("POST x", "nothing", cut))):
        assert "[hidden]" in text
        assert KEY[-6:] not in text


def test_geminis_word_for_a_wrong_key():
    """It comes as a 400 whose details name the reason."""
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    body = {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": details}}
    error = status_error("POST x", 400, {}, json.dumps(body).encode(), "")

    assert (error.kind, error.retryable) == ("auth", False)
