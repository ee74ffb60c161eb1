"""A Python function as a tool: `@tool` makes a Tool, which shows itself to the model and answers calls.

    call ──cast_arguments──▶ values ──worker thread or loop──▶ outcome ──result_text──▶ ToolResult

Whatever goes wrong on the way is a result that the model can read; only cancellation raises. A Tool is a frozen value
that is still called like the function it was made of; `tool.replace(approve=True)` is a changed copy.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, cast, overload

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.tool import Tool as CoreTool
from agentnb.core.tool import ToolSpec
from agentnb.errors import Interrupted, ToolArgumentError, ToolDefinitionError
from agentnb.instructions import Example
from agentnb.text import shorten
from agentnb.threads import Outcome, is_async, outcome_of
from agentnb.tools.arguments import cast_arguments
from agentnb.tools.results import SMALLEST_LIMIT, error_text, readable, result_text, traceback_text
from agentnb.tools.schema import Parameters, lint, read_parameters
from agentnb.tools.signature import inner_function, is_unbound, read_docstring
from agentnb.tools.versions import read_source, stamp

if TYPE_CHECKING:
    from agentnb.instructions import Example

LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
WRONG_THREAD = (
    " (The tool ran in a worker thread. If it uses something that is bound to the main thread, such as a database "
    "connection or a window, declare it with @tool(thread=False).)"
)
_THREAD_WORDS = ("created in a thread", "main thread", "no current event loop", "no running event loop")
NO_INPUT = " (Nobody can be asked from inside a tool here: take the value as a parameter instead of input().)"


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """How a function serves as a tool."""

    name: str = ""
    """"" takes the function's own."""
    description: str = ""
    """"" takes the docstring's."""
    approve: bool = False
    """A person decides before each call."""
    parallel: bool = True
    """May run beside other calls of the same reply."""
    timeout: float | None = 30.0
    """Seconds; None waits for ever."""
    poll: bool = False
    """Asked again and again on purpose; the repetition guard leaves it alone."""
    max_chars: int = 16_000
    """Bounds the text of a result."""
    thread: bool = True
    """A synchronous function runs in a worker thread; False: in the thread of the run, without a time-out."""
    examples: tuple[Example, ...] = ()
    """Worked examples for the agents that use the tool."""
    extra: str = "refuse"
    """Unknown arguments: "refuse" the call, or "ignore" them with a note."""
    quoted: bool = False
    """What it returns, though not what it raises, are words of others (a page): each line reaches the model as data."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "examples", tuple(self.examples))
        if self.extra not in ("refuse", "ignore"):
            raise ToolDefinitionError(f"extra={self.extra!r}, expected 'refuse' or 'ignore'")
        if self.timeout is not None and not (isinstance(self.timeout, int | float) and self.timeout > 0):
            raise ToolDefinitionError(f"timeout={self.timeout!r}, expected seconds above 0, or None for no time-out")
        if not isinstance(self.max_chars, int) or self.max_chars < SMALLEST_LIMIT:
            raise ToolDefinitionError(f"max_chars={self.max_chars!r}, expected a whole number from {SMALLEST_LIMIT}")


class Tool:
    """A function with its schema, version and options; `answer` runs a model's call of it."""

    function: Callable[..., Any]
    """What is called."""
    options: ToolOptions
    """How it serves."""
    parameters: Parameters
    """Its parameters, ready to validate."""
    spec: ToolSpec
    """What the model and the loop see."""
    source: str
    """Its source text; "" where there is none."""
    _told: str
    _unbound: bool
    _async: bool
    _place: str

    def __init__(
        self,
        function: Callable[..., Any],
        options: ToolOptions | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(function, staticmethod):
            function = function.__func__
        options = options or ToolOptions()
        name = _checked_name(options.name or _own_name(function))
        description, told = read_docstring(function)
        parameters = read_parameters(function, told, name)
        if schema is not None:  # of a tool that lives elsewhere: shown as it is, checked there
            parameters = replace(parameters, schema=dict(schema))
        self.__dict__.update(function=function, parameters=parameters, source=read_source(function))
        self.__dict__.update(_told=description, _unbound=is_unbound(function), _async=is_async(function))
        self.__dict__.update(_identity(function, name))
        self._configure(options)

    def _configure(self, options: ToolOptions) -> None:
        name = _checked_name(options.name or _own_name(self.function))
        description = options.description or self._told
        version = stamp(name, description, self.parameters.schema, self.function, self.source)
        spec = ToolSpec(
            name, description, self.parameters.schema, version, options.approve, options.parallel, options.poll
        )
        place = "loop" if self._async else "thread" if options.thread else "here"
        self.__dict__.update(options=options, spec=spec, _place=place)

    def replace(self, **changes: Any) -> Tool:
        """A copy with other options: `get_weather.replace(approve=True, timeout=5)`."""
        return self._copied(replace(self.options, **changes))

    async def answer(self, call: ToolCall) -> ToolResult:
        """Run the call and tell what came of it.

        Raises:
            asyncio.CancelledError: The run was cancelled, or the function raised KeyboardInterrupt.
        """
        began, version = time.perf_counter(), self.spec.version
        try:
            given, notes = cast_arguments(call, self.parameters, self.options.extra)
        except ToolArgumentError as error:
            return ToolResult(call.id, call.name, str(error), "error", version=version)
        values = given if len(given) == len(self.parameters.items) else self.parameters.completed(given)
        kept = values if self.parameters.flat else _kept(values)
        args, kwargs = ((), values) if self.parameters.by_name else self.parameters.call_with(values)
        outcome = await outcome_of(self.function, args, kwargs, self.options.timeout, self._place)
        if outcome.error is not None or isinstance(outcome.value, ToolResult):
            finished = self._failed if outcome.error is not None else self._passed_on
            return finished(call, kept, outcome, time.perf_counter() - began, notes)
        content, more = result_text(outcome.value, self.options.max_chars, self.options.quoted)
        about = (kept, version, time.perf_counter() - began, "", (*notes, *outcome.notes, *more))
        return ToolResult(call.id, call.name, content, "ok", outcome.value, *about)

    def _passed_on(
        self, call: ToolCall, kept: Mapping[str, Any], outcome: Outcome, seconds: float, notes: tuple[str, ...]
    ) -> ToolResult:
        """The function itself says all of the result: that of a nested run, or of a tool elsewhere."""
        told: ToolResult = outcome.value
        content, more = readable(told.content, self.options.max_chars, self.options.quoted)
        about = (kept, self.spec.version, seconds, told.traceback, (*notes, *told.notes, *more), told.used)
        return ToolResult(call.id, call.name, content, told.status, told.value, *about)

    def _failed(
        self, call: ToolCall, kept: Mapping[str, Any], outcome: Outcome, seconds: float, notes: tuple[str, ...]
    ) -> ToolResult:
        error = outcome.error
        assert error is not None
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted("the tool was interrupted") from error
        notes = (*notes, *outcome.notes)
        version = self.spec.version
        if outcome.expired:
            text = f"timed out after {self.options.timeout:g} s"
            return ToolResult(call.id, call.name, text, "timeout", None, kept, version, seconds, "", notes)
        text = error_text(error, self.options.max_chars) + _advice(error, self.options.thread and not self._async)
        trace = traceback_text(error)
        return ToolResult(call.id, call.name, text, "error", None, kept, version, seconds, trace, notes)

    # ── as a function and as a value ─────────────────────────────────────────────────────────────────────────────

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, as if it were no tool."""
        return self.function(*args, **kwargs)

    def __get__(self, owner: Any, kind: type | None = None) -> Tool:
        """A tool made of a method in a class body binds to its object, as the method would."""
        if owner is None or not self._unbound:
            return self
        return self._copied(self.options, MethodType(self.function, owner))

    def _copied(self, options: ToolOptions, function: Callable[..., Any] | None = None) -> Tool:
        copy = object.__new__(Tool)
        copy.__dict__.update(self.__dict__)
        if function is not None:
            copy.__dict__.update(function=function, _unbound=False)
        copy._configure(options)
        return copy

    @property
    def name(self) -> str:
        """As the model sees it."""
        return self.spec.name

    @property
    def version(self) -> str:
        """`name@count·hash`."""
        return self.spec.version

    @property
    def examples(self) -> tuple[Example, ...]:
        """Worked examples for the agents that use the tool."""
        return self.options.examples

    @property
    def hints(self) -> tuple[str, ...]:
        """What the model is told too little about, for its author: no docstring, no type; () when all is well."""
        return lint(self)

    def __repr__(self) -> str:
        return f"<Tool {self.name}{inspect.signature(self.function)} · {self.version.rpartition('·')[2]}>"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Tool is frozen: use tool.replace({name}=...) for a changed copy")


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    approve: bool = False,
    parallel: bool = True,
    timeout: float | None = 30.0,
    poll: bool = False,
    max_chars: int = 16_000,
    thread: bool = True,
    examples: Sequence[Example] = (),
    extra: str = "refuse",
    quoted: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(name=..., approve=True, timeout=10)` with the ToolOptions.

    The name, the signature and the docstring (what it does, when to use it, Args:, Returns:) are what the model sees;
    `made.hints` says what of it could be better.

    Raises:
        ToolDefinitionError: The name is illegal, a type hint can't be resolved, or an option has no meaning.
    """
    if function is None:
        chosen = _options(options)
        return lambda function: to_tool(function, **options) if isinstance(function, Tool) else Tool(function, chosen)
    if not callable(function):
        raise ToolDefinitionError(
            f"tool() got {shorten(repr(function))}, expected a function", remedy="Write @tool or @tool(name='...')."
        )
    return to_tool(function, **options)


def to_tool(thing: Any, **options: Any) -> CoreTool:
    """A tool of anything that can serve as one.

    Args:
        thing: A Tool, a function, async function, bound method, functools.partial (what it binds is hidden from the
            model), a lambda with name=, an object with `__call__`, or any object that has `spec` and `answer`.
        options: The ToolOptions to set or change.

    Raises:
        ToolDefinitionError: It can't be a tool as it is.
    """
    if isinstance(thing, Tool):
        return thing.replace(**options) if options else thing
    if _is_tool(thing):
        return cast(CoreTool, thing)
    if not callable(thing) and not isinstance(thing, staticmethod):
        raise ToolDefinitionError(
            f"{shorten(repr(thing))} is no tool", remedy="Give a function, or an object with .spec and .answer(call)."
        )
    return Tool(thing, _options(options))


def to_tools(things: Any) -> tuple[CoreTool, ...]:
    """Every tool of these things; one that holds several (a list, an MCP server) stands for all of them."""
    if _is_tool(things) or callable(things) or isinstance(things, str | Mapping) or not hasattr(things, "__iter__"):
        return (to_tool(things),)
    return tuple(tool for each in things for tool in to_tools(each))


def _is_tool(thing: Any) -> bool:
    return not isinstance(thing, type) and hasattr(thing, "spec") and hasattr(thing, "answer")


def _options(options: Mapping[str, Any]) -> ToolOptions:
    known = [each.name for each in fields(ToolOptions)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ToolDefinitionError(f"unknown option {unknown[0]!r}", remedy=f"The options are {', '.join(known)}.")
    return ToolOptions(**options)


def _own_name(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _checked_name(name: str) -> str:
    if LEGAL_NAME.fullmatch(name):
        return name
    legal = re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")[:64] or "my_tool"
    legal = "my_tool" if legal == "lambda" else legal
    raise ToolDefinitionError(
        f"tool name {shorten(name, 90)!r} is not legal: 1 to 64 of the characters a-z A-Z 0-9 _ -",
        remedy=f"Rename the function, or write @tool(name={legal!r}).",
    )


def _identity(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """What `functools.wraps` would copy."""
    doc = inspect.getdoc(function if not isinstance(function, partial) else inner_function(function))
    return {
        "__wrapped__": function,
        "__name__": getattr(function, "__name__", name),
        "__qualname__": getattr(function, "__qualname__", name),
        "__module__": getattr(function, "__module__", None) or __name__,
        "__doc__": doc,
    }


def _kept(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are before the function can change them."""
    try:
        return deepcopy(dict(values))
    except Exception:
        return dict(values)


def _advice(error: BaseException, in_thread: bool) -> str:
    text = str(error) if isinstance(error, Exception) else ""
    if isinstance(error, EOFError) or "stdin" in type(error).__name__.lower() or "reading from stdin" in text:
        return NO_INPUT
    return WRONG_THREAD if in_thread and any(words in text for words in _THREAD_WORDS) else ""
