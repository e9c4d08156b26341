"""A stream of events is the same events however the network cuts it."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.sse import (
    PING,
    BrokenStream,
    Event,
    EventFields,
    FieldReader,
    RawReader,
    event_bytes,
)

STREAM = (
    b": keep-alive\n\n"
    b'event: message_start\ndata: {"type":"message_start"}\n\n'
    b"data: one\r\ndata: two\r\n\r\n"
    b"id: 7\rretry: 10\rdata: \xe2\x82\xac\r\r"
    b"data\n\n"
    b"data: [DONE]\n\n"
)

# The same grammar, whose fields are read.
SENT = (
    b"\xef\xbb\xbf: hello\r\n\r\n"
    b"id: 1\r\ndata:\r\n\r\n"
    b'event: message\r\nid: 2\ndata: {"a":\rdata:  "b"}\r\n\r\n'
    b"retry: 1500\n\n"
    b"event: other\ndata: x\n\n"
    b"id\ndata: y\r\r"
    b"unknown: z\n\n"
    b"data: never ended\n"
)
SAID = [
    EventFields(),
    EventFields(event_id="1", data=b""),
    EventFields(event_id="2", data=b'{"a":\n "b"}'),
    EventFields(retry=1500),
    EventFields(event="other", data=b"x"),
    EventFields(event_id="", data=b"y"),
    EventFields(),
]


def read(chunks: list[bytes]) -> list[Event]:
    reader = RawReader()
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


def test_what_is_left_at_the_end_is_told_as_an_event_once() -> None:
    reader = RawReader()
    assert reader.feed(b"data: half") == []
    assert [event.data for event in reader.last()] == ["half"]
    assert reader.last() == []


def test_an_event_without_end_is_refused_before_it_fills_the_memory() -> None:
    reader = RawReader(bytes_max=1_000)
    assert reader.feed(b"data: " + b"x" * 990) == []
    with pytest.raises(BrokenStream):
        reader.feed(b"x" * 5)


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


def said(pieces: list[bytes], reader: FieldReader | None = None) -> list[EventFields]:
    reader = reader or FieldReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_the_grammar_of_the_standard() -> None:
    assert said([SENT]) == SAID


@given(st.lists(st.integers(0, len(SENT)), max_size=12))
def test_any_cut_of_a_stream_gives_the_same_events(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(SENT)]
    pieces = [SENT[a:b] for a, b in itertools.pairwise(places)]
    assert said(pieces) == SAID


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=20)


@given(
    st.builds(
        EventFields,
        data=st.none() | WORDS.map(str.encode),
        event=WORDS.map(lambda text: text.lstrip(" ") or "message"),
        event_id=st.none() | WORDS.map(lambda text: text.lstrip(" ")),
        retry=st.none() | st.integers(0, 999_999_999),
    )
)
def test_what_is_written_is_read_back(event: EventFields) -> None:
    assert said([event.encode()]) == [event]


def test_a_lone_comment_is_a_ping() -> None:
    assert EventFields().encode() == PING


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * 200],
        [b"data: xxxxxxxxxx\n"] * 20,
        [b": comment without end "] * 20,
        [b"id: " + b"x" * 2_000 + b"\n"],
        [b"id: \xff\n"],
        [b"event: \xff\n"],
    ],
)
def test_too_long_or_not_text_breaks_the_stream(pieces: list[bytes]) -> None:
    reader = FieldReader(bytes_max=100 if len(b"".join(pieces)) < 1_000 else 10_000)
    with pytest.raises(BrokenStream):
        said(pieces, reader)


def test_the_limit_counts_per_event_not_per_stream() -> None:
    reader = FieldReader(bytes_max=100)
    for _ in range(50):
        assert len(reader.feed(b"data: " + b"x" * 60 + b"\n\n")) == 1


def test_a_whole_event_is_measured_where_its_fields_are_read() -> None:
    line = b"data: " + b"x" * 60 + b"\r\n"
    reader = FieldReader(bytes_max=2 * len(line) - 2)
    assert len(reader.feed(line + line + b"\r\n")) == 1, "the end of a line counts as one byte"
    with pytest.raises(BrokenStream):
        reader.feed(line + line + b":\r\n\r\n")


def test_of_raw_events_only_what_waits_is_measured_with_its_line_ends() -> None:
    line = b"data: " + b"x" * 60 + b"\r\n"
    reader = RawReader(bytes_max=len(line))
    assert len(reader.feed(line + line + b"\r\n")) == 1
    assert reader.feed(line) == []
    with pytest.raises(BrokenStream):
        reader.feed(b":")


@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"event: e", b"id: 1", b":"]), max_size=12))
def test_every_byte_of_a_plain_stream_is_in_one_raw_event(parts: list[bytes]) -> None:
    reader = RawReader()
    events = [event for part in parts for event in reader.feed(part)]
    assert b"".join(event.raw for event in [*events, *reader.last()]) == b"".join(parts)
