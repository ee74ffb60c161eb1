"""JSON as models write it: where an object ends, and what it says, read strictly or after a repair without guesses.

A repair may change punctuation outside strings: quotes, commas, comments, Python's words for true and null, a missing
last brace. The strings, numbers and words must be there as the model wrote them: while the library repairs, each is
replaced by a numbered stand-in, and all stand-ins must come back in their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentnb.text import clean, shorten

DEEPEST = 100
"""Levels of nesting; what lies deeper is not read."""
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>//[^\n]*|\#[^\n]*|/\*.*?\*/)
      | (?P<string>"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*')
      | (?P<mark>[{}\[\]:,])
      | (?P<word>[^\s{}\[\]:,"'/\#]+)""",
    re.DOTALL | re.VERBOSE,
)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS: dict[str, Any] = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_WORDS |= {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_MEANING = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_FENCE = re.compile(r"[`~]+")


class Unreadable(ValueError):
    """Why a text can't be read without a guess."""


@dataclass(frozen=True, slots=True)
class LooseObject:
    """One object in a text."""

    end: int
    """Where it ends; the end of the text when it is never closed."""
    value: dict[str, Any] | None = None
    """None when it can't be read without a guess."""
    repaired: bool = False
    problem: str = ""
    """Why there is no value."""


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    end: int


def read_object(text: str, start: int) -> LooseObject:
    """The object that begins with the brace at `start`; valid JSON is taken as it is, the rest is repaired or refused.

    Never raises. Strings come back with U+FFFD for half emojis; NaN and Infinity are floats.
    """
    try:
        value, end = _STRICT.raw_decode(text, start)
        return LooseObject(end, _cleaned(value))
    except (ValueError, RecursionError):
        pass
    tokens, end, problem = _tokens(text, start)
    if problem:
        return LooseObject(end, problem=problem)
    try:
        return LooseObject(end, _cleaned(_repaired(tokens)), repaired=True)
    except (ValueError, RecursionError) as error:
        return LooseObject(end, problem=str(error) if isinstance(error, Unreadable) else "it is not valid JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"the name {shorten(twice)!r} stands twice in one object")
    return made


_STRICT = json.JSONDecoder(object_pairs_hook=_unique)


def _cleaned(value: Any, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise Unreadable(f"it is nested deeper than {DEEPEST} levels")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(name): _cleaned(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_cleaned(each, depth + 1) for each in value]
    return value


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tokens(text: str, start: int) -> tuple[list[_Token], int, str]:
    """The tokens of the object, where it ends, and why it can't be read ("" when perhaps it can)."""
    tokens: list[_Token] = []
    open_: list[str] = []
    problem = ""
    for token in _scan(text, start):
        tokens.append(token)
        if token.kind != "mark":
            continue
        if token.text in "{[":
            open_.append("}" if token.text == "{" else "]")
        elif token.text in "}]":
            if open_.pop() != token.text:
                problem = "its brackets do not match"
            if not open_:
                return tokens, token.end, problem
    return _closed(tokens, open_), len(text), problem or _why_open(tokens, open_)


def _scan(text: str, start: int) -> Iterator[_Token]:
    """Every token that counts; an unclosed string or comment takes all the rest."""
    position = start
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            end = len(text) if text[position] in "\"'" or text.startswith("/*", position) else position + 1
            yield _Token("unclosed" if end == len(text) else "word", text[position:end], end)
            position = end
            continue
        position = match.end()
        kind = match.lastgroup or ""
        if kind not in ("space", "comment"):
            yield _Token(kind, match.group(), position)


def _closed(tokens: list[_Token], open_: list[str]) -> list[_Token]:
    """The tokens with the one brace that models forget: the last, behind a closed inner object."""
    while tokens and tokens[-1].kind == "word" and _FENCE.fullmatch(tokens[-1].text):
        tokens.pop()
    if _why_open(tokens, open_) == "":
        tokens.append(_Token("mark", "}", tokens[-1].end))
    return tokens


def _why_open(tokens: list[_Token], open_: list[str]) -> str:
    whole = open_ == ["}"] and len(tokens) > 1 and tokens[-1].text == "}" and tokens[-1].kind == "mark"
    if whole or not open_:
        return ""
    return "a string is not closed" if tokens and tokens[-1].kind == "unclosed" else "it is not closed"


# ── repair ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _repaired(tokens: list[_Token]) -> Any:
    scalars: list[Any] = []
    parts: list[str] = []
    for number, token in enumerate(tokens):
        if token.kind == "mark":
            parts.append(token.text)
            continue
        if tokens[number - 1].kind != "mark":
            raise Unreadable(f"near {shorten(token.text, 40)!r} it is not clear where a string ends")
        is_key = tokens[number + 1].kind == "mark" and tokens[number + 1].text == ":"
        parts.append(f'"{len(scalars)}"')
        scalars.append(_scalar(token, is_key))
    return _filled(_punctuated("".join(parts)), iter(range(len(scalars))), scalars)


def _scalar(token: _Token, is_key: bool) -> Any:
    text = token.text
    if token.kind == "string":
        return _unescaped(text[1:-1], text[0])
    if is_key and text.isidentifier():
        return text
    if text in _WORDS and not is_key:
        return _WORDS[text]
    if _NUMBER.fullmatch(text) and not is_key:
        return json.loads(text)
    raise Unreadable(f"{shorten(text, 40)!r} stands outside a string")


def _unescaped(body: str, quote: str) -> str:
    """JSON's escapes with their meaning; a backslash before anything else stays a backslash."""

    def meaning(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        return quote if code == quote else _MEANING.get(code, match[0])

    return _ESCAPE.sub(meaning, body)


def _punctuated(text: str) -> Any:
    """The structure of stand-ins; only commas, colons and brackets are left to be repaired."""
    try:
        return _STRICT.decode(text)
    except ValueError:
        from json_repair import loads

        return loads(text)


def _filled(shape: Any, numbers: Iterator[int], scalars: list[Any]) -> Any:
    """The structure with each stand-in replaced by what it stands for; all must be there, in their order."""
    value = _fill(shape, numbers, scalars)
    if next(numbers, None) is not None:
        raise Unreadable("its punctuation is broken")
    return value


def _fill(shape: Any, numbers: Iterator[int], scalars: list[Any]) -> Any:
    if isinstance(shape, dict):
        pairs = []
        for key, each in shape.items():
            name = _fill(key, numbers, scalars)
            if not isinstance(name, str):
                raise Unreadable(f"{name!r} stands where a name belongs")
            pairs.append((name, _fill(each, numbers, scalars)))
        return _unique(pairs)
    if isinstance(shape, list):
        return [_fill(each, numbers, scalars) for each in shape]
    number = next(numbers, None)
    if number is None or shape != str(number):
        raise Unreadable("its punctuation is broken")
    return scalars[number]
