"""A Diff in words: for a terminal, and as Markdown. Lines with "-" are of the first run, lines with "+" of the other.

Whatever the runs hold is quoted and cut, so a Diff of long runs stays readable, and is the same text each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from agentnb.records.diff_steps import Difference
from agentnb.records.excerpts import apart, excerpt, printable
from agentnb.text import counted

if TYPE_CHECKING:
    from agentnb.records.diff import Diff

MOST_LINES = 80
"""How many rows and differences are shown."""
MOST_DIFFERENCES = 8
"""Of one row."""
_WINDOW = 120
_SAME = ("shared", "same")
Row = dict[str, Any]


def text(made: Diff) -> str:
    """The whole account."""
    return "\n".join([*headlines(made), *([] if made.equal else ["", *_body(made)])])


def markdown(made: Diff) -> str:
    """The same in a fence, which front ends colour, and in which nothing is markup."""
    told = text(made)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", told)), default=0))
    return f"{fence}diff\n{told}\n{fence}"


# ── above ────────────────────────────────────────────────────────────────────────────────────────────────────────


def headlines(made: Diff) -> list[str]:
    """Where the runs part, where they first act differently, and the totals."""
    one, other = made.names
    if made.first is None:
        same = "the same States" if all(row["status"] == "shared" for row in made.rows) else "nothing differs"
        told = [f"{one} and {other} are equal: {counted(len(made.rows), 'step')}, {same}."]
    else:
        told = [f"{one} and {other} part at {place(made.first, made.names)}: {_whats(made.first, made.names)}."]
        act = next((row for row in made.rows if _acts(row)), None)
        if act is not None and act is not made.first:
            told.append(f"They first act differently at {place(act, made.names)}: {_whats(act, made.names)}.")
    return [*told, totals(made)]


def _acts(row: Row) -> bool:
    if row["status"] in _SAME:
        return False
    paired = None not in (row["step"], row["other_step"])
    return not paired or any(each["kind"] != "sent" and each["what"] != "reasoning" for each in row["differences"])


def _whats(row: Row, names: Sequence[str]) -> str:
    if row["status"].startswith("only in"):
        return f"{printable(row['did'] or row['other_did'])}, {status_words(row, names)}"
    return ", ".join(printable(each["what"]) for each in row["differences"][:4])


def totals(made: Diff) -> str:
    """Both runs in numbers: "steps 3 → 4 · tokens 212"."""
    shown = {name: pair for name, pair in made.totals.items() if name != "seconds" or made.show_seconds}
    return " · ".join(f"{name} {numbers(*pair)}" for name, pair in shown.items())


def numbers(one: Any, other: Any) -> str:
    """Two numbers, or one where they are equal: "212 → 220", "212", "n/a → 220"."""
    shown = [each if isinstance(each, str) else "n/a" if each is None else f"{each:,}" for each in (one, other)]
    return shown[0] if shown[0] == shown[1] else " → ".join(shown)


# ── step by step ─────────────────────────────────────────────────────────────────────────────────────────────────


def groups(made: Diff) -> Iterator[tuple[list[Row], int]]:
    """The rows to show, each after the number of those left out before it: equal ones in a row together, each other
    one alone, the end of the runs in any case."""
    room, left_out = MOST_LINES, 0
    for same, found in groupby(made.rows, key=lambda row: row["status"] in _SAME):
        rows = list(found)
        for group in [rows] if same else ([row] for row in rows):
            if room > 0 or group[0]["status"] == "the end":
                yield group, left_out
                left_out = 0
            else:
                left_out += len(group)
            room -= 1 + min(len(group[0]["differences"]), MOST_DIFFERENCES)
    if left_out:
        yield [], left_out


def _body(made: Diff) -> Iterator[str]:
    one, other = made.names
    yield f"- is {one}, + is {other}"
    for rows, left_out in groups(made):
        if left_out:
            yield left_out_words(left_out)
        if rows:
            yield line(rows, made)
        for each in differences(rows):
            yield from _difference(each)
        if rows and (more := len(rows[0]["differences"]) - MOST_DIFFERENCES) > 0:
            yield f"  … {counted(more, 'more difference')}, in .rows"


def differences(rows: Sequence[Row]) -> list[Difference]:
    """The differences of a group that are shown."""
    return rows[0]["differences"][:MOST_DIFFERENCES] if len(rows) == 1 else []


def _difference(each: Difference) -> Iterator[str]:
    was, now = values(each)
    yield f"  {printable(each['what'])}"
    yield from (f"{sign} {value}" for sign, value in (("-", was), ("+", now)))


def values(each: Difference) -> tuple[str, str]:
    """Both values, quoted and cut to where they part."""
    was, now = each["run"], each["other"]
    if was is not None and now is not None:
        return apart(was, now, _WINDOW)
    return _value(was), _value(now)


def _value(value: str | None) -> str:
    return "(none)" if value is None else excerpt(value, 0, _WINDOW)


def line(rows: Sequence[Row], made: Diff) -> str:
    """A group in one line: where it is, what is the matter, what was done, tokens where they differ."""
    first = rows[0]
    if len(rows) > 1:
        return f"{place(first, made.names)} to {place(rows[-1], made.names)} · the same"
    told = [place(first, made.names), status_words(first, made.names)]
    if first["status"] in (*_SAME, "only in run", "only in other"):
        told.append(printable(first["did"] or first["other_did"]))
    if None not in (first["step"], first["other_step"]):
        if first["tokens"] != first["other_tokens"]:
            told.append(f"tokens {numbers(first['tokens'], first['other_tokens'])}")
        if made.show_seconds:
            told.append(f"{numbers(first['seconds'], first['other_seconds'])} s")
    return " · ".join(told)


def status_words(row: Row, names: Sequence[str]) -> str:
    """In words, with the names of the runs."""
    told = {"differs": "differs", "the end": "differs", "shared": "the same", "same": "the same"}
    told |= {"only in run": f"only in {names[0]}", "only in other": f"only in {names[1]}"}
    return told[row["status"]]


def place(row: Row, names: Sequence[str]) -> str:
    """Such as "step 3", "step 3 (4 in other)" where the numbers differ, or "the end"."""
    step, other = row["step"], row["other_step"]
    if step is None or other is None or step == other:
        known = other if step is None else step
        return "the end" if known is None else f"step {known:,}"
    return f"step {step:,} ({other:,} in {names[1]})"


def left_out_words(number: int) -> str:
    """How many rows are not shown, and where they are."""
    return f"… {counted(number, 'more step')}, in .rows"
