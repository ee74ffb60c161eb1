"""The panel without widgets: what its buttons stand for, what a press runs, what it shows."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from agentnb import Agent, ScriptedModel, State, calls, tool
from agentnb.notebook.options import split
from agentnb.notebook.panel_actions import BUTTONS, action
from agentnb.notebook.panel_bench import Bench
from agentnb.notebook.panel_run import PanelRun
from agentnb.notebook.panel_views import (
    cells_html,
    form_block,
    goal_html,
    machine_html,
    more_tools_html,
    phase_of,
    state_html,
    tokens_html,
)
from agentnb.notebook.tool_history import see


@tool
def get_weather(city: str) -> float:
    """Current temperature of a city."""
    return {"Beijing": 31.0, "Shanghai": 27.5, "Oslo": 4.0}[city]


@tool(approve=True)
def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"


def both(*more: Any) -> dict[str, Any]:
    """One reply with the calls of all of these."""
    return {"tool_calls": [call for each in more for call in each["tool_calls"]]}


def says(request: Any) -> Any:
    """Asks for two cities, then says what the tools said."""
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    if request.messages[-1]["content"] == "Send it.":
        return calls("send", to="ann")
    if results:
        return " and ".join(results)
    return both(calls("get_weather", city="Beijing"), calls("get_weather", city="Shanghai"))


class Desk:
    """A bench with a notebook's variables and a record, driven as the widgets would."""

    def __init__(self, model: Any = says, **options: Any) -> None:
        self.space: dict[str, Any] = {
            "agent": Agent(model=model, tools=[get_weather, send], **options),
            "send": send,
            "get_weather": get_weather,
        }
        self.bench = Bench(self.space, "agent", goal="How warm?")
        self.records: list[Any] = []
        self.run = PanelRun(self.bench, self.records.append)

    def press(self, button: str) -> State | None:
        """Press a button and wait for what it runs; returns the State that is looked at."""

        async def pressed() -> None:
            task = self.run.press(button)
            if task is not None:
                await task

        asyncio.run(pressed())
        return self.bench.state


@pytest.fixture
def desk() -> Desk:
    """A desk whose agent asks for two cities."""
    return Desk()


def test_run_makes_a_run_in_a_variable_of_its_own(desk):
    """Each Run is a new variable; the cell that it stands for says so."""
    assert action(desk.bench, "run").cell == "%%agent --agent agent -o run\nHow warm?"
    first = desk.press("run")
    assert action(desk.bench, "run").cell == "%%agent --agent agent -o run_2\nHow warm?"
    second = desk.press("run")

    assert first.answer == "31.0 and 27.5"
    assert first == second
    assert desk.space["run"] is first
    assert desk.space["run_2"] is second


def test_fields_become_the_words_of_the_line(desk):
    """Only what differs from the agent is on the line, and the agent that runs is read from that line."""
    desk.bench.fields.limits.update(steps="5", tokens="1000", tool_calls="")
    desk.bench.fields.tools["send"] = False
    desk.bench.fields.planner = "json"
    desk.space["other"] = ScriptedModel(["hello"])
    desk.bench.fields.model = "other"

    assert desk.bench.words() == "--agent agent -m other --planner json -t get_weather --steps 5 --tokens 1000"
    agent = desk.bench.agent()
    assert (agent.limits.steps, agent.limits.tokens, agent.model) == (5, 1000, desk.space["other"])
    assert [each.name for each in agent.tools] == ["get_weather"]


def test_a_limit_that_is_emptied_is_taken_away(desk):
    """An empty field is no limit, which the line says as "none"."""
    desk.bench.fields.limits["steps"] = ""

    assert desk.bench.words() == "--agent agent --steps none"
    assert desk.bench.agent().limits.steps is None


def test_a_tool_that_was_defined_again_is_the_one_that_runs(desk):
    """The notebook's newest definition is what the next run uses; a tool of the agent alone is left as it is."""
    kept = send.replace(approve=False)
    desk.space["agent"] = desk.space["agent"].replace(tools=[desk.space["get_weather"], kept])
    see(desk.space)
    desk.press("run")

    @tool
    def get_weather(city: str) -> float:
        """Current temperature of a city, in kelvin."""
        return 300.0

    desk.space["get_weather"] = get_weather
    desk.press("run")
    assert desk.bench.agent().tools[1] is kept
    assert desk.space["run"].answer == "31.0 and 27.5"
    assert desk.space["run_2"].answer == "300.0 and 300.0"


