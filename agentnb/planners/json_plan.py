"""The planner that has the model write its plan as JSON text, for models and servers without tool calls.

Each reply is one plan, `{"reasoning", "tool", "args"}` or `{"reasoning", "answer"}`. The tools stand in the system
prompt, calls and results go back as plain text. Where the server can hold a reply to a JSON Schema it gets one. A reply
without a plan goes back to the model with what is wrong; after a few of these in a row its text is the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentnb.core.limits import StopReason
from agentnb.core.messages import Message, ToolCall, user
from agentnb.core.model import ModelReply
from agentnb.core.planner import Ask, Decision
from agentnb.core.state import State
from agentnb.core.tool import Tool, ToolSpec
from agentnb.errors import SettingsError
from agentnb.instructions import Example, Instructions
from agentnb.planners.plan_text import Found, read_plan
from agentnb.planners.preamble import LANGUAGE, NO_REPEATS, system_text
from agentnb.planners.tool_calling import read_reply

if TYPE_CHECKING:
    from agentnb.planners.typed_answer import TypedAnswer

FORM_ANSWER = '{"reasoning": "<why>", "answer": "<the answer, as text>"}'
FORM_TYPED = '{"reasoning": "<why>", "answer": <the answer>}'
FORM_CALL = '{"reasoning": "<why>", "tool": "<name of a tool>", "args": {"<name>": <value>}}'
ONE_CALL = (
    "Call one tool at a time: its result comes in the next message. Never write a result yourself. "
    "As soon as you know the answer, send it."
)
SHORTER = "Your reply was cut off at the length limit, so nothing of it was done. Send a shorter plan."
_CUT = "truncated: the reply was cut at the length limit, nothing of it was done"
_TEXT = {"type": "string"}
_ANSWER = "the.answer"
"""Before the definitions of the answer's schema; no tool has a dot in its name."""


class JSONPlanner:
    """One model call; the plan in its text is carried out.

    Args:
        attempts: Replies in a row that may bring no plan; the last of them is taken as the answer, as it is.
        output: The form of the answer, where the agent has an output type.

    Raises:
        SettingsError: `attempts` is no whole number above 0.
    """

    name = "json"

    def __init__(self, attempts: int = 3, output: TypedAnswer | None = None) -> None:
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise SettingsError(
                f"attempts={attempts!r}, expected a whole number above 0",
                layer="planners",
                remedy="Write JSONPlanner(attempts=3).",
            )
        self.attempts = attempts
        self.output = output
        self._kept: _Kept | None = None

    def typed(self, output: TypedAnswer) -> JSONPlanner:
        """The same planner, whose plans hold answers of this form."""
        return JSONPlanner(self.attempts, output)

    async def plan(self, state: State, tools: Sequence[Tool], ask: Ask) -> Decision:
        """Ask the model and read the plan in its reply."""
        kept = self._prepared(ask.instructions, tuple(tool.spec for tool in tools))
        parameters = ask.instructions.parameters
        reply = await ask(state.request(preamble=kept.preamble, parameters=parameters, schema=kept.schema))
        return self._decide(reply, state, kept.names)

    def _prepared(self, instructions: Instructions, specs: tuple[ToolSpec, ...]) -> _Kept:
        kept = self._kept
        if kept is None or kept.instructions is not instructions or kept.specs != specs:
            kept = self._kept = _Kept(instructions, specs, self.output)
        return kept

    def _decide(self, reply: ModelReply, state: State, names: Sequence[str]) -> Decision:
        if reply.finish == "length":
            cut = Decision(reply, stop=StopReason.TRUNCATED, detail="the reply was cut at the length limit")
            return self._again(replace(cut, notes=(_CUT,)), state, SHORTER, _CUT)
        if reply.refusal is not None or reply.finish in ("content_filter", "refusal"):
            return read_reply(reply, state)
        if reply.calls:
            return _native(reply)
        found = read_plan(reply.text, names)
        reply = _without_thoughts(reply, found)
        if not found.text:
            empty = Decision(reply, stop=StopReason.EMPTY_REPLY, detail="the model replied with nothing")
            return self._again(empty, state, "", "empty reply, asked again")
        if found.plan is None:
            return self._again(
                self._as_answer(reply), state, self._what_is_wrong(found, names), f"no plan: {found.problem}"
            )
        return _carried_out(found.plan, reply, _notes(found))

    def _again(self, last: Decision, state: State, message: str, note: str) -> Decision:
        """Ask again, with this message for the model; or `last`, when that was tried often enough."""
        if state.asks + 1 >= self.attempts:
            return last
        return Decision(last.reply, again=message, notes=(note,))

    def _as_answer(self, reply: ModelReply) -> Decision:
        tries = f"{self.attempts} replies in a row" if self.attempts > 1 else "the reply"
        return Decision(reply, answer=reply.text, notes=(f"no plan in {tries}: the text is taken as the answer",))

    def _what_is_wrong(self, found: Found, names: Sequence[str]) -> str:
        answer = _answer_form(self.output)
        forms = f"{FORM_CALL}\nor\n{answer}" if names else answer
        problem = found.problem.rstrip(".")
        return f"Your reply is no plan: {problem}. Reply with one JSON object and nothing else:\n{forms}"


