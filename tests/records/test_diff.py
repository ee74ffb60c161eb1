"""Two runs beside each other: what is shared, where they part, what differs, in words that are the same each time."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Any

import pytest
from fakes import several

from agentnb import text
from agentnb.agent import Agent
from agentnb.core.limits import Limits
from agentnb.core.messages import Message, ToolCall, ToolResult, Usage, user
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.models.scripted import ScriptedModel, calls
from agentnb.records.diff import Diff, diff
from agentnb.tools.tool import tool

GOAL = "Add the temperatures of Beijing and Shanghai."
SCRIPT = [
    calls("get_weather", city="Beijing"),
    calls("get_weather", city="Shanghai"),
    calls("add", a=31, b=27.5),
    "58.5",
]


@tool
def get_weather(city: str) -> float:
    """Temperature of a city."""
    return {"Beijing": 31.0, "Shanghai": 27.5}.get(city, 20.0)


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def agent_of(*script: Any, name: str = "scripted", **options: Any) -> Agent:
    """An agent with both tools that plays this script."""
    return Agent(model=ScriptedModel(script or SCRIPT, name), **{"tools": [get_weather, add], **options})


@pytest.fixture
def run() -> State:
    """A run of four steps."""
    return agent_of().run(GOAL)


def whats(row: dict[str, Any] | None) -> list[str]:
    """What differs in a row."""
    assert row is not None
    return [each["what"] for each in row["differences"]]


def statuses(made: Diff) -> list[tuple[Any, Any, str]]:
    """Which step beside which, and what is the matter."""
    return [(row["step"], row["other_step"], row["status"]) for row in made.rows]


def test_a_run_is_equal_to_itself(run):
    """Shared States are seen as such."""
    made = diff(run, run)

    assert made.equal
    assert made.first is None
    assert {row["status"] for row in made.rows} == {"shared"}
    assert str(made).splitlines()[0] == "run and other are equal: 4 steps, the same States."


def test_equal_runs_say_so(run):
    """Two runs that were asked, said and did the same."""
    made = diff(run, agent_of().run(GOAL))

    assert made.equal
    assert [row["status"] for row in made.rows] == ["same"] * 4
    assert str(made) == (
        "run and other are equal: 4 steps, nothing differs.\nsteps 4 · tool calls 3 · tokens n/a · stop answer"
    )


def test_a_fork_parts_where_it_was_forked(run):
    """Shared steps, the first divergence, what was asked and brought, and how the runs ended."""
    other = agent_of(calls("get_weather", city="Paris"), calls("add", a=31, b=20), "51").run(run.at(2))
    made = diff(run, other)

    assert statuses(made) == [(1, 1, "shared"), (2, 2, "differs"), (3, 3, "differs"), (4, 4, "differs")]
    assert made.first is made.rows[1]
    assert made.first["differences"] == [
        {
            "kind": "done",
            "what": "arguments of get_weather",
            "run": '{"city": "Shanghai"}',
            "other": '{"city": "Paris"}',
        },
        {"kind": "done", "what": "result of get_weather", "run": "27.5", "other": "20.0"},
    ]
    assert whats(made.rows[3]) == ["answer"]
    assert str(made).splitlines()[0] == "run and other part at step 2: arguments of get_weather, result of get_weather."


def test_a_replaced_result_is_the_first_divergence(run):
    """A fork in the middle of a step shares what the model said and differs in what the tool gave."""
    call = run.steps[1].calls[0]
    made = diff(run, agent_of(calls("add", a=31, b=30), "61").run(run.with_result(call.id, "30.0")))

    assert statuses(made)[:2] == [(1, 1, "shared"), (2, 2, "differs")]
    assert whats(made.first) == ["result of get_weather", "version of get_weather"]


def test_steps_are_aligned_by_what_they_asked(run):
    """A step more or less does not make the others differ."""
    shorter = agent_of(SCRIPT[1], SCRIPT[2], "58.5").run(GOAL)
    longer = agent_of(SCRIPT[0], calls("add", a=1, b=1), *SCRIPT[1:]).run(GOAL)

    assert statuses(diff(run, shorter)) == [(1, None, "only in run"), (2, 1, "same"), (3, 2, "same"), (4, 3, "same")]
    assert statuses(diff(run, longer)) == [
        (1, 1, "same"), (None, 2, "only in other"), (2, 3, "same"), (3, 4, "same"), (4, 5, "same"),
    ]  # fmt: skip
    assert 'step 2 · only in other · add({"a": 1, "b": 1})' in str(diff(run, longer))
    assert "step 2 (3 in other) to step 4 (5 in other) · the same" in str(diff(run, longer))


def test_changed_calls_are_paired_by_their_tools(run):
    """Between what is equal, steps with the same tool stand beside each other."""
    rome, oslo = (calls("get_weather", city=city) for city in ("Rome", "Oslo"))
    other = agent_of(rome, calls("add", a=0, b=0), oslo, SCRIPT[2], "58.5").run(GOAL)

    assert statuses(diff(run, other)) == [
        (1, 1, "differs"), (None, 2, "only in other"), (2, 3, "differs"), (3, 4, "same"), (4, 5, "same"),
    ]  # fmt: skip


def test_what_goes_along_with_every_request_is_told_once(run):
    """Prompt, tools, parameters, examples and model are compared where they begin to differ, not in every step."""

    def more() -> str:
        """Another tool."""
        return ""

    changes = {"system_prompt": "Be brief.", "parameters": {"temperature": 0, "seed": 1}}
    other = agent_of(name="another", tools=[get_weather, add, more], **changes).run(GOAL)
    made = diff(run, other)

    assert whats(made.rows[0]) == [
        "model", "system prompt", "tool more, as offered", "parameter temperature", "parameter seed",
    ]  # fmt: skip
    assert [row["status"] for row in made.rows] == ["differs", "same", "same", "same"]
    assert made.rows[0]["differences"][3] == {
        "kind": "sent",
        "what": "parameter temperature",
        "run": None,
        "other": "0",
    }


def test_the_first_different_act_is_told_beside_the_first_difference(run):
    """Other prompts differ at once; what matters is where the runs begin to act differently."""
    other = agent_of(*SCRIPT[:2], calls("add", a=31, b=20), "51", system_prompt="Be brief.").run(GOAL)

    assert str(diff(run, other)).splitlines()[:2] == [
        "run and other part at step 1: system prompt.",
        "They first act differently at step 3: arguments of add, result of add.",
    ]


def test_the_goals_are_compared(run):
    """Also when the first steps do not stand beside each other."""
    other = agent_of(SCRIPT[1], "27.5").run("How warm is it in Shanghai?")

    assert "goal" in whats(diff(run, other).first)


def test_words_of_a_person_and_a_compaction_are_compared(run):
    """What was said between two steps belongs to the step after it."""
    before = run.at(4)
    kelvin, fahrenheit = (agent_of("warm").run(before.say(f"In {unit}.")) for unit in ("kelvin", "fahrenheit"))
    compacted = agent_of("warm").run(before.say("In kelvin.").compacted([user("All so far.")]))

    assert diff(kelvin, fahrenheit).first["differences"] == [
        {"kind": "sent", "what": "message of the user", "run": "In kelvin.", "other": "In fahrenheit."}
    ]
    assert whats(diff(kelvin, compacted).first) == ["compacted prompt"]


def result(content: str = "31", status: str = "ok", **more: Any) -> ToolResult:
    """A result of the call c."""
    return ToolResult("c", "get_weather", content, status, **more)


def step_of(answer: ToolResult | None = None, **reply: Any) -> State:
    """A run of one step by hand."""
    asked = (ToolCall("c", "get_weather", '{"city": "Rome"}'),)
    state = State.start("goal")
    said = ModelReply(calls=asked, **{"request": state.request(), **reply})
    state = state.planned(Decision(said, calls=asked))
    return state.answered(answer) if answer else state


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (result(version="get_weather@1·aa"), result(version="get_weather@2·aa"), []),
        (result(version="get_weather@1·aa"), result(version="get_weather@1·bb"), [("version of get_weather", "aa", "bb")]),
        (result(), result("cold"), [("result of get_weather", "31", "cold")]),
        (result(), result("31", "error"), [("result of get_weather", "31", "error: 31")]),
        (result(), None, [("result of get_weather", "31", None)]),
    ],
)  # fmt: skip
def test_results_and_versions_are_compared(one, other, expected):
    """Content, status, and the hash of the source that ran; how often a cell was run again does not count."""
    row = diff(step_of(one), step_of(other)).rows[0]

    assert [(each["what"], each["run"], each["other"]) for each in row["differences"]] == expected


def test_reasoning_text_and_usage_are_compared():
    """Reasoning and words beside calls are differences; tokens stand in the line and make none."""
    one = step_of(result(), reasoning="hm", usage=Usage(10, 2), text="I look.")
    other = step_of(result(), reasoning="aha", usage=Usage(12, 3), text="I see.")

    assert whats(diff(one, other).rows[0]) == ["reasoning", "text"]
    assert "step 1 · differs · tokens 12 → 15" in str(diff(one, other))
    assert "tokens 12 → 15 · stop not finished" in str(diff(one, other))
    only_tokens = diff(step_of(result(), usage=Usage(1, 1)), step_of(result(), usage=Usage(2, 2)))
    assert only_tokens.equal
    assert "tokens 2 → 4" in str(only_tokens)


def test_the_spelling_of_arguments_does_not_count():
    """The same values in another order of keys are the same call."""
    one = agent_of(several(calls("add", a=1, b=2)), "3").run(GOAL)
    other = agent_of(several(calls("add", b=2, a=1)), "3").run(GOAL)

    assert diff(one, other).equal


def test_other_approved_arguments_are_told():
    """A person let the call run with other arguments."""
    one = step_of().approve("c").answered(result())
    other = step_of().approve("c", {"city": "Oslo"}).answered(result())

    assert diff(one, other).rows[0]["differences"] == [
        {"kind": "done", "what": "approved arguments of c", "run": None, "other": '{"city": "Oslo"}'}
    ]


def test_runs_that_end_differently_say_so(run):
    """A limit ends one of two runs that went the same way."""
    other = agent_of(limits=Limits(steps=3)).run(GOAL)
    made = diff(run, other)

    assert statuses(made)[-2:] == [(4, None, "only in run"), (None, None, "the end")]
    assert whats(made.rows[-1]) == ["stop", "answer", "detail"]
    assert "stop answer → max_steps" in str(made)
    assert diff(run.at(1), State.start("another goal")).first["differences"][0]["what"] == "goal"


def test_time_is_shown_only_when_asked_for(run):
    """The text of a comparison is the same each time; seconds are in the rows and in the display's metadata."""
    other = agent_of().run(GOAL)

    assert str(diff(run, other)) == str(diff(run, agent_of().run(GOAL)))
    assert "seconds" not in str(diff(run, other))
    assert "seconds" in str(diff(run, other, seconds=True))
    assert set(diff(run, other).rows[0]) >= {"seconds", "other_seconds", "tokens", "other_tokens", "did", "other_did"}
    _, metadata = diff(run, other)._repr_mimebundle_()
    assert metadata == {"agentnb": {"seconds": list(diff(run, other).totals["seconds"])}}


