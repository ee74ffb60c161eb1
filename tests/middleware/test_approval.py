"""Approval: what is asked for, what a policy answers, and that nothing runs unasked."""

from __future__ import annotations

import asyncio
import builtins
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from fakes import FunctionTool, check_state, collect, raw_call, runtime_for, says, several, states_of

from agentnb.core.limits import StopReason
from agentnb.core.messages import ToolCall
from agentnb.core.middleware import ToolStarted
from agentnb.core.state import State
from agentnb.errors import SettingsError, UsageError
from agentnb.middleware.approval import Approval, CallGlob
from agentnb.models.scripted import calls


def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def look(path: str) -> str:
    """Look at a file."""
    return f"looked at {path}"


DELETES = [calls("delete", path="a.txt"), says("done")]


def run(script: list[Any], approval: Approval, tools: Any = (delete, look), state: Any = "go", **more: Any) -> State:
    """The last State of a run with this approval."""
    return states_of(runtime_for(list(script), tools, middleware=[approval], **more), state)[-1]


def guarded() -> FunctionTool:
    """`delete`, made with approve=True."""
    return FunctionTool(delete, approve=True)


# ── which calls ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("glob", "arguments", "fits"),
    [
        ("delete", "{}", True),
        ("del*", "{}", True),
        ("*", "{}", True),
        ("Delete", "{}", False),
        ("delete(path=*.txt)", '{"path": "a.txt"}', True),
        ("delete(path=*.txt)", '{"path": " a.txt "}', True),
        ("delete(path=*.txt)", '{"path": "a.csv"}', False),
        ("delete(path=*.txt)", "{}", False),
        ("delete(path=*)", "{}", True),
        ("delete(n=1000*)", '{"n": 10000}', True),
        ("delete(n=1000*)", '{"n": 999}', False),
        ("delete(n=true, path=/*)", '{"n": true, "path": "/etc"}', True),
        ("delete(n=true, path=/*)", '{"n": false, "path": "/etc"}', False),
        ("delete(path=*.txt)", '"{\\"path\\": \\"a.txt\\"}"', True),
        ("delete(paths=*etc*)", '{"paths": ["/etc", "/tmp"]}', True),
    ],
)
def test_globs_name_calls(glob, arguments, fits):
    """By name and arguments, as text; what was left out is "", JSON inside a string is read as the tool would."""
    assert CallGlob(glob).fits(ToolCall("c", "delete", arguments)) is fits


@pytest.mark.parametrize("text", ["", "(a=1)", "delete(", "delete(a)", "delete(=1)", "delete(a=1"])
def test_a_glob_that_can_not_be_read_is_refused(text):
    """At the start: a rule that never fits would let everything pass."""
    with pytest.raises(SettingsError, match="names no calls"):
        Approval([text])


@pytest.mark.parametrize("options", [{"ask": "delete"}, {"policy": "allow"}, {"policy": 3}])
def test_other_mistakes_are_refused(options):
    """One text instead of a list would be read as letters."""
    with pytest.raises(SettingsError):
        Approval(**options)


# ── a person decides ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_policy_the_run_pauses(monkeypatch):
    """Nothing runs, nobody is asked at the keyboard, and the stop names the call."""
    monkeypatch.setattr(builtins, "input", lambda *args: pytest.fail("asked"))
    tool, events = FunctionTool(delete), []
    runtime = runtime_for(list(DELETES), [tool], middleware=[Approval(["delete"]), events.append])
    paused = states_of(runtime)[-1]

    assert (paused.stop, tool.started) == (StopReason.PAUSED, [])
    assert "delete (call_1_1)" in paused.detail
    assert not [event for event in events if isinstance(event, ToolStarted)]


def test_a_pause_is_decided_later():
    """Approved, also with other arguments, or denied: from a pickled State, by another runtime."""
    paused = pickle.loads(pickle.dumps(run(DELETES, Approval(["delete"]))))
    approval = Approval(["delete"])

    def then(state: State) -> State:
        return run([says("done")], approval, state=state)

    assert then(paused.approve("call_1_1")).tool_results[0].content == "deleted a.txt"
    assert then(paused.approve("call_1_1", {"path": "b.txt"})).tool_results[0].content.endswith("\ndeleted b.txt")
    assert then(paused.deny("call_1_1", "keep it")).tool_results[0].content == "Denied by the user: keep it"
    assert then(paused).stop is StopReason.PAUSED


