"""Two texts beside each other, cut to where they part; quoted, so that no character of theirs can do anything."""

from __future__ import annotations


def apart(was: str, now: str, window: int = 40) -> tuple[str, str]:
    """The same stretch of both texts, from a little before the place where they part.

    Args:
        was: One text.
        now: The other.
        window: How many characters of each are shown.
    """
    pairs = enumerate(zip(was, now, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(was), len(now)))
    start = max(0, at - window // 2)
    return excerpt(was, start, window), excerpt(now, start, window)


def excerpt(text: str, start: int = 0, window: int = 40) -> str:
    """Some characters from `start` on, in quotes, with dots where more stands; a text that fits is shown whole."""
    start = 0 if len(text) <= window else start
    piece = text[start : start + window]
    return repr(("…" if start else "") + piece + ("…" if start + window < len(text) else ""))


def printable(text: str) -> str:
    """In one line, without characters that could move others."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
