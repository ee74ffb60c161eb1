"""What the model is shown of a function: always an object, with descriptions, without noise; lint for the author."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentnb.core.messages import ToolCall
from agentnb.core.tool import ToolSpec
from agentnb.errors import ToolDefinitionError
from agentnb.tools.schema import lint
from agentnb.tools.tool import to_tool, tool


class Colour(Enum):
    """Two colours."""

    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    """A thing to buy."""

    title: str
    colour: Colour = Colour.RED


class Node(BaseModel):
    """A tree."""

    value: int
    children: list[Node] = []


def schema(function: Any, **options: Any) -> dict[str, Any]:
    """The JSON Schema that the model sees."""
    return dict(to_tool(function, **options).spec.parameters)


def every_form() -> list[Callable[..., Any]]:
    """Functions of every form of signature."""

    def a(x: int, /, y: str = "k") -> None: ...

    def b(*nums: int) -> None: ...

    def c(x: int, **more: Any) -> None: ...

    def d(p, q=2) -> None: ...

    def e(*, when: datetime) -> None: ...

    def f(data: bytes) -> None: ...

    def g(item: Item) -> None: ...

    def h(items: list[Item]) -> None: ...

    def k(x: Item | None = None) -> None: ...

    def m(xs: list[int] = []) -> None: ...  # noqa: B006 - the default is part of the test

    def n() -> None: ...

    return [a, b, c, d, e, f, g, h, k, m, n]


@pytest.mark.parametrize("function", every_form(), ids=lambda function: function.__name__)
def test_every_signature_gives_an_object(function):
    """Servers take only objects; what has a default is not required; no titles; valid JSON."""
    shown = schema(function)

    assert shown["type"] == "object"
    assert json.loads(json.dumps(shown)) == shown
    assert '"title": "' not in json.dumps(shown)
    assert not set(shown.get("required", [])) & {"y", "q", "xs", "nums", "more"}


def test_a_whole_schema_reads_like_the_function():
    """Types, defaults, and the docstring's words for the tool and for each parameter."""

    @tool
    def get_weather(city: str, unit: Literal["celsius", "kelvin"] = "celsius") -> float:
        """Current temperature of a city.

        Use it for today only.

        Args:
            city: English name,
                such as "Beijing".
            unit: Scale.

        Returns:
            Degrees.
        """
        return 0.0

    assert get_weather.spec.description == "Current temperature of a city.\nUse it for today only.\nReturns: Degrees."
    assert get_weather.spec.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": 'English name, such as "Beijing".'},
            "unit": {
                "type": "string",
                "enum": ["celsius", "kelvin"],
                "description": "Scale.",
                "default": "celsius",
            },
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def google(x: int) -> int:
    """Double a number.

    Args:
        x: The number.

    Returns:
        Twice x.
    """
    return 2 * x


def numpy(x: int) -> int:
    """Double a number.

    Parameters
    ----------
    x : int
        The number.

    Returns
    -------
    int
        Twice x.
    """
    return 2 * x


def rest(x: int) -> int:
    """Double a number.

    :param x: The number.
    :returns: Twice x.
    """
    return 2 * x


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_every_docstring_style_is_read(function):
    """Google, NumPy and reST docstrings say the same."""
    made = to_tool(function)

    assert made.spec.description == "Double a number.\nReturns: Twice x."
    assert made.spec.parameters["properties"]["x"]["description"] == "The number."


def test_examples_in_the_docstring_are_kept():
    """An Example: section is part of the description."""

    def f(x: int) -> None:
        """Do it well and often.

        Example:
            f(3)
        """

    assert "f(3)" in to_tool(f).spec.description


def test_fields_of_models_are_shown():
    """The model sees the fields, without a reference to look up."""
    item = schema(every_form()[6])["properties"]["item"]

    assert item["properties"]["title"] == {"type": "string"}
    assert item["properties"]["colour"]["enum"] == ["red", "blue"]
    assert "$defs" not in schema(every_form()[7])


def test_a_parameter_may_be_called_title_or_default():
    """Only titles of schemas go, not parameters or data of that name."""

    @dataclasses.dataclass
    class Page:
        title: str

    def f(title: str, page: Page, default: dict[str, str] = {"title": "x"}) -> None: ...  # noqa: B006

    shown = schema(f)["properties"]

    assert shown["title"] == {"type": "string"}
    assert shown["page"]["properties"] == {"title": {"type": "string"}}
    assert shown["default"]["default"] == {"title": "x"}


