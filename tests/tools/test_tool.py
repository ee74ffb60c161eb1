"""A function as a tool: how it is made, what it answers, and what each thing that can go wrong looks like."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.tool import ToolSpec
from agentnb.errors import AgentInterrupted, ToolDefinitionError, ToolError
from agentnb.text import hide
from agentnb.tools.tool import Tool, ToolOptions, to_tool, tool


@tool
def get_weather(city: str, unit: str = "celsius") -> float:
    """Current temperature of a city."""
    return {"Beijing": 31.0}[city]


class Item(BaseModel):
    """A thing."""

    name: str


class Shop:
    """Holds a price for its tools."""

    def __init__(self, price: int) -> None:
        self.price = price

    def times(self, count: int) -> int:
        """Price of so many."""
        return self.price * count

    @tool
    def doubled(self, add: int = 0) -> int:
        """Price of two."""
        return self.price * 2 + add

    @tool
    @staticmethod
    def currency() -> str:
        """The currency of every shop."""
        return "EUR"

    def __call__(self, count: int = 1) -> int:
        """Price of some."""
        return self.price * count


def answer(made: Any, text: str = "{}") -> ToolResult:
    """What a tool answers to one call."""
    result: ToolResult = asyncio.run(made.answer(ToolCall("c1", made.spec.name, text)))
    return result


# ── as a function and as a value ─────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_is_still_the_function():
    """It is called, named and documented like the function it was made of."""
    assert get_weather("Beijing") == 31.0
    assert get_weather.__name__ == "get_weather"
    assert get_weather.__doc__ == "Current temperature of a city."
    assert str(inspect.signature(get_weather)) == "(city: 'str', unit: 'str' = 'celsius') -> 'float'"
    assert inspect.unwrap(get_weather)("Beijing") == 31.0


def test_a_tool_shows_itself():
    """Its repr has name, signature and hash, its source is at hand."""
    text = repr(get_weather)

    assert text.startswith("<Tool get_weather(city: 'str'")
    assert text.endswith(f"{get_weather.version[-8:]}>")
    assert "def get_weather" in get_weather.source


def test_options_reach_the_spec():
    """What the loop needs to know stands in the spec, the rest in the options."""
    made = tool(name="f", approve=True, parallel=False, poll=True, timeout=None, description="Do.")(lambda: 1)

    assert (made.spec.name, made.spec.description) == ("f", "Do.")
    assert (made.spec.approve, made.spec.parallel, made.spec.poll) == (True, False, True)
    assert made.options.timeout is None
    assert tool(lambda_ := functools.partial(get_weather, unit="kelvin")).name == "get_weather", lambda_


def test_a_changed_copy_leaves_the_tool_alone():
    """`replace` makes another tool of the same function and version."""
    other = get_weather.replace(approve=True, timeout=5)

    assert (other.spec.approve, other.options.timeout) == (True, 5)
    assert (get_weather.spec.approve, get_weather.options.timeout) == (False, 30.0)
    assert other.version == get_weather.version
    assert other("Beijing") == 31.0
    with pytest.raises(AttributeError, match=r"tool\.replace"):
        get_weather.options = ToolOptions()
    assert tool(approve=True)(get_weather).spec.approve


# ── what can be a tool ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("thing", "options", "text", "content"),
    [
        (Shop(3).times, {}, '{"count": 2}', "6"),
        (Shop(3), {"name": "shop"}, '{"count": 2}', "6"),
        (Shop(3).doubled, {}, '{"add": 1}', "7"),
        (Shop.currency, {}, "", "EUR"),
        (functools.partial(Shop.times, Shop(3)), {}, '{"count": 2}', "6"),
        (functools.partial(Shop(3).times, count=5), {}, "", "15"),
        (lambda x: x * 2, {"name": "double"}, '{"x": 4}', "8"),
        (math.sqrt, {}, '{"x": 9}', "3.0"),
        (get_weather, {}, '{"city": "Beijing"}', "31.0"),
    ],
    ids=["method", "object", "tool method", "static", "partial", "bound name", "lambda", "builtin", "tool"],
)
def test_whatever_is_registered_can_be_called(thing, options, text, content):
    """Methods, partials, lambdas and the like are shown and run; what a partial binds is hidden."""
    made = to_tool(thing, **options)

    assert answer(made, text).content == content
    assert made.spec.parameters["type"] == "object"
    assert "self" not in made.spec.parameters["properties"]


def signatures() -> list[tuple[Callable[..., Any], str, Any]]:
    """Functions of each form of signature, a call and the value."""

    def a(x: int, /, y: str = "k") -> Any:
        return [x, y]

    def b(*nums: int) -> Any:
        return list(nums)

    def c(x: int, **more: int) -> Any:
        return [x, more]

    def d(p, q=2) -> Any:
        return [p, q]

    def e(item: Item, items: list[Item] = []) -> Any:  # noqa: B006 - the default is part of the test
        return [type(item).__name__, len(items)]

    def f(x: int, /, y: int, *rest: int, z: int = 0, **more: Any) -> Any:
        return [x, y, list(rest), z, more]

    return [
        (a, '{"x": 1}', [1, "k"]),
        (a, '{"x": 1, "y": "z"}', [1, "z"]),
        (b, '{"nums": [1, 2]}', [1, 2]),
        (b, "", []),
        (c, '{"x": 1, "u": 2, "v": 3}', [1, {"u": 2, "v": 3}]),
        (d, '{"p": [1]}', [[1], 2]),
        (e, '{"item": {"name": "a"}}', ["Item", 0]),
        (f, '{"x": 1, "y": 2, "rest": [3], "z": 4, "w": 5}', [1, 2, [3], 4, {"w": 5}]),
    ]


@pytest.mark.parametrize(("function", "text", "value"), signatures())
def test_every_signature_can_be_called(function, text, value):
    """Positional-only, *args, **kwargs, keyword-only and unhinted parameters all arrive."""
    assert answer(to_tool(function), text).value == value


def test_objects_with_spec_and_answer_are_tools():
    """Anything that satisfies the protocol is taken as it is."""

    class Other:
        spec = ToolSpec("other")

        async def answer(self, call: ToolCall) -> ToolResult:
            return ToolResult(call.id, call.name, "fine")

    other = Other()

    assert to_tool(other) is other
    assert to_tool(get_weather) is get_weather


@pytest.mark.parametrize("thing", [3, "get_weather", None, ["f"]])
def test_other_things_are_refused(thing):
    """What can't be called is refused with what to give instead."""
    with pytest.raises(ToolDefinitionError):
        to_tool(thing)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("get weather", "get_weather"), ("fs.read", "fs_read"), ("查天气", "my_tool"), ("x" * 80, "x" * 64), ("f\n", "f")],
)
def test_illegal_names_are_refused_with_a_legal_one(name, suggestion):
    """Servers refuse such names on every request, so registration does, and says which name would do."""
    with pytest.raises(ToolDefinitionError, match=f"name='{suggestion}'"):
        tool(name=name)(lambda: 1)


