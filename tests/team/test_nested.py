"""An agent as another agent's tool: results, counting, shared budgets, cancelling, depth, approvals, display."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

import pytest
from fakes import check_state, several

from agentnb import Agent, Limits, ScriptedModel, State, StopReason, calls, tool
from agentnb.core.messages import ToolCall
from agentnb.errors import SettingsError
from agentnb.notebook.render import run_blocks
from agentnb.team.nested import MOST_DEPTH, as_tool


def says(text: str, tokens: int = 10) -> dict[str, Any]:
    """A reply of this many tokens."""
    return {"role": "assistant", "content": text, "usage": {"prompt_tokens": tokens - 1, "completion_tokens": 1}}


def asks(name: str, *tasks: str, tokens: int = 10) -> dict[str, Any]:
    """A reply that gives these tasks to the agent of this name, side by side."""
    return {**several(*(calls(name, task=task) for task in tasks)), "usage": says("", tokens)["usage"]}


def boss(*script: Any, tools: Any, **options: Any) -> Agent:
    """An agent that plays this script."""
    return Agent(model=ScriptedModel(list(script)), tools=tools, name="boss", **options)


def worker(*script: Any, **options: Any) -> Agent:
    """Another one."""
    return Agent(model=ScriptedModel(list(script)), **{"name": "worker", "system_prompt": "You compute.", **options})


def test_the_answer_is_the_result_and_the_state_its_value():
    """The other model reads the answer; the person has the whole nested run."""
    run = boss(asks("worker", "compute"), "it is 42", tools=[as_tool(worker(says("42")))]).run("how much?")

    (result,) = run.tool_results
    assert (result.content, result.status, result.arguments) == ("42", "ok", {"task": "compute"})
    assert isinstance(result.value, State)
    assert (result.value.goal, result.value.answer) == ("compute", "42")
    check_state(run)


def test_tokens_of_a_nested_run_are_counted_once():
    """The counters of the outer run hold its own tokens and those of the run inside, at every depth."""
    inner = worker(says("42", 100), name="inner")
    middle = worker(asks("inner", "deeper", tokens=30), says("42!", 30), name="middle", tools=[as_tool(inner)])
    run = boss(asks("middle", "compute"), says("done"), tools=[as_tool(middle)]).run("how much?")

    assert run.usage.total == 10 + 30 + 100 + 30 + 10
    assert run.tool_results[0].value.usage.total == 160
    assert (run.counters.steps, run.counters.tool_calls) == (2, 1)


@pytest.mark.parametrize("planner", ["tools", "json"])
@pytest.mark.parametrize("kind", ["as_tool", "sync", "async"])
def test_every_kind_of_tool_can_run_an_agent(planner, kind):
    """`as_tool`, a sync tool that calls `run` and an async one that awaits `arun`, with both planners."""
    inner = worker("42")

    @tool(name="worker")
    def sync_worker(task: str) -> str:
        """Compute."""
        return inner.run(task).answer or ""

    @tool(name="worker")
    async def async_worker(task: str) -> str:
        """Compute."""
        return (await inner.arun(task)).answer or ""

    made = {"as_tool": as_tool(inner), "sync": sync_worker, "async": async_worker}[kind]
    call = {
        "tools": calls("worker", task="compute"),
        "json": json.dumps({"tool": "worker", "args": {"task": "compute"}}),
    }
    answer = {"tools": "42", "json": json.dumps({"answer": "42"})}
    run = boss(call[planner], answer[planner], tools=[made], planner=planner).run("how much?")

    assert (run.answer, run.tool_results[0].content) == ("42", "42")


def test_it_works_under_a_running_loop():
    """In a task of somebody else's loop, and from a function that is called there."""
    made = as_tool(worker("1", "2"))

    async def main() -> tuple[str | None, str | None]:
        awaited = await boss(asks("worker", "a"), "first", tools=[made]).arun("go")
        called = boss(asks("worker", "b"), "second", tools=[made]).run("go")
        return awaited.answer, called.answer

    assert asyncio.run(main()) == ("first", "second")


def test_no_answer_is_an_error_that_keeps_the_state():
    """A nested run that reaches a limit is an error result: why, what it had said, and its State."""
    inner = worker({**calls("look"), "content": "let me look"}, limits=Limits(steps=1), tools=[look])
    run = boss(asks("worker", "compute"), "sorry", tools=[as_tool(inner)]).run("how much?")

    (result,) = run.tool_results
    assert result.status == "error"
    assert result.content == (
        "worker ended without an answer: stopped at the limit of 1 step (max_steps). It had said: let me look"
    )
    assert result.value.stop is StopReason.MAX_STEPS
    assert result.used is not None


@tool
def look() -> str:
    """Look around."""
    return "nothing"