def test_recursive_models_keep_their_definition():
    """A type that holds itself is the one case for $defs."""

    def f(node: Node) -> None: ...

    shown = schema(f)

    assert shown["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


def test_open_and_closed_names():
    """`**more` opens the object to its type, other tools take only what they list."""

    def f(x: int, **more: int) -> None: ...

    assert schema(f)["additionalProperties"] == {"type": "integer"}
    assert list(schema(f)["properties"]) == ["x"]


def test_bytes_are_announced_as_base64():
    """The model is told how to write bytes."""
    assert schema(every_form()[5])["properties"]["data"] == {
        "type": "string",
        "contentEncoding": "base64",
        "description": "bytes, as base64 text",
    }


def test_annotated_words_and_fields_describe_parameters():
    """`Annotated[int, "..."]` and pydantic's Field are understood."""

    def f(a: Annotated[int, "how many"], b: int = Field(3, description="how often", le=9)) -> None: ...

    shown = schema(f)

    assert shown["properties"]["a"]["description"] == "how many"
    assert shown["properties"]["b"] == {"type": "integer", "description": "how often", "maximum": 9, "default": 3}
    assert shown["required"] == ["a"]


def test_none_as_default_allows_null():
    """`x: int = None` is what people write for an optional number."""

    def f(x: int = None) -> None: ...  # noqa: RUF013 - the sloppy hint is the point

    assert {"type": "null"} in schema(f)["properties"]["x"]["anyOf"]


def test_defaults_that_json_lacks_are_not_shown():
    """A default of NaN, or an object, works and never reaches the request."""
    marker = object()

    def f(a: float = float("nan"), b: Any = marker, c: list[int] = Field(default_factory=list)) -> Any:  # noqa: B008
        return [a != a, b is marker, c]

    made = to_tool(f)

    assert "default" not in made.spec.parameters["properties"]["a"]
    assert "default" not in made.spec.parameters["properties"]["b"]
    assert json.dumps(made.spec.parameters, allow_nan=False)
    result = asyncio.run(made.answer(ToolCall("c1", "f")))
    assert result.value == [True, True, []]
    assert result.arguments == {"c": []}


def test_hints_are_found_where_the_function_stands():
    """Classes made inside a function are found although annotations are only text."""

    class Local(BaseModel):
        size: int

    def f(x: Local, y: list[Local] | None = None) -> None: ...

    assert schema(f)["properties"]["x"]["properties"] == {"size": {"type": "integer"}}
    assert schema(tool(name="other")(f))["properties"]["x"]["properties"] == {"size": {"type": "integer"}}


def test_unresolved_hints_fail_at_once():
    """A hint without meaning is told at registration, with parameter and remedy."""

    def f(x: int, y: Nowhere) -> None: ...  # noqa: F821 - the missing name is the point

    with pytest.raises(ToolDefinitionError, match=r"tool 'f', parameter 'y'.*Nowhere.*Define or import"):
        to_tool(f)


def test_types_that_no_model_can_write_fail_at_once():
    """A parameter that JSON can't express is named at registration."""

    class Connection: ...

    def query(sql: str, connection: Connection) -> None: ...

    with pytest.raises(ToolDefinitionError, match="parameter 'connection'"):
        to_tool(query)
    bound = functools.partial(query, connection=Connection())
    assert list(schema(bound)["properties"]) == ["sql"]


def test_things_without_a_signature_are_refused():
    """Some built-in functions can't be read; the error says what to do."""
    with pytest.raises(ToolDefinitionError, match="Wrap it in a function"):
        to_tool(dict, name="x")


def test_lint_names_what_the_model_is_not_told():
    """No docstring, a thin one, no hint, no description: each is a warning."""

    @tool
    def bare(x, y: int): ...

    @tool
    def thin(x: int) -> None:
        """Does it.

        Args:
            x: How often.
        """

    told = "\n".join(lint(bare))
    assert "no docstring" in told
    assert "parameter 'x' has no type hint" in told
    assert "parameter 'y' has no description" in told
    assert "'y' has no type hint" not in told
    assert "thin description ('Does it.')" in lint(thin)[0]
    assert thin.hints == lint(thin)
    assert len(lint(thin)) == 1


@pytest.mark.parametrize("name", ["f", "do_it", "my_tool"])
def test_lint_asks_for_a_name_that_says_something(name):
    """The model reads the name first."""
    named = to_tool(google).replace(name=name)

    assert "is a name that says nothing" in lint(named)[0]


def test_lint_is_content_with_a_good_tool():
    """A tool that says when to use it and what its parameters mean has no warning."""
    assert lint(to_tool(google)) == ()


def test_lint_takes_any_tool():
    """Only the spec is needed."""

    class Other:
        spec = ToolSpec("other", parameters={"type": "object", "properties": {"x": {}}})

        async def answer(self, call: Any) -> Any: ...

    assert len(lint(Other())) == 2
