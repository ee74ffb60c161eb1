"""The mock server's answers in five dialects: each dialect writes one call, or a text in pieces, whole or as a stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Call = tuple[str, str, dict[str, Any]]
"""Id, name, arguments."""
Json = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def dumps(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def event(value: Json) -> bytes:
    """One event, with its name where it has a type."""
    name = f"event: {value['type']}\n".encode() if "type" in value else b""
    return name + b"data: " + dumps(value) + b"\n\n"


class Chat:
    """Chat completions."""

    path, result, kind = b"/chat/completions", b'"role": ?"tool"', b"text/event-stream"

    def whole(self, call: Call | None, text: str, tokens: int) -> bytes:
        """One answer as JSON."""
        message: Json = {"role": "assistant", "content": text or None, "refusal": None}
        if call:
            message["tool_calls"] = [self.call(call)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if call else "stop"}
        usage = self.usage(tokens)
        return dumps({"id": "c", "object": "chat.completion", "model": "mock", "choices": [choice], "usage": usage})

    def stream(self, call: Call | None, pieces: Sequence[str], tokens: int) -> list[bytes]:
        """One answer as events."""
        made = [self.chunk({"role": "assistant", "content": None if call else ""})]
        made += [self.chunk({"tool_calls": [{"index": 0, **self.call(call)}]})] if call else []
        made += [self.chunk({"content": piece}) for piece in pieces]
        made.append(self.chunk({}, "tool_calls" if call else "stop"))
        return [*made, event({"choices": [], "usage": self.usage(tokens)}), DONE]

    def call(self, call: Call) -> Json:
        """The call as it is written here."""
        id, name, arguments = call
        return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}

    def chunk(self, delta: Json, finish: str | None = None) -> bytes:
        """One event of a stream."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "mock-1"}
        return event({**frame, "choices": [choice]})

    def usage(self, tokens: int) -> Json:
        """Made-up counts."""
        return {"prompt_tokens": tokens, "completion_tokens": 12, "total_tokens": tokens + 12}


