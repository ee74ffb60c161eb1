"""pass@k over tasks, each with how many tasks it is of."""

from __future__ import annotations

from agentnb.comparison.passes import passes


def test_pass_at_k_says_n_of_n():
    """Tasks with too few runs are left out and counted; with none left it is undefined, not 0."""
    found = passes({"A": {"x": [1, 0, 1], "y": [1, 0.5, None], "z": [0, None, None]}, "B": {"x": [None]}}, (1, 2, 4))

    assert [str(each) for each in found["A"]] == [
        "pass@1 0.39 over 3 of 3 tasks",
        "pass@2 1.00 over 2 of 3 tasks",
        "pass@4 undefined over 0 of 3 tasks",
        "pass^1 0.39 over 3 of 3 tasks",
        "pass^2 0.17 over 2 of 3 tasks",
        "pass^4 undefined over 0 of 3 tasks",
    ]
    assert [each.value for each in found["B"]] == [None] * 6
