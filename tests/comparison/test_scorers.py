"""Each scorer on answers as models write them; what fails is a score error, never a 0."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from fakes import FunctionTool, runtime_for, states_of

from agentnb import Limits, State, Task, calls
from agentnb.comparison.answer_scorers import (
    ChoiceScorer,
    ContainsScorer,
    ExactScorer,
    FieldsScorer,
    NumberScorer,
    RegexScorer,
)
from agentnb.comparison.scorers import NAMED, check_scorers, score_run, to_scorer
from agentnb.comparison.scores import Outcome, Score
from agentnb.core.limits import StopReason
from agentnb.errors import ModelError, SettingsError


def answered(text: str) -> State:
    """A run that ended with this answer."""
    return states_of(runtime_for([text]), "the goal")[-1]


def scored(scorer: Any, answer: str, expected: Any = None, **fields: Any) -> Score:
    """The score of an answer."""
    return asyncio.run(score_run(Task("t", "the goal", expected, **fields), answered(answer), scorer))


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [("Paris", "paris", 1), (" **Paris.** ", "Paris", 1), ("It is Paris", "Paris", 0), ("b", ["a", "b"], 1),
     ("caf\u0065\u0301", "café", 1), ("10²", "102", 0), ("北京。", "北京", 1)],
)  # fmt: skip
def test_exact(answer, expected, value):
    """Case, spaces, marks around and the way accents are written do not matter; letters and digits do."""
    assert scored("exact", answer, expected).value == value


def test_exact_may_be_strict():
    """Then every character counts."""
    assert scored(ExactScorer(strict=True), "Paris.", "Paris").value == 0
    assert scored(ExactScorer(strict=True), "Paris", "Paris").value == 1


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [("The capital is PARIS!", "Paris", 1), ("Parisian", "Paris", 0), ("31.5", "31", 0), ("1,310", "310", 0),
     ("31.", "31", 1), ("答案是北京。", "北京", 1), ("New\n York", "new york", 1), ("London", ["Paris", "london"], 1),
     ("C++ it is", "C++", 1), ("a 5-star", "5", 1)],
)  # fmt: skip
def test_contains(answer, expected, value):
    """A whole word or number, in scripts without spaces any place."""
    assert scored("contains", answer, expected).value == value


def test_contains_every_is_partial():
    """The share of the texts that are there, with those that are missing."""
    score = scored(ContainsScorer(every=True), "red and green", ["red", "green", "blue"])

    assert score.outcome is Outcome.PARTIAL
    assert score.value == pytest.approx(2 / 3)
    assert score.explanation == "found 'red' or 'green'; missing 'blue'"


@pytest.mark.parametrize(
    ("pattern", "answer", "expected", "value"),
    [("", "order AB-12", r"[a-z]{2}-\d+", 1), (r"answer: (\w+)", "Answer: no. Answer: Yes", "yes", 1),
     (r"answer: (\w+)", "Answer: no", "yes", 0), (r"^\d+$", "12", None, 1), (r"^\d+$", "x", None, 0),
     ("", "b2", ["a1", r"b\d"], 1)],
)  # fmt: skip
def test_regex(pattern, answer, expected, value):
    """The expected text is the pattern; or a pattern finds the text that is compared."""
    assert scored(RegexScorer(pattern), answer, expected).value == value


def test_a_bad_pattern_is_found_when_it_is_written():
    """In the code at once; in a task it is a score error."""
    with pytest.raises(SettingsError, match="no regular expression"):
        RegexScorer("(")
    assert scored("regex", "x", "(").outcome is Outcome.SCORE_ERROR


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [("31.0 degrees C", 31, 1), ("It is −1,234.5 m.", -1234.5, 1), ("12 %", 12, 1), ("0.12", "12%", 1),
     ("12 percent", 0.12, 1), ("1200 %", 12, 1), ("٣١", 31, 1), ("0.30000000000000004", 0.3, 1), ("31.05", 31, 0),
     ("none", 31, 0), ("3 of 4, so 75", [75, 76], 1), ("$5", "$5", 1)],
)  # fmt: skip
def test_number(answer, expected, value):
    """Units, groups, signs, percent and other digits; equal to nine digits."""
    assert scored("number", answer, expected).value == value


def test_tolerance_is_exact_at_its_edge():
    """31.05 is within 0.05 of 31, though not in binary."""
    assert scored(NumberScorer(tolerance=0.05), "31.05", 31).value == 1
    assert scored(NumberScorer(tolerance=0.05), "31.051", 31).value == 0
    assert scored(NumberScorer(relative=0.01), "101", 100).value == 1


@pytest.mark.parametrize(("pick", "value"), [("last", 0), ("first", 1), ("any", 1), ("only", 0)])
def test_of_several_numbers_the_last_counts(pick, value):
    """Unless another rule is chosen; what was read is told."""
    score = scored(NumberScorer(pick=pick), "31 °C at 14:00", 31)

    assert score.value == value
    if pick == "last":
        assert score.explanation == "read 00, the last of 3 numbers; expected 31"


@pytest.mark.parametrize("options", [{"pick": "best"}, {"tolerance": -1}, {"tolerance": float("nan")}])
def test_number_options_are_checked(options):
    """A wrong option is an error at once."""
    with pytest.raises(SettingsError):
        NumberScorer(**options)


CITIES = ("Paris", "London", "New York", "York")


@pytest.mark.parametrize(
    ("answer", "value"),
    [("B", 1), ("(b).", 1), ("**B**", 1), ("London", 1), ("The answer is B.", 1), ("Answer: **B) London**", 1),
     ("Not A (Paris). The answer is (B)", 1), ("$\\boxed{B}$", 1), ("B. London", 1), ("I choose B", 1), ("A", 0),
     ("Paris or London", 0), ("A or B", 0), ("New York", 0), ("A hard question", 0), ("none", 0), ("A dog and B", 1)],
)  # fmt: skip
def test_choice(answer, value):
    """A letter or a text; an article is no letter, and two choices are none."""
    assert scored("choice", answer, "B", choices=CITIES).value == value
    assert scored("choice", answer, "london", choices=CITIES).value == value


def test_a_text_within_a_text_is_one_choice():
    """New York is not York as well."""
    assert scored("choice", "It is New York", "C", choices=CITIES).value == 1
    assert scored(ChoiceScorer(), "York", "D", choices=CITIES).value == 1


def test_a_choice_that_is_not_there_is_a_score_error():
    """The task is wrong, not the answer."""
    assert scored("choice", "B", "E", choices=CITIES).outcome is Outcome.SCORE_ERROR


@pytest.mark.parametrize(
    ("answer", "value"),
    [('{"city": "paris", "temp": 31.0}', 1), ('Here:\n```json\n{"city": "Paris", "temp": "31"}\n```', 1),
     ('{"city": "Rome", "temp": 31}', 0.5), ('{"example": 1} then {"city": "Paris"}', 0.5), ("Paris, 31", 0),
     ('{"city": null, "temp": true}', 0)],
)  # fmt: skip
def test_json_fields(answer, value):
    """The share of the expected fields; the last object in the answer counts."""
    assert scored("json_fields", answer, {"city": "Paris", "temp": 31}).value == value


def test_json_truth_is_no_number():
    """true is not 1, in either direction."""
    assert scored("json_fields", '{"ok": 1, "n": true}', {"ok": True, "n": 1}).value == 0


def test_json_fields_reach_inside():
    """Paths, lists, tolerance, and what differs is told."""
    expected = {"places.1.name": "B", "n": 2.0, "tags": [1, 2]}
    score = scored(FieldsScorer(tolerance=0.1), '{"places": [{}, {"name": "B"}], "n": 2.05, "tags": [2]}', expected)

    assert score.value == pytest.approx(2 / 3)
    assert score.explanation == "tags is [2], expected [1, 2]"


def by_name(expected, answer):
    """Named parameters get what they name."""
    return answer == expected


async def in_background(answer):
    """An async one is awaited."""
    return 0.5, f"half of {answer}"


@pytest.mark.parametrize(
    ("function", "value"),
    [(by_name, 1), (in_background, 0.5), (lambda a, b: a == b, 1), (lambda run: run.counters.steps == 1, 1),
     (lambda task, a: a == task.expected, 1), (lambda answer: Score.of(0.25), 0.25), (lambda a, tolerance=1: True, 1)],
)  # fmt: skip
def test_a_function_scores(function, value):
    """By name or by place; a number, a truth, with words, or a Score."""
    assert scored(function, "x", "x").value == value


@pytest.mark.parametrize(
    "function",
    [lambda answer: 1 / 0, lambda answer: None, lambda answer: "good", lambda answer: 2, lambda answer: float("nan"),
     lambda a, b, c, d, e: True],
)  # fmt: skip
def test_a_function_that_fails_is_no_zero(function):
    """Raising, None, a text or a number out of range: a score error with the reason."""
    score = scored(function, "x", "x")

    assert (score.outcome, score.value) == (Outcome.SCORE_ERROR, None)
    assert score.explanation.startswith("the scorer '<lambda>' failed: ")


@pytest.mark.parametrize(
    ("script", "limits", "outcome"),
    [([ModelError("no", kind="refused")], None, Outcome.REFUSED),
     ([ModelError("gone", kind="connection")], None, Outcome.ERROR),
     ([calls("look", n=1), calls("look", n=2)], Limits(steps=1), Outcome.LIMIT)],
)  # fmt: skip
def test_a_run_without_answer_is_not_scored(script, limits, outcome):
    """Its outcome says how it ended; the scorer is never asked."""

    def look(n: int) -> int:
        """Look."""
        return n

    run = states_of(runtime_for(script, [FunctionTool(look)], limits=limits), "the goal")[-1]
    score = asyncio.run(score_run(Task("t", "the goal", "x"), run, lambda answer: 1 / 0))

    assert run.stop is not StopReason.ANSWER
    assert (score.outcome, score.value) == (outcome, None)
    assert score.explanation


@pytest.mark.parametrize(
    ("fields", "answer", "name"),
    [({"expected": 31}, "31 °C", "number"), ({"expected": "31.0"}, "31 °C", "number"),
     ({"expected": "Paris"}, "It is Paris", "contains"), ({"expected": {"a": 1}}, '{"a": 1}', "json_fields"),
     ({"expected": '{"a": 1}'}, '{"a": 1}', "json_fields"), ({"expected": [3, 31]}, "31", "number"),
     ({"expected": "A", "choices": ("x", "y")}, "A", "choice"), ({"expected": "x", "scorer": "exact"}, "x", "exact")],
)  # fmt: skip
def test_the_scorer_goes_by_what_is_expected(fields, answer, name):
    """None named: the task decides; the score says which it was."""
    score = asyncio.run(score_run(Task("t", "the goal", **fields), answered(answer)))

    assert (score.value, score.scorer) == (1, name)


def test_nothing_expected_is_no_zero():
    """An answer that nobody can score is "answered"; a scorer that needs something expected is a score error."""
    assert scored(None, "x").outcome is Outcome.ANSWERED
    assert scored("exact", "x").outcome is Outcome.SCORE_ERROR
    assert scored("number", "1", "many").outcome is Outcome.SCORE_ERROR


def test_there_is_no_such_scorer():
    """A wrong name stops before anything is scored, and the names are told."""
    with pytest.raises(SettingsError, match=r"no scorer 'exakt'.*exact, contains"):
        to_scorer("exakt")
    with pytest.raises(SettingsError):
        to_scorer(7)


@pytest.mark.parametrize(
    ("task", "scorer", "told"),
    [(Task("t", "g", "x", scorer="exakt"), None, "task 't' can't be scored: there is no scorer 'exakt'"),
     (Task("t", "g", "E", choices=CITIES), None, "none of the choices"), (Task("t", "g", "many"), "number", "not one number"),
     (Task("t", "g"), "exact", "no text to look for"), (Task("t", "g", "("), "regex", "can't be scored")],
)  # fmt: skip
def test_a_task_that_cannot_be_scored_is_found_first(task, scorer, told):
    """Before anything runs, with the id."""
    with pytest.raises(SettingsError, match=told):
        asyncio.run(check_scorers([Task("a", "g", "1"), task], scorer))


def test_checking_asks_nobody():
    """Functions and judges are not called; good tasks pass."""
    asyncio.run(check_scorers([Task("a", "g"), Task("b", "g", {"x": 1}), Task("c", "g", 3)]))
    asyncio.run(check_scorers([Task("a", "g")], lambda answer: 1 / 0))


@pytest.mark.parametrize("name", NAMED)
def test_scorers_travel(name):
    """Each can be pickled, and keeps its name."""
    scorer = to_scorer(name)

    assert pickle.loads(pickle.dumps(scorer)) == scorer
    assert scorer.name == name
