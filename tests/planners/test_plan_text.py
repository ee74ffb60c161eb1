"""A plan is found in whatever surrounds it, and never made out of something else."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentnb.planners.plan_text import Found, read_plan

TOOLS = ("add", "save_note", "say", "list_files", "delete_file", "plot", "grep", "write_file")
NOTE = "Run:\n```python\nprint({'a': 1})\n```\ndone"
ADD = {"reasoning": "", "tool": "add", "args": {"a": 2, "b": 3}}
ADD_TEXT = '{"tool":"add","args":{"a":2,"b":3}}'
DELETE_TEXT = '{"tool":"delete_file","args":{"path":"data"}}'


def found(text: str) -> Found:
    """What is found with the tools of this file."""
    return read_plan(text, TOOLS)


def args(text: str) -> Any:
    """The arguments of the plan in this text."""
    plan = found(text).plan
    assert plan is not None, found(text).problem
    return plan["args"]


@pytest.mark.parametrize(
    "fence", ["{}", "```json\n{}\n```", "```\n{}\n```", "````\n{}\n````", "~~~json\n{}\n~~~", "`{}`"]
)
def test_a_fence_inside_a_string_cuts_nothing(fence):
    """Whatever fence is around it or in it, the object is found by its own structure; the rest is the comment."""
    plan = json.dumps({"tool": "save_note", "args": {"text": NOTE}})
    seen = found("Here is the plan:\n" + fence.replace("{}", plan) + "\nTell me if that is fine!")

    assert seen.plan == {"reasoning": "", "tool": "save_note", "args": {"text": NOTE}}
    assert seen.comment == "Here is the plan:\nTell me if that is fine!"
    assert (seen.candidates, seen.repaired) == (1, False)


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        ("Fill in {name} first. " + ADD_TEXT, "Fill in {name} first."),
        ('The format is {"tool":"NAME","args":{}} so my answer is: ' + ADD_TEXT,
         'The format is {"tool":"NAME","args":{}} so my answer is:'),
        ('The format is {"tool": NAME, "args": {...}}, so: ' + ADD_TEXT,
         'The format is {"tool": NAME, "args": {...}}, so:'),
        (ADD_TEXT + " trailing words }", "trailing words }"),
        ("{ and {x} and } " + ADD_TEXT, "{ and {x} and }"),
        ('{"a": 1} [' + ADD_TEXT + "]", '{"a": 1} [\n]'),
        (ADD_TEXT + '\nthe data was {"x": 1, }', 'the data was {"x": 1, }'),
        (ADD_TEXT + "\nthe data was {'x': it's}", "the data was {'x': it's}"),
    ],
)  # fmt: skip
def test_prose_with_braces_disturbs_nothing(text, comment):
    """What is no plan is skipped, before and behind."""
    assert found(text) == Found(ADD, comment, "", text, 1, False, "")


def test_braces_and_quotes_in_a_string_are_text():
    """A string ends where JSON says."""
    text = '{"tool":"say","args":{"t":"a } and { in a string, plus \\"quotes\\""}} trailing words }'

    assert args(text) == {"t": 'a } and { in a string, plus "quotes"'}


def test_the_last_of_several_plans_counts():
    """The last plan that fits is taken, and it is told how many different ones there were."""
    seen = found(f'{DELETE_TEXT}\nNo: {ADD_TEXT}\nAgain: {{"args": {{"b": 3, "a": 2}}, "tool": "add"}}')

    assert seen.plan == ADD
    assert seen.candidates == 2


@pytest.mark.parametrize(
    "text",
    [
        f'{{"plan": {DELETE_TEXT}}}',
        f'{{"tool": "unknown", "args": {DELETE_TEXT}}}',
        f'{{"tool": "say", "args": {{"t": "he said "hi}}}} and {DELETE_TEXT} then"}}}}',
        f'{{"tool": "say", "args": {{"t": "he said "hi" and {DELETE_TEXT}',
        f'{{"tool": "say", "args": {{"t": unquoted {DELETE_TEXT} }}}}',
        f'{DELETE_TEXT} no, better: {{"tool": "say", "args": {{"t": "a "b" c"}}}}',
        f"<think>maybe {DELETE_TEXT}",
        f"well <think> maybe {DELETE_TEXT}",
        f"<think>a</think>{{'t': 'unclosed {DELETE_TEXT}",
    ],
)
def test_a_piece_of_something_else_is_no_plan(text):
    """What stands inside another object, a broken string or a thought does not run."""
    assert found(text).plan is None
    assert found(text).problem


@pytest.mark.parametrize(
    "text",
    [
        f"<think>\nMaybe {DELETE_TEXT}? No, too risky.\n</think>\n\n{ADD_TEXT}",
        f"Maybe {DELETE_TEXT}? No, too risky.\n</think>\n\n{ADD_TEXT}",
        f"<thinking>Maybe {DELETE_TEXT}? No, too risky.</thinking>{ADD_TEXT}",
    ],
)
def test_a_draft_in_the_reasoning_is_not_a_plan(text):
    """Thoughts are kept apart, also when the opening tag was in the template of the server."""
    seen = found(text)

    assert (seen.plan, seen.candidates, seen.comment) == (ADD, 1, "")
    assert seen.thoughts == f"Maybe {DELETE_TEXT}? No, too risky."
    assert seen.text == ADD_TEXT


def test_thoughts_are_no_part_of_the_text():
    """Without a plan, what is left is the text."""
    assert found("<think>...</think>42").text == "42"
    assert found("the <think> tag").text == "the <think> tag"
    assert args('{"tool":"say","args":{"t":"<think>a</think>"}}') == {"t": "<think>a</think>"}


@pytest.mark.parametrize(
    "text",
    [
        "{'tool': 'add', 'args': {'a': 2, 'b': 3,},}",
        '{"tool": "add", /* two numbers */ "args": {"a": 2, "b": 3}} // done',
        '{\n  // a call\n  "tool": "add",\n  "args": {"a": 2, # first\n "b": 3}\n}',
        '{tool: "add", args: {a: 2, b: 3}}',
        '{"tool": "add", "args": {"a": 2, "b": 3}',
        '```json\n{"tool": "add", "args": {"a": 2, "b": 3}\n```',
    ],
)
def test_punctuation_is_mended(text):
    """Quotes, commas, comments and a missing last brace change; the step can tell."""
    seen = found(text)

    assert seen.plan == ADD
    assert seen.repaired


def test_python_words_are_read():
    """True, False and None stand for JSON's."""
    assert args("{'tool': 'say', 'args': {'a': True, 'b': False, 'c': None, 'd': -1.5e3}}") == {
        "a": True, "b": False, "c": None, "d": -1500.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"tool":"say","args":{"t":"x, }, ] , \'q\' // not a comment",}}', "x, }, ] , 'q' // not a comment"),
        ('{"tool":"say","args":{"t":"a /* b */ # c {\'d\': True}",}}', "a /* b */ # c {'d': True}"),
        ("{'tool':'say','args':{'t':'it\\'s \"x\", ok'}}", 'it\'s "x", ok'),
        ('{"tool":"say","args":{"t":"7","u":8,}}', "7"),
        ('{"tool":"say","args":{"t":"  two  spaces, ",}}', "  two  spaces, "),
    ],
)
def test_a_repair_leaves_strings_alone(text, value):
    """What stands in quotes comes out as it was written."""
    assert args(text)["t"] == value
    assert found(text).repaired


