"""Run files: what was saved is what is loaded, in another process too; a file gains only what is new."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from collections import UserDict
from dataclasses import dataclass, replace

import pytest
from fakes import FunctionTool, collect, runtime_for

from agentnb import Agent, Limits, ScriptedModel, State, StopReason, calls, load, save, tool
from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.middleware import Middleware
from agentnb.core.model import ModelReply, Prompt
from agentnb.core.planner import Decision
from agentnb.core.state import Counters
from agentnb.core.tool import ToolSpec
from agentnb.models.anthropic import AnthropicModel
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.gemini import GeminiModel
from agentnb.models.ollama import OllamaModel
from agentnb.models.responses import ResponsesModel
from agentnb.records.request_json import MOST_CHANGED
from agentnb.records.run_file import RunFile
from agentnb.records.state_json import NOT_KEPT
from agentnb.text import hide

SECRET = "sk-test-0123456789abcdefghij"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent_for(*script, tools=(add,), **options):
    """An agent that plays a script."""
    return Agent(ScriptedModel(list(script)), list(tools), **options)


def lines(path):
    """The lines of a file, parsed."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def path(tmp_path):
    """Where a run is saved."""
    return tmp_path / "runs" / "run.jsonl"


# ── what comes back ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_comes_back_with_all_its_steps(path):
    """Answer, counters, steps, requests and values are those of the run that was saved."""
    agent = agent_for(calls("add", a=2, b=3), calls("add", a=1), "It is 5.", system_prompt="Be brief.")
    run = agent.run("What is 2 + 3?")
    save(run, path)
    again = load(path)

    assert again == run
    assert again.steps == run.steps
    assert [step.request for step in again.steps] == [step.request for step in run.steps]
    assert [result.value for result in again.tool_results] == [5, None]
    assert again.counters.seconds == pytest.approx(run.counters.seconds, abs=1e-5)


def test_a_loaded_run_goes_on(path):
    """After a limit the loaded State goes on as the one in memory would."""
    first = agent_for(calls("add", a=2, b=3)).run("go", limits=Limits(steps=1))
    save(first, path)
    run = agent_for("It is 5.").run(load(path))

    assert run.answer == "It is 5."
    assert run == agent_for("It is 5.").run(first)


def test_a_pause_is_decided_from_a_file(path):
    """A call that waits for approval still waits after loading; it runs with the arguments that a person gave."""
    tools = [FunctionTool(lambda n=0: f"did {n}", "act", approve=True)]
    paused = last_of(runtime_for([calls("act", n=1)], tools))
    save(paused, path)
    loaded = load(path)
    call = loaded.open_calls[0]
    save(loaded.approve(call.id, {"n": 7}), path)

    assert loaded.stop is StopReason.PAUSED
    assert load(path).approvals == ((call.id, '{"n": 7}'),)
    assert last_of(runtime_for(["done"], tools), load(path)).tool_results[0].content.endswith("did 7")


def last_of(runtime, state="go"):
    """The last State that the runtime makes."""
    return asyncio.run(collect(runtime, state))[-1]


def test_states_share_one_prompt_after_loading(path):
    """Each branch has one list of messages, not one per State."""
    run = agent_for(*[calls("add", a=n, b=n) for n in range(9)], "done").run("go", limits=Limits(repeats=None))
    save([run, run.at(5).say("other")], path)
    fork = load(path)
    save(run, path)

    assert len({id(state.prompt) for state in load(path).path()}) == 1
    assert len({id(state.prompt) for state in fork.path()}) == 2


def test_compaction_comes_back_by_reference(path):
    """A compacted prompt is kept as the messages that are new; the others are those of the history."""
    run = State.start("go").planned(Decision(answer="a" * 500)).say("more")
    summary = Message("user", "a summary")
    compact = run.compacted([run.prompt.items[0], summary, *run.prompt.items[1:3]])
    save(compact.say("on"), path)
    again = load(path)

    assert again == compact.say("on")
    assert again.request().messages == compact.say("on").request().messages
    assert again.parent.prompt.items[0] is again.path()[0].prompt.items[0]
    assert lines(path)[-2]["state"]["prompt"] == [[0, 1], {"role": "user", "content": "a summary"}, [1, 2]]


