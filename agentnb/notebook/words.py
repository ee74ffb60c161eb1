"""A step, a result, a stop in plain words; the HTML and the text form say the same.

No time, duration or id is in them: the same run gives the same words, on every machine.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping
from typing import Any

from agentnb.core.limits import StopReason
from agentnb.core.messages import ToolCall, ToolResult, Usage
from agentnb.core.state import State, Step
from agentnb.notebook.bounds import shown
from agentnb.text import counted, shorten

UNKNOWN = "n/a"
_CALLS_IN_LINE = 3
_MOST_PARSED = 20_000
_NOTABLE = ("truncated", "repaired", "recovered", "retried", "fallback")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_COUNT = re.compile(r"@\d+(?=·)")
_OUTCOMES = {
    "timeout": "timed out, may have taken effect",
    "cancelled": "cancelled, may have taken effect",
    "denied": "denied by a person",
    "not run": "not run",
}
_GO_ON = "Go on with %agent resume {name} (in Python: agent.run({name}))"
_STOPS: dict[StopReason, tuple[str, str]] = {
    StopReason.ANSWER: ("answered", ""),
    StopReason.MAX_STEPS: ("stopped at the step limit", _GO_ON + "; --steps or Limits(steps=...) gives it more."),
    StopReason.MAX_TOKENS: ("stopped at the token limit", _GO_ON + "; --tokens or Limits(tokens=...) gives it more."),
    StopReason.MAX_COST: ("stopped at the cost limit", _GO_ON + "; --cost or Limits(cost=...) gives it more."),
    StopReason.MAX_SECONDS: ("stopped at the time limit", _GO_ON + "; --seconds or Limits(seconds=...) gives it more."),
    StopReason.MAX_TOOL_CALLS: (
        "stopped at the tool call limit",
        _GO_ON + "; --tool-calls or Limits(tool_calls=...) gives it more.",
    ),
    StopReason.REPETITION: (
        "stopped because it repeated itself",
        "Read the last steps, then show another way: %%agent --from {name}, or agent.run({name}.say('...')).",
    ),
    StopReason.TRUNCATED: ("the answer was cut at the length limit", _GO_ON + ", or allow longer replies."),
    StopReason.REFUSED: ("the model refused", "Reword the goal, or take another model: agent.replace(model=...)."),
    StopReason.EMPTY_REPLY: ("the model replied with nothing", _GO_ON + ", or take another model."),
    StopReason.CONTEXT_TOO_LONG: (
        "the conversation is too long for the model",
        "Bound the tools' results with @tool(max_chars=...), add Compaction(), or take a model that reads more.",
    ),
    StopReason.CONNECTION_LOST: ("the connection was lost", _GO_ON + " when the model can be reached again."),
    StopReason.CANCELLED: ("cancelled", _GO_ON + "; no answered call is run again."),
    StopReason.PAUSED: (
        "waits for approval",
        "Decide with {name} = {name}.approve({name}.open_calls[0].id), or .deny(...), then %agent resume {name}.",
    ),
    StopReason.ERROR: ("stopped by an error", _GO_ON + " when the cause is gone."),
}


def step_line(step: Step) -> str:
    """One line for one step: "Step 2 · asked get_weather for city='Beijing' · got 31.0 · 212 tokens"."""
    return shown(" · ".join([f"Step {step.number}", *_happened(step), *_notable(step), *_tokens_of(step)]))


def deed(step: Step) -> str:
    """The step in a few words, for a table: the tools it asked, "answered", or why it ended."""
    if not step.calls:
        return shorten(shown(_happened(step)[0]), 48)
    names: dict[str, int] = {}
    for call in step.calls:
        name = brief(call.name, 48)
        names[name] = names.get(name, 0) + 1
    told = (f"{name} ×{count}" if count > 1 else name for name, count in names.items())
    return shorten(shown("asked " + ", ".join(told)), 48)


def _happened(step: Step) -> list[str]:
    if step.calls:
        return _asked(step)
    decision = step.decision
    if decision.answer is not None:
        return ["answered"]
    if decision.stop is not None:
        return [brief(_why(decision.stop, decision.detail), 160)]
    return [f"asked again: {brief(decision.again, 80)}" if decision.again else "empty reply, asked again"]


def _asked(step: Step) -> list[str]:
    by_id = {result.call_id: result for result in step.results}
    told = [(called(call, by_id.get(call.id)), outcome(call, step)) for call in step.calls[:_CALLS_IN_LINE]]
    if len(step.calls) == 1:
        return [f"asked {told[0][0]}", told[0][1]]
    more = len(step.calls) - len(told)
    listed = "; ".join(f"{call}, {result}" for call, result in told)
    return [f"asked {len(step.calls)} tools: {listed}" + (f"; and {more} more" if more else "")]


def called(call: ToolCall, result: ToolResult | None) -> str:
    """The call in words: "get_weather for city='Beijing'", with the arguments as cast where it ran."""
    name = brief(call.name, 40) or "a tool without a name"
    values = result.arguments if result and result.arguments is not None else parsed(call.arguments)
    said = spelled(values, 60) if values is not None else call.arguments
    return f"{name} for {brief(said, 80)}" if said.strip() else name


def outcome(call: ToolCall, step: Step) -> str:
    """What became of a call: "got 31.0", "error: ...", "timed out, may have taken effect"."""
    result = next((each for each in step.results if each.call_id == call.id), None)
    if result is None:
        return _STOPS[StopReason.PAUSED][0] if step.last.stop is StopReason.PAUSED else "no result yet"
    return _approval(call, step) + _result_words(result)


def _result_words(result: ToolResult) -> str:
    if result.status in _OUTCOMES:
        return _OUTCOMES[result.status]
    text = brief(result.content, 60)
    if not result.ok:
        return f"{result.status}: {text}"
    return f"given by a person: {text}" if "given by a person" in result.notes else f"got {text}"


def _approval(call: ToolCall, step: Step) -> str:
    for call_id, arguments in step.last.approvals:
        if call_id == call.id:
            return "approved, " if arguments is None else "approved with other arguments, "
    return ""


def _notable(step: Step) -> list[str]:
    notes = " ".join(note[:200] for note in step.notes).lower()
    return [word for word in _NOTABLE if word in notes]


def _tokens_of(step: Step) -> list[str]:
    return [] if step.reply is None else [total_words(step.usage)]


def total_words(usage: Usage | None) -> str:
    """The tokens in one number: "212 tokens", "at least 212 tokens", "tokens n/a"."""
    if usage is None or usage.total is None:
        return f"tokens {UNKNOWN}"
    known = usage.complete and None not in (usage.input, usage.output)
    return f"{'' if known else 'at least '}{counted(usage.total, 'token')}"


def usage_words(usage: Usage | None) -> str:
    """The tokens by kind, as far as the provider tells: "input 200 (cached 150), output 12"."""
    usage = usage or Usage()
    cached, reasoning = _part("cached", usage.cached_input), _part("reasoning", usage.reasoning)
    if usage.input is None and usage.output is None:
        return UNKNOWN
    return f"input {count(usage.input)}{cached}, output {count(usage.output)}{reasoning}"


def _part(what: str, number: int | None) -> str:
    return "" if number is None else f" ({what} {number:,})"


def count(number: int | None) -> str:
    """A number with separators, "n/a" for an unknown one."""
    return UNKNOWN if number is None else f"{number:,}"


def version_words(version: str) -> str:
    """A tool and its version, without the count, which a rerun changes: "get_weather (version 3fa9c1d0)"."""
    name, _, digest = _COUNT.sub("", version[:200]).rpartition("·")
    return f"{brief(name, 60)} (version {brief(digest, 20)})" if name else brief(version, 60)


def stop_words(state: State) -> str:
    """Why the run ended, in words, with its detail; "not finished" while it has not."""
    if state.stop is None:
        return "not finished"
    if state.stop is StopReason.PAUSED and state.open_calls:
        names = ", ".join(brief(call.name, 40) for call in state.open_calls)
        return f"{_STOPS[state.stop][0]} of {names}"
    return _why(state.stop, state.detail)


def _why(reason: StopReason, detail: str) -> str:
    words, detail = _STOPS[reason][0], detail.removeprefix("refused: ")
    if not detail:
        return words
    return detail if reason is StopReason.PAUSED or detail.startswith(("stopped at", words)) else f"{words}: {detail}"


def remedy(state: State, name: str) -> str:
    """What to do now; "" when there is an answer. `name` is the variable that holds the run."""
    if state.stop is None:
        return ""
    waits = state.stop is StopReason.PAUSED and not state.open_calls  # for a decision, where a person is the planner
    return (_GO_ON + "." if waits else _STOPS[state.stop][1]).format(name=name)


def totals_words(state: State) -> str:
    """What the run has used since its start: steps, tool calls, tokens by kind, cost."""
    used = state.counters
    unknown = used.cost is None or (used.steps > 0 and used.usage.total is None and not used.cost)
    price = UNKNOWN if unknown else f"${used.cost:.4f}"
    tokens, kinds = total_words(used.usage), usage_words(used.usage)
    told = tokens if kinds == UNKNOWN else f"{tokens}: {kinds}"
    return " · ".join([counted(used.steps, "step"), counted(used.tool_calls, "tool call"), told, f"cost {price}"])


def parsed(arguments: str) -> dict[str, Any] | None:
    """The model's arguments as an object; None when they are none, or too long to be worth reading here."""
    try:
        value = json.loads(arguments) if len(arguments) <= _MOST_PARSED else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def spelled(values: Mapping[str, Any], most: int = 2_000) -> str:
    """Arguments as one would write them in Python: "a=1, b='two'". Long values are cut, addresses left out."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = most
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = 50
    return ", ".join(f"{name}={_ADDRESS.sub('0x…', _safe_repr(short, value))}" for name, value in values.items())


def _safe_repr(short: reprlib.Repr, value: Any) -> str:
    try:
        return short.repr(value)
    except Exception:  # the repr of a user's class may do anything
        return f"<{type(value).__name__}>"


def brief(text: str, most: int) -> str:
    """One line of at most `most` characters, fit to be shown."""
    return shorten(shown(text[: 8 * most]), most)
