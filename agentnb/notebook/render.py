"""A run as blocks to display: its goal, one block per step, and how it ended. A State or a Step in, strings out.

    goal_block(state)          what was asked
    step_block(step, limit)    one step, collapsed; the same cost however long the run is
    final_block(state, limit)  the answer or why there is none, the totals, and the steps that got no block
    run_blocks(state)          all of them, within one Budget

A limit is a number of bytes, or the Budget of the cell, which hands out the room and notes what was spent.

The same run gives the same bytes; what differs from run to run (seconds, how often a tool was defined) is in
`Block.metadata`, which no test compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agentnb.core.state import State, Step
from agentnb.notebook import render_html, render_text
from agentnb.notebook.bounds import RUN_BYTES, STEP_BYTES, Budget, cut, within
from agentnb.notebook.final import final_html, final_text
from agentnb.notebook.step import step_html, step_text
from agentnb.notebook.words import brief

__all__ = ["SHOWN_STEPS", "Block", "Budget", "final_block", "goal_block", "run_blocks", "step_block"]

SHOWN_STEPS = 40
"""Steps of one cell that get a display of their own: JupyterLab shows only the first 50 outputs of a cell."""
_GOAL_BYTES = 8_000
_FRAME_BYTES = 100
_MOST_VERSIONS = 20


@dataclass(frozen=True, slots=True)
class Block:
    """One display in its two forms."""

    html: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict, compare=False)
    """What differs from run to run, under "agentnb": `seconds`, `tool_versions`."""

    @property
    def bundle(self) -> dict[str, str]:
        """Mime type to content."""
        return {"text/html": self.html, "text/plain": self.text}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        return self.bundle, self.metadata


def goal_block(state: State, limit: int = _GOAL_BYTES, name: str = "run") -> Block:
    """What the run is to do; `state` is where it starts, so one that has steps says after which it goes on."""
    title = f"Goal, going on after step {state.counters.steps}" if state.counters.steps else "Goal"
    return Block(
        within(limit * 2 // 3, partial(_goal_html, state.goal, title, name)),
        within(limit // 3, partial(_goal_text, state.goal, title, name)),
    )


def _goal_html(goal: str, title: str, name: str, room: int) -> str:
    text, missing = cut(goal, room, f"{name}.goal")
    return render_html.block(render_html.lead(title) + render_html.prose(text) + render_html.quiet(missing))


def _goal_text(goal: str, title: str, name: str, room: int) -> str:
    text, missing = cut(goal, room, f"{name}.goal")
    return "\n".join(filter(None, [title, render_text.indented(text), missing]))


def step_block(step: Step, limit: int | Budget = STEP_BYTES, name: str = "run") -> Block:
    """One step as a collapsed block and as plain text.

    Args:
        step: `state.step` for the newest one; `state.steps` looks through the whole run.
        limit: Bytes of the saved notebook, both forms together, about 1,000 at least; or the Budget of the cell.
        name: The variable that holds the run, named where a text is cut.
    """
    size = limit.step if isinstance(limit, Budget) else limit
    html = render_html.block(step_html(step, size * 2 // 3 - _FRAME_BYTES, name))
    text = step_text(step, size // 3, name)
    if isinstance(limit, Budget):
        limit.spend(html, text, step=step.number)
    return Block(html, text, _metadata(step.seconds, tool_versions=_versions(step)))


def _versions(step: Step) -> dict[str, str]:
    kept = list(step.tool_versions.items())[:_MOST_VERSIONS]
    return {brief(name, 60): brief(version, 90) for name, version in kept}


def final_block(
    state: State,
    limit: int | Budget = RUN_BYTES // 5,
    shown: int = SHOWN_STEPS,
    name: str = "run",
    since: int = 0,
) -> Block:
    """How the run ended: the answer or what to do now, totals, the tokens of each step, steps without a display.

    Args:
        state: The last State of the run.
        limit: Bytes of the saved notebook, both forms together; or the Budget of the cell, which knows what was shown.
        shown: How many steps of this cell had a display of their own.
        name: The variable that holds the run.
        since: How many steps the run had before this cell went on with it.
    """
    if isinstance(limit, Budget):
        since, shown = (limit.first - 1, limit.last - limit.first + 1) if limit.first else (since, shown)
        limit = limit.final
    return Block(
        render_html.block(final_html(state, limit * 2 // 3 - _FRAME_BYTES, name, since, since + shown)),
        final_text(state, limit // 3, name, since, since + shown),
        _metadata(state.counters.seconds),
    )


def _metadata(seconds: float, **more: Any) -> dict[str, Any]:
    return {"agentnb": {"seconds": round(seconds, 3), **more}}


def run_blocks(state: State, total: int = RUN_BYTES, name: str = "run", since: int = 0) -> tuple[Block, ...]:
    """Goal, steps and end of a run, all within one budget: what a terminal prints.

    Args:
        state: The last State of the run.
        total: Bytes, all blocks together.
        name: The variable that holds the run.
        since: Steps up to this number are left out.
    """
    start = state.at(since + 1) if state.counters.steps > since else state
    blocks = [goal_block(start, name=name)]
    budget = Budget(total)
    budget.spend(blocks[0].html, blocks[0].text)
    blocks += [step_block(step, budget, name) for step in state.steps[since : since + SHOWN_STEPS]]
    return (*blocks, final_block(state, budget, name=name, since=since))