def test_the_agent_is_made_again_only_when_something_changed(desk):
    """A panel with many tools asks for it at every turn; another definition or another agent is seen."""
    first = desk.bench.base
    assert desk.bench.base is first
    desk.space["more"] = get_weather.replace(name="more")
    assert "more" in desk.bench.tools
    desk.space["agent"] = Agent(model=says, tools=[send])

    assert [each.spec.name for each in desk.bench.base.tools] == ["send"]
    del desk.space["agent"]
    assert "holds no Agent" in action(desk.bench, "run").problem


def test_without_an_agent_its_limits_are_those_of_now(monkeypatch):
    """The notebook's default agent has the steps of MAX_ITERATIONS, also when that changes while the panel is open."""
    bench = Bench({}, goal="How warm?")
    assert bench.words() == ""
    monkeypatch.setenv("MAX_ITERATIONS", "1000")

    assert bench.words() == "--steps 20"


def test_many_tools_are_counted():
    """Above 60 the rest is told in words, with how many of them are in use."""
    tools = {f"tool_{number}": None for number in range(1_100)}

    assert more_tools_html(dict.fromkeys("abc"), ()) == ""
    assert "… and 1,040 more, of which the agent has 1:" in more_tools_html(tools, {"tool_3", "tool_70"})


def test_a_new_goal_begins_a_new_run_at_step(desk):
    """A goal that was changed under an unfinished run is what Step takes up; a line says so, Resume goes on."""
    desk.press("step")
    assert goal_html(desk.bench) == ""
    desk.bench.fields.goal = "How cold?"
    assert action(desk.bench, "step").cell == "%%agent --agent agent --steps 1 -o run_2\nHow cold?"
    assert action(desk.bench, "resume").cell == "%agent resume run --agent agent"
    assert "Run and Step begin run_2 with the new goal; the other buttons go on with run." in goal_html(desk.bench)
    desk.press("step")

    assert desk.space["run_2"].goal == "How cold?"
    assert desk.space["run"].goal == "How warm?"
    assert action(desk.bench, "step").cell.startswith("%agent resume run_2")


def test_a_run_that_is_chosen_goes_on_whatever_its_goal(desk):
    """Looking back at an unfinished run is no new goal: Step goes on with it, and the line names its goal."""
    desk.press("step")
    desk.bench.fields.goal = "How <b>cold</b>?"
    desk.press("step")
    desk.bench.show("run")

    assert action(desk.bench, "step").cell == "%agent resume run --agent agent --steps 1"
    assert "Only Run takes up the goal above; the other buttons go on with run: How warm?" in goal_html(desk.bench)
    desk.press("resume")
    assert goal_html(desk.bench) == ""


def test_step_makes_one_step_and_resume_the_rest(desk):
    """Step starts a run or goes on with it, one model call and its tools at a time."""
    assert action(desk.bench, "step").cell == "%%agent --agent agent --steps 1 -o run\nHow warm?"
    one = desk.press("step")
    assert (one.counters.steps, len(one.tool_results), one.stop) == (1, 2, "max_steps")
    assert action(desk.bench, "step").cell == "%agent resume run --agent agent --steps 1"
    assert action(desk.bench, "resume").cell == "%agent resume run --agent agent"
    done = desk.press("resume")

    assert done.answer == "31.0 and 27.5"
    assert list(desk.bench.runs) == ["run"]
    assert "has its answer" in action(desk.bench, "resume").problem


def test_a_fork_starts_from_the_state_that_is_looked_at(desk):
    """Fork keeps that State under a new name; Resume from an older State forks first."""
    run = desk.press("run")
    assert [state.kind for state in desk.bench.states] == ["start", "plan", "act", "act", "plan"]
    desk.bench.position = 0
    assert action(desk.bench, "fork").cell == "%agent fork run --at 1 -o run_2"
    desk.bench.position = 2
    assert action(desk.bench, "fork").cell == "%agent fork run --state 3 -o run_2"
    assert action(desk.bench, "resume").cell == "%agent fork run --state 3 -o run_2\n%agent resume run_2 --agent agent"
    desk.press("fork")
    assert desk.bench.state is run.path()[2]
    assert desk.bench.shown == "run_2"
    assert desk.press("resume") == run


def test_another_result_goes_on_as_a_fork(desk):
    """The edited call has the person's result, the other call of the round keeps its own."""
    run = desk.press("run")
    desk.bench.position = 3
    second = run.steps[0].calls[1]
    desk.bench.fields.call, desk.bench.fields.result = second.id, "it's cold"
    made = action(desk.bench, "result")
    forked = desk.press("result")

    assert made.cell == (
        f'run_2 = run.at(2).with_result({second.id!r}, "it\'s cold")\n%agent resume run_2 --agent agent'
    )
    assert forked.answer == "31.0 and it's cold"
    assert desk.space["run"] is run
    assert eval(made.cell.split("\n")[0].partition(" = ")[2], {"run": run}) == made.state


