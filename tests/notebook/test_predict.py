"""`%%agent --predict`: what the model sees comes first, then the guess, then what it did, then the score."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from kernel import VIEW, Kernel, started
from test_decision_form import Person

from agentnb import Agent, ScriptedModel, calls
from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.notebook.predict import request_of
from agentnb.notebook.predictions import (
    Prediction,
    Verdict,
    action_words,
    from_decision,
    judge,
    read_predictions,
    score_words,
)
from agentnb.planners.you import You

SET_UP = """
%load_ext agentnb
from agentnb import Agent, Compaction, ScriptedModel, calls, tool
@tool
def add(a: int, b: int = 1) -> int:
    "Add two numbers."
    return a + b
def script():
    return ScriptedModel([calls("add", a=1, b=2), calls("add", a=3, b=3), "It is 6."])
model = script()
"""


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def agent(*script: Any, **options: Any) -> Agent:
    """An agent with `add`."""
    return Agent(ScriptedModel(list(script)), [add], **options)


# ── what was guessed, and what came true ─────────────────────────────────────────────────────────────────────────────


def test_predictions_are_read_from_a_line():
    """Tools, calls with the types of the tool, and finish; commas inside of brackets hold together."""
    read = read_predictions("add, add(a=1, b='2'), finish", agent().tools)

    assert read == [Prediction("add"), Prediction("add", {"a": 1, "b": 2}), Prediction(None)]
    assert [str(each) for each in read] == ["add", "add(a=1, b=2)", "finish"]
    assert read_predictions("", agent().tools) == []


@pytest.mark.parametrize("words", ["sum", "add(a=1", "add finish", "?"])
def test_what_is_no_prediction_is_refused(words):
    """A slip of the pen would else count as a wrong guess."""
    with pytest.raises(UsageError, match="neither finish nor a tool"):
        read_predictions(words, agent().tools)


@pytest.mark.parametrize(
    ("prediction", "right"),
    [
        (Prediction("add"), Verdict(True)),
        (Prediction("add", {"b": 2, "a": 1}), Verdict(True, True)),
        (Prediction("add", {"a": 1}), Verdict(True, False)),
        (Prediction("look", {"a": 1, "b": 2}), Verdict(False)),
        (Prediction(None), Verdict(False)),
    ],
)
def test_a_call_is_judged(prediction, right):
    """The tool counts, then the arguments, in any order."""
    assert judge(prediction, agent(calls("add", a=1, b=2), "3").run("go").path()[1]) == right


def test_an_answer_is_judged():
    """To finish is right, a tool is not; where the model did neither nothing is counted."""
    answer, nothing = agent("3").run("go"), agent("", "3").run("go").path()[1]

    assert (judge(Prediction(None), answer), judge(Prediction("add"), answer)) == (Verdict(True), Verdict(False))
    assert judge(Prediction("add"), nothing) is None
    assert action_words(nothing) == "neither called a tool nor answered"


def test_the_score_in_words():
    """Arguments count only where they were predicted."""
    assert score_words([Verdict(True), Verdict(False)]) == "Predictions · 1 of 2 right"
    assert score_words([Verdict(True, True), Verdict(True, False)]).endswith("· 1 of 2 with the right arguments")


def test_a_form_handed_in_is_a_prediction():
    """Calls, any text for finish, None for a form that was left."""
    assert from_decision(calls("add", a=1)) == Prediction("add", {"a": 1})
    assert (from_decision(""), from_decision(None)) == (Prediction(None), None)


# ── the request beforehand ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{}, {"planner": "json"}, {"output": int}, {"examples": [("g", [], "a")]}])
def test_the_request_beforehand_is_the_one_that_is_sent(options):
    """System prompt, examples, tools and all; and no model was asked for it."""
    made = agent("5", "5", "5", system_prompt="Be brief.", **options)
    start = State.start("go")
    request = asyncio.run(request_of(made, start))

    assert made.model.requests == []
    made.run(start)
    assert request.json() == made.model.requests[0].json()


def test_a_planner_of_ones_own_is_not_asked_beforehand():
    """It might do something."""
    asked: list[State] = []
    made = agent(planner=You(lambda state, tools: asked.append(state)))

    assert asyncio.run(request_of(made, State.start("go"))) is None
    assert asked == []


# ── in a kernel ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One kernel for this module."""
    yield from started(SET_UP)


def texts(outputs: list[dict[str, Any]]) -> list[str]:
    """The text of each lasting output."""
    return [each["text/plain"] for each in outputs if each and VIEW not in each]


