"""Which source stands behind a tool: a hash of all that matters, and a count of how often its name was redefined."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import textwrap
import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType
from typing import Any

from agentnb.tools.signature import inner_function

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_seen: dict[str, list[str]] = {}
_lock = threading.Lock()


def read_source(function: Callable[..., Any]) -> str:
    """The source text of the function, dedented; "" where there is none to read."""
    try:
        return textwrap.dedent(inspect.getsource(inner_function(function)))
    except (OSError, TypeError, IndentationError, SyntaxError):
        return ""


def stamp(name: str, description: str, schema: Mapping[str, Any], function: Callable[..., Any], source: str) -> str:
    """`name@count·hash`: the same source has the same hash everywhere, and in this process the same count.

    The count is the place of this hash among the different ones that this name has had, so running a cell again keeps
    the number, and going back to an older source brings its number back.
    """
    shape = json.dumps(schema, sort_keys=True, default=str)
    parts = (name, description, shape, source or _code_of(function), *_bound(function))
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=4).hexdigest()
    with _lock:
        hashes = _seen.setdefault(name, [])
        if digest not in hashes:
            hashes.append(digest)
        return f"{name}@{hashes.index(digest) + 1}·{digest}"


def _bound(function: Callable[..., Any]) -> list[str]:
    """What a partial fixes is part of what runs."""
    if not isinstance(function, partial):
        return []
    return [_ADDRESS.sub("", repr((function.args, sorted(function.keywords.items())))), *_bound(function.func)]


def _code_of(function: Callable[..., Any]) -> str:
    inner = inner_function(function)
    code = getattr(inner, "__code__", None)
    return _code_text(code) if code is not None else str(getattr(inner, "__qualname__", type(inner).__qualname__))


def _code_text(code: CodeType) -> str:
    constants = [_code_text(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return " ".join([code.co_code.hex(), *code.co_names, *constants])


def _constant(value: Any) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
