"""What a server of Gemini's or Ollama's own API answers, and what a request in these dialects says.

The answers are made of a `Say` (test_contract.py): text, calls, reasoning, finish, usage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from typing import Any

from http_fakes import SSE

from agentnb.models.server import Raw

NDJSON = {"content-type": "application/x-ndjson"}
Told = tuple[Any, ...]


def halves(text: str) -> list[str]:
    """The text in two pieces; none of nothing."""
    return [text[: len(text) // 2], text[len(text) // 2 :]] if text else []


def events(*payloads: Any) -> Raw:
    """An event stream of these objects."""
    return Raw(pieces=[f"data: {json.dumps(each, ensure_ascii=False)}\n\n".encode() for each in payloads], headers=SSE)


def lines(*payloads: Any) -> Raw:
    """A stream of one object a line."""
    return Raw(pieces=[f"{json.dumps(each, ensure_ascii=False)}\n".encode() for each in payloads], headers=NDJSON)


# ── Gemini ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def gemini_parts(say: Any) -> list[dict[str, Any]]:
    """The answer as parts."""
    parts: list[dict[str, Any]] = [{"text": say.reasoning, "thought": True}] if say.reasoning else []
    parts += [{"text": say.text}] if say.text else []
    for number, (id, name, args) in enumerate(say.calls):
        signed = {"thoughtSignature": "c2ln"} if number == 0 else {}
        parts.append({"functionCall": {"id": id, "name": name, "args": args}, **signed})
    return parts


def gemini_answer(say: Any, streamed: bool) -> Raw:
    """The answer as generateContent and streamGenerateContent give it."""
    names = ("promptTokenCount", "candidatesTokenCount")
    usage = say.usage and dict(zip(names, say.usage, strict=True))
    if say.finish == "refusal":
        blocked = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": say.text}, "usageMetadata": usage}
        return events(blocked) if streamed else Raw(blocked)
    finish = "MAX_TOKENS" if say.finish == "length" else "STOP"
    parts = gemini_parts(say)
    if not streamed:
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}
        return Raw({"candidates": [candidate], "usageMetadata": usage})
    pieces = [
        {**part, "text": text} if "text" in part else part
        for part in parts
        for text in (halves(part["text"]) if "text" in part else [""])
    ]
    chunks: list[Any] = [{"candidates": [{"content": {"role": "model", "parts": [piece]}}]} for piece in pieces]
    end = {"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": finish}]}
    return events(*chunks, end, {"usageMetadata": usage})


def gemini_told(body: Mapping[str, Any]) -> list[Told]:
    """What a request says, after checking that results stand in one content; calls without an id get one by place."""
    told: list[Told] = []
    if "systemInstruction" in body:
        told.append(("system", *(part["text"] for part in body["systemInstruction"]["parts"])))
    answers = [any("functionResponse" in part for part in content["parts"]) for content in body["contents"]]
    assert not any(one and other for one, other in pairwise(answers))
    numbers, waiting = count(1), list[str]()
    for content in body["contents"]:
        kinds = {"functionResponse" in part for part in content["parts"]}
        assert (content["role"], len(kinds)) in (("user", 1), ("model", 1))
        for part in content["parts"]:
            if part.get("thought"):
                continue
            if "text" in part:
                told.append(({"model": "assistant"}.get(content["role"], content["role"]), part["text"]))
            elif "functionCall" in part:
                call = part["functionCall"]
                waiting.append(call.get("id") or f"unnamed {next(numbers)}")
                told.append(("call", waiting[-1], call["name"], call["args"]))
            elif "functionResponse" in part:
                told.append(_answer(part["functionResponse"], "id", waiting, "response"))
    return told


def _answer(result: Mapping[str, Any], id: str, waiting: list[str], content: str) -> Told:
    """A result; one without an id answers the first call that still waits."""
    expected = waiting.pop(0)
    said = result[content]
    text = next(iter(said.values())) if isinstance(said, Mapping) else said  # {"output": text} or {"error": text}
    return ("result", result.get(id) or expected, text)


# ── Ollama ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def ollama_message(say: Any) -> dict[str, Any]:
    """The answer as an assistant message."""
    message: dict[str, Any] = {"role": "assistant", "content": say.text}
    if say.reasoning:
        message["thinking"] = say.reasoning
    if say.calls:
        message["tool_calls"] = [
            {"id": id, "function": {"name": name, "arguments": arguments}} for id, name, arguments in say.calls
        ]
    return message


def ollama_answer(say: Any, streamed: bool) -> Raw:
    """The answer of /api/chat."""
    counts = dict(zip(("prompt_eval_count", "eval_count"), say.usage or (), strict=False))
    end = {"done": True, "done_reason": "length" if say.finish == "length" else "stop", **counts}
    message = ollama_message(say)
    if not streamed:
        return Raw({"model": "m", "message": message, **end})
    pieces: list[dict[str, Any]] = [{"content": "", "thinking": text} for text in halves(say.reasoning)]
    pieces += [{"content": text} for text in halves(say.text)]
    pieces += [{"content": "", "tool_calls": [call]} for call in message.get("tool_calls", ())]
    chunks: list[Any] = [{"message": {"role": "assistant", **piece}, "done": False} for piece in pieces]
    empty = {"message": {"role": "assistant", "content": ""}}
    return lines(*chunks, {**empty, "done": False}, {"model": "m", **empty, **end})


def ollama_told(body: Mapping[str, Any]) -> list[Told]:
    """What a request says; calls without an id get one by place."""
    told: list[Told] = []
    numbers, waiting = count(1), list[str]()
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_name"]
            told.append(_answer(message, "tool_call_id", waiting, "content"))
        elif message["content"]:
            told.append((message["role"], message["content"]))
        for call in message.get("tool_calls", ()):
            waiting.append(call.get("id") or f"unnamed {next(numbers)}")
            told.append(("call", waiting[-1], call["function"]["name"], call["function"]["arguments"]))
    return told
