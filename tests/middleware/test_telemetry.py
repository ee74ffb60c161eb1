"""Telemetry: spans that hang together, token metrics, nothing that was said unless asked for."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from fakes import FunctionTool, add, cancel_when, collect, runtime_for, says, several, states_of
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentnb import Agent
from agentnb.core.limits import Limits
from agentnb.core.messages import ToolCall, Usage
from agentnb.core.middleware import Middleware
from agentnb.core.model import ModelReply, ModelRequest
from agentnb.core.state import State
from agentnb.errors import ModelError, RecordingError
from agentnb.middleware import conventions
from agentnb.middleware.telemetry import Telemetry
from agentnb.models.scripted import CallableModel, calls
from agentnb.text import hide


class Seen:
    """Where the spans and numbers of a Telemetry arrive."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def telemetry(self, agent: str = "assistant", **options: Any) -> Telemetry:
        """One that reports here."""
        return Telemetry(agent, tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """Finished spans by name; of equal names the last."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def names(self) -> list[str]:
        """Of every finished span, in the order in which they ended."""
        return [span.name for span in self.exporter.get_finished_spans()]

    def parent(self, name: str) -> str | None:
        """The name of the span above."""
        above = self.spans[name].parent
        every = {span.context.span_id: span.name for span in self.exporter.get_finished_spans()}
        return None if above is None else every[above.span_id]

    def metrics(self) -> dict[str, list[Any]]:
        """Data points by the name of the metric."""
        data = self.reader.get_metrics_data()
        every = [metric for r in data.resource_metrics for s in r.scope_metrics for metric in s.metrics]
        return {metric.name: list(metric.data.data_points) for metric in every}


@pytest.fixture
def seen() -> Any:
    """A fresh place for spans; nothing global is set."""
    place = Seen()
    yield place
    place.meters.shutdown()
    place.tracers.shutdown()


FULL = Usage(100, 10, 40, 5, 3)


def reply(text: str = "", call: ToolCall | None = None, **more: Any) -> ModelReply:
    """A reply of a provider that says all."""
    made = (call,) if call else ()
    finish = "tool_calls" if call else "stop"
    fields = {
        "finish": finish,
        "usage": FULL,
        "model": "google:gemini-3",
        "answered_as": "gemini-3-001",
        "seconds": 0.5,
    }
    return ModelReply(text, made, **{**fields, **more})


class Provider:
    """Plays replies and puts the request on each, as a client does."""

    name = "google:gemini-3"

    def __init__(self, *replies: Any) -> None:
        self.left = list(replies)

    async def reply(self, request: ModelRequest, on_delta: Any = None) -> ModelReply:
        """The next one."""
        if isinstance(self.left[0], Exception):
            raise self.left.pop(0)
        return replace(self.left.pop(0), request=request)


def test_spans_of_a_run(seen):
    """The run, its plans with a model call each, its tools: names, kinds, parents."""
    provider = Provider(reply(call=ToolCall("c1", "add", '{"a": 1, "b": 2}')), reply("3"))
    states_of(runtime_for(provider, [add], middleware=[seen.telemetry("adder")]))

    assert seen.names() == [
        "chat gemini-3", "plan adder", "execute_tool add", "chat gemini-3", "plan adder", "invoke_agent adder",
    ]  # fmt: skip
    assert seen.parent("invoke_agent adder") is None
    assert seen.parent("plan adder") == seen.parent("execute_tool add") == "invoke_agent adder"
    assert seen.parent("chat gemini-3") == "plan adder"
    kinds = {name.split()[0]: span.kind.name for name, span in seen.spans.items()}
    assert kinds == {"chat": "CLIENT", "plan": "INTERNAL", "execute_tool": "INTERNAL", "invoke_agent": "INTERNAL"}


def test_what_stands_on_the_spans(seen):
    """Operation, provider by its conventional name, model, parameters, finish reasons, every known token count."""
    agent = Agent(
        model=Provider(reply(call=ToolCall("c1", "add", '{"a": 1, "b": 2}')), reply("3")),
        tools=[add],
        parameters={"temperature": 0, "seed": 7, "max_completion_tokens": 50, "stop": "END", "odd": True},
        middleware=[seen.telemetry()],
    )
    agent.run("go")
    chat, tool, run = (
        seen.spans[name].attributes for name in ("chat gemini-3", "execute_tool add", "invoke_agent assistant")
    )

    assert dict(chat) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "gemini-3",
        "gen_ai.request.temperature": 0,
        "gen_ai.request.seed": 7,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.response.model": "gemini-3-001",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.cache_write.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 3,
    }
    assert dict(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
    }
    assert (run["gen_ai.agent.name"], run["agentnb.stop"], run["gen_ai.usage.input_tokens"]) == (
        "assistant",
        "answer",
        200,
    )


def test_metrics_of_model_calls(seen):
    """Duration, the counters of tokens and the histogram that dashboards chart; what is unknown is not counted."""
    provider = Provider(reply(call=ToolCall("c1", "add", '{"a": 1, "b": 2}')), reply("3", usage=None))
    states_of(runtime_for(provider, [add], middleware=[seen.telemetry()]))
    found = seen.metrics()
    totals = {name: sum(point.value for point in points) for name, points in found.items() if "inference" in name}

    assert found["gen_ai.client.operation.duration"][0].count == 2
    assert totals == {
        "gen_ai.client.inference.usage.input_tokens": 100,
        "gen_ai.client.inference.usage.output_tokens": 10,
        "gen_ai.client.inference.usage.cache_read.input_tokens": 40,
        "gen_ai.client.inference.usage.cache_write.input_tokens": 5,
        "gen_ai.client.inference.usage.reasoning.output_tokens": 3,
    }
    by_type = {p.attributes["gen_ai.token.type"]: p.sum for p in found["gen_ai.client.token.usage"]}
    assert by_type == {"input": 100, "output": 10}
    point = found["gen_ai.client.inference.usage.input_tokens"][0]
    assert (point.attributes["gen_ai.token.modality"], point.attributes["gen_ai.provider.name"]) == (
        "text",
        "gcp.gemini",
    )


def test_a_model_call_lasts_as_long_as_it_did(seen):
    """Its span covers the seconds of the reply, inside its plan."""

    async def slow(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(0.02)
        return reply("hm", seconds=0.01, request=request)

    states_of(runtime_for(CallableModel(slow), middleware=[seen.telemetry()]))
    chat, plan = seen.spans["chat gemini-3"], seen.spans["plan assistant"]

    assert 0.0099 < (chat.end_time - chat.start_time) / 1e9 < 0.0101
    assert plan.start_time <= chat.start_time <= chat.end_time <= plan.end_time


def test_errors_and_stops(seen):
    """A failed call is an error on call, plan and run; a failed tool on its own span; a limit is no error."""
    provider = Provider(reply(call=ToolCall("c1", "add", '{"a": 1}')), ModelError("bad key", kind="auth"))
    states_of(runtime_for(provider, [add], middleware=[seen.telemetry()]))
    spans = {span.name: span for span in seen.exporter.get_finished_spans()}
    types = {name.split()[0]: span.attributes.get("error.type") for name, span in spans.items()}

    assert types == {"chat": "auth", "plan": "auth", "execute_tool": "error", "invoke_agent": "error"}
    assert "bad key" in spans["plan assistant"].status.description
    assert spans["invoke_agent assistant"].attributes["agentnb.stop"] == "error"
    seen.exporter.clear()
    states_of(runtime_for([calls("add", a=1, b=2)], [add], middleware=[seen.telemetry()], limits=Limits(steps=1)))
    run = seen.spans["invoke_agent assistant"]
    assert (run.attributes["agentnb.stop"], run.status.is_ok) == ("max_steps", True)


def test_a_run_that_raises_ends_every_span(seen):
    """In a plan or in a tool's wrapper: the open spans end with the error, and nothing is kept of the run."""
    hide("KEY-SPAN-0123456789")

    class Buggy(Middleware):
        async def tool(self, call: Any, state: Any, next: Any) -> Any:
            await next(call, state)
            raise LookupError("KEY-SPAN-0123456789")

    def missing(request: Any) -> str:
        raise RecordingError("holds no reply")

    telemetry = seen.telemetry()
    with pytest.raises(RecordingError):
        states_of(runtime_for([missing], middleware=[telemetry]))
    with pytest.raises(LookupError):
        states_of(runtime_for([calls("add", a=1, b=2)], [add], middleware=[telemetry, Buggy()]))
    spans = seen.exporter.get_finished_spans()

    assert [(span.name.split()[0], span.attributes.get("error.type")) for span in spans] == [
        ("plan", "RecordingError"),
        ("invoke_agent", "RecordingError"),
        ("chat", None),
        ("plan", None),
        ("execute_tool", "LookupError"),
        ("invoke_agent", "LookupError"),
    ]
    assert (spans[1].status.description, spans[-1].status.description) == ("records: holds no reply", "[hidden]")
    assert not telemetry._runs._live


def test_a_wrapper_may_run_a_call_in_a_task_of_its_own(seen, caplog):
    """Such as one with a time-out: the span is whole, current inside the tool, and not after it."""
    current: list[Any] = []

    class Timeout(Middleware):
        async def tool(self, call: Any, state: Any, next: Any) -> Any:
            return await asyncio.create_task(next(call, state))

    def look() -> str:
        current.append(trace.get_current_span().get_span_context().span_id)
        return "seen"

    script = [calls("look"), says("done")]
    states_of(runtime_for(script, [FunctionTool(look)], middleware=[Timeout(), seen.telemetry()]))

    assert caplog.records == []
    assert current == [seen.spans["execute_tool look"].context.span_id]
    assert seen.parent("plan assistant") == "invoke_agent assistant"
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_call_that_a_wrapper_repeats_has_a_span_each_time(seen):
    """Both end, and hang below the run."""

    class Twice(Middleware):
        async def tool(self, call: Any, state: Any, next: Any) -> Any:
            await next(call, state)
            return await next(call, state)

    states_of(runtime_for([calls("add", a=1, b=2), says("3")], [add], middleware=[Twice(), seen.telemetry()]))
    run = seen.spans["invoke_agent assistant"].context.span_id
    tools = [span for span in seen.exporter.get_finished_spans() if span.name == "execute_tool add"]

    assert [span.parent.span_id for span in tools] == [run, run]


def test_a_cancelled_run_ends_every_span(seen):
    """Tools that were cancelled, the plan, the run: nothing stays open."""

    async def play() -> None:
        started = asyncio.Event()

        async def wait(n: int) -> str:
            started.set()
            await asyncio.Event().wait()
            return ""

        script = [several(calls("wait", n=1), calls("wait", n=2))]
        await cancel_when(started, runtime_for(script, [FunctionTool(wait)], middleware=[seen.telemetry()]))

    asyncio.run(play())

    assert seen.names().count("execute_tool wait") == 2
    assert seen.spans["execute_tool wait"].attributes["error.type"] == "cancelled"
    assert seen.spans["invoke_agent assistant"].attributes["agentnb.stop"] == "cancelled"


def test_a_run_cancelled_in_a_model_call_ends_every_span(seen):
    """The plan that was under way is ended, too."""

    async def play() -> None:
        started = asyncio.Event()

        async def model(request: ModelRequest) -> str:
            started.set()
            await asyncio.Event().wait()
            return ""

        await cancel_when(started, runtime_for(CallableModel(model), middleware=[seen.telemetry()]))

    asyncio.run(play())

    assert seen.names() == ["plan assistant", "invoke_agent assistant"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_agent_in_a_tool_hangs_below_it(seen, kind):
    """Also when the tool runs in a thread and starts the run there; two at once keep apart."""
    inner = Agent(model=lambda request: f"seen {request.messages[-1]['content']}", middleware=[seen.telemetry("inner")])

    def ask(question: str) -> str:
        """Ask the other agent."""
        return str(inner.run(question).answer)

    async def ask_awaited(question: str) -> str:
        """Ask the other agent."""
        return str((await inner.arun(question)).answer)

    tool = {"sync": ask, "async": ask_awaited}[kind]
    name = tool.__name__
    script = iter([several(calls(name, question="a"), calls(name, question="b"), ids=["a", "b"]), says("done")])
    outer = Agent(model=lambda request: next(script), tools=[tool], middleware=[seen.telemetry("outer")])
    assert outer.run("go").answer == "done"

    every = {span.context.span_id: span for span in seen.exporter.get_finished_spans()}
    inner_runs = [span for span in every.values() if span.name == "invoke_agent inner"]
    above = [every[span.parent.span_id] for span in inner_runs]
    assert [span.name for span in above] == [f"execute_tool {name}"] * 2
    assert {span.attributes["gen_ai.tool.call.id"] for span in above} == {"a", "b"}
    assert len({span.context.trace_id for span in every.values()}) == 1


def test_what_was_denied_has_no_span(seen):
    """Nothing ran; a call that is approved later hangs below the run that ran it."""
    guarded = FunctionTool(add, approve=True)
    telemetry = seen.telemetry()
    paused = states_of(runtime_for([calls("add", a=1, b=2)], [guarded], middleware=[telemetry]))[-1]
    assert "execute_tool add" not in seen.names()
    states_of(runtime_for([says("3")], [guarded], middleware=[telemetry]), paused.approve("call_1_1"))

    assert seen.names().count("execute_tool add") == 1
    assert seen.names().count("invoke_agent assistant") == 2
    assert seen.spans["execute_tool add"].parent.span_id == seen.spans["invoke_agent assistant"].context.span_id


def test_content_is_off_by_default(seen):
    """Not a word of goal, arguments, results, answer stands anywhere."""
    words = ["zebra", "giraffe", "okapi", "gnu"]
    script = [calls("echo", text=words[1]), says(words[2])]
    run_with(seen, script, State.start(words[0]), FunctionTool(lambda text: words[3], "echo"))
    shown = " ".join(span.to_json() for span in seen.exporter.get_finished_spans())

    assert not [word for word in words if word in shown]


def test_content_in_the_form_of_the_conventions(seen):
    """Messages in parts, system prompt, tool definitions, arguments and results; secrets are masked."""
    hide("KEY-OTEL-0123456789")
    script = [calls("echo", text="KEY-OTEL-0123456789"), {**says("done"), "reasoning_content": "easy"}]
    agent = Agent(
        model=CallableModel(lambda request: script.pop(0)),
        tools=[FunctionTool(lambda text: text, "echo")],
        system_prompt="Be brief.",
        middleware=[seen.telemetry(content=True)],
    )
    agent.run("say it")
    chat, tool, run = (
        seen.spans[name].attributes for name in ("chat <lambda>", "execute_tool echo", "invoke_agent assistant")
    )
    asked = json.loads(chat["gen_ai.input.messages"])

    assert [message["role"] for message in asked] == ["user", "assistant", "tool"]
    assert asked[1]["parts"][0]["arguments"] == {"text": "[hidden]"}
    assert asked[2]["parts"][0]["type"] == "tool_call_response"
    assert "Be brief." in chat["gen_ai.system_instructions"]
    assert json.loads(chat["gen_ai.tool.definitions"])[0]["name"] == "echo"
    said = json.loads(chat["gen_ai.output.messages"])[0]
    assert said == {
        "role": "assistant",
        "parts": [{"type": "reasoning", "content": "easy"}, {"type": "text", "content": "done"}],
        "finish_reason": "stop",
    }
    assert json.loads(run["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "done"}]
    assert tool["gen_ai.tool.call.result"] == "[hidden]"
    assert "KEY-OTEL" not in " ".join(span.to_json() for span in seen.exporter.get_finished_spans())


def run_with(seen: Seen, script: Any, state: State, *tools: Any) -> None:
    """One run that reports to `seen`."""
    states_of(runtime_for(script, tools, middleware=[seen.telemetry()]), state)


def test_runs_at_once_are_kept_apart(seen):
    """Ten runs on one loop: ten traces, each whole."""
    runtime = runtime_for(CallableModel(answer_or_call), [add], middleware=[seen.telemetry()])

    async def ten() -> None:
        await asyncio.gather(*(collect(runtime, f"goal {n}") for n in range(10)))

    asyncio.run(ten())

    assert traces(seen) == [("chat", "chat", "execute_tool", "invoke_agent", "plan", "plan")] * 10


def traces(seen: Seen) -> list[tuple[str, ...]]:
    """The operations of each trace."""
    found: dict[int, list[str]] = {}
    for span in seen.exporter.get_finished_spans():
        found.setdefault(span.context.trace_id, []).append(span.name.split()[0])
    return [tuple(sorted(names)) for names in found.values()]


def test_runs_from_one_state_are_kept_apart(seen):
    """Three at once from the same State: three whole traces."""

    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    runtime = runtime_for(CallableModel(answer_or_call), [FunctionTool(add)], middleware=[seen.telemetry()])
    state = State.start("go")

    async def three() -> None:
        await asyncio.gather(*(collect(runtime, state) for _ in range(3)))

    asyncio.run(three())

    assert traces(seen) == [("chat", "chat", "execute_tool", "invoke_agent", "plan", "plan")] * 3


def answer_or_call(request: ModelRequest) -> Any:
    """One call, then an answer."""
    return calls("add", a=1, b=2) if len(request.messages) < 3 else "3"


def test_without_an_sdk_nothing_is_collected_and_all_works():
    """The API alone makes spans that are none; a pickled Telemetry is whole again."""
    telemetry = pickle.loads(pickle.dumps(Telemetry("a", content=True)))

    assert states_of(runtime_for([calls("add", a=1, b=2), says("3")], [add], middleware=[telemetry]))[-1].answer == "3"
    assert repr(telemetry) == "<Telemetry 'a' with content>"


def test_unknown_tokens_are_left_out():
    """No usage, no attributes; a number that the provider did not say is none."""
    assert conventions.of_usage(None) == {}
    assert conventions.of_usage(Usage(input=5)) == {"gen_ai.usage.input_tokens": 5}


def test_names_of_models_without_a_provider():
    """A function or a bare name stands for both."""
    assert conventions.of_model("openai-responses:gpt-5") == {
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
    }
    assert conventions.of_model("scripted") == {"gen_ai.provider.name": "scripted", "gen_ai.request.model": "scripted"}
    assert conventions.of_model("")["gen_ai.request.model"] == "callable"


@pytest.mark.slow
def test_a_missing_package_is_named():
    """With the extra that brings it."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from agentnb import Telemetry\n"
        "try:\n    Telemetry()\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.startswith("SettingsError middleware: opentelemetry-api is not installed.")
    assert "agentnb-jupyter[otel]" in done.stdout
