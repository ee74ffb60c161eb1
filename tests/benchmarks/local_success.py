"""How often the embedded model solves the first task, with other cities, numbers and words in each run.

    python tests/benchmarks/local_success.py [--runs 10] [--planner tools|json] [--results number|text] [--seed N]

Each run is a fresh agent with get_weather, calculator and search_knowledge, real tool calls and the shipped worked
examples; none of its cities is in them. Prints each run, then: right of all, seconds per step, tokens a second.
Ends with exit code 1 below 9 of 10.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from agentnb import Agent, Limits, State
from agentnb.errors import ToolError
from agentnb.models.embedded import EmbeddedModel, load_examples, load_system_prompt
from agentnb.tools.builtin import calculator

CITIES = tuple(
    "Athens Bangkok Beijing Berlin Bogota Boston Brisbane Cairo Chicago Delhi Denver Dublin Hanoi "  # noqa: SIM905
    "Havana Helsinki Jakarta Lagos Lima Lisbon London Manila Mumbai Nairobi Osaka Paris Perth Prague "
    "Quito Riga Santiago Seoul Shanghai Sydney Tokyo Toronto Warsaw Zurich".split()
)
WORDINGS = (
    "What do the temperatures of {a} and {b} add up to?",
    "What is the temperature in {a} plus the temperature in {b}?",
    "Calculate the sum of the current temperatures of {a} and {b}.",
    "Look up how warm it is in {a} and in {b}, then add the two.",
    "How many degrees do {a} and {b} have together?",
)
PASSED = 0.9


@dataclass(frozen=True)
class Task:
    """One sum of two temperatures."""

    goal: str
    celsius: dict[str, float]

    @property
    def expected(self) -> float:
        """The right sum."""
        return sum(self.celsius.values())

    def is_solved_by(self, run: State) -> bool:
        """Whether the answer names the sum, and the run read both temperatures with the tool."""
        numbers = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", run.answer or "")]
        looked_up = {(result.arguments or {}).get("city") for result in run.tool_results}
        return any(abs(each - self.expected) < 0.01 for each in numbers) and set(self.celsius) <= looked_up


def make_task(chance: random.Random) -> Task:
    """Two cities, a temperature each (halves, below zero too), one of the wordings."""
    a, b = chance.sample(CITIES, 2)
    celsius = {city: chance.randint(-30, 80) / 2 for city in (a, b)}
    return Task(chance.choice(WORDINGS).format(a=a, b=b), celsius)


def weather_tool(task: Task, form: str) -> Callable[[str], float | str]:
    """get_weather for this task, with a number or a sentence as its result."""

    def look_up(city: str) -> float:
        if city not in task.celsius:
            raise ToolError(f"no weather for {city!r}")
        return task.celsius[city]

    def number(city: str) -> float:
        """Current temperature of a city.

        Args:
            city: English name, such as "Beijing".

        Returns:
            Degrees Celsius.
        """
        return look_up(city)

    def text(city: str) -> str:
        """Current temperature of a city.

        Args:
            city: English name, such as "Beijing".
        """
        return f"{city}: {look_up(city):g} degrees Celsius"

    chosen = number if form == "number" else text
    chosen.__name__ = "get_weather"
    return chosen  # type: ignore[return-value]  # one of two result types


def search_knowledge(query: str) -> str:
    """Search the company documents.

    Args:
        query: Words to look for.
    """
    return f"nothing found for {query!r}"


def make_agent(task: Task, planner: str, form: str, model: EmbeddedModel) -> Agent:
    """A fresh agent for this task."""
    return Agent(
        model=model,
        tools=[weather_tool(task, form), calculator, search_knowledge],
        system_prompt=load_system_prompt(),
        examples=load_examples(),
        planner=planner,
        limits=Limits(steps=10),
    )


def main() -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--planner", default="tools", choices=["tools", "json"])
    parser.add_argument("--results", default="number", choices=["number", "text"])
    parser.add_argument("--seed", type=int, default=None, help="for the same tasks again")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    model = EmbeddedModel()
    runs, right = [], 0
    for number in range(1, options.runs + 1):
        task = make_task(chance)
        began = time.monotonic()
        run = make_agent(task, options.planner, options.results, model).run(task.goal)
        solved = task.is_solved_by(run)
        right += solved
        runs.append((run, time.monotonic() - began))
        verdict = "right" if solved else "WRONG"
        print(f"{number:3d} {verdict}  {task.goal}  {task.celsius} -> {run.answer or run.detail}", flush=True)
        if not solved:
            for step in run.steps:
                print("      ", [(call.name, call.arguments) for call in step.calls], step.reply.text, flush=True)
    steps = sum(run.counters.steps for run, _ in runs)
    seconds = sum(spent for _, spent in runs)
    tokens = sum(run.usage.output or 0 for run, _ in runs)
    print(f"{right} of {len(runs)} right; {seconds / steps:.1f} s per step; {tokens / seconds:.1f} tokens/s over all")
    return 0 if right >= PASSED * len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
