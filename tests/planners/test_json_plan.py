"""The JSON planner in the loop: plans run, faults go back to the model, and the fallback is told."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
from fakes import FunctionTool, add, collect, runtime_for

from agentnb.core.limits import StopReason
from agentnb.core.messages import Message, Usage
from agentnb.core.model import ModelReply
from agentnb.core.runtime import Runtime
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.errors import SettingsError
from agentnb.instructions import Example, ExampleStep, Instructions
from agentnb.models.scripted import ScriptedModel, calls
from agentnb.planners.json_plan import JSONPlanner, plan_schema
from agentnb.tools.tool import tool

PLAN = '{"reasoning": "two numbers", "tool": "add", "args": {"a": 2, "b": 3}}'
ANSWER = '{"reasoning": "done", "answer": "It is 5."}'
INSTRUCTIONS = Instructions("Be {brief} %s.", (Example("1 + 1?", (ExampleStep("add", {"a": 1, "b": 1}, "2"),), "2."),))


def play(script: list[Any], tools: Any = (add,), attempts: int = 3, **options: Any) -> State:
    """The last State of a run with the JSON planner."""
    return asyncio.run(collect(runtime_for(script, tools, planner=JSONPlanner(attempts), **options)))[-1]


def requests(script: list[Any], tools: Any = (add,), **options: Any) -> list[Any]:
    """The requests that the model got."""
    model = ScriptedModel(script)
    asyncio.run(collect(runtime_for(model, tools, planner=JSONPlanner(), **options)))
    return model.requests


def test_a_plan_runs_and_an_answer_ends():
    """The tool of the plan runs with its arguments, then the answer is the answer."""
    run = play([PLAN, ANSWER])

    assert (run.stop, run.answer) == (StopReason.ANSWER, "It is 5.")
    assert [result.content for result in run.tool_results] == ["5"]
    assert run.steps[0].calls[0].arguments == '{"a": 2, "b": 3}'
    assert [step.reasoning for step in run.steps] == ["two numbers", "done"]
    assert run.steps[0].notes == run.steps[1].notes == ()


def test_calls_and_results_go_back_as_text():
    """No request has tools or tool messages; results come as messages of the user."""
    first, second = requests([PLAN, ANSWER])

    assert first.tools == second.tools == []
    assert second.messages[-2:] == [
        {"role": "assistant", "content": PLAN},
        {"role": "user", "content": 'Result of add({"a": 2, "b": 3}):\n5'},
    ]
    assert {message["role"] for message in second.messages} == {"system", "user", "assistant"}


def test_the_system_prompt_holds_tools_form_and_rules():
    """The agent's own prompt comes first and is sent as it is; the tools stand there with their parameters."""
    system = requests([ANSWER], instructions=INSTRUCTIONS)[0].messages[0]["content"]

    assert system.startswith("Be {brief} %s.\n")
    assert '- add: Add two numbers.\n  args: {"type": "object"' in system
    assert '"answer"' in system
    assert "Do not repeat a call" in system
    assert "in the language of the user" in system


def test_examples_are_plans():
    """Worked examples come as earlier turns in the form that is expected of the model."""
    messages = requests([ANSWER], instructions=INSTRUCTIONS)[0].messages

    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert json.loads(messages[2]["content"])["args"] == {"a": 1, "b": 1}
    assert messages[3]["content"] == 'Result of add({"a": 1, "b": 1}):\n2'
    assert json.loads(messages[4]["content"])["answer"] == "2."


def test_the_preamble_is_made_once():
    """Each step sends the same objects, so caches of prompts and of encoded messages hold."""
    first, second = requests([PLAN, ANSWER], instructions=INSTRUCTIONS)

    assert all(one is other for one, other in zip(first.preamble, second.preamble, strict=True))
    assert first.schema is second.schema


def test_without_tools_only_an_answer_is_asked_for():
    """An agent without tools is not told of calls."""
    request = requests([ANSWER], tools=())[0]

    assert '"tool"' not in request.messages[0]["content"]
    assert json.dumps(request.schema).count('"const"') == 0


