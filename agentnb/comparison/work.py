"""The work of one unit: run the agent on the task, score the answer, keep the transcript; here or on another machine.

    row = await run_unit(Work(...), transcript, log)        in this process
    result = run_case(payload)                              in a worker: bytes in, plain values out

Whatever goes wrong in a unit becomes its outcome; only a person's interrupt goes further.
"""

from __future__ import annotations

import math
import os
import pickle
from collections import OrderedDict
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentnb import bridge
from agentnb.agent import Agent
from agentnb.comparison.answer_scorers import told
from agentnb.comparison.apart import asking_as
from agentnb.comparison.scorers import Scorer, score_run
from agentnb.comparison.scores import Outcome, Score
from agentnb.comparison.table import Row, row
from agentnb.comparison.tasks import Task
from agentnb.core.state import State
from agentnb.errors import AgentnbError
from agentnb.middleware.run_log import RunLog

_KEPT_AGENTS = 16
_agents: OrderedDict[bytes, tuple[Agent, Scorer]] = OrderedDict()


@dataclass(frozen=True)
class Work:
    """What one unit takes."""

    variant: str
    agent: Agent
    scorer: Scorer
    task: Task
    repeat: int
    attempt: int = 1
    """Counts from 1; more when it was tried again."""


async def run_unit(work: Work, transcript: Path, log: Path) -> Row:
    """Run and score; the transcript is a whole file or none.

    Raises:
        asyncio.CancelledError: It was cancelled, or a tool met a person's interrupt; nothing is kept.
    """
    listener = RunLog(log, variant=work.variant, task=work.task.id, repeat=work.repeat)
    run, failure = State.start(prompt_of(work.task)), None
    try:
        with asking_as(work.variant, work.task.id, work.repeat, work.attempt):
            async with aclosing(work.agent.states(run, listeners=[listener])) as made:
                async for state in made:
                    run = state
    except Exception as error:
        failure = error.message if isinstance(error, AgentnbError) else f"{type(error).__name__}: {error}"
    save_whole(run, transcript)
    if failure is not None:
        return _row(work, run, Score(Outcome.ERROR, None, told(failure)))
    return await score_unit(work, run)


def prompt_of(task: Task) -> str:
    """What is asked: the goal, and below it the choices as A, B, C, unless the goal holds them."""
    if all(choice in task.goal for choice in task.choices):
        return task.goal
    return "\n".join([task.goal, *(f"{chr(ord('A') + place)}. {text}" for place, text in enumerate(task.choices))])


async def score_unit(work: Work, run: State) -> Row:
    """The row of a run that is finished."""
    with asking_as(work.variant, work.task.id, work.repeat, work.attempt):
        return _row(work, run, await score_run(work.task, run, work.scorer))


def missing_row(work: Work, outcome: Outcome, why: str) -> Row:
    """The row of a unit that has no run."""
    return _row(work, None, Score(outcome, None, told(why)))


def _row(work: Work, run: State | None, score: Score) -> Row:
    more = {"waited_seconds": None if run is None else waited_seconds(run), "attempt": work.attempt}
    return row(work.variant, work.task, work.repeat, run, score, **more)


def waited_seconds(run: State) -> float | None:
    """How long model calls stood before a rate limit or waited to be tried again; None where no model says its time."""
    spent = [(step.plan, step.reply) for step in run.steps if step.reply is not None and step.reply.seconds]
    if not spent:
        return None
    waits = [plan.counters.seconds - _before(plan) - reply.seconds for plan, reply in spent]
    return round(math.fsum(max(0.0, wait) for wait in waits), 1)


def _before(plan: State) -> float:
    return plan.parent.counters.seconds if plan.parent is not None else 0.0


def save_whole(run: State, path: Path) -> None:
    """Write a run file under another name and rename it, so that a file of this name is whole."""
    from agentnb.records.run_file import RunFile

    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    RunFile(part).save((run,))
    os.replace(part, path)


# ── on another machine ───────────────────────────────────────────────────────────────────────────────────────────────


def packed(agent: Agent, scorer: Scorer) -> bytes:
    """An agent and a scorer as bytes, with what was defined in a notebook inside; keys stay behind."""
    from agentnb.comparison.extras import extra

    return bytes(extra("cloudpickle").dumps((agent, scorer)))


def run_case(agent: bytes, case: bytes) -> dict[str, Any]:
    """Do one unit in a worker process.

    Args:
        agent: From `packed`.
        case: Pickled (variant, task, repeat, attempt).

    Returns:
        `row`, and the bytes of `transcript` and `log`.
    """
    variant, task, repeat, attempt = _opened(case)
    found, scorer = _unpacked(agent)
    work = Work(variant, found, scorer, task, repeat, attempt)
    with TemporaryDirectory(prefix="agentnb-") as folder:
        transcript, log = Path(folder, "run.jsonl"), Path(folder, "log.jsonl")
        done = bridge.run_sync(run_unit(work, transcript, log))
        return {"row": done, "transcript": _content(transcript), "log": _content(log)}


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _opened(sent: bytes) -> Any:
    """What the comparing process packed and its own executor brought here.

    To open a pickle is to run what it says. These come only through that executor, which opens pickles itself for every
    call: who could send other bytes could as well send any function. Notebook functions travel in no other way.
    """
    return pickle.loads(sent)


def _unpacked(agent: bytes) -> tuple[Agent, Scorer]:
    """The agent behind these bytes, which is made once in a worker and then used again."""
    found = _agents.get(agent)
    if found is None:
        found = _agents[agent] = _opened(agent)
        if len(_agents) > _KEPT_AGENTS:
            _agents.popitem(last=False)
    return found