def test_valid_json_is_not_repaired():
    """Strict reading comes first."""
    text = '{"tool":"say","args":{"t":"bar \\"foo\\", baz"}}'

    assert args(text) == {"t": 'bar "foo", baz'}
    assert not found(text).repaired


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"tool":"say","args":{"t":"bar "foo", baz"}}', "near 'foo' it is not clear where a string ends"),
        ('{"tool":"say","args":{"t":"a" "b"}}', "not clear where a string ends"),
        ('{"tool":"say","args":{"t":hello}}', "'hello' stands outside a string"),
        ('{"tool":"say","args":{"t":}}', "punctuation is broken"),
        ('{"tool":"say","args":{"t"["a"[]]}}', "punctuation is broken"),
        ('{"tool":"say","args":{"t","a":}}', "punctuation is broken"),
        ('{"tool":"say","args":{"n":007,"t":1}}', "'007' stands outside a string"),
        ('{"tool":"say","args":{"t":[1}}}', "brackets do not match"),
        ('{"tool":"write_file","args":{"path":"a.txt","text":"chapter 1 and th', "a string is not closed"),
        ('{"tool":"add","args":{"a":2,"b":3', "it is not closed"),
        ('{"tool":"add","tool":"say","args":{}}', "'tool' stands twice"),
        ("{'tool':'add','args':{'a':1,'a':2}}", "'a' stands twice"),
        ('{"tool":"say","args":{"t":' + "[" * 200 + "]" * 200 + "}}", "deeper than 100"),
        ('{"tool":"say","args":{"t":' + "[" * 20_000 + "]" * 20_000 + "}}", "can't be read"),
    ],
)
def test_what_needs_a_guess_is_refused(text, problem):
    """A repair that would have to guess what a string holds, or what is missing, is not made."""
    assert found(text).plan is None
    assert problem in found(text).problem


