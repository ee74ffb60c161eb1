"""What each button of the panel would do now: the cell that it stands for, and the State from which a run goes on.

    action(bench, "resume")    Action("%agent resume run ...", out="run", state=..., goes=True)

An Action changes nothing. Where the State that is looked at is not the newest, what comes of it is a fork, with a
variable of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentnb.core.messages import ToolCall
from agentnb.core.state import State, Step
from agentnb.errors import AgentnbError, UsageError
from agentnb.notebook.bounds import shown
from agentnb.notebook.panel_bench import Bench

STOP_LINE = "%agent stop"


@dataclass(frozen=True, slots=True)
class Action:
    """What a button would do now."""

    cell: str = ""
    """The text of the cell that does the same."""
    out: str = ""
    """The variable that holds what comes of it."""
    state: State | None = None
    """What the variable holds first, and where the run goes on."""
    words: str = ""
    """The options of the agent that runs."""
    goes: bool = False
    """Whether a run follows."""
    problem: str = ""
    """Why the button can do nothing now; "" when it can."""
    in_text: bool = False
    """Whether that lies in what is written in a field: what was typed last may still be on its way."""


class TextProblem(UsageError):
    """What is written in a field makes no sense yet."""


def action(bench: Bench, button: str) -> Action:
    """What this button would do now; one that can do nothing says why."""
    try:
        return BUTTONS[button][1](bench)
    except AgentnbError as error:
        return Action(problem=error.message, in_text=isinstance(error, TextProblem))


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _run(bench: Bench, **limits: str) -> Action:
    goal, out, words = bench.fields.goal, bench.fresh_name(), bench.words(**limits)
    if not goal.strip():
        raise TextProblem("there is no goal yet: write one, then press Run or Step")
    return Action(_magic(words, f"-o {out}", goal), out, State.start(goal), words, goes=True)


def _step(bench: Bench) -> Action:
    state = bench.state
    if state is None or state.answer is not None or bench.has_new_goal:
        return _run(bench, steps="1")
    return _resume(bench, steps="1")


def _resume(bench: Bench, **limits: str) -> Action:
    state = _seen(bench)
    if state.answer is not None:
        raise UsageError("the run has its answer: say something, or fork from an earlier State")
    if state is bench.newest and state.stop == "paused":
        raise UsageError("a call waits for a decision: approve or deny it")
    if state is bench.newest:
        return _going(bench, [], bench.shown, state, **limits)
    fork = _fork(bench)
    return _going(bench, [fork.cell], fork.out, state, **limits)


def _fork(bench: Bench) -> Action:
    state, out = _seen(bench), bench.fresh_name()
    where = (
        ""
        if state is bench.newest
        else f" --at {bench.before_step}"
        if bench.before_step
        else f" --state {_number(bench)}"
    )
    return Action(f"%agent fork {bench.shown}{where} -o {out}", out, state)


def _say(bench: Bench) -> Action:
    state, text = _seen(bench), bench.fields.message
    if not text.strip():
        raise TextProblem("there is no message yet: write one, then press Say")
    said = state.say(text)
    if state is not bench.newest:
        out = bench.fresh_name()
        return _going(bench, [f"{out} = {_expression(bench)}.say({text!r})"], out, said)
    words = bench.words()
    return Action(_magic(words, f"--from {bench.shown} -o {bench.shown}", text), bench.shown, said, words, goes=True)


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _approve(bench: Bench) -> Action:
    call = _edited(bench, is_open=True)
    given = _given_arguments(bench, call)
    more = "" if given is None else f", {given!r}"
    return _decided(bench, f".approve({call.id!r}{more})", _seen(bench).approve(call.id, given))


def _deny(bench: Bench) -> Action:
    call, reason = _edited(bench, is_open=True), bench.fields.reason.strip()
    more = f", {reason!r}" if reason else ""
    return _decided(bench, f".deny({call.id!r}{more})", _seen(bench).deny(call.id, reason))


def _decided(bench: Bench, method: str, state: State) -> Action:
    """After one decision the run goes on, unless another call of the round waits for one, too."""
    out = bench.shown if bench.state is bench.newest else bench.fresh_name()
    line = f"{out} = {_expression(bench)}{method}"
    decided = {call_id for call_id, _ in state.approvals}
    if any(call.id not in decided for call in state.open_calls):
        return Action(line, out, state)
    return _going(bench, [line], out, state)


def _with_arguments(bench: Bench) -> Action:
    """The round of an answered call again, with other arguments for it; its other results are kept."""
    call = _edited(bench)
    if bench.is_open(call):
        raise UsageError("this call has not run yet: approve it with these arguments")
    given = _given_arguments(bench, call)
    if given is None:
        raise TextProblem("these are the arguments of the model: change them first")
    step = _whole_step(bench)
    here = f"{bench.shown}.steps[{step.number - 1}]"
    expression, state = f"{here}.plan", step.plan
    for index, result in enumerate(step.results):
        if result.call_id != call.id:
            expression += f".answered({here}.results[{index}])"
            state = state.answered(result)
    out = bench.fresh_name()
    line = f"{out} = {expression}.approve({call.id!r}, {given!r})"
    return _going(bench, [line], out, state.approve(call.id, given))


def _with_result(bench: Bench) -> Action:
    """Another result for a call; where it was answered already, that is a fork."""
    call, text, run = _edited(bench), bench.fields.result, bench.runs[bench.shown]
    step = _whole_step(bench)
    if any(result.call_id == call.id and text == shown(result.content) for result in step.results):
        raise TextProblem("this is the result as it is: change it first")
    is_open = call in run.open_calls
    later = step.number < run.counters.steps
    whole, where = (run.at(step.number + 1), f".at({step.number + 1})") if later else (run, "")
    out = bench.shown if is_open else bench.fresh_name()
    line = f"{out} = {bench.shown}{where}.with_result({call.id!r}, {text!r})"
    state = whole.with_result(call.id, text)
    return Action(line, out, state) if state.open_calls else _going(bench, [line], out, state)


def _given_arguments(bench: Bench, call: ToolCall) -> dict[str, Any] | None:
    """The arguments in the field; None when they are the model's own."""
    text = bench.fields.arguments.strip()
    if text in ("", call.arguments.strip(), shown(call.arguments).strip()):
        return None
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TextProblem(f"the arguments are no JSON: {error}") from None
    if not isinstance(given, dict):
        raise TextProblem('the arguments are a JSON object, such as {"city": "Oslo"}')
    return None if given == _object(call.arguments) else given


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _magic(words: str, rest: str, body: str) -> str:
    return " ".join(filter(None, ["%%agent", words, rest])) + f"\n{body}"


