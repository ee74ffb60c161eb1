"""`run`, `arun` and `steps` from everywhere: scripts, threads, running loops, inside tools, interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from agentnb import Agent, Limits, ScriptedModel, State, calls, tool
from agentnb.errors import AgentInterrupted, SettingsError


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def agent(*script: object, tools: tuple[object, ...] = (add,)) -> Agent:
    """An agent that plays a script; without one it adds 1 and 2."""
    return Agent(model=ScriptedModel(script or [calls("add", a=1, b=2), "3"]), tools=tools)


def test_run_works_in_a_script_ten_times_in_a_row() -> None:
    """The same thread keeps one loop for all its runs."""
    assert [agent().run("1+2?").answer for _ in range(10)] == ["3"] * 10


def test_run_works_in_a_thread() -> None:
    """Each thread has a loop of its own."""
    answers: list[str | None] = []
    threads = [threading.Thread(target=lambda: answers.append(agent().run("1+2?").answer)) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert answers == ["3"] * 3


def test_run_works_under_a_running_loop_which_is_not_patched() -> None:
    """The caller's loop waits; it is neither nested nor changed."""

    async def main() -> tuple[str | None, bool]:
        return agent().run("1+2?").answer, hasattr(asyncio.get_running_loop(), "_nest_patched")

    assert asyncio.run(main()) == ("3", False)


def test_arun_is_awaited() -> None:
    """Several at once share the loop."""

    async def main() -> list[str | None]:
        return [run.answer for run in await asyncio.gather(*(agent().arun("1+2?") for _ in range(5)))]

    assert asyncio.run(main()) == ["3"] * 5


def test_a_run_nests_in_a_sync_tool() -> None:
    """An agent as a plain function of another agent's tool."""

    @tool
    def ask(question: str) -> str:
        """Ask the other agent.

        Args:
            question: What to ask.
        """
        return str(agent().run(question).answer)

    assert agent(calls("ask", question="1+2?"), "done", tools=(ask,)).run("go").tool_results[0].content == "3"


def test_a_run_nests_in_an_async_tool() -> None:
    """In a process of its own, since nesting changes asyncio for the whole process."""
    code = """
import asyncio
from agentnb import Agent, ScriptedModel, calls, tool

@tool
async def ask(question: str) -> str:
    "Ask the other agent a question."
    return Agent(model=ScriptedModel(["inner"])).run(question).answer

def outer():
    return Agent(model=ScriptedModel([calls("ask", question="?"), "done"]), tools=[ask])

async def main():
    return (await outer().arun("go")).tool_results[0].content, outer().run("go").tool_results[0].content

print(outer().run("go").tool_results[0].content, asyncio.run(main()))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "inner ('inner', 'inner')", done.stderr


def test_steps_yields_each_state_and_can_be_left_early() -> None:
    """Plan, tool answer, answer; leaving early stops the run."""
    model = ScriptedModel([calls("add", a=1, b=2), "3"])
    assert [state.kind for state in Agent(model=model, tools=[add]).steps("1+2?")] == ["plan", "act", "plan"]

    model = ScriptedModel([calls("add", a=1, b=2), "3"])
    states = Agent(model=model, tools=[add]).steps("1+2?")
    next(states)
    states.close()  # type: ignore[attr-defined]
    assert len(model.requests) == 1


def test_an_error_of_the_users_own_code_is_not_taken_for_a_loop_problem() -> None:
    """A RuntimeError from a middleware comes out as it is."""

    class Broken:
        async def before(self, state: object) -> object:
            raise RuntimeError("no running event loop of mine")

    with pytest.raises(RuntimeError, match="of mine") as caught:
        agent().replace(middleware=[Broken()]).run("1+2?")
    assert caught.value.__context__ is None


def nap() -> str:
    """Sleep for a long time."""
    time.sleep(30)
    return "slept"


def test_an_interrupt_ends_a_run_in_a_script_and_keeps_it() -> None:
    """Ctrl-C during a tool: the State comes with the error, and the next run works."""
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(AgentInterrupted) as caught:
        agent(calls("nap"), "done", tools=(nap,)).run("sleep")

    assert time.monotonic() - began < 1.3
    assert caught.value.state.stop == "cancelled"
    assert caught.value.state.tool_results[0].status == "cancelled"
    assert agent("done").run(caught.value.state).answer == "done"


def test_an_interrupt_also_ends_the_run_inside_a_tool() -> None:
    """The nested run is told; its tool does not start again."""
    inner: list[object] = []

    def ask() -> str:
        """Ask another agent that sleeps."""
        try:
            agent(calls("nap"), "done", tools=(nap,)).run("sleep")
        except BaseException as error:
            inner.append(error)
            ended.set()
            raise
        return "answered"

    ended = threading.Event()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(AgentInterrupted):
        agent(calls("ask"), "done", tools=(ask,)).run("go")

    assert ended.wait(2)
    assert isinstance(inner[0], AgentInterrupted)


def test_a_tool_that_is_given_up_takes_its_agent_along() -> None:
    """A run inside a tool ends when the tool's time is up, or that of the run around it: no model call is made unasked."""
    asked: list[int] = []

    def model(request: object) -> object:
        asked.append(len(asked))
        time.sleep(0.05)
        return calls("add", a=len(asked), b=1)

    @tool(timeout=0.3)
    def ask() -> str:
        """Ask another agent, which never ends."""
        return str(Agent(model=model, tools=[add], limits=Limits(steps=None)).run("go"))

    assert "timed out" in agent(calls("ask"), "done", tools=(ask,)).run("go").tool_results[0].content
    _stays_the_same(asked)
    endless = agent(calls("ask"), "done", tools=(ask.replace(timeout=None),))
    assert endless.run("go", limits=Limits(seconds=0.3)).stop == "max_seconds"
    _stays_the_same(asked)