def test_numbers_that_json_does_not_know():
    """NaN and infinities arrive as the floats they stand for, in valid and in mended text."""
    for text in ('{"tool":"plot","args":{"y":[1, NaN, Infinity]}}', "{'tool':'plot','args':{'y':[1, NaN, Infinity]}}"):
        one, nan, infinite = args(text)["y"]
        assert (one, infinite) == (1, math.inf)
        assert math.isnan(nan)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"tool":"say","args":{"t":"caf\u00e9 \ud83d\ude00"}}', "café 😀"),
        (r'{"tool":"say","args":{"t":"cut \ud83d"}}', "cut \N{REPLACEMENT CHARACTER}"),
        ('{"tool":"say","args":{"t":"cut \ud83d"}}', "cut \N{REPLACEMENT CHARACTER}"),
        (r"{'tool':'say','args':{'t':'\ud83d\ude00 \ud83d'}}", "😀 \N{REPLACEMENT CHARACTER}"),
        (r'{"tool":"grep","args":{"t":"\d+\s"}}', r"\d+\s"),
        (r'{"tool":"grep","args":{"t":"C:\users\d\n\t\"\\\u00e9"}}', 'C:\\users\\d\n\t"\\é'),
        ('{"tool":"say","args":{"t":"one\ntwo\tthree"}}', "one\ntwo\tthree"),
    ],
)
def test_escapes_keep_their_meaning(text, value):
    """JSON's escapes mean what they mean, other backslashes stay, half emojis can be encoded."""
    assert args(text) == {"t": value}
    assert args(text)["t"].encode()


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ('{"reasoning": "r", "answer": "42"}', {"reasoning": "r", "answer": "42"}),
        ('{"answer": 42}', {"reasoning": "", "answer": "42"}),
        ('{"thought": "r", "final_answer": {"a": "ü"}}', {"reasoning": "r", "answer": '{"a": "ü"}'}),
        ('{"tool": null, "args": {}, "answer": "42"}', {"reasoning": "", "answer": "42"}),
        ('{"tool": "none", "answer": "42"}', {"reasoning": "", "answer": "42"}),
        ('{"tool": "add", "args": {"a": 2, "b": 3}, "answer": null}', ADD),
        ('{"tool": "add", "arguments": {"a": 2, "b": 3}}', ADD),
        ('so {"tool": "add", "parameters": {"a": 2, "b": 3}}', ADD),
        ('{"tool": "add", "input": {"a": 2, "b": 3}}', ADD),
        ('{"tool": "add", "args": "{\\"a\\": 2, \\"b\\": 3}"}', ADD),
        ('{"name": "add", "arguments": {"a": 2, "b": 3}}', ADD),
        ('<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>', ADD),
        ('```json\n{"action": "add", "input": {"a": 2, "b": 3}}\n```', ADD),
        ('{"tool": "list_files"}', {"reasoning": "", "tool": "list_files", "args": {}}),
        ('{"tool": "list_files", "args": null}', {"reasoning": "", "tool": "list_files", "args": {}}),
    ],
)
def test_other_spellings_of_a_plan(text, plan):
    """What can mean one thing only is taken for it."""
    assert found(text).plan == plan


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hello", "it holds no JSON object"),
        ("", "it holds no JSON object"),
        ('{"tool": "ad", "args": {}}', "there is no tool named 'ad'. The tools are: add, save_note"),
        ('{"tool": "ad", "args": {}}', "Did you mean 'add'?"),
        ('{"tool": ["add"], "args": {}}', "there is no tool named"),
        ('{"tool": "add", "a": 2, "b": 3}', 'it has no "args"'),
        ('{"tool": "add", "args": [2, 3]}', 'its "args" is [2, 3], expected an object'),
        ('{"tool": "add", "args": "2, 3"}', 'its "args" is 2, 3, expected an object'),
        ('{"tool": "add", "args": {}, "arguments": {}}', "it has both 'args' and 'arguments'"),
        ('{"tool": "add", "args": {}, "answer": "5"}', "both a tool and an answer"),
        ('{"reasoning": "hm"}', "neither a tool nor an answer"),
        ('{"answer": ""}', "neither a tool nor an answer"),
        ('You could send {"name": "add", "arguments": {"a": 1}} to the server.', "neither a tool nor an answer"),
    ],
)
def test_what_is_no_plan_is_named(text, problem):
    """The model is told what is missing."""
    assert found(text).plan is None
    assert problem in found(text).problem


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
prose = st.text(st.characters(exclude_characters="{}<", exclude_categories=("Cs",)))
fences = st.sampled_from([("", ""), ("```json\n", "\n```"), ("````\n", "\n````"), ("`", "`")])
styles = st.sampled_from([{}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (",", ":")}])