def test_a_lambda_needs_a_name():
    """The error shows how to give one."""
    with pytest.raises(ToolDefinitionError, match="name="):
        to_tool(lambda: 1)


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"timeout": "5"}, {"max_chars": 10}, {"extra": "drop"}, {"retries": 3}]
)
def test_meaningless_options_are_refused(options):
    """A wrong option fails where it is written."""
    with pytest.raises(ToolDefinitionError):
        tool(**options)


# ── what it answers ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_result_tells_the_whole_call():
    """Text for the model; value, arguments as cast, version, time and notes for the person."""
    result = answer(get_weather, '{"city": "Beijing", "unit": 5}')

    assert (result.call_id, result.name, result.content, result.status) == ("c1", "get_weather", "31.0", "ok")
    assert result.value == 31.0
    assert result.arguments == {"city": "Beijing", "unit": "5"}
    assert result.version == get_weather.version
    assert result.notes == ("unit: 5 → '5'",)
    assert result.seconds > 0


def test_defaults_are_filled_in_and_never_shared():
    """Each call gets its own copy of a default, and the record shows the values before the tool changed them."""

    def collect(x: int, xs: list[int] = []) -> list[int]:  # noqa: B006 - the shared default is the point
        xs.append(x)
        return xs

    made = to_tool(collect)

    assert answer(made, '{"x": 1}').value == [1]
    second = answer(made, '{"x": 2}')
    assert second.value == [2]
    assert second.arguments == {"x": 2, "xs": []}
    assert answer(made, '{"x": 3, "xs": [1]}').arguments == {"x": 3, "xs": [1]}


