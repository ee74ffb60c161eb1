"""A picture that carries its numbers: `Plot` has the figure, the rows behind it and a text table of them.

The figure is made on first use, apart from pyplot, so it shows once in a cell and needs no closing. Axes are grey and
the ground is transparent: it reads on light and on dark pages.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.errors import AgentnbError, UsageError
from agentnb.text import mask, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY = "#808080"
_DPI = 160
_SHOWN_DPI = 80
"""The picture has twice the points that it is shown with, for sharp screens."""
_NO_DATES: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}


class Plot:
    """A figure with the numbers behind it.

    Args:
        rows: The numbers, one plain dict per mark.
        text: The same as a table; deterministic.
        draw: Makes the matplotlib Figure; called on first use, and not at all in a terminal.
        alt: One or two sentences for those who can't see it.
    """

    def __init__(self, rows: Sequence[dict[str, Any]], text: str, draw: Callable[[], Figure], alt: str = "") -> None:
        self.rows = list(rows)
        self.text = text
        self.alt = alt
        self._draw = draw
        self._figure: Figure | None = None

    @property
    def figure(self) -> Figure:
        """The matplotlib Figure, made once; change it as you like before it is shown or saved."""
        if self._figure is None:
            with quiet_style():
                self._figure = self._draw()
        return self._figure

    def save(self, path: str | Path) -> Path:
        """Write a PNG, SVG or PDF file, by the end of its name, and return its path.

        Raises:
            UsageError: The name ends otherwise.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in _NO_DATES:
            raise UsageError(
                f"can't save a plot as {path.name!r}", layer="plots", remedy="End the name in .png, .svg or .pdf."
            )
        path.write_bytes(self._png() if kind == ".png" else self._drawn(kind))
        return path

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        width, height = (round(size * _SHOWN_DPI) for size in self.figure.get_size_inches())
        data = {"image/png": base64.b64encode(self._png()).decode(), "text/plain": self.text}
        return data, {"image/png": {"width": width, "height": height, "alt": self.alt}}

    def _png(self) -> bytes:
        """Drawn once; `savefig` draws a figure that has a layout twice."""
        figure, file = self.figure, io.BytesIO()
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        before, dpi, figure.dpi = figure.canvas, figure.dpi, _DPI
        canvas: Any = FigureCanvasAgg(figure)
        try:
            with quiet_style():
                canvas.print_png(file, metadata=_NO_DATES[".png"])
        finally:
            figure.set_canvas(before)
            figure.dpi = dpi
        return file.getvalue()

    def _drawn(self, kind: str) -> bytes:
        file = io.BytesIO()
        with quiet_style():
            self.figure.savefig(file, format=kind[1:], transparent=True, metadata=_NO_DATES[kind])
        return file.getvalue()


def load_matplotlib() -> None:
    """Import what drawing takes, which lasts a second the first time.

    Raises:
        AgentnbError: It can't be imported.
    """
    try:
        import_module("matplotlib")  # which may be missing now though a module of ours has it
        import_module("agentnb.plots.layout")
        import_module("matplotlib.backends.backend_agg")
    except Exception as error:  # a library built for another numpy raises what it likes
        why = f"{type(error).__name__}: {shorten(mask(str(error)), 200)}"
        raise AgentnbError(
            f"matplotlib, which draws the plots, can't be imported ({why})",
            layer="plots",
            remedy="Run %pip install -U matplotlib and restart the kernel.",
        ) from error


@contextmanager
def quiet_style() -> Iterator[None]:
    """Grey axes, labels taken as they are (a dollar sign is no formula), fonts that have the letters."""
    load_matplotlib()
    import matplotlib

    from agentnb.plots.fonts import families

    grey = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
    style: dict[str, Any] = {
        **dict.fromkeys(grey, GREY),
        "font.family": families(),
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.titlelocation": "left",
        "axes.titley": 1.0,
        "figure.facecolor": "none",
        "axes.titlecolor": GREY,
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.7,
        "axes.axisbelow": True,
        "axes.grid": False,
        "axes.unicode_minus": False,
        "grid.alpha": 0.25,
        "grid.linewidth": 0.7,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "hatch.linewidth": 0.7,
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "text.parse_math": False,
        "text.usetex": False,
        "svg.hashsalt": "agentnb",
    }
    context: Any = matplotlib.rc_context  # its stub lists the keys one by one in some releases
    with context(style):
        yield
