"""Show runs to OpenTelemetry: spans and token metrics, by the conventions for generative AI (`conventions.py`).

    invoke_agent assistant
    ├── plan assistant
    │   └── chat gpt-5-mini          tokens, finish reason, parameters
    ├── execute_tool get_weather     the current span while the tool runs, so an agent inside it hangs below
    └── plan assistant …

What people and models say is left out unless `content=True`. Until an SDK is set up, nothing is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import time_ns
from typing import Any

from agentnb.core.limits import StopReason
from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.middleware import Event, RunFailed, StateMade, StepStarted, ToolFinished, ToolStarted
from agentnb.core.model import ModelReply
from agentnb.core.state import State
from agentnb.middleware import conventions
from agentnb.middleware.following import Following
from agentnb.middleware.opentelemetry_api import Api
from agentnb.text import mask

FAILED = (StopReason.ERROR, StopReason.CONNECTION_LOST, StopReason.CONTEXT_TOO_LONG)
"""The stops that make a run's span an error; a limit or a pause is none."""
_COMMON = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model")
_NANOSECONDS = 1e9
"""In one second."""


class Telemetry:
    """A listener that makes spans and metrics of what it hears.

    Args:
        agent: The agent's name in the spans.
        content: Also what is said: goals, prompts, arguments, results, answers; secrets are masked. The span of a model
            call then carries the whole prompt.
        tracer_provider: Instead of the global one.
        meter_provider: Instead of the global one.

    Raises:
        SettingsError: opentelemetry-api is not installed.
    """

    wants_deltas = False

    def __init__(
        self,
        agent: str = "assistant",
        *,
        content: bool = False,
        tracer_provider: Any = None,
        meter_provider: Any = None,
    ) -> None:
        self.agent = agent
        self.content = content
        self._api = Api(tracer_provider, meter_provider)
        self._runs: Following[_Run] = Following(self._begin)
        self._about = {"gen_ai.agent.name": agent}

    def __repr__(self) -> str:
        return f"<Telemetry {self.agent!r}{' with content' if self.content else ''}>"

    def __reduce__(self) -> Any:
        return _made_again, (self.agent, self.content)

    def __call__(self, event: Event) -> None:
        """Begin or end what this event tells of."""
        if isinstance(event, StateMade):
            self._made(event.state, self._runs.run_of(event))
        elif isinstance(event, StepStarted):
            run = self._runs.run_of(event)
            about = {"gen_ai.operation.name": "plan", **self._about}
            run.plan = self._api.span(f"plan {self.agent}", about, run.context), time_ns()
        elif isinstance(event, ToolStarted):
            self._tool_started(event.call, self._runs.run_of(event))
        elif isinstance(event, ToolFinished):
            self._tool_finished(event.call, event.result, self._runs.run_of(event))
        elif isinstance(event, RunFailed):
            self._failed(event.error, self._runs.run_of(event))

    # ── a run and its steps ──────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, base: State) -> _Run:
        span = self._api.span(f"invoke_agent {self.agent}", {"gen_ai.operation.name": "invoke_agent", **self._about})
        if self.content:
            span.set_attribute("gen_ai.input.messages", conventions.messages(base.prompt.items[: base.end]))
        return _Run(span, self._api.within(span))

    def _made(self, state: State, run: _Run) -> None:
        if state.kind == "plan" and run.plan is not None:
            self._planned(state, *run.plan)
            run.plan = None
        elif state.kind == "act" and state.results[-1].call_id in run.tools:  # cancelled: nobody told that it finished
            self._api.end(run.tools.pop(state.results[-1].call_id), state.results[-1].status)
        if state.finished:
            self._ended(state, run)

    def _planned(self, state: State, plan: Any, began: int) -> None:
        decision = state.decision
        error = decision.error if decision else None
        failure = "" if error is None else str(getattr(error, "kind", type(error).__name__))
        if decision is not None and decision.reply is not None:
            self._chat(decision.reply, plan, began, failure, state.detail)
        self._api.end(plan, failure, state.detail)

    def _chat(self, reply: ModelReply, plan: Any, began: int, failure: str, detail: str) -> None:
        """The span of a model call is made when the call is over; its seconds tell when it began."""
        end = time_ns()
        start = max(began, end - int(reply.seconds * _NANOSECONDS)) if reply.seconds else began
        about = conventions.of_call(reply)
        span = self._api.span(
            f"chat {about['gen_ai.request.model']}", about, self._api.within(plan), start, client=True
        )
        if self.content:
            span.set_attributes(conventions.content_of_call(reply))
        self._api.end(span, failure, detail, end)
        common = {name: about[name] for name in _COMMON if name in about}
        self._api.measure((end - start) / _NANOSECONDS, reply.usage, common, failure)

    def _ended(self, state: State, run: _Run) -> None:
        for span in run.inner():
            self._api.end(span, str(state.stop))
        run.span.set_attributes({"agentnb.stop": str(state.stop), **conventions.of_usage(state.usage)})
        if self.content and state.answer is not None:
            run.span.set_attribute("gen_ai.output.messages", conventions.messages([Message("assistant", state.answer)]))
        self._api.end(run.span, str(state.stop) if state.stop in FAILED else "", state.detail)

    def _failed(self, error: Exception, run: _Run) -> None:
        """An error travels up to the caller: no State tells of the end."""
        for span in (*run.inner(), run.span):
            self._api.end(span, type(error).__name__, str(error))

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _tool_started(self, call: ToolCall, run: _Run) -> None:
        span = self._api.span(f"execute_tool {call.name}", conventions.of_tool(call), run.context)
        if self.content:
            span.set_attribute("gen_ai.tool.call.arguments", mask(call.arguments))
        if (earlier := run.tools.get(call.id)) is not None:  # a wrapper runs the call once more
            self._api.end(earlier)
        run.tools[call.id] = span
        self._api.context.attach(self._api.within(span))  # for good: this context ends with the task of the call

    def _tool_finished(self, call: ToolCall, result: ToolResult, run: _Run) -> None:
        if call.id not in run.tools:
            return  # denied, or there is no such tool: nothing has run
        span = run.tools.pop(call.id)
        if self.content:
            span.set_attribute("gen_ai.tool.call.result", mask(result.content))
        self._api.end(span, "" if result.ok else result.status)


def _made_again(agent: str, content: bool) -> Telemetry:
    return Telemetry(agent, content=content)


@dataclass(slots=True)
class _Run:
    """The spans of one run that are open."""

    span: Any
    context: Any
    """Spans that are made with it hang below `span`."""
    plan: tuple[Any, int] | None = None
    """With the time that it began."""
    tools: dict[str, Any] = field(default_factory=dict)
    """By call id."""

    def inner(self) -> Iterator[Any]:
        """The open spans below `span`."""
        if self.plan is not None:
            yield self.plan[0]
        yield from self.tools.values()
