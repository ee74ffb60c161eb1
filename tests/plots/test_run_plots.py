"""The numbers of a plot, its text form, its picture and its files."""

from __future__ import annotations

import base64
import subprocess
import sys
import warnings
from itertools import combinations

import pytest
from fakes import FunctionTool, says

from agentnb.core.messages import ToolCall, ToolResult, Usage
from agentnb.core.model import ModelReply
from agentnb.core.planner import Decision
from agentnb.core.state import State
from agentnb.errors import AgentnbError, UsageError
from agentnb.models.scripted import calls
from agentnb.plots.fonts import readable
from agentnb.plots.plot import Plot
from agentnb.plots.run_plots import plot, token_rows, tool_counts

PNG = b"\x89PNG\r\n\x1a\n"


def run_of(*usages: Usage | None, tool: str = "get_weather") -> State:
    """A run whose steps, all but the last with one call, report these tokens."""
    state = State.start("goal")
    for number, usage in enumerate(usages, 1):
        asked = (ToolCall("c", tool),) if number < len(usages) else ()
        reply = ModelReply("done" if not asked else "", asked, usage=usage)
        state = state.planned(Decision(reply, calls=asked, answer=None if asked else "done"))
        if asked:
            state = state.answered(ToolResult("c", tool, "31.0"))
    return state


RUN = run_of(Usage(100, 20, 0, None, 5), Usage(150, 30, 100, None, None), Usage(200, 10, 150, None, 0))
GAPPY = run_of(Usage(100, 20), None, Usage(None, 5), Usage(50, 5))


def test_rows_hold_the_tokens_by_kind():
    """Fresh and cached input and visible output and reasoning add up to the total."""
    first, second, third = token_rows(RUN.steps)

    assert first == {
        "step": 1, "calls": 1, "input": 100, "fresh": 100, "cached": 0, "output": 20, "visible": 15, "reasoning": 5,
        "total": 120, "cumulative": 120, "complete": True,
    }  # fmt: skip
    assert (second["fresh"], second["cached"], second["visible"], second["reasoning"]) == (50, 100, 30, None)
    assert (third["calls"], third["cumulative"]) == (0, 510)


def test_unknown_tokens_stay_unknown():
    """A step without usage has no numbers; the sum is of what is known, and marked from there on."""
    rows = token_rows(GAPPY.steps)

    assert [row["total"] for row in rows] == [120, None, 5, 55]
    assert [row["cumulative"] for row in rows] == [120, 120, 125, 180]
    assert [row["complete"] for row in rows] == [True, False, False, False]


def test_a_sum_of_nothing_known_is_unknown():
    """It is n/a and never 0, in rows, text and alt, for tokens and for money, until something is known."""
    late = run_of(None, Usage(50, 5))
    tokens, costs = plot(late), plot(late, kind="cost")

    assert [row["cumulative"] for row in tokens.rows] == [None, 55]
    assert [line.split()[-1] for line in tokens.text.splitlines()[2:]] == ["n/a", "55"]
    assert [row["cumulative"] for row in costs.rows] == [None, None]
    assert costs.alt == "Cumulative cost. run: n/a."
    assert "≥" not in costs.text


def test_a_step_without_a_model_call_used_nothing():
    """Where no model was asked, zero is true."""
    state = State.start("goal").planned(Decision(answer="done"))

    assert token_rows(state.steps)[0]["total"] == 0
    assert token_rows(state.steps)[0]["complete"] is True


def test_the_text_form():
    """A summary and a table; it holds no time, so it may be compared."""
    assert plot(GAPPY).text == (
        "run: 4 steps, 3 tool calls, at least 180 tokens, answer\n"
        "  step  calls  fresh input  cached input  output  reasoning  total  cumulative\n"
        "     1      1          100           n/a      20        n/a    120         120\n"
        "     2      1          n/a           n/a     n/a        n/a    n/a       ≥ 120\n"
        "     3      1          n/a           n/a       5        n/a      5       ≥ 125\n"
        "     4      0           50           n/a       5        n/a     55       ≥ 180"
    )
    assert repr(plot(RUN)) == plot(RUN).text


def test_the_text_form_of_a_long_run():
    """Of very many steps the first and the last are in the table; the rows hold all."""
    made = plot(run_of(*[Usage(1_000, 10)] * 200))

    assert "… 140 steps between them, all are in .rows" in made.text
    assert len(made.text.splitlines()) == 2 + 60 + 1
    assert len(made.rows) == 200


def test_rows_of_several_runs():
    """Each row names its run."""
    made = plot(RUN, GAPPY, names=["small", "large"])

    assert [row["run"] for row in made.rows] == ["small"] * 3 + ["large"] * 4
    assert made.text.count("\n\n") == 1
    assert plot(RUN, GAPPY).rows[0]["run"] == "run 1"


