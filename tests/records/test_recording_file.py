"""The file of a recording: readable, whole after a crash, damage named, without secrets."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes import add, collect, runtime_for

from agentnb import text
from agentnb.core.limits import Limits
from agentnb.core.messages import ToolCall, user
from agentnb.core.model import Delta, ModelReply, ModelRequest, Prompt, ask
from agentnb.core.tool import ToolSpec
from agentnb.errors import RecordingError
from agentnb.models.scripted import ScriptedModel, calls
from agentnb.records.recording import recording

KEY = "KEY-TEST-0123456789"


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_RECORDING", "")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A recording of two questions."""
    path = tmp_path / "deep" / "r.jsonl"
    with recording(path):
        asked(["one", "two"], "a", "b")
    return path


def request_for(question: str, **more: Any) -> ModelRequest:
    """A request with one user message."""
    return ModelRequest(prompt=Prompt([user(question)]), end=1, **more)


def asked(script: list[Any], *questions: str) -> list[str]:
    """The replies to these questions, by this script."""
    model = ScriptedModel(script)

    async def all_of_them() -> list[str]:
        return [(await ask(model, request_for(question))).text for question in questions]

    return asyncio.run(all_of_them())


def lines(path: Path) -> list[dict[str, Any]]:
    """The file, line by line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_file_shows_the_request_beside_the_reply(path):
    """A header, then what was said, what could be called and what was answered, in this order."""
    header, first, one, second, two = lines(path)

    assert header == {"format": "agentnb recording", "version": 1}
    assert first["message"] == {"role": "user", "content": "a"}
    assert one["request"] == {"messages": first["id"]}
    assert one["reply"]["text"] == "one"
    assert (one["ask"], one["model"]) == (1, "scripted")
    assert (second["message"]["content"], two["reply"]["text"]) == ("b", "two")


def test_each_message_and_tool_is_written_once(tmp_path):
    """The file grows with what is new in a step, not with the length of the run."""
    sizes = []
    for count in (20, 40):
        path = tmp_path / f"{count}.jsonl"
        with recording(path):
            script = [*(calls("add", a=number, b=1) for number in range(count)), "done"]
            asyncio.run(collect(runtime_for(script, [add], limits=Limits(steps=100))))
        sizes.append(path.stat().st_size)
        kinds = [next(kind for kind in ("message", "tool", "reply", "format") if kind in line) for line in lines(path)]
        assert kinds.count("message") == 2 + 2 * count
        assert kinds.count("tool") == 1
    assert sizes[1] < 2 * sizes[0]


def test_half_a_last_line_is_set_aside(path):
    """After a crash the whole entries count; the next entry takes the place of the half one."""
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"ask": 1, "mod')

    with pytest.warns(UserWarning, match="last line is half written"):
        made = recording(path).open()
    with closing(made):
        assert asked(["three"], "a", "b", "c") == ["one", "two", "three"]
    assert (made.replayed, made.recorded) == (2, 1)
    assert path.read_bytes().startswith(whole)
    assert lines(path)[-1]["reply"]["text"] == "three"


def test_reading_half_a_last_line_changes_nothing(path):
    """A replay writes nothing, not even to mend."""
    path.write_bytes(broken := path.read_bytes() + b'{"ask": 1, "mod')

    with pytest.warns(UserWarning, match="half written"), recording(path, mode="replay"):
        assert asked([], "a") == ["one"]
    assert path.read_bytes() == broken


def test_a_whole_last_line_without_its_end_counts(path):
    """Only the line end was lost."""
    path.write_bytes(path.read_bytes().rstrip(b"\n"))

    with recording(path):
        assert asked(["three"], "b", "c") == ["two", "three"]
    assert [line["reply"]["text"] for line in lines(path) if "reply" in line] == ["one", "two", "three"]


@pytest.mark.parametrize("keep", [b"", b'{"format": "agen'])
def test_a_file_without_a_whole_line_is_begun_anew(tmp_path, recwarn, keep):
    """An empty file, or half a header, is a recording of nothing."""
    path = tmp_path / "r.jsonl"
    path.write_bytes(keep)
    with recording(path):
        asked(["one"], "a")

    assert len(recwarn) == bool(keep)
    assert lines(path)[0]["format"] == "agentnb recording"
    with recording(path, mode="replay"):
        assert asked([], "a") == ["one"]


@pytest.mark.parametrize(
    ("number", "line", "why"),
    [
        (3, b'{"ask": 1, "mod', "line 3 can't be read"),
        (3, b"[1, 2]", "line 3 can't be read"),
        (3, b'{"ask": 1}', "line 3 can't be read: KeyError 'request'"),
        (3, b'{"ask": 1, "request": {"messages": "77"}, "reply": {}}', "there is no message '77' before it"),
        (3, b'{"ask": 1, "request": {"messages": "", "tools": ["7"]}, "reply": {}}', "no tool or schema '7' before it"),
        (3, b"\xff\xfe", "line 3 can't be read"),
        (3, b"[" * 100_000, "line 3 can't be read: it is nested too deeply"),
        (2, b'{"id": "77", "message": {"role": "user", "content": "a"}}', "was it changed by hand?"),
        (1, b'{"id": "t1", "status": "done"}', "line 1 can't be read: it is not a recording"),
        (1, b'{"format": "agentnb recording", "version": 2}', "it has version 2, this agentnb reads version 1"),
    ],
)
def test_damage_is_named_by_file_and_line(path, number, line, why):
    """What can't be read stops at once with the place; the file stays as it is."""
    damaged = path.read_bytes().split(b"\n")
    damaged[number - 1] = line
    path.write_bytes(b"\n".join(damaged))

    with pytest.raises(RecordingError) as caught, recording(path):
        pass
    assert f"{path}, line {number} " in str(caught.value)
    assert why in str(caught.value)
    assert path.read_bytes() == b"\n".join(damaged)


