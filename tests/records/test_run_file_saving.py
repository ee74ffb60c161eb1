"""Saving while a run goes on: each State as it is made, and each call before it runs."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from fakes import several

from agentnb import Agent, Approval, Limits, ScriptedModel, State, StopReason, calls, load, load_all, save, text, tool
from agentnb.core.messages import ToolCall
from agentnb.core.middleware import Budget, Middleware, StateMade, ToolStarted, current_budget
from agentnb.core.model import Prompt
from agentnb.core.planner import Decision
from agentnb.core.state import Counters
from agentnb.errors import UsageError
from agentnb.records.run_tree import MAY_HAVE_RUN
from agentnb.records.runnable import check_runnable, missing_tools
from agentnb.records.saving import Saving


class Died(BaseException):
    """The process dies; nothing of ours catches it."""


@pytest.fixture
def path(tmp_path):
    """Where the run is saved."""
    return tmp_path / "run.jsonl"


def begins(saving, state, call):
    """Tell the listener that a call of a run starts, as the loop does that has come so far."""
    token = current_budget.set(Budget(Limits(), state, state))
    saving(ToolStarted(call))
    current_budget.reset(token)


def lines(path):
    """The lines of a file, parsed."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_listener_saves_each_state_as_it_is_made(path):
    """When a tool runs, the State that asked for it is in the file already, and so is the word that it runs."""
    found = []

    @tool
    def look() -> str:
        """Look into the file."""
        found.extend(lines(path)[-2:])
        return "seen"

    agent = Agent(ScriptedModel([calls("look"), "done"]), [look], middleware=[Saving(path)])
    run = agent.run("go")

    assert found[0]["state"]["kind"] == "plan"
    assert found[1] == {"begun": "call_1_1", "name": "look", "after": found[0]["id"]}
    assert load(path) == run
    assert [line["state"]["kind"] for line in lines(path) if "state" in line] == ["start", "plan", "act", "plan"]


def test_a_loop_over_steps_saves_the_same(path):
    """The pattern without a listener."""

    @tool
    def one() -> int:
        """One."""
        return 1

    agent = Agent(ScriptedModel([calls("one"), "done"]), [one])
    for state in agent.steps("go"):
        save(state, path)
        assert load(path) == state


def test_a_call_that_was_running_is_not_run_again(path):
    """The process died inside a tool: after loading the call is answered, the other one is still open."""
    saving = Saving(path)
    first, second = ToolCall("a", "pay"), ToolCall("b", "pay")
    state = State.start("go").planned(Decision(calls=(first, second)))
    saving(StateMade(state))
    begins(saving, state, first)
    loaded = load(path)

    assert [(each.call_id, each.status, each.content) for each in loaded.results] == [("a", "cancelled", MAY_HAVE_RUN)]
    assert loaded.open_calls == (second,)
    assert loaded.parent == state
    save(loaded, path)
    assert load(path) == loaded


def test_a_call_that_was_answered_is_not_marked(path):
    """Not when its result is in the file, nor when a person goes back to before it ran."""
    saving, call = Saving(path), ToolCall("a", "pay")
    asked = State.start("go").planned(Decision(calls=(call,)))
    saving(StateMade(asked))
    begins(saving, asked, call)
    done = asked.with_result("a", "paid")
    saving(StateMade(done))

    assert load(path) == done
    save(asked, path)
    assert load(path) == asked


def test_a_call_with_arguments_of_a_person_is_noted_where_it_is_open(path):
    """Approved with other arguments, the call that runs is another object of the same id."""
    saving, call = Saving(path), ToolCall("a", "pay")
    approved = State.start("go").planned(Decision(calls=(call,))).approve("a", {"n": 2})
    saving(StateMade(approved))
    begins(saving, approved, ToolCall("a", "pay", '{"n": 2}'))

    assert load(path).results[0].content == MAY_HAVE_RUN
    assert load(path).parent == approved


