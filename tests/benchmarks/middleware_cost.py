"""What middleware costs: run log and telemetry in CPU per step, compaction in the prefixes that it leaves whole.

    python tests/benchmarks/middleware_cost.py

Prints one line per figure with its bound; the exit status is 1 when a bound is passed. CPU is that of the whole process,
the best of several tries. A listener is told the events of one run again and again, without the run around them.
Telemetry is compared with its bare spans: the same spans, attributes and numbers, made by hand at the same events.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry import context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from agentnb import Agent, Compaction, Limits, RunLog, State, Telemetry, calls, tool
from agentnb.core.middleware import Budget, StepStarted, ToolFinished, ToolStarted, current_budget

STEPS = 1_000
TRIES = 5
ENDLESS = Limits(steps=None, repeats=None)
COMMON = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
USED = {"usage": {"prompt_tokens": 1_000, "completion_tokens": 20}}


@tool
async def look(number: int) -> str:
    """Look at a place.

    Args:
        number: Which one.
    """
    return f"place {number}"


@tool
async def describe(number: int) -> str:
    """Describe a place, at length.

    Args:
        number: Which one.
    """
    return f"place {number}: {'words ' * 170}"


def scripted(steps: int, name: str = "look") -> Callable[[Any], Any]:
    """A model that calls the tool in every step but the last, and reports tokens."""
    done = 0

    async def model(request: Any) -> Any:
        nonlocal done
        done += 1
        return {**(calls(name, number=done) if done < steps else {"content": "done"}), **USED}

    return model


def cpu(work: Callable[[], object]) -> float:
    """CPU milliseconds per step of `work`, which makes STEPS steps: the best of the tries."""
    best = float("inf")
    for _ in range(TRIES):
        gc.collect()
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best / STEPS * 1_000


def run_with(*middleware: Any) -> State:
    """One run of STEPS steps."""
    return Agent(model=scripted(STEPS), tools=[look], limits=ENDLESS, middleware=middleware).run("Look around.")


def events_of_a_run() -> list[Any]:
    """What a run of STEPS steps tells its listeners."""
    events: list[Any] = []
    run_with(events.append)
    return events


def told(listener: Callable[[Any], None], events: list[Any]) -> None:
    """Tell a listener everything, as the loop does."""
    token = current_budget.set(Budget(ENDLESS, events[0].state, events[0].state))
    for event in events:
        listener(event)
    current_budget.reset(token)


class Bare:
    """The spans and numbers of one run as one would write them by hand."""

    def __init__(self, tracers: TracerProvider, meters: MeterProvider) -> None:
        self.tracer = tracers.get_tracer("bare")
        meter = meters.get_meter("bare")
        self.duration = meter.create_histogram("gen_ai.client.operation.duration", "s")
        self.tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}")
        self.input = meter.create_counter("gen_ai.client.inference.usage.input_tokens", "{token}")
        self.output = meter.create_counter("gen_ai.client.inference.usage.output_tokens", "{token}")
        self.above: Any = None

    def __call__(self, event: Any) -> None:
        """One event of the only run."""
        if isinstance(event, StepStarted):
            if event.number == 1:
                about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
                self.run = self.tracer.start_span("invoke_agent a", attributes=about)
                self.above = trace.set_span_in_context(self.run)
            about = {"gen_ai.operation.name": "plan", "gen_ai.agent.name": "a"}
            self.plan = self.tracer.start_span("plan a", self.above, attributes=about)
            self.began = time.time_ns()
        elif isinstance(event, ToolStarted):
            about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.call.name}
            about |= {"gen_ai.tool.call.id": event.call.id, "gen_ai.tool.type": "function"}
            self.tool = self.tracer.start_span("execute_tool look", self.above, attributes=about)
            self.token = context.attach(trace.set_span_in_context(self.tool))
        elif isinstance(event, ToolFinished):
            context.detach(self.token)
            self.tool.end()
        elif event.state.kind == "plan":
            self.chat(event.state.decision.reply)
            self.plan.end()
            if event.state.finished:
                self.run.set_attribute("agentnb.stop", str(event.state.stop))
                self.run.end()

    def chat(self, reply: Any) -> None:
        """The span and the numbers of a model call."""
        about = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": reply.model,
            "gen_ai.request.model": reply.model,
            "gen_ai.usage.input_tokens": reply.usage.input,
            "gen_ai.usage.output_tokens": reply.usage.output,
            "gen_ai.response.finish_reasons": [reply.finish],
        }
        inside, client = trace.set_span_in_context(self.plan), trace.SpanKind.CLIENT
        span = self.tracer.start_span(f"chat {reply.model}", inside, client, about, start_time=self.began)
        span.end()
        common = {name: about[name] for name in COMMON}
        self.duration.record((time.time_ns() - self.began) / 1e9, common)
        self.input.add(reply.usage.input, {**common, "gen_ai.token.modality": "text"})
        self.output.add(reply.usage.output, {**common, "gen_ai.token.modality": "text"})
        self.tokens.record(reply.usage.input, {**common, "gen_ai.token.type": "input"})
        self.tokens.record(reply.usage.output, {**common, "gen_ai.token.type": "output"})


def log_ms(events: list[Any]) -> float:
    """CPU milliseconds of the run log per step."""
    with tempfile.TemporaryDirectory() as folder:
        log = RunLog(Path(folder) / "log.jsonl", task="t-17")
        return cpu(lambda: told(log, events))


def telemetry_ms(events: list[Any]) -> tuple[float, float]:
    """CPU milliseconds per step of telemetry, and of its bare spans."""
    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    bare = Bare(tracers, meters)
    telemetry = Telemetry("a", tracer_provider=tracers, meter_provider=meters)
    found = cpu(lambda: told(telemetry, events)), cpu(lambda: told(bare, events))
    meters.shutdown()
    return found


def compaction() -> tuple[int, float, float]:
    """Of a run of 400 rounds in a window of 20,000 tokens: compactions, largest request over the window, prefix share."""
    asked: list[tuple[list[Any], int]] = []
    play = scripted(400, "describe")

    async def model(request: Any) -> Any:
        size = len(json.dumps(request.json()).encode()) // 4
        asked.append((request.messages, size))
        return {**await play(request), "usage": {"prompt_tokens": size, "completion_tokens": 20}}

    agent = Agent(model=model, tools=[describe], limits=ENDLESS, middleware=[Compaction(window=20_000)])
    run = agent.run("Describe every place.")
    shortened = {n for n, step in enumerate(run.steps) if step.notes}
    total = same = 0
    for n in range(1, len(asked)):
        (before, size_before), (now, size) = asked[n - 1], asked[n]
        if n not in shortened:
            total += size
            same += size_before if now[: len(before)] == before else 0
    return len(shortened), max(size for _, size in asked) / 20_000, same / total


def report(what: str, value: float, bound: float, unit: str, at_least: bool = False) -> bool:
    """Print one figure; whether it keeps its bound."""
    fine = value >= bound if at_least else value <= bound
    word = "at least" if at_least else "at most"
    print(f"{what:<58}{value:>9.3f} {unit:<8} {word} {bound:g}{'' if fine else '   MISSED'}")
    return fine


def main() -> int:
    """Measure and print everything."""
    events = events_of_a_run()
    fine = [report("run log, CPU per step", log_ms(events), 0.05, "ms")]
    telemetry, bare = telemetry_ms(events)
    print(f"{'bare spans and numbers, CPU per step':<58}{bare:>9.3f} ms")
    fine.append(report("telemetry against its bare spans", telemetry / bare, 1.3, "times"))
    idle = cpu(lambda: run_with(Compaction(window=10_000_000))) - cpu(run_with)
    print(f"{'compaction that is not due, CPU added per step':<58}{idle:>9.3f} ms")
    count, largest, prefix = compaction()
    print(f"{'compactions in a run of 400 rounds':<58}{count:>9}")
    fine.append(report("its largest request over the window", largest, 0.85, "times"))
    fine.append(report("sent tokens that are a prefix of the request before", prefix * 100, 95, "%", at_least=True))
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
