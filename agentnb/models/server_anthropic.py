"""The scripted server's Anthropic Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentnb.core.messages import Usage
from agentnb.models.server_dialect import (
    MODEL,
    Answer,
    Json,
    arguments_of,
    chat_call,
    chat_tool,
    dicts,
    frame,
    pieces,
    text_of,
)

_SIGNATURE = "c2NyaXB0ZWQ="
_STOPS = {"tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal", "refusal": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}

# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────────


def messages(body: Mapping[str, Any]) -> list[Json]:
    """The messages in chat-completions form, each result and each text of a turn by itself; thinking is left out."""
    told = [{"role": "system", "content": text_of(body["system"])}] if body.get("system") else []
    for message in dicts(body.get("messages")):
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(dicts(content))
        told += _assistant(blocks) if message.get("role") == "assistant" else _user(blocks)
    return told


def _assistant(blocks: list[Json]) -> list[Json]:
    calls = [
        chat_call(block.get("id"), block.get("name"), json.dumps(block.get("input") or {}, ensure_ascii=False))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    said = text_of([block for block in blocks if block.get("type") == "text"])
    return [{"role": "assistant", "content": said or None, **({"tool_calls": calls} if calls else {})}]


def _user(blocks: list[Json]) -> list[Json]:
    return [
        {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text_of(block.get("content"))}
        if block.get("type") == "tool_result"
        else {"role": "user", "content": text_of([block])}
        for block in blocks
    ]


def tools(body: Mapping[str, Any]) -> list[Json]:
    """The tools in chat-completions form."""
    return [chat_tool(tool, tool.get("input_schema")) for tool in dicts(body.get("tools"))]


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


def whole(answer: Answer) -> Json:
    """The answer in one piece."""
    head = {"id": f"msg_{answer.number}", "type": "message", "role": "assistant", "model": MODEL}
    return {**head, "content": _blocks(answer), **_end(answer), "usage": _usage(answer.usage)}


def frames(answer: Answer) -> list[bytes]:
    """The answer as typed events."""
    return [frame({"type": kind, **event}, kind) for kind, event in _events(answer)]


def failure(message: str, kind: str, status: int) -> Json:
    """An error body; its type follows from the status alone."""
    fault = {"type": _ERRORS.get(status, "api_error"), "message": message}
    return {"type": "error", "error": fault, "request_id": "req_scripted"}


def _blocks(answer: Answer) -> list[Json]:
    """The content: thinking, text, the calls. Arguments that are no JSON object are served as the text they are."""
    reply = answer.reply
    blocks: list[Json] = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": _SIGNATURE})
    if reply.text and not answer.refusal:
        blocks.append({"type": "text", "text": reply.text, "citations": None})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_of(call)} for call in answer.calls
    ]
    return blocks


def _end(answer: Answer) -> Json:
    stop = "refusal" if answer.refusal else _STOPS.get(answer.reply.finish, "end_turn")
    details = {"type": "refusal", "category": None, "explanation": answer.refusal} if stop == "refusal" else None
    return {"stop_reason": stop, "stop_sequence": None, "stop_details": details}


def _usage(usage: Usage | None) -> Json | None:
    """Here the input leaves out what was read from or written to the cache."""
    if usage is None:
        return None
    read, written = usage.cached_input or 0, usage.cache_write or 0
    counts: Json = {
        "input_tokens": None if usage.input is None else usage.input - read - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output,
    }
    return (
        counts if usage.reasoning is None else {**counts, "output_tokens_details": {"thinking_tokens": usage.reasoning}}
    )


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _events(answer: Answer) -> Iterator[tuple[str, Json]]:
    message = whole(answer)
    nothing = {"stop_reason": None, "stop_sequence": None, "stop_details": None}
    usage = message["usage"] and {**message["usage"], "output_tokens": 1}
    yield "message_start", {"message": {**message, **nothing, "content": [], "usage": usage}}
    yield "ping", {}
    for index, block in enumerate(message["content"]):
        empty, deltas = _pieces(block)
        yield "content_block_start", {"index": index, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    yield "message_delta", {"delta": _end(answer), "usage": message["usage"]}
    yield "message_stop", {}


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """A block as it begins, and what is added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    if block["type"] == "thinking":
        grown = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*grown, signed]
    text = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"], ensure_ascii=False)
    grown = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text)]]
    return {**block, "input": {}}, grown
