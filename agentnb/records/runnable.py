"""Whether a run that came out of a file can be gone on with: all of its conversation is there, and so are its tools.

An agent need not have the tools that a run used: it may go on without them, on purpose. Where the run came out of a
file, though, they may just not have been defined yet, so the log tells once which are missing.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from agentnb.core.messages import Message
from agentnb.core.state import State
from agentnb.core.tool import Tool
from agentnb.errors import UsageError

LEFT_OUT = "shortened when the notebook was saved"
"""The note of what a notebook's output had no room for; also the origin of a message that it cut."""
PARTLY = "its run was shortened when the notebook was saved"
"""The origin of the first message of a run of which something is cut, so that all other runs are not looked through."""
_HIDDEN = "[hidden]"
"""What `text.mask` puts in the place of a secret."""
_LOADED = 256
_loaded: OrderedDict[int, tuple[Message, set[tuple[str, ...]]]] = OrderedDict()
"""The runs that came out of files, by the id of their first message, and which missing tools were told of each."""
_log = logging.getLogger("agentnb")


def came_from_file(state: State) -> State:
    """This State, of which is known from now on that its run was loaded."""
    for message in _first(state).added[:1]:
        _loaded[id(message)] = message, set()
    if len(_loaded) > _LOADED:
        _loaded.popitem(last=False)
    return state


def check_runnable(state: State, tools: Iterable[Tool]) -> None:
    """Refuse to go on where a model would read a cut conversation, or where an open call has lost its tool or a secret.

    Tools that a loaded run has used before and that the agent does not have are named in the log, once.

    Args:
        state: Where a run is to start.
        tools: Those of the agent.

    Raises:
        UsageError: It can't be gone on with; the error says why.
    """
    if (cut := _first_cut(state)) is not None:
        raise UsageError(
            f"this run can be read but not gone on with: {cut} was {LEFT_OUT}",
            layer="records",
            remedy="Run its cell again, or keep whole runs with save(run, path).",
        )
    if (call_id := next(_without_secret(state), None)) is not None:
        raise UsageError(
            f"the open call {call_id!r} can't run: its arguments hold a secret, which no file keeps",
            layer="records",
            remedy=f"Give them: run.approve({call_id!r}, {{...}}); or answer it: run.with_result({call_id!r}, ...).",
        )
    if missing := missing_tools(state, tools):
        names = ", ".join(missing)
        raise UsageError(
            f"open calls of this run need tools that the agent does not have: {names}",
            layer="agent",
            remedy="Run the cells that define them, then give them to the agent: Agent(tools=[...]).",
        )
    _tell_unknown(state, tools)


def missing_tools(state: State, tools: Iterable[Tool]) -> tuple[str, ...]:
    """The tools that open calls need and that were offered when the calls were made, but are not at hand now."""
    if not state.open_calls:
        return ()
    known = {tool.spec.name for tool in tools}
    offered = _offered(state)
    wanted = (call.name for call in state.open_calls if call.name in offered and not call.problem)
    return tuple(dict.fromkeys(name for name in wanted if name not in known))


def _without_secret(state: State) -> Iterator[str]:
    """The ids of the open calls that would run with a text that stands for a secret."""
    approved = dict(state.approvals)
    for call in state.open_calls:
        if _HIDDEN in (approved.get(call.id) or call.arguments):
            yield call.id


def _offered(state: State) -> set[str]:
    """The names of the tools that the model was shown for this round, or that had answered before."""
    plan: State | None = state
    while plan is not None and plan.kind != "plan":
        plan = plan.parent
    reply = plan.decision.reply if plan is not None and plan.decision else None
    sent = reply.request if reply else None
    specs = getattr(getattr(sent, "request", sent), "specs", ())
    return {spec.name for spec in specs} | {result.name for result in state.tool_results if result.version}


def _tell_unknown(state: State, tools: Iterable[Tool]) -> None:
    """Say which tools a loaded run has used that are not at hand, once for each set of them."""
    told = next((_loaded[id(message)][1] for message in _first(state).added[:1] if id(message) in _loaded), None)
    if told is None:
        return
    known = {tool.spec.name for tool in tools}
    used = (each.results[-1] for each in state.path() if each.kind == "act" and each.results)
    missing = tuple(dict.fromkeys(each.name for each in used if each.version and each.name not in known))
    if missing and missing not in told:
        told.add(missing)
        remedy = "It goes on without; to give them to the agent, run the cells that define them: Agent(tools=[...])."
        _log.warning("records: the loaded run used tools that the agent lacks: %s. %s", ", ".join(missing), remedy)


def _first(state: State) -> State:
    while state.parent is not None:
        state = state.parent
    return state


def _first_cut(state: State) -> str | None:
    """The oldest part of the conversation that is not whole, in words."""
    first = _first(state)
    if not any(message.origin in (PARTLY, LEFT_OUT) for message in first.added):
        return None
    for each in state.path():
        if _is_cut(each):
            return f"step {each.counters.steps}" if each.kind in ("plan", "act") else "what was said"
    return None


def _is_cut(state: State) -> bool:
    if state.kind == "act":
        return LEFT_OUT in state.results[-1].notes
    if state.decision is not None:
        return LEFT_OUT in state.decision.notes
    return any(message.origin == LEFT_OUT for message in state.added)
