"""Places for panels in rows, found quickly: their heights are known, and only the labels of y axes are measured.

matplotlib's own constrained layout draws everything twice to measure it and takes longer than drawing the picture.
Import this where a figure is drawn, since it needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine
from matplotlib.textpath import text_to_path

Row = Sequence[tuple[Axes, float]]

_ABOVE, _BELOW, _BARE = 0.29, 0.49, 0.12
"""Inches for a title; for numbers and a word below the x axis; without those."""
_LEFT, _RIGHT = 0.17, 0.1
"""Inches around the labels of a y axis, its ticks among them, and behind a panel."""
_POINTS = 72


def laid_out(figure: Figure, *rows: Row) -> Figure:
    """The figure with these panels in rows, each as wide as its share of what the labels leave."""
    figure.set_layout_engine(_Rows(rows))
    return figure


class _Rows(LayoutEngine):
    """Places the panels whenever the figure is drawn, so a changed label or size is kept up with."""

    _adjust_compatible = False
    _colorbar_gridspec = False

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows

    def execute(self, fig: Figure) -> None:
        """Set the place of each panel."""
        width, height = fig.get_size_inches()
        tall = height / len(self._rows)
        for number, row in enumerate(self._rows):
            below = _BELOW if any(axes.xaxis.get_visible() for axes, _ in row) else _BARE
            low = height - tall * (number + 1) + below
            for axes, left, wide in _across(row, width):
                high = tall - below - _ABOVE
                axes.set_position((left / width, low / height, wide / width, high / height))


def _across(row: Row, width: float) -> list[tuple[Axes, float, float]]:
    """Each panel with where it starts and how wide it is, in inches."""
    lefts = [_LEFT + _label_width(axes) for axes, _ in row]
    free = width - sum(lefts) - _RIGHT * len(row)
    unit, places, right = free / sum(share for _, share in row), [], 0.0
    for (axes, share), left in zip(row, lefts, strict=True):
        places.append((axes, right + left, unit * share))
        right += left + unit * share + _RIGHT
    return places


def _label_width(axes: Axes) -> float:
    """Inches of the widest label on the y axis, and of the axis' own name."""
    axis, name = axes.yaxis, axes.yaxis.label
    wide = float(name.get_fontsize()) * 1.6 / _POINTS if name.get_text() else 0.0
    tick = axis.get_major_ticks(1)[0]
    if not tick.label1.get_visible():
        return wide
    font, (low, high) = tick.label1.get_fontproperties(), sorted(axes.get_ylim())
    places = [float(place) for place in axis.get_majorticklocs()]
    labels = zip(places, axis.get_major_formatter().format_ticks(places), strict=True)
    shown = [label for place, label in labels if low <= place <= high]
    points = max((text_to_path.get_text_width_height_descent(label, font, False)[0] for label in shown), default=0.0)
    return wide + float(points) / _POINTS
