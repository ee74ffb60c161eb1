"""The scripted server's chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.core.messages import Usage
from agentnb.models.server_dialect import CREATED, MODEL, Answer, Json, chat_call, dicts, frame, pieces


def messages(body: Mapping[str, Any]) -> list[Json]:
    """The messages of a request, as they are."""
    return list(dicts(body.get("messages")))


def tools(body: Mapping[str, Any]) -> list[Json]:
    """The tools of a request, as they are."""
    return list(dicts(body.get("tools")))


def whole(answer: Answer) -> Json:
    """The answer in one piece."""
    choice = {"index": 0, "message": _message(answer), "finish_reason": _finish(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer.usage)}


def frames(answer: Answer) -> list[bytes]:
    """The answer as chunks; usage comes when it was asked for."""
    head = _head(answer, "chat.completion.chunk")
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in _deltas(_message(answer))
    ]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(answer)}]})
    if (answer.body.get("stream_options") or {}).get("include_usage") and answer.usage is not None:
        chunks.append({**head, "choices": [], "usage": _usage(answer.usage)})
    return [*map(frame, chunks), b"data: [DONE]\n\n"]


def failure(message: str, kind: str, status: int) -> Json:
    """An error body."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _head(answer: Answer, kind: str) -> Json:
    return {"id": f"chatcmpl-{answer.number}", "object": kind, "created": CREATED, "model": MODEL}


def _finish(answer: Answer) -> str:
    return "stop" if answer.reply.finish == "refusal" else answer.reply.finish


def _message(answer: Answer) -> Json:
    """The script's own message where it is one, so that odd forms are served as written."""
    reply = answer.reply
    if reply.raw is not None:
        calls = reply.raw.get("tool_calls")
        named = [{"id": call.id, **own} for call, own in zip(answer.calls, calls or (), strict=True)]
        kept = {key: value for key, value in reply.raw.items() if key not in ("usage", "finish_reason")}
        return {"role": "assistant", "content": None, **kept, **({"tool_calls": named} if calls else {})}
    refusal = answer.refusal
    message: Json = {"role": "assistant", "content": None if refusal else reply.text or None}
    if refusal:
        message["refusal"] = refusal
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if answer.calls:
        message["tool_calls"] = [chat_call(call.id, call.name, call.arguments) for call in answer.calls]
    return message


def _usage(usage: Usage | None) -> Json | None:
    if usage is None:
        return None
    prompt = {"cached_tokens": usage.cached_input, "cache_write_tokens": usage.cache_write}
    details = {
        "prompt_tokens_details": {key: count for key, count in prompt.items() if count is not None},
        "completion_tokens_details": {} if usage.reasoning is None else {"reasoning_tokens": usage.reasoning},
    }
    counts = {"prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.total}
    return {**counts, **{key: value for key, value in details.items() if value}}


def _deltas(message: Json) -> list[Json]:
    """The message in small pieces."""
    deltas: list[Json] = [{"role": "assistant", "content": "" if message["content"] else message["content"]}]
    for key, value in message.items():
        if key == "tool_calls":
            deltas += [piece for index, call in enumerate(value) for piece in _call_deltas(index, call)]
        elif key != "role" and value:
            deltas += [{key: text} for text in (pieces(value) if isinstance(value, str) else [value])]
    return deltas


def _call_deltas(index: int, call: Json) -> list[Json]:
    function = call["function"]
    text = function.get("arguments")
    if not isinstance(text, str):
        return [{"tool_calls": [{"index": index, **call}]}]
    begin = {"index": index, **call, "function": {**function, "arguments": ""}}
    more = [{"index": index, "function": {"arguments": piece}} for piece in pieces(text)]
    return [{"tool_calls": [each]} for each in (begin, *more)]
