"""Addresses: their forms, and what in them nobody may see."""

from __future__ import annotations

import asyncio
import pickle
import traceback

import pytest
from http_fakes import KEY, request
from test_contract import over_http

from agentnb.errors import ModelError, SettingsError
from agentnb.models.catalog import resolve
from agentnb.models.endpoint import Endpoint
from agentnb.models.server import Raw, ScriptedServer
from agentnb.text import mask

HIDDEN = "QUERY-TEST-9876543210"


def is_covered(text: str, secret: str = HIDDEN) -> bool:
    """Whether no 8 characters in a row of the secret stand in the text."""
    return not any(secret[at : at + 8] in text for at in range(len(secret) - 7))


@pytest.mark.parametrize("name", ["key", "code", "api_key", "subscription-key", "access_token", "x"])
def test_a_key_in_the_query_is_hidden(name):
    """It is sent, and stands in nothing that is shown or kept, whatever its name."""
    endpoint = Endpoint(f"http://h.test/v1?{name}={HIDDEN}&api-version=2024-10-21", "/x")

    assert str(endpoint.url) == f"http://h.test/v1/x?{name}={HIDDEN}&api-version=2024-10-21"
    assert is_covered(repr(endpoint) + endpoint.base + endpoint.target + endpoint.advice(404))
    assert is_covered(pickle.dumps(endpoint).decode("latin-1"))
    assert is_covered(mask(f"error at {endpoint.url}"))


@over_http
def test_a_key_in_the_query_of_a_model(row):
    """The model's repr and pickle, its errors and their tracebacks do not hold it; the server gets it."""
    with ScriptedServer(lambda received: Raw({"error": {"message": f"no access with {received.path}"}}, 403)) as server:
        model = row.make("m", f"{server.url}?token={HIDDEN}", KEY)
        with pytest.raises(ModelError) as error:
            asyncio.run(model.reply(request(), [].append))
        path = server.requests[0].path if server.requests else f"token={HIDDEN}"

    assert f"token={HIDDEN}" in path
    shown = [repr(model), str(error.value), repr(vars(error.value)), *traceback.format_exception(error.value)]
    pickled = [pickle.dumps(each).decode("latin-1") for each in (model, error.value)]
    for text in (*shown, *pickled, model.origin):
        assert is_covered(text)
        assert is_covered(text, KEY)


def test_a_query_without_secrets_travels():
    """What is none goes along with a pickle."""
    endpoint = pickle.loads(pickle.dumps(Endpoint("http://h.test/v1?api-version=2024-10-21", "/x")))
    assert str(endpoint.url) == "http://h.test/v1/x?api-version=2024-10-21"


def test_a_secret_query_does_not_travel():
    """On arrival it is missing, and the error says so instead of asking without it."""
    endpoint = pickle.loads(pickle.dumps(Endpoint(f"http://h.test/v1?key={HIDDEN}", "/x")))
    with pytest.raises(SettingsError, match="does not travel"):
        _ = endpoint.url


def test_a_password_in_the_address_is_refused():
    """A user name or password is no place for a key; the error does not repeat it, nor does anything later."""
    with pytest.raises(SettingsError) as error:
        resolve("openai:m", base_url=f"https://me:{HIDDEN}@h.test/v1", api_key=KEY)

    assert is_covered("".join(traceback.format_exception(error.value)))
    assert is_covered(mask(f"see https://me:{HIDDEN}@h.test"))


@pytest.mark.parametrize("address", ["http://h.test/v1#top", "http://h.test/v1/#/chat", "http://h.test/v1?x=1#top"])
def test_a_fragment_leaves_the_path_as_it_is(address):
    """An address copied from a browser may end in one; it is never sent, and the path of the call stays."""
    assert Endpoint(address, "/chat/completions").url.path == "/v1/chat/completions"
    assert "top" not in str(Endpoint(address, "/x").url)
