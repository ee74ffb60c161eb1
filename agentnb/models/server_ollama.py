"""The scripted server's own API of Ollama (/api/chat)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentnb.core.messages import ToolCall
from agentnb.models.server_dialect import MODEL, Answer, Json, arguments_of, chat_call, dicts, pieces
from agentnb.strict_json import encode

_CREATED = "1970-01-01T00:00:00Z"
"""The time in every answer: none, so that two runs of a script give the same bytes."""

# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────────


def messages(body: Mapping[str, Any]) -> list[Json]:
    """The messages in chat-completions form; thinking is left out."""
    return [_message(each) for each in dicts(body.get("messages"))]


def _message(message: Json) -> Json:
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        return {"role": role, "tool_call_id": message.get("tool_call_id"), "content": content}
    if role != "assistant":
        return {"role": role, "content": content}
    made = [_told_call(call) for call in dicts(message.get("tool_calls"))]
    return {"role": role, "content": content or None, **({"tool_calls": made} if made else {})}


def _told_call(call: Json) -> Json:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
    return chat_call(call.get("id"), function.get("name"), arguments)


def tools(body: Mapping[str, Any]) -> list[Json]:
    """The tools, as they are."""
    return list(dicts(body.get("tools")))


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


def whole(answer: Answer) -> Json:
    """The answer in one piece. There is no word for a refusal here: it is a text."""
    message: Json = {"role": "assistant", "content": answer.refusal or answer.reply.text}
    if answer.reply.reasoning:
        message["thinking"] = answer.reply.reasoning
    if answer.calls:
        message["tool_calls"] = [_call(call) for call in answer.calls]
    return _line(message, _end(answer))


def frames(answer: Answer) -> list[bytes]:
    """The answer as lines, the last of them with the numbers."""
    message = whole(answer)["message"]
    told: list[Json] = [{"content": "", "thinking": piece} for piece in pieces(message.get("thinking", ""))]
    told += [{"content": piece} for piece in pieces(message["content"])]
    told += [{"content": "", "tool_calls": [call]} for call in message.get("tool_calls", ())]
    lines = [_line({"role": "assistant", **each}, {"done": False}) for each in told]
    return [encode(line) + b"\n" for line in (*lines, _line({"role": "assistant", "content": ""}, _end(answer)))]


def failure(message: str, kind: str, status: int) -> Json:
    """An error body."""
    return {"error": message}


def _line(message: Json, end: Json) -> Json:
    return {"model": MODEL, "created_at": _CREATED, "message": message, **end}


def _call(call: ToolCall) -> Json:
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments_of(call)}}


def _end(answer: Answer) -> Json:
    end: Json = {"done": True, "done_reason": "length" if answer.reply.finish == "length" else "stop"}
    if answer.usage is None:
        return end
    counts = {"prompt_eval_count": answer.usage.input, "eval_count": answer.usage.output}
    return {**end, **{name: count for name, count in counts.items() if count is not None}}
