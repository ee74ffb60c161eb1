"""Where units run: tasks on one loop here, or whole units on any `concurrent.futures.Executor`.

    executor=None                                   here, side by side on one loop: right for model calls over a network
    executor=loky.get_reusable_executor(2)          other processes: right for tools that compute
    executor=lambda: ProcessPoolExecutor(2)         a function makes it, and another when a death broke it
    executor=client                                 a dask Client (or its get_executor)
    executor=view.executor                          ipyparallel
    executor=RayExecutor(ray)                       ray

Agents travel by cloudpickle, keys do not: a worker reads them from its own environment.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from importlib import import_module
from typing import Any

from agentnb.comparison.scorers import Scorer
from agentnb.comparison.units import Unit
from agentnb.comparison.work import packed, run_case
from agentnb.errors import SettingsError, UsageError
from agentnb.records.recording import active_recording


class WorkerLost(Exception):
    """A worker gave nothing back: it died, or it could not read what it was sent."""


class RayExecutor(Executor):
    """Ray behind the interface of an Executor.

    Args:
        ray: The imported and initialised module.
        options: For `ray.remote`, such as num_cpus=1. Ray tries nothing again by itself unless max_retries says so: a
            unit whose worker died has one retry here.
    """

    def __init__(self, ray: Any, **options: Any) -> None:
        self._remote = ray.remote(**{"max_retries": 0, **options})
        self._sent: dict[Callable[..., Any], Any] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it on the cluster, to which a function is sent once."""
        if function not in self._sent:
            self._sent[function] = self._remote(function)
        made: Future[Any] = self._sent[function].remote(*args, **kwargs).future()
        return made


class Elsewhere:
    """Runs units on an executor.

    Args:
        executor: An Executor, a dask Client, or a function that makes one.
        scorer: For every unit.

    Raises:
        UsageError: It is none of these, or a recording is open that workers would not see.
    """

    def __init__(self, executor: Any, scorer: Scorer) -> None:
        self._make = executor if callable(executor) and not hasattr(executor, "submit") else None
        self.executor = as_executor(self._make() if self._make else executor)
        if active_recording() is not None and not isinstance(self.executor, ThreadPoolExecutor):
            raise UsageError(
                "a recording is open here, and the workers of this executor would not see it",
                layer="comparison",
                remedy="Leave out executor=, or close the recording.",
            )
        self.scorer = scorer
        self._own: Executor | None = self.executor if self._make else None
        self._packed: dict[str, bytes] = {}

    async def run(self, unit: Unit, attempt: int) -> dict[str, Any]:
        """What `run_case` gives back.

        Raises:
            WorkerLost: The worker died, or could not read what it was sent.
        """
        name = unit.variant.name
        if name not in self._packed:
            self._packed[name] = _told_apart(unit, self.scorer)
        case = packed_case(unit, attempt)
        executor = self.executor
        try:
            future = executor.submit(run_case, self._packed[name], case)
            found: dict[str, Any] = await asyncio.wrap_future(future)
            return found
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise WorkerLost("the executor gave the unit up") from error
        except BrokenExecutor as error:
            self._renew(executor)
            raise WorkerLost(f"a worker died: {error}") from error
        except Exception as error:
            raise WorkerLost(f"{type(error).__name__}: {error}") from error

    def _renew(self, broken: Executor) -> None:
        """Take another executor in place of a broken one, once for all units that it took along."""
        if self.executor is not broken:
            return
        if self._make is not None:
            self.close()
            self.executor = self._own = as_executor(self._make())
        elif type(broken).__module__.startswith("loky"):
            loky = import_module("loky")
            self.executor = loky.get_reusable_executor(max_workers=getattr(broken, "_max_workers", None))
        elif isinstance(broken, ProcessPoolExecutor):
            like: Any = broken  # a broken pool is told only by its private names how it was made
            options = {"initializer": like._initializer, "initargs": like._initargs, "mp_context": like._mp_context}
            self.executor = self._own = ProcessPoolExecutor(like._max_workers, **options)

    def close(self) -> None:
        """End the processes that were started here."""
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)


def packed_case(unit: Unit, attempt: int) -> bytes:
    """A unit's own part of what is sent; no two are equal, so no scheduler takes one for another."""
    from agentnb.comparison.extras import extra

    return bytes(extra("cloudpickle").dumps((unit.variant.name, unit.task, unit.repeat, attempt)))


def _told_apart(unit: Unit, scorer: Scorer) -> bytes:
    try:
        return packed(unit.variant.agent, scorer)
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        raise UsageError(
            f"the agent of {unit.variant.name!r} can't be sent to another process: {error}",
            layer="comparison",
            remedy="Make what it holds inside the tool (a connection, a lock), or leave out executor=.",
        ) from error


def as_executor(thing: Any) -> Executor:
    """The Executor that this stands for, made fit for repeats.

    Raises:
        UsageError: It stands for none.
        SettingsError: Dask's executor would run equal calls only once, and can't be changed.
    """
    if hasattr(thing, "get_executor") and hasattr(thing, "scheduler"):
        made: Executor = thing.get_executor(pure=False)
        return made
    if type(thing).__module__.startswith("distributed"):
        return _impure(thing)
    if isinstance(thing, Executor) or callable(getattr(thing, "submit", None)):
        return thing  # type: ignore[no-any-return]
    raise UsageError(
        f"executor={type(thing).__name__} is no executor", layer="comparison", remedy="Give a concurrent.futures one."
    )


def _impure(executor: Any) -> Executor:
    """Dask's executor with pure=False: its default runs equal calls once and shares the result among repeats."""
    options, client = getattr(executor, "_kwargs", None), getattr(executor, "_client", None)
    if isinstance(options, dict) and options.get("pure") is False:
        return executor  # type: ignore[no-any-return]
    if not isinstance(options, dict) or client is None:
        raise SettingsError(
            "dask runs equal calls only once (pure=True), so repeats would share one result",
            layer="comparison",
            remedy="Give the Client itself, or client.get_executor(pure=False).",
        )
    made: Executor = client.get_executor(**{**options, "pure": False})
    return made
