"""A run in a few words for later runs: taken from the run itself, or written by a model from the same material."""

from __future__ import annotations

import json

from agentnb.core.messages import Message, ToolResult, user
from agentnb.core.model import Model, ModelRequest, Prompt, ask
from agentnb.core.state import State
from agentnb.text import bound, shorten
from agentnb.tools.quoted import QUOTED, quoted, readable

MOST_SUMMARY = 600
"""Characters of a summary."""
_MOST_MATERIAL = 6_000
_MOST_CALLS = 5
OWN_TOOLS = ("remember", "recall")
"""Their results are notes already."""
INSTRUCTIONS = (
    "You write the memory of an assistant. Summarise the run below for later runs, in at most three sentences and in "
    "the language of its goal: what was asked, what was found, what the user wants or prefers. Plain text only. "
) + QUOTED


def extract(run: State) -> str:
    """The summary without a model: the goal, the answer or why there is none, the newest results that were used."""
    ended = f"Answer: {shorten(run.answer, 280)}" if run.answer else f"Ended without an answer ({run.stop})."
    useful = [result for result in run.tool_results if result.ok and result.name not in OWN_TOOLS]
    used = [_call(result, 100) for result in useful[-_MOST_CALLS:]]
    found = f"Found: {'; '.join(used)}" if used else ""
    parts = (f"Goal: {shorten(run.goal, 160)}", ended, shorten(found, 150))
    return readable("\n".join(filter(None, parts)))


def material(run: State) -> str:
    """What a model makes its summary of: goal, results and answer, bounded."""
    results = [_call(result, 400) for result in run.tool_results if result.name not in OWN_TOOLS]
    parts = (f"Goal: {bound(run.goal, 1_000)}", *results, f"Answer: {run.answer or f'none ({run.stop})'}")
    return bound(readable("\n".join(parts)), _MOST_MATERIAL)


def _call(result: ToolResult, limit: int) -> str:
    given = ", ".join(f"{name}={json.dumps(each, ensure_ascii=False, default=str)}" for name, each in _given(result))
    failed = "" if result.ok else f"({result.status}) "
    content = result.content.removeprefix(QUOTED)  # what a search of ours begins with tells nothing
    return f"{result.name}({shorten(given)}) = {failed}{shorten(content, limit)}"


def _given(result: ToolResult) -> list[tuple[str, object]]:
    return list((result.arguments or {}).items())


async def summarise(text: str, model: Model) -> str | None:
    """A model's summary of this material; None when it brought no usable text.

    Raises:
        ModelError: The model can't be asked.
    """
    prompt = Prompt([user(quoted(text, _MOST_MATERIAL))])
    reply = await ask(model, ModelRequest((Message("system", INSTRUCTIONS),), prompt, 1))
    usable = reply.finish in ("stop", "length") and reply.text.strip()
    return bound(readable(reply.text), MOST_SUMMARY).strip() if usable else None
