"""`%%agent --predict`: guess what the model does before it does, see what it did, keep score.

    what the model sees ──▶ your prediction ──▶ what it did, right or not ──▶ … ──▶ the score

Where a person sits in front, a form asks before each model call. Elsewhere the predictions come from the line
(`--predictions a,b,finish`), so that a notebook gives the same each time; without them only what the model sees is
shown. A run waits for a prediction between two States, so that no second of it counts as time of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentnb.agent import Agent
from agentnb.core.limits import Limits, StopReason
from agentnb.core.messages import Message
from agentnb.core.middleware import Event, StateMade
from agentnb.core.model import ModelReply, ModelRequest
from agentnb.core.planner import Ask
from agentnb.core.state import State
from agentnb.notebook.bounds import shown
from agentnb.notebook.decision_form import DecisionForm, can_ask
from agentnb.notebook.follow import CellRun
from agentnb.notebook.live import publish
from agentnb.notebook.predictions import (
    USAGE,
    Prediction,
    Verdict,
    action_words,
    from_decision,
    judge,
    read_predictions,
    score_words,
)
from agentnb.notebook.render import Block
from agentnb.notebook.render_html import block, lead, quiet
from agentnb.notebook.seen import Seen, new_messages
from agentnb.planners.json_plan import JSONPlanner
from agentnb.planners.tool_calling import ToolCallingPlanner

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics

MOST_PREDICTIONS = 12
"""Each makes two displays beside its step, and JupyterLab shows only the first 50 outputs of a cell."""
CHANGED = "The request was changed on its way, by a middleware: run.steps has what was sent."
NOBODY = f"Nobody can be asked for a prediction here; {USAGE} gives them."


class PredictRun(CellRun):
    """A run whose every action is predicted first.

    Args:
        magics: As for CellRun; so are agent, start, out and show.
        predictions: The words of `--predictions`; None: a form asks, or nobody.

    Raises:
        UsageError: The words name no tool of the agent.
    """

    def __init__(
        self, magics: AgentMagics, agent: Agent, start: State, out: str | None, show: str, predictions: str | None
    ) -> None:
        self._given: Iterator[Prediction] = iter(read_predictions(predictions or "", agent.tools))
        self._from_line = predictions is not None
        self._start = start
        self._asked = 0
        self._waiting = False
        self._pending: Prediction | None = None
        self._told: tuple[Message, ...] | None = None
        self.verdicts: list[Verdict] = []
        super().__init__(magics, agent, start, out, show)

    async def work(self, live: bool) -> None:
        """Follow the States; before each that a model call makes, ask."""
        ask = live and not self._from_line and can_ask(self.magics.shell)
        if not ask and not self._from_line:
            self._publish(_line(NOBODY))
        listeners = [self._reveal, self.displays, *([self.progress] if live else [])]
        await self._predict(self._start, ask)
        async with aclosing(self.agent.states(self._start, listeners=listeners)) as made:
            async for state in made:
                self._keep(state)
                if not state.finished:
                    await self._predict(state, ask)

    def status(self) -> str:
        """What goes on, or that the run waits for the person."""
        return quiet("The run waits for your prediction.") if self._waiting else super().status()

    def end(self) -> None:
        """The score, and how the run ended."""
        if self.verdicts:
            self._publish(_line(score_words(self.verdicts)))
        super().end()

    # ── before and after a model call ────────────────────────────────────────────────────────────────────────────

    async def _predict(self, state: State, ask: bool) -> None:
        """Show what the model is about to see, and take the prediction."""
        if state.open_calls or not self._goes_on(state) or self._asked >= MOST_PREDICTIONS:
            return
        if state.kind == "say" and state.warned:  # asked already, before the warning
            self._publish(_seen_block(Seen(state.added), "Before it is asked, the model is told"))
            self._told = None
            return
        self._asked += 1
        number = state.counters.steps + 1
        request = await request_of(self.agent, state)
        self._publish(_seen_block(self._news(state, request), f"Before step {number} · what the model sees"))
        self._pending = next(self._given, None) if not ask else await self._person(number)

    def _goes_on(self, state: State) -> bool:
        limits = self.agent.limits or Limits()
        blown = state is not self._start and limits.reached(state.counters, self._start.counters) is not None
        return state.stop is not StopReason.ANSWER and not blown

    def _news(self, state: State, request: ModelRequest | None) -> Seen:
        """All that the first request holds, with its tools; of the later ones what is new."""
        new, first = new_messages(state), self._asked == 1
        self._told = request.history if request is not None else None
        if request is None or not first:
            return Seen(new, tuple(tool.spec for tool in self.agent.tools) if first else ())
        return Seen(request.history, request.specs)

    async def _person(self, number: int) -> Prediction | None:
        head = block(f"<div>{lead(f'Step {number} · which tool, with what, or finish?')}</div>")
        self._waiting = True
        try:
            form = DecisionForm(self.agent.tools, head, button="Predict", leave="Skip", answer=False)
            return from_decision(await form.decision())
        finally:
            self._waiting = False

    def _reveal(self, event: Event) -> None:
        """When the planner has decided: what came of the prediction."""
        if not isinstance(event, StateMade) or event.state.kind != "plan":
            return
        prediction, self._pending = self._pending, None
        if prediction is not None:
            verdict = judge(prediction, event.state)
            self.verdicts += [] if verdict is None else [verdict]
            told = f"you said {prediction} · the model {action_words(event.state)} · {verdict or 'not counted'}"
            self._publish(_line(f"Step {event.state.counters.steps} · {told}"))
        if self._told is not None and _sent(event.state) not in (None, self._told):
            self._publish(_line(CHANGED))
        self._told = None

    _reveal.wants_deltas = False  # type: ignore[attr-defined]

    def _publish(self, made: Block) -> None:
        publish(made)
        self.displays.shown += 1
        self.displays.budget.spend(made.html, made.text)


def _line(text: str) -> Block:
    return Block(block(f"<div>{lead(text)}</div>"), shown(text))


def _seen_block(seen: Seen, title: str) -> Block:
    return Block(seen.html(title), seen.text(title))


# ── the request, before it is made ───────────────────────────────────────────────────────────────────────────────────


class _Caught(Exception):
    """Holds the request that a planner was about to make."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        self.request = request


async def request_of(agent: Agent, state: State) -> ModelRequest | None:
    """The request that the agent's planner would make from this State, before any middleware; no model is asked.

    None for planners of your own, which can't be asked without consequences.
    """
    planner: Any = agent._planner  # type: ignore[attr-defined]
    if not isinstance(getattr(planner, "planner", planner), ToolCallingPlanner | JSONPlanner):
        return None
    try:
        await planner.plan(state, agent.tools, Ask(_catch, agent._instructions))  # type: ignore[attr-defined]
    except _Caught as caught:
        return caught.request
    return None


async def _catch(request: ModelRequest) -> ModelReply:
    raise _Caught(request)


def _sent(state: State) -> tuple[Message, ...] | None:
    """The messages of the request that made this State; None where none was made."""
    reply = state.decision.reply if state.decision else None
    request = reply.request if reply is not None else None
    request = getattr(request, "request", request)
    return request.history if isinstance(request, ModelRequest) else None
