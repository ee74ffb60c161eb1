"""What the steps of a run took, as rows: seconds in the model, in the tools and waiting, and money."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentnb.core.state import Step


def time_rows(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """One dict per step, oldest first: step, model, tools, waiting, total, in seconds.

    `waiting` is for a free place, a rate limit or a retry, as far as the model tells it apart. Waiting for a person
    does not count; of tools that ran side by side it is the time in which any of them ran.
    """
    return [_time_row(step) for step in steps]


def _time_row(step: Step) -> dict[str, Any]:
    before = step.plan.parent.counters.seconds if step.plan.parent is not None else 0.0
    planned = max(0.0, step.plan.counters.seconds - before)
    told = step.reply.seconds if step.reply is not None else 0.0
    model = min(told, planned) if told else planned
    tools = max(0.0, step.seconds - planned)
    return {
        "step": step.number,
        "model": round(model, 3),
        "tools": round(tools, 3),
        "waiting": round(planned - model, 3),
        "total": round(planned + tools, 3),
    }


def cost_rows(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """One dict per step, oldest first: step, total (what it cost), cumulative, complete (no cost so far is missing).

    In US dollars; None is a cost that nobody knows, also a sum while no part of it is known; a step without a model
    call costs nothing.
    """
    rows: list[dict[str, Any]] = []
    cumulative, complete = 0.0, True
    for step in steps:
        cost = 0.0 if step.reply is None else step.reply.cost
        cumulative, complete = cumulative + (cost or 0.0), complete and cost is not None
        so_far = cumulative if complete or cumulative else None
        rows.append({"step": step.number, "total": cost, "cumulative": so_far, "complete": complete})
    return rows
