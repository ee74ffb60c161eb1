"""What a check finds, as one line of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentnb.errors import AgentnbError
from agentnb.text import clean, mask, plain, shorten

OK = "ok"
PROBLEM = "problem"
SKIPPED = "skipped"
_MOST_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. No text of it ever holds a key, or a piece of one."""

    name: str
    status: str
    """"ok", "problem" or "skipped" (could not be checked, or does not matter here)."""
    text: str
    """What was found."""
    remedy: str = ""
    """What to do now; "" when there is nothing to do."""

    def __post_init__(self) -> None:
        for name in ("text", "remedy"):
            safe = shorten(mask(plain(clean(getattr(self, name)))), _MOST_CHARACTERS)
            object.__setattr__(self, name, safe)

    def __str__(self) -> str:
        told = f"{self.text.rstrip('.')}. {self.remedy}" if self.remedy else self.text
        return f"{self.status:<8} {self.name:<12} {told}"


def whatever_happens(name: str, made: Iterable[Check]) -> Iterator[Check]:
    """The same checks; where making them raises, that is the last one: a problem."""
    try:
        yield from made
    except AgentnbError as error:
        yield Check(name, PROBLEM, error.message, error.remedy)
    except Exception as error:
        yield Check(name, PROBLEM, f"it could not be checked: {type(error).__name__}: {error}")
