"""How much of a text is shown, and what of it can be shown at all.

`shown` makes any text fit to be looked at; `cut` keeps as much of it as its room allows and says where the rest is;
`Budget` hands the blocks of one run their room, so that the saved output of a run stays below a bound. Room and cost
are bytes in a saved notebook.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from unicodedata import combining

from agentnb.text import clean, mask, plain

RUN_BYTES = 200_000
"""What the saved output of one cell may take in all."""
RECORD_BYTES = 20_000
"""What is kept of it for the run itself, in the metadata of the last output, from which `load` reads it again."""
STEP_BYTES = 30_000
LEAST_BYTES = 1_000
"""What a step gets even when the room of its run is used up: enough for its one line."""

_LINE_BYTES = 12
_TRIES = 8
_DISPLAY_BYTES = 300
_NOTE_BYTES = 120
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Signs that turn the direction of what follows them."""
_JOINERS = "\u200d\ufe0e\ufe0f"


@dataclass(slots=True)
class Budget:
    """The room that one cell still has for its run, and which steps of the run it has shown."""

    total: int = RUN_BYTES
    """Bytes of the saved output, the final block included."""
    spent: int = 0
    first: int = 0
    """Number of the first step that was shown; 0 when none was."""
    last: int = 0
    """Number of the newest step that was shown."""
    kept: int = 0
    """Bytes that the final block leaves for the record of the run."""
    ahead: int | None = None
    """How many steps are still to come; None: it is not known."""

    @property
    def step(self) -> int:
        """The room of the next step, 30 kB at most, and never nothing.

        It is an eighth of what is left beside the final block, or an even share where fewer steps are to come.
        """
        left = self.total - self.total // 5 - self.spent
        return max(LEAST_BYTES, min(STEP_BYTES, left // min(8, self.ahead or 8)))

    @property
    def final(self) -> int:
        """The room of the final block: all that is left, but for what is kept."""
        return max(LEAST_BYTES, self.total - self.spent - self.kept)

    @property
    def record(self) -> int:
        """The room of the record, when the final block has been spent: what is kept, and what was left over."""
        return max(LEAST_BYTES, self.total - self.spent)

    def spend(self, *texts: str, step: int = 0) -> None:
        """These texts were shown in one display, that of this step."""
        self.spent += _DISPLAY_BYTES + sum(map(cost, texts))
        self.first, self.last = self.first or step, step or self.last
        if step and self.ahead is not None:
            self.ahead = max(1, self.ahead - 1)


def cost(text: str) -> int:
    """The bytes that a text takes in a saved notebook, where each line is a JSON string of its own."""
    lines = text.count("\n") if text.isascii() else sum(map(text.count, "\n\u2028\u2029"))
    return len(json.dumps(text, ensure_ascii=False).encode()) + _LINE_BYTES * lines


def shown(text: str) -> str:
    """The text as it can be shown: no colour codes, control characters or secrets, and valid Unicode."""
    text = plain(clean(text)).replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii():
        text = _TURNING.sub("", text)
    return mask(text)


def escaped(text: str) -> str:
    """The text as it can be shown between HTML tags; not for an attribute, since quotes stay as they are."""
    return escape(shown(text), quote=False)


def cut(text: str, room: int, where: str = "", tail: bool = False) -> tuple[str, str]:
    """As much of a text as costs at most `room` bytes as HTML, and a note of what is missing.

    Args:
        text: As it is in the run.
        room: Bytes.
        where: The expression that holds the whole text, such as "run.steps[0].results[0].content".
        tail: Keep the end instead of the beginning.

    Returns:
        The part that is shown, fit to be shown but not escaped, and the note; "" when nothing is missing.
    """
    count = min(len(text), max(room, 0))
    while count:
        piece = shown(_piece(text, count, tail))
        size = cost(escape(piece, quote=False))
        if size <= room:
            break
        count = min(count - 1, count * room // size)
    if count == len(text):
        return (piece if text else ""), ""
    if count and not tail:
        count = _whole(text, count)
    return shown(_piece(text, count, tail)) if count else "", _missing(count, len(text), where, tail)


def _piece(text: str, count: int, tail: bool) -> str:
    return text[len(text) - count :] if tail else text[:count]


def _whole(text: str, count: int) -> int:
    """A little less than `count`, where an accent or a joined emoji would be torn off its letter."""
    least = max(0, count - 16)
    while count > least and (combining(text[count]) or text[count] in _JOINERS or text[count - 1] == "\u200d"):
        count -= 1
    return count


def _missing(count: int, total: int, where: str, tail: bool) -> str:
    which = "the last " if tail else ""
    rest = f", the rest is in {where}" if where else ""
    return f"… {which}{count:,} of {total:,} characters{rest}"


def shares(costs: Sequence[int], room: int) -> list[int]:
    """Divide `room`: the short get all they ask for, the long share what is left equally.

    What costs no more than the note that would say it was cut is never cut.
    """
    given = [0] * len(costs)
    order = sorted(range(len(costs)), key=costs.__getitem__)
    for position, index in enumerate(order):
        given[index] = min(costs[index], max(_NOTE_BYTES, room // (len(costs) - position)))
        room -= given[index]
    return given


def wanted(text: str, room: int) -> int:
    """The room that a text would take as HTML; more than `room` is not looked at."""
    return cost(escape(text[: max(room, 0) + 1].encode("utf-8", "replace").decode(), quote=False))


def within(limit: int, draw: Callable[[int], str]) -> str:
    """What `draw(room)` makes, with about the most room for its texts at which the whole costs at most `limit`.

    `draw(0)` is the least there is, whatever it costs.
    """
    best, low, high, room, excess = "", 0, limit, limit, 0
    for _ in range(_TRIES):
        drawn, before = draw(room) if room else "", excess
        excess = cost(drawn) - limit if drawn else 0
        if drawn and excess <= 0:
            best, low = drawn, room
        else:
            high = room
        if high - low <= limit // 16:
            break
        guess = room - excess  # right when all beside the texts costs the same, however they are cut
        room = guess if low < guess < high and excess > 0 and excess != before else (low + high) // 2
    return best or draw(0)
