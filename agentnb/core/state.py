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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import attrgetter
from typing import Any

from agentnb.core.limits import DIGEST, RING, StopReason, round_digest
from agentnb.core.messages import Message, ToolCall, ToolResult, Usage, unique_ids, user
from agentnb.core.model import ModelReply, ModelRequest, Prompt
from agentnb.core.planner import Decision
from agentnb.errors import RunError, UsageError
from agentnb.strict_json import given_object, given_value
from agentnb.text import clean, mask, shorten, shown


@dataclass(frozen=True, slots=True)
class Counters:
    """What a run has used since its start."""

    steps: int = 0
    """Model calls."""
    tool_calls: int = 0
    usage: Usage = Usage()
    known_cost: float = 0.0
    """US dollars, of the model calls whose price is known."""
    unpriced: int = 0
    """Model calls whose price is unknown."""
    seconds: float = field(default=0.0, compare=False)
    """Time in models and tools; waiting for a person does not count."""

    @property
    def cost(self) -> float | None:
        """US dollars; None when the price of one call is unknown."""
        return None if self.unpriced else self.known_cost

    def since(self, base: Counters, name: str) -> float | None:
        """How much of `name` ("steps", "tokens", "cost", ...) was used since `base`; None when that is unknown."""
        if name == "tokens":
            used = (self.usage.total or 0) - (base.usage.total or 0)
            known = self.usage.complete or (used and not base.usage.complete) or self.steps == base.steps
            return used if known else None
        if name == "cost":
            return self.known_cost - base.known_cost if self.unpriced == base.unpriced else None
        return float(getattr(self, name) - getattr(base, name))

    def with_reply(self, reply: ModelReply | None, seconds: float) -> Counters:
        """One step more, with what its model call used; a failed call adds nothing."""
        if reply is None or reply.finish == "error":
            return replace(self, steps=self.steps + 1, seconds=self.seconds + seconds)
        spent = (self.known_cost + (reply.cost or 0.0), self.unpriced + (reply.cost is None), self.seconds + seconds)
        return Counters(self.steps + 1, self.tool_calls, self.usage.plus(reply.usage), *spent)

    def with_result(self, result: ToolResult, seconds: float) -> Counters:
        """One tool call more, if it ran."""
        now = replace(self, tool_calls=self.tool_calls + (result.status not in _UNRUN), seconds=self.seconds + seconds)
        return now if result.used is None else now.with_run(result.used)

    def with_run(self, run: Counters) -> Counters:
        """With the tokens and the cost of another run, which took no step of this one."""
        cost, unpriced = self.known_cost + run.known_cost, self.unpriced + run.unpriced
        return replace(self, usage=self.usage.plus(run.usage), known_cost=cost, unpriced=unpriced)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """A run at one moment. Public: `goal`, `stop`, `answer`, `parent`, `counters`, the properties and the methods."""

    parent: State | None
    kind: str
    """The transition that made it: "start", "plan", "act", "say", "stop", "approve", "compact"."""
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
    ring: bytes = b""
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
        return cls(None, "start", clean(goal), (user(goal),), Prompt((user(goal),)), 1)

    # ── what the runtime does ────────────────────────────────────────────────────────────────────────────────────

    def planned(self, decision: Decision, seconds: float = 0.0) -> State:
        """The next State after the planner decided: an answer, open calls, or a question back to the model."""
        reply, again, answer = decision.reply, decision.again, decision.answer
        calls = unique_ids(decision.calls, f"call_{self.counters.steps + 1}")
        said = (reply or ModelReply(answer or "")).message(calls, decision.plain)
        added = (said,) if (calls or said.content) and not (reply and reply.finish == "error") else ()
        stop = decision.stop if answer is None else StopReason.ANSWER
        changes = {"calls": calls, "results": (), "approvals": (), "asks": 0 if again is None else self.asks + 1}
        changes |= {"decision": decision, "stop": stop, "answer": answer, "value": decision.value}
        changes |= {"detail": decision.detail, "counters": self.counters.with_reply(reply, seconds)}
        return self._next("plan", (*added, user(again)) if again else added, **changes)

    def answered(self, result: ToolResult, seconds: float = 0.0, guarded: bool = True) -> State:
        """The next State after one open call got its result; the last one closes the round.

        With `guarded=False` the round does not count as a repetition (polling).
        """
        results = (*self.results, result)
        counters = self.counters.with_result(result, seconds)
        if len(results) < len(self.calls):
            return self._next("act", (), counters=counters, results=results)
        ring = (self.ring + round_digest(self.calls, results))[-RING * DIGEST :] if guarded else b""
        return self._next("act", self._tool_messages(results), counters=counters, results=results, ring=ring)

    def stopped(self, reason: StopReason, detail: str = "") -> State:
        """The last State of a run that ends without an answer."""
        return self._next("stop", (), stop=reason, detail=detail)

    def warn(self, text: str) -> State:
        """The next State after the model was told that it repeats itself."""
        return self._next("say", (user(text),), warned=True)

    def compacted(self, messages: Sequence[Message]) -> State:
        """The next State with another prompt; the whole history stays reachable through the parents.

        Args:
            messages: What the next request sends, oldest first, each call with its result.
        """
        return self._next("compact", (), prompt=Prompt(messages), end=len(messages))

    # ── what a person does ───────────────────────────────────────────────────────────────────────────────────────

    def say(self, text: str) -> State:
        """A message of the person follows; calls still open are answered "not run".

        Raises:
            UsageError: The text is empty.
        """
        if not text.strip():
            raise UsageError("an empty message says nothing", layer="state", remedy='run.say("Use kelvin instead")')
        state, reason = self, "The call was not run: the user went on with another message."
        for call in self.open_calls:
            state = state.answered(ToolResult(call.id, call.name, reason, "not run"))
        round_ = {"calls": (), "results": (), "approvals": ()}
        return state._next("say", (user(text),), **round_, ring=b"", warned=False, asks=0)

    def with_result(self, call_id: str, value: Any) -> State:
        """Answer an open call; or fork where that call was answered, with another result.

        Args:
            call_id: A call of this run; of calls with the same id the newest is meant.
            value: The result; what is not text is written as JSON.

        Raises:
            UsageError: No call has that id.
        """
        content = given_value(value)
        latest, call = self._owner(call_id)
        result = ToolResult(call_id, call.name, clean(content) or "null", value=value, notes=("given by a person",))
        if call in latest.open_calls:
            return latest.answered(result)
        state = replace(next(each for each in latest._upwards() if each.kind == "plan"), approvals=latest.approvals)
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
            UsageError: The call is not open, or JSON can't hold the arguments.
        """
        self._owner(call_id, only_open=True)
        text = None if arguments is None else given_object(arguments)
        return self._next("approve", (), approvals=(*self.approvals, (call_id, text)))

    def deny(self, call_id: str, reason: str = "") -> State:
        """Answer a call that waits for approval with a no; the model reads the reason.

        Raises:
            UsageError: The call is not open.
        """
        name = self._owner(call_id, only_open=True)[1].name
        text = f"Denied by the user: {clean(str(reason))}" if reason else "Denied by the user."
        return self.answered(ToolResult(call_id, name, text, "denied"))

    def at(self, step: int) -> State:
        """The State before step number `step` was planned; steps count from 1, so at(1) is the start.

        Raises:
            UsageError: The run has no such step.
        """
        if step == self.counters.steps + 1 and not self.open_calls and not self.finished:
            return self
        found = next((s.parent for s in self._upwards() if s.kind == "plan" and s.counters.steps == step), None)
        if found is None:
            raise UsageError(f"no step {step!r}: this run's steps count from 1 to {self.counters.steps}", layer="state")
        return found

    def continued(self) -> State:
        """This State, ready to be planned from: after a cut or refused text a "Go on." follows."""
        ends_in_text = self.prompt.items[self.end - 1].role == "assistant" and not self.open_calls
        return self.say("Go on.") if ends_in_text else self

    # ── what there is to see ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def finished(self) -> bool:
        """Whether the run has ended here, for whatever reason."""
        return self.stop is not None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the newest round that have no result yet."""
        done = {result.call_id for result in self.results}
        return tuple(call for call in self.calls if call.id not in done)

    @property
    def usage(self) -> Usage:
        """Tokens since the start; None where a provider said nothing."""
        return self.counters.usage

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole history, oldest first, also what a compaction no longer sends."""
        early = self._tool_messages(self.results) if self.results and self.open_calls else ()
        return (*(message for state in self.path() for message in state.added), *early)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """Every result of the run; rounds oldest first, in a round in call order."""
        return tuple(result for step in self.steps for result in step.results)

    @property
    def steps(self) -> tuple[Step, ...]:
        """One Step per model call, oldest first."""
        return tuple([*self._newest_steps()][::-1])

    @property
    def step(self) -> Step | None:
        """The newest Step; None before the first."""
        return next(self._newest_steps(), None)

    def path(self) -> tuple[State, ...]:
        """Every State from the start to this one."""
        return tuple([*self._upwards()][::-1])

    def table(self) -> list[dict[str, Any]]:
        """One plain dict per step: step, calls, results, tokens, cumulative_tokens, seconds."""
        rows: list[dict[str, Any]] = []
        total: int | None = 0
        for step in self.steps:
            tokens = step.usage.total if step.usage else None
            total = None if total is None or tokens is None else total + tokens
            row = {"step": step.number, "calls": [mask(f"{call.name}({call.arguments})") for call in step.calls]}
            row |= {"results": [mask(shorten(result.content)) for result in step.results], "tokens": tokens}
            rows.append(row | {"cumulative_tokens": total, "seconds": round(step.seconds, 3)})
        return rows

    def raise_for_stop(self) -> State:
        """This State if it ended with an answer (or has not ended).

        Raises:
            RunError: It ended otherwise; the error says why and holds the State.
        """
        if self.stop in (None, StopReason.ANSWER):
            return self
        raise RunError(f"{self.detail or 'stopped'} ({self.stop})", state=self)

    def request(self, **fields: Any) -> ModelRequest:
        """The request that asks a model what comes next; it shares the prompt, nothing is copied.

        Args:
            fields: The other fields of ModelRequest: preamble, specs, parameters, schema.
        """
        return ModelRequest(prompt=self.prompt, end=self.end, **fields)

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────

    def __repr__(self) -> str:
        tokens = self.usage.total
        said = shown(self.detail, 80) if self.answer is None else repr(shown(self.answer, 60))
        told = [self.stop or f"after {self.kind}", *([said] if said else [])]
        spent = "tokens unknown" if tokens is None else f"{tokens:,} tokens"
        return f"<State: step {self.counters.steps} · {' · '.join(told)} · {spent}>"

    def __eq__(self, other: object) -> bool:
        """Same history, decisions' outcome and counters; times and finishing order do not count."""
        if self is other:
            return True
        return isinstance(other, State) and self._outcome() == other._outcome() and self.messages == other.messages

    def __hash__(self) -> int:
        return hash((self.goal, self.counters.steps, self.stop, self.answer))

    def __copy__(self, memo: object = None) -> State:
        return self

    __deepcopy__ = __copy__

    def __reduce__(self) -> Any:
        return _restore, ([list(_own(state)) for state in self.path()],)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _next(self, kind: str, added: tuple[Message, ...], **changes: Any) -> State:
        """The child made by `kind`; what says how a State ended is its own and is not inherited."""
        fresh = {**_OPEN_ENDED, **changes, "kind": kind, "added": added}
        if added:
            fresh |= {"prompt": self.prompt.grown(self.end, added), "end": self.end + len(added)}
        return State(self, *{**dict(zip(State.__slots__[1:], _own(self), strict=True)), **fresh}.values())

    def _tool_messages(self, results: tuple[ToolResult, ...]) -> tuple[Message, ...]:
        plain = self.prompt.items[self.end - 1].plain
        asked = {call.id: f"{call.name}({call.arguments})" if plain else call.name for call in self.calls}
        return tuple(each.message(asked[each.call_id], plain) for each in _in_call_order(self.calls, results))

    def _upwards(self) -> Iterator[State]:
        state: State | None = self
        while state is not None:
            yield state
            state = state.parent

    def _newest_steps(self) -> Iterator[Step]:
        last = None
        for state in self._upwards():
            last = last or (state if state.calls else None)
            if state.kind == "plan":
                yield Step.between(state, last or state)
                last = None

    def _owner(self, call_id: str, only_open: bool = False) -> tuple[State, ToolCall]:
        """The newest State of the round in which a call was made, and the call."""
        for state in [self] if only_open else self._upwards():
            for call in state.open_calls if only_open else state.calls:
                if call.id == call_id:
                    return state, call
        what = f"this run has no {'open ' if only_open else ''}call {call_id!r}"
        raise UsageError(what, layer="state", remedy="run.open_calls and run.steps hold the calls.")

    def _outcome(self) -> tuple[Any, ...]:
        return (self.goal, self.stop, self.answer, self.detail, self.counters, self.calls, self.approvals)


