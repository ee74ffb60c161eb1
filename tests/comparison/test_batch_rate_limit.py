"""A server that allows five requests a second: everyone waits together, and every task is answered."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from agentnb import Agent, batch
from agentnb.errors import ModelError
from agentnb.models.chat_completions import ChatCompletionsModel
from agentnb.models.server import ScriptedServer

pytestmark = pytest.mark.slow


class FiveASecond:
    """Answers five requests in any second, and refuses the others with "come back in a second"."""

    def __init__(self) -> None:
        self.answered: list[float] = []
        self.refused = 0
        self._lock = threading.Lock()

    def __call__(self, request: Any) -> str:
        """An answer, or 429."""
        with self._lock:
            now = time.monotonic()
            if sum(each > now - 1 for each in self.answered) >= 5:
                self.refused += 1
                raise ModelError("too many", kind="rate_limit", status=429, retryable=True, retry_after=1.0)
            self.answered.append(now)
            return "It is 4."


@pytest.mark.parametrize("at_once", [3, 20])
def test_everyone_waits_and_nobody_fails(at_once: int) -> None:
    """Thirty tasks are right, with at most two requests a task on average; waiting is told apart from model time."""
    limited = FiveASecond()
    with ScriptedServer([limited] * 300) as server:
        model = ChatCompletionsModel("any", server.url)
        result = batch(Agent(model=model), [{"goal": f"{n}", "expected": 4} for n in range(30)], concurrency=at_once)

    assert {row["outcome"] for row in result.rows} == {"right"}
    assert limited.refused + 30 <= 60
    assert sum(row["waited_seconds"] for row in result.rows) > 3
    assert all(row["seconds"] >= row["waited_seconds"] - 0.1 for row in result.rows)
