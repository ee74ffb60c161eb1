"""How an answer is scored: exact, contains, regex, number, JSON fields, choice, or a function of yours.

    score = await score_run(task, run, "number")      a name, a Scorer such as NumberScorer(tolerance=0.5), a function
    score = await score_run(task, run)                by what is expected: see `AutomaticScorer`

A scorer takes a task and a finished run and returns a Score. A run that brought no answer is not scored: its outcome
says why. A scorer that raises makes the outcome "score error", never a 0. The judge model is in `judge`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agentnb.comparison.answer_scorers import (
    ChoiceScorer,
    ContainsScorer,
    ExactScorer,
    FieldsScorer,
    NumberScorer,
    RegexScorer,
    answer_of,
    several,
    told,
)
from agentnb.comparison.answers import expected_fields
from agentnb.comparison.numerals import read_number
from agentnb.comparison.scores import Outcome, Score, outcome_of_stop
from agentnb.comparison.tasks import Task
from agentnb.core.limits import StopReason
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.errors import AgentnbError, SettingsError
from agentnb.text import shorten
from agentnb.threads import is_async, run_in_thread


class Scorer(Protocol):
    """Scores the answer of a finished run; small, frozen, and fit to be pickled."""

    @property
    def name(self) -> str:
        """Shown beside each score."""
        ...

    async def score(self, task: Task, run: State) -> Score:
        """The score; whatever it raises makes the outcome "score error"."""
        ...


async def score_run(task: Task, run: State, scorer: Any = None) -> Score:
    """Score one run of one task.

    Args:
        task: Its own `scorer` comes before the one given here.
        run: Finished; when it has no answer the outcome says how it ended, and no scorer is asked.
        scorer: A name, a Scorer or a function; None goes by what the task expects.

    Raises:
        SettingsError: There is no such scorer.
    """
    if run.stop is not StopReason.ANSWER:
        return Score(outcome_of_stop(run.stop), None, told(run.detail))
    chosen = to_scorer(task.scorer or scorer)
    try:
        return await chosen.score(task, run)
    except Exception as error:
        what = error.message if isinstance(error, AgentnbError) else f"{type(error).__name__}: {error}"
        return Score(Outcome.SCORE_ERROR, None, told(f"the scorer {chosen.name!r} failed: {what}"), chosen.name)


async def check_scorers(tasks: Iterable[Task], scorer: Any = None) -> None:
    """See, before anything is paid for, that every task has a scorer that can use what the task expects.

    Raises:
        SettingsError: There is no such scorer, or it can't use that; the error names the task.
    """
    empty = State.start("-").planned(Decision(answer="-"))
    for task in tasks:
        try:
            chosen = to_scorer(task.scorer or scorer)
            if isinstance(chosen, _READING):
                await chosen.score(task, empty)
        except (ValueError, SettingsError, re.error) as error:
            what = error.message if isinstance(error, SettingsError) else str(error)
            raise SettingsError(f"task {task.id!r} can't be scored: {what}", layer="comparison") from error


def to_scorer(thing: Any = None) -> Scorer:
    """The scorer that this stands for: None (automatic), a name, a Scorer, or a function.

    Raises:
        SettingsError: It stands for none.
    """
    if thing is None:
        return AutomaticScorer()
    if isinstance(thing, str) and thing in NAMED:
        return NAMED[thing]()
    if callable(getattr(thing, "score", None)) and not isinstance(thing, type):
        return thing  # type: ignore[no-any-return]
    if callable(thing):
        return FunctionScorer(thing)
    raise SettingsError(
        f"there is no scorer {thing!r}",
        layer="comparison",
        remedy=f"Use one of {', '.join(NAMED)}, or a function of answer and expected.",
    )


@dataclass(frozen=True, slots=True)
class AutomaticScorer:
    """By what the task expects: choices go to `choice`, a number (or a text that is one) to `number`, fields to
    `json_fields`, other texts to `contains`; where nothing is expected the outcome is "answered", without a score.
    """

    name: str = "automatic"

    async def score(self, task: Task, run: State) -> Score:
        """By the scorer that fits; the score carries that one's name."""
        if task.expected is None:
            return Score(Outcome.ANSWERED, None, "nothing is expected, so there is no score")
        return await self.fitting(task).score(task, run)

    @staticmethod
    def fitting(task: Task) -> Scorer:
        """The scorer for what this task expects."""
        if task.choices:
            return ChoiceScorer()
        if expected_fields(task.expected):
            return FieldsScorer()
        return NumberScorer() if all(map(read_number, several(task.expected))) else ContainsScorer()


# ── a function ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class FunctionScorer:
    """A function of yours, sync or async: `def good(answer, expected): ...`.

    Its parameters named `answer`, `expected`, `task` or `run` get these; others get what is left, in this order. It
    returns True or False, a number from 0 to 1, that with an explanation, or a Score. A sync one runs in a thread.
    """

    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """The function's own."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    async def score(self, task: Task, run: State) -> Score:
        """What the function returns, as a Score.

        Raises:
            TypeError: It returned something else, None for example.
        """
        offered = {"answer": answer_of(run), "expected": task.expected, "task": task, "run": run}
        arguments = _arguments(self.function, offered)
        if is_async(self.function):
            found = await self.function(*arguments)
        else:
            found = await run_in_thread(self.function, *arguments)
        return self._read(await found if inspect.isawaitable(found) else found)

    def _read(self, found: Any) -> Score:
        if isinstance(found, Score):
            return found
        value, why = found if isinstance(found, tuple) and len(found) == 2 else (found, "")
        value = value.item() if hasattr(value, "item") else value
        if not isinstance(value, int | float):
            raise TypeError(f"it returned {shorten(repr(found))}, expected True, False or a number from 0 to 1")
        return Score.of(value, told(str(why)), self.name)


def _arguments(function: Callable[..., Any], offered: Mapping[str, Any]) -> list[Any]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [each for each in inspect.signature(function).parameters.values() if each.kind in kinds]
    names = [each.name for each in parameters if each.name in offered or each.default is each.empty]
    left = [name for name in offered if name not in names]
    return [offered[name if name in offered else left.pop(0)] for name in names]


NAMED: dict[str, Callable[[], Scorer]] = {
    "automatic": AutomaticScorer,
    "exact": ExactScorer,
    "contains": ContainsScorer,
    "regex": RegexScorer,
    "number": NumberScorer,
    "choice": ChoiceScorer,
    "json_fields": FieldsScorer,
}
"""What a scorer may be called in a task set, a cell or an argument."""
_READING = (AutomaticScorer, ExactScorer, ContainsScorer, RegexScorer, NumberScorer, ChoiceScorer, FieldsScorer)
"""They only read: no function of a person, no model."""