def test_a_run_that_begins_with_open_calls_is_saved_before_they_run(path):
    """No State was told yet when the first tool starts: the one that the run began with is written first."""
    found = []

    @tool
    def look() -> str:
        """Look into the file."""
        found.append(load(path))
        return "seen"

    base = State.start("go").planned(Decision(calls=(ToolCall("a", "look"),)))
    run = Agent(ScriptedModel(["done"]), [look], middleware=[Saving(path)]).run(base)

    assert found[0].results[0].content == MAY_HAVE_RUN
    assert found[0].parent == base
    assert load(path) == run


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_file_whose_time_is_another_one_keeps_its_marks(path, hours):
    """A file server's clock, or a touch, may set any time: each call is still noted in its run, and nothing is doubled."""
    saving = Saving(path)
    states = [State.start(goal).planned(Decision(calls=(ToolCall("a", "pay"),))) for goal in ("one", "two")]
    for state in states:
        saving(StateMade(state))
        os.utime(path, (time.time() + 3600 * hours,) * 2)
        begins(saving, state, ToolCall("a", "pay"))
        os.utime(path, (time.time() + 7200 * hours,) * 2)

    assert [load_run.results[0].content for load_run in load_all(path)] == [MAY_HAVE_RUN] * 2
    assert len(lines(path)) == 1 + 2 * 3


FORKS = """
import multiprocessing, sys
from agentnb import Agent, save
agent = Agent(lambda request: "done")
def work(number):
    for n in range(20):
        save(agent.run(f"task {number} {n}"), sys.argv[1])
if __name__ == "__main__":
    save(agent.run("first"), sys.argv[1])
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=work, args=(number,)) for number in range(4)]
    [child.start() for child in children]
    [child.join(40) for child in children]
    print([child.exitcode for child in children])
    [child.kill() for child in children]
    print(agent.run("last").answer)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_children_run_and_save_beside_each_other(path):
    """A fork shares neither the loop nor the lock of its parent: all runs end, and all are in the file."""
    command = [sys.executable, "-W", "ignore", "-c", FORKS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)

    assert done.stdout.split("\n")[:2] == ["[0, 0, 0, 0]", "done"]
    assert len(load_all(path)) == 81


def test_a_begun_call_of_an_unknown_run_is_left_aside(path):
    """A note that fits no State of the file does no harm."""
    saving = Saving(path)
    saving(StateMade(State.start("go")))
    saving(ToolStarted(ToolCall("a", "pay")))

    assert load(path) == State.start("go")


def test_runs_that_go_on_at_once_share_a_file(path):
    """Their States lie between each other; equal call ids and changed arguments do not mix them up."""
    saving = Saving(path)
    one, other = (State.start(goal).planned(Decision(calls=(ToolCall("a", "pay"),))) for goal in ("one", "two"))
    for state in (one, other):
        saving(StateMade(state))
    begins(saving, one, ToolCall("a", "pay", '{"n": 2}'))
    assert load(path) == other
    save(one, path)

    assert load(path).results[0].content == MAY_HAVE_RUN
    save(other, path)
    assert load(path) == other


def test_calls_with_changed_arguments_are_noted_each_in_its_run(path):
    """Runs at once, the same call ids, a policy that changes arguments: killed now, none of the calls runs again."""
    model, all_run = [several(calls("pay", n=1), calls("pay", n=2))] * 3, asyncio.Event()
    begun = []

    @tool(approve=True)
    async def pay(n: int) -> str:
        """Pay."""
        begun.append(n)
        if len(begun) == 6:
            all_run.set()
        await all_run.wait()
        raise asyncio.CancelledError

    agent = Agent(ScriptedModel(model), [pay], middleware=[Approval(policy=lambda call, state: {"n": 9}), Saving(path)])

    async def at_once():
        await asyncio.gather(*(agent.arun(goal) for goal in ("one", "two", "three")), return_exceptions=True)

    asyncio.run(at_once())
    noted = [line["after"] for line in lines(path) if "begun" in line]
    plans = [line["id"] for line in lines(path) if line.get("state", {}).get("kind") == "plan"]

    assert begun == [9] * 6
    assert sorted(noted) == sorted(plans[:3] * 2)


def test_a_file_that_cannot_be_written_hurts_no_run(tmp_path, caplog):
    """A failing listener is told of once and dropped."""
    run = Agent(ScriptedModel(["done"]), middleware=[Saving(tmp_path)]).run("go")

    assert run.answer == "done"
    assert "Saving" in caplog.text


def test_a_listener_travels_to_other_processes(path):
    """An agent that saves can be pickled; the copy writes to the same path."""
    saving = pickle.loads(pickle.dumps(Saving(path)))
    saving(StateMade(State.start("go")))

    assert load(path) == State.start("go")
    assert repr(saving) == f"<Saving {path}>"


# ── going on needs tools ─────────────────────────────────────────────────────────────────────────────────────────────


def test_going_on_names_the_tools_that_are_missing(path):
    """Loading needs no tools; an open call whose tool was offered and is not at hand is told by name."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    agent = Agent(ScriptedModel([calls("pay", amount=1), "done"]), [pay])
    save(next(state for state in agent.steps("go") if state.kind == "plan"), path)
    loaded = load(path)

    assert loaded.stop is None
    assert missing_tools(loaded, ()) == ("pay",)
    with pytest.raises(UsageError, match=r"open calls of this run need tools that the agent does not have: pay\. Run"):
        check_runnable(loaded, ())
    check_runnable(loaded, agent.tools)


