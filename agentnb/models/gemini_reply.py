"""What an answer of Gemini's own API means: its text, calls, ending and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.core.messages import ToolCall, Usage
from agentnb.models.chat_assembly import as_text, word
from agentnb.models.gemini_assembly import block_reason, candidate_in, parts_in
from agentnb.models.usage import count
from agentnb.text import clean

_FINISHES = {
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
}
UNSIGNED = "MISSING_THOUGHT_SIGNATURE"
_BROKEN = frozenset(
    {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", UNSIGNED}
)


def text_in(body: Mapping[str, Any]) -> str:
    """The visible text."""
    return clean("".join(_texts(body, thought=False)))


def reasoning_in(body: Mapping[str, Any]) -> str:
    """The thoughts that are shown."""
    return clean("".join(_texts(body, thought=True)))


def _texts(body: Mapping[str, Any], thought: bool) -> list[str]:
    found = (part.get("text") for part in parts_in(body) if bool(part.get("thought")) is thought)
    return [text for text in found if isinstance(text, str)]


def calls_in(body: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The calls, in order; one for each part that holds one, so that they can be told apart when they go back."""
    return tuple(_read_call(part["functionCall"]) for part in parts_in(body) if "functionCall" in part)


def _read_call(said: Any) -> ToolCall:
    call = said if isinstance(said, Mapping) else {}
    id, name, arguments = word(call.get("id")), word(call.get("name")), as_text(call.get("args") or {})
    return ToolCall(clean(id), clean(name), clean(arguments))


def finish_of(body: Mapping[str, Any], has_calls: bool) -> str:
    """Why it ended; a message with calls wants them run, whatever the word for it."""
    if block_reason(body):
        return "refusal"
    said = _FINISHES.get(word(candidate_in(body).get("finishReason")))
    return said or ("tool_calls" if has_calls else "stop")


def refusal_in(body: Mapping[str, Any]) -> str | None:
    """The provider's words, or at least its reason, when it did not answer the prompt at all."""
    reason = block_reason(body)
    if not reason:
        return None
    said = body["promptFeedback"].get("blockReasonMessage")
    return clean(said) if isinstance(said, str) and said else f"the provider blocked the prompt ({clean(reason)})"


def broken_call(body: Mapping[str, Any]) -> str:
    """What is wrong with a call that the provider itself could not take; "" when nothing is."""
    candidate = candidate_in(body)
    said = word(candidate.get("finishReason"))
    if said not in _BROKEN:
        return ""
    message = candidate.get("finishMessage")
    return clean(message) if isinstance(message, str) and message else said


def read_usage(said: Any) -> Usage | None:
    """Usage in one form: the thoughts, which the provider counts apart, belong to the output.

    A number that is 0 is not written at all: a part that is not named is 0, as long as the whole is.
    """
    if not isinstance(said, Mapping):
        return None
    input, total = count(said, "promptTokenCount"), count(said, "totalTokenCount")
    answer, thoughts = count(said, "candidatesTokenCount"), count(said, "thoughtsTokenCount")
    if input is None and answer is None and thoughts is None:
        return None
    if input is not None:
        input += count(said, "toolUsePromptTokenCount") or 0
    output = None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0)
    if output is None and input is not None and total is not None:
        output = max(0, total - input)
    known = None if input is None else 0
    cached = count(said, "cachedContentTokenCount")
    return Usage(input, output, known if cached is None else cached, known, None if output is None else thoughts or 0)
