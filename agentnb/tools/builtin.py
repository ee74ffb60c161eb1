"""Tools that come with agentnb: a calculator that never evaluates Python."""

from __future__ import annotations

import ast
import math
import operator
import unicodedata
from collections.abc import Callable
from threading import Lock
from typing import Any

from agentnb.errors import ToolError
from agentnb.text import shorten
from agentnb.tools.tool import tool

_MOST_CHARACTERS = 500
_MOST_BITS = 10_000
_MOST_FACTORIAL = 1_000
_EXPECTED = (ArithmeticError, SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
_one_at_a_time = Lock()
"""CPython 3.11 fails at random, with a SystemError, where several threads parse at once."""
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**", "²": "**2", "³": "**3", "\n": " "})


@tool
def calculator(expression: str) -> int | float:
    """Calculate a number. Use it for every sum, product or other calculation, however simple.

    Knows + - * / // % and ** (^ and ** are the power), brackets, pi, e, and sqrt, abs, round, min, max, floor, ceil,
    exp, log, log10, log2, sin, cos, tan (in radians), degrees, radians, factorial.

    Args:
        expression: Numbers and operators only, with a point for decimals, such as "(3.5 - 1) ** 2".

    Returns:
        The number, to 15 significant digits.
    """
    from simpleeval import InvalidExpression

    if len(expression) > _MOST_CHARACTERS:
        raise ToolError(f"the expression has {len(expression):,} characters, at most {_MOST_CHARACTERS} are allowed")
    text = unicodedata.normalize("NFKC", expression.translate(_SIGNS)).strip().rstrip("=").strip()
    try:
        return _tidy(_value(text))
    except ZeroDivisionError:
        raise ToolError(f"division by zero in {shorten(text)!r}") from None
    except (
        InvalidExpression,
        ArithmeticError,
        SyntaxError,
        ValueError,
        TypeError,
        RecursionError,
        MemoryError,
    ) as error:
        raise ToolError(f"can't calculate {shorten(text)!r}: {_reason(error)}") from error


def _value(text: str) -> Any:
    from simpleeval import simple_eval

    with _one_at_a_time:
        _refuse_other_than_numbers(ast.parse(text, mode="eval"))
        return simple_eval(text, operators=_OPERATORS, functions=_FUNCTIONS, names=_NAMES)


def _reason(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return 'write it with numbers, + - * / ** and brackets only, such as "(3.5 - 1) ** 2"'
    if isinstance(error, OverflowError):
        return "the result is too large"
    return shorten(str(error), 200) or type(error).__name__


def _refuse_other_than_numbers(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) not in (int, float):
            raise ValueError(f"{node.value!r} is not a number")
        if isinstance(node, ast.Tuple):
            raise ValueError("a comma separates arguments only; write 1000, not 1,000")


def _tidy(value: Any) -> int | float:
    """The number without float noise: 0.1 + 0.2 is 0.3, 10 / 2 is 5."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"the result is {type(value).__name__}, not a real number")
    if isinstance(value, int):
        return _bounded(value)
    if not math.isfinite(value):
        raise ValueError("the result is too large")
    rounded = float(f"{value:.15g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _bounded(value: int) -> int:
    if value.bit_length() > _MOST_BITS:
        raise ValueError("the result is too large")
    return value


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and abs(base) > 1 and base.bit_length() * exponent > _MOST_BITS:
        raise ValueError("the power is too large")
    return base**exponent


def _factorial(number: Any) -> int:
    if not isinstance(number, int) or not 0 <= number <= _MOST_FACTORIAL:
        raise ValueError(f"factorial takes a whole number from 0 to {_MOST_FACTORIAL}")
    return math.factorial(number)


def _multiply(left: Any, right: Any) -> Any:
    product = left * right
    return _bounded(product) if isinstance(product, int) else product


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_MATH = ("sqrt", "floor", "ceil", "exp", "log", "log10", "log2", "sin", "cos", "tan", "degrees", "radians")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{each.__name__: each for each in (abs, round, min, max)},
    **{
        name: getattr(math, name)
        for name in ["sqrt", "floor", "ceil", "exp", "log", "log10", "log2", "sin", "cos", "tan", "degrees", "radians"]
    },
    "factorial": _factorial,
}
_NAMES = {"pi": math.pi, "e": math.e}
