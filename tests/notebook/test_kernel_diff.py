"""`%agent diff` and recordings in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel import Kernel

pytestmark = pytest.mark.slow

SET_UP = '''
%load_ext agentnb
import socket
from agentnb import Agent, ScriptedModel, calls, diff, tool

@tool
def get_weather(city: str) -> float:
    """Current temperature of a city."""
    return {"Beijing": 31.0, "Shanghai": 27.5}[city]

def script(city):
    return ScriptedModel([calls("get_weather", city=city), f"{city} is warm."], "scripted")

def no_network(*args):
    raise AssertionError("a socket was opened")
'''


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One kernel for this module."""
    made = Kernel(AGENTNB_RECORDING="")
    assert "Error" not in made.run(SET_UP).text
    yield made
    made.stop()


def test_two_runs_are_compared_by_their_variables(kernel):
    """The display has three forms, with the names of the variables; without names the last two runs are taken."""
    assert "no two cells have run an agent yet" in kernel.run("%agent diff").text
    kernel.run("model_b, model_s = script('Beijing'), script('Shanghai')")
    kernel.run("%%agent -m model_b -o warm\nHow warm?")
    kernel.run("%%agent -m model_s -o cold\nHow warm?")
    named, last = kernel.run("%agent diff warm cold"), kernel.run("%agent diff")

    assert named.errors == last.errors == []
    [bundle] = named.displays
    assert set(bundle) == {"text/plain", "text/markdown", "text/html"}
    assert bundle["text/plain"].startswith(
        "warm and cold part at step 1: arguments of get_weather, result of get_weather."
    )
    assert last.displays[0]["text/plain"].startswith("previous and newest part at step 1: arguments of get_weather")
    assert kernel.run("diff(warm, cold)").outputs[0]["data"]["text/html"]


def test_wrong_names_are_named(kernel):
    """An error of ours, with the runs that there are."""
    assert "nothing is named 'nobody'" in kernel.run("%agent diff nobody cold").text
    assert "%agent diff takes two runs, not 1" in kernel.run("%agent diff cold").text


def test_a_cell_replays_without_model_and_network(kernel: Kernel, tmp_path: Path) -> None:
    """Record a cell, replay it with every socket blocked: the same States and the same outputs, byte for byte."""
    path = tmp_path / "cell.jsonl"
    opened = kernel.run(f"%agent recording {path}").text
    assert "answered from FILE" not in opened
    assert f"{path} is not there yet: the model answers" in opened
    kernel.run("model = script('Beijing')")
    first = kernel.run("%%agent -m model -o first\nHow warm is Beijing?")
    told = kernel.run("%agent recording").text
    kernel.run(f"%agent recording {path} replay")
    kernel.run("model, kept = ScriptedModel([], 'scripted'), socket.socket.connect\nsocket.socket.connect = no_network")
    second = kernel.run("%%agent -m model -o second\nHow warm is Beijing?")
    miss = kernel.run("%%agent -m model -o third\nHow warm is Shanghai?")
    kernel.run("socket.socket.connect = kept\n%agent recording off")

    assert "2 answered by the model" in told
    assert second.displays == first.displays
    assert kernel.value("first == second and diff(first, second).equal") == "True"
    assert "user text was 'How warm is Beijing?', is 'How warm is Shanghai?'" in miss.text