def timed() -> State:
    """Two steps: a model that waited a second before its two, a tool of three; then a model that tells no time of its own."""
    state, asked = State.start("goal"), (ToolCall("c", "look"),)
    state = state.planned(Decision(ModelReply("", asked, seconds=2.0, cost=0.01), calls=asked), 3.0)
    state = state.answered(ToolResult("c", "look", "seen"), 3.0)
    return state.planned(Decision(ModelReply("done"), answer="done"), 0.5)


def test_seconds_are_split():
    """What a reply took beyond the model's own seconds was waiting; without those the model had them all."""
    made = plot(timed(), kind="time")

    assert made.rows == [
        {"run": "run", "step": 1, "model": 2.0, "tools": 3.0, "waiting": 1.0, "total": 6.0},
        {"run": "run", "step": 2, "model": 0.5, "tools": 0.0, "waiting": 0.0, "total": 0.5},
    ]
    assert made.alt == "Seconds per step. run: model 2.5 s, tools 3.0 s, waiting 1.0 s."
    assert "6.0" not in made.text


def test_cost_is_known_or_not():
    """A step whose price nobody knows is n/a, and what follows it is a lower bound."""
    made = plot(timed(), kind="cost")

    assert [row["total"] for row in made.rows] == [0.01, None]
    assert made.text.split("\n")[1:] == [
        "  step     cost  cumulative",
        "     1  $0.0100     $0.0100",
        "     2      n/a   ≥ $0.0100",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["time", "cost"])
@pytest.mark.parametrize("number", [1, 2, 5])
def test_time_and_cost_can_be_drawn(kind, number):
    """One run, a few side by side, many as lines."""
    figure = plot(*[timed()] * number, kind=kind).figure

    assert len(figure.axes) == (number if kind == "time" and number < 5 else 1)
    assert plot(State.start("goal"), kind=kind).figure.axes


def test_tools_are_counted():
    """The most used first."""
    assert tool_counts(RUN) == {"get_weather": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "kind"),
    [
        *[(RUN, "tokens"), (GAPPY, "cumulative"), (RUN, "counts")],
        *[(GAPPY, None), (State.start("goal"), None), (run_of(*[Usage(9, 9)] * 80), None)],
    ],
)
def test_every_panel_can_be_drawn(run, kind):
    """One run, a run with gaps, one without steps, a long one: a PNG, its size and its words, without a warning."""
    data, metadata = plot(run, kind=kind)._repr_mimebundle_()
    size = metadata["image/png"]

    assert base64.b64decode(data["image/png"]).startswith(PNG)
    assert data["text/plain"] == plot(run).text
    assert size["width"] > size["height"] > 100
    shown = {"cumulative": "Cumulative tokens", "counts": "Steps and tool calls"}.get(kind, "Tokens per step")
    assert size["alt"].startswith(f"{shown}. run: ")


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 4, 7])
def test_runs_beside_each_other(number):
    """Bars of up to four runs share a scale; more runs become lines."""
    runs = [run_of(Usage(100 * k, 10), Usage(200 * k, 10)) for k in range(1, number + 1)]
    figure = plot(*runs).figure
    tops = {axes.get_ylim()[1] for axes in figure.axes if axes.get_title("left").startswith("Tokens per step")}

    assert len(tops) == 1
    assert len(figure.axes) == (number if number <= 4 else 1) + 2


@pytest.mark.slow
def test_gaps_are_hatched():
    """Steps whose tokens are unknown are a hatched space with the words n/a, not a missing bar; one patch for all."""
    axes = plot(GAPPY, kind="tokens").figure.axes[0]
    [hatched] = [artist for artist in axes.get_children() if getattr(artist, "get_hatch", str)()]
    places = hatched.get_path().vertices[:, 0]

    assert sorted({round(place, 2) for place in places}) == [1.64, 2, 2.36, 2.64, 3, 3.36]
    assert [text.get_text() for text in axes.texts] == ["n/a"]


@pytest.mark.slow
def test_a_long_run_is_a_few_shapes():
    """Each step of its own would take a second to draw, when some thirds of it are unknown."""
    usages = [None if number % 3 else Usage(100, 10) for number in range(300)]
    for axes in plot(run_of(*usages)).figure.axes:
        shapes = [artist for artist in axes.get_children() if hasattr(artist, "get_hatch")]
        assert len(shapes) < 20
        assert len(axes.texts) < 10


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 5])
@pytest.mark.parametrize(("kind", "word"), [("tokens", "tokens n/a"), (None, "tokens n/a"), ("cost", "cost n/a")])
def test_nothing_known_is_a_word(kind, word, number):
    """No line and no scale in the picture where no step has a number, but the word for it; nowhere a 0."""
    made = plot(*[run_of(None, None)] * number, kind=kind)
    told = [text.get_text() for axes in made.figure.axes for text in axes.texts]

    assert told.count(word) >= 1
    for axes in made.figure.axes:
        if word in [text.get_text() for text in axes.texts]:
            assert all(value != value for line in axes.lines for value in line.get_ydata())
            assert not any(tick.label1.get_visible() for tick in axes.yaxis.get_major_ticks())
            assert "known ones" not in axes.get_title("left")


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_labels_find_their_place(number):
    """Every panel with its labels lies within the figure and beside the others, also one that has got a name since."""
    names = [f"{k} is a run with a name of many words"[:30] for k in range(number)]
    made = plot(*[run_of(Usage(9_000_000, 10), tool="a_tool_of_many_words")] * number, names=names)
    figure = made.figure
    figure.axes[0].set_ylabel("tokens")
    made._repr_mimebundle_()
    boxes = [axes.get_tightbbox() for axes in figure.axes]

    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert all(figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1 for box in boxes)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize("how", ["picture", "figure"])
