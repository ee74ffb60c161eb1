"""What is on this machine: versions, settings, the embedded model's weights. Nothing here needs a network."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from agentnb import settings
from agentnb.doctor.check import OK, PROBLEM, SKIPPED, Check, whatever_happens
from agentnb.errors import SettingsError
from agentnb.models import weights
from agentnb.models.profiles import KEY_SETTINGS, PROFILES, Profile
from agentnb.text import hide, looks_like_key

LIBRARIES = ("httpx", "pydantic", "ipython", "ipywidgets", "matplotlib", "xllamacpp", "jupyterlab")
OWN = (
    "OPENAI_MODEL",
    "TEMPERATURE",
    "MAX_ITERATIONS",
    "AGENT_DEBUG",
    "AGENTNB_GGUF",
    "AGENTNB_CACHE",
    "AGENTNB_RECORDING",
    "AGENTNB_RENDER",
)
"""Our settings beside those of the providers."""
FETCH = "To use it: python -m agentnb fetch-model (1.1 GB, once)."
INSTALL = f'{Path(sys.executable).name} -m pip install "agentnb-jupyter[local]"'


def set_up_checks() -> Iterator[Check]:
    """Versions, then settings, then weights."""
    told: set[Check] = set()
    for make in (hide_keys, versions, env_file, variables, numbers, embedded):
        for check in whatever_happens("settings", make()):
            if check not in told:  # a file that can't be read stops every one of them
                yield check
            told.add(check)


def hide_keys() -> Iterator[Check]:
    """From here on every key that is set is hidden wherever it turns up, whoever says it; a misplaced one is told."""
    settings.hide_keys(KEY_SETTINGS, shortest=0)
    for name in OWN:
        if (value := settings.get(name)) is not None and looks_like_key(value):
            hide(value)
            yield Check(
                "settings", PROBLEM, f"{name} holds what looks like a key", "Put it into the variable for keys."
            )


def versions() -> Iterator[Check]:
    """What runs here."""
    found = [f"{name} {version}" for name in LIBRARIES if (version := _version(name))]
    own = _version("agentnb-jupyter") or "from source"
    here = f"agentnb {own}, Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Check("versions", OK, ", ".join([here, *found]))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def env_file() -> Iterator[Check]:
    """Whether there is a `.env`, and whether something hides what stands in it."""
    path = next((path for path in settings._candidates() if path.is_file()), None)
    if path is None:
        yield Check("settings", SKIPPED, "there is no .env here or above; only the environment counts")
        return
    values = settings._from_file()
    yield Check("settings", OK, f"{path} is read; the environment wins over it")
    for name in _known():
        if (values.get(name) or "").strip() and settings.get(name) is None:
            text = f"{name} stands in .env, but the environment sets it to nothing, which wins"
            yield Check("settings", PROBLEM, text, f"Unset it: unset {name}.")


def variables() -> Iterator[Check]:
    """Which settings are there: their names, never their values."""
    found = [name for name in _known() if settings.get(name) is not None]
    if found:
        yield Check("settings", OK, f"set: {', '.join(found)}")
    else:
        yield Check("settings", SKIPPED, "no variable of agentnb or of a provider is set")


def _known() -> tuple[str, ...]:
    of_providers = [name for profile in PROFILES.values() for name in _settings_of(profile)]
    return tuple(dict.fromkeys(name for name in (*of_providers, *OWN) if name))


def _settings_of(profile: Profile) -> tuple[str, ...]:
    others = (profile.bearer, profile.url_setting, profile.version_setting, profile.custom_headers)
    return (*profile.keys, *others, *profile.header_settings.values())


def numbers() -> Iterator[Check]:
    """Settings that must be numbers; only what is wrong is told."""
    for name, read in (("TEMPERATURE", settings.number), ("MAX_ITERATIONS", settings.whole)):
        try:
            read(name)
        except SettingsError as error:
            yield Check("settings", PROBLEM, error.message, error.remedy)


def embedded() -> Iterator[Check]:
    """The embedded model: its file and its engine. Without it, another model must be named."""
    wanted, path = settings.get("AGENTNB_GGUF"), weights.find()
    if path is None and wanted:
        yield Check("weights", PROBLEM, f"AGENTNB_GGUF names {wanted!r}, and no such file is here", "Correct it.")
    elif path is None:
        yield Check("weights", SKIPPED, "the embedded model is not here", FETCH)
    elif find_spec("xllamacpp") is None:
        yield Check("weights", PROBLEM, f"{path} is here, but the engine that runs it is not", f"Run {INSTALL}.")
    else:
        yield Check("weights", OK, f'{path.name} ({path.stat().st_size / 1e9:.2f} GB), for model="local"')
