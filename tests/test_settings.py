"""Settings from the environment and `.env`, and keys that stay hidden."""

from __future__ import annotations

import copy
import os
import pickle
import traceback
from pathlib import Path

import pytest

from agentnb import settings
from agentnb.errors import SettingsError
from agentnb.settings import Secret
from agentnb.text import mask

KEY = "KEY-TEST-0123456789"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, without any of our variables in the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL", "TEMPERATURE", "MAX_ITERATIONS", "AGENT_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        f"OPENAI_API_KEY={KEY}",
        f'OPENAI_API_KEY="{KEY}"\r\nTEMPERATURE=0\r\n',
        f"OPENAI_API_KEY='{KEY}'  ",
        f"export OPENAI_API_KEY={KEY}\n",
        f'OPENAI_API_KEY="{KEY}\n"\n',
        f"OPENAI_API_KEY = {KEY} \n\n",
        f"\ufeffOPENAI_API_KEY={KEY}  # the key\n",
    ],
)
def test_a_key_is_read_in_all_forms(folder, line):
    """Line ends, spaces, quotes, export and a byte order mark do not become part of the key."""
    (folder / ".env").write_bytes(line.encode())

    assert settings.get("OPENAI_API_KEY") == KEY


def test_a_dollar_sign_is_not_expanded(folder):
    """A value is taken as written; nothing of the environment is put into it."""
    (folder / ".env").write_text("OPENAI_API_KEY=a${HOME}b$HOME\n")

    assert settings.get("OPENAI_API_KEY") == "a${HOME}b$HOME"


def test_the_environment_wins(folder, monkeypatch):
    """A variable that is set beats the file, also when it is set to nothing."""
    (folder / ".env").write_text("OPENAI_MODEL=file\n")
    monkeypatch.setenv("OPENAI_MODEL", " environment ")
    assert settings.get("OPENAI_MODEL") == "environment"

    monkeypatch.setenv("OPENAI_MODEL", "")
    assert settings.get("OPENAI_MODEL") is None


def test_the_nearest_file_upwards_counts(folder, monkeypatch):
    """A notebook in a subfolder finds the file of its project, and none beyond the root of the repository."""
    (folder / ".env").write_text("OPENAI_MODEL=outside\n")
    below = folder / "project" / "notebooks"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert settings.get("OPENAI_MODEL") is None, "outside home and repository the folders above belong to others"

    monkeypatch.setenv("HOME", str(folder))
    assert settings.get("OPENAI_MODEL") == "outside"

    (folder / "project" / ".git").mkdir()
    assert settings.get("OPENAI_MODEL") is None

    (folder / "project" / ".env").write_text("OPENAI_MODEL=inside\n")
    assert settings.get("OPENAI_MODEL") == "inside"


def test_an_edited_file_is_read_again(folder):
    """A change is seen at once, without a restart of the kernel."""
    path = folder / ".env"
    path.write_text("OPENAI_MODEL=one\n")
    assert settings.get("OPENAI_MODEL") == "one"

    path.write_text("OPENAI_MODEL=two\n")
    os.utime(path, (1, 1))
    assert settings.get("OPENAI_MODEL") == "two"


def test_an_unreadable_file_is_named(folder):
    """A file that is no text gives an error of ours that names it."""
    (folder / ".env").write_bytes(b"OPENAI_MODEL=\xff\xfe\x00")

    with pytest.raises(SettingsError, match=r"\.env can't be read"):
        settings.get("OPENAI_MODEL")


@pytest.mark.parametrize("value", ["warm", "nan", "1e999", "0,5"])
def test_a_bad_number_is_named(folder, monkeypatch, value):
    """The error shows the variable and what stands in it."""
    monkeypatch.setenv("TEMPERATURE", value)

    with pytest.raises(SettingsError) as error:
        settings.number("TEMPERATURE")
    assert f"TEMPERATURE={value!r}" in str(error.value)


def test_numbers_and_flags(folder, monkeypatch):
    """Numbers, whole numbers and switches are read as such; missing ones are None or off."""
    (folder / ".env").write_text("TEMPERATURE=0.2\nMAX_ITERATIONS=7\nAGENT_DEBUG=1\n")
    assert (settings.number("TEMPERATURE"), settings.whole("MAX_ITERATIONS"), settings.debug()) == (0.2, 7, True)

    (folder / ".env").write_text("AGENT_DEBUG=false\n")
    assert (settings.number("TEMPERATURE"), settings.whole("MAX_ITERATIONS"), settings.debug()) == (None, None, False)


@pytest.mark.parametrize("value", ["0", "-3", "2.5", "many", "9" * 30])
def test_a_bad_whole_number_is_named(folder, monkeypatch, value):
    """An iteration limit that can't be kept is refused."""
    monkeypatch.setenv("MAX_ITERATIONS", value)

    with pytest.raises(SettingsError, match="MAX_ITERATIONS"):
        settings.whole("MAX_ITERATIONS")


def test_a_secret_shows_nothing():
    """Neither str, repr, format, copies nor a traceback through it show a piece of the key."""
    secret = Secret(KEY, "OPENAI_API_KEY")
    texts = [str(secret), repr(secret), f"{secret}", repr({"key": secret}), repr(copy.deepcopy(secret))]
    try:
        raise ValueError(secret)
    except ValueError:
        texts.append(traceback.format_exc())

    assert secret.reveal() == KEY
    assert not any(KEY[:8] in text or KEY[-8:] in text for text in texts)


def test_a_secret_is_masked_everywhere():
    """Once a key is known, text that holds it, or 8 characters of it, is covered."""
    Secret("abc-MASKED-key-98765")

    assert "MASKED" not in mask("before abc-MASKED-key-98765 after MASKED-k end")
    assert mask("before abc-MASKED-key-98765 after").startswith("before [hidden]")


def test_a_secret_travels_as_a_name(monkeypatch):
    """Pickled, it holds only its variable, which is read where it arrives."""
    data = pickle.dumps(Secret(KEY, "AGENTNB_TEST_KEY").with_prefix("Bearer "))
    assert KEY.encode() not in data

    arrived = pickle.loads(data)
    monkeypatch.setenv("AGENTNB_TEST_KEY", "another-key-there")
    assert arrived.reveal() == "Bearer another-key-there"


def test_a_secret_given_in_code_does_not_travel():
    """What has no variable can't be read elsewhere, and says so."""
    arrived = pickle.loads(pickle.dumps(Secret(KEY)))

    with pytest.raises(SettingsError, match="does not travel"):
        arrived.reveal()
