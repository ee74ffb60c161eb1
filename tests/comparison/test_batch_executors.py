"""Whole units on other threads, processes and clusters: what was defined in a notebook travels, keys do not."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Limits, batch, calls, compare, recording, tool
from agentnb.comparison.executors import RayExecutor, as_executor
from agentnb.errors import UsageError

TASKS = [{"id": f"t{n}", "goal": f"Double {n}.", "expected": 2 * n} for n in range(1, 7)]


def doubling(deadly: str = "", marks: str = "") -> Agent:
    """An agent with a tool and a model that only this function knows, as in a notebook."""

    @tool
    def double(number: int) -> int:
        """Double a number.

        Args:
            number: Any.

        Returns:
            Twice as much.
        """
        return 2 * number

    def model(request: Any) -> Any:
        goal = next(each["content"] for each in request.messages if each["role"] == "user")
        if deadly and deadly in goal:
            mark = Path(marks, "died")
            if marks and mark.exists():
                return "12"
            if marks:
                mark.touch()
            os._exit(1)
        last = request.messages[-1]
        if last["role"] == "tool":
            return f"{last['content']}, says process {os.getpid()}"
        return calls("double", number=int(goal.split()[1].strip(".")))

    return Agent(model=model, tools=[double], limits=Limits(steps=4))


def says_of(result: Any) -> list[str]:
    """The processes that answered."""
    return [row["answer"].rpartition(" ")[2] for row in result.rows]


def test_threads_run_whole_units():
    """A pool of threads does the same as the loop."""
    with ThreadPoolExecutor(2) as pool:
        result = batch(doubling(), TASKS, executor=pool, scorer="contains")

    assert {row["outcome"] for row in result.rows} == {"right"}
    assert set(says_of(result)) == {str(os.getpid())}
    assert result.run("t3").tool_results[0].content == "6"


class OnceExecutor(Executor):
    """Runs at once, and remembers what was submitted; the first time it fails as if a worker had died."""

    def __init__(self, losses: int = 0) -> None:
        self.submitted: list[Any] = []
        self.losses = losses

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it here."""
        self.submitted.append(args)
        future: Future[Any] = Future()
        if self.losses:
            self.losses -= 1
            future.set_exception(OSError("the worker went away"))
        else:
            with ThreadPoolExecutor(1) as pool:
                future.set_result(pool.submit(function, *args, **kwargs).result())
        return future


def test_a_lost_worker_costs_one_retry(tmp_path):
    """The unit is sent again, after the others, and is right."""
    executor = OnceExecutor(losses=2)
    result = batch(doubling(), TASKS, executor=executor, folder=tmp_path, scorer="contains")

    assert {row["outcome"] for row in result.rows} == {"right"}
    assert sorted(row["attempt"] for row in result.rows) == [1, 1, 1, 1, 2, 2]
    assert len(executor.submitted) == 8


def test_a_unit_that_loses_two_workers_is_an_error():
    """It is told what happened, and nobody else is hurt."""
    result = batch(doubling(), TASKS[:1], executor=OnceExecutor(losses=2), scorer="contains")

    assert result.rows[0]["outcome"] == "error"
    assert "tried twice; OSError: the worker went away" in result.rows[0]["explanation"]


def test_repeats_are_never_equal_submissions():
    """No scheduler can take one repeat for another."""
    executor = OnceExecutor()
    batch(doubling(), TASKS[:1], repeats=3, executor=executor, scorer="contains")

    assert len({case for _, case in executor.submitted}) == 3


def test_keys_do_not_travel(monkeypatch):
    """What is sent holds the name of the variable, not its value."""
    monkeypatch.setenv("OPENAI_API_KEY", "KEY-TEST-0123456789")
    executor = OnceExecutor(losses=2)
    compare(["openai:gpt-5-mini"], TASKS[:1], executor=executor)

    assert executor.submitted
    assert all(b"KEY-TEST" not in part for args in executor.submitted for part in args)


def test_an_open_recording_is_not_passed_over(tmp_path):
    """Workers would ask the model behind its back."""
    with recording(tmp_path / "r.jsonl"), pytest.raises(UsageError, match="a recording is open"):
        batch(doubling(), TASKS, executor=OnceExecutor())


def test_what_is_no_executor_is_refused():
    """So is a class."""
    with pytest.raises(UsageError, match="no executor"):
        as_executor(3)


