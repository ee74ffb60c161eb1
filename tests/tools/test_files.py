"""Reading inside a folder: what can be read, how it is shown, and every way out that was tried."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from fakes import unquoted
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.core.messages import ToolCall
from agentnb.errors import ToolDefinitionError
from agentnb.tools.files import list_files, read_text

SECRET = "the secret outside"


def answered(tool: Any, **arguments: Any) -> Any:
    """The result of one call."""
    return unquoted(asyncio.run(tool.answer(ToolCall("c1", tool.name, json.dumps(arguments)))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a few files; beside it lies a secret."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "inside-too").mkdir()
    (tmp_path / "inside-too" / "secret.txt").write_text(SECRET)
    inside = tmp_path / "inside"
    (inside / "sub" / "deep").mkdir(parents=True)
    (inside / "a.txt").write_text("hello\nworld\n")
    (inside / "sub" / "b.csv").write_text("x,y\n1,2\n")
    (inside / "sub" / "deep" / "c.md").write_text("# c")
    (inside / ".env").write_text("KEY=hidden")
    return inside


def test_a_file_is_read(folder):
    """By a path relative to the folder, or an absolute one inside it."""
    assert answered(read_text(folder), path="a.txt").content == "hello\nworld"
    assert answered(read_text(folder), path="./sub/../sub/b.csv").status == "error"
    assert answered(read_text(folder), path="sub//deep/./c.md").content == "# c"
    assert answered(read_text(folder), path=str(folder / "a.txt")).content == "hello\nworld"


def test_files_are_listed(folder):
    """In order, with sizes; a pattern and a folder below narrow it."""
    assert answered(list_files(folder)).content.splitlines() == ["a.txt  12", "sub/b.csv  8", "sub/deep/c.md  3"]
    assert answered(list_files(folder), pattern="*.md").content == "sub/deep/c.md  3"
    assert answered(list_files(folder), path="sub", pattern="*.csv").content == "sub/b.csv  8"
    assert answered(list_files(folder), pattern="*.zip").content == "(no files)"


def test_hidden_files_only_where_allowed(folder):
    """A `.env` is not seen by default."""
    assert "hidden" not in answered(read_text(folder), path=".env").content.replace("is hidden", "")
    assert ".env" not in answered(list_files(folder)).content
    assert answered(read_text(folder, hidden=True), path=".env").content == "KEY=hidden"
    assert ".env  10" in answered(list_files(folder, hidden=True)).content


# ── ways out ─────────────────────────────────────────────────────────────────────────────────────────────────────────

ESCAPES = {
    "parent": "../secret.txt",
    "parent deep": "sub/../../secret.txt",
    "parent at the end": "sub/..",
    "parents": "../" * 40 + "etc/passwd",
    "absolute": "{outside}/secret.txt",
    "absolute with the root as prefix": "{outside}/inside-too/secret.txt",
    "absolute and up": "{outside}/inside/../secret.txt",
    "etc": "/etc/passwd",
    "proc": "/proc/self/environ",
    "double slash": "//etc/passwd",
    "home": "~/.bashrc",
    "nul": "a.txt\0../secret.txt",
    "link to a file": "link-to-file",
    "link to a folder": "link-to-folder/secret.txt",
    "link up": "link-up/secret.txt",
    "link to the root": "link-to-root/etc/passwd",
    "link inside": "link-inside",
    "chain of links": "link-chain/secret.txt",
    "loop of links": "link-loop",
    "link below": "sub/link-below/secret.txt",
    "through a file": "a.txt/../../secret.txt",
    "pipe": "pipe",
    "socket": "socket",
    "device by link": "link-to-device",
    "folder": "sub",
    "the folder itself": ".",
    "empty": "",
    "file URL": "file:///etc/passwd",
    "percent": "%2e%2e/secret.txt",
    "full-width dots": "．．/secret.txt",
    "backslashes": "..\\secret.txt",
    "very long": "x/" * 5000 + "secret.txt",
    "long name": "x" * 5000,
}


@pytest.fixture
def trapped(folder: Path, monkeypatch) -> Path:
    """The folder with every kind of link and special file in it."""
    links = {
        "link-to-file": folder.parent / "secret.txt",
        "link-to-folder": folder.parent,
        "link-up": "..",
        "link-to-root": "/",
        "link-inside": "a.txt",
        "link-chain": "link-to-folder",
        "link-loop": "link-loop",
        "sub/link-below": "../..",
        "link-to-device": "/dev/zero",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
    return folder


@pytest.mark.parametrize("path", ESCAPES.values(), ids=ESCAPES)
def test_no_path_leads_out(trapped, path):
    """Each attempt is an error result in words; nothing outside is read, nothing hangs."""
    result = answered(read_text(trapped), path=path.format(outside=trapped.parent))
    listed = answered(list_files(trapped), path=path.format(outside=trapped.parent))

    assert result.status == "error"
    assert SECRET not in result.content
    assert "root:" not in result.content
    assert "secret" not in listed.content or listed.status == "error"


def test_links_are_listed_as_such_and_not_entered(trapped):
    """A listing shows that there is a link; what it leads to is not shown."""
    content = answered(list_files(trapped)).content

    assert "link-to-folder  (a link, not followed)" in content
    assert "secret.txt" not in content


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.sampled_from(["..", ".", "sub", "a.txt", "link-up", "link-to-folder", "secret.txt", "", "/"]), max_size=6
    )
)
def test_no_mixture_of_parts_leads_out(parts):
    """Any order of names, dots and links: the secret is never read."""
    result = answered(PROPERTY[0], path="/".join(parts))

    assert SECRET not in result.content


PROPERTY: list[Any] = []


@pytest.fixture(autouse=True, scope="module")
def _property_folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("property")
    (root / "secret.txt").write_text(SECRET)
    (root / "inside" / "sub").mkdir(parents=True)
    (root / "inside" / "a.txt").write_text("a")
    (root / "inside" / "link-up").symlink_to("..")
    (root / "inside" / "link-to-folder").symlink_to(root)
    PROPERTY.append(read_text(root / "inside"))


@pytest.mark.slow
def test_a_folder_swapped_for_a_link_leads_nowhere(folder):
    """While another thread keeps swapping a folder for a link to outside, no read ever brings the secret."""
    (folder / "swap").mkdir()
    (folder / "swap" / "secret.txt").write_text("harmless")
    (folder / "outward").symlink_to(folder.parent)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            os.rename(folder / "swap", folder / "kept")
            os.rename(folder / "outward", folder / "swap")
            os.rename(folder / "swap", folder / "outward")
            os.rename(folder / "kept", folder / "swap")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found = {answered(read_text(folder), path="swap/secret.txt").content for _ in range(500)}
    finally:
        done.set()
        thread.join()
    assert SECRET not in found
    assert "harmless" in found


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_files_are_recognised(folder, encoding):
    """UTF-8 with and without a mark, UTF-16 and UTF-32 with theirs."""
    (folder / "u.txt").write_bytes("北京 21°\n".encode(encoding))

    assert answered(read_text(folder), path="u.txt").content == "北京 21°"


def test_other_encodings_are_asked_for_and_never_guessed(folder):
    """The error says what to give; with it the file is read."""
    (folder / "g.txt").write_bytes("北京".encode("gb18030"))

    refused = answered(read_text(folder), path="g.txt")
    assert (refused.status, "encoding='gb18030'" in refused.content) == ("error", True)
    assert answered(read_text(folder), path="g.txt", encoding="gb18030").content == "北京"


def test_latin_text_is_read_as_browsers_do(folder):
    """Quotation marks of Windows in a file that calls itself Latin-1; no letter is lost behind them."""
    (folder / "l.txt").write_bytes(b"\x93Old\x9bNew\x94 \x80 5 \x81")
    assert answered(read_text(folder), path="l.txt", encoding="latin-1").content == "“Old›New” € 5 \ufffd"
    assert answered(read_text(folder), path="g.txt", encoding="klingon").status == "error"
    assert answered(read_text(folder), path="g.txt", encoding="hex").status == "error"


def test_binary_files_are_not_text(folder):
    """A picture is refused in words."""
    (folder / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\xff" * 10)

    assert "is no text file" in answered(read_text(folder), path="p.png").content


def test_a_long_file_is_read_in_pieces(folder):
    """Each piece says how to go on; all pieces together are the file."""
    lines = [f"line {n}: {'x' * 40}" for n in range(1, 2001)]
    (folder / "long.txt").write_text("\n".join(lines))
    tool, first, got = read_text(folder), 1, []
    while first:
        *piece, note = answered(tool, path="long.txt", first_line=first).content.split("\n")
        got += piece
        first = int(note.partition("first_line=")[2].split()[0]) if "first_line=" in note else 0

    assert got == lines
    assert answered(tool, path="long.txt", first_line=9999).content == "[the file has 2,000 lines]"


def test_a_huge_file_costs_a_bounded_read(folder):
    """Of a sparse file of 10 GB the beginning is read."""
    with (folder / "huge.txt").open("wb") as file:
        file.write(b"start\n")
        file.truncate(10_000_000_000)
    result = answered(read_text(folder), path="huge.txt")

    assert result.status in ("ok", "error")
    assert len(result.content) <= 16_000


@pytest.mark.slow
def test_many_files_are_counted(folder):
    """A listing is bounded and says how many more there are."""
    for n in range(520):
        (folder / f"f{n:03}").touch()

    assert answered(list_files(folder), pattern="f*").content.splitlines()[-1].startswith("[and 20 more")


def test_a_name_can_not_forge_a_line(folder):
    """A line end in a name is shown as one."""
    (folder / "x\nsecret.txt  99").touch()

    assert "x\\nsecret.txt  99  0" in answered(list_files(folder)).content


def test_there_must_be_a_folder(tmp_path):
    """Said when the tool is made."""
    with pytest.raises(ToolDefinitionError, match="there is no folder"):
        read_text(tmp_path / "nothing")


@pytest.mark.parametrize("path", ["sub", ".", "", "sub/deep/"])
def test_a_folder_is_no_file(folder, path):
    """The model is told so, and no descriptor stays open."""
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    result = answered(read_text(folder), path=path)

    assert (result.status, "is no file; list_files shows" in result.content) == ("error", True)
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)
