"""Turn an error answer into a ModelError: what kind it is, whether again may help, what the person can do.

What the answer says is read in `faults.py`. No text of an error leaves here unmasked, and none is
longer than 300 characters.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from agentnb.errors import ModelError
from agentnb.models.faults import EXCERPT, Fault, fault_from, looks_like_html, read_fault
from agentnb.models.rate_limits import until_reset
from agentnb.text import clean, mask, plain, shorten

_RETRIED = frozenset({408, 409, 425, 429})
_QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "enforced_spend_limit_reached",
        "billing_hard_limit_reached",
        "billing_error",
        "exceeded_current_quota_error",
        "1113",
    }
)
"""The last is GLM's."""
_QUOTA = re.compile(r"credit balance is too low|insufficient balance|余额不足", re.I)
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"})
_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size)|maximum context|prompt is too long|input is too long|too many (?:input )?tokens"
    r"|reduce the length of the (?:messages|prompt)"
    r"|exceeds? the (?:maximum|available) (?:context|number of tokens|input)",
    re.I,
)
_OVERLOADED = re.compile(r"overload|unavailable|worker is full|try again later|at capacity", re.I)
_NAMED_STATUS = {
    "overloaded_error": 529,
    "unavailable_error": 503,
    "api_error": 500,
    "server_error": 500,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "timeout_error": 504,
    "insufficient_quota": 429,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "billing_error": 402,
    "request_too_large": 413,
    "conflict_error": 409,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "content_filter": 400,
    "invalid_request_error": 400,
}
_LONGEST_RESET_SECONDS = 60.0
"""A limit may fill up long before it is full: a longer time until then is no wish to wait so long."""


_NO_SUCH_FIELD = re.compile(r"unsupported|not support|not permitted|unknown|unrecogni[sz]ed|unexpected|extra", re.I)


class WireError(ModelError):
    """A ModelError that a server's answer tells of, with the parts of that answer that decide what to do next.

    Attributes:
        code: The provider's word for the error, "" when it gave none.
        param: The request field that it complains of, "".
        failed_generation: What the model wrote and the provider could not read as a tool call, "".
    """

    code: str = ""
    param: str = ""
    failed_generation: str = ""

    def names(self, *words: str) -> bool:
        """Whether the server refused the request and its complaint names one of these fields, as a word of its own."""
        if self.kind != "bad_request":
            return False
        said = f"{self.param} {self.message}"
        return any(re.search(rf"(?<!\w){re.escape(word)}s?(?!\w)", said) for word in words)

    def does_not_know(self, *words: str) -> bool:
        """Whether the server says that it has no such field, not that its value is wrong."""
        unknown = self.code == "unsupported_parameter" or _NO_SUCH_FIELD.search(self.message) is not None
        return unknown and self.names(*words)


def status_error(target: str, status: int, headers: Mapping[str, str], body: bytes, remedy: str = "") -> WireError:
    """The error for an answer with an error status.

    Args:
        target: Method and address as they may be shown: no key, no query.
        status: The HTTP status.
        headers: Of the answer; names in small letters, or a mapping that does not mind.
        body: As received, perhaps only its beginning.
        remedy: Goes before the general advice.
    """
    fault = read_fault(body, headers.get("content-type", ""))
    return _error(target, status, fault, headers, remedy)


def body_error(target: str, error: Any) -> WireError:
    """The error for an error object inside an answer with status 200; `error` is the object that holds it.

    It counts like the status that it names. One that names none is tried again only when it speaks of overload.
    """
    fault = fault_from(error)
    status = fault.status or _NAMED_STATUS.get(fault.code) or _NAMED_STATUS.get(fault.type)
    if status is None and _OVERLOADED.search(f"{fault.code} {fault.type} {fault.message}"):
        status = 503
    return _error(target, status, fault, {}, "")


def ended_early(target: str) -> ModelError:
    """The error for a stream that stopped before its end."""
    return ModelError(
        f"{target}: the stream ended before it was complete",
        kind="connection",
        status=200,
        retryable=True,
        remedy="Nothing of it was run. Go on with agent.run(run).",
    )


def no_json(target: str, text: str, content_type: str, advice: str) -> ModelError:
    """The error for a body that is no JSON: a web page, other text, or damaged, when it may come whole next time."""
    if looks_like_html(text, content_type):
        remedy = "Check the base URL: it leads to a web page."
        return unreadable(target, "200 with an HTML page, not JSON", "", remedy=remedy)
    damaged = "json" in content_type
    return unreadable(target, "200 with a body that is not JSON", text, retryable=damaged, remedy=advice)