def test_ray_is_an_executor_behind_a_small_adapter():
    """`remote(options)(function).remote(...).future()` is what ray offers; this stands in for it."""
    sent = []

    class Ray:
        class Reference:
            def __init__(self, value: Any) -> None:
                self.value = value

            def future(self) -> Future[Any]:
                made: Future[Any] = Future()
                made.set_result(self.value)
                return made

        @staticmethod
        def remote(**options: Any) -> Any:
            assert options == {"max_retries": 0}
            return Ray.decorated

        @staticmethod
        def decorated(function: Callable[..., Any]) -> Any:
            sent.append(function)

            class Remote:
                @staticmethod
                def remote(*args: Any) -> Any:
                    with ThreadPoolExecutor(1) as pool:
                        return Ray.Reference(pool.submit(function, *args).result())

            return Remote

    result = batch(doubling(), TASKS, executor=RayExecutor(Ray), scorer="contains")

    assert {row["outcome"] for row in result.rows} == {"right"}
    assert len(sent) == 1


@pytest.mark.slow
def test_a_process_that_dies_takes_no_other_unit_along(tmp_path):
    """A spawned pool breaks as a whole: it is made anew, and only the unit that kills twice is an error."""
    made: list[ProcessPoolExecutor] = []

    def pool() -> ProcessPoolExecutor:
        made.append(ProcessPoolExecutor(2, mp_context=get_context("spawn")))
        return made[-1]

    result = batch(doubling(deadly="Double 6"), TASKS, executor=pool, folder=tmp_path, scorer="contains")

    assert [row["outcome"] for row in result.rows] == ["right"] * 5 + ["error"]
    assert "died" in result.rows[5]["explanation"]
    assert str(os.getpid()) not in says_of_answered(result)
    assert len(made) >= 2


def says_of_answered(result: Any) -> list[str]:
    """The processes of the rows with an answer."""
    return [row["answer"].rpartition(" ")[2] for row in result.rows if row["answer"]]


@pytest.mark.slow
def test_a_given_pool_that_breaks_is_replaced(tmp_path):
    """Also when an executor was given and not a function; the unit that killed once is right the second time."""
    loky = pytest.importorskip("loky")
    agent = doubling(deadly="Double 6", marks=str(tmp_path))
    result = batch(agent, TASKS, executor=loky.get_reusable_executor(2), scorer="contains")
    loky.get_reusable_executor().shutdown(wait=True, kill_workers=True)

    assert {row["outcome"] for row in result.rows} == {"right"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask_runs_every_repeat(tmp_path):
    """Separate processes; a Client and an executor with dask's default (equal calls run once) are both put right."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path / "d")
    )
    with cluster, distributed.Client(cluster) as client:
        result = batch(doubling(), TASKS, repeats=3, executor=client, folder=tmp_path / "a", scorer="contains")
        again = batch(doubling(), TASKS, executor=client.get_executor(), folder=tmp_path / "b", scorer="contains")

        assert {row["outcome"] for row in (*result.rows, *again.rows)} == {"right"}
        assert len(set(says_of(result))) == 2
        assert as_executor(client.get_executor())._kwargs["pure"] is False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ipyparallel_engines_run_units(tmp_path):
    """A view's executor, two engines of their own."""
    parallel = pytest.importorskip("ipyparallel")
    with parallel.Cluster(n=2, log_level=40, profile_dir=str(tmp_path / "profile")) as clients:
        clients.wait_for_engines(2, timeout=60)
        executor = clients.load_balanced_view().executor
        result = batch(doubling(), TASKS, executor=executor, folder=tmp_path / "a", scorer="contains")

    assert {row["outcome"] for row in result.rows} == {"right"}
    assert str(os.getpid()) not in says_of(result)


def start_ray(ray: Any) -> None:
    """A local cluster. Ray gives its own processes 30 s, which a busy machine may not keep: three tries."""
    for _ in range(3):
        try:
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
            return
        except Exception as error:
            ray.shutdown()
            why = str(error)
    pytest.xfail(f"ray starts no cluster on this machine: {why}")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.filterwarnings("ignore")
def test_ray_runs_units_on_a_cluster(tmp_path):
    """A local cluster of real processes; a worker that dies costs its unit one retry, every repeat is a run."""
    ray = pytest.importorskip("ray")
    start_ray(ray)
    try:
        agent = doubling(deadly="Double 6", marks=str(tmp_path))
        result = batch(agent, TASKS, repeats=2, executor=RayExecutor(ray), scorer="contains", first=None)
    finally:
        ray.shutdown()

    assert {row["outcome"] for row in result.rows} == {"right"}
    assert sorted(row["attempt"] for row in result.rows) == [1] * 11 + [2]
    assert str(os.getpid()) not in says_of(result)