def test_without_matplotlib_it_says_so(how, monkeypatch):
    """Rows and text are there; who asks for the picture learns what to do."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    made = plot(RUN)

    assert made.rows
    with pytest.raises(AgentnbError, match=r"matplotlib.*can't be imported.*%pip install -U matplotlib"):
        made._repr_mimebundle_() if how == "picture" else made.figure


def test_the_figure_is_made_once_and_apart_from_pyplot():
    """So it is shown once in a cell, needs no closing, and can be changed before it is saved."""
    made = plot(RUN)
    figure = made.figure
    figure.axes[0].set_title("mine")

    assert made.figure is figure
    assert figure.axes[0].get_title() == "mine"
    assert figure.canvas.manager is None


@pytest.mark.slow
def test_matplotlib_is_loaded_on_first_use():
    """Rows and text need no matplotlib; neither brings pyplot along."""
    code = (
        "import sys; from agentnb.plots.run_plots import plot; from agentnb.core.state import State\n"
        "made = plot(State.start('g')); made.text; repr(made); assert 'matplotlib' not in sys.modules\n"
        "made._repr_mimebundle_(); assert 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "start"), [("a.png", PNG), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")])
def test_saving(tmp_path, name, start):
    """The end of the name says the kind; the file tells no date."""
    written = plot(RUN).save(str(tmp_path / name))

    assert written == tmp_path / name
    assert written.read_bytes().startswith(start)
    assert b"Date" not in written.read_bytes()
    assert b"date" not in written.read_bytes()


def test_saving_as_something_else(tmp_path):
    """Another ending is an error that names those that work."""
    with pytest.raises(UsageError, match=r"plots: can't save a plot as 'a.docx'. End the name in .png, .svg or .pdf."):
        plot(RUN).save(tmp_path / "a.docx")


def test_the_ground_is_transparent_and_the_axes_grey():
    """It reads on light and on dark pages: no ground of its own, mid-tone colours only."""
    from matplotlib.colors import to_rgb, to_rgba

    figure = plot(RUN, GAPPY).figure
    for axes in figure.axes:
        assert to_rgba(axes.get_facecolor())[3] == 0
        assert axes.title.get_color() == "#808080"
        colours = [patch.get_facecolor() for patch in axes.patches if patch.get_fill()]
        colours += [line.get_color() for line in axes.lines]
        for colour in colours:
            assert contrast(to_rgb(colour), (1, 1, 1)) > 2.5
            assert contrast(to_rgb(colour), (0.07, 0.07, 0.07)) > 2.5


def contrast(one, other) -> float:
    """The contrast ratio of two colours, as WCAG counts it."""

    def light(colour) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.slow
def test_labels_are_taken_as_they_are():
    """Dollars are no formula, Chinese has no empty boxes, and what no font has is a question mark; nothing warns."""
    runs = [run_of(Usage(1, 1), Usage(2, 2), tool="天气_$x^2$"), RUN]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot(*runs, names=["$\\frac{", "模型 🙂 \ud83d \x1b[31m"])._repr_mimebundle_()
        plot(runs[0])._repr_mimebundle_()

    assert readable("a🙂b\U0010fffd") in ("a?b?", "a🙂b?")
    assert readable("é") == "é"


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((3,), {}, "can't plot int 3, expected a run"),
        ((RUN,), {"kind": "pie"}, "no plot of kind 'pie'"),
        ((RUN, RUN), {"names": ["a"]}, r"names=\['a'\] for 2 runs"),
        ((RUN, RUN), {"names": ["a", "a"]}, "Give each run one name of its own"),
    ],
)
def test_wrong_use(arguments, options, words):
    """What can't be plotted is named, with what to do."""
    with pytest.raises(UsageError, match=words):
        plot(*arguments, **options)


def test_a_real_run(scripted_run):
    """A run of the loop, whose scripted model reports no tokens."""
    run = scripted_run([calls("now"), says("noon")], [FunctionTool(lambda: "12:00", "now")])

    assert plot(run).text.startswith("run: 2 steps, 1 tool call, tokens n/a, answer\n")
    assert isinstance(plot(run), Plot)