def test_a_missing_plan_is_explained_to_the_model():
    """The text stays in the history, then comes what is wrong and what is expected; the next plan runs."""
    run = play(["It must be 5.", PLAN, ANSWER])

    assert run.answer == "It is 5."
    assert run.steps[0].notes == ("no plan: it holds no JSON object",)
    roles = [(message.role, message.content) for message in run.messages[1:3]]
    assert roles[0] == ("assistant", "It must be 5.")
    assert roles[1][0] == "user"
    assert roles[1][1].startswith("Your reply is no plan: it holds no JSON object. Reply with one JSON object")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"tool": "ad", "args": {}}', "there is no tool named 'ad'. The tools are: add. Did you mean 'add'?"),
        ('{"tool": "add", "args": {"a": "x "y""}}', "its JSON can't be read"),
    ],
)
def test_the_fault_is_named(text, words):
    """What goes back says what was wrong with this very plan; nothing runs."""
    run = play([text, ANSWER])

    assert words in run.messages[2].content
    assert run.tool_results == ()


def test_in_the_end_the_text_is_the_answer():
    """After so many replies without a plan the last text is taken, and the step says so."""
    run = play(["one", "two", "<think>hm</think>three"])

    assert (run.stop, run.answer) == (StopReason.ANSWER, "three")
    assert run.steps[-1].notes == ("no plan in 3 replies in a row: the text is taken as the answer",)
    assert run.steps[-1].reasoning == "hm"
    assert len(run.steps) == 3


def test_a_plan_sets_the_attempts_back():
    """Only replies in a row count."""
    run = play(["one", "two", PLAN, "three", "four", ANSWER])

    assert run.answer == "It is 5."


def test_with_one_attempt_any_text_is_an_answer():
    """`attempts=1` never asks again."""
    assert play(["one"], attempts=1).answer == "one"


@pytest.mark.parametrize("attempts", [0, -1, True, "3", 1.5])
def test_attempts_are_checked(attempts):
    """A number that can't be meant is refused at once."""
    with pytest.raises(SettingsError, match="attempts="):
        JSONPlanner(attempts)


def test_nothing_of_a_cut_reply_runs():
    """A reply that ended at the length limit is not used, even when it parses; the model is asked for a shorter one."""
    run = play([ModelReply(PLAN, finish="length"), ANSWER])

    assert run.tool_results == ()
    assert "cut off at the length limit" in run.messages[2].content
    assert run.steps[0].notes[0].startswith("truncated:")
    assert run.answer == "It is 5."


def test_cut_replies_without_end_stop_the_run():
    """A run whose every reply is cut does not end as answered."""
    run = play([ModelReply(ANSWER[:-5], finish="length")] * 3)

    assert (run.stop, run.answer) == (StopReason.TRUNCATED, None)
    assert run.steps[-1].notes[0].startswith("truncated:")


def test_an_empty_reply_is_asked_again():
    """Nothing, or only thoughts, is no answer."""
    run = play(["", "<think>hm</think>", ""])

    assert run.stop is StopReason.EMPTY_REPLY
    assert play(["", ANSWER]).answer == "It is 5."


@pytest.mark.parametrize("reply", [ModelReply("no", refusal="no"), ModelReply(PLAN, finish="content_filter")])
def test_a_refusal_ends_the_run(reply):
    """What the provider refuses or filters is no plan."""
    run = play([reply])

    assert run.stop is StopReason.REFUSED
    assert run.tool_results == ()


def test_a_draft_in_the_thoughts_does_not_run():
    """Only the plan behind the thoughts runs; thoughts are kept apart and not sent back."""
    other = FunctionTool(lambda: "gone", "delete_file")
    text = f'<think>\nMaybe {{"tool":"delete_file","args":{{}}}}? No.\n</think>\n\n{PLAN}'
    run = play([text, ANSWER], [add, other])

    assert other.started == []
    assert run.steps[0].reasoning == 'Maybe {"tool":"delete_file","args":{}}? No.\ntwo numbers'
    assert run.messages[1].content == PLAN
    assert run.messages[1].reasoning.startswith("Maybe")


