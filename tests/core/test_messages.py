"""Messages, calls, results and usage: what is said is always sendable, and unknown stays unknown."""

from __future__ import annotations

import json
import pickle
from types import MappingProxyType

import pytest
from fakes import FunctionTool, check_wire, raw_call, runtime_for, several, states_of
from hypothesis import given
from hypothesis import strategies as st

from agentnb.core.messages import Message, ToolCall, ToolResult, Usage, unique_ids, user
from agentnb.core.model import ModelReply
from agentnb.core.state import State
from agentnb.models.scripted import calls

WORDS = st.text(st.characters(codec=None), max_size=20)
"""Any text that Python can hold, half emojis included."""


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "null",
        "[1]",
        '"x"',
        "{",
        '{"a": 1} extra',
        "[" * 99_999,
    ],
)
def test_arguments_that_are_no_object_are_sent_as_an_empty_one(arguments):
    """The history holds valid JSON of an object, whatever the model wrote; the call keeps the model's own text."""
    call = ToolCall("c1", "add", arguments)

    assert call.wire_arguments == "{}"
    assert call.arguments == arguments


@pytest.mark.parametrize("arguments", ['{"a": 1}', ' {"a":1.0, "b": "caf\\u00e9"}', "{}"])
def test_valid_arguments_go_back_byte_for_byte(arguments):
    """What the model wrote well is not rewritten, so a provider's prompt cache still matches."""
    assert ToolCall("c1", "add", arguments).wire_arguments == arguments


@pytest.mark.slow
@given(st.text(max_size=30) | st.dictionaries(st.text(max_size=3), st.integers()).map(json.dumps))
def test_every_argument_text_can_be_sent(arguments):
    """No argument text breaks the conversation."""
    message = Message("assistant", None, (ToolCall("c1", "add", arguments),))

    check_wire([message.wire, Message("tool", "3", call_id="c1", name="add").wire])


@pytest.mark.parametrize("arguments", ['{"t": "cut \\ud83d"}', '{"t": "\\uDE00 cut"}', '{"\\ud83d": 1}'])
def test_half_an_emoji_written_as_an_escape_is_replaced(arguments):
    """Half an emoji in arguments becomes U+FFFD before it is sent; some servers refuse the escape as well."""
    sent = json.loads(ToolCall("c1", "say", arguments).wire_arguments)

    assert "\ufffd" in json.dumps(sent, ensure_ascii=False)
    json.dumps(sent, ensure_ascii=False).encode()


def test_a_whole_emoji_written_as_escapes_is_left_alone():
    """A pair of escapes is one character and stays as the model wrote it."""
    arguments = '{"t": "\\ud83d\\ude00"}'

    assert ToolCall("c1", "say", arguments).wire_arguments == arguments


@given(WORDS)
def test_any_text_of_a_person_can_be_sent(text):
    """Whatever a person says, the message can be encoded."""
    message = user(text)

    assert message.content is not None
    message.content.encode()
    check_wire([message.wire])


@pytest.mark.parametrize(
    ("given_ids", "kept"),
    [
        (("t1", "t2", "t3"), ("t1", "t2", "t3")),
        (("t1", "t1", "t1"), ("t1", None, None)),
        (("", "", ""), (None, None, None)),
        (("", "call_1_1", "call_1_3"), (None, "call_1_1", "call_1_3")),
        (("call_1_3", "", ""), ("call_1_3", None, None)),
        (("a", "", "a"), ("a", None, None)),
    ],
)
def test_ids_are_made_unique_and_good_ones_stay(given_ids, kept):
    """Ids that were unique are unchanged; the first of equal ids keeps it; every other gets a fresh one."""
    fixed = unique_ids(tuple(ToolCall(name, "add") for name in given_ids), "call_1")
    ids = [call.id for call in fixed]

    assert all(ids)
    assert len(set(ids)) == 3
    assert [name for name, want in zip(ids, kept, strict=True) if want] == [want for want in kept if want]


@given(st.lists(st.sampled_from(["", "a", "p_1", "p_2", "p_3", "p_4"]), max_size=8))
def test_ids_always_come_out_unique(names):
    """However the ids collide with each other or with invented ones, all differ, and the invention can be repeated."""
    before = tuple(ToolCall(name, str(place)) for place, name in enumerate(names))
    fixed = unique_ids(before, "p")

    assert len({call.id for call in fixed} - {""}) == len(names)
    assert [call.name for call in fixed] == [call.name for call in before]
    assert fixed == unique_ids(before, "p")
    assert all(new.id == old.id for new, old in zip(fixed, before, strict=True) if old.id and names.count(old.id) == 1)


@pytest.mark.parametrize("ids", [("t1", "t2", "t3"), ("t1", "t1", "t1"), (None, None, None), ("", "", "")])
def test_results_are_paired_by_position(ids):
    """Three calls of one tool run once each, whatever their ids; the one that fails loses neither of the others."""
    asked = []

    def get_temp(city: str) -> str:
        asked.append(city)
        if city == "Nowhere":
            raise LookupError(f"no such city {city!r}")
        return f"{len(city)} degrees in {city}"

    reply = several(*(calls("get_temp", city=city) for city in ("Rome", "Oslo", "Nowhere")), ids=ids)
    last = states_of(runtime_for([reply, "done"], [get_temp]))[-1]

    assert sorted(asked) == ["Nowhere", "Oslo", "Rome"]
    assert [result.status for result in last.tool_results] == ["ok", "ok", "error"]
    assert [result.content for result in last.tool_results][:2] == ["4 degrees in Rome", "4 degrees in Oslo"]
    assert "Nowhere" in last.tool_results[2].content


