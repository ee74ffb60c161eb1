"""Splitting event streams, whatever the cuts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentnb.models.sse import Event, EventSplitter

TEXT = '{"t":"a \u2028 b 你好🙂\u0085\x0b"}'


def split(data: bytes, *cuts: int) -> list[Event]:
    """The events of these bytes, fed in pieces that end at the cuts."""
    splitter = EventSplitter()
    places = [0, *sorted(cuts), len(data)]
    found = [event for at, to in pairwise(places) for event in splitter.feed(data[at:to])]
    return found + splitter.close()


FORMS = {
    "space": f"data: {TEXT}\n\ndata: [DONE]\n\n",
    "no space": f"data:{TEXT}\n\ndata:[DONE]\n\n",
    "crlf": f"data: {TEXT}\r\n\r\ndata: [DONE]\r\n\r\n",
    "cr": f"data: {TEXT}\r\rdata: [DONE]\r\r",
    "comments": f": keep-alive\n:\n\ndata: {TEXT}\nid: 7\nretry: 3000\n\n: x\n\ndata: [DONE]\n\n",
    "byte order mark": f"\ufeffdata: {TEXT}\n\ndata: [DONE]\n\n",
    "no end": f"data: {TEXT}\n\ndata: [DONE]",
    "empty lines first": f"\n\n\ndata: {TEXT}\n\n\n\ndata: [DONE]\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_and_every_cut_gives_the_same(form):
    """Spaces, line ends, comments and cuts change nothing; separators inside a string are no line ends."""
    data = FORMS[form].encode()
    expected = [("", TEXT), ("", "[DONE]")]

    assert split(data) == expected
    assert split(data, *range(1, len(data))) == expected
    for cut in range(1, len(data)):
        assert split(data, cut) == expected


def test_data_lines_of_one_event_are_joined():
    """One JSON object over two data lines is one event."""
    assert split(b'data: {"a":\ndata: 1}\n\n') == [("", '{"a":\n1}')]


def test_names_belong_to_one_event():
    """The event line names the next event only, and an event without data is none."""
    assert split(b"event: ping\n\nevent: error\ndata: x\n\ndata: y\n\n") == [("error", "x"), ("", "y")]


def test_events_come_as_soon_as_they_are_whole():
    """Nothing waits for the event after it."""
    splitter = EventSplitter()

    assert splitter.feed(b"data: 1\n\nda") == [("", "1")]
    assert splitter.feed(b"ta: 2\r\n\r") == [("", "2")]
    assert splitter.feed(b"\ndata: 3\r\r") == [("", "3")]


LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
PAYLOADS = st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), min_size=1)


@pytest.mark.slow
@given(st.lists(PAYLOADS, max_size=6), LINE_ENDS, st.booleans(), st.data())
def test_any_stream_any_cuts(payloads, end, space, data):
    """Whatever the payloads, the line end and the cuts: the same events."""
    lines = "".join(f"data:{' ' if space or text[0] == ' ' else ''}{text}{end}{end}" for text in payloads).encode()
    cuts = data.draw(st.lists(st.integers(0, len(lines))))

    assert split(lines, *cuts) == [("", text) for text in payloads]
