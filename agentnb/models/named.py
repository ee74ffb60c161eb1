"""A model that so far is only a name: it is looked up when it is first asked.

So a notebook whose model calls are all recorded runs without a key and without weights, and a wrong name is still
reported at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from agentnb import settings
from agentnb.core.model import Model, ModelReply, ModelRequest, OnDelta
from agentnb.errors import SettingsError
from agentnb.models import catalog
from agentnb.models.profiles import KEY_SETTINGS, PROFILES
from agentnb.settings import Secret


def to_model(thing: Any) -> Model:
    """The Model that an agent's `model=` stands for: a name (or None, the default), a Model, or a callable.

    From here on every key that is set is hidden: a tool may find it, whoever plays the model.

    Raises:
        SettingsError: The name's provider is unknown, or the thing is none of these.
    """
    settings.hide_keys(KEY_SETTINGS)
    if thing is None or isinstance(thing, str):
        return NamedModel(_checked(thing.strip()) if thing else "")
    return catalog.as_model(thing)


class NamedModel:
    """Resolves its name on the first call; an empty name is the default model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._found: Model | None = None

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Ask the model behind the name.

        Raises:
            SettingsError: A key, an address or the weights are missing; nothing has been sent.
        """
        if self._found is None:
            self._found = catalog.as_model(self.name or None)
        return await self._found.reply(request, on_delta)

    def sent(self, request: ModelRequest, streamed: bool = False) -> Any:
        """What would be sent for this request, also where no key is set; the request itself where that is unknown."""
        model = (self._found or _to_be_shown(self.name)) if self.name else None
        return model.sent(request, streamed) if model is not None and hasattr(model, "sent") else request


def _to_be_shown(name: str) -> Model | None:
    """The model, perhaps without its key; None when it can't be told where and how it is asked."""
    profile = PROFILES.get(name.partition(":")[0], PROFILES["openai"])
    for key in (None, Secret("none", *profile.keys[:1])):
        with suppress(SettingsError):
            return catalog.resolve(name, api_key=key)
    return None


def _checked(name: str) -> str:
    provider, colon, _ = name.partition(":")
    if colon and provider not in catalog.known_providers():
        raise catalog.unknown_provider(provider)
    return name
