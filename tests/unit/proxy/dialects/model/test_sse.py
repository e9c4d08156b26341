"""A stream of events is the same events however the network cuts it."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.model.sse import Event, EventTooLarge, SseReader, event_bytes

STREAM = (
    b": keep-alive\n\n"
    b'event: message_start\ndata: {"type":"message_start"}\n\n'
    b"data: one\r\ndata: two\r\n\r\n"
    b"id: 7\rretry: 10\rdata: \xe2\x82\xac\r\r"
    b"data\n\n"
    b"data: [DONE]\n\n"
)


def read(chunks: list[bytes]) -> list[Event]:
    reader = SseReader()
    return [event for chunk in chunks for event in reader.feed(chunk)]


def test_lines_names_comments_and_several_data_lines_are_read() -> None:
    events = read([STREAM])
    assert [event.data for event in events] == [
        *(None, '{"type":"message_start"}', "one\ntwo", "\u20ac", "", "[DONE]"),
    ]
    assert events[1].name == "message_start"
    # Some readers take each line for an event of its own.
    one_line = STREAM.replace(b"data: one\r\ndata: two\r\n\r\n", b"data: one two\n\n")
    assert b"".join(event.raw for event in events) == one_line


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[begin:end] for begin, end in itertools.pairwise(edges)]
    assert read(chunks) == read([STREAM])


def test_byte_by_byte_is_the_same() -> None:
    assert read([STREAM[at : at + 1] for at in range(len(STREAM))]) == read([STREAM])


def test_what_is_left_at_the_end_is_told_as_an_event_once() -> None:
    reader = SseReader()
    assert reader.feed(b"data: half") == []
    assert [event.data for event in reader.last()] == ["half"]
    assert reader.last() == []


def test_an_event_without_end_is_refused_before_it_fills_the_memory() -> None:
    reader = SseReader(bytes_max=1_000)
    assert reader.feed(b"data: " + b"x" * 990) == []
    with pytest.raises(EventTooLarge):
        reader.feed(b"x" * 5)


def test_an_event_of_ours_is_read_back() -> None:
    assert read([event_bytes("ping", '{"a":1}')]) == [
        Event(raw=b'event: ping\ndata: {"a":1}\n\n', name="ping", data='{"a":1}')
    ]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_no_text_of_a_model_ends_a_line_for_any_reader(mark: str) -> None:
    inside = f'{{"type":"text","text":"a{mark}data: {{}}{mark}{mark}"}}'
    (event,) = read([f"data: {inside}\n\n".encode()])
    for raw in (event.raw, event_bytes("x", inside)):
        # `str.splitlines` is what readers in Python used for years.
        assert [line[:6] for line in raw.decode().splitlines() if line][-1:] == ["data: "]
        assert raw.decode().count("\n\n") == 1
        assert len([line for line in raw.decode().splitlines() if line.startswith("data")]) == 1
        data = read([raw])[0].data
        assert data is not None
        assert json.loads(data) == json.loads(inside)


def test_a_mark_before_a_line_hides_it_from_nobody() -> None:
    (event,) = read([b"\xef\xbb\xbfdata: {}\n\n"])
    assert (event.raw, event.data) == (b"data: {}\n\n", "{}")


def test_data_of_several_lines_stays_several_lines() -> None:
    assert read([event_bytes("", "one\ntwo")])[0].data == "one\ntwo"