@pytest.mark.slow
@given(st.dictionaries(st.text(), values, max_size=4), st.text(), prose, prose, fences, styles)
def test_any_plan_is_found_unchanged(arguments, reasoning, before, after, fence, style):
    """Any plan, in any fence and prose, comes out as it was put in, and is not repaired."""
    plan = {"reasoning": reasoning, "tool": "say", "args": arguments}
    seen = found(f"{before}\n{fence[0]}{json.dumps(plan, **style)}{fence[1]}\n{after}")

    assert seen.plan == plan
    assert not seen.repaired


@pytest.mark.slow
@given(st.dictionaries(st.text(), values, max_size=4))
def test_any_python_dict_is_found_unchanged(arguments):
    """The same written as Python writes it, where its escapes are JSON's; where they are not, nothing is invented."""
    text = repr({"tool": "say", "args": arguments})
    plan = found(text).plan

    if "\\" not in text:
        assert plan is None or plan["args"] == arguments
    assert found(text).problem or plan is not None


@pytest.mark.slow
@given(st.text(st.sampled_from("{}[]:,\"'\\/*#`<think>tool args answer add1.-NaN\n\ud83d")), st.text())
def test_reading_never_raises(marks, text):
    """Whatever a model writes, there is a plan or a problem in words."""
    for each in (marks, text, ADD_TEXT + marks, marks + ADD_TEXT, '{"tool":"say","args":{"t":' + marks):
        seen = found(each)
        assert (seen.plan is None) == bool(seen.problem)
        assert seen.text.encode() is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ['{"a":1} ', "{'a':1} ", "{'a':x} ", "{", "{{'", "`", "``` ", "<think>a</think>", "\\", "</think>"]
)
def test_long_texts_take_linear_time(piece):
    """Long texts of anything are read at once; this would take minutes if a fence or a brace cost a whole scan."""
    text = piece * (30_000 // len(piece))

    assert found(text + ADD_TEXT) is not None
    assert found(ADD_TEXT + text) is not None
