"""Names to models: "provider:model", a bare model name, "local", or anything that can answer.

resolve("deepseek:deepseek-chat")        a provider of profiles.py, its key from the environment or .env
resolve("gpt-5-mini")                    OPENAI_BASE_URL, or OpenAI itself
resolve("local"), resolve("local:/a.gguf")   the embedded model, or a file of yours
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

from agentnb import settings
from agentnb.core.model import Model
from agentnb.errors import SettingsError
from agentnb.models.endpoint import check_address
from agentnb.models.profiles import COMPATIBLE, PROFILES, Profile
from agentnb.settings import Secret
from agentnb.text import did_you_mean, hide, looks_like_key, shorten

LOCAL = "local"
_DIALECTS = {
    "chat": ("agentnb.models.chat_completions", "ChatCompletionsModel"),
    "responses": ("agentnb.models.responses", "ResponsesModel"),
    "anthropic": ("agentnb.models.anthropic", "AnthropicModel"),
    "gemini": ("agentnb.models.gemini", "GeminiModel"),
    "ollama": ("agentnb.models.ollama", "OllamaModel"),
}
"""Dialect to the class that speaks it: (model, base_url, api_key, profile, name, headers=, ...)."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
WAYS = (
    "Set OPENAI_API_KEY and OPENAI_MODEL (in .env, for example); or fetch the embedded model once: "
    "python -m agentnb fetch-model; or start a local server such as Ollama and name it: model='ollama:qwen3'; "
    "or give any function of the request as the model."
)


def as_model(thing: Any = None, **options: Any) -> Model:
    """The model that this stands for: None (the default), a name, a Model, or a callable that answers a request.

    Raises:
        SettingsError: It stands for none, or a setting is missing.
    """
    if thing is None:
        return default_model()
    if isinstance(thing, str):
        return resolve(thing, **options)
    if isinstance(thing, type):
        what = f"{thing.__name__} is a class, no model"
        raise SettingsError(what, remedy=f"Write {thing.__name__}(...) to make one.")
    if callable(getattr(thing, "reply", None)):
        return thing  # type: ignore[no-any-return]
    if callable(thing):
        from agentnb.models.scripted import CallableModel

        return CallableModel(thing)
    raise SettingsError(
        f"{type(thing).__name__} is no model", remedy='Give "provider:model", a Model, or a function of the request.'
    )


def resolve(name: str, base_url: str | None = None, api_key: str | Secret | None = None, **options: Any) -> Model:
    """The model with this name.

    Args:
        name: "provider:model", a bare model name (OpenAI, or the server in OPENAI_BASE_URL), "local" or "local:PATH".
        base_url: Instead of the provider's own.
        api_key: Instead of the one in the environment or `.env`.
        options: For the model's class, such as retry=Retry(attempts=1).

    Raises:
        SettingsError: The provider is unknown, or its key or address is missing; nothing has been sent yet.
    """
    name = name.strip()
    provider, colon, model = name.partition(":")
    if provider == LOCAL:
        return _embedded(model.strip() or None)
    if not colon or (base_url and provider not in PROFILES):
        return _build(PROFILES["openai"], name, base_url, api_key, options)
    if provider not in PROFILES:
        raise unknown_provider(provider)
    return _build(PROFILES[provider], model.strip(), base_url, api_key, options)


def default_model() -> Model:
    """Who answers when nobody was named: OPENAI_MODEL, else the embedded model if its weights are here.

    Raises:
        SettingsError: There is neither; it names the ways on.
    """
    name = settings.get("OPENAI_MODEL")
    if name is not None:
        known = name.partition(":")[0] in (*PROFILES, LOCAL)
        return resolve(name) if known else _build(PROFILES["openai"], name, None, None, {})
    from agentnb.models.weights import find

    if find() is not None:
        return _embedded(None)
    if settings.get("OPENAI_API_KEY") or settings.get("OPENAI_BASE_URL"):
        raise SettingsError(
            "OPENAI_MODEL is not set, so no model is chosen", remedy="Name one: OPENAI_MODEL=gpt-5-mini."
        )
    raise SettingsError("there is no model to ask", remedy=WAYS)


def known_providers() -> tuple[str, ...]:
    """The names that may stand before the colon."""
    return (LOCAL, *PROFILES)