def test_invented_ids_are_the_same_in_every_rerun():
    """Ids that the model left out are invented alike each time, so that runs compare and replay."""
    first, second = (
        states_of(runtime_for([several(calls("f"), calls("f")), "ok"], [lambda_tool()]))[-1] for _ in range(2)
    )

    assert first == second
    assert [call.id for call in first.steps[0].calls] == [call.id for call in second.steps[0].calls]


def lambda_tool():
    """A tool without arguments."""
    return FunctionTool(lambda: "x", "f")


def test_content_is_null_when_the_model_only_called():
    """An assistant message with calls and no text goes back with null, or with "" where the provider said ""."""
    call = (ToolCall("c1", "f"),)

    assert ModelReply(calls=call).message(call).wire["content"] is None
    assert ModelReply(calls=call, raw={"content": ""}).message(call).wire["content"] == ""
    assert ModelReply("text", calls=call).message(call).wire["content"] == "text"


def test_plain_calls_and_results_are_ordinary_text():
    """In a JSON plan nothing on the wire is a tool call: the model's text and a user message with the result."""
    asked = Message("assistant", '{"tool": "add"}', (ToolCall("c1", "add"),), plain=True)
    result = Message("tool", "3", call_id="c1", name="add", plain=True)

    assert asked.wire == {"role": "assistant", "content": '{"tool": "add"}'}
    assert result.wire["role"] == "user"
    assert result.wire["content"].endswith("3")


def test_a_message_is_encoded_once():
    """The bytes of a message are made once for an encoder and kept; another encoder makes its own."""
    message, made = user("hi"), []

    def encode(each: Message) -> bytes:
        made.append(each)
        return str(len(made)).encode()

    assert [message.fragment("a", encode) for _ in range(3)] == [b"1", b"1", b"1"]
    assert message.fragment("b", encode) == b"2"


def test_the_kept_bytes_are_no_part_of_the_value():
    """Two equal messages stay equal, hash alike and travel without the bytes that one of them keeps."""
    one, other = user("hi"), user("hi")
    one.fragment("a", lambda message: b"x" * 10_000)

    assert one == other
    assert hash(one) == hash(other)
    assert len(pickle.dumps(one)) == len(pickle.dumps(other))
    assert pickle.loads(pickle.dumps(one)).fragment("a", lambda message: b"fresh") == b"fresh"


@pytest.mark.parametrize("value", [lambda: 0, open, MappingProxyType({}), (n for n in "ab"), {"deep": [lambda: 0]}])
def test_a_result_travels_without_its_value(value):
    """A result leaves its object behind, which perhaps can't be pickled, and keeps everything else."""
    result = ToolResult("c1", "f", "text", value=value, arguments={"a": 1}, notes=("n",), seconds=2.0, version="f@1·0")
    again = pickle.loads(pickle.dumps(result))

    assert again == result
    assert (again.value, again.notes, again.seconds, again.version) == (None, ("n",), 2.0, "f@1·0")


def test_times_and_objects_do_not_count_in_a_result():
    """Results are equal when the model read the same; how long it took and the object behind it do not count."""
    assert ToolResult("c", "f", "3", value=3, seconds=1.0) == ToolResult("c", "f", "3", value=object(), seconds=9.0)
    assert ToolResult("c", "f", "3") != ToolResult("c", "f", "3", "error")


def test_unknown_usage_is_not_zero():
    """Tokens that no provider reported are None, in the sum too; a gap marks the sum incomplete."""
    assert Usage().total is None
    assert Usage().plus(None).total is None
    assert Usage(5, 2).plus(None) == Usage(5, 2, complete=False)
    assert Usage(5, 2).plus(Usage()) == Usage(5, 2, complete=False)


def test_usage_adds_up():
    """Sums are by kind, and what one side does not know is taken from the other."""
    total = Usage(10, 2, cached_input=4).plus(Usage(5, 1, reasoning=1))

    assert total == Usage(15, 3, cached_input=4, reasoning=1)
    assert total.total == 18
    assert not Usage(10, 2).plus(Usage(5, None)).complete


def test_a_refused_part_of_a_reply_is_said_in_the_history():
    """A refusal without text is the assistant's message, so the next request shows it."""
    assert ModelReply(refusal="I can't").message(()).content == "I can't"


def test_the_argument_text_is_checked_where_it_is_sent():
    """A call with broken arguments is in the next request as an empty object with its result after it."""
    made = states_of(runtime_for([raw_call("f", '{"a": [1, NaN'), "ok"], [lambda_tool()]))

    assert made[-1].steps[1].request is not None
    check_wire(made[-1].steps[1].request["messages"])
    assert State.start("x").messages[0].role == "user"
