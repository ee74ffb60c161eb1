"""The first task of every newcomer: two look-ups and a sum, with the tools and worked examples that it needs.

`python -m agentnb run` runs it; it shows what a whole agent looks like in twenty lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentnb.agent import Agent
from agentnb.core.planner import Planner
from agentnb.errors import ToolError
from agentnb.models.embedded import load_examples, load_system_prompt
from agentnb.tools.builtin import calculator

GOAL = "What do the temperatures of Beijing and Shanghai add up to?"
CELSIUS = {
    "Beijing": 31.0,
    "Shanghai": 27.5,
    "Berlin": 18.0,
    "Cairo": 36.5,
    "Lima": 19.5,
    "London": 16.0,
    "Nairobi": 24.0,
    "New York": 22.5,
    "Paris": 21.0,
    "Sydney": 14.5,
    "Tokyo": 28.0,
}
"""A fixed table, so that the right answer is known."""


def get_weather(city: str) -> str:
    """Current temperature of a city.

    Args:
        city: English name, such as "Beijing".

    Returns:
        A sentence, such as "Beijing: 31.0 degrees Celsius".
    """
    # a sentence as in the worked examples: after bare numbers the embedded model forgets to add them
    for name, celsius in CELSIUS.items():
        if name.casefold() == city.strip().casefold():
            return f"{name}: {celsius} degrees Celsius"
    raise ToolError(f"no weather for {city!r}; the cities are {', '.join(CELSIUS)}")


def demo_agent(model: Any = None, planner: str | Planner = "tools", middleware: Sequence[Any] = ()) -> Agent:
    """An agent that can look up temperatures and calculate; with no model named, the default one answers."""
    return Agent(
        model=model,
        tools=[get_weather, calculator],
        system_prompt=load_system_prompt(),
        planner=planner,
        examples=load_examples(["get_weather", "calculator"]),
        middleware=middleware,
    )
