"""The third depth of a step that went over HTTP: the JSON, and the command that sends it again."""

from __future__ import annotations

from typing import Any

import pytest
from html_seen import Seen
from made_runs import newest

from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.models.anthropic import AnthropicModel
from agentnb.notebook.bounds import RUN_BYTES, cost
from agentnb.notebook.render import run_blocks, step_block

KEY = "KEY-TEST-3141592653"


def run_of(steps: int, goal: str = "it's <b>", **options: Any) -> State:
    """A run as a model over HTTP makes it; nothing is sent."""
    model = AnthropicModel("m", "http://127.0.0.1:1", KEY, **options)
    state = State.start(goal)
    for number in range(steps):
        reply = ModelReply(f"{number}", request=model.sent(state.request()), model=model.name)
        state = state.planned(Decision(reply, answer=f"{number}"))
        state = state.say("go on") if number < steps - 1 else state
    return state


def test_the_command_stands_below_the_json():
    """With the provider's own header, a variable in the place of the key, and where to find all of it."""
    seen = Seen(step_block(newest(run_of(2)), name="mine").html)

    assert "curl -sS -N http://127.0.0.1:1/v1/messages -H 'content-type: application/json'" in seen.text
    assert "-H \"x-api-key: $X_API_KEY\" -H 'anthropic-version: 2023-06-01' --data-binary @request.json" in seen.text
    assert "curl, the JSON in request.json; curl(mine.steps[1]) has it all" in seen.text
    assert KEY[:8] not in seen.text


@pytest.mark.slow
def test_a_long_address_and_many_steps_stay_within_the_bound():
    """Commands count in the room of a run as everything else does."""
    state = run_of(60, "word " * 500, headers={f"x-own-{number}": "v" * 400 for number in range(20)})
    blocks = run_blocks(state)

    assert sum(cost(text) for block in blocks for text in block.bundle.values()) <= RUN_BYTES
    assert len(step_block(newest(state), 4_000).html) <= 4_000
