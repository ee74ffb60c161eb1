"""The planner of `Agent(output=T)`: a run ends in a value of T, or in words why there is none.

    any planner ──Decision──▶ an answer? ──read──▶ it fits: run.value
                                           └─────▶ it does not: ask again, at most `attempts` times in a row

The form is asked for by the best means that can't get in the way of tool calls. Without tools the request carries the
schema (`ModelRequest.schema`). With tools many servers refuse a response format beside them, or hold the whole reply
to it so that no tool is ever called; there the answer is one more tool, `final_answer`, whose parameters are the
schema. A JSON plan holds it in its "answer". An answer written as plain text is read just as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from agentnb.core.limits import StopReason
from agentnb.core.model import ModelReply, ModelRequest
from agentnb.core.planner import Ask, Decision, Planner
from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.instructions import Instructions
from agentnb.planners.preamble import system_text
from agentnb.planners.typed_answer import TypedAnswer, Unfit
from agentnb.text import bound, clean, shorten

ATTEMPTS = 3
BY_TOOL = "As soon as you know the answer, call {name} with it, alone. Do not write the answer as text."
NOT_ALONE = "Not taken: other calls stood beside it. Read their results, then call {name} alone."
_MOST_CHARACTERS = 1_000


class TypedPlanner:
    """Any planner whose answers must fit: an answer gets its value, one that does not fit goes back to the model.

    Args:
        planner: Decides. One that has `typed(output)` asks for the form by its own means; the requests of any other
            are given it on their way out.
        output: The type.
        attempts: Replies in a row that may bring no answer that fits; after the last the run stops with "error".
    """

    def __init__(self, planner: Planner, output: TypedAnswer, attempts: int = ATTEMPTS) -> None:
        self._own_means = hasattr(planner, "typed")
        self.planner: Planner = planner.typed(output) if hasattr(planner, "typed") else planner
        self.name = getattr(planner, "name", type(planner).__name__)
        self.output = output
        self.attempts = attempts
        self._kept: _Means | None = None

    async def plan(self, state: State, tools: Sequence[Tool], ask: Ask) -> Decision:
        """The planner's decision; an answer in it is read as the type."""
        decision = await self.planner.plan(state, tools, ask if self._own_means else self._asking(ask, tools))
        if decision.answer is None or decision.value is not None:
            return decision
        try:
            answer = self.output.read(decision.answer)
        except Unfit as error:
            return self._unfit(decision, state, bound(clean(str(error)).rstrip("."), _MOST_CHARACTERS))
        return replace(decision, answer=answer.text, value=answer.value, notes=(*decision.notes, *answer.notes))

    def _asking(self, ask: Ask, tools: Sequence[Tool]) -> Ask:
        """The same door to the model; every request through it asks for the form."""
        names = tuple(tool.spec.name for tool in tools)
        kept = self._kept
        if kept is None or kept.given is not ask.instructions or kept.names != names:
            kept = self._kept = _Means(self.output, ask.instructions, names)
        return Ask(kept.call_with(ask), kept.instructions)

    def _unfit(self, decision: Decision, state: State, problem: str) -> Decision:
        if state.asks + 1 < self.attempts:
            again = f"Your answer can't be used: {problem}. Send {self.output.form}"
            note = f"the answer does not fit: {problem}"
            return replace(decision, answer=None, again=again, notes=(*decision.notes, note))
        tries = f"{self.attempts} replies in a row" if self.attempts > 1 else "the reply"
        said = shorten(decision.answer or "", 200)
        detail = f"no answer of the output type in {tries}: {problem}; the last was {said!r}"
        return replace(decision, answer=None, stop=StopReason.ERROR, detail=detail)


class _Means:
    """How one agent's requests ask for the form, made once: the same objects in each step keep the caches warm."""

    def __init__(self, output: TypedAnswer, given: Instructions, names: tuple[str, ...]) -> None:
        self.given = given
        self.names = names
        self.output = output
        self.spec = output.spec(names)
        rule = BY_TOOL.format(name=self.spec.name) if names else output.rule
        self.instructions = replace(given, system_prompt=system_text(given.system_prompt, rule))

    def call_with(self, ask: Ask) -> Callable[[ModelRequest], Awaitable[ModelReply]]:
        """Ask with the tool beside other tools, with the schema where there are none."""

        async def call(request: ModelRequest) -> ModelReply:
            if request.specs:
                reply = await ask(replace(request, specs=(*request.specs, self.spec)))
                return as_text(reply, self.spec.name)
            return await ask(request if request.schema else replace(request, schema=self.output.schema))

        return call


def as_text(reply: ModelReply, name: str) -> ModelReply:
    """A reply that gives its answer by the tool of this name, as the plain reply that says the same.

    Beside other calls it would be an answer given before their results: it is refused, they are run.
    """
    if reply.finish == "length" or not any(call.name == name for call in reply.calls):
        return reply
    if len(reply.calls) > 1:
        problem = NOT_ALONE.format(name=name)
        marked = (replace(call, problem=problem) if call.name == name else call for call in reply.calls)
        return replace(reply, calls=tuple(marked))
    comment = (f"comment: {reply.text}",) if reply.text.strip() else ()
    said = reply.calls[0].arguments.strip() or "{}"
    return replace(reply, text=said, calls=(), finish="stop", raw=None, notes=(*reply.notes, *comment))
