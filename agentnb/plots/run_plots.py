"""The tokens of runs: the numbers first (`token_rows`), then pictures of them (`plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentnb.core.messages import Usage
from agentnb.core.state import Step


def token_rows(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """One dict per step; None is a number that the provider did not say.

    Keys: step, calls (how many), input, fresh (input that was not cached), cached, output, visible (output that is
    not reasoning), reasoning, total, cumulative (None from the first unknown total on is not kept: it is the sum of
    what is known), complete (whether every total so far is known).
    """
    rows: list[dict[str, Any]] = []
    cumulative, complete = 0, True
    for step in steps:
        usage = step.usage or Usage()
        cumulative += usage.total or 0
        complete = complete and (step.reply is None or None not in (usage.input, usage.output))
        rows.append(
            {
                "step": step.number,
                "calls": len(step.calls),
                "input": usage.input,
                "fresh": _without(usage.input, usage.cached_input),
                "cached": usage.cached_input,
                "output": usage.output,
                "visible": _without(usage.output, usage.reasoning),
                "reasoning": usage.reasoning,
                "total": usage.total,
                "cumulative": cumulative,
                "complete": complete,
            }
        )
    return rows


def _without(whole: int | None, part: int | None) -> int | None:
    return None if whole is None else max(0, whole - (part or 0))
