"""`%config Agentnb.show = "answer"`: what holds for every cell that says nothing else."""

from __future__ import annotations

from traitlets import Enum, Int, Unicode
from traitlets.config import Configurable

from agentnb.notebook.bounds import RUN_BYTES
from agentnb.notebook.options import SHOW


class Agentnb(Configurable):
    """Preferences of one notebook; `c.Agentnb.show = ...` in `ipython_config.py` sets them for all."""

    show = Enum(SHOW, SHOW[0], help="What appears below a %%agent cell: steps, answer or none.").tag(config=True)
    model = Unicode("", help="The model of every cell that names none; %agent model NAME wins.").tag(config=True)
    output_bytes = Int(
        RUN_BYTES, min=10_000, help="Bound on what one run leaves in the saved notebook; the rest is in the run."
    ).tag(config=True)
