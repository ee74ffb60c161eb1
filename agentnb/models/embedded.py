"""The embedded model: a real language model on this machine, without a key, behind `model="local"`.

    request ──▶ start the engine (a process) ──▶ send the prefix, once ──▶ ask, over HTTP on 127.0.0.1

The engine is shared by every run of this process (`engine_process.py`): started when first asked, started again once
when it died, and gone with this process. Where the user sets no temperature the engine's own default, 0, holds:
nothing is added to a request, so what is shown is what was sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentnb import settings
from agentnb.core.messages import user
from agentnb.core.model import Delta, ModelReply, ModelRequest, OnDelta, Prompt
from agentnb.errors import ModelError, SettingsError
from agentnb.instructions import Example, ExampleStep
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.engine_process import Engine, EngineSettings, Running, shared
from agentnb.models.profiles import PROFILES
from agentnb.models.retry import Retry
from agentnb.models.weights import DATA, find, known

STARTING = "starting the embedded model"
WARMING = "warming up"
AGAIN = "the embedded model's process ended; starting it again"
WAYS = (
    "Fetch them once (1.1 GB): python -m agentnb fetch-model; or name a model you have a key for, "
    'such as model="openai:gpt-5-mini"; or a local server, such as model="ollama:qwen3".'
)
_FENCED = "qwen2.5-coder"
_DYING_SECONDS = 0.5


class EmbeddedModel:
    """A GGUF file, asked through llama.cpp's own server.

    Args:
        path: A GGUF file, or a name such as "smollm2-135m". None: the file in AGENTNB_GGUF, else the fetched default.
        name: Shown where a model's name is shown.
        context: Tokens that prompt and reply may have together.
        threads: None: as many as this process may use cores.
    """

    def __init__(
        self, path: str | Path | None = None, name: str = "local", *, context: int = 4096, threads: int | None = None
    ) -> None:
        self.path = None if path is None else str(path)
        self.name = name
        self.context = context
        self.threads = threads

    def __repr__(self) -> str:
        return f"EmbeddedModel({self.path!r})"

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Answer; starts the engine when none runs, and once more when it died meanwhile.

        Raises:
            ModelError: The call failed; kind "context_too_long" when the prompt does not fit.
            SettingsError: The weights or the engine are missing, or the file is none of a model.
        """
        tell = on_delta or (lambda delta: None)
        engine = shared(self.settings())
        running = await _started(engine, tell)
        try:
            return await self._ask(running, request, on_delta)
        except ModelError as error:
            if not await has_died(running, error):
                raise
        tell(Delta("restart"))
        tell(Delta("note", AGAIN))
        running = await _started(engine, tell)
        try:
            return await self._ask(running, request, on_delta)
        except ModelError as error:
            if not await has_died(running, error):
                raise
            raise _died_twice(running, error) from error

    async def start(self) -> None:
        """Start the engine now, so that the first question need not wait for it."""
        await shared(self.settings()).running()

    def stop(self) -> None:
        """End the engine, for every run that shares it; the next request starts another."""
        shared(self.settings()).stop()

    def settings(self) -> EngineSettings:
        """What decides the engine: the file and how it is run.

        Raises:
            SettingsError: The weights are not on this machine.
        """
        path = find(self.path)
        if path is None:
            raise _missing(self.path)
        template = (DATA / "qwen-fence.jinja").read_text(encoding="utf-8") if _FENCED in path.name.lower() else ""
        return EngineSettings(str(path.resolve()), template, self.context, self.threads)

    async def _ask(self, running: Running, request: ModelRequest, on_delta: OnDelta | None) -> ModelReply:
        client = self._client(running)
        await _warm(running, client, request, on_delta)
        return await client.reply(request, on_delta)

    def _client(self, running: Running) -> ChatCompletionsModel:
        client = running.clients.get(self.name)
        if client is None:
            address, profile = f"{running.url}/v1", PROFILES["llamacpp"]
            once, origin = Retry(attempts=1), f"chat:{self.name}"  # its port is another one each time
            client = ChatCompletionsModel(
                running.name, address, running.key, profile, self.name, retry=once, origin=origin
            )
            client.has_address = False
            running.clients[self.name] = client
        return client


async def _started(engine: Engine, tell: OnDelta) -> Running:
    return await engine.running(lambda: tell(Delta("note", STARTING)))


async def _warm(
    running: Running, client: ChatCompletionsModel, request: ModelRequest, on_delta: OnDelta | None
) -> None:
    """Send a prefix (system prompt, examples, tools) that this engine has not seen, so that it is in its cache.

    It can take 20 s on two cores. Apart from the request it has a name of its own, and no time-out of a reply runs.
    """
    prefix = (request.preamble, json.dumps(request.tools))
    if prefix in running.warmed or not (request.preamble or request.specs):
        return
    running.warmed.add(prefix)
    if on_delta is not None:
        on_delta(Delta("note", WARMING))
    opening = replace(request, prompt=Prompt([user("")]), end=1, parameters={"max_tokens": 1}, schema=None)
    try:
        await client.reply(opening)
    except BaseException as error:
        running.warmed.discard(prefix)
        if not isinstance(error, ModelError):
            raise  # a ModelError will come again, from the request itself


async def has_died(running: Running, error: ModelError) -> bool:
    """Whether the call failed because the process ended; a moment passes between its last byte and its end."""
    if error.kind != "connection":
        return False
    for _ in range(10):
        if not running.alive:
            return True
        await asyncio.sleep(_DYING_SECONDS / 10)
    return False


def _died_twice(running: Running, error: ModelError) -> ModelError:
    code = running.process.returncode
    return ModelError(
        f"the embedded model's process ended twice (exit code {code})",
        kind="connection",
        partial=error.partial,
        remedy="Most often the memory is too small for it (the default needs 1.4 GB): close other kernels.",
    )


def _missing(path: str | None) -> SettingsError:
    own = settings.get("AGENTNB_GGUF") if path is None else path
    if own is None:
        return SettingsError("the embedded model's weights are not on this machine", remedy=WAYS)
    if own in known() or own in ("default", "small"):
        return SettingsError(
            f"the weights of {own!r} are not on this machine", remedy=f"Run python -m agentnb fetch-model --model {own}"
        )
    source = "AGENTNB_GGUF names" if path is None else "the model is"
    return SettingsError(
        f"{source} {own!r}, but there is no such file", remedy=f"Name a GGUF file, or one of {', '.join(known())}."
    )


# ── worked examples ──────────────────────────────────────────────────────────────────────────────────────────────────


def load_examples(tools: Collection[str] | None = None) -> tuple[Example, ...]:
    """The worked examples with which the default model solves its tasks: two sums of temperatures, a sum, a look-up.

    Args:
        tools: Only examples that use no other tools than these. None: all, with get_weather, calculator and
            search_knowledge.
    """
    examples = tuple(_example(each) for each in _measured()["examples"])
    return tuple(each for each in examples if tools is None or {step.tool for step in each.steps} <= set(tools))


def load_system_prompt() -> str:
    """The system prompt that the examples were measured with."""
    return str(_measured()["system_prompt"])


def _measured() -> dict[str, Any]:
    return json.loads((DATA / "examples.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _example(given: dict[str, Any]) -> Example:
    steps = tuple(ExampleStep(step["tool"], step["arguments"], step["result"]) for step in given["steps"])
    return Example(given["goal"], steps, given["answer"])
