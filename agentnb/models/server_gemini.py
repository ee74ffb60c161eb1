"""The scripted server's Gemini (generateContent)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentnb.core.messages import ToolCall, Usage
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
_FINISHES = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
_ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}

# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────────


def messages(body: Mapping[str, Any]) -> list[Json]:
    """The contents in chat-completions form, each result and each text of a person by itself; thoughts are left out."""
    system = _parts(body.get("systemInstruction"))
    told = [{"role": "system", "content": text_of(system)}] if system else []
    for content in dicts(body.get("contents")):
        parts = [part for part in _parts(content) if not part.get("thought")]
        told += _assistant(parts) if content.get("role") == "model" else [_said(part) for part in parts]
    return told


def _parts(content: Any) -> list[Json]:
    return list(dicts(content.get("parts"))) if isinstance(content, Mapping) else []


def _assistant(parts: list[Json]) -> list[Json]:
    asked = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
    made = [
        chat_call(call.get("id"), call.get("name"), json.dumps(call.get("args") or {}, ensure_ascii=False))
        for call in asked
    ]
    return [{"role": "assistant", "content": text_of(parts) or None, **({"tool_calls": made} if made else {})}]


def _said(part: Json) -> Json:
    """A text of the person, or a result."""
    result = part.get("functionResponse")
    if not isinstance(result, dict):
        return {"role": "user", "content": text_of([part])}
    response = result.get("response")
    given = response.get("output", response.get("error")) if isinstance(response, dict) else None
    content = given if isinstance(given, str) else json.dumps(response, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": result.get("id"), "content": content}


def tools(body: Mapping[str, Any]) -> list[Json]:
    """The functions in chat-completions form."""
    declared = [each for tool in dicts(body.get("tools")) for each in dicts(tool.get("functionDeclarations"))]
    return [chat_tool(each, each.get("parametersJsonSchema") or each.get("parameters")) for each in declared]


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


def whole(answer: Answer) -> Json:
    """The answer in one piece."""
    if answer.refusal:
        return {**_blocked(answer.refusal), **_end(answer)}
    return {"candidates": [_candidate(_answer_parts(answer), _finish(answer))], **_end(answer)}


def frames(answer: Answer) -> list[bytes]:
    """The answer as an event stream, each event an answer with a piece of the parts."""
    if answer.refusal:
        return [frame(whole(answer))]
    head = {"modelVersion": MODEL, "responseId": f"scripted-{answer.number}"}
    chunks = [{"candidates": [_candidate([piece], None)], **head} for piece in _part_pieces(answer)]
    return [*map(frame, chunks), frame({"candidates": [_candidate([{"text": ""}], _finish(answer))], **_end(answer)})]


def failure(message: str, kind: str, status: int) -> Json:
    """An error body."""
    return {"error": {"code": status, "message": message, "status": _ERRORS.get(status, "INTERNAL")}}


def _finish(answer: Answer) -> str:
    return _FINISHES.get(answer.reply.finish, "STOP")


def _candidate(parts: list[Json], finish: str | None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    return candidate if finish is None else {**candidate, "finishReason": finish}


def _blocked(refusal: str) -> Json:
    return {"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": refusal}}


def _answer_parts(answer: Answer) -> list[Json]:
    """A thought, the text, the calls; the first of them is signed."""
    reply = answer.reply
    parts: list[Json] = [{"text": reply.reasoning, "thought": True}] if reply.reasoning else []
    parts += [{"text": reply.text}] if reply.text else []
    return parts + [_call(call, place == 0) for place, call in enumerate(answer.calls)]


def _part_pieces(answer: Answer) -> list[Json]:
    return [
        {**part, "text": text} if "text" in part else part
        for part in _answer_parts(answer)
        for text in (pieces(part["text"]) if "text" in part else [""])
    ]


def _call(call: ToolCall, first: bool) -> Json:
    asked = {"functionCall": {"id": call.id, "name": call.name, "args": arguments_of(call)}}
    return {**asked, "thoughtSignature": _SIGNATURE} if first else asked


def _end(answer: Answer) -> Json:
    """What the last piece has, too."""
    end = {"modelVersion": MODEL, "responseId": f"scripted-{answer.number}"}
    return end if answer.usage is None else {**end, "usageMetadata": _usage(answer.usage)}


def _usage(usage: Usage) -> Json:
    """Here the thoughts are counted beside the answer; what is 0 or unknown is not written."""
    thoughts = usage.reasoning or 0
    counts = {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached_input,
        "candidatesTokenCount": None if usage.output is None else usage.output - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": usage.total,
    }
    return {name: count for name, count in counts.items() if count}
