"""Names to models, and errors before anything is sent."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from http_fakes import KEY, ask

from agentnb.errors import SettingsError
from agentnb.models.catalog import _DIALECTS, as_model, default_model, known_providers, resolve
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.profiles import PROFILES
from agentnb.models.scripted import ScriptedModel
from agentnb.models.server import ScriptedServer
from agentnb.models.transport import Retry
from agentnb.settings import Secret
from agentnb.text import looks_like_key, mask

VARIABLES = [
    name
    for profile in PROFILES.values()
    for name in (*profile.keys, profile.url_setting, *profile.header_settings.values())
    if name
]


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "OPENAI_MODEL", "AGENTNB_GGUF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AGENTNB_CACHE", str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path)


def made(name: str, **options: object) -> ChatCompletionsModel:
    """The model of this name, which speaks chat completions."""
    model = resolve(name, **options)
    assert isinstance(model, ChatCompletionsModel)
    return model


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_every_provider_of_the_table(profile, monkeypatch):
    """Its address, its key variable and its name come from the table; without the key nothing is made."""
    monkeypatch.setenv("AZURE_OPENAI_BASE_URL", "https://mine.openai.azure.com/openai/v1")
    if not profile.local:
        with pytest.raises(SettingsError, match=profile.keys[0]):
            resolve(f"{profile.name}:some-model")
        monkeypatch.setenv(profile.keys[-1], KEY)
    model = resolve(f"{profile.name}:some-model")

    assert type(model).__name__ == _DIALECTS[profile.dialect][1]
    assert (model.name, model.model, model.profile) == (f"{profile.name}:some-model", "some-model", profile)
    assert model.transport.endpoint.base.startswith(profile.base_url or "https://mine.openai.azure.com/openai/v1")
    sent = f"Bearer {KEY}" if profile.key_header == "authorization" else KEY
    value = model.transport.endpoint.headers[profile.key_header]
    assert profile.local or value.reveal() == sent


AZURE = "https://mine.openai.azure.com"
DATED = f"{AZURE}/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"


@pytest.mark.parametrize(
    ("address", "date", "url"),
    [
        (AZURE, "2024-10-21", DATED),
        (f"{AZURE}/", "2024-10-21", DATED),
        (f"{AZURE}/openai", "2024-10-21", DATED),
        (f"{AZURE}/openai/deployments/my%20gpt", "2024-10-21", DATED),
        (f"{AZURE}/openai/v1", "2024-10-21", f"{AZURE}/openai/v1/chat/completions"),
        (
            f"{AZURE}/openai/deployments/x?api-version=1",
            "2",
            f"{AZURE}/openai/deployments/x/chat/completions?api-version=1",
        ),
        (f"{AZURE}/openai/v1", None, f"{AZURE}/openai/v1/chat/completions"),
    ],
)
@pytest.mark.parametrize("provider", ["azure", "openai"])
def test_the_addresses_of_azure(provider, address, date, url, monkeypatch):
    """A date makes the form with a date; what is written out stays. OpenAI's variables may lead there, too."""
    monkeypatch.setenv("AZURE_OPENAI_BASE_URL" if provider == "azure" else "OPENAI_BASE_URL", address)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    if date:
        monkeypatch.setenv("OPENAI_API_VERSION", date)
    model = resolve(f"{provider}:my gpt")

    assert str(model.transport.endpoint.url) == url
    assert model.transport.endpoint.headers["api-key"].reveal() == KEY


def test_a_bare_address_of_azure(monkeypatch):
    """Without a date it lacks its version path, and the advice names that of this provider."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    endpoint = resolve("azure:m", base_url=AZURE).transport.endpoint

    assert endpoint.advice(404) == f"Did you mean the base URL {AZURE}/openai/v1?"


def test_the_date_of_azure_is_nothing_to_others(monkeypatch):
    """Another provider's address stays as it is."""
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    assert str(resolve("openai:m").transport.endpoint.url) == "https://api.openai.com/v1/chat/completions"


def test_a_bearer_token_where_there_is_no_key(monkeypatch):
    """ANTHROPIC_AUTH_TOKEN goes as a Bearer token; a key wins over it."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-0123456789")
    headers = resolve("anthropic:some-model").transport.endpoint.headers
    assert headers["authorization"].reveal() == "Bearer token-0123456789"
    assert "x-api-key" not in headers

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert resolve("anthropic:some-model").transport.endpoint.headers["x-api-key"].reveal() == KEY


@pytest.mark.parametrize("name", ["openai:m", "openai-responses:m"])
def test_a_pasted_address_of_either_dialect(name, monkeypatch):
    """OPENAI_BASE_URL serves both; what was pasted behind it does no harm."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/chat/completions")
    url = str(resolve(name).transport.endpoint.url)

    assert url == f"http://127.0.0.1:9/v1/{'responses' if 'responses' in name else 'chat/completions'}"