def test_wrong_arguments_do_not_run_the_tool():
    """The refusal is an error result, and the function was not called."""
    started: list[int] = []

    def remove(path: str) -> None:
        started.append(1)

    result = answer(to_tool(remove), '{"path": "a", "dry_run": true}')

    assert (result.status, result.arguments, started) == ("error", None, [])
    assert "dry_run" in result.content


def test_unknown_arguments_may_be_ignored():
    """extra="ignore" runs the call with a note."""
    result = answer(get_weather.replace(extra="ignore"), '{"city": "Beijing", "day": 1}')

    assert result.ok
    assert result.notes == ("day: unknown argument ignored",)


def raising(error: BaseException | type[BaseException]) -> Tool:
    """A tool that raises."""

    def fail() -> None:
        raise error

    return Tool(fail)


@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ValueError("bad value"), "ValueError: bad value"),
        (AssertionError, "AssertionError"),
        (SystemExit(3), "SystemExit: 3"),
        (StopIteration("end"), "StopIteration: end"),
        (TimeoutError("slow server"), "TimeoutError: slow server"),
        (ToolError("Ask for another city."), "Ask for another city."),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError("x"), "CancelledError: x"),
    ],
)
def test_what_a_tool_raises_is_its_result(error, content):
    """Type and message go to the model; status error; the run goes on."""
    result = answer(raising(error))

    assert (result.status, result.content) == ("error", content)


def test_the_traceback_starts_at_the_tool():
    """The person sees the lines of the tool, not ours."""
    result = answer(raising(ValueError("bad value")))

    assert "raise error" in result.traceback
    assert "agentnb/tools" not in result.traceback.replace("tests/tools", "")


def test_secrets_in_errors_are_hidden():
    """A key in an exception reaches neither the model nor the traceback."""
    hide("KEY-TEST-TOOL-ERROR-1")
    result = answer(raising(ValueError("KEY-TEST-TOOL-ERROR-1")))

    assert "KEY-TEST" not in result.content + result.traceback


def test_huge_errors_are_bounded():
    """Two million characters don't reach the model."""
    assert len(answer(raising(ValueError("x" * 2_000_000))).content) < 5_000


@pytest.mark.parametrize("error", [KeyboardInterrupt, AgentInterrupted])
def test_an_interrupt_in_a_tool_interrupts_the_run(error):
    """KeyboardInterrupt counts as the person's, wherever it was raised."""

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await raising(error).answer(ToolCall("c1", "fail"))

    asyncio.run(main())


def test_max_chars_bounds_the_text_not_the_value():
    """The model reads a part, the person keeps the whole."""
    made = Tool(lambda: "x" * 5_000_000, ToolOptions(name="long", max_chars=500))
    result = answer(made)

    assert len(result.content) <= 500
    assert len(result.value) == 5_000_000
    assert "shortened" in result.notes[0]


def test_results_that_can_not_be_shown_are_results():
    """A repr that raises is no failure of the run."""

    class Broken:
        def __repr__(self) -> str:
            raise ValueError

    result = answer(Tool(Broken, ToolOptions(name="broken")))

    assert result.ok
    assert result.content


def test_the_common_call_is_short():
    """A newcomer can step through one call: few distinct lines of ours run."""
    import sys

    lines: set[tuple[str, int]] = set()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if "agentnb" not in frame.f_code.co_filename or "tests" in frame.f_code.co_filename:
            return None
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    async def main() -> None:
        await get_weather.answer(ToolCall("c1", "get_weather", '{"city": "Beijing", "unit": "celsius"}'))
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            await get_weather.answer(ToolCall("c1", "get_weather", '{"city": "Beijing", "unit": "celsius"}'))
        finally:
            sys.settrace(before)

    asyncio.run(main())

    assert 10 < len(lines) <= 60