def test_other_calls_of_the_same_reply_run():
    """Only the one that was asked for waits."""
    reply = several(calls("look", path="a"), calls("delete", path="a"), calls("look", path="b"))
    paused = run([reply, says("done")], Approval(["delete"]))

    assert [result.name for result in paused.results] == ["look", "look"]
    assert [call.name for call in paused.open_calls] == ["delete"]
    assert run([says("done")], Approval(["delete"]), state=paused.approve(paused.open_calls[0].id)).answer == "done"


# ── a policy decides ─────────────────────────────────────────────────────────────────────────────────────────────────

ANSWERS = [
    ("allow", "ok", "deleted a.txt"),
    (True, "ok", "deleted a.txt"),
    ("always", "ok", "deleted a.txt"),
    ({"path": "b.txt"}, "ok", '(run with other arguments: {"path": "b.txt"})\ndeleted b.txt'),
    ("deny", "denied", "Denied by the policy."),
    (False, "denied", "Denied by the policy."),
    ("", "denied", "Denied by the policy."),
    ("not on Fridays", "denied", "Denied by the policy: not on Fridays"),
]


@pytest.mark.parametrize(("answer", "status", "content"), ANSWERS)
@pytest.mark.parametrize("form", ["dict", "function", "async"])
@pytest.mark.parametrize("tool", [guarded, lambda: FunctionTool(delete)])
def test_a_policy_answers(answer, status, content, form, tool):
    """Whatever its form, and for tools with approve=True just as for the calls that were named."""

    async def decide(call: ToolCall, state: State) -> Any:
        return answer

    policies: dict[str, Any] = {"dict": {"delete*": answer}, "function": lambda call, state: answer, "async": decide}
    done = run(DELETES, Approval(["delete"], policies[form]), [tool()])

    assert done.answer == "done"
    assert (done.tool_results[0].status, done.tool_results[0].content) == (status, content)


def test_the_first_rule_that_fits_counts():
    """Where none fits, a person decides."""
    rules = {"delete(path=/tmp/*)": "allow", "delete(path=/*)": "never there", "look": "allow"}
    reply = several(calls("delete", path="/tmp/a"), calls("delete", path="/etc/a"), calls("delete", path="a"))
    paused = run([reply], Approval(["*"], rules))

    assert [result.status for result in sorted(paused.results, key=lambda each: each.call_id)] == ["ok", "denied"]
    assert [call.arguments for call in paused.open_calls] == ['{"path": "a"}']


def test_the_raw_call_stays_and_the_result_names_the_arguments_used():
    """The history holds what the model wrote; the result what was run."""
    done = run(DELETES, Approval(["delete"], {"*": {"path": "b.txt"}}))

    assert done.messages[1].calls[0].arguments == '{"path": "a.txt"}'
    assert done.tool_results[0].arguments == {"path": "b.txt"}
    assert done.tool_results[0].notes == ('run with other arguments: {"path": "b.txt"}',)


def test_always_is_remembered_seen_and_taken_back():
    """After "always" the tool is not asked for, in any run with this Approval, until it is revoked."""
    asked: list[str] = []

    def policy(call: ToolCall, state: State) -> str:
        asked.append(call.arguments)
        return "always"

    approval = Approval(["delete", "look"], policy)
    script = [calls("delete", path="a"), calls("delete", path="b"), says("done")]
    run(script, approval)
    run(DELETES, approval, [guarded()])

    assert len(asked) == 1
    assert approval.always == {"delete"}
    assert repr(approval) == "<Approval asks delete, look · always delete>"
    approval.revoke("delete")
    run(DELETES, approval)
    assert len(asked) == 2
    approval.allow_always("look")
    assert approval.always == {"delete", "look"}


def test_always_does_not_open_what_an_earlier_rule_denies():
    """The rules of a dict are asked for every call, in order; "always" in one of them covers what it fits."""
    rules = {"delete(path=/etc/*)": "deny", "delete(path=/tmp/*)": "always"}
    paths = ["/tmp/a", "/etc/passwd", "/tmp/b", "/home"]
    approval = Approval(["delete"], rules)
    done = run([*(calls("delete", path=path) for path in paths), says("done")], approval)

    assert [result.status for result in done.tool_results] == ["ok", "denied", "ok"]
    assert [call.arguments for call in done.open_calls] == ['{"path": "/home"}']
    assert approval.always == frozenset()