def unreadable(target: str, what: str, excerpt: str, *, retryable: bool = False, remedy: str = "") -> ModelError:
    """The error for an answer that is no reply: not JSON, no choices, HTML."""
    shown = shorten(_safe(excerpt), EXCERPT)
    text = f"{target} answered {what}" + (f": {shown}" if shown else "")
    return ModelError(text, kind="reply", status=200, retryable=retryable, remedy=remedy)


def _safe(text: str) -> str:
    """Without control characters and then without keys: those could cut a key in pieces too short to be known."""
    return mask(plain(clean(text)))


def _error(target: str, status: int | None, fault: Fault, headers: Mapping[str, str], remedy: str) -> WireError:
    kind = _kind(status or 500, fault)
    said = shorten(_safe(fault.message), EXCERPT)
    word = shorten(_safe(fault.code))
    code = f" ({word})" if word and word != str(status) else ""
    after = _retry_after(headers, fault)
    error = WireError(
        f"{target} answered {status or 'with an error'}{code}" + (f": {said}" if said else ""),
        kind=kind,
        status=status,
        retryable=_retryable(status or 0, kind, headers),
        retry_after=after,
        remedy=remedy or _REMEDIES.get(kind, ""),
    )
    error.code, error.param = word, _safe(fault.param)
    error.failed_generation = _safe(fault.failed_generation)
    return error


def _kind(status: int, fault: Fault) -> str:
    words = {fault.code.lower(), fault.type.lower()}
    if words & _QUOTA_CODES or status == 402 or _QUOTA.search(fault.message):
        return "quota"
    if status == 413 or words & _TOO_LONG_CODES or (status in (400, 422) and _TOO_LONG.search(fault.message)):
        return "context_too_long"
    if words & _FILTER_CODES:
        return "refused"
    if "tool_use_failed" in words:
        return "reply"
    if status in (401, 403) or "api_key_invalid" in words:
        return "auth"
    if status == 429:
        return "rate_limit"
    if status >= 500 or status in (408, 409, 425):
        return "server"
    if status < 300:
        return "reply"
    return "not_found" if status in (404, 405) or status < 400 else "bad_request"


def _retryable(status: int, kind: str, headers: Mapping[str, str]) -> bool:
    if kind in ("auth", "quota", "context_too_long", "refused"):
        return False
    wish = headers.get("x-should-retry")
    if wish in ("true", "false"):
        return wish == "true"
    return status in _RETRIED or status >= 500


_REMEDIES = {
    "auth": "The key is missing, wrong or may not use this model: check it, and the base URL that it is sent to.",
    "not_found": "Check the path of the base URL and the model's name.",
    "quota": "The account has no credit left or reached its spending limit; trying again will not help.",
    "rate_limit": "Wait a little, or ask less at once.",
    "context_too_long": "Shorten the conversation, or take a model with a longer context.",
    "refused": "The provider's content filter stopped the request; say it in other words.",
    "reply": "The model wrote a tool call that the provider could not read; run it again, or describe the tool better.",
    "server": "The fault is on the server's side; try again later.",
    "bad_request": "Read the server's message: it names what it does not take.",
}


# ── when to try again ────────────────────────────────────────────────────────────────────────────────────────────────


def _retry_after(headers: Mapping[str, str], fault: Fault) -> float | None:
    """Seconds to wait, as the server asks; a date is measured against the server's own clock and rounded up.

    A wait of 0, or until a time that is over, is no wish: the server has just refused.
    """
    milliseconds, wish = _positive(headers.get("retry-after-ms")), headers.get("retry-after")
    if milliseconds is not None:
        return milliseconds / 1000
    seconds = _positive(wish) or _until(wish, headers.get("date"))
    return seconds or fault.retry_after or _until_reset(headers) or None


def _until_reset(headers: Mapping[str, str]) -> float | None:
    """Where the server gives no wish, but tells that a limit is used up and when it is not any more."""
    seconds = until_reset(headers, time.time())
    return None if seconds is None or seconds > _LONGEST_RESET_SECONDS else seconds


def _positive(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _until(date: str | None, now: str | None) -> float | None:
    try:
        then = parsedate_to_datetime(date or "").timestamp()
        start = parsedate_to_datetime(now).timestamp() if now else time.time()
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return float(math.ceil(then - start)) if then > start else None