def _going(bench: Bench, lines: list[str], out: str, state: State, **limits: str) -> Action:
    words = bench.words(**limits)
    lines = [*lines, " ".join(filter(None, [f"%agent resume {out}", words]))]
    return Action("\n".join(lines), out, state, words, goes=True)


def _seen(bench: Bench) -> State:
    if bench.state is None:
        raise UsageError("there is no run yet")
    return bench.state


def _edited(bench: Bench, is_open: bool = False) -> ToolCall:
    call = bench.call
    if call is None:
        raise UsageError("this State belongs to no step with a call")
    if is_open and not bench.is_open(call):
        raise UsageError("this call has its result already")
    return call


def _whole_step(bench: Bench) -> Step:
    """The step that is looked at, with all that came of it later."""
    step = bench.step
    assert step is not None  # a call is being edited
    return bench.runs[bench.shown].steps[step.number - 1]


def _expression(bench: Bench) -> str:
    """The State that is looked at, in Python."""
    if bench.state is bench.newest:
        return bench.shown
    return (
        f"{bench.shown}.at({bench.before_step})" if bench.before_step else f"{bench.shown}.path()[{_number(bench) - 1}]"
    )


def _number(bench: Bench) -> int:
    """The place of that State in its run, from 1."""
    assert bench.position is not None  # the newest has no number of its own
    return bench.position + 1


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


BUTTONS: dict[str, tuple[str, Callable[[Bench], Action]]] = {
    "run": ("Run", _run),
    "step": ("Step", _step),
    "resume": ("Resume", _resume),
    "fork": ("Fork from here", _fork),
    "say": ("Say", _say),
    "approve": ("Approve", _approve),
    "deny": ("Deny", _deny),
    "arguments": ("Run with these arguments", _with_arguments),
    "result": ("Go on with this result", _with_result),
}
"""Button to what is written on it and what it does."""
