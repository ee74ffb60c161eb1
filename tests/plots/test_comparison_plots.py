"""Pictures of comparisons: the numbers behind them, the same text each time, nothing unknown drawn as 0."""

from __future__ import annotations

import pytest

from agentnb import compare
from agentnb.errors import UsageError
from agentnb.plots.comparison_plots import outcome_plot, pareto_plot, spread_plot


def point(variant, score, x):
    """One variant with an interval of 0.1 around its score."""
    span = {"score_low": score and score - 0.1, "score_high": score and score + 0.1}
    return {"variant": variant, "score": score, **span, "x": x, "x_low": x, "x_high": x, "n": 9, "total": 10}


POINTS = [point("cheap", 0.5, 100), point("good", 0.9, 900), point("bad", 0.4, 800), point("dark", None, 50)]


def test_the_front_is_who_is_beaten_on_both_by_nobody():
    """A variant that another beats in score and cost is off the front; one without a score is named, not drawn."""
    plot = pareto_plot(POINTS, "tokens a run")

    assert {row["variant"]: row["on_front"] for row in plot.rows} == {"cheap": True, "good": True, "bad": False}
    assert "Not shown, since score or tokens a run is unknown: dark" in str(plot)
    assert "9 of 10" in str(plot)


def test_equal_variants_are_both_on_the_front():
    """Neither beats the other."""
    plot = pareto_plot([point("a", 0.5, 100), point("b", 0.5, 100)], "tokens a run")

    assert [row["on_front"] for row in plot.rows] == [True, True]


def test_quartiles_of_each_variant():
    """Least, quartiles and most; nothing for a variant that has no numbers."""
    plot = spread_plot({"a": [1, 2, 3, 4, 5], "b": [7], "c": []}, "steps")

    assert [row["median"] for row in plot.rows] == [3, 7, None]
    assert plot.rows[0]["quarter"] == 2
    assert str(plot).splitlines()[-1].split() == ["c", "0", *["n/a"] * 5]


def test_times_are_not_told_in_words():
    """They are another each time, so the text holds only how many there are."""
    assert str(spread_plot({"a": [1.5, 2.5]}, "seconds", told=False)) == "seconds a run\n  variant  runs\n  a        2"


def test_outcomes_are_counted():
    """Every outcome is a column, also one that only one variant has."""
    plot = outcome_plot({"a": {"right": 5, "error": 1}, "b": {"right": 6}})

    assert plot.rows == [{"variant": "a", "right": 5, "error": 1}, {"variant": "b", "right": 6, "error": 0}]


@pytest.mark.slow
def test_each_picture_of_a_comparison_is_drawn():
    """Names with dollars and other letters do no harm; a kind that is not there is refused with those that are."""

    def model(request):
        return {"content": "4", "usage": {"prompt_tokens": len(request.messages), "completion_tokens": 1}}

    result = compare({"$a_b$ 漢": model, "b": model}, [{"goal": "2 + 2", "expected": 4}] * 3, repeats=2)
    for kind in ("pareto", "outcomes", "tokens", "seconds", "steps"):
        plot = result.plot(kind)
        assert plot._repr_mimebundle_()[0]["image/png"]
        assert str(plot) == str(result.plot(kind))

    with pytest.raises(UsageError, match="Choose one of pareto, outcomes, steps"):
        result.plot("pie")
