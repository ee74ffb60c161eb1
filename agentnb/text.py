"""Make strings safe to keep, send and show: clean, bound, mask, strip colours.

Everything that enters a run (from a person, a model, a tool, a file) passes `clean`, so no later step can fail
on half an emoji. `mask` hides every secret that `hide` was told of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from itertools import islice

_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ZERO_WIDTH = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_SIGN = re.compile(f"[{_CONTROL.pattern[1:-1]}{_ZERO_WIDTH}]")
_UNSEEN = re.compile(f"{_ANSI.pattern}|{_SIGN.pattern}")
"""What takes no room when it is shown, so that a key with it inside reads like the key."""
_PIECE = 8
_LIKENESS = 0.65
"""From 0 to 1, as difflib counts it: two letters of three in their places are enough."""
_OF_A_SERVICE = (
    r"(?:(?:sk|pk|gsk|xai|hf|r8|pplx|gh[oprsu]|github_pat|csk|nvapi)[-_]|AIza|AKIA)(?=[\w-]*[\dA-Z])[\w-]{16,}"
)
"""The key of a well-known service, by its beginning; small letters alone are names, such as classes of HTML."""
_KEY = re.compile(rf"{_OF_A_SERVICE}|(?=\D*\d)(?=\d*\D)[A-Za-z0-9]{{32,}}", re.ASCII)
_KEY_INSIDE = re.compile(rf"(?<![\w-]){_OF_A_SERVICE}", re.ASCII)
_WRITTEN = re.compile(r"(?<!\\)\\+(?:[abfnrtv]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|0?33)(?:\[[\d;]*m)?|%[0-9A-Fa-f]{2}")
"""A sign as JSON, a repr or an address writes it, with the rest of a colour code: its last letter begins no word."""
_secrets: dict[str, re.Pattern[str]] = {}
_grams: set[str] = set()
"""Every four characters in a row of a secret."""


def clean(text: str) -> str:
    """The same text with lone surrogates replaced by U+FFFD, so that it can be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return paired
    return text


def plain(text: str) -> str:
    """Without terminal colour codes and control characters; tabs and line ends stay."""
    return _CONTROL.sub("", _ANSI.sub("", text)) if _CONTROL.search(text) else text


def bound(text: str, limit: int) -> str:
    """At most about `limit` characters: head and tail, with a note of how much was left out.

    The result is never longer than `limit` plus the note (under 60 characters).
    """
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out:,} of {len(text):,} characters left out ...]\n{text[len(text) - tail :]}"


def shorten(text: str, limit: int = 80) -> str:
    """One line of at most `limit` characters, for labels and error texts."""
    line = " ".join(text.split()) if len(text) <= 4 * limit else " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def shown(text: str, limit: int) -> str:
    """A piece of a text that may hold anything, fit for one line of a terminal: no secret, no colour, no half emoji."""
    return shorten(plain(mask(clean(text[: 8 * limit]))), limit)


def counted(number: int, what: str) -> str:
    """A number with its noun: "1 step", "4 steps"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence, with a space before it, that names the known word most like this one; "" when none is like it.

    >>> did_you_mean("--modle", ["--model", "--tools"])
    " Did you mean '--model'?"
    """
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=_LIKENESS)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def listed(names: Collection[str], most: int = 20) -> str:
    """Names with commas between; of very many the first: "a, b and 998 more"."""
    more = len(names) - most
    return ", ".join(islice(names, most)) + (f" and {more:,} more" if more > 0 else "")


def no_such_tool(name: str, names: Collection[str]) -> str:
    """What a model reads when it asks for a tool that is not there: which there are, and which it may have meant."""
    hint = did_you_mean(name.rpartition(".")[2], names)
    return f"there is no tool named {shorten(name)!r}. The tools are: {', '.join(names) or 'none'}.{hint}"


def hide(secret: str) -> None:
    """From now on `mask` hides this secret and every piece of it of 8 or more characters, also as JSON spells it."""
    if _UNSEEN.sub("", secret) in _secrets:
        return
    once = json.dumps(secret, ensure_ascii=False)[1:-1]
    for spelled in (secret, once, json.dumps(once)[1:-1], json.dumps(secret)[1:-1]):
        _hide(spelled)


def _hide(secret: str) -> None:
    secret = _UNSEEN.sub("", secret)
    if len(secret) < _PIECE or secret in _secrets:
        return
    pieces = {secret[i : i + _PIECE] for i in range(len(secret) - _PIECE + 1)}
    _grams.update(secret[i : i + 4] for i in range(len(secret) - 3))
    _secrets[secret] = re.compile("(?=" + "|".join(map(re.escape, sorted(pieces))) + ")")


def knows_secrets() -> bool:
    """Whether `hide` was told of any."""
    return bool(_grams)


def looks_like_key(text: str) -> bool:
    """Whether a text that should be no key has the form of one: a known beginning, or 32 letters and digits."""
    return _KEY.fullmatch(text) is not None


def holds_key(text: str) -> bool:
    """Whether what looks like the key of a well-known service stands in a text, whatever signs are in or before it."""
    apart = _UNSEEN.sub(" ", _WRITTEN.sub(" ", text))
    return any(map(_KEY_INSIDE.search, (apart, _UNSEEN.sub("", text))))


def mask(text: str) -> str:
    """The text with every known secret, or piece of one, replaced by "[hidden]", whatever unseen signs are in it."""
    if not _grams:
        return text
    spans = [(start, start + _PIECE) for start in _starts(text)]
    odd = not (text.isascii() and text.isprintable())
    if odd and _SIGN.search(text) and (starts := _starts(_UNSEEN.sub("", text))):
        places = _places(text)
        spans = sorted({*spans, *((places[start], places[start + _PIECE - 1] + 1) for start in starts)})
    return _cover(text, spans) if spans else text


def _starts(text: str) -> list[int]:
    """Where pieces of secrets begin."""
    # eight characters hold four that begin at a multiple of five: most texts share none, and need no search
    if _grams.isdisjoint([text[i : i + 4] for i in range(0, len(text) - 3, 5)]):
        return []
    return sorted({match.start() for pattern in tuple(_secrets.values()) for match in pattern.finditer(text)})


def _places(text: str) -> list[int]:
    """Where each character stands that is seen."""
    places: list[int] = []
    at = 0
    for unseen in _UNSEEN.finditer(text):
        places += range(at, unseen.start())
        at = unseen.end()
    return [*places, *range(at, len(text))]


def _cover(text: str, spans: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    position = 0
    end = -1
    for start, stop in spans:
        if start > end:
            parts += [text[position:start], "[hidden]"]
        end = position = max(end, stop)
    return "".join([*parts, text[position:]])