def _stays_the_same(asked: list[int]) -> None:
    time.sleep(0.2)  # what was under way ends
    before = len(asked)
    time.sleep(0.3)
    assert len(asked) == before


def test_an_interrupt_ends_steps_with_its_last_state() -> None:
    """The cancelled State comes first, then the interrupt that holds it."""
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    seen = []
    with pytest.raises(AgentInterrupted) as caught:
        for state in agent(calls("nap"), "done", tools=(nap,)).steps("sleep"):
            seen.append(state)

    assert seen[-1].stop == "cancelled"
    assert caught.value.state is seen[-1]


def test_an_error_of_a_middleware_brings_the_run_along() -> None:
    """Nothing is lost when user code raises in the middle of a run."""

    class Broken:
        async def before(self, state: State) -> State:
            if state.counters.steps:
                raise RuntimeError("broken")
            return state

    with pytest.raises(RuntimeError, match="broken") as caught:
        agent().replace(middleware=[Broken()]).run("1+2?")
    assert caught.value.state.tool_results[0].content == "3"  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", [dict, 7])
def test_what_is_no_middleware_is_refused(given: object) -> None:
    """A class without brackets would be dropped in silence, and with it what it was to guard."""
    with pytest.raises(SettingsError, match="no middleware"):
        agent().replace(middleware=[given])


def test_a_cancelled_arun_gives_its_state() -> None:
    """The task is cancelled as any other; the error holds the run so far."""

    async def main() -> BaseException:
        task = asyncio.create_task(agent(calls("nap"), "done", tools=(nap,)).arun("sleep"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    assert asyncio.run(main()).state.stop == "cancelled"


def test_a_time_out_around_arun_is_a_time_out() -> None:
    """asyncio.timeout sees its own cancellation."""

    async def main() -> None:
        async with asyncio.timeout(0.2):
            await agent(calls("nap"), "done", tools=(nap,)).arun("sleep")

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_an_interrupt_raised_by_a_tool_counts_as_one() -> None:
    """KeyboardInterrupt inside a tool stops the run as a person would."""

    def give_up() -> str:
        """Raise an interrupt."""
        raise KeyboardInterrupt

    with pytest.raises(AgentInterrupted) as caught:
        agent(calls("give_up"), "done", tools=(give_up,)).run("go")
    assert caught.value.state.stop == "cancelled"
