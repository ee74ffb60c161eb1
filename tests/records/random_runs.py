"""Runs for the tests of run files: grown at random by every transition there is, and compared in all that is kept."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agentnb.core.limits import StopReason
from agentnb.core.messages import Message, ToolCall, ToolResult, Usage
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.errors import ModelError

TEXTS = ["", "words", "caf\u00e9 \U0001f600", 'a "quoted"\nline\u2028', "ever longer " * 20]
SPECS = (
    ToolSpec("add", "Adds.", {"type": "object"}, "add@1\u00b7ab12"),
    ToolSpec("find", approve=True, parallel=False),
)
CALL = st.builds(
    ToolCall,
    st.sampled_from(["", "a", "b", "b"]),
    st.sampled_from(["add", "find", "missing"]),
    st.sampled_from(['{"n": 1}', "", "{", '{"n": NaN}', '{"t": "\u00e9"}']),
    st.sampled_from(["", "", "cut"]),
)
USAGE = st.none() | st.builds(
    Usage, st.none() | st.integers(0, 9), st.none() | st.integers(0, 9), st.none(), st.just(3)
)
REPLY = st.builds(
    ModelReply,
    st.sampled_from(TEXTS),
    st.lists(CALL, max_size=3).map(tuple),
    st.sampled_from(TEXTS),
    st.sampled_from(["stop", "tool_calls", "length"]),
    st.none() | st.just("no"),
    USAGE,
    st.none() | st.just(0.25),
    st.none() | st.just({"role": "assistant", "content": "", "signature": [1, {"deep": None}]}),
    st.sampled_from(["", "chat:some"]),
    st.sampled_from(["", "some:model"]),
    seconds=st.sampled_from([0.0, 0.125]),
    notes=st.lists(st.sampled_from(TEXTS), max_size=1).map(tuple),
)
RESULT = st.tuples(
    st.sampled_from(TEXTS[1:]),
    st.sampled_from(["ok", "error", "timeout", "cancelled"]),
    st.sampled_from([None, "words", 3, [1, {"a": 2.5}]]),
    st.none() | st.just({"n": [1, 2.5, None, True]}),
)
LINES = itertools.count()


class Grown(RuleBasedStateMachine):
    """One State in hand, and all that were met; subclasses say what is checked."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[State] = []

    def take(self, state: State) -> None:
        """Hold this State."""
        self.state = state
        self.met.append(state)

    @initialize(goal=st.sampled_from(TEXTS[1:]))
    def begin(self, goal: str) -> None:
        """A fresh run."""
        self.take(State.start(goal))

    @precondition(lambda self: not self.state.open_calls)
    @rule(
        reply=REPLY, again=st.sampled_from([None, None, None, "", "once more"]), sent=st.booleans(), n=st.integers(0, 2)
    )
    def plan(self, reply: ModelReply, again: str | None, sent: bool, n: int) -> None:
        """A model answers."""
        request = self.state.request(specs=SPECS[:n], parameters={"temperature": n}) if sent else None
        reply = replace(reply, request=request)
        if again is not None:
            decision = Decision(reply, again=again, notes=("asked again",))
        elif reply.calls:
            decision = Decision(reply, calls=reply.calls, plain=n == 2)
        else:
            decision = Decision(reply, answer=reply.text, value={"typed": [n]} if n else None)
        self.take(self.state.planned(decision, 0.5))

    @precondition(lambda self: not self.state.open_calls)
    @rule(calls=st.lists(CALL, max_size=2).map(tuple))
    def plan_alone(self, calls: tuple[ToolCall, ...]) -> None:
        """A planner decides without a model."""
        self.take(self.state.planned(Decision(calls=calls) if calls else Decision(answer="by itself")))

    @precondition(lambda self: not self.state.open_calls)
    @rule()
    def fail(self) -> None:
        """The model call fails."""
        error = ModelError("no luck", kind="connection", status=503, retryable=True, partial="half", remedy="Wait.")
        reply = ModelReply(text="half", finish="error", request=self.state.request())
        decision = Decision(reply, stop=StopReason.CONNECTION_LOST, detail=str(error), error=error)
        self.take(self.state.planned(decision, 0.1))

    @precondition(lambda self: self.state.open_calls)
    @rule(data=st.data(), made=RESULT, guarded=st.booleans())
    def act(self, data: Any, made: tuple[Any, ...], guarded: bool) -> None:
        """A tool answers."""
        call = data.draw(st.sampled_from(self.state.open_calls))
        content, status, value, arguments = made
        result = ToolResult(call.id, call.name, content, status, value, arguments, "add@1\u00b7ab12", 0.01, "Traceback")
        self.take(self.state.answered(result, 0.02, guarded))

    @rule(reason=st.sampled_from([StopReason.CANCELLED, StopReason.MAX_STEPS, StopReason.PAUSED]))
    def stop(self, reason: StopReason) -> None:
        """The run is stopped."""
        self.take(self.state.stopped(reason, "why"))

    @rule(text=st.sampled_from(TEXTS[1:]), warn=st.booleans())
    def say(self, text: str, warn: bool) -> None:
        """The person, or the runtime, says something."""
        self.take(self.state.warn(text) if warn and not self.state.open_calls else self.state.say(text))

    @rule(data=st.data(), value=st.sampled_from(["31.0", "", None, {"a": [1]}]))
    def replace_result(self, data: Any, value: Any) -> None:
        """Another result for any call of the run."""
        every = [call for step in self.state.steps for call in step.calls]
        assume(every)
        self.take(self.state.with_result(data.draw(st.sampled_from(every)).id, value))

    @precondition(lambda self: self.state.open_calls)
    @rule(data=st.data(), how=st.sampled_from(["approve", "otherwise", "deny"]))
    def decide(self, data: Any, how: str) -> None:
        """Decide an open call."""
        call = data.draw(st.sampled_from(self.state.open_calls))
        arguments = {"n": [9, "\u00e9"]} if how == "otherwise" else None
        self.take(self.state.deny(call.id, "no") if how == "deny" else self.state.approve(call.id, arguments))

    @precondition(lambda self: not self.state.open_calls)
    @rule(cut=st.integers(0, 5))
    def compact(self, cut: int) -> None:
        """A compaction takes the place of older messages."""
        kept = [each for each in self.state.request().history if each.role in ("user", "assistant") and not each.calls]
        self.take(self.state.compacted([Message("user", "summary"), *kept[cut:]]))

    @precondition(lambda self: not self.state.open_calls)
    @rule(name=st.sampled_from(["prompt", "answer", "added"]))
    def tamper(self, name: str) -> None:
        """A middleware of the user makes a State of its own."""
        if name == "answer":
            self.take(replace(self.state, answer="changed", detail="by a middleware"))
        elif name == "added" and self.state.added:
            self.take(replace(self.state, added=(Message("user", "other"),)))
        else:
            made = State.start("other")
            self.take(replace(self.state, prompt=made.prompt, end=1, asks=7, ring=b"1234"))

    @rule(data=st.data())
    def jump(self, data: Any) -> None:
        """Go on from any State that was met."""
        self.state = data.draw(st.sampled_from(self.met))


def check_same(state: State, again: State) -> None:
    """Whether two States and all they grew from agree in everything that a run file keeps."""
    assert again == state
    assert hash(again) == hash(state)
    assert again.steps == state.steps
    assert [step.request for step in again.steps] == [step.request for step in state.steps]
    pairs = list(zip(state.path(), again.path(), strict=True))
    for one, other in pairs:
        assert _told(one) == _told(other)
    assert again.request().messages == state.request().messages


def _told(state: State) -> tuple[Any, ...]:
    decision = state.decision
    error, reply = (decision.error, decision.reply) if decision else (None, None)
    # of two equal States the file keeps the first: what equality ignores of a result is looked at elsewhere
    told = (state.kind, state.goal, state.added, state.end, state.counters)
    round_ = (state.calls, state.results, state.approvals, state.ring, state.warned, state.asks)
    ending = (state.stop, state.answer, state.value, state.detail)
    raw = [(each.raw, each.origin) for each in state.prompt.items[: state.end]]
    failed = isinstance(error, ModelError) and (str(error), error.kind, error.status, error.partial, error.retryable)
    return (*told, *round_, *ending, raw, decision, failed, reply and (reply.raw, reply.seconds))
