"""Cohen's kappa against figures worked out by hand, its interval, and who called what."""

from __future__ import annotations

import pytest

from agentnb.comparison.agreement import agreement
from agentnb.errors import UsageError


def labelled(table, labels):
    """Labels of two raters that make this table."""
    pairs = [(r, c) for i, r in enumerate(labels) for j, c in enumerate(labels) for _ in range(table[i][j])]
    return {n: row for n, (row, _) in enumerate(pairs)}, {n: column for n, (_, column) in enumerate(pairs)}


def test_kappa_of_a_known_table():
    """20, 5, 10, 15: agreement 0.7, by chance 0.5, kappa 0.4."""
    report = agreement(*labelled([[20, 5], [10, 15]], ["no", "yes"]))

    assert (report.agreed, report.chance, report.kappa) == pytest.approx((0.7, 0.5, 0.4), abs=1e-12)
    assert report.table == ((20, 5), (10, 15))
    assert report.interval.low < 0.4 < report.interval.high
    assert str(report).splitlines() == [
        "agree on 70% of 50 (56% to 81%); kappa 0.40 (0.12 to 0.62)",
        "people \\ judge  no  yes",
        "no              20  5  ",
        "yes             10  15 ",
    ]


def test_perfect_agreement_on_few_items_is_not_certain():
    """Kappa is 1, and its interval has a width."""
    report = agreement(*labelled([[5, 0], [0, 5]], ["a", "b"]))

    assert report.kappa == 1
    assert report.interval.low < 0.6
    assert report.interval.high == pytest.approx(1)


def test_one_label_only_has_no_kappa():
    """Agreement that could not have failed is None, not 1."""
    report = agreement({"a": "right", "b": "right"}, {"a": "right", "b": "right"})

    assert report.kappa is None
    assert "only one label" in str(report)


def test_items_of_one_side_are_told():
    """What only one has labelled is counted beside; a label None is no label."""
    report = agreement({1: True, 2: False, 3: True, 4: None}, {"1": "True", "2": "False", "5": "True"})

    assert (report.n, report.total) == (2, 4)
    assert "2 of 4 labelled by one side only" in str(report)
    with pytest.raises(UsageError, match="no item"):
        agreement({"a": 1}, {"b": 1})
