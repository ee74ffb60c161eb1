"""What is special about each provider, as data: a new one is a new row.

A quirk that the rows can't say yet becomes a field of Profile, read in one place; no code asks for a provider's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Profile:
    """One provider: where it is, how it is asked, what it can't take."""

    name: str
    base_url: str = ""
    """With the version path. "" when every user has an own one."""
    keys: tuple[str, ...] = ()
    """Variables that may hold the key, the first that is set wins; none: no key is needed."""
    hosts: tuple[str, ...] = ()
    """How the host names end that belong to this provider, where users have their own."""
    usual_path: str = "/v1"
    """The version path that a bare address most likely lacks."""
    version_setting: str = ""
    """A variable with a date: an address without a version then gets `dated_path`, the model's name and the date."""
    dated_path: str = ""
    dialect: str = "chat"
    """The wire form; `catalog` knows the class for it."""
    key_header: str = "authorization"
    """"authorization" sends "Bearer KEY", any other header the key alone."""
    bearer: str = ""
    """A variable with a token that goes as "Bearer TOKEN" where no key is set."""
    url_setting: str = ""
    """A variable that overrides the base URL."""
    header_settings: Mapping[str, str] = field(default_factory=dict)
    """Header name to the variable that holds its value; sent when it is set."""
    custom_headers: str = ""
    """A variable with more headers, one "Name: value" a line."""
    local: bool = False
    """Runs on the user's machine: slow to start, needs no key."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Parameter name to this provider's name for it."""
    replaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameter name to {value: this provider's value}."""
    schema_form: str = "json_schema"
    """The best response format it has: "json_schema", "json_object" or ""."""
    stream_usage: bool = True
    """Takes `stream_options.include_usage`."""
    think_tags: bool = True
    """A reply that begins with <think>...</think> holds reasoning, not answer text."""
    system_role: str = "system"
    empty_content: str = "keep"
    """Content of an assistant message with calls and no text: "keep" what the server used, "null" or "text" ("")."""
    fields_with_calls: Mapping[str, Any] = field(default_factory=dict)
    """Set on every assistant message with calls that lacks them."""
    first_call_fields: Mapping[str, Any] = field(default_factory=dict)
    """Set on the first call of an assistant message that another model wrote, where calls must be signed."""
    id_length: int | None = None
    """Every call id has exactly so many of [a-zA-Z0-9]; None: up to 40 characters of any kind."""
    prices: str = ""
    """The provider's name in the price list; "" when its calls have no list price."""

    def own_words(self, parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """What the user set, under this provider's names and with its values."""
        for name, value in parameters.items():
            own = self.replaces.get(name, {}).get(value, value) if isinstance(value, str) else value
            yield self.renames.get(name, name), own


ANY_SIGNATURE = "skip_thought_signature_validator"
"""Stands, by Google's own rule, for the signature of a call that another model made."""
_MAX = {"max_completion_tokens": "max_tokens"}

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "openai",
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            url_setting="OPENAI_BASE_URL",
            custom_headers="OPENAI_CUSTOM_HEADERS",
            header_settings={"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"},
            renames={"max_tokens": "max_completion_tokens"},
            think_tags=False,
            prices="openai",
        ),
        Profile(
            "openai-responses",
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            dialect="responses",
            url_setting="OPENAI_BASE_URL",
            custom_headers="OPENAI_CUSTOM_HEADERS",
            header_settings={"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"},
            think_tags=False,
            prices="openai",
        ),
        Profile(
            "anthropic",
            "https://api.anthropic.com",
            ("ANTHROPIC_API_KEY",),
            dialect="anthropic",
            key_header="x-api-key",
            bearer="ANTHROPIC_AUTH_TOKEN",
            url_setting="ANTHROPIC_BASE_URL",
            custom_headers="ANTHROPIC_CUSTOM_HEADERS",
            think_tags=False,
            prices="anthropic",
        ),
        Profile(
            "google",
            "https://generativelanguage.googleapis.com/v1beta",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            dialect="gemini",
            key_header="x-goog-api-key",
            think_tags=False,
            prices="google",
        ),
        Profile(
            "azure",
            hosts=(".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
            usual_path="/openai/v1",
            version_setting="OPENAI_API_VERSION",
            dated_path="/openai/deployments/",
            keys=("AZURE_OPENAI_API_KEY",),
            key_header="api-key",
            url_setting="AZURE_OPENAI_BASE_URL",
            think_tags=False,
            prices="azure",
        ),
        Profile(
            "openrouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",), renames=_MAX, prices="openrouter"
        ),
        Profile(
            "deepseek",
            "https://api.deepseek.com",
            ("DEEPSEEK_API_KEY",),
            renames=_MAX,
            schema_form="json_object",
            fields_with_calls={"reasoning_content": ""},
            prices="deepseek",
        ),
        Profile("qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", ("DASHSCOPE_API_KEY",), renames=_MAX),
        Profile(
            "kimi",
            "https://api.moonshot.ai/v1",
            ("MOONSHOT_API_KEY",),
            renames={"max_tokens": "max_completion_tokens"},
            fields_with_calls={"reasoning_content": ""},
            prices="moonshotai",
        ),
        Profile(
            "glm",
            "https://api.z.ai/api/paas/v4",
            ("ZAI_API_KEY", "ZHIPUAI_API_KEY"),
            renames=_MAX,
            schema_form="json_object",
            stream_usage=False,
            prices="zai",
        ),
        Profile(
            "mistral",
            "https://api.mistral.ai/v1",
            ("MISTRAL_API_KEY",),
            renames={**_MAX, "seed": "random_seed"},
            replaces={"tool_choice": {"required": "any"}},
            id_length=9,
            prices="mistral",
        ),
        Profile("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), prices="groq"),
        Profile("together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",), renames=_MAX, prices="together"),
        Profile(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("GEMINI_API_KEY",),
            renames=_MAX,
            think_tags=False,
            first_call_fields={"extra_content": {"google": {"thought_signature": ANY_SIGNATURE}}},
            prices="google",
        ),
        Profile("vllm", "http://localhost:8000/v1", ("VLLM_API_KEY",), renames=_MAX, local=True),
        Profile("llamacpp", "http://localhost:8080/v1", ("LLAMACPP_API_KEY",), renames=_MAX, local=True),
        Profile("ollama", "http://localhost:11434/v1", ("OLLAMA_API_KEY",), renames=_MAX, local=True),
        Profile("ollama-native", "http://localhost:11434", ("OLLAMA_API_KEY",), dialect="ollama", local=True),
    )
}


def _key_settings(profile: Profile) -> tuple[str, ...]:
    return (*profile.keys, profile.bearer, *profile.header_settings.values(), profile.custom_headers)


KEY_SETTINGS = tuple(sorted({name for each in PROFILES.values() for name in _key_settings(each) if name}))
"""Every variable that may hold a key."""
COMPATIBLE = Profile("compatible")
"""A server that we know nothing of but that it speaks chat completions."""