def test_a_header_of_the_users_own_replaces_ours(monkeypatch):
    """One header of a name is sent, whatever its case, and what may be a key is hidden."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoint = resolve("openai:m", headers={"Authorization": "Bearer other-key-123456"}).transport.endpoint

    assert [name for name in endpoint.headers if name.lower() == "authorization"] == ["authorization"]
    assert endpoint.headers["authorization"].reveal() == "Bearer other-key-123456"
    assert b"other-key" not in pickle.dumps(endpoint)


def test_custom_headers_from_the_environment(monkeypatch):
    """One "Name: value" a line; the values are hidden like keys, a line without a name is an error."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Team: blue-team-0123\n\nX-Route: a:b")
    headers = resolve("anthropic:some-model").transport.endpoint.headers

    assert [headers[name].reveal() for name in ("x-team", "x-route")] == ["blue-team-0123", "a:b"]
    assert "blue-team" not in repr(headers)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "nonsense")
    with pytest.raises(SettingsError, match="ANTHROPIC_CUSTOM_HEADERS"):
        resolve("anthropic:some-model")


@pytest.mark.parametrize("name", ["m", "openai:m", "openai-responses:m"])
def test_headers_of_the_environment_go_to_its_address(name, monkeypatch):
    """OPENAI_BASE_URL may lead to a gateway that needs them; what can't be a header is reported there, too."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway-Token: secret-gw-123")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    headers = resolve(name).transport.endpoint.headers

    assert headers["x-gateway-token"].reveal() == "secret-gw-123"
    assert headers["openai-organization"].reveal() == "org-1"
    for line, words in (("nonsense", "OPENAI_CUSTOM_HEADERS"), ("X-A: é", "'X-A'"), ("X Bad: fine", "'X Bad'")):
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", line)
        with pytest.raises(SettingsError, match=f"(?i){words}"):
            resolve(name)


@pytest.mark.parametrize("name", ["m", "anthropic:m", "google:m", "ollama-native:m", "openai-responses:m"])
@pytest.mark.parametrize(
    "address", ["http://[::1", "localhost:8000/v1", "http://127.0.0.1:abc", "http://a b", "ftp://x"]
)
def test_an_address_that_is_none_is_named(name, address):
    """It is what is wrong, whatever else is missing, and never a bare Python error."""
    with pytest.raises(SettingsError) as error:
        resolve(name, base_url=address)

    assert address in str(error.value)
    assert ("before it" in str(error.value)) is ("://" not in address)


def test_a_key_in_the_place_of_the_address_is_not_shown(monkeypatch):
    """Nobody knows it as a key, so whatever looks like no address stays unsaid."""
    monkeypatch.setenv("OPENAI_BASE_URL", "sk-proj-REALKEY0123456789")
    with pytest.raises(SettingsError, match="the base URL has no http") as error:
        resolve("m")
    assert "REALKEY" not in str(error.value)


@pytest.mark.parametrize("key", ["", " ", Secret("")])
@pytest.mark.parametrize("name", ["openai:m", "anthropic:m", "google:m"])
def test_an_empty_key_is_reported_before_any_request(name, key):
    """Given in code it is meant, and a header without a value can't be sent."""
    with pytest.raises(SettingsError, match="is empty"):
        resolve(name, api_key=key)


def test_the_place_of_a_bad_character_counts_in_the_key(monkeypatch):
    """What stands before the key in its header is not the user's."""
    monkeypatch.setenv("OPENAI_API_KEY", "ab\u00e9defghijk")
    with pytest.raises(SettingsError, match="OPENAI_API_KEY holds a character, number 3,"):
        resolve("openai:m")


def test_an_unknown_provider():
    """The error lists the known ones, and the near one."""
    with pytest.raises(SettingsError) as error:
        resolve("opnai:gpt-5-mini")

    assert "Did you mean 'openai'?" in str(error.value)
    assert all(name in str(error.value) for name in known_providers())