# ── what a reply means ───────────────────────────────────────────────────────────────────────────────────────────────


def _carried_out(plan: Mapping[str, Any], reply: ModelReply, notes: tuple[str, ...]) -> Decision:
    reasoning = "\n".join(filter(None, (reply.reasoning, plan["reasoning"])))
    if "answer" in plan:
        return Decision(reply, answer=plan["answer"], reasoning=reasoning, notes=notes)
    call = ToolCall("", plan["tool"], json.dumps(plan["args"], ensure_ascii=False))
    return Decision(reply, calls=(call,), plain=True, reasoning=reasoning, notes=notes)


def _native(reply: ModelReply) -> Decision:
    """Calls that came as tool calls all the same: written as plans, since no request of this planner has tools."""
    plans = [f'{{"tool": {_json(call.name)}, "args": {call.wire_arguments}}}' for call in reply.calls]
    spoken = replace(reply, text="\n".join(filter(None, (reply.text, *plans))), raw=None)
    return Decision(spoken, calls=reply.calls, plain=True, notes=("the plan came as a tool call",))


def _without_thoughts(reply: ModelReply, found: Found) -> ModelReply:
    if not found.thoughts:
        return reply
    return replace(reply, text=found.text, reasoning="\n".join(filter(None, (reply.reasoning, found.thoughts))))


def _notes(found: Found) -> tuple[str, ...]:
    notes = []
    if found.repaired:
        notes.append("repaired: the JSON was not valid, its punctuation was mended")
    if found.candidates > 1:
        notes.append(f"{found.candidates} different plans in one reply, the last was used")
    if found.comment:
        notes.append(f"comment: {found.comment}")
    return tuple(notes)


# ── what stands before every conversation ────────────────────────────────────────────────────────────────────────────


class _Kept:
    """Preamble and schema for one agent, made once: the same objects in each step keep the caches warm."""

    def __init__(self, instructions: Instructions, specs: tuple[ToolSpec, ...], output: TypedAnswer | None) -> None:
        self.instructions = instructions
        self.specs = specs
        self.names = [spec.name for spec in specs]
        system = Message("system", system_text(instructions.system_prompt, *_rules(specs, _answer_form(output))))
        self.preamble = (system, *_examples(instructions.examples))
        self.schema = plan_schema(specs, None if output is None else output.schema)


def _answer_form(output: TypedAnswer | None) -> str:
    return FORM_ANSWER if output is None else f"{FORM_TYPED}\nwhere <the answer> is {output.form}"


def _rules(specs: Sequence[ToolSpec], answer: str) -> tuple[str, ...]:
    if not specs:
        return ("Reply with one JSON object and nothing else:", answer, LANGUAGE)
    tools = "\n".join(f"- {spec.name}: {spec.description}\n  args: {_json(spec.parameters)}" for spec in specs)
    forms = ("Reply with one JSON object and nothing else, to call a tool:", FORM_CALL, "or to answer:", answer)
    return ("The tools:", tools, *forms, ONE_CALL, NO_REPEATS, LANGUAGE)


def _examples(examples: Sequence[Example]) -> tuple[Message, ...]:
    """Each example as the turns it would have been, with plans."""
    messages: list[Message] = []
    for example in examples:
        messages.append(user(example.goal))
        for step in example.steps:
            plan = {"reasoning": f"I need {step.tool}.", "tool": step.tool, "args": dict(step.arguments)}
            messages.append(Message("assistant", _json(plan)))
            asked = f"{step.tool}({_json(dict(step.arguments))})"
            messages.append(Message("tool", step.result, name=asked, plain=True))
        messages.append(Message("assistant", _json({"reasoning": "I know the answer.", "answer": example.answer})))
    return tuple(messages)


def plan_schema(specs: Sequence[ToolSpec], answer: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """JSON Schema of a plan: a call of one of these tools with its own arguments, or an answer (text, or this form)."""
    shared: dict[str, Any] = {}
    forms = [_form({"tool": {"const": spec.name}, "args": _own_parameters(spec, shared)}) for spec in specs]
    typed = _TEXT if answer is None else _own_parameters(ToolSpec(_ANSWER, parameters=answer), shared)
    schema: dict[str, Any] = {"anyOf": [*forms, _form({"answer": typed})]}
    return {**schema, "$defs": shared} if shared else schema


def _form(fields: Mapping[str, Any]) -> dict[str, Any]:
    properties = {"reasoning": _TEXT, **fields}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _own_parameters(spec: ToolSpec, shared: dict[str, Any]) -> dict[str, Any]:
    """The tool's parameters; the definitions they refer to move to `shared`, under names of their own."""
    parameters = dict(spec.parameters)
    own = parameters.pop("$defs", {})
    renamed = {f"#/$defs/{name}": f"#/$defs/{spec.name}.{name}" for name in own}
    shared.update({f"{spec.name}.{name}": _pointed(each, renamed) for name, each in own.items()})
    pointed: dict[str, Any] = _pointed(parameters, renamed)
    return pointed


def _pointed(value: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {
            name: renamed.get(each, each) if name == "$ref" and isinstance(each, str) else _pointed(each, renamed)
            for name, each in value.items()
        }
    return [_pointed(each, renamed) for each in value] if isinstance(value, list) else value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)