def test_allow_always_decides_where_no_rule_does():
    """A person who allowed the tool is not asked again; a rule that denies, or wants a person, still counts."""
    approval = Approval(["delete"], {"delete(path=/etc/*)": "deny", "delete(path=/home/*)": None})
    approval.allow_always("delete")
    script = [calls("delete", path=path) for path in ("/tmp/a", "/etc/passwd", "/home/me")]
    done = run(script, approval)

    assert [result.status for result in done.tool_results] == ["ok", "denied"]
    assert [call.arguments for call in done.open_calls] == ['{"path": "/home/me"}']


def test_always_covers_what_was_asked_for():
    """A function that answers "always" to a call named by a narrow glob is asked again for another glob's calls."""
    asked: list[str] = []

    def policy(call: ToolCall, state: State) -> str:
        asked.append(json.loads(call.arguments)["path"])
        return "always" if "/tmp" in call.arguments else "deny"

    approval = Approval(["*(path=*secret*)", "delete(path=/tmp/*)", "delete(path=/etc/*)"], policy)
    paths = ["/tmp/a", "/tmp/b", "/etc/passwd", "/tmp/secret"]
    run([*(calls("delete", path=path) for path in paths), says("done")], approval)

    assert asked == ["/tmp/a", "/etc/passwd", "/tmp/secret"]
    assert approval.always == {"delete(path=/tmp/*)", "delete(path=*secret*)"}
    approval.revoke("delete")
    assert approval.always == frozenset()


def test_a_policy_that_fails_lets_nothing_run():
    """It is a programming error, which travels up; the tool was not started."""
    tool = FunctionTool(delete)

    def policy(call: ToolCall, state: State) -> str:
        raise LookupError("no such rule")

    with pytest.raises(LookupError, match="no such rule"):
        run(DELETES, Approval(["delete"], policy), [tool])
    assert tool.started == []


def test_a_coroutine_that_a_policy_hands_out_is_awaited():
    """A lambda around an async function is a sync function, and what it returns is no permission."""
    tool = FunctionTool(delete)

    async def ask(call: ToolCall, state: State) -> str:
        return "deny"

    done = run(DELETES, Approval(["delete"], lambda call, state: ask(call, state)), [tool])

    assert (done.tool_results[0].status, tool.started) == ("denied", [])


NO_ANSWERS = [[], ["deny"], ("deny", "why"), 0, 1, 1.0, b"deny", {"path": {1}}, {"path": float("nan")}, object()]


@pytest.mark.parametrize("answer", NO_ANSWERS)
def test_what_is_no_answer_lets_nothing_run(answer):
    """From a function it is an error that names it; in a dict already when the Approval is made."""
    tool = FunctionTool(delete)

    with pytest.raises(UsageError, match=r"middleware: the policy answered .* Answer"):
        run(DELETES, Approval(["delete"], lambda call, state: answer), [tool])
    assert tool.started == []
    with pytest.raises(SettingsError, match="the policy answered"):
        Approval(["delete"], {"delete": answer})


def test_a_person_answers_in_an_async_policy_while_others_work():
    """A front end hands in a function that waits for a button; a call beside it runs meanwhile."""
    order: list[str] = []
    pressed = asyncio.Event()

    async def button(call: ToolCall, state: State) -> str:
        await asyncio.wait_for(pressed.wait(), 10)
        order.append("pressed")
        return "allow"

    async def look(path: str) -> str:
        order.append("looked")
        pressed.set()
        return path

    script = [several(calls("delete", path="a"), calls("look", path="b")), says("done")]
    runtime = runtime_for(script, [delete, FunctionTool(look)], middleware=[Approval(["delete"], button)])
    done = asyncio.run(collect(runtime))[-1]

    check_state(done)
    assert order == ["looked", "pressed"]
    assert [result.content for result in done.tool_results] == ["deleted a", "b"]


@pytest.mark.parametrize(
    "script",
    [[raw_call("delete", '{"path": "a', finish_reason="length"), says("x")], [calls("remove", path="a"), says("x")]],
)
def test_what_can_not_run_is_not_asked_for(script):
    """A call that was cut, or of a tool that is not there, goes back to the model as an error."""
    asked: list[ToolCall] = []
    policy: Callable[..., Any] = lambda call, state: asked.append(call)
    done = run(script, Approval(policy=policy), [guarded()])

    assert (asked, done.answer) == ([], "x")
    assert done.tool_results[0].status == "error"
