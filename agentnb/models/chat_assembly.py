"""Put the deltas of a streamed chat completion together to the assistant message that a whole answer would hold.

Servers differ in how they number and name the pieces of tool calls. The rules (`Assembly._slot`): a known id goes on
with its call, a new id begins one even if the index repeats; without an id the index decides; without both, a name
begins a call and a piece without a name goes on with the last one. A whole call that follows a complete one with its
id or its index is another call. Ids and names are never glued, only arguments grow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

_GROWING = ("reasoning_content", "reasoning", "refusal")


class Assembly:
    """One assistant message in the making.

    Args:
        on_call: Told the name of each call when it begins.
    """

    def __init__(self, on_call: Callable[[str], None]) -> None:
        self.begun = False
        self._on_call = on_call
        self._content: list[str] = []
        self._has_content = False
        self._parts: list[Any] | None = None
        self._texts: dict[str, list[str]] = {}
        self._details: list[dict[str, Any]] = []
        self._others: dict[str, Any] = {}
        self._calls: list[_Call] = []
        self._by_index: dict[Any, _Call] = {}

    @property
    def text(self) -> str:
        """The content so far."""
        if self._parts is not None:
            return text_of(self._merged_parts())
        return "".join(self._content)

    def add(self, delta: Mapping[str, Any]) -> None:
        """The next delta of the choice."""
        self.begun = True
        for key, value in delta.items():
            if key == "content":
                self._add_content(value)
            elif key == "tool_calls":
                for piece in dicts_in(value):
                    self._add_call(piece)
            elif value is not None:
                self._add_other(key, value)

    def message(self) -> dict[str, Any]:
        """The message, with everything that came."""
        content: Any = "".join(self._content) if self._has_content else None
        if self._parts is not None:
            content = self._merged_parts()
        made = {"role": "assistant", "content": content, **self._others}
        made |= {key: "".join(parts) for key, parts in self._texts.items()}
        if self._details:
            made["reasoning_details"] = self._details
        if self._calls:
            made["tool_calls"] = [call.wire() for call in self._calls]
        return made

    def lacking(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """What a whole message holds that has not come in pieces."""
        made = self.message()
        return {key: value for key, value in message.items() if value and not made.get(key)}

    def add_text(self, text: str) -> None:
        """The next delta, which has nothing but text."""
        self.begun = self._has_content = True
        if self._parts is None:
            self._content.append(text)
        elif text:
            self._parts.append({"type": "text", "text": text})

    def _add_content(self, value: Any) -> None:
        if isinstance(value, str):
            self.add_text(value)
        elif isinstance(value, list):
            if self._parts is None:
                self._parts = [{"type": "text", "text": text} for text in self._content if text]
            self._parts.extend(value)

    def _merged_parts(self) -> list[Any]:
        """Neighbouring pieces of the same kind joined, as a whole answer has them."""
        merged: list[Any] = []
        for part in self._parts or ():
            last = merged[-1] if merged else None
            if _is_text(last) and _is_text(part):
                last["text"] += part["text"]
            else:
                merged.append(dict(part) if isinstance(part, dict) else part)
        return merged

    def _add_other(self, key: str, value: Any) -> None:
        if key in _GROWING and isinstance(value, str):
            self._texts.setdefault(key, []).append(value)
        elif key == "reasoning_details":
            for detail in dicts_in(value):
                self._add_detail(detail)
        elif key != "role":
            self._others[key] = value

    def _add_detail(self, detail: dict[str, Any]) -> None:
        """Pieces of one reasoning detail carry its index and type; their text and signature grow."""
        last = self._details[-1] if self._details else None
        if last is None or any(last.get(key) != detail.get(key) for key in ("index", "type")):
            self._details.append(dict(detail))
            return
        for key, value in detail.items():
            grows = key in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(key), str)
            if value is not None:
                last[key] = last[key] + value if grows else value

    # ── tool calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def _add_call(self, piece: dict[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = as_text(function.get("arguments"))
        index = piece.get("index") if isinstance(piece.get("index"), int) else None
        call = self._slot(index, word(piece.get("id")), word(function.get("name")), arguments)
        call.take(piece, function, arguments)
        if call.name and not call.told:
            call.told = True
            self._on_call(call.name)

    def _slot(self, index: int | None, id: str, name: str, arguments: str) -> _Call:
        last = self._calls[-1] if self._calls else None
        here = self._by_index.get(index) if index is not None else None
        if id:
            known = next(
                (each for each in reversed(self._calls) if each.id == id and index in (None, each.index)), None
            )
            unnamed = here if here is not None and not here.id else None
            found = known or unnamed
            return self._new(index) if found is None or found.ends_before(name, arguments) else found
        if index is not None:
            return self._new(index) if here is None or here.ends_before(name, arguments) else here
        return self._new(index) if last is None or name else last

    def _new(self, index: Any) -> _Call:
        call = _Call(index)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call


class _Call:
    """One tool call in the making."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.told = False
        self._arguments: list[str] = []
        self._others: dict[str, Any] = {}

    def take(self, piece: dict[str, Any], function: dict[str, Any], arguments: str) -> None:
        """The first id and name that are not empty stay; arguments grow; anything else is kept."""
        self.id = self.id or word(piece.get("id"))
        self.name = self.name or word(function.get("name"))
        if arguments:
            self._arguments.append(arguments)
        for key, value in piece.items():
            if key not in ("index", "id", "function") and value is not None:
                self._others[key] = value

    def ends_before(self, name: str, arguments: str) -> bool:
        """Whether a named piece that seems to belong here is another call: this one is complete, and it begins one."""
        return bool(name) and arguments.lstrip().startswith("{") and _is_object("".join(self._arguments))

    def wire(self) -> dict[str, Any]:
        """The call as a whole answer has it."""
        function = {"name": self.name, "arguments": "".join(self._arguments)}
        return {"id": self.id, "type": "function", **self._others, "function": function}


# ── reading parts, also those of whole answers ───────────────────────────────────────────────────────────────────────


def text_of(content: Any) -> str:
    """The visible text of a content: itself, or its text parts joined."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(
        part if isinstance(part, str) else part["text"] for part in parts if _is_text(part) or type(part) is str
    )


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The reasoning of a message or a delta, from the first of the places where servers put it."""
    for key in ("reasoning_content", "reasoning"):
        value = message.get(key)
        if isinstance(value, str) and value:
            return value
    found = [each.get("text") or each.get("summary") for each in dicts_in(message.get("reasoning_details"))]
    if found:
        return "".join(text for text in found if isinstance(text, str))
    return "".join(_thought(part) for part in dicts_in(message.get("content")) if part.get("type") == "thinking")


def _thought(part: Mapping[str, Any]) -> str:
    thinking = part.get("thinking")
    return text_of(thinking) if thinking is not None else str(part.get("text") or "")


def _is_text(part: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(part, dict) and part.get("type") in ("text", "output_text") and isinstance(part.get("text"), str)


def as_text(arguments: Any) -> str:
    """Arguments as text; a server that sends an object instead is read, too."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False)


def word(value: Any) -> str:
    """An id or a name; "" for anything that is neither text nor number."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none when it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
