"""Settings: the environment first, then the nearest `.env`; read when asked for, never at import.

    OPENAI_BASE_URL  OPENAI_API_KEY  OPENAI_MODEL     whom to ask
    TEMPERATURE  MAX_ITERATIONS  AGENT_DEBUG          how an agent runs
    AGENTNB_GGUF  AGENTNB_RECORDING  AGENTNB_RENDER   embedded model, recordings, display

The `.env` is looked for in the current folder and upwards, as far as the home folder or the root of the repository.
A key leaves this module only as a Secret, which shows as "[hidden]" wherever it is printed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentnb.errors import SettingsError
from agentnb.text import hide, mask, shorten

HIDDEN = "[hidden]"
_OFF = ("", "0", "false", "no", "off")
_parsed: dict[Path, tuple[tuple[int, int], Mapping[str, str | None]]] = {}


def get(name: str) -> str | None:
    """The setting without the white space around it; None when it is missing or empty.

    A variable that is set in the environment wins over `.env`, also when it is set to nothing.
    """
    value = os.environ.get(name)
    if value is None:
        value = _from_file().get(name)
    return (value or "").strip() or None


def secret(name: str) -> Secret | None:
    """The setting as a Secret; None when it is missing or empty."""
    value = get(name)
    return None if value is None else Secret(value, name)


def hide_keys(names: Iterable[str], shortest: int = 16) -> None:
    """From here on `text.mask` hides what these settings hold, whoever says it; of "Name: value" lines the values.

    Args:
        names: Of variables.
        shortest: Shorter ones are left for `secret`: who needs no key writes a word there.
    """
    file = _from_file()
    for name in names:
        for line in (os.environ.get(name, file.get(name)) or "").splitlines():
            value = line.partition(": ")[2].strip() or line.strip()
            if len(value) >= shortest:
                hide(value)


def number(name: str) -> float | None:
    """The setting as a number; None when it is missing.

    Raises:
        SettingsError: It is no finite number.
    """
    value = get(name)
    if value is None:
        return None
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise SettingsError(f"{name}={_shown(value)}, expected a number", remedy=f"Write {name}=0.2, or remove it.")
    return found


def whole(name: str) -> int | None:
    """The setting as a whole number above 0; None when it is missing.

    Raises:
        SettingsError: It is anything else.
    """
    value = get(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and 0 < len(value) < 10 and int(value) > 0):
        raise SettingsError(
            f"{name}={_shown(value)}, expected a whole number above 0", remedy=f"Write {name}=20, or remove it."
        )
    return int(value)


def flag(name: str) -> bool:
    """Whether the setting is on: anything but "", 0, false, no and off."""
    return (get(name) or "").lower() not in _OFF


def debug() -> bool:
    """Whether AGENT_DEBUG is on."""
    return flag("AGENT_DEBUG")


class Secret:
    """A key that shows as "[hidden]" and that `text.mask` hides everywhere from now on.

    A pickled Secret holds only the name of its variable: on another machine it is read there, from the environment.
    """

    __slots__ = ("_value", "name", "prefix")

    def __init__(self, value: str, name: str = "", prefix: str = "") -> None:
        self._value: str | None = value.strip()
        self.name = name
        """The variable that it was read from; "" when it was given in code."""
        self.prefix = prefix
        """Stands before the key when it is revealed, such as "Bearer "."""
        hide(self._value)

    def with_prefix(self, prefix: str) -> Secret:
        """The same key, revealed with this before it."""
        made = Secret("", self.name, prefix)
        made._value = self._value
        return made

    def reveal(self) -> str:
        """The key itself, for the one place that sends it.

        Raises:
            SettingsError: It was pickled, and here its variable is not set.
        """
        if self._value is None:
            here = secret(self.name) if self.name else None
            if here is None:
                source = f"{self.name} is not set here" if self.name else "a key given in code does not travel"
                raise SettingsError(source, remedy="Set the key in the environment of this process.")
            self._value = here.reveal()
        return self.prefix + self._value

    def __str__(self) -> str:
        return HIDDEN

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._parts() == other._parts()

    def _parts(self) -> tuple[str | None, ...]:
        return self.name, self.prefix, self._value

    def __hash__(self) -> int:
        return hash((Secret, self.name))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> Any:
        return _traveller, (self.name, self.prefix)


def _traveller(name: str, prefix: str) -> Secret:
    arrived = Secret("", name, prefix)
    arrived._value = None
    return arrived


def _shown(value: str) -> str:
    return repr(mask(shorten(value)))


def _from_file() -> Mapping[str, str | None]:
    """The values of the nearest `.env`, parsed anew only when the file has changed."""
    path = next((path for path in _candidates() if path.is_file()), None)
    if path is None:
        return {}
    status = path.stat()
    version = (status.st_mtime_ns, status.st_size)
    kept = _parsed.get(path)
    if kept is None or kept[0] != version:
        kept = _parsed[path] = (version, _parse(path))
    return kept[1]


def _candidates() -> Iterator[Path]:
    try:
        here = Path.cwd()
        home = Path.home()
    except (OSError, RuntimeError):
        return
    folders: list[Path] = []
    for folder in (here, *here.parents):
        folders.append(folder)
        if folder == home or (folder / ".git").exists():
            break
    else:
        folders = [here]  # outside both, the folders above are other people's
    yield from (folder / ".env" for folder in folders)


def _parse(path: Path) -> Mapping[str, str | None]:
    from dotenv import dotenv_values

    try:
        return dotenv_values(path, interpolate=False, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path} can't be read ({type(error).__name__})", remedy="Save it as UTF-8 text, one NAME=value per line."
        ) from None
