"""What the panel shows, as HTML and text: pure functions, every word of a model or a tool escaped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Any

from agentnb.core.messages import Message
from agentnb.core.state import State
from agentnb.notebook.bounds import escaped, shown
from agentnb.notebook.names import model_name
from agentnb.notebook.panel_actions import BUTTONS, STOP_LINE, Action
from agentnb.notebook.panel_bench import Bench
from agentnb.notebook.render import Block, Budget, final_block, goal_block, step_block
from agentnb.notebook.render_html import bar, block, details, lead, pre, quiet, table
from agentnb.notebook.tool_history import older
from agentnb.notebook.words import UNKNOWN, count, deed, stop_words, totals_words, version_words
from agentnb.plots.run_plots import token_rows
from agentnb.text import counted, shorten

PHASES = ("init", "plan", "act", "update", "check")
_PHASE_OF = {"plan": "plan", "act": "update", "stop": "check"}
_NODE = "display:inline-block;border:1px solid rgba(128,128,128,.5);border-radius:.7em;padding:.1em .7em;margin:.1em"
_LIT = ";border:2px solid;font-weight:bold;background:rgba(128,128,128,.25)"
_STATE_BYTES = 30_000
_RECORD_BYTES = 40_000
_MOST_ROWS = 30
MOST_TOOLS = 60
"""Tools that are listed one by one."""


def goal_html(bench: Bench) -> str:
    """Which buttons take up the goal in the field, where the run that is looked at has another and is not answered."""
    run, goal = bench.newest, bench.fields.goal.strip()
    if run is None or run.answer is not None or goal in ("", run.goal.strip()):
        return ""
    if bench.has_new_goal:
        told = f"Run and Step begin {bench.fresh_name()} with the new goal; the other buttons go on with {bench.shown}."
    else:
        told = f"Only Run takes up the goal above; the other buttons go on with {bench.shown}: {shorten(run.goal, 80)}"
    return block(quiet(told))


def machine_html(phase: str, visits: Mapping[str, int]) -> str:
    """The loop as a row of nodes, the current one marked by a word, not by a colour alone."""
    nodes = " → ".join(_node(each, each == phase, visits.get(each, 0)) for each in PHASES)
    return f'<div role="img" aria-label="state machine: now {escaped(phase)}">{nodes} ⟲</div>'


def _node(name: str, lit: bool, times: int) -> str:
    words = f"{'▶ ' if lit else ''}{name}{f' ×{times}' if times else ''}"
    return f'<span style="{_NODE}{_LIT if lit else ""}">{words}</span>'


def phase_of(state: State | None) -> str:
    """The node at which a State lies."""
    if state is None or (state.kind == "plan" and state.answer is None):
        return "init" if state is None else "plan"
    return "check" if state.finished else _PHASE_OF.get(state.kind, "init")


def visits_of(state: State | None) -> dict[str, int]:
    """How often each node was entered on the way to a State."""
    kinds = Counter(each.kind for each in state.path()) if state is not None else Counter[str]()
    rounds = sum(1 for step in state.steps if step.calls) if state is not None else 0
    return {"init": kinds["start"], "plan": kinds["plan"], "act": rounds, "update": kinds["act"]}


def state_html(bench: Bench) -> str:
    """The State that is looked at: where it stands, what it added, its step, how it ended."""
    state, states = bench.state, bench.states
    if state is None:
        return block(quiet("No run yet: write a goal and press Run or Step."))
    number = len(states) if bench.position is None else bench.position + 1
    head = f"{bench.shown} · State {number} of {len(states)} · {state.kind}"
    step = f" · step {state.step.number}: {deed(state.step)}" if state.step else ""
    end = f" · {stop_words(state)}" if state.finished and state.answer is None else ""
    parts = [f"<div>{lead(head + step + end)}</div>"]
    if state.finished:
        parts.append(final_block(state, _STATE_BYTES, name=bench.shown, since=state.counters.steps).html)
    if state.step is not None:
        parts.append(step_block(state.step, _STATE_BYTES, bench.shown).html)
    changed = older(state, bench.base.tools)
    parts += [
        _added(state),
        quiet(f"This run was {changed}.") if changed else "",
        "" if state.step else goal_block(state, name=bench.shown).html,
    ]
    return block("".join(parts))


def _added(state: State) -> str:
    """The messages that this transition added."""
    told = [f"{message.role}: {_said(message)}" for message in state.added]
    return quiet(f"added {counted(len(told), 'message')}") + pre("\n".join(told)) if told else quiet("added no message")


def _said(message: Message) -> str:
    asked = [f"{call.name}({call.arguments})" for call in message.calls]
    return shorten(shown("; ".join(filter(None, [message.content, *asked]))), 200)


def tokens_html(run: State | None) -> str:
    """Tokens step by step as bars with their numbers, and what they add up to."""
    if run is None or not run.counters.steps:
        return block(quiet("Tokens and steps appear here."))
    steps = run.steps[-_MOST_ROWS:]
    rows = token_rows(run.steps)[-_MOST_ROWS:]
    most = max((row["total"] or 0 for row in rows), default=0) or 1
    cells = [
        [str(row["step"]), escaped(deed(step)), _bar(row, most), count(row["total"]), _cumulative(row)]
        for step, row in zip(steps, rows, strict=True)
    ]
    left_out = run.counters.steps - len(rows)
    more = quiet(f"… {counted(left_out, 'earlier step')} left out") if left_out else ""
    heads = ("step", "what", "tokens", "total", "cumulative")
    return block(f"<div>{escaped(totals_words(run))}</div>{more}{table(heads, cells, lambda column: column in (1, 2))}")


def _bar(row: Mapping[str, Any], most: int) -> str:
    if row["total"] is None:
        return UNKNOWN
    keys = (("cached", 0.25), ("fresh", 0.45), ("visible", 0.75), ("reasoning", 1))
    return bar([(100 * (row[key] or 0) / most, grey) for key, grey in keys])


def _cumulative(row: Mapping[str, Any]) -> str:
    known = row["complete"] or row["cumulative"]
    return f"{'' if row['complete'] else '≥ '}{row['cumulative']:,}" if known else UNKNOWN


def cells_html(actions: Mapping[str, Action]) -> str:
    """Each button with the cell that it stands for, or why it can do nothing now."""
    rows = [[escaped(BUTTONS[name][0]), _cell(made)] for name, made in actions.items()]
    rows.append(["Stop", f"<code>{escaped(STOP_LINE)}</code>"])
    return block(table(("button", "the cell that does the same"), rows, lambda column: True))


def _cell(made: Action) -> str:
    if made.problem:
        return escaped(made.problem)
    lines = "<br>".join(escaped(shorten(line, 160)) for line in made.cell.split("\n")[:4])
    return f"<code>{lines}</code>"


def tool_label(tool: Any, checked_version: str = "") -> str:
    """A tool with its version; a changed one says what the agent came with."""
    now = tool.spec.version or tool.spec.name
    changed = "" if checked_version in ("", now) else f", newer than the agent's {version_words(checked_version)}"
    return version_words(now) + changed


def more_tools_html(tools: Mapping[str, Any], used: Container[str]) -> str:
    """How many tools have no check box, how many of them are in use, and what chooses them; "" when each has one."""
    more = [*tools][MOST_TOOLS:]
    if not more:
        return ""
    own = sum(name in used for name in more)
    told = f"… and {len(more):,} more, of which the agent has {own:,}: -t one,other or Agent(tools=[...]) chooses them."
    return block(quiet(told))


# ── ordinary output ──────────────────────────────────────────────────────────────────────────────────────────────────


def form_block(bench: Bench, live: bool) -> Block:
    """The panel without widgets: what it would run, and with which cells."""
    agent = bench.agent()
    limits = ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in bench.fields.limits.items() if text)
    tools = [version_words(tool.spec.version) or tool.spec.name for tool in agent.tools[:MOST_TOOLS]]
    more = len(agent.tools) - len(tools)
    planner = agent.planner if isinstance(agent.planner, str) else type(agent.planner).__name__
    rows = {
        "agent": bench.agent_name or "the notebook's default",
        "model": model_name(agent.model),
        "planner": planner,
        "tools": (", ".join(tools) or "none") + (f" and {more:,} more" if more else ""),
        "limits": limits or "none",
        "goal": shorten(bench.fields.goal, 300) or "none yet",
    }
    title = f"Panel · agent {agent.name} · {counted(len(agent.tools), 'tool')}"
    hint = _LIVE if live else _STATIC
    rows = {name: shown(text) for name, text in rows.items()}
    text = "\n".join([shown(title), *(f"  {name:<8} {value}" for name, value in rows.items()), hint])
    cells = [[escaped(name), escaped(value)] for name, value in rows.items()]
    html = details(lead(title), table(("field", "value"), cells, lambda column: True)) + quiet(hint)
    return Block(block(html), text)


_LIVE = (
    "The buttons live as long as this kernel, and come back when the cell is run again. What they run is recorded "
    "below them and stays; after a reload of the page JupyterLab records no more there: %agent show NAME shows a run."
)
_STATIC = (
    "This is the panel's static form: its buttons appear where a person sits in front of the kernel, such as in "
    "JupyterLab. %%agent, %agent resume and %agent fork do the same in cells."
)


def record_block(made: Action, state: State, since: int) -> Block:
    """What one press of a button has run, as one ordinary output: the cell, the steps, the end."""
    steps = state.steps[since : since + _MOST_ROWS]
    budget = Budget(_RECORD_BYTES, ahead=len(steps))
    blocks = [step_block(step, budget, made.out) for step in steps]
    blocks.append(final_block(state, budget, name=made.out, since=since))
    line = shorten(made.cell.split("\n")[-1 if made.cell.startswith("%agent") else 0], 160)
    title = f"{made.out} · {stop_words(state)} · {counted(state.counters.steps - since, 'new step')}"
    html = f"<div>{lead(title)} <code>{escaped(line)}</code></div>" + "".join(each.html for each in blocks)
    return Block(block(html), "\n\n".join([f"{shown(title)}\n  {shown(line)}", *(each.text for each in blocks)]))


def problem_html(lines: Sequence[str]) -> str:
    """An error of ours, as a cell would show it."""
    return block(pre("\n".join(lines))) if lines else ""