def _build(
    profile: Profile, model: str, base_url: str | None, api_key: str | Secret | None, options: Mapping[str, Any]
) -> Model:
    is_set_apart = base_url is not None or api_key is not None or profile.local
    if not is_set_apart and looks_like_key(model):  # a deployment, or a file of weights, may be named by a hash
        hide(model)
        what = f"the model after {profile.name!r} is named like a key, not like a model"
        remedy = "Put the key into the variable for keys, and a name such as gpt-5-mini into OPENAI_MODEL."
        raise SettingsError(what, remedy=remedy)
    if not model:
        raise SettingsError(f"no model is named after {profile.name!r}", remedy=f'Write "{profile.name}:MODEL".')
    address = (base_url or _address(profile)).strip()
    check_address(address)
    serving = profile if address.startswith(profile.base_url or "\n") else _profile_at(address, profile)
    address = _dated(address, serving, model)
    names = tuple(dict.fromkeys((*serving.keys, *profile.keys)))
    if serving.bearer and api_key is None and not any(map(settings.secret, names)):
        api_key = settings.secret(serving.bearer)
        serving = replace(serving, key_header="authorization") if api_key else serving
    key = _key(names, address, api_key, serving.local, f"{profile.name}:{model}")
    module, kind = _DIALECTS[serving.dialect]
    headers = {**_headers(profile), **_headers(serving), **(options.get("headers") or {})}
    speaks = getattr(import_module(module), kind)
    made: Model = speaks(model, address, key, serving, f"{profile.name}:{model}", **{**options, "headers": headers})
    return made


def _address(profile: Profile) -> str:
    found = settings.get(profile.url_setting) if profile.url_setting else None
    if found or profile.base_url:
        return found or profile.base_url
    raise SettingsError(
        f"{profile.url_setting} is not set: {profile.name} has no address that is the same for all",
        remedy=f"Set it, such as https://RESOURCE.openai.{profile.name}.com/openai/v1.",
    )


def _profile_at(address: str, asked: Profile) -> Profile:
    """Whose quirks hold at another address: those of the provider that lives there, else of none in particular.

    Only OpenAI's name is used for servers of others; who names another provider means that one, at another address.
    """
    if asked.name != "openai":
        return asked
    host = urlsplit(address).netloc.lower()
    chat = (each for each in PROFILES.values() if each.dialect == "chat")
    lives = (each for each in chat if urlsplit(each.base_url).netloc == host != "" or host.endswith(each.hosts))
    return next(lives, COMPATIBLE)


def _dated(address: str, profile: Profile, model: str) -> str:
    """The address in the form with a date, where the provider has one, a date is set and the address has no version."""
    date = settings.get(profile.version_setting) if profile.version_setting else None
    root, _, query = address.partition("?")
    root = root.rstrip("/")
    if date is None or "api-version=" in query or root.endswith(profile.usual_path):
        return address
    if profile.dated_path not in root:
        shared = profile.dated_path.partition("/deployments")[0]
        root = root.removesuffix(shared) + profile.dated_path + quote(model, "")
    return f"{root}?{'&'.join(filter(None, (query, f'api-version={quote(date)}')))}"


def _key(names: tuple[str, ...], address: str, given: str | Secret | None, local: bool, asked: str) -> Secret | None:
    """The key to send, the first of these variables that is set; None for a server on this machine that has none.

    Raises:
        SettingsError: There is none, and the server is elsewhere.
    """
    if given is not None:
        return given if isinstance(given, Secret) else Secret(given)
    for name in names:
        if (found := settings.secret(name)) is not None:
            return found
    if local or urlsplit(address).hostname in _LOOPBACK:
        return None
    remedy = f"Put it in .env. Without a key: {without_key()}, or a ScriptedModel."
    raise SettingsError(f"{' or '.join(names)} is not set, and {shorten(asked)} needs it", remedy=remedy)


def without_key() -> str:
    """How to go on without a key: the embedded model where it is here, else how to fetch it."""
    from agentnb.models.weights import find

    if find() is not None:
        return 'model="local" (-m local in a cell), whose weights are here'
    return 'python -m agentnb fetch-model, once (1.1 GB), then model="local" (-m local in a cell)'


def _headers(profile: Profile) -> dict[str, Secret]:
    found = {header: settings.secret(name) for header, name in profile.header_settings.items()}
    return {**_custom_headers(profile), **{header: value for header, value in found.items() if value is not None}}


def _custom_headers(profile: Profile) -> dict[str, Secret]:
    """The "Name: value" lines of the provider's variable; the values may be secrets.

    Raises:
        SettingsError: A line has no colon.
    """
    found = {}
    for line in (settings.get(profile.custom_headers) or "").splitlines() if profile.custom_headers else ():
        name, colon, value = line.partition(":")
        if line.strip() and not (colon and name.strip()):
            raise SettingsError(f"a line of {profile.custom_headers} has no name", remedy="Write lines: Name: value")
        if line.strip():
            found[name.strip().lower()] = Secret(value.strip())
    return found


def _embedded(path: str | None) -> Model:
    from agentnb.models.embedded import EmbeddedModel

    made: Model = EmbeddedModel(path)
    return made


def unknown_provider(provider: str) -> SettingsError:
    """The error for a name before the colon that nobody has; it lists those that there are."""
    hint = did_you_mean(provider, known_providers())
    return SettingsError(
        f"there is no provider {provider!r}",
        remedy=f"The providers are: {', '.join(known_providers())}.{hint} "
        "For another server write openai:MODEL and set OPENAI_BASE_URL.",
    )
