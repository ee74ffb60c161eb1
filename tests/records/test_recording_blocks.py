"""Several recordings and runs at once, interrupted ones, full disks: each call meets its own recording, files stay whole."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentnb.agent import Agent
from agentnb.core.messages import user
from agentnb.core.model import ModelReply, ModelRequest, Prompt, ask, doors
from agentnb.errors import AgentInterrupted, RecordingError
from agentnb.models.scripted import ScriptedModel, calls
from agentnb.records.recording import Recording, recording, stop_recording, use_recording
from agentnb.tools.tool import tool


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_RECORDING", "")


class Nobody:
    """A model that must not be asked."""

    name = "scripted"

    async def reply(self, request: ModelRequest, on_delta: Any = None) -> ModelReply:
        """Fail the test."""
        raise AssertionError("the model was asked")


def agent_of(script: Any, *tools: Any) -> Agent:
    """An agent that plays this script; None asks a model that must not be asked."""
    return Agent(model=Nobody() if script is None else ScriptedModel(script), tools=tools)


def record(path: Path, *pairs: tuple[str, str]) -> None:
    """A recording of these questions and answers."""
    with recording(path):
        for question, answer in pairs:
            agent_of([answer]).run(question)


def test_blocks_in_two_threads_do_not_mix(tmp_path):
    """Two threads replay at once, each from its own file, though both files know the question."""
    record(tmp_path / "a.jsonl", ("who?", "a"), ("again?", "still a"))
    record(tmp_path / "b.jsonl", ("who?", "b"), ("again?", "still b"))
    both_open = threading.Barrier(2)

    def replay(name: str) -> tuple[list[str | None], int]:
        with recording(tmp_path / f"{name}.jsonl", mode="replay") as made:
            both_open.wait(10)
            answers = [agent_of(None).run(question).answer for question in ("who?", "again?")]
            both_open.wait(10)
        return answers, made.replayed

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(replay, "ab")) == [(["a", "still a"], 2), (["b", "still b"], 2)]
    assert doors == []


def test_blocks_in_two_tasks_do_not_mix(tmp_path):
    """The same on one loop; what one task records is not in the other's file."""

    async def recorded(name: str, both_open: asyncio.Barrier) -> int:
        with recording(tmp_path / f"{name}.jsonl") as made:
            await both_open.wait()
            await agent_of([name]).arun("who?")
            await both_open.wait()
        return made.recorded

    async def both() -> list[int]:
        both_open = asyncio.Barrier(2)
        return await asyncio.gather(recorded("a", both_open), recorded("b", both_open))

    assert asyncio.run(both()) == [1, 1]
    for name in "ab":
        with recording(tmp_path / f"{name}.jsonl", mode="replay"):
            assert agent_of(None).run("who?").answer == name


def test_a_thread_without_a_block_uses_the_open_recording(tmp_path):
    """Workers of a pool that is started inside the block are answered by its recording."""
    record(tmp_path / "r.jsonl", *((f"{number}?", str(number)) for number in range(8)))
    with recording(tmp_path / "r.jsonl", mode="replay") as made, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: agent_of(None).run(f"{number}?").answer, range(8)))

    assert answers == [str(number) for number in range(8)]
    assert made.replayed == 8


def test_a_standing_recording_answers_inside_and_outside_of_blocks(tmp_path):
    """What `use_recording` opened is for the whole process."""
    record(tmp_path / "all.jsonl", ("x?", "x"))
    record(tmp_path / "own.jsonl", ("y?", "y"))
    use_recording(tmp_path / "all.jsonl", mode="replay")
    try:
        with recording(tmp_path / "own.jsonl"):
            assert [agent_of(None).run(question).answer for question in ("x?", "y?")] == ["x", "y"]
        with pytest.raises(RecordingError, match="asked 1 times in the recording, this is time 2"):
            agent_of(None).run("x?")
    finally:
        stop_recording()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_nested_agents_are_recorded_and_replayed(tmp_path, kind):
    """The calls of an agent that runs inside a tool belong to the same recording."""

    def nested(outer: Any, inner: Any) -> Agent:
        helper = agent_of(inner)

        def look_up(what: str) -> str:
            """Ask the helper."""
            return helper.run(what).answer or ""

        async def look_up_async(what: str) -> str:
            """Ask the helper."""
            return (await helper.arun(what)).answer or ""

        chosen = look_up if kind == "sync" else look_up_async
        return agent_of(outer, tool(name="look_up")(chosen))

    path = tmp_path / "r.jsonl"
    with recording(path) as made:
        first = nested([calls("look_up", what="deep"), "found deep down"], ["deep down"]).run("go")
    with recording(path, mode="replay") as again:
        second = nested(None, None).run("go")

    assert first.tool_results[0].content == "deep down"
    assert second == first
    assert (made.recorded, again.replayed) == (3, 3)


def test_repeats_at_a_temperature_are_kept_apart(tmp_path):
    """Five runs of one question at once: each answer is recorded, a replay gives all five again."""
    request = ModelRequest(prompt=Prompt([user("roll")]), end=1, parameters={"temperature": 1.0})

    async def rolls(model: Any) -> list[str]:
        return [reply.text for reply in await asyncio.gather(*(ask(model, request) for _ in range(5)))]

    path = tmp_path / "r.jsonl"
    with recording(path):
        first = asyncio.run(rolls(ScriptedModel(list("31415"))))
    with recording(path, mode="replay"):
        assert asyncio.run(rolls(Nobody())) == first == list("31415")
        with pytest.raises(RecordingError, match="asked 5 times in the recording, this is time 6"):
            asyncio.run(ask(Nobody(), request))