@pytest.mark.slow
def test_predictions_from_the_line(kernel):
    """In order: seen, judged, the step; at the end the score. Twice the same bytes."""
    cell = "model = script()\n", '%%agent -m model -t add --predictions "add(a=1, b=2), finish" -o run\n1 to 3'
    first, second = (kernel.run_all(*cell)[1].displays for _ in range(2))
    heads = [text.split("\n")[0] for text in texts(first)]

    assert first == second
    assert [head.split(" · ")[0] for head in heads[:3]] == ["Before step 1", "Step 1", "Step 1"]
    assert "you said add(a=1, b=2) · the model asked add(a=1, b=2) · right, with its arguments" in heads[1]
    assert "you said finish · the model asked add(a=3, b=3) · not this time" in "\n".join(heads)
    assert "Predictions · 1 of 2 right · 1 of 1 with the right arguments" in heads
    assert heads[-1].startswith("Answer")


@pytest.mark.slow
def test_what_the_model_sees_is_told_word_by_word(kernel):
    """First the system prompt, the goal and the tools, then only what is new."""
    kernel.run("model = script()")
    shown = texts(kernel.run("%%agent -m model -t add --predict --system-prompt 'Be brief.' -o run\n1 to 3").displays)
    seen = [text for text in shown if text.startswith("Before step")]

    assert len(seen) == 3
    assert all(words in seen[0] for words in ("Be brief.", "1 to 3", "add(a: integer, b?: integer)"))
    assert "Be brief." not in seen[1]
    assert 'add({"a": 1, "b": 2})' in seen[1]
    assert not any("you said" in text or "Predictions" in text for text in shown)
    assert shown[0].startswith("Nobody can be asked for a prediction here; --predictions")


@pytest.mark.slow
def test_a_request_that_a_middleware_changed_says_so(kernel):
    """What was shown is what the planner would send."""
    kernel.run(
        "from agentnb.core.middleware import Middleware\nfrom dataclasses import replace\n"
        "class Slips(Middleware):\n    async def before(self, state):\n        return state.say('psst')\n"
        "mine = Agent(ScriptedModel(['Done.']), middleware=[Slips()])"
    )
    assert "The request was changed on its way" in kernel.run("%%agent --agent mine --predict\ngo").text


@pytest.mark.slow
def test_a_person_predicts(kernel):
    """A form before each model call; Skip is not counted, and no second of it is the run's."""
    kernel.run("model = script()")
    person = Person(kernel)
    cell = person.start("%%agent -m model -t add --predict -o run\n1 to 3")
    person.put("a", value="1")
    person.put("b", value="2")
    person.press("Predict")
    person.press("Skip")
    person.put("next", index=1)
    person.press("Predict")
    outputs = [each["data"] for each in person.finish(cell) if "data" in each]

    told = "\n".join(texts(outputs))
    assert "Predictions · 2 of 2 right · 1 of 1 with the right arguments" in told
    assert kernel.value("run.answer") == "'It is 6.'"
    assert float(kernel.value("run.counters.seconds")) < 1


@pytest.mark.slow
def test_a_run_that_goes_on_and_one_that_repeats(kernel):
    """`resume` predicts as well; after a limit nobody is asked; a warning is told, not asked about."""
    kernel.run("model = script()")
    kernel.run('%%agent -m model -t add --steps 1 --predictions "add,add" -o run\n1 to 3')
    first = kernel.run("%agent resume run --steps 5 --predictions add,finish").text
    assert "Before step 2" in first
    assert "Predictions · 2 of 2 right" in first

    kernel.run("model = ScriptedModel([calls('add', a=1, b=2)] * 3)")
    repeats = kernel.run("%%agent -m model -t add --predictions add,add,finish\n1 to 3").text
    assert repeats.count("the model is told") == 1
    assert "Predictions · 2 of 3 right" in repeats


@pytest.mark.slow
def test_what_can_not_be_predicted_is_refused(kernel):
    """Several models at once, and a tool that is not there: nothing is started."""
    assert "takes one model" in kernel.run("%%agent -m model,other --predict\ngo").text
    assert "neither finish nor a tool" in kernel.run("%%agent -m model --predictions sum\ngo").text


@pytest.mark.slow
def test_a_long_run_stays_within_the_outputs_that_are_shown(kernel):
    """After twelve predictions the steps go on alone."""
    kernel.run("model = ScriptedModel([calls('add', a=n, b=n) for n in range(40)] + ['Done.'])")
    displays = kernel.run("%%agent -m model -t add --steps 60 --predict -o run\ngo").displays

    assert sum(text.startswith("Before step") for text in texts(displays)) == 12
    assert len(displays) < 50
    assert len(json.dumps(displays)) < 200_000
