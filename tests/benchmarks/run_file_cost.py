"""What it costs to keep a run in a file: saving and loading it whole, saving it step by step, forking it late.

    python tests/benchmarks/run_file_cost.py

A step is one model call and one tool call, so two States. Times are CPU (user + system), the best of some tries, so that
the machine's noise matters less; the bare loop stands beside them, to compare with in the same run.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentnb.agent import Agent
from agentnb.core.limits import Limits
from agentnb.core.messages import ToolCall, ToolResult, Usage
from agentnb.core.middleware import StateMade, StepStarted, ToolStarted
from agentnb.core.model import ModelReply, ModelRequest
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.core.tool import ToolSpec
from agentnb.middleware.run_log import RunLog
from agentnb.records.run_file import RunFile, load, save
from agentnb.records.saving import Saving

STATES = 10_000
SPECS = (ToolSpec("add", "Add two numbers.", {"type": "object"}),)


def main() -> None:
    """Measure and print, one line each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        run = grown(STATES // 2)
        whole(run, path)
        step_by_step(Path(folder))
        late_fork(run, path)
        memory(path)


def grown(steps: int) -> State:
    """A run of so many steps, each with a model call and a tool result."""
    state = State.start("Add the numbers.")
    for number in range(steps):
        state = acted(asked(state, number), number)
    return state


def asked(state: State, number: int) -> State:
    """The State after a model asked for one call."""
    call = ToolCall(f"call_{number:08d}", "add", f'{{"a": {number}, "b": 1}}')
    raw = {"role": "assistant", "content": f"I add {number}.", "tool_calls": [wire(call)]}
    request = ModelRequest((), state.prompt, state.end, SPECS)
    reply = ModelReply(f"I add {number}.", (call,), "", "tool_calls", None, Usage(900, 30), None, raw, "chat:m")
    sent = ModelReply(**{**{name: getattr(reply, name) for name in ModelReply.__slots__}, "request": request})
    return state.planned(Decision(sent, calls=sent.calls), 0.5)


def wire(call: ToolCall) -> dict[str, Any]:
    """A call as a provider writes it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def acted(state: State, number: int) -> State:
    """The State after the call was answered."""
    call = state.calls[0]
    arguments = {"a": number, "b": 1}
    result = ToolResult(
        call.id, "add", str(number + 1), value=number + 1, arguments=arguments, version="add@1·3fa9c1d0"
    )
    return state.answered(result, 0.01)


def whole(run: State, path: Path) -> None:
    """Save and load all of it."""
    saving = best(lambda: fresh(path).save([run]))
    loading = best(lambda: load(path))
    assert load(path) == run
    print(f"save {STATES:,} States   {saving:6.2f} s")
    print(f"load {STATES:,} States   {loading:6.2f} s")
    print(f"both                 {saving + loading:6.2f} s")
    print(f"save it again        {best(lambda: RunFile(path).save([run])):6.2f} s: by another process, nothing is new")
    print(f"file                 {path.stat().st_size / (STATES / 2):6.0f} bytes per step")


def fresh(path: Path) -> RunFile:
    """A file that is not there yet."""
    path.unlink(missing_ok=True)
    return RunFile(path)


def step_by_step(folder: Path) -> None:
    """What a listener that saves adds to each step: the events of a run, told to it alone; the quickest fifty steps."""
    steps = [*events_of(2_000)]

    def cost(name: str, tell: Callable[[Any], Any]) -> float:
        (folder / name).unlink(missing_ok=True)
        found = []
        for first in range(0, len(steps), 50):
            began = time.process_time()
            for step in steps[first : first + 50]:
                for event in step:
                    tell(event)
            found.append((time.process_time() - began) / 50 * 1e6)
        return min(found)

    def pattern(event: Any) -> None:
        if isinstance(event, StateMade):
            save(event.state, folder / "loop.jsonl")

    print(f"Saving, per step     {cost('saving.jsonl', Saving(folder / 'saving.jsonl')):6.1f} µs: two States, one call")
    print(f"save in a loop       {cost('loop.jsonl', pattern):6.1f} µs: two States")
    print(f"an agent, per step   {agent_cost(folder)}")


def events_of(steps: int) -> Iterator[tuple[Any, ...]]:
    """What listeners are told, step by step."""
    state = State.start("Add the numbers.")
    for number in range(steps):
        plan = asked(state, number)
        act = acted(plan, number)
        yield StepStarted(number + 1, state), StateMade(plan), ToolStarted(plan.calls[0]), StateMade(act)
        state = act


def agent_cost(folder: Path) -> str:
    """The whole loop, bare and with the listeners, in the same process."""
    steps = 300

    def model(request: ModelRequest) -> Any:
        number = request.end
        if number > 2 * steps:
            return "done"
        return {"tool_calls": [wire(ToolCall(f"c{number}", "add", f'{{"a": {number}, "b": 1}}'))]}

    async def answer(request: ModelRequest) -> Any:
        return model(request)

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def cost(*middleware: Any) -> float:
        agent = Agent(answer, [add], middleware=middleware, limits=Limits(steps=None))
        began = time.process_time()
        run = asyncio.run(agent.arun("go"))
        assert run.counters.steps == steps + 1
        return (time.process_time() - began) / steps * 1e6

    def listeners() -> list[Any]:
        names = [folder / f"{kind}-{time.monotonic_ns()}.jsonl" for kind in ("log", "run")]
        return [RunLog(names[0]), Saving(names[1])]

    pairs = [(cost(), cost(*listeners())) for _ in range(7)]
    bare, kept = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    return f"bare {bare:.0f} µs, with log and save {kept:.0f} µs, added {kept - bare:.0f} µs"


def late_fork(run: State, path: Path) -> None:
    """Fork at the newest and at an old step, and save the fork."""
    save(run, path)
    save(run.say("once"), path)
    steps = STATES // 2
    forking = best(lambda: run.at(steps).say("another way"))
    following = best(lambda: save(run.say(str(time.monotonic_ns())), path))
    early = best(lambda: save(run.at(10).say(str(time.monotonic_ns())), path))
    print(f"fork at step {steps:,}   {forking * 1e3:6.2f} ms")
    print(f"save the next State  {following * 1e3:6.2f} ms")
    print(f"save a fork of step 10 {early * 1e3:6.2f} ms: all above it is looked at once")


def memory(path: Path) -> None:
    """What a loaded run takes, beside one that was made."""
    sizes = []
    for make in (lambda: grown(STATES // 2), lambda: load(path)):
        gc.collect()
        tracemalloc.start()
        kept = make()
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        del kept
    print(f"memory of a run      {sizes[0] / 1e6:6.1f} MB made, {sizes[1] / 1e6:.1f} MB loaded")


def best(work: Callable[[], Any], tries: int = 5) -> float:
    """CPU seconds of the quickest try."""
    found = []
    for _ in range(tries):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


if __name__ == "__main__":
    main()
