"""`%agent doctor`: the checks of a set-up, with what only the kernel knows of its front end."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Any

from agentnb.doctor.check import OK, PROBLEM, SKIPPED, Check
from agentnb.doctor.checks import report
from agentnb.errors import UsageError
from agentnb.notebook.follow import front_end_is_live
from agentnb.notebook.names import model_named
from agentnb.notebook.options import sort_words

if TYPE_CHECKING:
    from agentnb.notebook.magics import AgentMagics

USAGE = "%agent doctor [-m MODEL]"
_OLDEST_WIDGETS = (8, 1)
_NEW_WIDGETS = 'Run %pip install "ipywidgets>=8.1" and restart the kernel.'


def run_checks(magics: AgentMagics, words: list[str]) -> None:
    """Print each check as it is done. `-m` takes a name or a variable; the notebook's model when it is not given.

    Raises:
        UsageError: There are other words.
    """
    alone, options = sort_words(words, ("-m", "--model"), USAGE)
    if alone or len(options) > 1:
        raise UsageError(f"%agent doctor does not know {' '.join(words)!r}", remedy=USAGE)
    named = next(iter(options.values()), None)
    model = magics.model if named is None else model_named(named, magics.shell.user_ns)
    report(model, front_end(magics.shell))


def front_end(shell: Any) -> Iterator[Check]:
    """Who reads what this kernel shows, and whether live widgets can be made."""
    if getattr(shell, "kernel", None) is None:
        yield Check("front end", SKIPPED, "IPython without a kernel: steps are shown as text")
        return
    live = front_end_is_live(shell)
    reader = "a person sits in front: steps appear live" if live else "a program runs this: steps are shown when done"
    yield Check("front end", OK, reader)
    yield widgets(live)


def widgets(live: bool) -> Check:
    """The library behind the control bar."""
    try:
        version = metadata.version("ipywidgets")
    except metadata.PackageNotFoundError:
        return Check("widgets", PROBLEM, "ipywidgets is not installed here", _NEW_WIDGETS)
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST_WIDGETS:
        return Check("widgets", PROBLEM, f"ipywidgets {version} is too old", _NEW_WIDGETS)
    if not live:
        return Check("widgets", SKIPPED, f"ipywidgets {version}; not used when nobody sits in front")
    hint = "If no Stop button shows while a run goes on, install jupyterlab_widgets where JupyterLab runs and reload."
    return Check("widgets", OK, f"ipywidgets {version}", hint)
