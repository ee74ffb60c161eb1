from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from small_model import small_model

from agentnb.errors import SettingsError
from agentnb.models import engine
from agentnb.models.engine import explain, parameters, usable_cores
from agentnb.models.engine_process import EngineSettings, Running, in_thread, outcome, shared, start

CONFIG = {"path": "model.gguf", "key": "secret", "name": "model"}
PROGRAM = [sys.executable, "-P", engine.__file__]
unix = pytest.mark.skipif(sys.platform == "win32", reason="needs Unix signals")


def blank() -> types.SimpleNamespace:
    """What the engine's parameter object is to us."""
    space = types.SimpleNamespace
    return space(model=space(), cpuparams=space(), cpuparams_batch=space(), sampling=space())


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it becomes true in time; for what another process does."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def is_running(pid: int) -> bool:
    """Whether this process is there and no zombie."""
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return status.stdout.strip()[:1] not in ("", "Z")


# ── the program ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_measured_settings_reach_the_engine() -> None:
    """The values that decide speed, memory and safety are set, whatever the engine's own defaults are."""
    params = parameters(blank(), {**CONFIG, "context": 2048, "threads": 3, "template": "{{ x }}"})

    assert (params.no_extra_bufts, params.cache_ram_mib, params.port, params.ui) == (True, 256, 0, False)
    assert (params.api_keys, params.cors_origins, params.sampling.temp) == (["secret"], "", 0.0)
    assert (params.n_ctx, params.cpuparams.n_threads, params.chat_template) == (2048, 3, "{{ x }}")


def test_unset_settings_have_our_defaults() -> None:
    """Context 4096, all usable cores, the template of the file."""
    params = parameters(blank(), {**CONFIG, "context": None, "threads": None, "template": ""})

    assert (params.n_ctx, params.cpuparams.n_threads, params.chat_template) == (4096, usable_cores(), "")


def test_at_least_one_core_is_usable() -> None:
    """The count is one that the machine has."""
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ImportError("libgomp.so.1: cannot open shared object file"), "libgomp1"),
        (ModuleNotFoundError("No module named 'xllamacpp'"), 'pip install "agentnb-jupyter[local]"'),
    ],
)
def test_missing_engine_is_explained(error: Exception, remedy: str) -> None:
    """An engine that can't be imported is told with the line to type."""
    assert remedy in explain(error)["remedy"]


@pytest.mark.slow
@pytest.mark.parametrize("command", [PROGRAM, [sys.executable, "-m", "agentnb.models.engine"]], ids=["path", "module"])
def test_broken_file_is_an_error_line_and_exit_code_3(command: list[str], tmp_path: Path) -> None:
    """A file that is no model is told on stdout as JSON."""
    pytest.importorskip("xllamacpp")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but no more")
    line = json.dumps({**CONFIG, "path": str(broken)}) + "\n"

    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 3
    assert "can't load the model" in json.loads(done.stdout)["error"]


# ── its process ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def running() -> Iterator[Running]:
    """An engine of this test alone."""
    served = start(EngineSettings(str(small_model()), threads=1))
    yield served
    served.stop()


@pytest.mark.slow
@pytest.mark.weights
def test_engine_serves_only_with_its_key(running: Running) -> None:
    """Another user of the machine who finds the port gets nothing."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    with httpx.Client(base_url=f"{running.url}/v1/") as client:
        without = client.post("chat/completions", json=body)
        right = client.post("chat/completions", json=body, headers={"authorization": f"Bearer {running.key}"})

    assert running.url.startswith("http://127.0.0.1:")
    assert (without.status_code, right.status_code) == (401, 200)


@pytest.mark.slow
@pytest.mark.weights
def test_engine_ends_with_its_stdin(running: Running) -> None:
    """Closing the pipe is enough, and is what happens when this process dies."""
    assert running.process.stdin is not None
    running.process.stdin.close()

    assert running.process.wait(10) == 0
    assert not running.alive


@pytest.mark.slow
@pytest.mark.weights
@unix
@pytest.mark.parametrize("forked", [False, True], ids=["alone", "with a forked child"])
def test_killed_parent_leaves_no_engine(forked: bool) -> None:
    """After kill -9 of the process that started it the engine ends, also when a forked child holds its stdin."""
    code = f"""
import os, sys, time
from agentnb.models.engine_process import EngineSettings, start
running = start(EngineSettings({str(small_model())!r}, threads=1))
child = os.fork() if {forked} else -1
if child == 0:
    time.sleep(60)
    os._exit(0)
print(running.process.pid, child, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        engine_pid, child = map(int, parent.stdout.readline().split())
        assert is_running(engine_pid)
        parent.kill()
    try:
        assert until(lambda: not is_running(engine_pid))
    finally:
        if child > 0:
            os.kill(child, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.weights
@unix
def test_interrupt_of_the_terminal_does_not_reach_the_engine(running: Running) -> None:
    """The engine has a session of its own, so Ctrl-C in a terminal ends a call and not the model."""
    assert os.getsid(running.process.pid) != os.getsid(0)


@pytest.mark.slow
def test_broken_file_is_told_with_the_engines_own_reason(tmp_path: Path) -> None:
    """The cause that llama.cpp writes to its log stands in the error."""
    pytest.importorskip("xllamacpp")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model at all")

    with pytest.raises(SettingsError, match=r"broken\.gguf\): .*magic.*Check the file"):
        start(EngineSettings(str(broken)))


@pytest.mark.slow
def test_failed_start_is_tried_again(tmp_path: Path) -> None:
    """A start that failed is not remembered: with the file mended the next use serves."""
    pytest.importorskip("xllamacpp")
    path = tmp_path / "model.gguf"
    path.write_bytes(b"broken")
    engine = shared(EngineSettings(str(path)))
    for _ in range(2):
        with pytest.raises(SettingsError):
            asyncio.run(engine.running())

    assert engine.starts == 2


@pytest.mark.slow
@pytest.mark.weights
def test_loops_and_tasks_share_one_process() -> None:
    """Two tasks of one loop, and a later loop, get the same process; a dead one is replaced; stop ends it."""
    settings = EngineSettings(str(small_model()), threads=1)

    async def both() -> list[Running]:
        return list(await asyncio.gather(*(shared(settings).running() for _ in range(2))))

    first, second = asyncio.run(both())
    third = asyncio.run(shared(settings).running())
    assert first is second is third

    first.process.kill()
    first.process.wait()
    fourth = asyncio.run(shared(settings).running())
    assert fourth is not first
    assert (fourth.alive, shared(settings).starts) == (True, 2)

    shared(settings).stop()
    assert not fourth.alive


def test_cancelled_wait_leaves_the_start_running() -> None:
    """A run that is interrupted while the engine starts does not take it from the others."""

    async def waits() -> str:
        import threading

        gate = threading.Event()

        def work() -> str:
            gate.wait(10)
            return "started"

        future = in_thread(work)
        hasty = asyncio.ensure_future(outcome(future))
        await asyncio.sleep(0)
        hasty.cancel()
        await asyncio.wait([hasty])
        assert hasty.cancelled()
        gate.set()
        return await outcome(future)

    assert asyncio.run(waits()) == "started"
