"""The engine's process, seen from here: one for each file and its settings, shared by everything in this process.

`shared(settings)` gives the Engine; `await engine.running()` starts it on first use, in a thread of its own, and starts
it again when it died. Loops, threads and runs share it. It ends with us: at exit, and when we are killed, because its
stdin then reaches its end.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from agentnb.errors import SettingsError
from agentnb.text import hide

T = TypeVar("T")
_START_SECONDS = 300.0
_STOP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What decides an engine: equal settings share one process."""

    path: str
    """The GGUF file."""
    template: str = ""
    """Chat template (Jinja); "" takes the one inside the file."""
    context: int = 4096
    """Tokens, prompt and reply together."""
    threads: int | None = None
    """None: as many as this process may use cores."""
    embeddings: bool = False
    """It is asked for vectors, not for replies."""


@dataclass(eq=False)
class Running:
    """One engine that serves."""

    process: subprocess.Popen[bytes]
    url: str
    """Such as "http://127.0.0.1:41234"; its API is below /v1."""
    key: str
    name: str
    """The model's name on the wire."""
    clients: dict[str, Any] = field(default_factory=dict)
    """What talks to it, by name; the owner of the entries is `embedded.py`."""
    warmed: set[Any] = field(default_factory=set)
    """The prefixes that its cache has seen."""

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End the process; at once, whatever it is doing."""
        with suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()  # type: ignore[union-attr]  # it is a pipe


class Engine:
    """The process for some settings: started when asked for, one start at a time."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.starts = 0
        self._lock = threading.Lock()
        self._latest: Future[Running] | None = None

    async def running(self, on_start: Callable[[], None] = lambda: None) -> Running:
        """The process that serves now; `on_start` is called when one has to be waited for.

        Raises:
            SettingsError: It can't be started: the engine is not installed, the file is none of a model.
        """
        future = self._start_or_join()
        if not future.done():
            on_start()
        return await outcome(future)

    def stop(self) -> None:
        """End the process, if there is one; the next use starts another."""
        with self._lock:
            future, self._latest = self._latest, None
        if future is not None:
            future.add_done_callback(_stop_started)

    def _start_or_join(self) -> Future[Running]:
        with self._lock:
            if self._latest is not None and self._latest.done() and not _serves(self._latest):
                _stop_started(self._latest)  # it died: its pipes are still open
                self._latest = None
            if self._latest is None:
                self.starts += 1
                self._latest = in_thread(lambda: start(self.settings))
            return self._latest


_engines: dict[tuple[int, EngineSettings], Engine] = {}
_engines_lock = threading.Lock()


def shared(settings: EngineSettings) -> Engine:
    """The one Engine of this process for these settings; a forked child has its own."""
    with _engines_lock:
        if not _engines:
            atexit.register(stop_all)
        return _engines.setdefault((os.getpid(), settings), Engine(settings))


def stop_all() -> None:
    """End every engine that this process started."""
    for (owner, _), engine in list(_engines.items()):
        if owner == os.getpid():
            engine.stop()


def start(settings: EngineSettings) -> Running:
    """Start an engine and wait until it serves; takes seconds.

    Raises:
        SettingsError: It said why not, or ended without a word.
    """
    key = secrets.token_hex(16)
    hide(key)
    with tempfile.TemporaryFile() as log:
        process = _spawn(log)
        name = Path(settings.path).stem
        config = {**asdict(settings), "key": key, "name": name}
        line = _exchange(process, json.dumps(config) + "\n")
        answer = json.loads(line) if line else {}
        if "url" in answer:
            return Running(process, answer["url"], key, name)
        Running(process, "", key, name).stop()
        raise _start_error(settings, answer, process.returncode, log)


def _spawn(log: IO[bytes]) -> subprocess.Popen[bytes]:
    # By its path, and with -P: neither our folder nor the user's shadows a module that the engine imports.
    command = [sys.executable, "-P", str(Path(__file__).with_name("engine.py"))]
    apart: dict[str, Any] = {"start_new_session": True}  # Ctrl-C in a terminal ends a call, not the model
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, **apart)


def _exchange(process: subprocess.Popen[bytes], line: str) -> bytes:
    """Send one line, wait for one line; b"" when the process ended, or had to be ended, without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    limit = threading.Timer(_START_SECONDS, process.kill)
    limit.daemon = True
    limit.start()
    try:
        process.stdin.write(line.encode())
        process.stdin.flush()
        return process.stdout.readline()
    except BrokenPipeError:
        return process.stdout.readline()
    finally:
        limit.cancel()


def _start_error(settings: EngineSettings, answer: dict[str, str], code: int, log: IO[bytes]) -> SettingsError:
    log.seek(0)
    said = [line.decode(errors="replace").strip() for line in log.read().splitlines() if b" E " in line]
    why = f": {said[0].partition(' E ')[2].strip()}" if said else ""
    error = answer.get("error") or f"the engine ended with exit code {code} before it served"
    return SettingsError(
        f"{error} ({settings.path}){why}",
        remedy=answer.get("remedy") or "Check the file; fetched weights: delete it and fetch them again.",
        layer="models",
    )


def _serves(future: Future[Running]) -> bool:
    return future.exception() is None and future.result().alive


def _stop_started(future: Future[Running]) -> None:
    if future.exception() is None:
        future.result().stop()


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Start `work` in a daemon thread that no loop and no exit waits for."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="agentnb-engine", daemon=True).start()
    return future


async def outcome(future: Future[T]) -> T:
    """Await a future of another thread; to cancel the wait leaves the work running, for the others who wait."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake(_: Future[T]) -> None:
        with suppress(RuntimeError):  # the loop that waited is closed
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(wake)
    await done.wait()
    return future.result()
