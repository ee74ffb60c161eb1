"""What a reader needs to do a comparison again: versions, machine, source, models, parameters, hashes, prices.

Nothing secret is in it. What can't be found out is None.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import metadata
from typing import Any

from agentnb.comparison import surroundings
from agentnb.comparison.scorers import Scorer
from agentnb.comparison.tasks import Task, task_set_hash
from agentnb.comparison.units import Plan, scorer_id
from agentnb.comparison.variants import Variant
from agentnb.records.canonical import tidy

_PACKAGES = ("agentnb-jupyter", "httpx", "pydantic", "numpy", "scipy", "pandas", "genai-prices", "xllamacpp")
_GIT_SECONDS = 5


def record_of(plan: Plan, tasks: Sequence[Task], **more: Any) -> dict[str, Any]:
    """The record of one call.

    Args:
        plan: What is compared.
        tasks: The task set.
        more: Such as concurrency, executor and the cell's text.
    """
    told: dict[str, Any] = tidy(
        {
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
            "platform": platform.platform(),
            "git": git_state(),
            "program": sys.argv[0],
            "cell": surroundings.cell_source(),
            "tasks": len(tasks),
            "task_set": task_set_hash(tasks),
            "repeats": plan.repeats,
            "seed": plan.seed,
            "scorer": _scorer(plan.scorer),
            "prices": price_list(),
            "variants": {each.name: variant_record(each) for each in plan.variants},
            **more,
        }
    )
    return told


def variant_record(variant: Variant) -> dict[str, Any]:
    """What one variant was: its model as asked, where, with what."""
    agent = variant.agent
    instructions = agent._instructions  # type: ignore[attr-defined]
    planner = agent.planner if isinstance(agent.planner, str) else type(agent.planner).__name__
    recorded: dict[str, Any] = tidy(
        {
            "key": variant.key,
            "agent": agent.id,
            "model": variant.model.name,
            "base_url": variant.address,
            "planner": planner,
            "parameters": dict(instructions.parameters),
            "system_prompt": agent.system_prompt,
            "prompt_hash": hashlib.sha256(agent.system_prompt.encode("utf-8", "replace")).hexdigest()[:16],
            "examples": len(instructions.examples),
            "tools": {tool.spec.name: tool.spec.version for tool in agent.tools},
            "middleware": [type(each).__name__ for each in agent.middleware],
            "limits": {name: getattr(agent.limits, name) for name in getattr(agent.limits, "__slots__", ())},
        }
    )
    return recorded


def git_state() -> dict[str, Any] | None:
    """The commit of the folder's repository, and whether files were changed since; None outside of one.

    It is looked up once a minute at most, since a large repository takes its time.
    """
    return _git_state(os.getcwd(), int(time.monotonic() / 60))


@lru_cache(maxsize=4)
def _git_state(folder: str, minute: int) -> dict[str, Any] | None:
    lines = _git("status", "--porcelain=v2", "--branch", "--untracked-files=no").splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), None)
    return None if commit is None else {"commit": commit, "changed": any(line[0] != "#" for line in lines)}


def price_list() -> dict[str, str] | None:
    """The price list that costs come from, and the day on which it was used; None without one."""
    version = _version("genai-prices")
    return None if version is None else {"package": f"genai-prices {version}", "used": str(datetime.now(UTC).date())}


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


@cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _scorer(scorer: Scorer) -> dict[str, str]:
    whole = scorer_id(scorer)
    return {"name": scorer.name, "hash": hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]}
