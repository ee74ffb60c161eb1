"""Run files that are damaged, half written or not ours: said in words, with the line, and nothing is overwritten."""

from __future__ import annotations

import json

import pytest

from agentnb import State, load, save
from agentnb.errors import AgentnbError, RecordingError, UsageError
from agentnb.records.run_lines import HEADER


@pytest.fixture
def path(tmp_path):
    """A file that holds a run of six lines."""
    made = tmp_path / "run.jsonl"
    save(run(), made)
    return made


def run():
    """The run in it."""
    state = State.start("go")
    for number in range(4):
        state = state.say(f"message {number}")
    return state


def test_half_a_last_line_is_set_aside_with_a_warning(path):
    """The State before it is loaded; the next save goes on after the last whole line."""
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.warns(UserWarning, match="the last line is half written and set aside"):
        state = load(path)
    with pytest.warns(UserWarning, match="half written"):
        save(run(), path)

    assert state == run().parent
    assert load(path) == run()
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_last_line_that_lacks_its_end_counts(path):
    """Nothing is lost, and nothing is glued to it."""
    path.write_bytes(path.read_bytes()[:-1])
    assert load(path) == run()
    save(run().say("on"), path)

    assert load(path) == run().say("on")
    assert len(path.read_bytes().splitlines()) == 7


@pytest.mark.parametrize("broken", [b"{", b"\x00\xff garbage", b"[1]", b"5", b'{"id": 3, "state": {}}', b'{"x": NaN}'])
def test_damage_within_names_file_and_line(path, broken):
    """Neither loading nor saving goes over a broken line, and saving leaves the file as it is."""
    content = path.read_bytes().splitlines(keepends=True)
    content[3] = broken + b"\n"
    path.write_bytes(b"".join(content))
    before = path.read_bytes()
    with pytest.raises(RecordingError, match=r"run\.jsonl, line 4 can't be read: .*Restore the file"):
        load(path)
    with pytest.raises(RecordingError, match="line 4"):
        save(run(), path)

    assert path.read_bytes() == before


def test_a_line_changed_by_hand_is_noticed(path):
    """An id says what its line must say."""
    path.write_text(path.read_text().replace("message 1", "message 7"))

    with pytest.raises(RecordingError, match=r"line 4 can't be read: .*changed by hand"):
        load(path)


def test_a_line_whose_parent_is_missing_is_damage(path):
    """A file from which lines were taken out does not load as another run, and nothing more is written into it."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(damaged := b"".join(lines[:3] + lines[4:]))
    why = r"line 4 can't be read: a line that it refers to, with the id '\w{16}', is missing before it"

    with pytest.raises(RecordingError, match=why):
        load(path)
    with pytest.raises(RecordingError, match=why):
        save(run(), path)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("line", [b'{"last": "00"}', b'{"begun": "c", "after": "00"}'])
def test_a_line_about_a_missing_state_is_damage(path, line):
    """What was begun or saved last must be there."""
    path.write_bytes(path.read_bytes() + line + b"\n")

    for use in (load, lambda path: save(run(), path)):
        with pytest.raises(RecordingError, match=r"line 7 can't be read: a line that it refers to, with the id '00'"):
            use(path)


@pytest.mark.parametrize(
    "content",
    [
        b"hello\n",
        b"\x00" * 5000,
        b"a" * 100_000,
        b"{}\n",
        b'{"format": "agentnb recording", "version": 1}\n',
        b"[[[[\n",
    ],
    ids=["text", "zeros", "long", "object", "recording", "nested"],
)
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    """Nothing is appended to a file that is not ours."""
    path = tmp_path / "other.txt"
    path.write_bytes(content)
    for use in (lambda: load(path), lambda: save(run(), path)):
        with pytest.raises(UsageError, match="is no run file"):
            use()

    assert path.read_bytes() == content


def test_a_file_of_a_newer_version_is_refused(path):
    """The error says what to do."""
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    for use in (lambda: load(path), lambda: save(run(), path)):
        with pytest.raises(UsageError, match=r"newer agentnb \(version 2, this one knows 1\)\. Update agentnb"):
            use()


def test_what_a_later_minor_version_adds_is_left_aside(path):
    """Unknown fields and unknown kinds of lines of the same version do no harm."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[3]["aside"] = {"colour": "green"}
    lines[4]["mood"] = 3
    lines.insert(2, {"weather": "fine"})
    text = "\n".join(json.dumps(each, separators=(",", ":")) for each in lines)
    path.write_text(text + "\n")

    assert load(path) == run()
    save(run().say("on"), path)
    assert load(path) == run().say("on")


@pytest.mark.parametrize("content", [b"", HEADER.encode()[:9], HEADER.encode(), HEADER.encode() + b"\n"])
def test_a_file_without_a_run_says_so(tmp_path, content):
    """Empty, or cut before the first State; saving makes a run file of it."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"holds no run yet\. save\(run, path\) writes one"):
        load(path)
    save(run(), path)

    assert load(path) == run()


def test_paths_that_cannot_be_files(tmp_path):
    """A missing file, a folder, a file in the way of a folder: each in words, in the layer of records."""
    (tmp_path / "file").write_text("x")
    cases = [
        (lambda: load(tmp_path / "missing.jsonl"), "there is no file"),
        (lambda: load(tmp_path), "can't be read: Is a directory"),
        (lambda: save(run(), tmp_path), "can't be written: Is a directory"),
        (lambda: save(run(), tmp_path / "file" / "run.jsonl"), "can't be written"),
        (lambda: save(run(), tmp_path / "x.ipynb"), "is a notebook"),
        (lambda: save([], tmp_path / "x.jsonl"), "only States can be saved"),
        (lambda: save(["text"], tmp_path / "x.jsonl"), "only States can be saved"),
        (lambda: save(5, tmp_path / "x.jsonl"), "only States can be saved"),
    ]
    for use, told in cases:
        with pytest.raises(AgentnbError, match=told) as failed:
            use()
        assert failed.value.layer == "records"
    assert not (tmp_path / "x.jsonl").exists()


def test_a_last_line_of_nested_brackets_is_no_crash(path):
    """Hostile nesting in the last line is half a line, elsewhere damage."""
    whole = path.read_bytes()
    path.write_bytes(whole + b"[" * 200_000)
    with pytest.warns(UserWarning, match="half written"):
        assert load(path) == run()
    path.write_bytes(whole + b"[" * 200_000 + b"\n")

    with pytest.raises(RecordingError, match="line 7"):
        load(path)
