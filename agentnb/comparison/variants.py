"""What is compared: named agents that differ in one thing, or in several.

    to_variants(models=["openai:gpt-5-mini", "local"], shared={"tools": [add]})          one agent a model
    to_variants(planners=["tools", "json"], models=[...], shared={})                     every combination
    to_variants(variants={"plain": agent, "brief": {"system_prompt": "Be brief."}}, shared={})

A variant keeps its name in files and tables; its key is a digest of everything that decides what it does, so results of
an agent that was changed since are never taken for its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

from agentnb.agent import Agent
from agentnb.comparison.tasks import safe_name
from agentnb.core.middleware import is_middleware
from agentnb.core.model import Model
from agentnb.errors import SettingsError, UsageError
from agentnb.models import catalog
from agentnb.models.named import NamedModel
from agentnb.models.scripted import CallableModel
from agentnb.text import clean, mask, shorten
from agentnb.tools.versions import read_source

_NAME_LENGTH = 60
_AXES = {
    "models": "model",
    "planners": "planner",
    "system_prompts": "system_prompt",
    "toolsets": "tools",
    "parameter_sets": "parameters",
}
"""What may vary, and the agent's argument for it."""


@dataclass(frozen=True)
class Variant:
    """One of the agents that are compared."""

    name: str
    agent: Agent

    @property
    def file_name(self) -> str:
        """The name as a part of file names."""
        return safe_name(self.name)

    @property
    def provider(self) -> str:
        """Who serves its model: "openai", "local"; the model's whole name where it names no provider."""
        return str(self.model.name or "").partition(":")[0]

    @cached_property
    def model(self) -> Model:
        """The model that answers, as far as it can be told without asking."""
        return answering(self.agent)

    @property
    def address(self) -> str | None:
        """The base URL of its model; None where there is none."""
        return getattr(getattr(getattr(self.model, "transport", None), "endpoint", None), "base", None)

    @cached_property
    def key(self) -> str:
        """16 hex digits of all that decides what this variant does: its name, and what `agent.id` leaves out."""
        model, agent = self.model, self.agent
        wraps = [type(each).__name__ for each in agent.middleware if is_middleware(each)]
        source = source_of(model.function) if isinstance(model, CallableModel) else ""
        whole = (self.name, agent.id, model.name, self.address, repr(agent.limits), wraps, source)
        return hashlib.blake2b(repr(whole).encode("utf-8", "replace"), digest_size=8).hexdigest()


_sources: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def source_of(function: Any) -> str:
    """The source of a function as it was when it was first asked for; "" where there is none.

    A file that is edited while its functions are in use would tell something else the next time.
    """
    try:
        if function not in _sources:
            _sources[function] = read_source(function)
        return _sources[function]
    except TypeError:  # no weak reference to it can be kept
        return read_source(function)


def answering(agent: Agent) -> Model:
    """The model behind the agent's name for it; the name itself where a key or an address is missing."""
    model: Model = agent._model  # type: ignore[attr-defined]
    if isinstance(model, NamedModel):
        with suppress(SettingsError):
            return catalog.as_model(model.name or None)
    return model


def to_variants(
    *, variants: Any = None, agent: Agent | None = None, shared: Mapping[str, Any] | None = None, **axes: Any
) -> tuple[Variant, ...]:
    """The agents to compare, in the order given, each with a name of its own.

    Args:
        variants: Agents or changes (a dict of Agent arguments), in a list or by name.
        agent: What changes apply to.
        shared: Arguments that all variants have.
        axes: models, planners, system_prompts, toolsets, parameter_sets: a list, or a dict by name. Of several, every
            combination is a variant.

    Raises:
        UsageError: There is nothing to compare, or both ways were used.
    """
    base = agent.replace(**shared or {}) if agent is not None else None
    given = {name: _labelled(name, axes[name]) for name in _AXES if axes.get(name) is not None}
    if variants is not None and given:
        raise _wrong(f"variants= and {next(iter(given))}= were both given", "Give one of them.")
    if variants is not None:
        found = [(name, _agent(each, base, shared or {})) for name, each in _named(variants)]
    elif given:
        found = [_combined(chosen, given, base, shared or {}) for chosen in product(*given.values())]
    else:
        raise _wrong("nothing to compare was given", 'Such as models=["openai:gpt-5-mini", "local"], or variants=.')
    names = _unique([mask(shorten(clean(name), _NAME_LENGTH)) for name, _ in found])
    return tuple(Variant(name, made) for name, (_, made) in zip(names, found, strict=True))


# ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_Labelled = list[tuple[str, Any]]


def _labelled(axis: str, values: Any) -> _Labelled:
    """The values of an axis with a label each."""
    if isinstance(values, Mapping):
        return [(str(name), value) for name, value in values.items()]
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise _wrong(
            f"{axis}={shorten(repr(values))} is no list", f"Write {axis}=[...], or a dict with a name for each."
        )
    return [(_label(axis, value, number), value) for number, value in enumerate(values, 1)]


def _label(axis: str, value: Any, number: int) -> str:
    if axis == "system_prompts":
        return shorten(value, 30) or "no prompt"
    if axis == "parameter_sets":
        return ", ".join(f"{name}={each!r}" for name, each in value.items()) or "no parameters"
    if axis == "toolsets":
        return "+".join(_name_of(each) for each in value) or "no tools"
    return value if isinstance(value, str) else _name_of(value) or f"{axis} {number}"


def _name_of(value: Any) -> str:
    spec = getattr(value, "spec", None)
    name = getattr(spec, "name", None) or getattr(value, "name", None) or getattr(value, "__name__", None)
    return str(name or ("default model" if value is None else type(value).__name__))


def _combined(
    chosen: Sequence[tuple[str, Any]], axes: Mapping[str, Any], base: Agent | None, shared: Mapping[str, Any]
) -> tuple[str, Agent]:
    changes = {_AXES[axis]: value for axis, (_, value) in zip(axes, chosen, strict=True)}
    return " · ".join(label for label, _ in chosen), _agent(changes, base, shared)


def _named(variants: Any) -> _Labelled:
    if isinstance(variants, Mapping):
        return [(str(name), each) for name, each in variants.items()]
    if isinstance(variants, str) or not isinstance(variants, Sequence):
        raise _wrong(f"variants={shorten(repr(variants))} is no list and no dict", "Write variants={'a': agent, ...}.")
    return [(_own_name(each, number), each) for number, each in enumerate(variants, 1)]


def _own_name(each: Any, number: int) -> str:
    if isinstance(each, Agent):
        return each.name
    if isinstance(each, Mapping) and each.get("name"):
        return str(each["name"])
    return f"variant {number}"


def _agent(each: Any, base: Agent | None, shared: Mapping[str, Any]) -> Agent:
    if isinstance(each, Agent):
        return each.replace(**shared) if shared else each
    if not isinstance(each, Mapping):
        raise _wrong(f"{shorten(repr(each))} is no variant", "Give an Agent, or a dict of what to change.")
    try:
        return base.replace(**each) if base is not None else Agent(**{**shared, **each})
    except TypeError as error:
        raise _wrong(f"an agent can't be made: {error}", "Use the arguments of Agent.") from None


def _unique(names: Sequence[str]) -> list[str]:
    """The same names; of equal ones the second is "name #2"."""
    made: list[str] = []
    for name in names:
        number, unique = 1, name or "unnamed"
        while unique in made:
            number += 1
            unique = f"{name} #{number}"
        made.append(unique)
    return made


def _wrong(what: str, remedy: str) -> UsageError:
    return UsageError(what, layer="comparison", remedy=remedy)
