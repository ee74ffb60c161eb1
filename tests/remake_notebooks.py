"""Make the committed notebooks again: run each from top to bottom and keep what it shows.

    python tests/remake_notebooks.py               every notebook; the recordings answer, nothing else can
    python tests/remake_notebooks.py 00 03         only those whose names begin so
    python tests/remake_notebooks.py --record 00   ask the embedded model anew first, which makes the recording again

The same notebook makes the same file: no times, no ids of a session, no widget state. `git diff` then shows what
really changed. Recording needs the weights (`python -m agentnb fetch-model`) and takes one to five minutes a notebook.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from agentnb.text import plain

FOLDER = Path(__file__).parents[1] / "notebooks"
OWN_SETTINGS = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_MODEL",
    "TEMPERATURE",
    "MAX_ITERATIONS",
    "AGENT_DEBUG",
    "AGENTNB_GGUF",
    "AGENTNB_RECORDING",
    "AGENTNB_RENDER",
)
"""Set to nothing, so that neither the environment nor a `.env` file changes what is asked."""
REPLAY_SECONDS = 60
RECORD_SECONDS = 1_800


def main(words: Sequence[str]) -> int:
    """Remake the notebooks that the words name; returns 0."""
    options = parse(words)
    for path in chosen(options.names):
        if options.record:
            record(path)
        remake(path)
        print(f"{path.name}: {len(read(path).cells)} cells", flush=True)
    return 0


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="how the names of the notebooks begin; all when none is given")
    parser.add_argument("--record", action="store_true", help="ask the embedded model and make the recordings again")
    return parser.parse_args(words)


def chosen(names: Sequence[str]) -> list[Path]:
    """The notebooks, in order; SystemExit when there is none of a name."""
    paths = sorted(FOLDER.glob("*.ipynb"))
    for name in names:
        if not any(path.name.startswith(name) for path in paths):
            raise SystemExit(f"no notebook begins with {name!r}; there are: {', '.join(path.stem for path in paths)}")
    return [path for path in paths if not names or path.name.startswith(tuple(names))]


def remake(path: Path) -> None:
    """Run the notebook on its recording alone and write it with its outputs."""
    notebook = read(path)
    with tempfile.TemporaryDirectory() as no_weights:
        execute(notebook, path.parent, {"AGENTNB_CACHE": no_weights}, REPLAY_SECONDS)
    tidy(notebook)
    nbformat.write(notebook, path)


def record(path: Path) -> None:
    """Run the notebook on the embedded model, in a folder without its recording, and keep what that makes."""
    if not uses_recording(path):
        return
    with tempfile.TemporaryDirectory() as elsewhere:
        made = recording_of(Path(elsewhere, path.name))
        made.parent.mkdir()
        execute(read(path), Path(elsewhere), {}, RECORD_SECONDS)
        recording_of(path).parent.mkdir(exist_ok=True)
        recording_of(path).write_bytes(made.read_bytes())


def uses_recording(path: Path) -> bool:
    """Whether the notebook opens its recording; one with scripted models alone has none."""
    return recording_of(path).name in path.read_text("utf-8")


def recording_of(path: Path) -> Path:
    """Where the model calls of a notebook are."""
    return path.parent / "recordings" / f"{path.stem}.jsonl"


def execute(notebook: NotebookNode, folder: Path, changes: dict[str, str], seconds: int) -> None:
    """Run every cell in a fresh kernel of this Python; the outputs land in `notebook`.

    Raises:
        CellExecutionError: A cell failed that is not tagged `raises-exception`.
    """
    client = NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
    )
    client.execute(env={**os.environ, **dict.fromkeys(OWN_SETTINGS, ""), **changes})


def tidy(notebook: NotebookNode) -> None:
    """Take out what differs from run to run and from machine to machine."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({"tags": cell.metadata.tags} if cell.metadata.get("tags") else {})
        for output in cell.get("outputs", ()):
            if output.output_type == "error":  # the frames of files name a folder of this machine
                output.traceback = [frame for frame in output.traceback if not plain(frame).startswith("File ")]
            ours = output.get("metadata", {}).pop("agentnb", {})
            if "run" in ours:
                ours["run"].pop("seconds")
                output.metadata["agentnb"] = {"run": ours["run"]}


def read(path: Path) -> NotebookNode:
    """The notebook in format 4."""
    return nbformat.read(path, as_version=4)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
