"""The model: which it is, whether it answers, and the questions to ask when it does not call tools, in their order.

    model, base URL, key        from the settings alone
    reachable                   one question
    tools                       does the model support tools? it is told to call `add`, and what comes back is compared
    tools sent                  are the tools in the request, and did the server count them?
    prompt                      does the system prompt lead there? the same without being told to
    temperature                 the same with the temperature that the user set
    streaming … usage           how it replies (reply_checks.py)

The calls go to the model itself, past every open recording: what was recorded says nothing about how things stand.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

from agentnb import settings
from agentnb.core.messages import Message, ToolCall
from agentnb.core.model import Model, ModelReply, ModelRequest, Prompt
from agentnb.doctor.check import OK, PROBLEM, SKIPPED, Check
from agentnb.doctor.questions import ADD, LEFT_ALONE, PLAIN, SUM, WITH_TOOL, WITHOUT, asked, failed
from agentnb.doctor.reply_checks import endless, reply_checks
from agentnb.errors import AgentnbError
from agentnb.models.catalog import as_model
from agentnb.models.profiles import PROFILES
from agentnb.models.recovered import NOTE
from agentnb.models.retry import Retry
from agentnb.models.transport import Transport
from agentnb.settings import Secret
from agentnb.text import shorten

_LONGEST_SECONDS = 120.0
_KEY_HEADERS = tuple(dict.fromkeys(profile.key_header for profile in PROFILES.values()))


async def model_checks(thing: Any = None) -> AsyncGenerator[Check, None]:
    """Each check as it is done; after a failure that decides them, the others are skipped with the reason.

    Args:
        thing: A name, a Model or a callable; None is the one that the environment chooses.
    """
    try:
        model = _impatient(as_model(thing)) if thing is None or isinstance(thing, str) else as_model(thing)
    except AgentnbError as error:
        yield Check("model", PROBLEM, error.message, error.remedy)
        yield Check("reachable", SKIPPED, "there is no model to ask; nothing that needs one was checked")
        return
    yield Check("model", OK, f"{model.name}{'' if thing else ', chosen by the environment'}")
    for check in (base_url(model), key(model)):
        yield check
    plain = await asked(model, PLAIN)
    yield _reachable(plain)
    if not isinstance(plain, ModelReply):
        if (without_end := await endless(model, plain)) is not None:
            yield without_end
        yield Check("tools", SKIPPED, "the model can't be asked; tools and the way it replies were not checked")
        return
    async for check in tool_checks(model, plain):
        yield check
    async for check in reply_checks(model, plain):
        yield check


def _impatient(model: Model) -> Model:
    """A model of our own making that tells of a failure at once, and waits two minutes at most."""
    transport = getattr(model, "transport", None)
    if isinstance(transport, Transport):
        times = transport.timeouts
        read, gap = min(times.read, _LONGEST_SECONDS), min(times.gap, _LONGEST_SECONDS)
        patience = replace(times, read=read, gap=gap, total=min(times.total, _LONGEST_SECONDS))
        model.transport = replace(transport, retry=Retry(attempts=1), timeouts=patience)  # type: ignore[attr-defined]
    return model


# ── from the settings ────────────────────────────────────────────────────────────────────────────────────────────────


def base_url(model: Model) -> Check:
    """Where it is asked, and whether that address has the usual form."""
    endpoint = getattr(getattr(model, "transport", None), "endpoint", None)
    if endpoint is None:
        return Check("base URL", SKIPPED, "this model is asked in this process or by its own engine")
    hint = f"If calls fail with 404, add the version path, such as {endpoint.usual_path}." if endpoint.is_bare else ""
    return Check("base URL", OK, endpoint.base, hint)


def key(model: Model) -> Check:
    """Whether a key goes along, and which variable it came from."""
    endpoint = getattr(getattr(model, "transport", None), "endpoint", None)
    if endpoint is None:
        return Check("key", SKIPPED, "this model needs none that we know of")
    found = next((value for name in _KEY_HEADERS if isinstance(value := endpoint.headers.get(name), Secret)), None)
    if found is None:
        return Check("key", SKIPPED, "none is set, and a server on this machine mostly needs none")
    return Check("key", OK, f"present, from {found.name or 'the code'}")


# ── does it answer ───────────────────────────────────────────────────────────────────────────────────────────────────


def _reachable(plain: ModelReply | AgentnbError) -> Check:
    if not isinstance(plain, ModelReply):
        return failed("reachable", plain)
    if not (plain.text.strip() or plain.calls):
        return Check("reachable", PROBLEM, "it replied with nothing", "Try again, or take another model.")
    return Check("reachable", OK, f"it answered in {plain.seconds:.1f} s{_answered_as(plain)}")


def _answered_as(reply: ModelReply) -> str:
    return f", as {shorten(reply.answered_as, 60)}" if reply.answered_as else ""


# ── does it call tools ───────────────────────────────────────────────────────────────────────────────────────────────


async def tool_checks(model: Model, plain: ModelReply) -> AsyncIterator[Check]:
    """The four questions in their order."""
    first = await asked(model, WITH_TOOL)
    if not isinstance(first, ModelReply):
        yield failed("tools", first, WITHOUT)
        for name in ("tools sent", "prompt", "temperature"):
            yield Check(name, SKIPPED, "the request with a tool failed")
        return
    yield await tools(model, first)
    yield tools_sent(first, plain)
    if not first.calls:
        for name in ("prompt", "temperature"):
            yield Check(name, SKIPPED, "no tool was called even when it was told to")
        return
    yield await prompt(model)
    yield await temperature(model)


async def tools(model: Model, first: ModelReply) -> Check:
    """Whether it called `add` with the right numbers, and used what came back."""
    if not first.calls:
        return Check("tools", PROBLEM, f"told to call add, it answered {first.text[:200]!r}", WITHOUT)
    if (wrong := await _wrong(first.calls)) is not None:
        return Check("tools", PROBLEM, f"it called {wrong}, expected add with 1234 and 5678", "Take a stronger model.")
    second = await asked(model, await _with_results(first))
    if not isinstance(second, ModelReply):
        return failed("tools", second, "The call worked; sending its result did not.")
    if second.calls:
        text = f"add was called and its result {SUM} sent, but the model asks for a call again instead of answering"
        return Check("tools", PROBLEM, text, "Take a stronger model, or show it worked examples: Agent(examples=...).")
    if str(SUM) not in re.sub(r"[\s.,_'’]", "", second.text):
        text = f"add was called, but its result {SUM} is not in the answer {second.text[:200]!r}"
        return Check("tools", PROBLEM, text, "Take a stronger model.")
    odd = " (the server left the call in the text; it was read from there)" if NOTE in first.notes else ""
    return Check("tools", OK, f"add was called, and its result {SUM} came back in the answer{odd}")


async def _wrong(calls: tuple[ToolCall, ...]) -> str | None:
    """The call that is not the right one, in words; None when one is."""
    for call in calls:
        if call.name == ADD.spec.name and (await ADD.answer(call)).value == SUM:
            return None
    return f"{shorten(calls[0].name, 40)}({shorten(calls[0].arguments, 100)})"


async def _with_results(first: ModelReply) -> ModelRequest:
    said = first.message(first.calls)
    results = [await ADD.answer(call) for call in first.calls]
    told = [Message("tool", each.content, call_id=each.call_id, name=each.name) for each in results]
    messages = [*PLAIN.prompt.items, said, *told]
    return replace(WITH_TOOL, prompt=Prompt(messages), end=len(messages))


def tools_sent(first: ModelReply, plain: ModelReply) -> Check:
    """Whether the tool stands in the request as it went out, and whether the server counted it."""
    try:
        sent = first.request.json().get("tools")
    except Exception:  # a model of the user's own may keep no request, or one of another kind
        return Check("tools sent", SKIPPED, "this model does not tell what it sent")
    if not sent:
        return Check("tools sent", PROBLEM, "the request went out without tools", "Look at how this model is made.")
    before, after = (reply.usage.input if reply.usage else None for reply in (plain, first))
    if before is None or after is None:
        return Check("tools sent", OK, "the request holds the tool; the server does not tell its tokens")
    if after > before:
        return Check("tools sent", OK, f"the request holds the tool; the server counted {after - before} tokens for it")
    if first.calls:
        return Check("tools sent", OK, "the request holds the tool")
    text = "the request holds the tool, but the server counted no tokens for it: it was dropped on the way"
    return Check("tools sent", PROBLEM, text, "Look at the server's chat template, or at what stands between.")


async def prompt(model: Model) -> Check:
    """Whether it calls the tool without being told to, as an agent without a prompt of its own would need."""
    reply = await asked(model, LEFT_ALONE)
    if not isinstance(reply, ModelReply):
        return failed("prompt", reply)
    if reply.calls:
        return Check("prompt", OK, "it calls the tool also when the system prompt does not tell it to")
    text = "it calls the tool when the system prompt tells it to, not by itself"
    return Check("prompt", OK, text, "Say in your system prompt when to use which tool.")


async def temperature(model: Model) -> Check:
    """Whether the temperature that the user set is accepted, and leaves the tool call as it was."""
    try:
        wanted = settings.number("TEMPERATURE")
    except AgentnbError as error:
        return Check("temperature", PROBLEM, error.message, error.remedy)
    if wanted is None:
        return Check("temperature", SKIPPED, "TEMPERATURE is not set, so none is sent")
    reply = await asked(model, replace(WITH_TOOL, parameters={"temperature": wanted}))
    if not isinstance(reply, ModelReply):
        return failed("temperature", reply, "Remove TEMPERATURE when this model takes none.")
    if not reply.calls:
        return Check("temperature", PROBLEM, f"with {wanted:g} the tool is not called", "Lower TEMPERATURE.")
    return Check("temperature", OK, f"{wanted:g} is accepted, and the tool is called with it")
