"""What to say when a recording has no answer: the nearest entry, and in words where the request differs first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentnb.records.canonical import START, Conversations
from agentnb.records.excerpts import apart, excerpt
from agentnb.records.recording_entry import Asked, Entry
from agentnb.records.recording_file import RecordingFile

_ROLES = {"system": "system prompt", "user": "user text", "assistant": "assistant text", "tool": "tool result"}


def nearest(file: RecordingFile, asked: Asked, model: str) -> Entry | None:
    """The entry that shares most with this request: messages first, then their number, then all the rest."""
    said = file.conversations.said(asked.history)
    shared = _shared(file.conversations, said)

    def score(entry: Entry) -> tuple[int, ...]:
        other = entry.asked
        equal, length = shared[other.history]
        rest = (other.tools == asked.tools) + (other.schema == asked.schema) + (other.parameters == asked.parameters)
        return equal, -abs(length - len(said)), rest, model in ("", entry.model), entry.ask

    return max(file.entries.values(), key=score, default=None)


def _shared(conversations: Conversations, said: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """For each message: how many of those up to it are the same at the same place in `said`, and how many there are.

    A message is kept after the one that it follows, so each is looked at once.
    """
    found = {START: (0, 0)}
    for name, (after, message) in conversations.messages.items():
        equal, place = found[after]
        found[name] = (equal + (place < len(said) and message == said[place]), place + 1)
    return found


def first_difference(file: RecordingFile, entry: Entry, asked: Asked, model: str, ask: int) -> str:
    """In words: where this request is not the one of the entry, the first place only."""
    was = entry.asked
    if was.history != asked.history:
        return _messages(file.conversations.said(was.history), file.conversations.said(asked.history))
    if was.tools != asked.tools:
        return _tools([file.values[name][1] for name in was.tools], [file.values[name][1] for name in asked.tools])
    if was.parameters != asked.parameters:
        return _parameters(json.loads(was.parameters), json.loads(asked.parameters))
    if was.schema != asked.schema:
        return "the schema of the reply changed"
    if model not in ("", entry.model) and entry.model:
        return f"model: was {entry.model!r}, is {model!r}"
    return f"it was asked {entry.ask} times in the recording, this is time {ask}"


def changed_tools(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """In words: the tools whose source is another one; how often it was defined is told, but is no change."""
    pairs = [(name, was[name], now[name]) for name in was if name in now]
    return [
        f"tool {name} changed from {before} to {after}"
        for name, before, after in pairs
        if before.rpartition("·")[2] != after.rpartition("·")[2]
    ]


def _messages(was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str:
    for number, (before, after) in enumerate(zip(was, now, strict=False), 1):
        if before != after:
            return f"message {number}: {_message(before, after)}"
    longer, word = (now, "is new") if len(now) > len(was) else (was, "is missing")
    number = min(len(was), len(now)) + 1
    message = longer[number - 1]
    return f"message {number} {word}: {_kind(message)} {excerpt(_content(message))}"


def _message(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if _kind(was) != _kind(now):
        return f"was {_kind(was)} {excerpt(_content(was))}, is {_kind(now)} {excerpt(_content(now))}"
    before, after = apart(_content(was), _content(now))
    return f"{_kind(was)} was {before}, is {after}"


def _kind(message: Mapping[str, Any]) -> str:
    return "calls" if message.get("tool_calls") else _ROLES.get(message["role"], message["role"])


def _content(message: Mapping[str, Any]) -> str:
    if calls := message.get("tool_calls"):
        said = [message["content"]] if message.get("content") else []
        return " ".join([*said, *(f"{each['name']}({_short_json(each['arguments'])})" for each in calls)])
    content = message.get("content") or ""
    return content if isinstance(content, str) else _short_json(content)


def _tools(was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str:
    before, after = ({tool["name"]: tool for tool in tools} for tools in (was, now))
    for name in (*before, *after):
        if name not in after:
            return f"tools: {name} is missing"
        if name not in before:
            return f"tools: {name} is new"
        for part in ("description", "parameters"):
            if before[name][part] != after[name][part]:
                return f"tools: {name}'s {part} changed"
    return "tools: their order changed"


def _parameters(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    for name in (*was, *now):
        if name not in now:
            return f"parameters: {name} was {_short_json(was[name])}, is not set"
        if name not in was:
            return f"parameters: {name} was not set, is {_short_json(now[name])}"
        if was[name] != now[name]:
            return f"parameters: {name} was {_short_json(was[name])}, is {_short_json(now[name])}"
    return "parameters: a value changed its type"


def _short_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
