"""The source of a tool as a cell: what comes of the cell is the tool again."""

from __future__ import annotations

import functools
from typing import Any, Literal  # Literal: named by a quoted hint

import pytest

from agentnb import calculator, fetch_page, tool
from agentnb.errors import UsageError
from agentnb.instructions import Example
from agentnb.notebook.tool_source import source_cell

RATE = 1.5


def with_rate(price: float) -> float:
    """Price with the rate."""
    return price * RATE


@tool
def helper(x: int) -> int:
    """Help."""
    return x


def uses_another(x: int) -> str:
    """Use another."""
    text = helper(x)
    return str(text)


def loud(function):
    """A decorator that is none of ours."""
    return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))


@loud
def decorated(size: Literal["s", "m"] = "s") -> str:
    """Say the size."""
    return size


@tool(approve=True, timeout=5)
def careful(x: int) -> int:
    """Be careful."""
    return x


class Shop:
    """Has a method."""

    def price(self, item: str) -> float:
        """Price of an item."""
        return 2.0


def made(cell: str, space: dict[str, Any]) -> dict[str, Any]:
    """What the cell defines, in a notebook with these variables."""
    magic, _, body = cell.partition("\n")
    assert magic == "%%tool"
    exec(body, space)  # the test's own source
    return space


def test_a_tool_of_another_module_works_in_its_cell():
    """The calculator's helpers are imported above it; it calculates as before."""
    again = made(source_cell(calculator, {"calculator": calculator}), {})["calculator"]

    assert again(expression="2 ^ 3 + 1") == 9
    assert again.spec.parameters == calculator.spec.parameters


def test_a_name_that_the_notebook_has_is_not_imported():
    """A value of the notebook that is the module's own needs no line."""
    assert "import RATE" not in source_cell(tool(with_rate), {"RATE": RATE})
    assert f"from {__name__} import RATE" in source_cell(tool(with_rate), {})
    with pytest.raises(UsageError, match=f"needs RATE of {__name__}, and the notebook has others of that name"):
        source_cell(tool(with_rate), {"RATE": 7})


def test_a_newer_tool_of_the_notebook_stays():
    """A tool that another one calls may have been edited; a local that is named like something of the notebook is none."""
    text = source_cell(
        tool(uses_another), {"helper": tool(with_rate).replace(name="helper"), "text": "mine", "tool": tool}
    )

    assert "import" not in text.partition("def ")[0]


def test_a_tool_of_the_notebook_is_its_source():
    """What a cell defined finds its names where it found them."""
    space: dict[str, Any] = {}
    exec("RATE = 2\ndef twice(x: int) -> int:\n    return x * RATE\n", space)
    cell = tool(space["twice"])
    cell.__dict__["source"] = "def twice(x: int) -> int:\n    return x * RATE\n"

    assert source_cell(cell, space) == f"%%tool\n{cell.source}"


def test_options_given_without_a_decorator_stand_above():
    """`tool(...)(function)` leaves its options in the cell."""
    chosen = tool(with_rate).replace(name="rated", approve=True)
    again = made(source_cell(chosen, {}), {})["with_rate"]

    assert (again.name, again.options.approve, again(price=2.0)) == ("rated", True, 3.0)


def test_options_are_never_lost():
    """Also those given to a tool that has a decorator, of ours or of another kind."""
    chosen = tool(decorated).replace(approve=True, timeout=float("inf"))
    again = made(source_cell(chosen, {}), {})["decorated"]
    other = made(source_cell(careful.replace(approve=False, name="bold"), {}), {})["careful"]

    assert (again.options, again(size="m")) == (chosen.options, "m")
    assert (other.name, other.options.approve, other.options.timeout) == ("bold", False, 5)
    assert "@tool(approve=True, timeout=5)\ndef careful" in source_cell(careful, {})


def test_another_tool_variable_is_left_alone():
    """The notebook's `tool` may be anything, such as what a loop left behind."""
    cell = source_cell(tool(with_rate).replace(timeout=5), {"tool": "mine"})

    assert "import agentnb\n" in cell
    assert "@agentnb.tool(timeout=5)" in cell
    assert made(cell, {"tool": "mine"})["with_rate"].options.timeout == 5


TOTAL = 0


def counting(by: int) -> int:
    """Count."""
    global TOTAL
    TOTAL += by
    return TOTAL


def local_tool():
    """A tool that needs a variable of this function."""
    rate = 3.0

    @tool
    def priced(price: float) -> float:
        """Price with the rate."""
        return price * rate

    return priced


@pytest.mark.parametrize(
    ("unfit", "why"),
    [
        (local_tool(), "variables of the function around it"),
        (tool(Shop().price), "belongs to a class"),
        (tool(counting), "changes variables of its module"),
        (fetch_page, "variables of the function around it"),
        (tool(len), "not at hand"),
        (tool(lambda x: x, name="lam"), "not defined by a def"),
        (tool(functools.partial(with_rate), name="part"), "a partial fixes"),
        (tool(with_rate).replace(examples=[Example("go", (), "done")]), "examples elsewhere"),
    ],
)
def test_what_a_cell_could_not_define_is_refused(unfit, why):
    """The error says why, and where the source is."""
    with pytest.raises(UsageError, match=why):
        source_cell(unfit, {})
