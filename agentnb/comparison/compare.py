"""`compare`: several models, planners, prompts, tool sets or parameters on the same tasks.

    compare(models=["openai:gpt-5-mini", "local"], tasks="tasks.jsonl", repeats=3, folder="runs/weather", tools=[t])

It answers with numbers of runs beside every average, intervals, a paired test, and a conclusion that says no more than
the test does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from agentnb.agent import Agent
from agentnb.comparison.batch import FIRST, run_plan
from agentnb.comparison.result import Comparison
from agentnb.comparison.running import CONCURRENCY
from agentnb.comparison.tasks import to_tasks
from agentnb.comparison.units import Plan
from agentnb.comparison.variants import to_variants


def compare(
    models: Any = None,
    tasks: Any = None,
    *,
    variants: Any = None,
    planners: Any = None,
    system_prompts: Any = None,
    toolsets: Any = None,
    parameter_sets: Any = None,
    agent: Agent | None = None,
    repeats: int = 1,
    concurrency: int | Mapping[str, int] = CONCURRENCY,
    folder: str | os.PathLike[str] | None = None,
    scorer: Any = None,
    first: int | None = FIRST,
    retry: Any = None,
    max_cost: float | None = None,
    max_tokens: int | None = None,
    executor: Any = None,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    progress: Any = None,
    **shared: Any,
) -> Comparison:
    """Run every variant on every task, `repeats` times, and compare them.

    Args:
        models: One variant a model; a list, or a dict with a name for each.
        tasks: As for `batch`; the others not named here too.
        variants: Instead: Agents, or dicts of Agent arguments, in a list or by name.
        planners: One variant a planner; with several of these lists, one for every combination.
        system_prompts: One variant a system prompt.
        toolsets: One variant a list of tools.
        parameter_sets: One variant a dict of parameters.
        agent: What all variants are made of.
        shared: Arguments of Agent that all variants have: tools=[...], system_prompt="...", limits=Limits(steps=5).

    Raises:
        UsageError: There is nothing to compare, or the task set or an option can't be used; nothing was started.
        RecordingError: A file of the folder is damaged.
        AgentInterrupted: A person interrupted; its `state` is the result so far.
    """
    axes = {"models": models, "planners": planners, "system_prompts": system_prompts}
    axes |= {"toolsets": toolsets, "parameter_sets": parameter_sets}
    found = to_variants(variants=variants, agent=agent, shared=shared, **axes)
    options = {"concurrency": concurrency, "first": first, "retry": retry, "executor": executor}
    plan = Plan(found, to_tasks(tasks, columns=columns), repeats, scorer, seed)
    return run_plan(plan, folder, max_cost, max_tokens, progress, **options)
