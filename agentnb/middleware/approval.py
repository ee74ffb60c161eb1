"""Ask before a tool runs: for tools made with `approve=True`, and for the calls that you name here.

    call ──asked for?──▶ policy ──▶ "allow" · "always" · other arguments ──▶ the tool
              │             ├─────▶ any other text: denied, the model reads it as the reason
              no            └─────▶ None: the run pauses, run.approve(id) or run.deny(id) decides, now or from a file
              └──▶ the tool

Nothing here ever waits at a keyboard: without a policy a run that needs a decision ends with stop "paused".
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.middleware import Middleware, NextTool
from agentnb.core.state import State
from agentnb.errors import AgentnbError, ApprovalNeeded, SettingsError, UsageError
from agentnb.text import clean, mask, shorten
from agentnb.threads import is_async, run_in_thread

Answer = str | bool | Mapping[str, Any] | None
Policy = Mapping[str, Answer] | Callable[[ToolCall, State], Any] | None


class Approval(Middleware):
    """Lets a policy, or a person, decide about calls.

    Args:
        ask: Which calls are asked for beside those of tools with `approve=True`: "delete_*", or with arguments
            "transfer(amount=1000*, to=*.example)". The globs see the arguments as the model wrote them, not what the
            tool makes of them; an argument that was left out is "". What must never run unasked is named without them.
        policy: What decides: a dict from such globs to answers, where the first that matches counts, for every call;
            or a function, sync or async, of (call, state) that returns an answer. An answer is "allow" (or True),
            "always" (allow, and the function is not asked again for this tool, as far as the glob of `ask` goes that
            named the call), a dict (allow, with these arguments), "deny" (or False), any other text (deny, for this
            reason), or None (pause and let a person decide). Any other answer of a function is a UsageError, which
            travels up: the call does not run.

    Raises:
        SettingsError: A glob can't be read, the policy is neither, or a rule has no such answer.
    """

    def __init__(self, ask: Sequence[str] = (), policy: Policy = None) -> None:
        if not (policy is None or isinstance(policy, Mapping) or callable(policy)):
            what, remedy = f"policy={policy!r}, expected a dict or a function", 'Write policy={"delete_*": "deny"}.'
            raise SettingsError(what, layer="middleware", remedy=remedy)
        if isinstance(ask, str):
            raise SettingsError(f"ask={ask!r}, expected a list", layer="middleware", remedy=f"Write ask=[{ask!r}].")
        self.ask = tuple(map(CallGlob, ask))
        self.policy = policy
        rules = policy.items() if isinstance(policy, Mapping) else ()
        self._rules = [(CallGlob(glob), _known(answer, SettingsError)) for glob, answer in rules]
        self._always: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        asks = ", ".join(glob.text for glob in self.ask) or "only for tools with approve=True"
        always = f" · always {', '.join(sorted(self._always))}" if self._always else ""
        return f"<Approval asks {asks}{always}>"

    @property
    def always(self) -> frozenset[str]:
        """What is no longer asked for: tools, or calls such as "delete(path=/tmp/*)"."""
        return self._always

    def allow_always(self, tool: str) -> None:
        """From now on, in every run with this Approval, let the calls of this tool pass where no rule decides."""
        self._always |= {tool}

    def revoke(self, tool: str) -> None:
        """Ask for the calls of this tool again."""
        self._always = frozenset(each for each in self._always if each.partition("(")[0] != tool)

    async def tool(self, call: ToolCall, state: State, next: NextTool) -> ToolResult:
        """Run the call if it needs no decision, or has a good one."""
        try:
            if not _decided(call, state) and any(glob.fits(call) for glob in self.ask):
                raise ApprovalNeeded
            return await next(call, state)
        except ApprovalNeeded:
            answer = await self._answer(call, state)
            if answer is None:
                raise
        return await self._carried_out(answer, call, state, next)

    async def _answer(self, call: ToolCall, state: State) -> Answer:
        for glob, answer in self._rules:
            if glob.fits(call):
                return "allow" if answer == "always" else answer
        named = self._named(call)
        if not self._always.isdisjoint((call.name, named)):
            return "allow"
        answer = await self._asked(call, state) if callable(self.policy) else None
        if answer == "always":
            self.allow_always(named)
        return answer

    def _named(self, call: ToolCall) -> str:
        """The calls that "always" covers: of this tool, as far as the first glob of `ask` goes that fits."""
        glob = next((glob for glob in self.ask if glob.fits(call)), None)
        return call.name + (glob.condition if glob else "")

    async def _asked(self, call: ToolCall, state: State) -> Answer:
        assert callable(self.policy)
        found = self.policy(call, state) if is_async(self.policy) else await run_in_thread(self.policy, call, state)
        while inspect.isawaitable(found):  # a lambda around an async function hands out its coroutine
            found = await found
        return _known(found, UsageError)

    async def _carried_out(self, answer: Answer, call: ToolCall, state: State, next: NextTool) -> ToolResult:
        if isinstance(answer, Mapping):
            text = clean(json.dumps(dict(answer), ensure_ascii=False))
            result = await next(replace(call, arguments=text), state.approve(call.id, answer))
            return result.ran_with(text)
        if answer in ("allow", "always", True):
            return await next(call, state.approve(call.id))
        reason = f": {clean(answer)}" if isinstance(answer, str) and answer not in ("deny", "") else "."
        return ToolResult(call.id, call.name, f"Denied by the policy{reason}", "denied")


class CallGlob:
    """ "name" or "name(argument=glob, ...)": globs over the name of a tool and its arguments.

    >>> CallGlob("transfer(amount=1000*)").fits(ToolCall("c1", "transfer", '{"amount": 10000}'))
    True
    """

    def __init__(self, text: str) -> None:
        name, bracket, rest = text.strip().partition("(")
        pairs = [part.partition("=") for part in rest.removesuffix(")").split(",")] if bracket else []
        if not name or (bracket and not (rest.endswith(")") and all(key.strip() and sign for key, sign, _ in pairs))):
            remedy = 'Write "delete_*" or "transfer(amount=1000*)".'
            raise SettingsError(f"{text!r} names no calls", layer="middleware", remedy=remedy)
        self.text = text
        self.name = name.strip()
        self.condition = bracket + rest
        """What comes after the name: "(path=/tmp/*)", or "" where the arguments don't matter."""
        self.arguments = {key.strip(): glob.strip() for key, _, glob in pairs}

    def fits(self, call: ToolCall) -> bool:
        """Whether it names this call."""
        if not fnmatchcase(call.name, self.name):
            return False
        given = json.loads(call.wire_arguments) if self.arguments else {}
        return all(fnmatchcase(_text(given.get(key, "")), glob) for key, glob in self.arguments.items())


def _known(answer: Any, error: type[AgentnbError]) -> Answer:
    """The answer, if it is one; what is not may never let a call pass."""
    if answer is None or isinstance(answer, bool | str) or (isinstance(answer, Mapping) and _is_json(answer)):
        return answer
    remedy = 'Answer "allow", "always", "deny" or a reason, a dict of arguments, or None to let a person decide.'
    raise error(f"the policy answered {mask(shorten(repr(answer)))}", layer="middleware", remedy=remedy)


def _is_json(arguments: Mapping[Any, Any]) -> bool:
    try:
        return bool(json.dumps(dict(arguments), allow_nan=False))
    except (TypeError, ValueError):
        return False


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _decided(call: ToolCall, state: State) -> bool:
    return any(call.id == name for name, _ in state.approvals)
