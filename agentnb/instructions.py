"""What an agent adds to every request: its prompt, its worked examples, the parameters that the user wants sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ExampleStep:
    """One call of a worked example and what came back."""

    tool: str
    arguments: Mapping[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example: a goal, the calls that led there, the answer. Sent to the model as earlier turns."""

    goal: str
    steps: tuple[ExampleStep, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Instructions:
    """The same for each planner, which puts them into its own form."""

    system_prompt: str = ""
    examples: tuple[Example, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
