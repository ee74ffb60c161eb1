"""Samples, estimate, budget and progress: what the rest will take is told, and too much is not begun."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentnb import Agent, batch, compare, recording
from agentnb.comparison import progress as progress_module
from agentnb.comparison.budget import Spending
from agentnb.comparison.progress import Meter, Progress
from agentnb.comparison.scores import Outcome
from agentnb.errors import SettingsError

pytestmark = pytest.mark.slow

GOALS = [f"goal {number}" for number in range(20)]


def priced(tokens: int = 100, running: list[int] | None = None) -> Any:
    """A model that says how many tokens it used; `running` gets how many of its calls ran at once."""
    now = [0]

    async def model(request: Any) -> dict[str, Any]:
        now[0] += 1
        if running is not None:
            running.append(now[0])
        await asyncio.sleep(0)
        now[0] -= 1
        return {"content": "ok", "usage": {"prompt_tokens": tokens - 10, "completion_tokens": 10}}

    return model


def test_samples_come_first_and_tell_what_the_rest_will_take():
    """Three tasks are done before any other begins; the estimate is of the other 17."""
    seen: list[Progress] = []
    result = batch(Agent(model=priced()), GOALS, first=3, concurrency=10, progress=seen.append)

    assert max(each.running for each in seen if each.done < 3) == 3
    assert max(each.running for each in seen) == 10
    assert (result.estimate.units, result.estimate.tokens, result.estimate.of) == (17, 1_700, 3)
    assert result.estimate.cost is None
    assert "about 1,700 tokens, cost unknown" in str(result.estimate)


def test_nothing_is_begun_that_would_exceed_the_budget():
    """550 tokens are enough for five runs of 100, whatever the concurrency; the others say that they were not run."""
    result = batch(Agent(model=priced()), GOALS, max_tokens=550, concurrency=4, first=None)
    outcomes = [row["outcome"] for row in result.rows]

    assert (outcomes.count("answered"), outcomes.count("not run")) == (5, 15)
    assert "Stopped: the budget of 550 tokens leaves no room for another run." in str(result)


def test_a_budget_reached_goes_on_in_the_next_call(tmp_path):
    """Each call has the budget anew; what is done stays done."""
    agent = Agent(model=priced())
    counts = [
        sum(row["outcome"] == "answered" for row in batch(agent, GOALS, max_tokens=800, folder=tmp_path).rows)
        for _ in range(3)
    ]

    assert counts == [8, 16, 20]


def test_an_unknown_price_can_not_be_bounded():
    """A budget that can't be kept stops after the first run, and says why."""
    result = batch(Agent(model=lambda request: "ok"), GOALS, max_cost=1.0)

    assert [row["outcome"] for row in result.rows].count("answered") == 1
    assert "the cost of these runs is unknown, so a budget of 1.0 can't be kept" in str(result)


def test_the_dearest_run_is_what_the_next_may_cost():
    """A variant that costs 10 times as much does not slip in under another's mean."""
    spending = Spending(1_000, None)
    spending.add({"variant": "cheap", "tokens": 10, "steps": 1})
    spending.add({"variant": "dear", "tokens": 400, "steps": 1})

    assert spending.refusal("dear", {}) is None
    assert spending.refusal("dear", {"dear": 1}) == ""
    assert spending.refusal("cheap", {"dear": 1}) is None
    spending.add({"variant": "dear", "tokens": 400, "steps": 1})
    assert "no room" in str(spending.refusal("dear", {}))
    assert spending.refusal("cheap", {}) is None


@pytest.mark.parametrize("bad", [0, -1, float("inf"), "1"])
def test_a_budget_is_a_number_above_zero(bad):
    """Anything else is refused at the start."""
    with pytest.raises(SettingsError, match="max_tokens="):
        batch(Agent(model=priced()), GOALS, max_tokens=bad)


@pytest.mark.parametrize("bad", [0, True, 1.5, {"openai": 0}])
def test_concurrency_is_a_whole_number(bad):
    """Of all, or of each provider."""
    with pytest.raises(SettingsError, match="concurrency"):
        batch(Agent(model=priced()), GOALS, concurrency=bad)


def test_providers_have_lanes_of_their_own():
    """A bound of one provider does not hold up another."""
    slow: list[int] = []
    quick: list[int] = []
    one, other = priced(running=slow), priced(running=quick)
    one.__name__, other.__name__ = "slow", "quick"
    compare([one, other], GOALS, concurrency={"slow": 1, "quick": 6}, first=None)

    assert (max(slow), max(quick)) == (1, 6)


class Shown:
    """A display that remembers."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.closed = False

    def show(self, progress: Progress) -> None:
        """Remember."""
        self.told.append(str(progress))

    def close(self) -> None:
        """Remember that, too."""
        self.closed = True


def test_the_display_is_told_at_most_four_times_a_second(clock):
    """Many changes in a moment are one line; each line has counts, rate and what is left."""
    shown = Shown()
    before, progress_module.display = progress_module.display, lambda: shown
    try:
        meter = Meter(100, None, clock)
    finally:
        progress_module.display = before
    for number in range(60):
        meter.change(started=1)
        clock.advance(0.05)
        meter.change(finished=Outcome.RIGHT if number % 10 else Outcome.ERROR)
    meter.close()

    assert 8 <= len(shown.told) <= 12
    assert shown.told[-1].endswith("a minute, about 2 s left")
    assert "6 failed" in shown.told[-1]
    assert shown.closed


def test_nothing_is_shown_where_nobody_looks(capfd):
    """Headless, a batch prints nothing."""
    batch(Agent(model=priced()), GOALS)

    assert capfd.readouterr() == ("", "")


def test_repeats_replay_as_they_were_recorded(tmp_path):
    """Ten repeats of one request have ten replies of their own; the replay gives each repeat its own again."""
    count = [0]

    async def model(request: Any) -> str:
        count[0] += 1
        mine = count[0]
        await asyncio.sleep(0.001 * (mine % 3))
        return f"reply {mine}"

    def answers() -> list[str]:
        with recording(tmp_path / "r.jsonl"):
            result = batch(Agent(model=model), ["the same goal", "another"], repeats=10, concurrency=5)
        return [row["answer"] for row in result.rows]

    recorded, replayed = answers(), answers()

    assert recorded == replayed
    assert len(set(recorded)) == 20
    assert count == [20]
