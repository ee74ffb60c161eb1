"""The scripted server's OpenAI Responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentnb.core.messages import Usage
from agentnb.models.server_dialect import (
    CREATED,
    MODEL,
    Answer,
    Json,
    chat_call,
    chat_tool,
    dicts,
    frame,
    pieces,
    text_of,
)

_ENCRYPTED = "c2NyaXB0ZWQ="
"""Stands for the reasoning that only the provider can read."""
_PART: Json = {"type": "output_text", "annotations": [], "logprobs": []}

# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────────


def messages(body: Mapping[str, Any]) -> list[Json]:
    """The input in chat-completions form; reasoning is left out."""
    told: list[Json] = []
    if instructions := body.get("instructions"):
        told.append({"role": "system", "content": instructions})
    given = body.get("input")
    for item in dicts([{"role": "user", "content": given}] if isinstance(given, str) else given):
        _tell(item, told)
    return told


def _tell(item: Json, told: list[Json]) -> None:
    """Add an item to the messages; a call joins the assistant's message before it."""
    kind = item.get("type", "message")
    if kind == "message":
        told.append({"role": item.get("role"), "content": text_of(item.get("content"))})
    elif kind == "function_call_output":
        told.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": text_of(item.get("output"))})
    elif kind == "function_call":
        if not told or told[-1]["role"] != "assistant":
            told.append({"role": "assistant", "content": None})
        call = chat_call(item.get("call_id"), item.get("name"), str(item.get("arguments") or ""))
        told[-1].setdefault("tool_calls", []).append(call)


def tools(body: Mapping[str, Any]) -> list[Json]:
    """The tools in chat-completions form."""
    return [chat_tool(tool, tool.get("parameters")) for tool in dicts(body.get("tools"))]


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


def whole(answer: Answer) -> Json:
    """The answer in one piece."""
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(answer.reply.finish)
    return {
        **_head(answer),
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": _items(answer),
        "usage": _usage(answer.usage),
    }


def frames(answer: Answer) -> list[bytes]:
    """The answer as typed, numbered events."""
    return [
        frame({"type": kind, "sequence_number": number, **event}, kind)
        for number, (kind, event) in enumerate(_events(whole(answer)))
    ]


def failure(message: str, kind: str, status: int) -> Json:
    """An error body."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _head(answer: Answer) -> Json:
    asked = [{"parameters": None, "strict": None, **tool} for tool in dicts(answer.body.get("tools"))]
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": CREATED,
        "model": MODEL,
        "error": None,
        "instructions": answer.body.get("instructions"),
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": None,
        "top_p": None,
        "tool_choice": answer.body.get("tool_choice") or "auto",
        "tools": asked,
    }


def _items(answer: Answer) -> list[Json]:
    """The output: reasoning, what is said, the calls."""
    reply, number = answer.reply, answer.number
    items: list[Json] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        items.append({"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": _ENCRYPTED})
    if part := _part(answer):
        status = "incomplete" if reply.finish == "length" else "completed"
        said = {"role": "assistant", "status": status, "content": [part]}
        items.append({"id": f"msg_{number}", "type": "message", **said})
    for place, call in enumerate(answer.calls):
        asked = {"call_id": call.id, "name": call.name, "arguments": call.arguments, "status": "completed"}
        items.append({"id": f"fc_{number}_{place}", "type": "function_call", **asked})
    return items


def _part(answer: Answer) -> Json | None:
    if answer.refusal:
        return {"type": "refusal", "refusal": answer.refusal}
    return {**_PART, "text": answer.reply.text} if answer.reply.text or not answer.calls else None


def _usage(usage: Usage | None) -> Json | None:
    if usage is None:
        return None
    cached = {"cached_tokens": usage.cached_input or 0, "cache_write_tokens": usage.cache_write or 0}
    return {
        "input_tokens": usage.input,
        "input_tokens_details": cached,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.total,
    }


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _events(response: Json) -> Iterator[tuple[str, Json]]:
    begun = {**response, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for place, item in enumerate(response["output"]):
        empty = {**item, **_EMPTY[item["type"]]}
        yield "response.output_item.added", {"output_index": place, "item": empty}
        for kind, event in _INSIDE[item["type"]](item):
            yield kind, {"item_id": item["id"], "output_index": place, **event}
        yield "response.output_item.done", {"output_index": place, "item": item}
    yield f"response.{response['status']}", {"response": response}


def _reasoning_events(item: Json) -> Iterator[tuple[str, Json]]:
    part = item["summary"][0]
    at = {"summary_index": 0}
    yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
    yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
    yield "response.reasoning_summary_part.done", {**at, "part": part}


def _message_events(item: Json) -> Iterator[tuple[str, Json]]:
    part = item["content"][0]
    kind, field = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
    at: Json = {"content_index": 0}
    more: Json = {} if kind == "refusal" else {"logprobs": []}
    yield "response.content_part.added", {**at, "part": {**part, field: ""}}
    for piece in pieces(part[field]):
        yield f"response.{kind}.delta", {**at, "delta": piece, **more}
    yield f"response.{kind}.done", {**at, field: part[field], **more}
    yield "response.content_part.done", {**at, "part": part}


def _call_events(item: Json) -> Iterator[tuple[str, Json]]:
    for piece in pieces(item["arguments"]):
        yield "response.function_call_arguments.delta", {"delta": piece}
    yield "response.function_call_arguments.done", {"name": item["name"], "arguments": item["arguments"]}


_INSIDE = {"reasoning": _reasoning_events, "message": _message_events, "function_call": _call_events}
_EMPTY: dict[str, Json] = {
    "reasoning": {"summary": [], "encrypted_content": None},
    "message": {"status": "in_progress", "content": []},
    "function_call": {"status": "in_progress", "arguments": ""},
}
"""What an item holds when it is announced."""
