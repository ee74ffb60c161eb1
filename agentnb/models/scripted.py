"""Models without a network: ScriptedModel plays a list, CallableModel is any function of yours.

Both are for tests, lessons and stand-ins. What they return is read like a provider's answer: a str is the reply's
text, a dict is an assistant message in chat-completions form, a ModelReply is itself, a generator streams its pieces.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentnb.core.messages import ToolCall, Usage
from agentnb.core.model import Delta, ModelReply, ModelRequest, OnDelta
from agentnb.errors import ModelError
from agentnb.text import clean
from agentnb.threads import is_async, run_in_thread


def calls(name: str, /, **arguments: Any) -> dict[str, Any]:
    """An assistant message with one tool call, for a script: `calls("add", a=1, b=2)`.

    Several calls in one message: `{"tool_calls": calls("a")["tool_calls"] + calls("b")["tool_calls"]}`.
    """
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}


class CallableModel:
    """Any callable, sync or async, as a model: it takes the ModelRequest and returns what stands at the top.

    A sync one runs in a worker thread, so that a run can be stopped while it works.
    """

    def __init__(self, function: Callable[[ModelRequest], Any], name: str | None = None) -> None:
        self.function = function
        self.name: str = name or getattr(function, "__name__", None) or type(function).__name__
        self._async = is_async(function)

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Call the function and read what it returns."""
        answer = self.function(request) if self._async else await run_in_thread(self.function, request)
        if inspect.isawaitable(answer):
            answer = await answer
        return await read_answer(answer, request, self.name, on_delta)


class ScriptedModel:
    """Plays its script in order, one entry a call; when the script is out, the call fails.

    Args:
        script: Each entry a str, a dict, a ModelReply, an exception (raised) or a function of the request.
        name: Shown where a model's name is shown.

    It remembers every request in `requests`.
    """

    def __init__(self, script: Sequence[Any], name: str = "scripted") -> None:
        self.script = list(script)
        self.name = name
        self.requests: list[ModelRequest] = []
        self._lock = threading.Lock()

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """The next entry of the script."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
        if number >= len(self.script):
            raise ModelError(
                f"the script of {len(self.script)} replies is played out",
                kind="callable",
                remedy="Add a reply for this call, or find out why the run goes on.",
            )
        entry = self.script[number]
        if isinstance(entry, BaseException) or (isinstance(entry, type) and issubclass(entry, BaseException)):
            raise entry
        if callable(entry):
            return await CallableModel(entry, self.name).reply(request, on_delta)
        return await read_answer(entry, request, self.name, on_delta)


async def read_answer(answer: Any, request: ModelRequest, name: str, on_delta: OnDelta | None) -> ModelReply:
    """The ModelReply that a user's answer stands for.

    Raises:
        ModelError: The answer has none of the known forms.
    """
    if isinstance(answer, Mapping):
        return _read_message(answer, request, name)
    if isinstance(answer, ModelReply):
        calls = tuple(replace(each, name=clean(each.name), arguments=clean(each.arguments)) for each in answer.calls)
        return replace(answer, text=clean(answer.text), reasoning=clean(answer.reasoning), calls=calls)
    if isinstance(answer, Iterator) or hasattr(answer, "__anext__"):
        answer = await _collected(answer, on_delta)
    elif isinstance(answer, str) and on_delta is not None:
        on_delta(Delta("text", clean(answer)))
    if isinstance(answer, str):
        return ModelReply(clean(answer), model=name, request=request)
    raise ModelError(
        f"the model returned {type(answer).__name__}, expected str, dict or ModelReply",
        kind="callable",
        remedy='Return the text, or {"role": "assistant", "content": ..., "tool_calls": [...]}.',
    )


async def _collected(pieces: Iterator[str] | AsyncIterator[str], on_delta: OnDelta | None) -> str:
    tell = on_delta or (lambda delta: None)
    if isinstance(pieces, Iterator):
        return await _collected_in_thread(pieces, tell)
    parts = []
    async for piece in pieces:
        parts.append(clean(piece))
        tell(Delta("text", parts[-1]))
    return "".join(parts)


async def _collected_in_thread(pieces: Iterator[str], tell: OnDelta) -> str:
    loop, left = asyncio.get_running_loop(), threading.Event()

    def collect() -> str:
        parts = []
        for piece in pieces:
            if left.is_set():
                break
            parts.append(clean(piece))
            loop.call_soon_threadsafe(tell, Delta("text", parts[-1]))
        return "".join(parts)

    try:
        text = str(await run_in_thread(collect))
        await asyncio.sleep(0)  # the last pieces are told before the reply comes
        return text
    finally:
        left.set()


def _read_message(message: Mapping[str, Any], request: ModelRequest, name: str) -> ModelReply:
    found = tuple(_read_call(call) for call in message.get("tool_calls") or ())
    text = clean(_joined(content) if isinstance(content := message.get("content"), list) else str(content or ""))
    thought = clean(str(message.get("reasoning_content") or message.get("reasoning") or ""))
    end = str(message.get("finish_reason") or ("tool_calls" if found else "stop"))
    used = _read_usage(message["usage"]) if message.get("usage") else None
    return ModelReply(text, found, thought, end, message.get("refusal"), used, raw=message, model=name, request=request)


def _joined(parts: Sequence[Any]) -> str:
    """The text of a list of content parts."""
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def _read_usage(usage: Mapping[str, Any]) -> Usage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    return Usage(usage.get("prompt_tokens"), usage.get("completion_tokens"), cached, None, thought)


def _read_call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function") or {}
    if not isinstance(arguments := function.get("arguments"), str):
        arguments = json.dumps(arguments) if arguments is not None else ""
    return ToolCall(str(call.get("id") or ""), clean(str(function.get("name") or "")), clean(arguments))
