"""Which step of one run stands beside which of another: equal calls first, between those equal tools, then in order.

Long runs are cut at what stands once in both, so that the cost grows with their length and not with its square.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile, zip_longest

from agentnb.core.state import Step
from agentnb.strict_json import normalised

Pair = tuple[Step | None, Step | None]
Signs = Sequence[Hashable]
Steps = Sequence[Step]
SHORT = 500
"""So many steps, both runs together, are compared each with each."""


def aligned(steps: Steps, others: Steps) -> list[Pair]:
    """Each step with the one that stands for it in the other run, or with None; in order."""
    shared = sum(1 for _ in takewhile(is_shared, zip(steps, others, strict=False)))
    pairs: list[Pair] = [*zip(steps[:shared], others[:shared], strict=True)]
    for same, ones, twos in _stretches(steps[shared:], others[shared:], _calls):
        for _, mine, theirs in [(True, ones, twos)] if same else _stretches(ones, twos, _tools):
            pairs += zip_longest(mine, theirs)
    return pairs


def is_shared(pair: Pair) -> bool:
    """Whether both are the same step of the same tree of States."""
    one, other = pair
    return one is not None and other is not None and one.plan is other.plan and one.last is other.last


def _calls(step: Step) -> Hashable:
    return tuple((call.name, normalised(call.arguments)) for call in step.calls) or _tools(step)


def _tools(step: Step) -> Hashable:
    if step.calls:
        return tuple(call.name for call in step.calls)
    return "answer" if step.decision.answer is not None else "no call"


def _stretches(steps: Steps, others: Steps, sign: Callable[[Step], Hashable]) -> Iterator[tuple[bool, Steps, Steps]]:
    """Both runs cut into stretches with equal signs (True) and those between them (False), in order."""
    at = other_at = 0
    for start, other_start, size in matches([*map(sign, steps)], [*map(sign, others)]):
        yield False, steps[at:start], others[other_at:other_start]
        at, other_at = start + size, other_start + size
        yield True, steps[start:at], others[other_start:other_at]
    yield False, steps[at:], others[other_at:]


def matches(one: Signs, other: Signs) -> Iterator[tuple[int, int, int]]:
    """Equal stretches, in order: where each begins in the one and in the other, and how long it is.

    Between an equal start and an equal end, anchors cut what is long; what is long and has no anchor has no match.
    """
    start = _common(one, other)
    end = _common(one[start:][::-1], other[start:][::-1])
    yield 0, 0, start
    at, other_at = start, start
    last = (len(one) - end, len(other) - end)
    for place, other_place in [*_anchors(one, other, start, *last), last]:
        if place - at + other_place - other_at <= SHORT:
            found = SequenceMatcher(None, one[at:place], other[other_at:other_place], autojunk=False)
            yield from ((at + a, other_at + b, size) for a, b, size in found.get_matching_blocks())
        at, other_at = place, other_place
    yield *last, end


def _common(one: Signs, other: Signs) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _anchors(one: Signs, other: Signs, start: int, end: int, other_end: int) -> list[tuple[int, int]]:
    """The places of signs that stand once in each, as many as come in the same order; none are needed in short runs."""
    if end - start + other_end - start <= SHORT:
        return []
    counts, other_counts = Counter(one[start:end]), Counter(other[start:other_end])
    places = {other[place]: place for place in range(start, other_end) if other_counts[other[place]] == 1}
    found = [(n, places[one[n]]) for n in range(start, end) if counts[one[n]] == 1 and one[n] in places]
    return _longest_rising(found)


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """As many of the pairs as possible whose second numbers rise; the first ones do already."""
    tops: list[int] = []
    ends: list[int] = []
    before: list[int | None] = []
    for number, (_, value) in enumerate(pairs):
        pile = bisect_left(tops, value)
        before.append(ends[pile - 1] if pile else None)
        tops[pile : pile + 1] = [value]
        ends[pile : pile + 1] = [number]
    chain = []
    at = ends[-1] if ends else None
    while at is not None:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]