def test_names_are_used_in_every_form(run):
    """The variables of a notebook, for example."""
    made = diff(run, agent_of(*SCRIPT[1:]).run(GOAL), names=("warm", "cold"))

    told = 'warm and cold part at step 1: get_weather({"city": "Beijing"}), only in warm'
    assert str(made).startswith(told)
    assert "- is warm, + is cold" in made.markdown
    assert f"<b>{html.escape(told, quote=False)}.</b>" in made.html
    assert repr(made) == f"<Diff: {told}.>"


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("x",), {}, "can't compare str 'x', expected a run"),
        ((None,), {}, "can't compare NoneType"),
        ((), {"names": ("a", "a")}, r"names=\['a', 'a'\] for two runs"),
        ((), {"names": ("a",)}, "for two runs"),
    ],
)
def test_what_can_not_be_compared_is_named(run, arguments, options, words):
    """A wrong argument is an error with the next thing to do."""
    with pytest.raises(UsageError, match=words):
        diff(run, *(arguments or (run,)), **options)


@pytest.mark.slow
def test_a_long_run_is_cut_and_says_so():
    """However much differs, the three forms together stay small, and the rest is in .rows."""
    wide = "&" * 1_000

    def long_run(letter: str) -> State:
        state = State.start("goal")
        for number in range(60):
            asked = tuple(ToolCall(f"c{each}", "get_weather", f'{{"{letter}": {number}}}') for each in range(9))
            state = state.planned(Decision(ModelReply(calls=asked), calls=asked))
            for call in asked:
                state = state.answered(ToolResult(call.id, call.name, f"{letter}{wide}"))
        return state

    made = diff(long_run("a"), long_run("b"))
    bundle, _ = made._repr_mimebundle_()
    assert len(made.rows) == 60
    assert "more steps, in .rows" in str(made)
    assert "more differences, in .rows" in str(made)
    assert sum(map(len, bundle.values())) < 150_000


def test_secrets_are_hidden(run):
    """No form of a comparison and no row shows a key."""
    key = "KEY-TEST-9876543210"
    text.hide(key)
    made = diff(run, agent_of(calls("get_weather", city=key), f"I used {key}", system_prompt=f"Use {key}.").run(GOAL))
    bundle, _ = made._repr_mimebundle_()

    for shown in (*bundle.values(), repr(made), repr(made.rows), repr(made.totals)):
        assert not any(key[start : start + 8] in shown for start in range(len(key) - 7))
    assert "[hidden]" in str(made)


def test_messages_that_a_middleware_adds_are_compared():
    """Any State between two rounds tells what it added."""
    start = State.start("goal")
    warned = replace(start, parent=start, kind="edit", added=(Message("assistant", "hm"),))
    one, other = (each.planned(Decision(answer="done")) for each in (start, warned))

    assert whats(diff(one, other).first) == ["message of the user"]