def test_a_bare_name_goes_to_the_server_in_the_environment(monkeypatch):
    """OPENAI_BASE_URL and OPENAI_API_KEY serve a name without a provider; a local server needs no key."""
    with ScriptedServer(["hello"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/ ")
        model = made("my-model")
        assert ask(model).text == "hello"
    assert server.requests[0].json()["model"] == "my-model"
    assert server.requests[0].headers["authorization"] == "Bearer none"
    assert model.profile.name == "compatible"


def test_a_key_in_a_file_is_used(tmp_path, monkeypatch):
    """The `.env` of the current folder is enough."""
    with ScriptedServer(["hello"]) as server:
        (tmp_path / ".env").write_text(
            f'OPENAI_BASE_URL={server.url}\r\nexport OPENAI_API_KEY="{KEY}"\r\nOPENAI_MODEL=m\r\n'
        )
        assert ask(default_model()).text == "hello"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_the_address_tells_the_provider(monkeypatch):
    """OpenAI's variables pointed at another known provider bring that one's quirks."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.deepseek.com/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    assert made("deepseek-chat").profile is PROFILES["deepseek"]


def test_arguments_win(monkeypatch):
    """base_url, api_key and options of the class go before the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "another-key-000")
    model = made(
        "openai:m", base_url="http://localhost:9/v1", api_key=KEY, retry=Retry(attempts=1), headers={"x-own": "1"}
    )

    assert model.transport.endpoint.base == "http://localhost:9/v1"
    assert model.transport.endpoint.headers["authorization"].reveal() == f"Bearer {KEY}"
    assert model.transport.endpoint.headers["x-own"] == "1"
    assert model.transport.retry.attempts == 1


def test_a_model_name_may_hold_a_colon(monkeypatch):
    """Only the first one separates; with an address of its own a name is taken whole."""
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    assert made("openrouter:org/model:free").model == "org/model:free"
    assert made("qwen2.5:7b", base_url="http://localhost:11434/v1").model == "qwen2.5:7b"

    monkeypatch.setenv("OPENAI_MODEL", "qwen2.5:7b")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:11434/v1")
    assert default_model().model == "qwen2.5:7b"


def test_organisation_and_project_are_sent(monkeypatch):
    """OpenAI's two optional headers come from their variables."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")

    headers = made("openai:m").transport.endpoint.headers
    assert headers["openai-organization"].reveal() == "org-1"
    assert "openai-project" not in headers


@pytest.mark.parametrize("name", ["openai:", "deepseek: "])
def test_a_provider_without_a_model(name):
    """The error says what is missing."""
    with pytest.raises(SettingsError, match="no model is named"):
        resolve(name)


def test_nothing_to_ask():
    """The error names the three ways on."""
    with pytest.raises(SettingsError) as error:
        default_model()

    assert all(way in str(error.value) for way in ("OPENAI_API_KEY", "fetch-model", "Ollama"))


def test_a_key_without_a_model(monkeypatch):
    """Then only the model's name is missing, and the error says so."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    with pytest.raises(SettingsError, match="OPENAI_MODEL is not set"):
        default_model()


@pytest.mark.parametrize("key", ["sk-proj-Abc123Abc123Abc123", "gsk_0123456789abcdefgh", "a1" * 16])
def test_a_key_in_the_place_of_a_model_is_never_shown(key, monkeypatch):
    """It is told that it stands at a wrong place, and hidden from then on."""
    monkeypatch.setenv("OPENAI_MODEL", key)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for work in (default_model, lambda: resolve(key), lambda: resolve(f"groq:{key}")):
        with pytest.raises(SettingsError, match="like a key") as error:
            work()
        assert key not in str(error.value)
    assert mask(key) == "[hidden]"


@pytest.mark.parametrize(
    "name",
    [
        "gpt-5-mini",
        "accounts/fireworks/models/llama-v3p1-405b-instruct",
        "qwen2.5-coder-1.5b-instruct-q4_k_m",
        "claude-sonnet-4-5-20250929",
        "skywork-reward-llama-3.1-8b-v0.2",
        "anthropic.claude-3-5-sonnet-20241022-v2:0",
        "ft:gpt-4o-mini-2024-07-18:acme::abc12345",
    ],
)
def test_the_names_of_models_are_no_keys(name):
    """Long ones, those of fine-tuned models, and those of clouds."""
    assert not looks_like_key(name)


def test_a_class_is_no_model():
    """It is told how one is made of it."""
    with pytest.raises(SettingsError, match=r"ScriptedModel is a class, no model. Write ScriptedModel"):
        as_model(ScriptedModel)


def test_who_has_no_key_is_told_the_way_without_one(tmp_path, monkeypatch):
    """The embedded model where its weights are here, else how they are fetched; and which name needed the key."""
    with pytest.raises(SettingsError, match=r"openai:gpt-5-mini needs it.*fetch-model, once"):
        resolve("gpt-5-mini")
    (tmp_path / "mine.gguf").touch()
    monkeypatch.setenv("AGENTNB_GGUF", str(tmp_path / "mine.gguf"))
    with pytest.raises(SettingsError, match=r"-m local in a cell\), whose weights are here"):
        resolve("gpt-5-mini")


def test_a_model_without_a_key(monkeypatch):
    """A chosen model whose key is missing or empty is an error, not another model."""
    monkeypatch.setenv("OPENAI_MODEL", "gpt-5-mini")
    monkeypatch.setenv("OPENAI_API_KEY", "")

    with pytest.raises(SettingsError, match="OPENAI_API_KEY is not set"):
        default_model()


def test_what_stands_for_a_model():
    """A Model is itself, a function answers, a name is looked up; anything else is an error."""
    scripted = ScriptedModel(["x"])
    assert as_model(scripted) is scripted
    assert as_model(lambda request: "hi").name == "<lambda>"
    assert as_model("ollama:qwen3").name == "ollama:qwen3"
    with pytest.raises(SettingsError, match="int is no model"):
        as_model(3)


@pytest.mark.parametrize("options", [{"base_url": "http://127.0.0.1:1/v1"}, {"api_key": "k" * 20}], ids=["url", "key"])
def test_a_deployment_named_by_a_hash(options):
    """Where it can't be the key, a name of hex digits is a name."""
    name = "0123456789abcdef" * 4
    assert resolve(f"openai:{name}", **options).name.endswith(name)
    assert resolve(f"llamacpp:{name}").name.endswith(name)
