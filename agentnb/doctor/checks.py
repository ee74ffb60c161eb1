"""Is everything in order, and if not, what to do: one line for each check, in the order in which one would look.

    checks(model) ──▶ what is here (set_up.py) ──▶ the front end ──▶ the model: a few tiny real calls (model_checks.py)

A check never raises and never shows a key; one that can't be made says so and is skipped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agentnb import bridge
from agentnb.doctor.check import PROBLEM, Check, whatever_happens
from agentnb.doctor.model_checks import model_checks
from agentnb.doctor.set_up import set_up_checks


def checks(model: Any = None, front_end: Iterable[Check] = ()) -> Iterator[Check]:
    """Every check, each as it is done.

    Args:
        model: A name, a Model or a callable; None is the one that the environment chooses.
        front_end: What the notebook found out about its own front end.
    """
    yield from set_up_checks()
    yield from whatever_happens("front end", front_end)
    yield from whatever_happens("model", bridge.iterate(model_checks(model)))


def report(model: Any = None, front_end: Iterable[Check] = ()) -> int:
    """Print each check as it is done, and how many problems there are. Returns the exit code: 1 with a problem."""
    problems = 0
    for check in checks(model, front_end):
        print(check, flush=True)
        problems += check.status == PROBLEM
    print("No problem found." if not problems else f"{problems} problem{'s' if problems > 1 else ''} found.")
    return int(problems > 0)


def command(words: Sequence[str]) -> int:
    """`python -m agentnb doctor [-m MODEL]`. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m agentnb doctor", description="Check settings and model.")
    parser.add_argument("-m", "--model", help='"provider:model" or "local"; chosen by the environment when not given')
    return report(parser.parse_args(words).model)
