"""The scorers that read an answer: exact and contained texts, patterns, numbers, choices, JSON fields.

Each is a small frozen value with `async score(task, run) -> Score`; `scorers` finds them by name. What they raise is
never a 0: `score_run` makes it the outcome "score error".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agentnb.comparison.answers import MISSING, at_path, chosen_letters, expected_fields, holds, json_object, plain
from agentnb.comparison.numerals import Reading, read_number, read_numbers
from agentnb.comparison.scores import Score
from agentnb.comparison.tasks import Task
from agentnb.core.state import State
from agentnb.errors import SettingsError
from agentnb.text import clean, mask, shorten

_SHOWN = 200
_MANY = 6
RELATIVE = 1e-9
PICKS = ("last", "first", "any", "only")


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ExactScorer:
    """The answer is the expected text, or one of several. Case, spaces and the marks around it do not matter."""

    strict: bool = False
    """Every character matters."""
    name: str = "exact"

    async def score(self, task: Task, run: State) -> Score:
        """1 or 0."""
        answer, wanted = answer_of(run), _texts(task)
        same = answer in wanted if self.strict else plain(answer) in map(plain, wanted)
        return Score.of(same, told(f"read {answer!r}; expected {_or(wanted)}"), self.name)


@dataclass(frozen=True, slots=True)
class ContainsScorer:
    """The expected text, or one of several, stands in the answer as a whole word; case and spaces do not matter."""

    every: bool = False
    """Of several texts each is wanted: the score is the share that is there."""
    name: str = "contains"

    async def score(self, task: Task, run: State) -> Score:
        """1 or 0; with `every` also between."""
        answer, wanted = answer_of(run), _texts(task)
        there = [text for text in wanted if holds(answer, text)]
        value = len(there) / len(wanted) if self.every else float(bool(there))
        words = f"found {_or(there)}" if there else f"found none of {_or(wanted)} in {answer!r}"
        missing = [text for text in wanted if text not in there] if self.every and there else []
        return Score.of(value, told(words + (f"; missing {_or(missing)}" if missing else "")), self.name)


@dataclass(frozen=True, slots=True)
class RegexScorer:
    """A regular expression is found in the answer; with a group, its last match must be the expected text.

    Without a pattern of its own, the expected texts are the patterns.
    """

    pattern: str = ""
    flags: int = re.IGNORECASE
    name: str = "regex"

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern, self.flags)
        except re.error as error:
            raise SettingsError(
                f"{self.pattern!r} is no regular expression: {error}", layer="comparison", remedy="Write r'...'."
            ) from error

    async def score(self, task: Task, run: State) -> Score:
        """1 or 0."""
        answer, wanted = answer_of(run), _texts(task) if task.expected is not None or not self.pattern else []
        pattern = re.compile(self.pattern or "|".join(f"(?:{each})" for each in wanted), self.flags)
        found = list(pattern.finditer(answer))
        if not found:
            return Score.of(0, told(f"no match of {pattern.pattern!r} in {answer!r}"), self.name)
        if not (self.pattern and pattern.groups and wanted):
            return Score.of(1, told(f"matched {found[-1].group()!r}"), self.name)
        read = next((group for group in found[-1].groups() if group is not None), "")
        return Score.of(plain(read) in map(plain, wanted), told(f"read {read!r}; expected {_or(wanted)}"), self.name)


# ── numbers, choices, fields ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NumberScorer:
    """A number in the answer is the expected one, or one of several, within a tolerance.

    How numbers are read stands in `numerals`. Of several numbers in the answer the last counts, unless `pick` says
    otherwise. A percent sign on either side makes 12 % stand for 12 and for 0.12.
    """

    tolerance: float = 0.0
    """The largest absolute difference."""
    relative: float = RELATIVE
    """Or the largest difference as a share of the expected number, whichever allows more."""
    pick: str = "last"
    """"last", "first", "any" (one of them fits), "only" (all must be the same number)."""
    name: str = "number"

    def __post_init__(self) -> None:
        if self.pick not in PICKS:
            raise SettingsError(f"pick={self.pick!r}, expected one of {', '.join(PICKS)}", layer="comparison")
        if not (0 <= self.tolerance < float("inf") and 0 <= self.relative < float("inf")):
            raise SettingsError("a tolerance is a number from 0", layer="comparison")

    async def score(self, task: Task, run: State) -> Score:
        """1 or 0.

        Raises:
            ValueError: No number is expected.
        """
        wanted = [_expected_number(each) for each in several(task.expected)]
        read = read_numbers(answer_of(run))
        expected = " or ".join(each.text for each in wanted)
        if not read:
            return Score.of(0, told(f"no number in {answer_of(run)!r}; expected {expected}"), self.name)
        picked = {"last": read[-1:], "first": read[:1]}.get(self.pick, read)
        fits = [any(self._fits(each, one) for one in wanted) for each in picked]
        right = any(fits) if self.pick == "any" else all(fits)
        return Score.of(right, told(self._explained(read, picked, expected)), self.name)

    def _fits(self, read: Reading, wanted: Reading) -> bool:
        return any(
            _near(one, other, self.tolerance, self.relative) for one in read.meanings for other in wanted.meanings
        )

    def _explained(self, read: Sequence[Reading], picked: Sequence[Reading], expected: str) -> str:
        which = f", the {self.pick} of {len(read)} numbers" if len(read) > len(picked) else ""
        shown = ", ".join(each.text for each in picked[:_MANY])
        within = f" ± {self.tolerance:g}" if self.tolerance else ""
        return f"read {shown}{which}; expected {expected}{within}"


@dataclass(frozen=True, slots=True)
class ChoiceScorer:
    """The answer names the right one of the task's choices, by its letter or its text; several named are wrong."""

    name: str = "choice"

    async def score(self, task: Task, run: State) -> Score:
        """1 or 0.

        Raises:
            ValueError: What is expected is none of the choices.
        """
        wanted = {self._letter(each, task.choices) for each in _texts(task)}
        read = chosen_letters(answer_of(run), task.choices)
        words = (
            f"read {' and '.join(read) or f'no choice in {answer_of(run)!r}'}; expected {' or '.join(sorted(wanted))}"
        )
        return Score.of(len(read) == 1 and read[0] in wanted, told(words), self.name)

    @staticmethod
    def _letter(expected: str, choices: Sequence[str]) -> str:
        texts = [plain(each) for each in choices]
        if plain(expected) in texts:
            return chr(ord("A") + texts.index(plain(expected)))
        letter = expected.strip().strip("().").upper()
        if len(letter) == 1 and "A" <= letter <= (chr(ord("A") + len(choices) - 1) if choices else "Z"):
            return letter
        raise ValueError(f"{expected!r} is none of the choices {list(choices)}")


