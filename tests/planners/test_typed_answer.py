"""`Agent(output=T)`: a run ends in a value of the type, or says why there is none; nothing is guessed."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from fakes import several
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator

from agentnb import Agent, recording
from agentnb.core.limits import StopReason
from agentnb.core.planner import Decision
from agentnb.errors import SettingsError
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.scripted import ScriptedModel, calls
from agentnb.models.server import Raw, ScriptedServer
from agentnb.planners.json_plan import JSONPlanner
from agentnb.planners.scripted import ScriptedPlanner
from agentnb.planners.typed_answer import TypedAnswer, Unfit


class Weather(BaseModel):
    """A report."""

    city: str = Field(description="English name")
    celsius: float
    unit: str = "C"


class Week(BaseModel):
    """Nested reports."""

    days: list[Weather]


class Node(BaseModel):
    """A type that holds itself."""

    name: str
    children: list[Node] = []


@dataclass
class Point:
    """A dataclass is a type, too."""

    x: int
    y: int


class Colour(Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


REPORT = '{"city": "Beijing", "celsius": 31.0}'
BEIJING = Weather(city="Beijing", celsius=31.0)
ANYTHING = TypedAnswer(Any)
KINDS = (TypedAnswer(Weather), TypedAnswer(int), TypedAnswer(str))
BAD = '{"city": "Beijing", "celsius": "warm"}'


def get_weather(city: str) -> float:
    """Current temperature of a city."""
    return 31.0


def play(script: list[Any], output: Any = Weather, **options: Any) -> Any:
    """The run of an agent with this output type, and the requests that its model got."""
    model = ScriptedModel(script)
    return Agent(model=model, output=output, **options).run("the goal"), model.requests


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("output", "text", "value"),
    [
        (Weather, REPORT, BEIJING),
        (Weather, f"```json\n{REPORT}\n```", BEIJING),
        (Weather, f"Here it is:\n```json\n{REPORT}\n```\nAnything else?", BEIJING),
        (Weather, "{'city': 'Beijing', 'celsius': 31.0,}", BEIJING),
        (Weather, f"{REPORT} or in other words {REPORT}", BEIJING),
        (Point, '{"x": 1, "y": "2"}', Point(1, 2)),
        (Week, f'{{"days": [{REPORT}]}}', Week(days=[BEIJING])),
        (Node, '{"value": {"name": "a", "children": [{"name": "b"}]}}', Node(name="a", children=[Node(name="b")])),
        (dict[str, int], '{"value": 3}', {"value": 3}),
        (int, '{"value": 42}', 42),
        (int, "42", 42),
        (int, "The result is {\"value\": 42}.", 42),
        (bool, "true", True),
        (float, "1e3", 1000.0),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (Literal["yes", "no"], "yes", "yes"),
        (Literal["yes", "no"], '"yes"', "yes"),
        (Colour, '{"value": "red"}', Colour.RED),
        (date, "2026-02-01", date(2026, 2, 1)),
        (str, "any words", "any words"),
        (str, "42", "42"),
        (str, '{"value": "{\\"a\\": 1}"}', '{"a": 1}'),
        (int | None, '{"value": null}', None),
        (Weather | Point, '{"value": {"x": 1, "y": 2}}', Point(1, 2)),
    ],
)  # fmt: skip
def test_a_text_becomes_a_value(output, text, value):
    """JSON alone, in a fence or among words, wrapped or bare, is read as the type."""
    answer = TypedAnswer(output).read(text)

    assert answer.value == value
    assert type(answer.value) is type(value)


@pytest.mark.parametrize(
    ("output", "text", "why"),
    [
        (Weather, BAD, "celsius='warm', expected a valid number"),
        (Weather, '{"city": "Beijing"}', "celsius is missing"),
        (Weather, '{"city": "Beijing", "celsius": 1, "units": "K"}', "no field 'units'"),
        (Week, f'{{"days": [{REPORT}, {{"city": "A", "celsius": 1, "when": 2}}]}}', "no field 'days[1].when'"),
        (Node, '{"value": {"name": "a", "children": [{"name": "b", "x": 1}]}}', "no field 'children[0].x'"),
        (Weather, "It is warm.", "no JSON object"),
        (Weather, '{"city": "Beijing", "celsius": 31', "can't be read"),
        (Weather, f"[{REPORT}]", "expected"),
        (Weather, '{"city": "A", "celsius": 1} or {"city": "B", "celsius": 2}', "2 different answers"),
        (Weather, '{"city": "A", "city": "B", "celsius": 1}', "stands twice"),
        (Weather, f'{{"value": {REPORT}}}', "no field 'value'"),
        (int, "about 42", "valid integer"),
        (int, '{"value": 1} {"value": 2}', "2 different answers"),
        (bool, "It is true.", "valid boolean"),
        (list[int], '{"value": [1, "two"]}', "1='two'"),
        (Literal["yes", "no"], "perhaps", "'yes' or 'no'"),
        (str, '{"valu": "x"}', "valid string"),
        (str, '{"value": "cut', "can't be read"),
        (str, "[unclosed", "no JSON object"),
        (float, "", "no JSON object"),
    ],
)
def test_what_does_not_fit_is_refused(output, text, why):
    """A wrong, cut, doubled or unclear answer is no value; the reason is for the model to read."""
    with pytest.raises(Unfit) as caught:
        TypedAnswer(output).read(text)

    assert why in str(caught.value)


def test_many_problems_are_told_in_few_words():
    """A long list of faults is cut, with its length."""
    with pytest.raises(Unfit, match="and 992 more problems"):
        TypedAnswer(list[int]).read(json.dumps(["x"] * 1000))


def test_a_validator_that_fails_is_a_reason():
    """Whatever the user's own code raises becomes words for the model."""

    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def check(cls, number: int) -> int:
            if number == 0:
                raise KeyError("zero")
            if number % 2:
                raise ValueError("must be even")
            return number

    with pytest.raises(Unfit, match="KeyError: 'zero'"):
        TypedAnswer(Even).read('{"number": 0}')
    with pytest.raises(Unfit, match="must be even"):
        TypedAnswer(Even).read('{"number": 3}')