def test_a_link_to_a_recording_stays_a_link(path, tmp_path):
    """To record again replaces the file that the link leads to."""
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    with recording(link, mode="record"):
        asked(["new"], "a")

    assert link.is_symlink()
    with recording(path, mode="replay"):
        assert asked([], "a", "b") == ["new", "two"]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_folder_is_no_recording(tmp_path):
    """A path that can't be read is named."""
    with pytest.raises(RecordingError, match="can't be read"), recording(tmp_path):
        pass


def test_other_line_ends_and_empty_lines_are_no_damage(path):
    """A file that went through an editor or git on Windows is read all the same."""
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n")

    with recording(path, mode="replay"):
        assert asked([], "a", "b") == ["one", "two"]


def test_a_reply_may_be_edited_by_hand(path):
    """Replies are plain text; what was asked is checked, what is answered is not."""
    path.write_text(path.read_text().replace('"text": "one"', '"text": "1"'))

    with recording(path, mode="replay"):
        assert asked([], "a") == ["1"]


def test_no_secret_gets_into_the_file(tmp_path):
    """Nothing that `hide` was told of, whole or in pieces, and no header that holds a key."""
    text.hide(KEY)
    path = tmp_path / "r.jsonl"
    reply = ModelReply(
        f"the key {KEY}",
        (ToolCall("c", "say", f'{{"text": "{KEY}"}}'),),
        reasoning=KEY,
        raw={"content": KEY, "headers": {"Set-Cookie": "session=crumb"}},
        notes=(f"refused with {KEY[3:15]}",),
    )
    request = request_for(
        f"use {KEY}",
        specs=(ToolSpec("say", f"like {KEY}"),),
        parameters={"extra_body": {"Authorization": "Bearer other", "x-api-key": "another"}, "stop": [KEY]},
    )

    class Leaky:
        name = f"m {KEY}"

        async def reply(self, request: ModelRequest, on_delta: Any = None) -> ModelReply:
            for start in range(0, len(KEY), 5):
                on_delta(Delta("text", KEY[start : start + 5]))
            return reply

    with recording(path):
        asyncio.run(ask(Leaky(), request, print))
    with recording(path, mode="replay") as replayed:
        again = asyncio.run(ask(Leaky(), request, print))
        with pytest.raises(RecordingError) as caught:
            asyncio.run(ask(Leaky(), request_for(f"use {KEY} again"), print))

    written = path.read_text()
    for each in (written, str(caught.value), repr(replayed)):
        assert not any(KEY[start : start + 8] in each for start in range(len(KEY) - 7))
    assert not any(secret in written for secret in ("crumb", "Bearer", "another", "KEY-T", "56789"))
    assert again.text == "the key [hidden]"


def test_unreadable_text_is_written_as_readable(tmp_path):
    """Half emojis, odd separators and values that JSON does not know can't break the file."""
    path = tmp_path / "r.jsonl"
    with recording(path):
        odd = ModelReply("a\ud83d\u2028b", raw={"n": float("nan"), "o": {1, 2}.__class__, 3: (1, 2)})
        asyncio.run(ask(ScriptedModel([odd]), request_for("q", parameters={"t": float("inf")})))

    assert len(path.read_bytes().splitlines()) == 3
    with recording(path, mode="replay"):
        again = asyncio.run(ask(ScriptedModel([]), request_for("q", parameters={"t": float("inf")})))
    assert again.text == "a\N{REPLACEMENT CHARACTER}\u2028b"
    assert again.raw == {"n": "nan", "o": "<class 'set'>", "3": [1, 2]}