def test_the_log_names_tools_that_a_loaded_run_has_used(path, caplog):
    """Going on without them is possible, and told once for each agent; a run of this process goes on unsaid."""

    @tool
    def price(item: str) -> float:
        """Price."""
        return 1.0

    run = Agent(ScriptedModel([calls("price", item="x")] * 2), [price]).run("go", limits=Limits(steps=1))
    save(run, path)
    loaded, without = load(path), Agent(ScriptedModel(["done"] * 5))
    Agent(ScriptedModel(["done"] * 5), [price]).run(loaded)
    without.run(run)
    assert caplog.text == ""

    assert without.run(loaded).answer == without.run(loaded).answer == "done"
    assert without.run(loaded.say("And y?")).answer == "done"
    assert caplog.text.count("the loaded run used tools that the agent lacks: price. It goes on without") == 1


def test_a_tool_that_never_was_there_is_not_missing():
    """What the model made up is answered by the loop, as always."""
    state = State.start("go").planned(Decision(calls=(ToolCall("a", "invented"),)))

    assert missing_tools(state, ()) == ()
    check_runnable(state.say("go on").stopped(StopReason.CANCELLED), ())


def test_a_call_whose_secret_is_hidden_does_not_run(path):
    """A file keeps no secret, so an open call that holds one is refused until its arguments are given again."""
    text.hide("KEY-TEST-0123456789")
    ran = []

    @tool(approve=True)
    def login(token: str) -> str:
        """Log in."""
        ran.append(token)
        return "in"

    paused = Agent(ScriptedModel([calls("login", token="KEY-TEST-0123456789")]), [login]).run("go")
    save([paused.approve("call_1_1", {"token": "KEY-TEST-0123456789"}), paused.approve("call_1_1"), paused], path)
    saved = load(path)
    agent = Agent(ScriptedModel(["done"] * 3), [login])

    for state in (saved, saved.approve("call_1_1"), saved.approve("call_1_1", {"token": "KEY-[hidden]"})):
        with pytest.raises(
            UsageError, match=r"open call 'call_1_1' can't run: its arguments hold a secret, .*approve\("
        ):
            agent.run(state)
    assert agent.run(saved.with_result("call_1_1", "in")).answer == "done"
    assert agent.run(saved.approve("call_1_1", {"token": "KEY-TEST-0123456789"})).answer == "done"
    assert ran == ["KEY-TEST-0123456789"]


class Renaming(Middleware):
    """Rewrites what was said before each plan, in place of its State."""

    async def before(self, state):
        """The newest message in other words, and the counters of nobody."""
        if state.kind != "act":
            return state
        said = replace(state.added[-1], content="[hidden by a middleware]")
        prompt = Prompt([*state.prompt.items[: state.end - 1], said])
        changed = replace(state, added=(*state.added[:-1], said), prompt=prompt, counters=Counters(steps=9))
        return replace(changed, stop=StopReason.CANCELLED, detail="enough") if state.counters.steps > 9 else changed


@pytest.mark.parametrize("middleware", [[], [Renaming()]])
def test_a_listener_writes_what_a_save_writes(path, middleware):
    """What the loop made is not compared with what it should be; whatever a middleware made of it is."""

    @tool(poll=True)
    def look(n: int) -> int:
        """Look."""
        return 1 // n

    twice = several(calls("look", n=1), calls("look", n=0), ids=["same", "same"])
    script = [calls("look", n=2), twice, calls("unknown"), "", "done"]
    run = Agent(ScriptedModel(script), [look], middleware=[*middleware, Saving(path)]).run("go")
    written = path.read_bytes()
    save(run, path)

    assert path.read_bytes() == written
    assert load(path) == run
    assert load(path).request().messages == run.request().messages
