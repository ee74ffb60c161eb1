"""The loop view: the node that is lit, the stack of messages with its bars, what changed; the same bytes, bounded, safe."""

from __future__ import annotations

import pytest
from html_seen import Seen
from made_runs import answered, long_run, one_call, plan, result
from test_render_safety import PAYLOADS

from agentnb import Agent, ScriptedModel, calls
from agentnb.core.messages import Usage, user
from agentnb.core.state import State
from agentnb.errors import UsageError
from agentnb.notebook.loop_view import CHARACTERS, TOKENS, loop_view, stack_of
from agentnb.notebook.state_changes import changes


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def summed(usage: bool = False) -> State:
    """A run of two calls and an answer."""
    script = [{**calls("add", a=n, b=1)} for n in (1, 2)] + [{"content": "it is 3"}]
    for number, each in enumerate(script if usage else ()):
        each["usage"] = {"prompt_tokens": 100 + 40 * number, "completion_tokens": 5}
    return Agent(ScriptedModel(script), [add]).run("one, two")


def test_the_node_of_the_state_is_lit():
    """Each State of a run lies at its node, which a word marks in both forms."""
    run = summed()
    lit = [str(loop_view(state)).split("▶ ")[1].split()[0] for state in run.path()]

    assert lit == ["init", "plan", "update", "plan", "update", "check"]
    assert "<b" not in loop_view(run).html.split("▶ check")[0].rpartition("<span")[2]
    assert "init ×1 → plan ×3 → act ×2 → update ×2 → ▶ check ⟲" in str(loop_view(run))


def test_the_stack_grows_with_the_reported_tokens():
    """A row per request, with what was new in it; the numbers are the provider's."""
    layers, unit = stack_of(summed(usage=True))

    assert unit == TOKENS
    assert [(each.label, each.messages, each.size, each.grown) for each in layers if each] == [
        ("1", 1, 100, 100),
        ("2", 3, 140, 40),
        ("3", 5, 180, 40),
        ("not sent yet", 6, None, 0),
    ]
    assert layers[1].new == 'assistant: add({"a": 1, "b": 1}); tool: 2'


def test_without_tokens_the_bars_are_characters_and_say_so():
    """Unknown tokens are not guessed: the unit changes, in words."""
    run = summed()
    layers, unit = stack_of(run)

    assert unit == CHARACTERS
    assert [each.size for each in layers if each] == [8, 28, 48, 55]
    for form in (loop_view(run).html, loop_view(run).text):
        assert CHARACTERS in form


def test_a_request_without_a_number_among_others_is_unknown():
    """A call whose provider said nothing is n/a, not 0 and not characters."""
    state = plan(one_call(), text="done", answer="done", usage=None)
    layers, unit = stack_of(state)

    assert unit == TOKENS
    assert [each.size for each in layers if each] == [200, None, None]
    assert "n/a" in str(loop_view(state))


def test_a_compacted_prompt_says_so():
    """A new, shorter prompt is a layer of its own, which has not grown."""
    state = plan(long_run(2, answer=None).compacted([user("goal, in short")]), text="x", answer="x", usage=Usage(50, 1))
    layers, _ = stack_of(state)

    assert layers[2].new == "a new, shorter prompt: user: goal, in short"
    assert (layers[2].size, layers[2].grown) == (50, 0)


def test_what_a_transition_changed():
    """Only what differs, in the order of a State; times are none of it."""
    run = summed(usage=True)
    told = {each.what: (each.before, each.after) for each in changes(run.path()[1], run.path()[2])}

    assert told == {
        "State": ("2", "3"),
        "made by": ("plan", "act"),
        "sent next": ("2 messages", "3 messages"),
        "open calls": ("add", "none"),
        "results of the round": ("0", "1"),
        "rounds remembered": ("0", "1"),
        "tool calls": ("0", "1"),
        "messages": ("none", "tool: 2"),
    }


def test_two_states_of_different_ways():
    """Of a fork and the run that it left, only what they don't share is told; the same State has no changes."""
    run = summed()
    fork = run.at(2).say("in kelvin")
    told = {each.what: (each.before, each.after) for each in changes(run, fork)}

    assert told["messages"][1] == "user: in kelvin"
    assert told["messages"][0].startswith('assistant: add({"a": 2, "b": 1})')
    assert changes(run, run) == ()
    assert "What changed" not in str(loop_view(run, run))


def test_the_same_run_gives_the_same_bytes():
    """Nothing of clocks or ids is in it."""
    first, second = loop_view(summed()), loop_view(summed())

    assert (first.html, first.text) == (second.html, second.text)
    assert first.metadata == {}


@pytest.mark.parametrize("evil", PAYLOADS[::3])
def test_what_models_and_tools_say_is_text(evil):
    """Goal, arguments, results and answers are escaped; nothing of a page is in it."""
    state = plan(one_call(answer=result(evil)), text=evil, answer=evil).say(evil)
    seen = Seen(loop_view(plan(state, text=evil, answer=evil)).html)

    assert {tag for tag, _ in seen.tags} <= {"div", "b", "span", "table", "thead", "tbody", "tr", "th", "td", "br"}
    assert {name for _, attributes in seen.tags for name in attributes} <= {
        "class",
        "style",
        "scope",
        "role",
        "aria-label",
    }


def test_a_long_run_is_bounded():
    """Of 400 steps the first and the newest are told, and the rest is counted."""
    view = loop_view(long_run(400, "x" * 5_000))

    assert "371 requests left out" in view.text
    assert len(view.html) < 60_000
    assert len(view.text) < 15_000


def test_a_state_before_the_first_request():
    """A start has no request, no change, and nothing lit but init."""
    assert str(loop_view(State.start("hello"))).count("not sent yet") == 1
    assert "What changed" not in loop_view(State.start("hello")).html
    assert "answered" in str(loop_view(answered("hi")))


def test_only_a_state_has_a_loop():
    """Anything else is refused with the line to write."""
    with pytest.raises(UsageError, match=r"not at str.*loop_view\(run\)"):
        loop_view("run")


@pytest.mark.slow
def test_the_command_shows_a_place_of_a_run():
    """`%agent loop` shows the newest run, or a place of one, and compares with another."""
    from kernel import Kernel

    kernel = Kernel()
    try:
        set_up = "%load_ext agentnb\nfrom agentnb import Agent, ScriptedModel, calls, tool\n"
        set_up += "@tool\ndef add(a: int, b: int) -> int:\n    return a + b\n"
        set_up += "model = ScriptedModel([calls('add', a=1, b=2), 'it is 3', 'it is 4'])"
        assert "Error" not in kernel.run(set_up).text
        assert "no run to look at yet" in kernel.run("%agent loop").text
        kernel.run("%%agent -m model -o run\n1 and 2")
        assert "▶ check" in kernel.run("%agent loop").text
        assert "▶ update" in kernel.run("%agent loop run --at 2").text
        assert "▶ plan" in kernel.run("%agent loop run --state 2").text
        kernel.run("%agent fork run --at 2 -o fork")
        assert "it is 3" in kernel.run("%agent loop run fork").text.split("What changed")[1]
        assert "UsageError" in kernel.run("%agent loop run --at x").text
    finally:
        kernel.stop()
