"""`batch`: one agent on many tasks; what it and `compare` have in common.

    result = batch(agent, ["What is 2 + 2?", {"goal": "...", "expected": 4}], folder="runs/sums")

Each task runs by itself and has its own outcome; what is finished is in the folder at once; the same call goes on where
the last one stopped and pays for nothing twice.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from agentnb import bridge
from agentnb.agent import Agent
from agentnb.comparison.apart import Apart
from agentnb.comparison.budget import Spending
from agentnb.comparison.progress import Meter
from agentnb.comparison.record import record_of
from agentnb.comparison.result import Comparison
from agentnb.comparison.running import CONCURRENCY, Running, Stopped
from agentnb.comparison.store import Store
from agentnb.comparison.tasks import to_tasks
from agentnb.comparison.units import KEY, Plan
from agentnb.comparison.variants import Variant
from agentnb.errors import AgentInterrupted, UsageError
from agentnb.records.canonical import tidy
from agentnb.text import shorten

FIRST = 3


def batch(
    agent: Agent,
    tasks: Any,
    *,
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
) -> Comparison:
    """Run an agent on every task.

    Args:
        agent: Runs each of them.
        tasks: A list of goals, dicts and Tasks; a .jsonl or .csv file; a DataFrame.
        repeats: How often each task is run.
        concurrency: Runs at once; or by provider: {"openai": 8, "local": 1}.
        folder: Where results go and are found again; None keeps them as long as the result is kept.
        scorer: A name, a Scorer or a function; None goes by what each task expects.
        first: So many tasks are run as samples, with an estimate for the rest; None for no samples.
        retry: "failed" runs those that failed once more (or name outcomes: ["error"]).
        max_cost: No run is started that would take this call beyond so many US dollars.
        max_tokens: The same for tokens.
        executor: Where whole runs go: any `concurrent.futures.Executor`, a dask Client, a function that makes one.
        seed: Of the order in which tasks are run.
        columns: What the task source calls our fields: {"goal": "question"}.
        progress: None shows it where somebody looks; True, False, or a function of each Progress.

    Raises:
        UsageError: The task set or an option can't be used; nothing was started.
        RecordingError: A file of the folder is damaged.
        AgentInterrupted: A person interrupted; its `state` is the result so far.
    """
    if not isinstance(agent, Agent):
        what = f"batch() runs an Agent, not {shorten(repr(agent))}"
        raise UsageError(
            what, layer="comparison", remedy="batch(Agent(model=...), tasks); compare([...], tasks) takes models."
        )
    options = {"concurrency": concurrency, "first": first, "retry": retry, "executor": executor}
    plan = Plan([Variant(agent.name or "agent", agent)], to_tasks(tasks, columns=columns), repeats, scorer, seed)
    return run_plan(plan, folder, max_cost, max_tokens, progress, **options)


def run_plan(
    plan: Plan,
    folder: str | os.PathLike[str] | None,
    max_cost: float | None,
    max_tokens: int | None,
    progress: Any,
    **options: Any,
) -> Comparison:
    """Run what is not finished and return the result; `options` are those of Running."""
    spending = Spending(max_tokens, max_cost)
    place = Path(folder if folder is not None else mkdtemp(prefix="agentnb-"))
    with closing(Store(place)) as store, closing(Meter(len(plan), progress)) as meter:
        running = Running(plan, store, spending=spending, meter=meter, **options)
        notes = _left_alone(plan, store)
        record = _recorded(plan, store, options)
        interrupted = False
        try:
            with Apart():
                bridge.run_sync(running.all())
        except (KeyboardInterrupt, asyncio.CancelledError, Stopped):
            interrupted = True
        _add_answered(record, running, store)
        end = store.end
    notes += (f"Stopped: {running.stopped}.",) if running.stopped else ()
    cancelled = frozenset(running.in_flight) if interrupted else frozenset[str]()
    result = Comparison(plan, place, end, notes, running.estimate, record, cancelled, temporary=folder is None)
    if interrupted:
        done = spending.units + meter.now.kept
        again = (
            "the same call goes on" if folder is not None else "its runs are in error.state; with folder= it goes on"
        )
        raise AgentInterrupted(f"interrupted: {done:,} of {len(plan):,} runs are kept; {again}", result) from None
    return result


def _recorded(plan: Plan, store: Store, options: Mapping[str, Any]) -> dict[str, Any]:
    """The record of this call, as it stands in the folder."""
    executor = options["executor"]
    told = {"concurrency": options["concurrency"], "executor": None if executor is None else type(executor).__name__}
    record = record_of(plan, plan.tasks, **told)
    store.append("record.jsonl", (json.dumps(record, ensure_ascii=False) + "\n").encode())
    return record


def _add_answered(record: dict[str, Any], running: Running, store: Store) -> None:
    """Put the names that the providers gave in their answers to the record, and in a line of its own to the folder."""
    found = {name: sorted(names) for name, names in running.answered_as.items()}
    if found:
        record["answered_as"] = found
        line = {"started": record["started"], "answered_as": found}
        store.append("record.jsonl", (json.dumps(tidy(line), ensure_ascii=False) + "\n").encode())


def _left_alone(plan: Plan, store: Store) -> tuple[str, ...]:
    """What the reader must know of results in the folder that are not of this call."""
    if not store.known:
        return ()
    kept = {key[:KEY] for key in store.known}
    mine = {unit.key for unit in plan}
    others = len(kept - mine)
    scored = sum(1 for unit in plan if unit.key in kept and store.done(unit) is None)
    notes = []
    if others:
        notes.append(
            f"{others:,} finished runs in this folder are of other agents, tasks or settings; they are not used."
        )
    if scored:
        notes.append(f"{scored:,} kept runs were scored anew: their task or the scorer has changed.")
    return tuple(notes)
