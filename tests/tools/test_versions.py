"""Which source ran: hashes that last, counts that tell definitions apart."""

from __future__ import annotations

import functools
import linecache
import subprocess
import sys
from typing import Any

import pytest

from agentnb.tools.tool import Tool, to_tool


def cell(source: str, number: int, name: str = "toll") -> Tool:
    """Define a function as a notebook cell does: compiled from text that linecache knows."""
    file = f"<cell {hash(source)} {number}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {}
    exec(compile(source, file, "exec"), names)  # the test's own text
    return Tool(names[name])


FIRST = "def toll(item: str) -> int:\n    return 1\n"
SECOND = "def toll(item: str, currency: str = 'EUR') -> int:\n    return 1\n"
THIRD = "def toll(item: str) -> int:\n    return 2\n"


def parts(made: Tool) -> tuple[str, int, str]:
    """Name, count and hash."""
    name, _, rest = made.version.partition("@")
    count, _, fingerprint = rest.partition("·")
    return name, int(count), fingerprint


def test_counts_tell_definitions_apart():
    """The same cell keeps its number, an edited one gets the next, going back brings the old number back."""
    first, again, second, third, back = (
        parts(cell(source, number)) for number, source in enumerate([FIRST, FIRST, SECOND, THIRD, FIRST])
    )

    assert [each[1] for each in (first, again, second, third, back)] == [1, 1, 2, 3, 1]
    assert first == again == back
    assert len({first[2], second[2], third[2]}) == 3
    assert len(first[2]) == 8


def test_only_what_matters_counts():
    """Options don't change the version; the name and the description do."""
    made = cell(FIRST, 9)

    assert made.replace(approve=True, timeout=None).version == made.version
    assert parts(made.replace(name="price_in_euro"))[:2] == ("price_in_euro", 1)
    assert made.replace(description="Another.").version != made.version


def test_what_a_partial_fixes_counts():
    """Two partials of one function are two versions, the same one twice is one."""

    def scale(x: int, by: int) -> int:
        return x * by

    two, three, again = (to_tool(functools.partial(scale, by=by)).version for by in (2, 3, 2))

    assert two == again != three


def test_code_without_source_is_told_apart():
    """Functions made from text that nobody kept are told apart by their code."""
    names: list[dict[str, Any]] = [{}, {}, {}]
    for number, names_of in zip((1, 2, 1), names, strict=True):
        exec(f"def f(x):\n    return x in {{'a', 'b', 'c', {number}}}", names_of)
    one, two, again = (Tool(each["f"]).version for each in names)

    assert one == again != two
    assert Tool(names[0]["f"]).source == ""


SCRIPT = """
from agentnb.tools.tool import Tool
names = {}
exec("def f(x: int = 1, *, y: str = 'a'):\\n    return x in {'a', 'b', 'c', 'd'} and (lambda: y)", names)
print(Tool(names["f"]).version)
from agentnb.tools.builtin import calculator
print(calculator.version)
"""


@pytest.mark.slow
def test_hashes_last():
    """Other processes with other hash seeds give the same versions."""
    told = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip

    assert len(told) == 1
    assert "calculator@1·" in told.pop()
