"""Find the plan in what a model wrote: `{"reasoning", "tool", "args"}` or `{"reasoning", "answer"}`, anywhere in it.

The search goes by the structure of JSON, never by fences: prose, code fences and braces around it do not disturb it.
An object counts when it can be read without a guess and has the form of a plan; of several the last one counts. What is
inside `<think>` is reasoning: nothing there is a plan.

Other spellings that mean the same are taken: `arguments`, `parameters` or `input` for `args`, `final_answer` for
`answer`, `thought` for `reasoning`; and `name` or `action` for `tool` when the object stands alone, since in prose
such an object is as likely an example.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.planners.loose_json import LooseObject, read_object
from agentnb.text import clean, no_such_tool, shorten

ARGS = ("args", "arguments", "parameters", "input")
ANSWER = ("answer", "final_answer")
REASONING = ("reasoning", "thought")
TOOL = ("tool",)
TOOL_ALONE = ("tool", "name", "action")
_NO_TOOL = (None, "", "none", "null", "None")
_PLACES = re.compile(r"""<think(?:ing)?>|</think(?:ing)?>|\{(?=\s*(?:["'}]|//|/\*|\#|[A-Za-z_]\w*\s*:))""")
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>")
_BEFORE = re.compile(r"(?:[`~]+[\w-]*|<tool_call>)\s*\Z")
_AFTER = re.compile(r"\A(?:[`~]+|</tool_call>)")
_LONGEST_FENCE = 60
_LIKE_A_PLAN = re.compile(r"\b(?:tool|answer)\b")


@dataclass(frozen=True, slots=True)
class Found:
    """What a text holds."""

    plan: Mapping[str, Any] | None = None
    """`{"reasoning", "tool", "args"}` or `{"reasoning", "answer"}`: strings, and `args` a dict; None without one."""
    comment: str = ""
    """The text around the plan."""
    thoughts: str = ""
    """What stood in `<think>`."""
    text: str = ""
    """The whole text without the thoughts."""
    candidates: int = 0
    """How many different plans there were."""
    repaired: bool = False
    problem: str = ""
    """Why there is no plan, in words for the model."""


@dataclass(slots=True)
class _Piece:
    start: int
    object: LooseObject


@dataclass(slots=True)
class _Scan:
    """The objects of a text, and its thoughts, which are cut out of it."""

    text: str
    pieces: list[_Piece] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)


def read_plan(text: str, tool_names: Sequence[str]) -> Found:
    """The plan in this text. Never raises; `problem` says why there is none.

    Args:
        text: What the model wrote, whole; of a reply that was cut off, nothing may be used.
        tool_names: A plan calls one of these.
    """
    scan = _scan(clean(text))
    thoughts = "\n".join(filter(None, (thought.strip() for thought in scan.thoughts)))
    whole = Found(text=scan.text.strip(), thoughts=thoughts)
    alone = len(scan.pieces) == 1 and not _comment(scan.text, scan.pieces[0])
    fits = [_fit(piece, TOOL_ALONE if alone else TOOL, tool_names) for piece in scan.pieces]
    plans = [(piece, plan) for piece, (plan, _) in zip(scan.pieces, fits, strict=True) if plan is not None]
    if not plans:
        problem = next((problem for _, problem in reversed(fits) if problem), "it holds no JSON object")
        return _with(whole, problem=problem)
    piece, plan = plans[-1]
    if doubt := _doubt(scan, piece):
        return _with(whole, problem=doubt)
    return _with(
        whole,
        plan=plan,
        comment=_comment(scan.text, piece),
        candidates=len({json.dumps(plan, sort_keys=True) for _, plan in plans}),
        repaired=piece.object.repaired,
    )


def _with(found: Found, **changes: Any) -> Found:
    return Found(**{"text": found.text, "thoughts": found.thoughts, **changes})


# ── where the objects are ────────────────────────────────────────────────────────────────────────────────────────────


def _scan(text: str) -> _Scan:
    """Walk from object to object; a thought that never ends holds no plans, whatever follows."""
    scan = _Scan(text)
    position = 0
    while place := _PLACES.search(scan.text, position):
        position = place.start()
        if place.group() == "{":
            found = read_object(scan.text, position)
            scan.pieces.append(_Piece(position, found))
            position = found.end
        elif place.group().startswith("</"):
            _cut(scan, 0, place.end(), scan.text[:position])
            scan.pieces.clear()
            position = 0
        else:
            end = _THOUGHT_ENDS.search(scan.text, position)
            if end is None and scan.text[:position].strip():
                break
            inner = scan.text[place.end() : end.start() if end else None]
            _cut(scan, position, end.end() if end else len(scan.text), inner)
    return scan


def _cut(scan: _Scan, start: int, end: int, thought: str) -> None:
    scan.thoughts.append(thought)
    scan.text = scan.text[:start] + scan.text[end:]


def _comment(text: str, piece: _Piece) -> str:
    """The text around an object, without the fence or the tag that holds it."""
    before, after = text[: piece.start].strip(), text[piece.object.end :].strip()
    for _ in range(2):
        near = len(before) - _LONGEST_FENCE if len(before) > _LONGEST_FENCE else 0
        before = (before[:near] + _BEFORE.sub("", before[near:])).rstrip()
        after = _AFTER.sub("", after).lstrip()
    return "\n".join(filter(None, (before, after)))


def _doubt(scan: _Scan, chosen: _Piece) -> str:
    """Why the chosen plan may be a piece of something else that could not be read; "" when it is not."""
    broken = [piece for piece in scan.pieces if piece.object.value is None]
    for piece in broken:
        if piece.start > chosen.start and _LIKE_A_PLAN.search(scan.text, piece.start, piece.object.end):
            return f"its last JSON object can't be read: {piece.object.problem}"
    if any(piece.start < chosen.start for piece in broken) and "}" in scan.text[chosen.object.end :]:
        return f"a JSON object in it can't be read: {broken[0].object.problem}"
    return ""


# ── what fits ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _fit(piece: _Piece, tools: Sequence[str], tool_names: Sequence[str]) -> tuple[dict[str, Any] | None, str]:
    """The plan that an object is, or why it is none."""
    value = piece.object.value
    if value is None:
        return None, f"its JSON can't be read: {piece.object.problem}"
    try:
        return _plan(value, tools, tool_names), ""
    except ValueError as error:
        return None, str(error)


def _plan(value: Mapping[str, Any], tools: Sequence[str], tool_names: Sequence[str]) -> dict[str, Any]:
    reasoning = _text(_one(value, REASONING) or "")
    tool, answer = _one(value, tools), _one(value, ANSWER)
    if tool in _NO_TOOL and tool not in tool_names:
        if answer is None or answer == "":
            raise ValueError("it has neither a tool nor an answer")
        return {"reasoning": reasoning, "answer": _text(answer)}
    if answer not in (None, ""):
        raise ValueError("it has both a tool and an answer, of which one is expected")
    if tool not in tool_names:
        raise ValueError(_unknown(tool, tool_names))
    return {"reasoning": reasoning, "tool": tool, "args": _args(value)}


def _one(value: Mapping[str, Any], spellings: Sequence[str]) -> Any:
    """The value under the one spelling that is there; None without any."""
    there = [name for name in spellings if name in value]
    if len(there) > 1:
        raise ValueError(f"it has both {there[0]!r} and {there[1]!r}, of which one is expected")
    return value[there[0]] if there else None


def _args(value: Mapping[str, Any]) -> dict[str, Any]:
    args = _one(value, ARGS)
    if args is None and set(value) - {*ARGS, *ANSWER, *REASONING, *TOOL_ALONE}:
        raise ValueError('it has no "args", the object of the tool\'s arguments')
    if isinstance(args, str):
        args = _decoded(args)
    if args is None:
        return {}
    if not isinstance(args, dict):
        raise ValueError(f'its "args" is {shorten(_text(args), 40)}, expected an object')
    return args


def _decoded(text: str) -> Any:
    """Arguments that were encoded twice."""
    start = len(text) - len(text.lstrip())
    found = read_object(text, start) if text.startswith("{", start) else None
    whole = found and not found.repaired and found.value is not None and not text[found.end :].strip()
    return found.value if found and whole else text


def _unknown(tool: Any, tool_names: Sequence[str]) -> str:
    return no_such_tool(_text(tool), tool_names)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
