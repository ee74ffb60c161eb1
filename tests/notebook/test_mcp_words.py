"""The words of `%agent mcp`, without a server: what is refused, and that no value is ever repeated."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agentnb.errors import SettingsError, UsageError
from agentnb.notebook.mcp_command import mcp_command

KEY = "sk-proj-Abc123Abc123Abc123"
MAGICS = SimpleNamespace(shell=SimpleNamespace(user_ns={}))


def refused(line):
    """What is said to a line that makes no sense."""
    with pytest.raises(UsageError) as told:
        mcp_command(MAGICS, line.split())
    return str(told.value)


@pytest.mark.parametrize(
    "line",
    [
        "gh --env=TOKEN={} npx thing",
        "gh --env TOKEN={} npx thing",
        "gh --env=GOOD,TOKEN={} -- npx thing",
        "gh --env {} npx thing",
        "gh --env {}",
        "gh --env 1{} npx thing",
        "gh -e TOKEN={} npx thing",
        "gh --emv=TOKEN={} npx thing",
        "gh -e{} npx thing",
        "{} --env A",
        "1x npx thing --token {}",
        "gh https://a.example {}",
    ],
)
def test_a_value_is_never_repeated(line):
    """Wherever on the line it stands, and in whatever form, also where it could be a name."""
    for value in (KEY, KEY.replace("-", "_")):
        told = refused(line.format(value))
        assert value not in told
        assert "%agent mcp" in told


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gh --env", "--env lacks the name of a variable"),
        ("gh --env=", "--env lacks the name of a variable"),
        ("gh --env -- npx thing", "--env lacks the name of a variable"),
        ("gh --env 1BAD npx thing", "--env takes the names of variables, and this is none"),
        ("gh --env A=b npx thing", "--env takes the names of variables, not their values"),
        ("gh --env A", "lacks a command or a URL"),
        ("gh --emv A npx", "--env is the only option"),
        ("1x npx", "a variable's name comes first"),
        ("class npx", "a variable's name comes first"),
    ],
)
def test_the_error_says_what_is_wrong(line, said):
    """Each fault has its own words."""
    with pytest.raises(UsageError, match=said):
        mcp_command(MAGICS, line.split())


def test_the_name_may_follow_an_equals_sign():
    """As other programs take it: the variable is looked for, and not there."""
    with pytest.raises(SettingsError, match="NO_SUCH_TOKEN is not set"):
        mcp_command(MAGICS, ["gh", "--env=NO_SUCH_TOKEN", "npx", "thing"])