def test_a_state_that_a_middleware_rewrote_comes_back(path):
    """What a step should have added and what it holds may differ: then the file keeps what it holds."""
    state = State.start("go").planned(Decision(calls=(ToolCall("c", "f"),))).answered(ToolResult("c", "f", "a name"))
    hidden = replace(state.added[0], content="[a name]")
    prompt = Prompt([*state.prompt.items[: state.end - 1], hidden])
    for changes in ({"added": (hidden,), "prompt": prompt}, {"counters": Counters()}, {"goal": "other"}, {"asks": 2}):
        changed = replace(state, **changes).say("on")
        save(changed, path)

        assert load(path) == changed
        assert load(path).request().messages == changed.request().messages
        assert load(path).parent.asks == changed.parent.asks


@pytest.mark.parametrize(
    "model",
    [
        ChatCompletionsModel("m", "http://127.0.0.1:1/v1"),
        ResponsesModel("m", "http://127.0.0.1:1/v1"),
        AnthropicModel("m", "http://127.0.0.1:1"),
        GeminiModel("m", "http://127.0.0.1:1"),
        OllamaModel("m", "http://127.0.0.1:1"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_request_on_the_wire_is_rebuilt(model, path):
    """What each provider was sent is the same JSON after loading, its own messages and the tools included."""
    state = State.start("go")
    for _ in range(3):
        preamble, specs = (Message("system", "Be brief."),), (ToolSpec("add", "Adds.", {"type": "object"}),)
        request = state.request(preamble=preamble, specs=specs, parameters={"temperature": 0.5})
        call = ToolCall("c1", "add", '{"a": 1}')
        reply = ModelReply("so", (call,), raw={"role": "assistant"}, origin="x", request=model.sent(request))
        state = state.planned(Decision(reply, calls=reply.calls)).answered(ToolResult("c1", "add", "2", "error"))
    save(state, path)

    assert [step.request for step in load(path).steps] == [step.request for step in state.steps]
    assert sum("frame" in line for line in lines(path)) == 1


def test_a_request_that_cannot_be_told_is_marked(path):
    """A request of a form that nobody knows is left out: Step.request says None and the step says why."""
    for request in (object(), State.start("go").request(parameters={"api_key": "abc"})):
        run = State.start("go").planned(Decision(ModelReply("hi", request=request), answer="hi", notes=("own",)))
        save(run, path)
        loaded = load(path)

        assert loaded.steps[0].request is None
        assert loaded.steps[0].notes == ("own", NOT_KEPT["request"])
        assert lines(path)[-1].get("aside", lines(path)[2].get("aside"))["left_out"] == ["request"]
        size = path.stat().st_size
        save(loaded, path)
        assert path.stat().st_size == size


class Redacting(Middleware):
    """Sends the newest message in other words."""

    async def model(self, request, next):
        """Another conversation than the State holds."""
        *items, newest = request.prompt.items[: request.end]
        items = [*items, replace(newest, content=f"<{newest.content}>")]
        return await next(replace(request, prompt=Prompt(items), end=len(items)))


def test_a_request_that_a_middleware_changed_comes_back(path):
    """What it changed is kept beside the step, the rest is that of the State; twice through a file is no difference."""
    run = agent_for(calls("add", a=1, b=2), "done", middleware=[Redacting()]).run("go")
    save(run, path)
    loaded = load(path)
    save(loaded, path.with_name("again.jsonl"))

    assert [step.request for step in loaded.steps] == [step.request for step in run.steps]
    assert loaded.steps[1].request["messages"][-1]["content"] == "<3>"
    asides = [line.get("aside", {}) for line in lines(path) if line.get("state", {}).get("kind") == "plan"]
    assert [each["messages"][:-1] for each in asides] == [[], [[0, 2]]]
    assert [step.request for step in load(path.with_name("again.jsonl")).steps] == [step.request for step in run.steps]


def test_a_changed_request_has_a_bound(path):
    """A middleware that changes all that is said does not make the file grow without end: the step says so."""
    request = State.start("x" * MOST_CHANGED).request()
    save(State.start("go").planned(Decision(ModelReply("hi", request=request), answer="hi")), path)

    assert load(path).step.request is None
    assert load(path).step.notes == (NOT_KEPT["request"],)


def test_values_are_kept_where_they_are_json(path):
    """A small plain value comes back; an object, and what is very large, is left out and marked."""

    @dataclass
    class Thing:
        size: int = 3

    for value in ({"a": [1, 2.5, None, True]}, "text"):
        save(_with_value(value), path)
        assert load(path).results[0].value == value
    for value in (Thing(), [0] * 100_000, {1: "a"}, float("nan"), (1, 2), _deep(50)):
        save(_with_value(value), path)
        assert load(path).results[0].value is None
    typed = State.start("go").planned(Decision(answer="3", value=Thing()))
    save(typed, path)

    assert load(path).value is None
    assert load(path).step.notes == (NOT_KEPT["value"],)
    assert lines(path)[-1]["aside"]["left_out"] == ["value"]


def _with_value(value):
    state = State.start(f"go {str(value)[:20]}").planned(Decision(calls=(ToolCall("c", "f"),)))
    return state.answered(ToolResult("c", "f", "text", value=value))


def _deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def test_texts_that_json_cannot_hold_are_kept_in_words(path):
    """NaN in arguments and half an emoji do not stop a save; the file is strict JSON."""
    result = ToolResult("c", "f", "half \ud83d", arguments={"y": [1.0, float("nan")], "z": {1, 2}})
    state = State.start("go").planned(Decision(calls=(ToolCall("c", "f", '{"y": NaN}'),))).answered(result)
    save(state, path)

    assert load(path).results[0].content == "half \ufffd"
    assert load(path).results[0].arguments["y"] == [1.0, "nan"]
    for line in path.read_text("utf-8").splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_secrets_are_masked_everywhere(path):
    """No eight characters in a row of a key are in the file: not in texts, raw messages, arguments or values."""
    hide(SECRET)
    reply = ModelReply(f"key {SECRET}", (ToolCall("c", "f", json.dumps({"k": SECRET})),), SECRET, raw={"x": [SECRET]})
    state = State.start(f"go {SECRET}").planned(Decision(reply, calls=reply.calls))
    state = state.answered(ToolResult("c", "f", SECRET, value=SECRET, arguments={"k": SECRET}, traceback=SECRET))
    save(state.say(SECRET), path)
    text = path.read_text("utf-8")

    assert not any(SECRET[n : n + 8] in text for n in range(len(SECRET) - 7))
    assert load(path).goal == "go [hidden]"


@pytest.mark.parametrize("secret", ['p4ssW0r"9Xk2Lm', "p4ss\\W0r9Xk2Lm", "p4ssW0r\t9Xk2Lm"])
def test_secrets_are_masked_whatever_signs_json_writes_for_them(path, secret):
    """A quote, a backslash, a tab; a colour code inside."""
    hide(secret)
    coloured = f"{secret[:5]}\x1b[31m{secret[5:]}"
    call = ToolCall("a", "log_in", json.dumps({"key": secret}))
    run = State.start("go").planned(Decision(ModelReply(calls=(call,)), calls=(call,)))
    run = run.answered(ToolResult("a", "log_in", "in", arguments={"key": secret}))
    run = run.planned(Decision(answer=f"It is {secret}, in red {coloured}."))
    save(run, path)
    found = load(path)

    assert found.answer == "It is [hidden], in red [hidden]."
    assert json.loads(found.steps[0].calls[0].arguments) == {"key": "[hidden]"}
    assert secret[-8:] not in path.read_text()


LIKE_A_FIELD = """
import sys
from agentnb import State, load, save
from agentnb.core.planner import Decision
from agentnb.text import hide
hide("decision-2024-key")
save(State.start("go").planned(Decision(answer="It is decision-2024-key.")), sys.argv[1])
print(load(sys.argv[1]).steps[0].decision.answer)
"""


@pytest.mark.slow
def test_a_secret_that_begins_like_a_field_of_the_file_hides_no_field(path):
    """In a process of its own, since the word would stay hidden in this one."""
    done = subprocess.run([sys.executable, "-c", LIKE_A_FIELD, path], capture_output=True, text=True, check=True)

    assert done.stdout == "It is [hidden].\n"


def test_numbers_and_levels_beyond_reason_are_kept_or_left_out(path):
    """A number too long to be read again is left out as a value and told in hex elsewhere; deep replies stay whole."""
    deep = inner = []
    for _ in range(400):
        inner.append(inner := [])
    call = ToolCall("a", "big")
    reply = ModelReply(calls=(call,), raw={"role": "assistant", "extra": deep}, cost=1.2e-05)
    state = State.start("go").planned(Decision(reply, calls=(call,)))
    state = state.answered(ToolResult("a", "big", "huge", value=10**6000, arguments={"n": 10**5000}))
    save(state, path)
    before = path.read_bytes()
    save(loaded := load(path), path)

    assert path.read_bytes() == before
    assert loaded.results[0].value is None
    assert loaded.results[0].arguments["n"] == hex(10**5000)
    assert loaded.steps[0].reply.raw["extra"] == deep
    assert loaded.steps[0].reply.cost == 1.2e-05


def test_secrets_of_digits_are_masked_in_numbers(path):
    """A key that is a number stands nowhere as a number either."""
    hide("730265519048")
    result = ToolResult("c", "f", "ok", value={"id": 730265519048, "at": 1.5}, arguments={"id": 730265519048})
    save(
        State.start("go").planned(Decision(calls=(ToolCall("c", "f", '{"id": 730265519048}'),))).answered(result), path
    )

    assert "73026551" not in path.read_text()
    assert load(path).results[0].value == {"id": "[hidden]", "at": 1.5}


def test_equal_states_with_other_requests_do_not_mix_up(path):
    """A State is known by what came of it; what was sent with it may differ from what the file holds."""
    one, two = ToolSpec("one"), ToolSpec("two")

    def said(state, *specs):
        return state.planned(Decision(ModelReply("hm", request=state.request(specs=specs)), again="once more"))

    save(said(State.start("go"), one), path)
    run = said(said(State.start("go"), two), two)
    save(run, path)

    assert load(path) == run
    assert load(path).step.request == run.step.request


# ── what a file gains ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_adds_only_its_own_states(path):
    """Branches share their lines, and what is written stays as it is."""
    run = agent_for(*[calls("add", a=n, b=n) for n in range(4)], "done").run("go")
    save(run, path)
    before = path.read_bytes()
    fork = run.at(3).say("Use kelvin.")
    save(fork, path)

    assert path.read_bytes().startswith(before)
    assert len(path.read_bytes()) - len(before) < 300
    assert load(path) == fork


def test_the_state_saved_last_is_loaded(path):
    """Of several States the last; one that the file holds already costs one short line."""
    first, second = State.start("one"), State.start("two")
    save([first, second], path)
    assert load(path) == second
    size = path.stat().st_size
    save(first, path)

    assert load(path) == first
    assert path.stat().st_size - size < 40


def test_a_loaded_run_saved_again_adds_nothing(path):
    """Another process that loads, and saves what it loaded, leaves the file as it is."""
    save(agent_for(calls("add", a=1, b=2), "3").run("go"), path)
    before = path.read_bytes()
    RunFile(path).save([load(path)])
    save(pickle.loads(pickle.dumps(load(path))), path)

    assert path.read_bytes() == before


def test_two_writers_take_turns(path):
    """Two kernels that save into one file: each sees what the other wrote, and nothing is written twice."""
    one, other = RunFile(path), RunFile(path)
    state = State.start("go")
    for number in range(6):
        state = state.say(f"message {number}")
        (one if number % 2 else other).save([state])

    assert load(path) == state
    assert len(lines(path)) == 8


def test_a_file_that_was_replaced_is_read_anew(path):
    """When somebody deletes or replaces the file, the next save writes the whole run."""
    state = State.start("go").say("on")
    save(state, path)
    path.unlink()
    save(state, path)
    assert load(path) == state
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    save(state.say("more"), path)
    assert load(path) == state.say("more")
    other = path.with_name("other.jsonl")
    save([State.start("another run that is longer than the first"), State.start("x" * 4000)], other)
    path.write_bytes(other.read_bytes())  # the same file, with other and longer content
    save(state, path)

    assert load(path) == state


def test_a_next_state_is_written_without_looking_at_the_run(path):
    """The parent was just saved there, so nothing but the new State is encoded."""
    seen = []

    class Watched(UserDict):
        def items(self):
            seen.append(self)
            return super().items()

    state = State.start("go").planned(Decision(calls=(ToolCall("c", "f"),)))
    state = state.answered(ToolResult("c", "f", "text", arguments=Watched(a=1)))
    save(state, path)
    looked = len(seen)
    for number in range(5):
        state = state.say(f"message {number}")
        save(state, path)

    assert looked
    assert len(seen) == looked


@pytest.mark.slow
def test_a_hundred_thousand_states(path):
    """Nothing recurses along parents, and loading makes one prompt."""
    state = State.start("go")
    for number in range(100_000):
        state = state.say(str(number))
    save(state, path)
    again = load(path)

    assert again == state
    assert again.prompt.items[-1].content == "99999"
    assert again.path()[0].prompt is again.prompt
