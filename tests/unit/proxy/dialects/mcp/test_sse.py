"""Events out of pieces: wherever a stream is cut, the same events come out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.mcp.sse import PING, BrokenStream, Event, EventReader

STREAM = (
    b"\xef\xbb\xbf: hello\r\n\r\n"
    b"id: 1\r\ndata:\r\n\r\n"
    b'event: message\r\nid: 2\ndata: {"a":\rdata:  "b"}\r\n\r\n'
    b"retry: 1500\n\n"
    b"event: other\ndata: x\n\n"
    b"id\ndata: y\r\r"
    b"unknown: z\n\n"
    b"data: never ended\n"
)
EVENTS = [
    Event(),
    Event(event_id="1", data=b""),
    Event(event_id="2", data=b'{"a":\n "b"}'),
    Event(retry=1500),
    Event(event="other", data=b"x"),
    Event(event_id="", data=b"y"),
    Event(),
]


def read(pieces: list[bytes], reader: EventReader | None = None) -> list[Event]:
    reader = reader or EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_the_grammar_of_the_standard() -> None:
    assert read([STREAM]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_of_a_stream_gives_the_same_events(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(places)]
    assert read(pieces) == EVENTS


def test_byte_by_byte_is_the_same() -> None:
    assert read([STREAM[at : at + 1] for at in range(len(STREAM))]) == EVENTS


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=20)


@given(
    st.builds(
        Event,
        data=st.none() | WORDS.map(str.encode),
        event=WORDS.map(lambda text: text.lstrip(" ") or "message"),
        event_id=st.none() | WORDS.map(lambda text: text.lstrip(" ")),
        retry=st.none() | st.integers(0, 999_999_999),
    )
)
def test_what_is_written_is_read_back(event: Event) -> None:
    assert read([event.encode()]) == [event]


def test_a_lone_comment_is_a_ping() -> None:
    assert Event().encode() == PING


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
    reader = EventReader(bytes_max=100 if len(b"".join(pieces)) < 1_000 else 10_000)
    with pytest.raises(BrokenStream):
        read(pieces, reader)


def test_the_limit_counts_per_event_not_per_stream() -> None:
    reader = EventReader(bytes_max=100)
    for _ in range(50):
        assert len(reader.feed(b"data: " + b"x" * 60 + b"\n\n")) == 1