@dataclass(frozen=True, slots=True)
class FieldsScorer:
    """The answer gives the expected JSON fields; the score is the share that is right.

    What is expected is a dict, or the JSON text of one; "places.0.name" reaches inside. Numbers are compared as
    numbers, texts without regard to case, spaces and the marks around them, lists and objects whole. Fields that nobody
    expects are ignored.
    """

    tolerance: float = 0.0
    """The largest difference of numbers."""
    name: str = "json_fields"

    async def score(self, task: Task, run: State) -> Score:
        """From 0 to 1.

        Raises:
            ValueError: What is expected is no dict with fields.
        """
        expected = expected_fields(task.expected)
        if expected is None:
            raise ValueError(f"expected={task.expected!r} has no fields")
        given = json_object(answer_of(run), run.value)
        if given is None:
            return Score.of(0, told(f"no JSON object in {answer_of(run)!r}"), self.name)
        read = {path: at_path(given, path) for path in expected}
        wrong = [path for path, value in expected.items() if not self._same(read[path], value)]
        words = "; ".join(f"{path} is {read[path]!r}, expected {expected[path]!r}" for path in wrong)
        return Score.of(1 - len(wrong) / len(read), told(words or "every field is right"), self.name)

    def _same(self, read: Any, wanted: Any) -> bool:
        if read is MISSING or isinstance(read, bool) is not isinstance(wanted, bool):
            return False
        if isinstance(wanted, int | float) and not isinstance(wanted, bool):
            found = read_number(read)
            return found is not None and _near(found.value, Decimal(str(wanted)), self.tolerance, RELATIVE)
        if isinstance(wanted, str):
            return isinstance(read, str) and plain(read) == plain(wanted)
        return bool(read == wanted)


# ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def answer_of(run: State) -> str:
    """The answer; "" without one."""
    return run.answer or ""


def several(expected: Any) -> list[Any]:
    """What is accepted: the members of a list, or the one thing that is expected."""
    return list(expected) if isinstance(expected, list | tuple | set | frozenset) else [expected]


def _texts(task: Task) -> list[str]:
    """The accepted texts.

    Raises:
        ValueError: None is expected, or an empty one.
    """
    texts = [str(each) for each in several(task.expected) if each is not None]
    if not texts or not all(text.strip() for text in texts):
        raise ValueError(f"the task {task.id!r} expects {task.expected!r}, which is no text to look for")
    return texts


def _expected_number(expected: Any) -> Reading:
    found = read_number(expected)
    in_text = read_numbers(expected) if found is None and isinstance(expected, str) else []
    if found is None and len(in_text) != 1:
        raise ValueError(f"expected={expected!r} is not one number")
    return found or in_text[0]


def _near(read: Decimal, wanted: Decimal, tolerance: float, relative: float) -> bool:
    return abs(read - wanted) <= max(Decimal(str(tolerance)), Decimal(str(relative)) * abs(wanted))


def _or(texts: Sequence[str]) -> str:
    more = f" or {len(texts) - _MANY} more" if len(texts) > _MANY else ""
    return " or ".join(map(repr, texts[:_MANY])) + more


def told(text: str) -> str:
    """An explanation that may be kept: one line, bounded, without secrets."""
    return mask(shorten(clean(text), _SHOWN))
