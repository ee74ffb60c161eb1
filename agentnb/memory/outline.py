"""The headings above the place where a reader is."""

from __future__ import annotations

from agentnb.text import shorten

_MOST_HEADING = 120


class Outline:
    """Headings by level; a new one closes those of its level and below."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> None:
        """A heading begins; 1 is the outermost level of a text, 0 that of its title."""
        self._open = [each for each in self._open if each[0] < level]
        if heading.strip():
            self._open.append((level, shorten(heading, _MOST_HEADING)))

    @property
    def path(self) -> tuple[str, ...]:
        """The headings that are open, the outermost first."""
        return tuple(heading for _, heading in self._open)
