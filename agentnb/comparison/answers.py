"""What stands in an answer: texts compared as people read them, the choice that was made, the JSON that was given."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from agentnb.planners.loose_json import read_object

_AROUND = " \t\n.,;:!?\"'`*_“”‘’«»„。，！？；：「」"
_SPACELESS = "\u0e00"
"""From Thai on, scripts without spaces between words are common."""
_OBJECT = re.compile(r"\{(?=\s*[\"'}])")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ALONE = re.compile(r"[\s*_`(\[{\"']*([A-Za-z])[\s*_`)\]}\"'.:]*")


def plain(text: str) -> str:
    """A text for comparison: composed letters, no case, single spaces, no marks around it."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split()).strip(_AROUND)


def holds(text: str, part: str) -> bool:
    """Whether a text holds this part as a whole: "Paris" is in "It is Paris." and not in "Parisian", 31 not in 31.5.

    In scripts without spaces between words any place counts.
    """
    whole, part = plain(text), plain(part)
    place = whole.find(part) if part else -1
    while place >= 0:
        end = place + len(part)
        if not _joined(whole[:place][-2:], part[0], True) and not _joined(whole[end : end + 2], part[-1], False):
            return True
        place = whole.find(part, place + 1)
    return False


def _joined(beside: str, edge: str, before: bool) -> bool:
    """Whether the characters beside a part belong to the same word or number."""
    if not beside or not edge.isalnum() or edge >= _SPACELESS:
        return False
    near, far = (beside[-1], beside[:-1]) if before else (beside[0], beside[1:])
    if near in ".," and far.isdigit() and edge.isdigit():
        return True
    return near.isalnum() and near < _SPACELESS


# ── choices ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def chosen_letters(answer: str, choices: Sequence[str]) -> tuple[str, ...]:
    """The letters (A for the first) that an answer chooses; one when it is clear, none or several when it is not.

    The first of these that finds any decides: the whole answer is a letter; a letter after the last "answer" or in
    \\boxed{}; a text of the choices, the longest where one holds another; a letter in brackets or with a bracket or a
    point at the start of a line; a capital letter that stands alone (but no "A" or "I" before a word).
    """
    letters = _LETTERS[: len(choices)] or _LETTERS
    alone = _ALONE.fullmatch(answer)
    if alone and alone[1].upper() in letters:
        return (alone[1].upper(),)
    one = f"([{letters}])"
    said = re.findall(
        rf"(?i:answer)[\s*_`]*(?i:is|:|=|：)?[\s*_`:：]*(?:(?i:option|choice)\s+)?[(\[]?{one}(?!\w)", answer
    )
    boxed = re.findall(rf"\\boxed\{{(?:\\text\{{)?\s*[(]?{one}[)]?", answer)
    if said or boxed:
        return tuple(dict.fromkeys((boxed or said)[-1:]))
    return (
        _texts_chosen(answer, choices)
        or _unique(re.findall(rf"[(\[]{one}[)\]]|^[\s*_`]*{one}[).](?:\s|$)", answer, re.MULTILINE))
        or _unique(re.findall(rf"(?<![\w'’]){one}(?![\w'’])(?!(?<=[AI])\s+(?!or\b|and\b)[a-z])", answer))
    )


def _texts_chosen(answer: str, choices: Sequence[str]) -> tuple[str, ...]:
    rest, found = plain(answer), []
    for text in sorted(choices, key=len, reverse=True):
        if text and holds(rest, text):
            found.append(_LETTERS[choices.index(text)])
            rest = rest.replace(plain(text), " ")
    return tuple(sorted(found))


def _unique(found: Sequence[Any]) -> tuple[str, ...]:
    letters = ("".join(each) for each in found)
    return tuple(dict.fromkeys(letters))


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def expected_fields(expected: Any) -> Mapping[str, Any] | None:
    """The JSON fields that a task expects: a dict, or the text of one (a cell of a table); None for anything else."""
    if isinstance(expected, str) and expected.lstrip().startswith("{"):
        try:
            expected = json.loads(expected)
        except ValueError:
            return None
    return expected if isinstance(expected, Mapping) and expected else None


def json_object(answer: str, value: Any = None) -> Mapping[str, Any] | None:
    """The object that an answer gives: its typed value, else the last JSON object in the text; None without any."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return value
    found, place = None, _OBJECT.search(answer)
    while place:
        read = read_object(answer, place.start())
        found = read.value if read.value is not None else found
        place = _OBJECT.search(answer, max(read.end, place.end()))
    return found


def at_path(value: Any, path: str) -> Any:
    """What stands at "city" or "places.0.name"; MISSING where nothing does."""
    for part in [path] if isinstance(value, Mapping) and path in value else path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
"""Nothing stands at that path; null is something."""
