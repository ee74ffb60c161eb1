"""What stands on a span, by the conventions for generative AI of OpenTelemetry: pure functions of our values.

These names still move ("development" status); this is the one place that knows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agentnb.core.messages import Message, ToolCall, Usage
from agentnb.core.model import ModelReply, ModelRequest
from agentnb.text import mask

Attributes = dict[str, Any]
PROVIDERS = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "kimi": "moonshot_ai",
    "mistral": "mistral_ai",
    "ollama-native": "ollama",
    "openai-responses": "openai",
}
"""Our names of providers to those of the conventions, where they differ."""
TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached_input": "cache_read.input_tokens",
    "cache_write": "cache_write.input_tokens",
    "reasoning": "reasoning.output_tokens",
}
"""Field of Usage to the end of its name."""
_PARAMETERS = {
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
}
_UNNAMED = "callable"


def of_model(name: str) -> Attributes:
    """Provider and model of "provider:model"; a name without a provider stands for both."""
    provider, _, model = name.partition(":")
    provider = PROVIDERS.get(provider, provider) or _UNNAMED
    return {"gen_ai.provider.name": provider, "gen_ai.request.model": model or name or _UNNAMED}


def of_call(reply: ModelReply) -> Attributes:
    """What a model call was asked with, and what came back, without anything that was said."""
    found = {"gen_ai.operation.name": "chat", **of_model(reply.model), **of_usage(reply.usage)}
    found["gen_ai.response.finish_reasons"] = [reply.finish]
    if reply.answered_as:
        found["gen_ai.response.model"] = reply.answered_as
    if (request := sent(reply)) is not None and request.parameters:
        found.update(_of_parameters(request.parameters))
    return found


def of_usage(usage: Usage | None) -> Attributes:
    """The tokens that are known."""
    return {f"gen_ai.usage.{TOKENS[name]}": value for name, value in known_tokens(usage)}


def known_tokens(usage: Usage | None) -> list[tuple[str, int]]:
    """Each number of a Usage that the provider said, by the name of its field."""
    return [] if usage is None else [(name, value) for name in TOKENS if (value := getattr(usage, name)) is not None]


def of_tool(call: ToolCall) -> Attributes:
    """Which tool, and for which call."""
    about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
    return {**about, "gen_ai.tool.name": call.name, "gen_ai.tool.call.id": call.id}


def sent(reply: ModelReply) -> ModelRequest | None:
    """The request behind a reply, whatever form the model keeps it in."""
    request = getattr(reply.request, "request", reply.request)
    return request if isinstance(request, ModelRequest) else None


# ── content ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def content_of_call(reply: ModelReply) -> Attributes:
    """What was said in a model call: the whole prompt, the tools, the reply; secrets masked."""
    said = [*_parts(reply.message(reply.calls))]
    found = {"gen_ai.output.messages": _text([{"role": "assistant", "parts": said, "finish_reason": reply.finish}])}
    if (request := sent(reply)) is not None:
        system = [message for message in request.history if message.role == "system"]
        found["gen_ai.input.messages"] = messages(each for each in request.history if each.role != "system")
        if system:
            found["gen_ai.system_instructions"] = _text([part for each in system for part in _parts(each)])
        if request.specs:
            found["gen_ai.tool.definitions"] = _text(
                [{"type": "function", **tool["function"]} for tool in request.tools]
            )
    return found


def messages(said: Iterable[Message]) -> str:
    """These messages as JSON text in the form of the conventions; secrets masked."""
    return _text([{"role": message.role, "parts": _parts(message)} for message in said])


def _parts(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool" and not message.plain:
        return [{"type": "tool_call_response", "id": message.call_id, "result": message.content}]
    parts = [{"type": "reasoning", "content": message.reasoning}] if message.reasoning else []
    if message.content:
        parts.append({"type": "text", "content": message.content})
    calls = () if message.plain else message.calls
    return parts + [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": json.loads(call.wire_arguments)}
        for call in calls
    ]


def _text(value: Any) -> str:
    return mask(json.dumps(value, ensure_ascii=False, default=str))


def _of_parameters(parameters: Mapping[str, Any]) -> Attributes:
    numbers = {
        f"gen_ai.request.{name}": parameters[own]
        for own, name in _PARAMETERS.items()
        if isinstance(parameters.get(own), int | float)
    }
    stop = parameters.get("stop", parameters.get("stop_sequences"))
    if stop:
        numbers["gen_ai.request.stop_sequences"] = [stop] if isinstance(stop, str) else [str(each) for each in stop]
    return numbers