def test_other_arguments_run_only_that_call_again(desk):
    """The call runs with the arguments of the person; the answers of the round that stand are kept."""
    run = desk.press("run")
    desk.bench.position = 3
    desk.bench.fields.call = run.steps[0].calls[0].id
    desk.bench.fields.arguments = '{"city": "Oslo"}'
    made = action(desk.bench, "arguments")
    forked = desk.press("arguments")

    assert made.cell.startswith("run_2 = run.steps[0].plan.answered(run.steps[0].results[1]).approve(")
    assert eval(made.cell.split("\n")[0].partition(" = ")[2], {"run": run}) == made.state
    assert forked.answer.endswith("4.0 and 27.5")
    assert forked.tool_results[1] is run.tool_results[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "no JSON"), ("[1]", "JSON object"), ('{"city":"Beijing"}', "of the model"), ("", "of the model")],
)
def test_arguments_that_change_nothing_or_make_no_sense(desk, text, words):
    """The button says why it can do nothing."""
    desk.press("run")
    desk.bench.position = 3
    desk.bench.fields.arguments = text

    assert words in action(desk.bench, "arguments").problem


@pytest.mark.parametrize(
    ("button", "fields", "in_text"),
    [
        ("run", {"goal": " "}, True),
        ("say", {"message": ""}, True),
        ("arguments", {"arguments": "{"}, True),
        ("arguments", {"arguments": ""}, True),
        ("result", {"result": "31.0"}, True),
        ("approve", {}, False),
        ("resume", {}, False),
    ],
)
def test_a_problem_in_a_text_is_told_at_the_press(desk, button, fields, in_text):
    """What was typed last may still be on its way: only a problem of another kind takes a button away."""
    desk.press("run")
    desk.bench.position = 3 if button != "resume" else None
    for name, value in fields.items():
        setattr(desk.bench.fields, name, value)
    made = action(desk.bench, button)

    assert made.in_text is in_text
    assert made.problem


def test_a_told_problem_goes_when_the_text_changes(desk):
    """An empty goal is told until something is written; another problem stays."""
    desk.bench.fields.goal = ""
    desk.press("run")
    told = desk.run.problem
    desk.run.written()
    assert told == ["there is no goal yet: write one, then press Run or Step"]
    assert desk.run.problem == ()
    desk.press("resume")
    desk.run.written()
    assert desk.run.problem == ["there is no run yet"]


def test_a_call_that_waits_is_approved_with_other_arguments_or_denied(desk):
    """Both go on at once, in the same variable; nothing else can be done meanwhile."""
    desk.bench.fields.goal = "Send it."
    run = desk.press("run")
    assert run.stop == "paused"
    assert "waits for a decision" in action(desk.bench, "resume").problem
    call = run.open_calls[0]
    desk.bench.fields.arguments = '{"to": "bob"}'
    assert action(desk.bench, "approve").cell == (
        f"run = run.approve({call.id!r}, {{'to': 'bob'}})\n%agent resume run --agent agent"
    )
    assert desk.press("approve").answer.endswith("sent to bob")
    desk.press("run")
    desk.bench.fields.arguments, desk.bench.fields.reason = "", "not now"
    assert desk.press("deny").answer == "Denied by the user: not now"


def test_two_calls_that_wait_are_decided_one_by_one():
    """The run goes on when the last decision is made."""
    desk = Desk(ScriptedModel([both(calls("send", to="ann"), calls("send", to="bob")), "done"]))
    run = desk.press("run")
    desk.bench.fields.call = run.open_calls[1].id
    assert action(desk.bench, "deny").goes is False
    desk.press("deny")
    desk.bench.fields.call = ""
    assert desk.press("approve").answer == "done"
    assert [result.status for result in desk.space["run"].tool_results] == ["ok", "denied"]


def test_say_goes_on_with_words(desk):
    """From the newest State in the same run, from an older one in a fork."""
    desk.press("run")
    assert "no message yet" in action(desk.bench, "say").problem
    desk.bench.fields.message = "And in kelvin?"
    assert action(desk.bench, "say").cell == "%%agent --agent agent --from run -o run\nAnd in kelvin?"
    desk.bench.position = 3
    assert action(desk.bench, "say").cell.startswith("run_2 = run.at(2).say('And in kelvin?')\n%agent resume run_2")
    assert desk.press("say").messages[-2].content == "And in kelvin?"