_own = attrgetter(*State.__slots__[1:])
_UNRUN = ("not run", "denied")
_OPEN_ENDED: dict[str, Any] = {"decision": None, "stop": None, "answer": None, "value": None, "detail": ""}


def _restore(rows: list[list[Any]]) -> State | None:
    return reduce(lambda state, row: State(state, *row), rows, None)


@dataclass(frozen=True, slots=True, repr=False)
class Step:
    """One model call and what came of it: a view of two States."""

    plan: State = field(compare=False)
    """The State in which the planner decided."""
    last: State = field(compare=False)
    """The newest State of this step."""
    number: int
    """Counts from 1."""
    decision: Decision
    reply: ModelReply | None
    """What the model answered; None when no model was asked."""
    calls: tuple[ToolCall, ...]
    """In the model's order."""
    results: tuple[ToolResult, ...]
    """In call order; shorter than `calls` while calls are open."""
    usage: Usage | None
    """Tokens of this step's model call; None when the provider said nothing."""
    reasoning: str
    """The model's reasoning, as far as the provider shows it."""
    notes: tuple[str, ...]
    """What a reader should know of this step."""
    tool_versions: dict[str, str]
    """Tool name to the version that ran."""
    seconds: float = field(compare=False)
    """Time in the model and the tools."""

    @classmethod
    def between(cls, plan: State, last: State) -> Step:
        """The Step that `plan` began and that has come as far as `last`."""
        decision: Any = plan.decision
        before, reply = plan.parent or plan, decision.reply
        results = tuple(_in_call_order(plan.calls, last.results))
        reasoning = decision.reasoning or (reply.reasoning if reply else "")
        notes = (*(reply.notes if reply else ()), *decision.notes)
        versions = {result.name: result.version for result in results if result.version}
        seconds = last.counters.seconds - before.counters.seconds
        about = (reply, plan.calls, results, reply.usage if reply else None, reasoning, notes, versions, seconds)
        return cls(plan, last, plan.counters.steps, decision, *about)

    def __repr__(self) -> str:
        did = ", ".join(f"asked {call.name}" for call in self.calls) or self.decision.answer or self.decision.detail
        return f"<Step {self.number}: {shown(did, 80) or ('asked again' if self.decision.again else 'said nothing')}>"

    @property
    def request(self) -> dict[str, Any] | None:
        """The exact JSON that was sent, rebuilt on demand."""
        return self.reply.request.json() if self.reply and self.reply.request else None


def _in_call_order(calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> list[ToolResult]:
    by_id = {result.call_id: result for result in results}
    return [by_id[call.id] for call in calls if call.id in by_id]
