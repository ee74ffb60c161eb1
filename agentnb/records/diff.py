"""Two runs beside each other: which steps are the same, where the runs part, and what differs from there on.

    diff(run, other)          in a notebook it shows itself; print(diff(run, other)) in a terminal
    diff(run, other).first    the first step that differs, as a plain dict
    diff(run, other).rows     one dict per pair of steps

Steps that two forks share are the same objects and are not looked into; the others are aligned by what they asked of
the tools (`diff_align.py`) and compared one by one (`diff_steps.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentnb.core.state import State, Step
from agentnb.errors import UsageError
from agentnb.records.diff_align import Pair, aligned, is_shared
from agentnb.records.diff_steps import Difference, always_sent, difference, step_differences
from agentnb.records.excerpts import printable
from agentnb.text import clean, mask, plain, shorten

NOT_FINISHED = "not finished"


@dataclass(frozen=True, repr=False)
class Diff:
    """What two runs have in common and where they part."""

    rows: tuple[dict[str, Any], ...]
    """One dict per pair of steps, oldest first.

    `step`, `other_step`: numbers, None where a run has none. `status`: "shared" (the same States), "same", "differs",
    "only in run", "only in other"; "the end" is a row of its own where the runs end differently. `differences`: dicts
    with `kind`, `what`, `run`, `other`. `did`, `tokens`, `seconds`, and the same with `other_` before it: what happened
    in a few words, the tokens of the model call, the time."""
    totals: dict[str, tuple[Any, Any]]
    """Steps, tool calls, tokens, stop and seconds of both runs; None is unknown."""
    names: tuple[str, str] = ("run", "other")
    show_seconds: bool = False

    @property
    def first(self) -> dict[str, Any] | None:
        """The row in which the runs part; None when they don't."""
        return next((row for row in self.rows if row["status"] not in ("shared", "same")), None)

    @property
    def equal(self) -> bool:
        """Whether both runs were asked, said and did the same; tokens and time may differ."""
        return self.first is None

    @property
    def markdown(self) -> str:
        """As Markdown, in which nothing of the runs is taken for markup."""
        from agentnb.records.diff_text import markdown

        return markdown(self)

    @property
    def html(self) -> str:
        """As HTML of bare tags."""
        from agentnb.records.diff_html import html

        return html(self)

    def __str__(self) -> str:
        from agentnb.records.diff_text import text

        return text(self)

    def __repr__(self) -> str:
        return f"<Diff: {str(self).splitlines()[0]}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        bundle = {"text/plain": str(self), "text/markdown": self.markdown, "text/html": self.html}
        return bundle, {"agentnb": {"seconds": list(self.totals["seconds"])}}


def diff(run: State, other: State, *, names: Sequence[str] = ("run", "other"), seconds: bool = False) -> Diff:
    """Compare two runs step by step.

    Args:
        run: A run, finished or not.
        other: Another, perhaps a fork of it.
        names: What to call them.
        seconds: Show times too; they are another each time, so what is shown is not the same twice.

    Raises:
        UsageError: Something is not a run, or there are not two names.
    """
    for each in (run, other):
        if not isinstance(each, State):
            what = f"can't compare {type(each).__name__} {shorten(mask(repr(each)))}, expected a run"
            raise UsageError(what, layer="records", remedy="Give it what agent.run(...) returned.")
    if len(names) != 2 or names[0] == names[1]:
        raise UsageError(f"names={list(names)!r} for two runs", layer="records", remedy="Give each run its own name.")
    rows = list(_rows(aligned(run.steps, other.steps)))
    rows += _end(run, other, rows)
    called = tuple(printable(shorten(mask(plain(clean(name))), 30)) for name in names)
    return Diff(tuple(rows), _totals(run, other), called, seconds)  # type: ignore[arg-type]  # two of two


# ── the rows ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _rows(pairs: Sequence[Pair]) -> Iterator[dict[str, Any]]:
    """A row for each pair. What goes along with every request is told in the row in which it begins to differ."""
    own = [pair for pair in pairs if not is_shared(pair)]
    first, first_other = (next(filter(None, side), None) for side in (zip(*own, strict=True) if own else ((), ())))
    told: list[Difference] = []
    for one, other in pairs:
        if is_shared((one, other)):
            yield _row(one, other, "shared", [])
            continue
        asked, asked_other = one or first, other or first_other
        sent = always_sent(asked, asked_other) if asked and asked_other else []
        found = [] if sent == told else sent
        found = [*found, *(step_differences(one, other) if one and other else ())]
        told = sent
        yield _row(one, other, _status(one, other, found), found)


def _status(one: Step | None, other: Step | None, found: list[Difference]) -> str:
    if one is None or other is None:
        return "only in other" if one is None else "only in run"
    return "differs" if found else "same"


def _row(one: Step | None, other: Step | None, status: str, found: list[Difference]) -> dict[str, Any]:
    mine = _numbers(one)
    theirs = mine if is_shared((one, other)) else _numbers(other)
    return {
        **mine,
        **{f"other_{name}": value for name, value in theirs.items()},
        "status": status,
        "differences": found,
    }


def _numbers(step: Step | None) -> dict[str, Any]:
    if step is None:
        return dict.fromkeys(("step", "did", "tokens", "seconds"))
    tokens = step.usage.total if step.usage else None
    return {"step": step.number, "did": _did(step), "tokens": tokens, "seconds": round(step.seconds, 3)}


def _did(step: Step) -> str:
    """The step in a few words, in one line: its calls, or that it answered, or why not."""
    if step.calls:
        asked = ", ".join(f"{call.name[:60]}({call.arguments[:200]})" for call in step.calls[:3])
        more = f" and {len(step.calls) - 3} more" if len(step.calls) > 3 else ""
        return shorten(mask(plain(clean(asked))), 100) + more
    if step.decision.answer is not None:
        return "answered"
    return f"stopped: {step.decision.stop}" if step.decision.stop else "asked again"


def _end(run: State, other: State, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How the runs end, as far as the rows don't tell yet."""
    told = {each["what"] for row in rows[-1:] for each in row["differences"]}
    found = [*difference("done", "stop", *(str(each.stop or NOT_FINISHED) for each in (run, other)))]
    found += [*difference("said", "answer", run.answer, other.answer)]
    found += [*difference("done", "detail", run.detail or None, other.detail or None)]
    if not rows:
        found += [*difference("sent", "goal", run.goal, other.goal)]
    found = [each for each in found if each["what"] not in told]
    return [_row(None, None, "the end", found)] if found else []


def _totals(run: State, other: State) -> dict[str, tuple[Any, Any]]:
    def both(of: Callable[[State], Any]) -> tuple[Any, Any]:
        return of(run), of(other)

    return {
        "steps": both(lambda each: each.counters.steps),
        "tool calls": both(lambda each: each.counters.tool_calls),
        "tokens": both(lambda each: each.usage.total if each.usage.complete else None),
        "stop": both(lambda each: str(each.stop or NOT_FINISHED)),
        "seconds": both(lambda each: round(each.counters.seconds, 3)),
    }
