"""Random runs, steered at random: whatever a model replies and a person does, the history stays valid.

The machine holds one State. Its rules run it (with other limits, cancelled after any number of turns of the loop), fork
it, talk to it, decide its pauses, replace results, and send it through pickle; after each rule everything is checked.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

import pytest
from fakes import FunctionTool, check_state, check_wire, runtime_for
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentnb.core.limits import Limits, StopReason
from agentnb.core.state import State
from agentnb.models.scripted import CallableModel

NAMES = ["quick", "slow", "fail", "alone", "guarded", "poll", "missing"]
IDS = ["a", "b", "", None]
ARGUMENTS = ['{"n": 1}', '{"n": 2}', "", "{", "[]", '{"n": NaN}', '{"n": "\u00e9"}', '{"other": 1}', "null"]
TEXTS = ["", "words", "more words", "caf\u00e9 \U0001f600"]

WIRE_CALL = st.builds(
    lambda name, call_id, text: {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}},
    st.sampled_from(NAMES),
    st.sampled_from(IDS),
    st.sampled_from(ARGUMENTS),
)
ENDINGS = [None, None, None, "stop", "tool_calls", "length", "content_filter"]
REPLY = st.builds(
    lambda text, calls, finish: {"content": text or None, "tool_calls": calls, "finish_reason": finish},
    st.sampled_from(TEXTS),
    st.lists(WIRE_CALL, max_size=3),
    st.sampled_from(ENDINGS),
)
FAILURE = st.sampled_from([ValueError("a bug"), ConnectionError("down")])
SCRIPT = st.lists(st.one_of(REPLY, REPLY, REPLY, FAILURE), max_size=5)
LIMITS = st.builds(
    Limits,
    steps=st.sampled_from([1, 2, 3, 20]),
    tool_calls=st.sampled_from([None, None, 1, 2, 4]),
    repeats=st.sampled_from([None, 3]),
)


class Steered(RuleBasedStateMachine):
    """One State in hand, and all that were met on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.ran = 0
        self.kept: list[tuple[State, str]] = []
        self.tools = [
            FunctionTool(self.quick, "quick"),
            FunctionTool(self.slow, "slow"),
            FunctionTool(self.fail, "fail"),
            FunctionTool(self.slow, "alone", parallel=False),
            FunctionTool(self.quick, "guarded", approve=True),
            FunctionTool(self.quick, "poll", poll=True),
        ]

    def quick(self, n: Any = 0) -> str:
        """Answers at once."""
        return f"quick {n}"

    async def slow(self, n: Any = 0) -> str:
        """Answers after some turns of the loop."""
        for _ in range(4):
            await asyncio.sleep(0)
        return f"slow {n}"

    async def fail(self, n: Any = 0) -> str:
        """Raises after a turn."""
        await asyncio.sleep(0)
        raise ValueError(f"no {n}")

    @property
    def started(self) -> int:
        """How many calls the tools have started, ever."""
        return sum(len(tool.started) for tool in self.tools)

    @initialize(goal=st.sampled_from(["go", "", "half \ud83d"]))
    def begin(self, goal: str) -> None:
        """A fresh run."""
        self.take(State.start(goal))

    def take(self, state: State) -> None:
        """Hold this State, and remember what was sent of it now."""
        self.state = state
        self.kept = [*self.kept[-40:], (state, json.dumps([message.wire for message in state.messages]))]

    # ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(script=SCRIPT, limits=LIMITS, turns=st.none() | st.integers(0, 30))
    def run(self, script: list[Any], limits: Limits, turns: int | None) -> None:
        """Run on, perhaps cancelled after some turns of the loop."""
        base, before = self.state, self.started
        made, cancelled = asyncio.run(self._run(script, limits, turns))
        for state in made:
            check_state(state)
            self.take(state)
        if base.stop is not StopReason.ANSWER and not cancelled:
            assert self.state.finished
        self._check_run(base, made, before, limits)

    async def _run(self, script: list[Any], limits: Limits, turns: int | None) -> tuple[list[State], bool]:
        left = list(script)

        async def reply(request: Any) -> Any:
            check_wire(request.messages)
            await asyncio.sleep(0)
            answer = left.pop(0) if left else "done"
            if isinstance(answer, Exception):
                raise answer
            return answer

        runtime, made = runtime_for(CallableModel(reply), self.tools, limits=limits), []

        async def consume() -> None:
            async for state in runtime.states(self.state):
                made.append(state)

        task = asyncio.create_task(consume())
        if turns is not None:
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return made, task.cancelled()

    def _check_run(self, base: State, made: list[State], before: int, limits: Limits) -> None:
        """Each start has its answer, no fuse was passed, and only the last State says that it is over."""
        new = [state.results[-1] for state in made if state.kind == "act"]
        unknown = [each for each in new if each.name == "missing" or "cut at the length limit" in each.content]
        assert self.started - before == len(new) - len(unknown)
        assert not any(state.finished for state in made[:-1])
        if made:
            assert made[-1].counters.steps - base.counters.steps <= (limits.steps or 0)
            assert limits.tool_calls is None or len(new) <= limits.tool_calls

    @rule(text=st.sampled_from(["go on", ".", "half \ud83d"]))
    def say(self, text: str) -> None:
        """The person says something."""
        self.take(self.state.say(text))
        assert self.state.open_calls == ()

    @rule(data=st.data())
    def roll_back(self, data: Any) -> None:
        """Back to before some step."""
        assume(self.state.counters.steps)
        step = data.draw(st.integers(1, self.state.counters.steps))
        earlier = self.state.at(step)
        assert earlier.counters.steps == step - 1
        self.take(earlier)

    @rule(data=st.data(), value=st.sampled_from(["31.0", "", None, {"a": [1, "\ud83d"]}, float("nan")]))
    def replace_result(self, data: Any, value: Any) -> None:
        """Another result for any call of the run."""
        every = [call for step in self.state.steps for call in step.calls]
        assume(every)
        call = data.draw(st.sampled_from(every))
        self.take(self.state.with_result(call.id, value))
        assert any(result.call_id == call.id for result in self.state.results)
        assert not self.state.finished

    @precondition(lambda self: self.state.open_calls)
    @rule(data=st.data(), how=st.sampled_from(["approve", "approve otherwise", "deny"]))
    def decide(self, data: Any, how: str) -> None:
        """Decide an open call."""
        call = data.draw(st.sampled_from(self.state.open_calls))
        if how == "deny":
            self.take(self.state.deny(call.id, "no"))
        else:
            self.take(self.state.approve(call.id, {"n": 9} if how == "approve otherwise" else None))
        assert not self.state.finished

    @rule(data=st.data())
    def jump(self, data: Any) -> None:
        """Go on from any State that was met."""
        self.state = data.draw(st.sampled_from(self.kept))[0]

    @rule()
    def travel(self) -> None:
        """To another process and back."""
        again = pickle.loads(pickle.dumps(self.state))
        assert again == self.state
        assert hash(again) == hash(self.state)
        assert again.steps == self.state.steps
        self.take(again)

    # ── what always holds ────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def history_is_valid(self) -> None:
        """Whatever is done next, no broken conversation is sent."""
        check_state(self.state)

    @invariant()
    def nothing_changes_behind_our_back(self) -> None:
        """States that were met before still say the same, whatever was forked from them."""
        for state, said in self.kept:
            assert json.dumps([message.wire for message in state.messages]) == said

    @invariant()
    def the_views_agree(self) -> None:
        """Counters, steps, path, table and prompt tell the same story."""
        state = self.state
        path = state.path()
        assert path[-1] is state
        assert path[0].kind == "start"
        assert [step.number for step in state.steps] == list(range(1, state.counters.steps + 1))
        assert len(state.table()) == len(state.steps) == sum(each.kind == "plan" for each in path)
        if not state.open_calls:
            assert state.request().messages == [message.wire for message in state.messages]
        assert repr(state).startswith("<State")


Steered.TestCase.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSteered = pytest.mark.slow(Steered.TestCase)