class Responses:
    """OpenAI Responses."""

    path, result, kind = b"/responses", b'"type": ?"function_call_output"', b"text/event-stream"

    def response(self, call: Call | None, text: str, tokens: int) -> Json:
        """The whole response."""
        usage = {"input_tokens": tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 12}
        usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens + 12}
        head = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "mock", "error": None}
        return {**head, "status": "completed", "output": [self.item(call, text)], "usage": usage}

    def item(self, call: Call | None, text: str) -> Json:
        """Its one item."""
        if call:
            named = {"call_id": call[0], "name": call[1], "arguments": json.dumps(call[2])}
            return {"id": f"fc_{call[0]}", "type": "function_call", "status": "completed", **named}
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
        return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}

    def whole(self, call: Call | None, text: str, tokens: int) -> bytes:
        """One answer as JSON."""
        return dumps(self.response(call, text, tokens))

    def stream(self, call: Call | None, pieces: Sequence[str], tokens: int) -> list[bytes]:
        """One answer as events."""
        response = self.response(call, "".join(pieces), tokens)
        item, place = response["output"][0], {"output_index": 0}
        begun = {**item, "arguments": ""} if call else {**item, "content": []}
        at = {"item_id": item["id"], **place, "content_index": 0}
        made: list[Json] = [{"type": "response.created", "response": {**response, "output": [], "usage": None}}]
        made.append({"type": "response.output_item.added", **place, "item": begun})
        if call:
            made.append({"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]})
        made += [{"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []} for piece in pieces]
        made.append({"type": "response.output_item.done", **place, "item": item})
        made.append({"type": "response.completed", "response": response})
        return [event({**each, "sequence_number": number}) for number, each in enumerate(made)]


class Anthropic:
    """Anthropic Messages."""

    path, result, kind = b"/messages", b'"type": ?"tool_result"', b"text/event-stream"

    def message(self, call: Call | None, text: str, tokens: int) -> Json:
        """The whole message."""
        block = {"type": "tool_use", "id": call[0], "name": call[1], "input": call[2]} if call else self.text(text)
        usage = {"input_tokens": tokens, "cache_read_input_tokens": 0, "output_tokens": 12}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "mock", "content": [block]}
        return {**head, "stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None, "usage": usage}

    def text(self, text: str) -> Json:
        """A block of text."""
        return {"type": "text", "text": text}

    def whole(self, call: Call | None, text: str, tokens: int) -> bytes:
        """One answer as JSON."""
        return dumps(self.message(call, text, tokens))

    def stream(self, call: Call | None, pieces: Sequence[str], tokens: int) -> list[bytes]:
        """One answer as events."""
        message = self.message(call, "", tokens)
        end = {"delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}, "usage": message["usage"]}
        block = {**message["content"][0], "input": {}} if call else self.text("")
        deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in pieces]
        if call:
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(call[2])}]
        made: list[Json] = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        made.append({"type": "content_block_start", "index": 0, "content_block": block})
        made += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
        made.append({"type": "content_block_stop", "index": 0})
        return [event(each) for each in (*made, {"type": "message_delta", **end}, {"type": "message_stop"})]


class Gemini:
    """Gemini's generateContent."""

    path, result, kind = b"enerateContent", b'"functionResponse"', b"text/event-stream"

    def body(self, part: Json, tokens: int, finish: str | None = "STOP") -> Json:
        """One body, whole or a piece."""
        candidate: Json = {"content": {"role": "model", "parts": [part]}, "index": 0}
        if finish is None:
            return {"candidates": [candidate], "modelVersion": "mock"}
        usage = {"promptTokenCount": tokens, "candidatesTokenCount": 12, "totalTokenCount": tokens + 12}
        return {"candidates": [{**candidate, "finishReason": finish}], "usageMetadata": usage, "modelVersion": "mock"}

    def part(self, call: Call | None, text: str) -> Json:
        """The one part."""
        if not call:
            return {"text": text}
        return {"functionCall": {"id": call[0], "name": call[1], "args": call[2]}, "thoughtSignature": "c2ln"}

    def whole(self, call: Call | None, text: str, tokens: int) -> bytes:
        """One answer as JSON."""
        return dumps(self.body(self.part(call, text), tokens))

    def stream(self, call: Call | None, pieces: Sequence[str], tokens: int) -> list[bytes]:
        """One answer as events."""
        parts = [self.part(call, "")] if call else [self.part(None, piece) for piece in pieces]
        return [event(self.body(part, tokens, None)) for part in parts] + [event(self.body({"text": ""}, tokens))]


class Ollama:
    """Ollama's own API, whose streams are lines of JSON."""

    path, result, kind = b"/api/chat", b'"role": ?"tool"', b"application/x-ndjson"

    def line(self, message: Json, tokens: int | None = None) -> bytes:
        """One body, whole or a piece; the last one counts."""
        head = {"model": "mock", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", **message}}
        if tokens is None:
            return dumps({**head, "done": False}) + b"\n"
        end = {"done": True, "done_reason": "stop", "prompt_eval_count": tokens, "eval_count": 12}
        return dumps({**head, **end}) + b"\n"

    def call(self, call: Call) -> Json:
        """A message with the call."""
        function = {"index": 0, "name": call[1], "arguments": call[2]}
        return {"content": "", "tool_calls": [{"id": call[0], "function": function}]}

    def whole(self, call: Call | None, text: str, tokens: int) -> bytes:
        """One answer as JSON."""
        return self.line(self.call(call) if call else {"content": text}, tokens)

    def stream(self, call: Call | None, pieces: Sequence[str], tokens: int) -> list[bytes]:
        """One answer as lines."""
        said = [self.call(call)] if call else [{"content": piece} for piece in pieces]
        return [*map(self.line, said), self.line({"content": ""}, tokens)]


DIALECTS = (Chat(), Responses(), Anthropic(), Gemini(), Ollama())