def test_many_threads_record_into_one_file(tmp_path):
    """Nothing is lost or written into one another."""
    path = tmp_path / "r.jsonl"

    def count(number: int) -> str | None:
        script = [calls("double", n=number), f"twice {number}"]
        return agent_of(script, double).run(f"double {number}").answer

    with recording(path) as made, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(count, range(12)))
    with recording(path, mode="replay") as again:
        assert [agent_of(None, double).run(f"double {number}").answer for number in range(12)] == answers

    assert (made.recorded, made.asked, again.replayed) == (24, 24, 24)


@tool
def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


def test_an_interrupted_run_leaves_what_was_answered(tmp_path):
    """The calls before the interrupt are recorded whole; the one in flight is not."""

    def interrupted(request: ModelRequest) -> str:
        raise KeyboardInterrupt

    path = tmp_path / "r.jsonl"
    with pytest.raises(AgentInterrupted), recording(path, mode="record"):
        agent_of([calls("double", n=4), interrupted], double).run("go")
    with recording(path) as again:
        run = agent_of(["It is 8."], double).run("go")

    assert run.answer == "It is 8."
    assert (again.replayed, again.recorded) == (1, 1)


KILLED = """
import asyncio, os, signal, sys
from agentnb import Agent, ScriptedModel, recording
def die(request):
    os.kill(os.getpid(), signal.SIGKILL)
with recording(sys.argv[1]):
    for number in range(3):
        Agent(model=ScriptedModel([str(number)])).run(f"{number}?")
    Agent(model=ScriptedModel([die])).run("last?")
"""
FULL = """
import resource, sys
from agentnb import Agent, ScriptedModel, recording
from agentnb.errors import RecordingError
with recording(sys.argv[1]):
    Agent(model=ScriptedModel(["one"])).run("1?")
    size = len(open(sys.argv[1], "rb").read())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
    try:
        Agent(model=ScriptedModel(["two"])).run("2?")
    except RecordingError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    Agent(model=ScriptedModel(["three"])).run("2?")
"""


def script(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run this code in a process of its own, on a recording."""
    return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_a_killed_process_leaves_a_whole_file(tmp_path):
    """kill -9 during a model call costs that call alone."""
    path = tmp_path / "r.jsonl"
    assert script(KILLED, path).returncode == -9

    with recording(path, mode="replay"):
        assert [agent_of(None).run(f"{number}?").answer for number in range(3)] == ["0", "1", "2"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sets a limit of Unix")
def test_a_full_disk_leaves_a_whole_file(tmp_path):
    """An entry that could be written in part only is taken back; the next one stands in its place."""
    path = tmp_path / "r.jsonl"
    done = script(FULL, path)

    assert "can't be written: File too large" in done.stdout
    assert done.returncode == 0, done.stderr
    with recording(path, mode="replay"):
        assert [agent_of(None).run(question).answer for question in ("1?", "2?")] == ["one", "three"]


def answers(made: Recording, question: str, *reply: str) -> str:
    """What this recording answers to a question; the model would say `reply`, and must not be asked without one."""
    request = ModelRequest(prompt=Prompt([user(question)]), end=1)
    model = ScriptedModel(reply)
    return asyncio.run(made.reply(model, request, None, model.reply)).text


def replayed(path: Path, questions: str) -> list[str]:
    """What a new recording of this file answers to each letter."""
    made = recording(path, mode="replay").open(at_door=False)
    return [answers(made, question) for question in questions]


def kept(path: Path, question: str, reply: str) -> None:
    """Record one question."""
    answers(recording(path).open(at_door=False), question, reply)


def test_two_recordings_begin_one_file(tmp_path):
    """Both were opened before either wrote: each reads what the other wrote, and the file stays readable."""
    path = tmp_path / "r.jsonl"
    one, other = recording(path).open(at_door=False), recording(path).open(at_door=False)
    asked = [answers(one, "a", "A"), answers(other, "b", "B"), answers(one, "c", "C"), answers(other, "a")]

    assert asked == ["A", "B", "C", "A"]
    assert path.read_text().count('"format"') == 1
    assert replayed(path, "abc") == ["A", "B", "C"]


def test_a_file_begun_twice_is_read(tmp_path):
    """Such as two processes wrote on a system without locks, or two recordings put behind each other."""
    path, other = tmp_path / "r.jsonl", tmp_path / "other.jsonl"
    kept(path, "a", "A")
    kept(other, "b", "B")
    path.write_bytes(path.read_bytes() + other.read_bytes())

    assert replayed(path, "ab") == ["A", "B"]


def test_what_another_block_rewrote_is_read_anew(tmp_path):
    """A file that took the place of the one that was read: what it lacks is written again."""
    path = tmp_path / "r.jsonl"
    kept(path, "a", "A")
    made = recording(path).open(at_door=False)
    kept(tmp_path / "new.jsonl", "b", "B")
    (tmp_path / "new.jsonl").replace(path)

    assert [answers(made, "c", "C"), answers(made, "a", "a new A"), answers(made, "b")] == ["C", "a new A", "B"]
    assert replayed(path, "abc") == ["a new A", "B", "C"]


def test_a_line_that_another_block_left_half_gives_way(tmp_path):
    """It died while it wrote; the next entry of this block takes the place of the half line."""
    path = tmp_path / "r.jsonl"
    made = recording(path).open(at_door=False)
    kept(path, "a", "A")
    path.write_bytes(path.read_bytes() + b'{"ask": 1, "mod')

    with pytest.warns(UserWarning, match="half written"):
        assert answers(made, "b", "B") == "B"
    assert replayed(path, "ab") == ["A", "B"]
