"""Every error of ours, and nothing else.

    AgentnbError                     layer, what happened, remedy
    ├── SettingsError                a setting is missing or wrong
    ├── ToolDefinitionError          a tool can't be registered as written
    ├── ToolArgumentError            the model's arguments don't fit; its text goes back to the model
    ├── ToolError                    raised inside a tool to choose the text that the model reads
    ├── ModelError                   a model call failed; `kind` says how, `retryable` whether again may help
    ├── RecordingError               a recording can't answer, or can't be read
    ├── RunError                     from `state.raise_for_stop()`
    └── UsageError                   a magic, a command or a function was used in a way it can't serve
    ApprovalNeeded                   raised around a tool call: it stays open and the run pauses; reaches nobody
    AgentInterrupted                 a person stopped the run; a KeyboardInterrupt, with the State in hand
    CancelledError                   asyncio's own, from an awaited run that was cancelled; with the State in hand

An error reads "layer: what happened. Remedy."; a limit reached is no error but a StopReason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agentnb.text import mask

traceback_of: Callable[[Exception], list[str] | None] = lambda error: None
"""The whole traceback of one of our errors, where a notebook is to show it; the notebook layer asks the settings."""


class AgentnbError(Exception):
    """What happened, in which layer, and what to do now."""

    layer = "agentnb"
    request: Any = None
    """The request of the model call in which it happened, if it was one."""

    def __init__(self, message: str, *, remedy: str = "", layer: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if layer is not None:
            self.layer = layer

    def __str__(self) -> str:
        head = f"{self.layer}: {self.message}"
        return mask(f"{head.rstrip('.')}. {self.remedy}" if self.remedy else head)

    def _render_traceback_(self) -> list[str]:
        """At most four lines in a notebook, or the whole traceback."""
        if (whole := traceback_of(self)) is not None:
            return whole
        lines = [f"{type(self).__name__}", f"{self.layer}: {self.message}"]
        if self.remedy:
            lines.append(self.remedy)
        if self.__cause__ is not None:
            lines.append(f"Cause: {type(self.__cause__).__name__}; AGENT_DEBUG=1 shows the traceback.")
        return [*map(mask, lines)]

    def __reduce__(self) -> Any:
        return (_rebuild, (type(self), self.__dict__.copy()))


def _rebuild(kind: type[AgentnbError], fields: dict[str, Any]) -> AgentnbError:
    error = kind.__new__(kind)
    Exception.__init__(error, fields.get("message", ""))
    error.__dict__.update(fields)
    return error


class SettingsError(AgentnbError):
    """A setting is missing, empty or can't be read."""

    layer = "settings"


class ToolDefinitionError(AgentnbError):
    """A function can't become a tool as it is written."""

    layer = "tools"


class ToolArgumentError(AgentnbError):
    """The model's arguments don't fit the tool's parameters."""

    layer = "tools"


class ToolError(AgentnbError):
    """Raise it in a tool to choose the exact text that the model reads."""

    layer = "tools"

    def __str__(self) -> str:
        return self.message


class ModelError(AgentnbError):
    """A model call that brought no usable reply.

    Attributes:
        kind: "auth", "quota", "rate_limit", "context_too_long", "connection", "server", "bad_request",
            "not_found", "refused", "reply" (unreadable answer) or "callable" (a user's model raised).
        status: The HTTP status, or None.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds that the server asked to wait, or None.
        partial: Text received before the failure, as the model wrote it: no key is hidden in it.
        request: The request that failed, as far as it is known.
        notes: The retries that were made, in words.
    """

    layer = "models"

    def __init__(
        self,
        message: str,
        *,
        kind: str = "server",
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        partial: str = "",
        remedy: str = "",
        request: Any = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.kind = kind
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.partial = partial
        self.request = request
        self.notes: tuple[str, ...] = ()


class RecordingError(AgentnbError):
    """A recording holds no answer to this request, or its file is damaged."""

    layer = "records"


class RunError(AgentnbError):
    """A run ended without an answer; `state` is that run."""

    layer = "runtime"

    def __init__(self, message: str, *, remedy: str = "", state: Any = None) -> None:
        is_paused = getattr(state, "stop", None) == "paused" and state.open_calls
        waits = "Decide with run.approve(id) or run.deny(id, reason). " if is_paused else ""
        super().__init__(message, remedy=remedy or f"{waits}Go on with agent.run(run), or look at run.steps.")
        self.state = state


class UsageError(AgentnbError):
    """A call, option or cell that can't mean anything here."""

    layer = "notebook"


class ApprovalNeeded(Exception):
    """Raised by a middleware's `tool` to leave a call open until a person approves or denies it: the run pauses."""


class AgentInterrupted(KeyboardInterrupt):
    """A person interrupted the run. `state` is the run so far: `agent.run(error.state)` goes on."""

    def __init__(self, message: str = "interrupted", state: Any = None) -> None:
        super().__init__(message)
        self.state = state

    def _render_traceback_(self) -> list[str]:
        return [f"AgentInterrupted: {self}"]


class Interrupted(asyncio.CancelledError):
    """A tool or a function that stands in for a model met a KeyboardInterrupt: a person means the whole run."""


def keep_state(error: asyncio.CancelledError, state: Any) -> None:
    """Give a CancelledError the run so far as its `state`, and one line to show in a notebook.

    It stays the very same error, since `asyncio.timeout` takes nothing but a plain CancelledError for its own.
    """
    lines = ["CancelledError: the run was cancelled; its State is the error's state"]
    error.state = state  # type: ignore[attr-defined]
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