def test_the_step_tells_what_was_done_to_the_text():
    """Repair, choice among several plans and the words around it are notes of the step."""
    run = play(["First " + PLAN.replace("3", "4") + " no, {'tool': 'add', 'args': {'a': 2, 'b': 3,}} please.", ANSWER])

    repaired, several, comment = run.steps[0].notes
    assert repaired.startswith("repaired:")
    assert several == "2 different plans in one reply, the last was used"
    assert comment.startswith("comment: First {")
    assert comment.endswith("please.")
    assert run.tool_results[0].content == "5"


def test_a_tool_call_of_the_provider_is_a_plan_too():
    """A server that makes tool calls of the text is understood; the history stays text."""
    model = ScriptedModel([calls("add", a=2, b=3), ANSWER])
    run = asyncio.run(collect(runtime_for(model, [add], planner=JSONPlanner())))[-1]

    assert run.tool_results[0].content == "5"
    assert model.requests[1].messages[-2:] == [
        {"role": "assistant", "content": '{"tool": "add", "args": {"a": 2, "b": 3}}'},
        {"role": "user", "content": 'Result of add({"a": 2, "b": 3}):\n5'},
    ]


def test_numbers_that_json_does_not_know_reach_the_tool():
    """NaN and infinity are what the tool gets; whatever is sent or kept stays strict JSON."""
    seen: list[list[float]] = []

    @tool
    def plot(y: list[float]) -> str:
        """Draw numbers.

        Args:
            y: The numbers.
        """
        seen.append(y)
        return "drawn"

    model = ScriptedModel(['{"tool":"plot","args":{"y":[1, NaN, Infinity]}}', ANSWER])
    run = asyncio.run(collect(Runtime(model, JSONPlanner(), [plot]), "draw"))[-1]

    assert run.tool_results[0].content == "drawn"
    assert (seen[0][0], seen[0][2]) == (1.0, math.inf)
    assert math.isnan(seen[0][1])


def test_each_tool_has_its_own_form_in_the_schema():
    """A plan is a call of one tool with its own arguments, or an answer; nothing else."""
    weather = ToolSpec("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})
    schema = plan_schema([weather, ToolSpec("now")])
    first, second, answer = schema["anyOf"]

    assert list(schema) == ["anyOf"]
    assert first["properties"]["tool"] == {"const": "get_weather"}
    assert first["properties"]["args"] == weather.parameters
    assert first["required"] == ["reasoning", "tool", "args"]
    assert second["properties"]["tool"] == {"const": "now"}
    assert answer["required"] == ["reasoning", "answer"]
    assert not any(form["additionalProperties"] for form in schema["anyOf"])


def test_definitions_of_tools_do_not_clash():
    """Two tools may define the same name; references lead to the right one."""

    def parameters(kind: str) -> dict[str, Any]:
        node = {"type": kind, "items": {"$ref": "#/$defs/Node"}}
        return {"type": "object", "properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}

    schema = plan_schema([ToolSpec("a", "", parameters("array")), ToolSpec("b", "", parameters("object"))])

    assert schema["$defs"]["a.Node"] == {"type": "array", "items": {"$ref": "#/$defs/a.Node"}}
    assert schema["$defs"]["b.Node"]["type"] == "object"
    assert schema["anyOf"][1]["properties"]["args"]["properties"] == {"n": {"$ref": "#/$defs/b.Node"}}


def test_usage_and_repetition_work_as_ever():
    """Tokens are counted per step, and a plan that comes again and again is warned, then stopped."""
    run = play([ModelReply(PLAN, usage=Usage(10, 5))] * 9)

    assert run.stop is StopReason.REPETITION
    assert run.usage.total == 15 * len(run.steps)
    assert any("repeating yourself" in (message.content or "") for message in run.messages)


def test_a_run_can_be_forked_and_edited():
    """A State of a JSON run is continued like any other."""
    run = play([PLAN, ANSWER])
    runtime = runtime_for([ANSWER.replace("5", "6")], [add], planner=JSONPlanner())
    again = asyncio.run(collect(runtime, run.with_result(run.steps[0].calls[0].id, "6")))[-1]

    assert again.answer == "It is 6."
    assert again.messages[2] == Message("tool", "6", call_id="call_1_1", name='add({"a": 2, "b": 3})', plain=True)
