"""The program that holds the embedded model: llama.cpp's own HTTP server in a process of its own.

    stdin, one JSON line    {"path": …, "template": …, "context": 4096, "threads": null, "key": …, "name": …}
    stdout, one JSON line   {"url": "http://127.0.0.1:41234"}  or  {"error": …, "remedy": …} and exit code 3

It serves until stdin reaches its end or its parent is gone, so no process is left behind however the kernel ends.
A process of its own, because a generation inside the kernel would make Ctrl-C wait for its end. Run it by
`python -m agentnb.models.engine` or by its path; it imports only the standard library and the engine.
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any, TextIO

_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_WATCH_SECONDS = 1.0
_FAILED = 3
_HEAD_BYTES = 16_384
_INSTALL = 'pip install "agentnb-jupyter[local]"'


def main() -> int:
    """Serve the model that the first line of stdin describes, until the parent is gone."""
    parent = os.getppid()
    out = _own_stdout()
    try:
        server = start(json.loads(sys.stdin.buffer.readline()))
    except Exception as error:
        _say(out, explain(error))
        return _FAILED
    _say(out, {"url": server.listening_address})
    wait_for_end(parent)
    os._exit(0)  # a generation under way would make an orderly end wait for it


def start(config: dict[str, Any]) -> Any:
    """The running server.

    Raises:
        ImportError: The engine, or a library it needs, is not installed.
        RuntimeError: The file can't be loaded.
    """
    # Before the library loads: idle OpenMP threads then sleep instead of spinning. On two busy cores this was
    # the difference between 3 and 65 tokens a second.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    params = parameters(xllamacpp.CommonParams(), config)
    if config.get("embeddings") and not names_pooling(Path(config["path"])):
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    return xllamacpp.Server(params)


def parameters(params: Any, config: dict[str, Any]) -> Any:
    """Fill the engine's parameters from our configuration; the values are measured ones."""
    params.model.path = config["path"]
    params.model_alias = {config["name"]}
    params.chat_template = config.get("template") or ""
    params.n_ctx = config.get("context") or 4096
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = config.get("threads") or usable_cores()
    params.no_extra_bufts = True  # twice the prompt speed, 0.8 GB less memory
    params.cache_ram_mib = 256  # prefixes of other agents, kept; the default would be 8 GB
    params.sampling.temp = 0.0  # where the request names no temperature
    params.port = 0
    params.api_keys = [config["key"]]
    params.cors_origins = ""
    params.ui = False
    params.verbosity = 1
    if config.get("embeddings"):
        params.embedding = True
        params.n_batch = params.n_ubatch = params.n_ctx  # a text must fit into one batch
    return params


def names_pooling(path: Path) -> bool:
    """Whether a model says how the vectors of its tokens become one; it does among the first words of its file."""
    with path.open("rb") as file:
        return b".pooling_type" in file.read(_HEAD_BYTES)


def usable_cores() -> int:
    """How many cores this process may use, a container's quota included; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CGROUP_QUOTA.read_text().split()
        return max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return cores


def explain(error: Exception) -> dict[str, str]:
    """The line that tells the parent what went wrong and what to do."""
    text = f"{type(error).__name__}: {error}"
    if "Failed to init server" in text:  # the engine's one sentence for every cause; stderr has the cause
        return {"error": "the engine can't load the model", "remedy": ""}
    if isinstance(error, ImportError) and "libgomp" in str(error):
        remedy = (
            "Install the system's OpenMP library: apt-get install libgomp1 (Debian), yum install libgomp (Red Hat)."
        )
        return {"error": f"the engine xllamacpp can't be loaded, {text}", "remedy": remedy}
    if isinstance(error, ImportError):
        return {"error": f"the engine xllamacpp is not installed ({text})", "remedy": f"Run {_INSTALL}"}
    return {"error": f"the engine can't load the model, {text}", "remedy": ""}


def wait_for_end(parent: int) -> None:
    """Return when stdin reaches its end, or when the parent process is another one.

    The second is for a child that the parent forked: it holds our stdin open for as long as it lives.
    """
    if sys.platform == "win32":
        sys.stdin.buffer.read()
        return
    while os.getppid() == parent:
        ready, _, _ = select.select([sys.stdin], [], [], _WATCH_SECONDS)
        if ready and not os.read(sys.stdin.fileno(), 4096):
            return


def _own_stdout() -> TextIO:
    """The real stdout, for our one line; whatever the library prints goes to stderr instead."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def _say(out: TextIO, line: dict[str, str]) -> None:
    out.write(json.dumps(line) + "\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
