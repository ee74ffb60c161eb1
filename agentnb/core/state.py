"""A run is a tree of frozen States; each transition makes the next one, nothing else carries progress.

    start ──▶ planned ──▶ answered ──▶ … ──▶ planned ──▶ (answer)
                │  ▲          │                 │
                │  └──────────┘                 └──▶ stopped: a limit, a pause, an error, a cancel
                └──▶ (asked again) ──▶ planned

    from any State, by a person:  at ── roll back      say ── go another way       with_result ── another result
                                  approve / deny ── decide a pause                 and start the runtime again

`planned` adds the model's message, `answered` adds one tool result (an answered call is never run again), `say` a
message of the person. A State shares its parent, its messages and the prompt list with its neighbours, so a step costs
the same however long the run is, and to fork is to keep a reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.limits import RING, StopReason, round_digest
from agentnb.core.messages import Message, ToolCall, ToolResult, Usage, unique_ids, user
from agentnb.core.model import ModelReply, ModelRequest, Prompt
from agentnb.core.planner import Decision
from agentnb.core.tool import ToolSpec
from agentnb.errors import RunError, UsageError
from agentnb.text import clean, shorten


@dataclass(frozen=True, slots=True)
class Counters:
    """What a run has used since its start."""

    steps: int = 0
    """Model calls."""
    tool_calls: int = 0
    usage: Usage = Usage()
    cost: float | None = 0.0
    """US dollars; None as soon as the price of one call is unknown."""
    seconds: float = field(default=0.0, compare=False)
    """Time in models and tools; waiting for a person does not count."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """A run at one moment. Public: `goal`, `stop`, `answer`, `parent`, `counters`, the properties and the methods."""

    parent: State | None
    kind: str
    """The transition that made it: "start", "plan", "act", "say", "stop", "edit", "approve"."""
    goal: str
    added: tuple[Message, ...]
    """The messages that this transition added to the history."""
    prompt: Prompt = field(default_factory=Prompt)
    end: int = 0
    """How many messages of the shared `prompt` are this State's: what the next request sends."""
    counters: Counters = Counters()
    calls: tuple[ToolCall, ...] = ()
    """The calls of the newest round, in the model's order."""
    results: tuple[ToolResult, ...] = ()
    """Their results so far, in finishing order."""
    approvals: tuple[tuple[str, str | None], ...] = ()
    """Calls that a person let pass, with other arguments (JSON text) or as they are (None)."""
    decision: Decision | None = None
    """On a "plan" State: what the planner decided, with the model's reply."""
    ring: tuple[bytes, ...] = ()
    """Fingerprints of the newest rounds, for the repetition guard."""
    warned: bool = False
    """The model was told once that it repeats itself."""
    asks: int = 0
    """How often in a row the model was asked again."""
    stop: StopReason | None = None
    answer: str | None = None
    value: Any = None
    """The typed answer, when the agent has an output type."""
    detail: str = ""
    """Why it stopped, in words."""

    # ── the start ────────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def start(cls, goal: str) -> State:
        """The first State of a run: one user message."""
        first = user(goal)
        assert first.content is not None
        return cls(None, "start", first.content, (first,), Prompt((first,)), 1)

    # ── what the runtime does ────────────────────────────────────────────────────────────────────────────────────

    def planned(self, decision: Decision, seconds: float = 0.0) -> State:
        """The next State after the planner decided: an answer, open calls, or a question back to the model."""
        reply = decision.reply
        calls = unique_ids(decision.calls, f"call_{self.counters.steps + 1}")
        added: tuple[Message, ...] = ()
        if reply is None and (calls or decision.answer):
            added = (Message("assistant", decision.answer, calls, plain=decision.plain),)
        elif reply is not None and reply.finish != "error" and (calls or reply.text or reply.refusal):
            added = (reply.message(calls, decision.plain),)
        if decision.again:
            added = (*added, user(decision.again))
        asked_again = decision.again is not None
        return self._next(
            "plan",
            added,
            counters=self._counted(reply, seconds),
            calls=calls,
            results=(),
            decision=decision,
            asks=self.asks + 1 if asked_again else 0,
            stop=StopReason.ANSWER if decision.answer is not None else decision.stop,
            answer=decision.answer,
            value=decision.value,
            detail=decision.detail,
        )

    def answered(self, result: ToolResult, seconds: float = 0.0, guarded: bool = True) -> State:
        """The next State after one open call got its result; the last one closes the round.

        With `guarded=False` the round does not count as a repetition (polling).
        """
        results = (*self.results, result)
        now = self.counters
        ran = result.status not in ("not run", "denied")
        counters = Counters(now.steps, now.tool_calls + ran, now.usage, now.cost, now.seconds + seconds)
        if len(results) < len(self.calls):
            return self._next("act", (), counters=counters, results=results)
        ring = (*self.ring, round_digest(self.calls, results))[-RING:] if guarded else ()
        return self._next("act", self._tool_messages(results), counters=counters, results=results, ring=ring)

    def stopped(self, reason: StopReason, detail: str = "") -> State:
        """The last State of a run that ends without an answer."""
        return self._next("stop", (), stop=reason, detail=detail)

    def warn(self, text: str) -> State:
        """The next State after the model was told that it repeats itself."""
        return self._next("say", (user(text),), warned=True)

    # ── what a person does ───────────────────────────────────────────────────────────────────────────────────────

    def say(self, text: str) -> State:
        """A message of the person follows; calls still open are answered "not run"."""
        return self.settled("The call was not run: the user went on with another message.")._next(
            "say", (user(text),), calls=(), results=(), ring=(), warned=False, asks=0
        )

    def settled(self, reason: str, status: str = "not run") -> State:
        """Every open call answered with this reason and status, so that the history is whole."""
        state = self
        for call in self.open_calls:
            state = state.answered(ToolResult(call.id, call.name, reason, status))
        return state

    def with_result(self, call_id: str, value: Any) -> State:
        """Answer an open call; or fork where that call was answered, with another result.

        Args:
            call_id: A call of this run; of calls with the same id the newest is meant.
            value: The result; what is not text is written as JSON.

        Raises:
            UsageError: No call has that id.
        """
        content = clean(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        latest = self._round_of(call_id)
        call = next(call for call in latest.calls if call.id == call_id)
        result = ToolResult(call_id, call.name, content or "null", value=value, notes=("given by a person",))
        if call in latest.open_calls:
            return latest.answered(result)
        state = next(each for each in latest._upwards() if each.kind == "plan")
        for kept in latest.results:
            if kept.call_id != call_id:
                state = state.answered(kept)
        return state.answered(result)

    def approve(self, call_id: str, arguments: Mapping[str, Any] | None = None) -> State:
        """Let a call that waits for approval run when the run goes on.

        Args:
            call_id: An open call.
            arguments: Run it with these instead; the model's own stay in the history, the result names these.

        Raises:
            UsageError: The call is not open.
        """
        self._must_be_open(call_id)
        text = None if arguments is None else json.dumps(dict(arguments), ensure_ascii=False)
        return self._next("approve", (), approvals=(*self.approvals, (call_id, text)))

    def deny(self, call_id: str, reason: str = "") -> State:
        """Answer a call that waits for approval with a no; the model reads the reason.

        Raises:
            UsageError: The call is not open.
        """
        call = self._must_be_open(call_id)
        text = f"Denied by the user: {clean(reason)}" if reason else "Denied by the user."
        return self.answered(ToolResult(call_id, call.name, text, "denied"))

    def at(self, step: int) -> State:
        """The State before step number `step` was planned; steps count from 1, so at(1) is the start.

        Raises:
            UsageError: The run has no such step.
        """
        state: State | None = self
        if step == self.counters.steps + 1 and not self.open_calls and self.stop is None:
            return self
        while state is not None:
            if state.kind == "plan" and state.counters.steps == step:
                assert state.parent is not None
                return state.parent
            state = state.parent
        raise UsageError(
            f"this run has no step {step!r}", layer="state", remedy=f"Steps count from 1 to {self.counters.steps}."
        )

    def continued(self) -> State:
        """This State, ready to be planned from: after a cut or refused text a "Go on." follows."""
        last = self.prompt.items[self.end - 1] if self.end else None
        if last is None or last.role != "assistant" or self.open_calls:
            return self
        return self.say("Go on.")

    # ── what there is to see ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def finished(self) -> bool:
        """Whether the run has ended here, for whatever reason."""
        return self.stop is not None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the newest round that have no result yet."""
        if len(self.results) == len(self.calls):
            return ()
        answered = {result.call_id for result in self.results}
        return tuple(call for call in self.calls if call.id not in answered)

    @property
    def usage(self) -> Usage:
        """Tokens since the start; None where a provider said nothing."""
        return self.counters.usage

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole history, oldest first, also what a compaction no longer sends."""
        told = [message for state in self.path() for message in state.added]
        if self.results and self.open_calls:
            told += self._tool_messages(self.results)
        return tuple(told)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """Every result of the run; rounds oldest first, in a round in call order."""
        return tuple(result for step in self.steps for result in step.results)

    @property
    def steps(self) -> tuple[Step, ...]:
        """One Step per model call, oldest first."""
        found: list[Step] = []
        for state in self.path():
            if state.kind == "plan":
                found.append(Step(state, state))
            elif found and state.calls and state.calls == found[-1].calls:
                found[-1] = Step(found[-1].plan, state)
        return tuple(found)

    @property
    def step(self) -> Step | None:
        """The newest Step; None before the first."""
        state: State | None = self
        while state is not None and state.kind != "plan":
            state = state.parent
        if state is None:
            return None
        return Step(state, self if self.calls == state.calls else state)

    def path(self) -> tuple[State, ...]:
        """Every State from the start to this one."""
        states = list(self._upwards())
        states.reverse()
        return tuple(states)

    def table(self) -> list[dict[str, Any]]:
        """One plain dict per step: step, calls, results, tokens, cumulative_tokens, seconds."""
        rows = []
        total: int | None = 0
        for step in self.steps:
            tokens = step.usage.total if step.usage else None
            total = None if total is None or tokens is None else total + tokens
            rows.append(
                {
                    "step": step.number,
                    "calls": [f"{call.name}({call.arguments})" for call in step.calls],
                    "results": [shorten(result.content) for result in step.results],
                    "tokens": tokens,
                    "cumulative_tokens": total,
                    "seconds": round(step.seconds, 3),
                }
            )
        return rows

    def raise_for_stop(self) -> State:
        """This State if it ended with an answer (or has not ended).

        Raises:
            RunError: It ended otherwise; the error says why and holds the State.
        """
        if self.stop in (None, StopReason.ANSWER):
            return self
        raise RunError(
            f"{self.detail or 'stopped'} ({self.stop})",
            remedy="Go on with agent.run(run), or look at run.steps.",
            state=self,
        )

    def request(
        self,
        tools: tuple[ToolSpec, ...] = (),
        preamble: tuple[Message, ...] = (),
        parameters: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> ModelRequest:
        """The request that asks a model what comes next; it shares the prompt, nothing is copied."""
        return ModelRequest(preamble, self.prompt, self.end, tools, parameters or {}, schema)

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────

    def __repr__(self) -> str:
        tokens = self.usage.total
        parts = [f"step {self.counters.steps}", str(self.stop) if self.stop else f"after {self.kind}"]
        if self.answer is not None:
            parts.append(repr(shorten(self.answer, 60)))
        parts.append("tokens unknown" if tokens is None else f"{tokens:,} tokens")
        return f"<State: {' · '.join(parts)}>"

    def __eq__(self, other: object) -> bool:
        """Same history, decisions' outcome and counters; times and finishing order do not count."""
        if self is other:
            return True
        if not isinstance(other, State):
            return NotImplemented
        return self._outcome() == other._outcome() and self.messages == other.messages

    def __hash__(self) -> int:
        return hash((self.goal, self.counters.steps, self.stop, self.answer))

    def __copy__(self) -> State:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> State:
        return self

    def __reduce__(self) -> Any:
        names = [name for name in self.__slots__ if name != "parent"]
        return _restore, ([[getattr(state, name) for name in names] for state in self.path()],)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _next(self, kind: str, added: tuple[Message, ...], **changes: Any) -> State:
        """The child made by `kind`; what says how a State ended is its own and is not inherited."""
        fresh = {"parent": self, "kind": kind, "added": added, **_OPEN_ENDED, **changes}
        if added:
            fresh["prompt"] = self.prompt.grown(self.end, added)
            fresh["end"] = self.end + len(added)
        child = object.__new__(State)
        for name in State.__slots__:
            _put(child, name, fresh[name] if name in fresh else getattr(self, name))
        return child

    def _counted(self, reply: ModelReply | None, seconds: float) -> Counters:
        now = self.counters
        usage, cost = now.usage, now.cost
        if reply is not None and reply.finish != "error":
            usage = usage.plus(reply.usage)
            cost = None if cost is None or reply.cost is None else cost + reply.cost
        return Counters(now.steps + 1, now.tool_calls, usage, cost, now.seconds + seconds)

    def _tool_messages(self, results: tuple[ToolResult, ...]) -> tuple[Message, ...]:
        plain = self._plain()
        by_id = {result.call_id: result for result in results}
        return tuple(
            Message("tool", by_id[call.id].content, call_id=call.id, name=call.name, plain=plain)
            for call in self.calls
            if call.id in by_id
        )

    def _plain(self) -> bool:
        return self.prompt.items[self.end - 1].plain

    def _upwards(self) -> Iterator[State]:
        state: State | None = self
        while state is not None:
            yield state
            state = state.parent

    def _round_of(self, call_id: str) -> State:
        """The newest State of the round in which the call was made, with as many results as came in."""
        for state in self._upwards():
            if any(call.id == call_id for call in state.calls):
                return state
        raise UsageError(
            f"this run has no call {call_id!r}", layer="state", remedy="run.steps[-1].calls holds the ids."
        )

    def _must_be_open(self, call_id: str) -> ToolCall:
        for call in self.open_calls:
            if call.id == call_id:
                return call
        raise UsageError(f"call {call_id!r} is not open", layer="state", remedy="run.open_calls holds those that are.")

    def _outcome(self) -> tuple[Any, ...]:
        return (self.goal, self.stop, self.answer, self.detail, self.counters, self.calls, self.approvals)


_put = object.__setattr__
_OPEN_ENDED: dict[str, Any] = {"decision": None, "stop": None, "answer": None, "value": None, "detail": ""}


def _restore(rows: list[list[Any]]) -> State:
    names = [name for name in State.__slots__ if name != "parent"]
    state: State | None = None
    for row in rows:
        state = State(parent=state, **dict(zip(names, row, strict=True)))
    assert state is not None
    return state


@dataclass(frozen=True, slots=True)
class Step:
    """One model call and what came of it: a view of two States."""

    plan: State = field(repr=False)
    """The State in which the planner decided."""
    last: State = field(repr=False)
    """The newest State of this step."""

    @property
    def number(self) -> int:
        """Counts from 1."""
        return self.plan.counters.steps

    @property
    def decision(self) -> Decision:
        """What the planner decided."""
        assert self.plan.decision is not None
        return self.plan.decision

    @property
    def reply(self) -> ModelReply | None:
        """What the model answered; None when no model was asked."""
        return self.decision.reply

    @property
    def request(self) -> dict[str, Any] | None:
        """The exact JSON that was sent, rebuilt on demand."""
        return self.reply.request.json() if self.reply and self.reply.request else None

    @property
    def reasoning(self) -> str:
        """The model's reasoning, as far as the provider shows it."""
        return self.decision.reasoning or (self.reply.reasoning if self.reply else "")

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """In the model's order."""
        return self.plan.calls

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """In call order; shorter than `calls` while calls are open."""
        by_id = {result.call_id: result for result in self.last.results}
        return tuple(by_id[call.id] for call in self.calls if call.id in by_id)

    @property
    def usage(self) -> Usage | None:
        """Tokens of this step's model call; None when the provider said nothing."""
        return self.reply.usage if self.reply else None

    @property
    def seconds(self) -> float:
        """Time in the model and the tools."""
        before = self.plan.parent.counters.seconds if self.plan.parent else 0.0
        return self.last.counters.seconds - before

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of this step."""
        return (*(self.reply.notes if self.reply else ()), *self.decision.notes)

    @property
    def tool_versions(self) -> dict[str, str]:
        """Tool name to the version that ran."""
        return {result.name: result.version for result in self.results if result.version}