def test_stop_ends_a_run_and_keeps_it():
    """From another thread, while a tool runs; the run can be resumed."""
    released, begun = threading.Event(), asyncio.Event()

    @tool(timeout=None)
    def hold() -> str:
        """Wait."""
        desk.run.task.get_loop().call_soon_threadsafe(begun.set)
        released.wait(10)
        return "held"

    desk = Desk(ScriptedModel([calls("hold"), "done"]))
    desk.space["agent"] = desk.space["agent"].replace(tools=[hold])

    async def stopped() -> None:
        task = desk.run.press("run")
        await begun.wait()
        assert desk.run.press("run") is None
        assert desk.run.problem == ["A run is on: stop it first."]
        threading.Thread(target=desk.run.stop).start()
        await asyncio.wait_for(task, 1)

    asyncio.run(stopped())
    released.set()

    assert desk.bench.state.stop == "cancelled"
    assert [result.status for result in desk.bench.state.tool_results] == ["cancelled"]
    assert desk.press("resume").answer == "done"


def test_an_error_is_shown_and_the_run_is_kept():
    """A setting that makes the run impossible, or a planner with a bug, is told in lines; nothing raises."""

    class Broken:
        async def plan(self, state, tools, ask):
            raise RuntimeError("oh <b>no</b>")

    desk = Desk(planner=Broken())
    desk.press("run")
    assert desk.run.problem == ["RuntimeError: oh <b>no</b>"]
    assert desk.bench.state.goal == "How warm?"
    desk.bench.fields.limits["steps"] = "many"
    desk.press("run")
    assert "--steps 'many' is not a number" in desk.run.problem[1]


def test_every_run_leaves_one_ordinary_output(desk):
    """Steps and answer are in HTML and text, escaped, without any widget."""
    desk = Desk(lambda request: "<img src=x onerror=alert(1)> costs $5")
    desk.press("run")

    [record] = desk.records
    assert "<img" not in record.html
    assert "&lt;img" in record.html
    assert record.text.startswith("run · answered · 1 new step\n  %%agent --agent agent -o run")
    assert set(record.bundle) == {"text/html", "text/plain"}


def test_the_record_of_a_short_run_holds_what_was_sent(desk):
    """With two steps each has room for its request, in full."""
    desk.press("run")
    [record] = desk.records

    assert record.html.count("Request as sent") == 2
    assert "too long to show here" not in record.html
    assert len(record.html) + len(record.text) < 40_000


def test_what_a_model_writes_is_text_everywhere(desk):
    """Tool names, arguments, results, answers, goals: none becomes live HTML in any view."""
    hostile = "<img src=x onerror=alert(1)>"
    desk = Desk(
        ScriptedModel([{"content": hostile, "tool_calls": calls(hostile, city=hostile)["tool_calls"]}, hostile])
    )
    desk.bench.fields.goal = hostile
    desk.press("run")
    views = [form_block(desk.bench, live=True).html, tokens_html(desk.bench.newest)]
    desk.bench.runs["run"] = State.start(hostile + " of a run")
    views.append(goal_html(desk.bench))
    desk.bench.runs["run"] = desk.space["run"]
    views.append(cells_html({name: action(desk.bench, name) for name in BUTTONS}))
    for position in range(len(desk.bench.states)):
        desk.bench.position = position
        views.append(state_html(desk.bench))

    assert all("<img" not in view for view in views)
    assert all("&lt;img" in view for view in views[4:])
    assert "&lt;img" in views[2]


def test_the_static_form_says_what_it_is(desk):
    """Without a person in front the panel is a table of its fields, the same at every run."""
    text = form_block(desk.bench, live=False).text

    assert "static form" in text
    assert "get_weather (version " in text
    assert "steps 20" in text
    assert text == form_block(desk.bench, live=False).text


def test_the_node_of_each_state(desk):
    """Start, plan, results and end each light their node; a word marks it."""
    run = desk.press("run")

    assert [phase_of(each) for each in run.path()] == ["init", "plan", "update", "update", "check"]
    assert "▶ act ×2" in machine_html("act", {"act": 2})


@pytest.mark.parametrize("word", ["plain", "two words", "it's", 'say "hi"', "a\\b", "", "--x='y z'"])
def test_quoted_words_are_read_back(word):
    """What the panel puts on a line is what the magic reads."""
    from agentnb.notebook.options import quoted

    assert split(f"-m {quoted(word)} -t x") == ["-m", word, "-t", "x"]


def test_unknown_numbers_are_not_zero(desk):
    """Tokens that nobody told are n/a in the panel's table."""
    run = desk.press("run")

    assert "n/a" in tokens_html(run)
    assert json.dumps(run.usage.total) == "null"