def test_a_failing_planner_of_the_other_is_an_error_result():
    """Even a programming error inside keeps the nested State."""

    class Broken:
        async def plan(self, state, tools, ask):
            raise ZeroDivisionError("oops")

    run = boss(asks("worker", "compute"), "sorry", tools=[as_tool(worker(planner=Broken()))]).run("go")

    (result,) = run.tool_results
    assert (result.status, result.content) == ("error", "worker failed: ZeroDivisionError: oops")
    assert "ZeroDivisionError" in result.traceback
    assert result.value.goal == "compute"


def test_an_approval_inside_is_named_and_can_be_given():
    """The outer model reads which call waits; a person approves it there and hands the answer up."""
    ran = []

    @tool(approve=True)
    def delete(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "gone"

    inner = worker(calls("delete", path="x.txt"), "deleted", tools=[delete])
    outer = boss(asks("worker", "tidy up"), "it waits", "all tidy", tools=[as_tool(inner)])
    run = outer.run("tidy up")

    (result,) = run.tool_results
    assert (result.status, ran) == ("error", [])
    assert (
        result.content
        == 'worker has no answer yet: a person must approve delete({"path": "x.txt"}), which was not run.'
    )
    child = result.value
    done = inner.run(child.approve(child.open_calls[0].id))
    assert (done.answer, ran) == ("deleted", ["x.txt"])
    assert outer.run(run.with_result(result.call_id, done.answer)).answer == "all tidy"


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_parallel_runs_share_the_tokens_that_are_left():
    """Five side by side overspend the limit by at most the calls that were in flight."""
    inner = [
        worker(
            *[{**calls("look"), **says("", 100)} for _ in range(9)],
            name=f"w{n}",
            tools=[look],
            limits=Limits(repeats=None),
        )
        for n in range(5)
    ]
    script = several(*(calls(f"w{n}", task="go") for n in range(5)))
    run = boss(
        {**script, "usage": says("", 10)["usage"]}, tools=[as_tool(each) for each in inner], limits=Limits(tokens=1000)
    ).run("go")

    assert run.stop is StopReason.MAX_TOKENS
    assert 1000 <= run.usage.total <= 1010 + 5 * 100
    assert all(result.value.stop is StopReason.MAX_TOKENS for result in run.tool_results)
    assert run.usage.total == 10 + sum(result.value.usage.total for result in run.tool_results)


def test_a_budget_reaches_through_every_depth():
    """The run at the bottom stops when the tokens of the one at the top are used up."""
    inner = worker(
        *[{**calls("look"), **says("", 100)} for _ in range(9)], name="inner", tools=[look], limits=Limits(repeats=None)
    )
    middle = worker(asks("inner", "deeper", tokens=100), says("?", 100), name="middle", tools=[as_tool(inner)])
    run = boss(asks("middle", "go", tokens=100), says("?"), tools=[as_tool(middle)], limits=Limits(tokens=500)).run(
        "go"
    )

    middle_run = run.tool_results[0].value
    inner_run = middle_run.tool_results[0].value
    assert (run.stop, middle_run.stop, inner_run.stop) == (StopReason.MAX_TOKENS,) * 3
    assert 500 <= run.usage.total <= 600


def test_the_own_limits_of_a_worker_hold_too():
    """A worker with a smaller limit stops at its own."""
    inner = worker(*[{**calls("look"), **says("", 100)} for _ in range(9)], limits=Limits(tokens=150), tools=[look])
    run = boss(asks("worker", "go"), says("?"), tools=[as_tool(inner)], limits=Limits(tokens=5000)).run("go")

    assert run.tool_results[0].value.usage.total == 200
    assert run.answer == "?"


def test_cancelling_the_outer_run_keeps_the_nested_one():
    """Both end "cancelled"; the nested State is in the result, and what it used is counted."""
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    inner = worker({**calls("wait"), **says("", 70)}, tools=[wait])
    outer = boss(asks("worker", "go"), tools=[as_tool(inner)])

    async def main() -> State:
        task = asyncio.ensure_future(outer.arun("go"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value.state  # type: ignore[attr-defined, no-any-return]

    run = asyncio.run(main())
    (result,) = run.tool_results
    assert (run.stop, result.status) == (StopReason.CANCELLED, "cancelled")
    assert result.value.stop is StopReason.CANCELLED
    assert result.value.tool_results[0].status == "cancelled"
    assert run.usage.total == 80
    check_state(run)


@pytest.mark.slow
def test_a_time_out_stops_the_nested_run():
    """`as_tool(agent, timeout=)` ends the run inside, too."""
    inner = worker(lambda request: asyncio.sleep(60))
    run = boss(asks("worker", "go"), "too slow", tools=[as_tool(inner, timeout=0.05)]).run("go")

    assert run.tool_results[0].status == "cancelled"
    assert run.tool_results[0].value.stop is StopReason.CANCELLED
    assert run.answer == "too slow"


# ── depth and cycles ─────────────────────────────────────────────────────────────────────────────────────────────────


def chained(count: list[int], new_task: bool) -> Agent:
    """An agent that always gives the task on to itself, through a function."""

    def model(request: Any) -> Any:
        count[0] += 1
        if request.messages[-1]["role"] == "tool":
            return request.messages[-1]["content"]
        return calls("again", task=f"task {count[0]}" if new_task else "the task")

    class Late:
        spec = as_tool(Agent(model="x", name="again")).spec

        async def answer(self, call: ToolCall) -> Any:
            return await as_tool(agent, name="again").answer(call)

    agent = Agent(model=model, tools=[Late()], name="again")
    return agent


def test_a_cycle_with_the_same_task_is_refused_at_once():
    """An agent that asks itself what it was asked reads that it works on this already."""
    run = chained([0], new_task=False).run("the task")

    nested = run.tool_results[0].value
    assert "is working on exactly this task already (again > again): do it yourself" in nested.tool_results[0].content


def test_depth_is_bounded():
    """Runs that nest without end are refused at a fixed depth, in words that name the way there."""
    count = [0]
    run = chained(count, new_task=True).run("start")

    assert count[0] == 2 * (MOST_DEPTH + 1)
    assert f"agents may be nested {MOST_DEPTH} deep and this would be deeper (again > again" in (run.answer or "")


# ── display ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_nested_run_is_drawn_inside_its_step():
    """A line that opens to the steps of the nested run, in both forms; those of one nested deeper are inside it."""
    inner = worker("6", name="inner")
    middle = worker(asks("inner", "deeper"), "42", name="middle", tools=[as_tool(inner)])
    run = boss(asks("middle", "compute"), "it is 42", tools=[as_tool(middle)]).run("how much?")
    step = run_blocks(run)[1]

    assert "<summary><b>Nested run of middle</b> · 2 steps · answered</summary>" in step.html
    assert "<summary><b>Nested run of inner</b> · 1 step · answered</summary>" in step.html
    assert step.html.index("Nested run of middle") < step.html.index("Nested run of inner")
    assert "  Nested run of middle · 2 steps · answered\n    Step 1 · asked inner for task='deeper'" in step.text


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "steps"), [(1, 120), (60, 2)])
def test_nested_runs_keep_to_the_room_of_a_cell(parts, steps):
    """Many steps, or many runs: the whole saved output stays below its bound, and says what is left out."""
    long = [{**calls("look"), "content": "x" * 500} for _ in range(steps - 1)]
    inner = Agent(
        model=ScriptedModel([*long, "done"] * parts),
        name="worker",
        tools=[look],
        limits=Limits(steps=999, repeats=None),
    )
    run = boss(asks("worker", *map(str, range(parts))), "done", tools=[as_tool(inner)]).run("go")
    blocks = run_blocks(run)

    assert sum(len(json.dumps(block.bundle)) for block in blocks) < 200_000
    assert "Nested run of worker" in blocks[1].html
    assert ("more steps, in run.steps[0].results[0].value.steps" in blocks[1].html) == (steps > 100)


# ── as a value ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_version_tells_one_agent_from_another():
    """Another prompt is another version; the same agent has the same."""
    first, same, other = (as_tool(worker(system_prompt=prompt)) for prompt in ("You add.", "You add.", "You multiply."))

    assert first.version == same.version != other.version
    assert first.replace(max_chars=500).spec.name == "worker"
    assert first.spec.description == "Another agent, worker. You add."


def test_only_agents():
    """Something else is refused with what to do."""
    with pytest.raises(SettingsError, match=r"expected an Agent\. A function is a tool as it is"):
        as_tool(len)  # type: ignore[arg-type]


def test_a_state_with_a_nested_run_survives_pickle():
    """As with every value of a tool, the nested State stays behind; the text and the counters come along."""
    run = boss(asks("worker", "compute"), says("it is 42"), tools=[as_tool(worker(says("42")))]).run("how much?")
    copy = pickle.loads(pickle.dumps(run))

    assert copy == run
    assert copy.tool_results[0].value is None
    assert copy.usage.total == 30


def test_what_the_outer_run_used_itself_is_not_left_for_others():
    """The tokens of the outer run's own calls count against the limit of those inside."""
    inner = worker(*[{**calls("look"), **says("", 100)} for _ in range(9)], tools=[look], limits=Limits(repeats=None))
    run = boss(asks("worker", "go", tokens=700), says("?"), tools=[as_tool(inner)], limits=Limits(tokens=1000)).run(
        "go"
    )

    assert (run.stop, run.usage.total) == (StopReason.MAX_TOKENS, 1000)


def test_rounds_share_one_budget():
    """What nested runs of earlier rounds used is counted once in the rounds that follow."""
    endless = Limits(repeats=None, steps=3)
    inner = worker(*[{**calls("look"), **says("", 100)} for _ in range(23)], tools=[look], limits=endless)
    script = [asks("worker", f"go {n}", tokens=100) for n in range(9)]
    run = boss(*script, tools=[as_tool(inner)], limits=Limits(tokens=1000, repeats=None)).run("go")

    assert run.usage.total == 1000