def test_types_that_take_more_fields_get_them():
    """A type that allows other fields is not closed; strict types read dates from JSON text."""

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow", strict=True)
        day: date

    value = TypedAnswer(Open).read('{"day": "2026-02-01", "more": 1}').value

    assert (value.day, value.model_extra) == (date(2026, 2, 1), {"more": 1})


@pytest.mark.slow
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.lists(each), max_leaves=8))
def test_every_value_comes_back_from_its_own_form(value):
    """What is written as the schema says is read as it is."""
    assert ANYTHING.read(json.dumps({"value": value})).value == value


@example('{""}')
@given(st.text() | st.text("{}[]\"':,value12 \n`"))
def test_reading_never_fails_otherwise(text):
    """Any text is an answer or Unfit."""
    for output in KINDS:
        try:
            output.read(text)
        except Unfit as error:
            assert str(error)  # noqa: PT017 - either way is right


# ── the schema ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_schema_is_of_a_closed_object():
    """Fields, descriptions and requirements are there; titles are not, unknown fields are excluded."""
    assert TypedAnswer(Weather).schema == {
        "description": "A report.",
        "type": "object",
        "properties": {
            "city": {"description": "English name", "type": "string"},
            "celsius": {"type": "number"},
            "unit": {"default": "C", "type": "string"},
        },
        "required": ["city", "celsius"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("output", [int, list[Weather], Literal["a", "b"], Node, RootModel[list[int]], Weather | int])
def test_what_is_no_object_is_wrapped(output):
    """Providers want an object at the root; definitions stay there."""
    schema = TypedAnswer(output).schema

    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["value"], False)
    assert ("$ref" in json.dumps(schema)) == ("$defs" in schema)


def test_a_field_named_title_stays():
    """Only the titles that pydantic adds go."""

    class Book(BaseModel):
        title: str

    assert TypedAnswer(Book).schema["properties"] == {"title": {"type": "string"}}


@pytest.mark.parametrize("output", [5, "Weather", print, object(), Callable[[int], int], list[asyncio.Event], math])
def test_a_type_that_can_not_be_an_answer(output):
    """It is refused when the agent is made, in words."""
    with pytest.raises(SettingsError, match="can't be the type of an answer") as caught:
        Agent(model=ScriptedModel([]), output=output)

    assert str(caught.value).startswith("agent: output=")
    assert caught.value.remedy


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_run_holds_value_and_answer():
    """`run.value` is the object, `run.answer` its JSON as the model wrote it."""
    run, requests = play([REPORT])

    assert (run.stop, run.value, run.answer) == (StopReason.ANSWER, BEIJING, REPORT)
    assert requests[0].schema == TypedAnswer(Weather).schema
    assert requests[0].specs == ()
    assert '"celsius": {"type": "number"}' in requests[0].messages[0]["content"]


def test_an_answer_that_does_not_fit_is_asked_for_again():
    """The model reads what is wrong and sends another."""
    run, requests = play(["Warm.", BAD, REPORT])

    assert (run.stop, run.value) == (StopReason.ANSWER, BEIJING)
    assert "no JSON object" in requests[1].messages[-1]["content"]
    assert "celsius='warm', expected a valid number" in requests[2].messages[-1]["content"]
    assert '"celsius": {"type": "number"}' in requests[2].messages[-1]["content"]
    assert any("does not fit" in note for note in run.steps[1].notes)


def test_asking_again_ends():
    """After three in a row the run stops with an error; no value, and the last text is kept."""
    run, requests = play([BAD] * 4)

    assert len(requests) == 3
    assert (run.stop, run.answer, run.value) == (StopReason.ERROR, None, None)
    assert "in 3 replies in a row: celsius='warm'" in run.detail
    assert (run.steps[-1].reply.text, run.messages[-1].content) == (BAD, BAD)


def test_a_run_that_failed_goes_on():
    """Three more attempts are there when the run is started again."""
    model = ScriptedModel([BAD] * 4 + [REPORT])
    agent = Agent(model=model, output=Weather)

    run = agent.run(agent.run("the goal"))

    assert (run.value, len(model.requests)) == (BEIJING, 5)


def test_other_endings_stay_as_they_are():
    """A refused or a cut reply, and an empty one, is no answer of any type."""
    assert play([{"content": None, "refusal": "no"}])[0].stop is StopReason.REFUSED
    assert play([{"content": '{"city": "B', "finish_reason": "length"}])[0].stop is StopReason.TRUNCATED
    assert play(["", ""])[0].stop is StopReason.EMPTY_REPLY


def test_a_type_without_a_value_ends_too():
    """None can be the value; the run has answered all the same."""
    run, _ = play(['{"value": null}'], int | None)

    assert (run.stop, run.answer, run.value) == (StopReason.ANSWER, "null", None)


# ── with tools ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_with_tools_the_answer_is_a_tool():
    """No response format stands beside tools: the schema is that of one more tool."""
    script = [calls("get_weather", city="Beijing"), calls("final_answer", city="Beijing", celsius=31.0)]
    run, requests = play(script, tools=[get_weather])

    assert (run.stop, run.value, run.answer) == (StopReason.ANSWER, BEIJING, REPORT)
    assert [request.schema for request in requests] == [None, None]
    assert [spec.name for spec in requests[0].specs] == ["get_weather", "final_answer"]
    assert requests[0].specs[1].parameters == TypedAnswer(Weather).schema
    assert requests[0].specs[1] is requests[1].specs[1]
    assert "call final_answer with it, alone" in requests[0].messages[0]["content"]
    assert run.counters.tool_calls == 1


def test_with_tools_a_text_is_read_too():
    """A model that writes its answer, as many do, is understood."""
    assert play([REPORT], tools=[get_weather])[0].value == BEIJING


def test_a_wrong_final_answer_leaves_a_valid_history():
    """What was wrong follows the answer, as text; no call stays without its result."""
    wrong = {**calls("final_answer", city="Beijing"), "content": "I am sure."}
    run, requests = play([wrong, calls("final_answer", city="Beijing", celsius=31)], tools=[get_weather])

    said, asked = requests[1].messages[-2:]
    assert said == {"role": "assistant", "content": '{"city": "Beijing"}'}
    assert "celsius is missing" in asked["content"]
    assert run.value == BEIJING
    assert "comment: I am sure." in run.steps[0].notes


def test_wrong_final_answers_end():
    """The bound holds for answers by tool, too."""
    run, requests = play([calls("final_answer", city=1)] * 4, tools=[get_weather])

    assert (len(requests), run.stop, run.value) == (3, StopReason.ERROR, None)


def test_a_final_answer_beside_other_calls_waits():
    """The others are run first; the answer is asked for again, with their results in sight."""
    both = several(calls("get_weather", city="Beijing"), calls("final_answer", city="Beijing", celsius=0))
    run, _ = play([both, calls("final_answer", city="Beijing", celsius=31)], tools=[get_weather])

    assert [(result.name, result.ok) for result in run.tool_results] == [("get_weather", True), ("final_answer", False)]
    assert "call final_answer alone" in run.tool_results[1].content
    assert run.value == BEIJING


def test_a_final_answer_without_arguments():
    """It is an empty object: enough for a type that has a default for everything, else not."""

    class Free(BaseModel):
        note: str = "none"

    empty = several({"tool_calls": [{"type": "function", "function": {"name": "final_answer", "arguments": ""}}]})

    assert play([empty], Free, tools=[get_weather])[0].value == Free()
    assert play([empty] * 3, tools=[get_weather])[0].stop is StopReason.ERROR


def test_broken_arguments_are_not_an_empty_object():
    """Arguments that can't be read are no answer, even where nothing is required."""

    class Free(BaseModel):
        note: str = "none"

    cut = {"type": "function", "function": {"name": "final_answer", "arguments": '{"note": "im'}}
    run, _ = play([several({"tool_calls": [cut]})] * 3, Free, tools=[get_weather])

    assert (run.stop, run.value) == (StopReason.ERROR, None)


def test_a_tool_of_the_same_name_keeps_it():
    """The user's own final_answer is a tool like any other."""

    def final_answer(text: str) -> str:
        """Keep a text."""
        return text

    script = [calls("final_answer", text="x"), calls("final_answer_", city="Beijing", celsius=31)]
    run, requests = play(script, tools=[final_answer])

    assert [spec.name for spec in requests[0].specs] == ["final_answer", "final_answer_"]
    assert (run.tool_results[0].content, run.value) == ("x", BEIJING)


# ── with other planners ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_json_plan_holds_the_answer():
    """The schema of the plan has the type in its answer branch, and so says the prompt."""
    plan = '{"reasoning": "look", "tool": "get_weather", "args": {"city": "Beijing"}}'
    run, requests = play([plan, f'{{"reasoning": "done", "answer": {REPORT}}}'], planner="json", tools=[get_weather])

    branch = requests[0].schema["anyOf"][-1]["properties"]["answer"]
    assert branch == TypedAnswer(Weather).schema
    assert "<the answer> is one JSON object that fits" in requests[0].messages[0]["content"]
    assert (run.value, run.answer, run.steps[-1].reasoning) == (BEIJING, REPORT, "done")
    assert [spec for request in requests for spec in request.specs] == []


@pytest.mark.parametrize(
    ("output", "answer", "value"),
    [(int, '{"value": 4}', 4), (int, "4", 4), (str, '"yes"', "yes"), (list[str], '["a"]', ["a"]), (Weather, json.dumps(REPORT), BEIJING)],
)  # fmt: skip
def test_a_json_plan_with_a_plain_value(output, answer, value):
    """Wrapped as asked for, or bare, or written twice: it is read."""
    assert play([f'{{"reasoning": "", "answer": {answer}}}'], output, planner="json")[0].value == value


def test_definitions_of_answer_and_tools_live_together():
    """Types that refer to others find them at the root of the plan's schema."""

    def keep(node: Node) -> str:
        """Keep a node."""
        return node.name

    _, requests = play(['{"answer": {"days": []}}'], Week, planner="json", tools=[keep])
    schema = requests[0].schema

    assert set(schema["$defs"]) == {"keep.Node", "the.answer.Weather"}
    days = schema["anyOf"][-1]["properties"]["answer"]["properties"]["days"]
    assert days["items"] == {"$ref": "#/$defs/the.answer.Weather"}


def test_a_json_plan_is_asked_for_again():
    """A wrong answer in a plan, and a reply without a plan, are told apart and bounded together."""
    run, requests = play([f'{{"answer": {BAD}}}', "no plan", BAD, REPORT], planner="json")

    assert "celsius='warm'" in requests[1].messages[-1]["content"]
    assert "Your reply is no plan" in requests[2].messages[-1]["content"]
    assert "one JSON object that fits" in requests[2].messages[-1]["content"]
    assert (len(requests), run.stop, run.value) == (3, StopReason.ERROR, None)


def test_a_planner_with_settings_keeps_them():
    """JSONPlanner(attempts=1) takes the first text as the answer, which then must fit."""
    run, _ = play(["no plan", f'{{"answer": {REPORT}}}'], planner=JSONPlanner(attempts=1))

    assert run.value == BEIJING


def test_a_planner_of_ones_own():
    """Its answers are read as the type; a value that it made itself stays."""
    made = Decision(answer="here", value=Weather(city="X", celsius=0))

    assert play([], planner=ScriptedPlanner([REPORT]))[0].value == BEIJING
    assert play([], planner=ScriptedPlanner([BAD, BAD, REPORT]))[0].value == BEIJING
    assert play([], planner=ScriptedPlanner([made]))[0].value.city == "X"


# ── over the wire ────────────────────────────────────────────────────────────────────────────────────────────────────


def over_http(script: Any, output: Any = Weather, **options: Any) -> Any:
    """The run with a real client and server, and the bodies that arrived."""
    with ScriptedServer(script) as server:
        agent = Agent(model=ChatCompletionsModel("any", server.url), output=output, **options)
        run = asyncio.run(agent.arun("the goal"))
    return run, [received.json() for received in server.requests]


def test_the_server_gets_the_schema():
    """As response_format where there are no tools; as the parameters of a tool where there are."""
    run, bodies = over_http([REPORT])
    assert run.value == BEIJING
    assert bodies[0]["response_format"]["json_schema"]["schema"] == TypedAnswer(Weather).schema

    run, bodies = over_http([calls("final_answer", city="Beijing", celsius=31)], tools=[get_weather])
    assert run.value == BEIJING
    assert "response_format" not in bodies[0]
    assert bodies[0]["tools"][-1]["function"]["parameters"] == TypedAnswer(Weather).schema


def test_a_server_without_schemas_is_asked_by_prompt():
    """json_schema, then json_object, then neither: the prompt says it all along."""
    refusal = Raw({"error": {"message": "response_format is not supported", "code": "bad"}}, 400)
    run, bodies = over_http([refusal, refusal, f"Sure!\n```json\n{REPORT}\n```"])

    kinds = [body.get("response_format", {}).get("type") for body in bodies]
    assert kinds == ["json_schema", "json_object", None]
    assert run.value == BEIJING


def test_a_final_answer_written_as_text_is_found():
    """A server that leaves the call in the text loses nothing."""
    text = '{"name": "final_answer", "arguments": {"city": "Beijing", "celsius": 31.0}}'

    assert over_http([text], tools=[get_weather])[0].value == BEIJING


def test_a_recording_replays_the_value(tmp_path):
    """The same file gives the same value, without a model."""
    path = tmp_path / "typed.jsonl"
    with recording(path):
        first = play([BAD, REPORT])[0]
    with recording(path, mode="replay"):
        again = play([])[0]

    assert (again.value, again.answer, again.counters.steps) == (first.value, REPORT, 2)


def test_the_type_is_part_of_the_agents_id():
    """Agents that ask for another form are others; an agent without a type stays what it was."""
    agent = Agent(model=ScriptedModel([]))

    assert len({agent.id, agent.replace(output=Weather).id, agent.replace(output=int).id}) == 3
    assert agent.replace(output=int).replace(output=None).id == agent.id
