"""A row opens in its own place of its own history, and nowhere else."""

from __future__ import annotations

from unittest.mock import Mock

import msgspec
import pytest

from storage.ground.errors import StoreCorrupt
from storage.journal.protocol import JournalRow, Stream
from storage.journal.sealing import TERM_LEN, Position, Sealing, Write
from storage.journal.segment_keys import SegmentKeys

SECRET = b"s" * 32
TERM, NEXT_TERM = b"1" * TERM_LEN, b"2" * TERM_LEN
WRITES = [Write(b"rows", b"key", b"the text"), Write(b"ids", b"key", None)]
START = Position()


@pytest.fixture
def sealing() -> Sealing:
    return Sealing(SECRET, "shard", Stream.STORE)


def first(sealing: Sealing) -> tuple[JournalRow, Position]:
    row = sealing.seal(WRITES, START, TERM, range(1))
    return row, Position(row.seq, TERM)


def test_a_row_has_no_word_of_its_writes_and_opens_to_them(sealing: Sealing) -> None:
    row, at = first(sealing)
    assert b"text" not in row.body
    batch, position = sealing.open(row, START)
    assert (list(batch.writes), position) == (WRITES, at)


def test_the_rows_of_a_term_and_of_the_next_one_follow_each_other(sealing: Sealing) -> None:
    _, at = first(sealing)
    second = sealing.seal(WRITES, at, TERM, range(1, 2))
    _, at = sealing.open(second, at)
    third = sealing.seal(WRITES, at, NEXT_TERM, range(2, 3))
    assert sealing.open(third, at)[1] == Position(3, NEXT_TERM)


def _changed(row: JournalRow, **fields: object) -> JournalRow:
    return msgspec.structs.replace(row, **fields)


def test_a_changed_row_does_not_open(sealing: Sealing) -> None:
    row, _ = first(sealing)
    for changed in (
        _changed(row, first_ordinal=9),
        _changed(row, next_ordinal=9),
        _changed(row, body=row.body[:4] + b"3" * TERM_LEN + row.body[4 + TERM_LEN :]),
        _changed(row, body=row.body[:-1] + bytes((row.body[-1] ^ 1,))),
        _changed(row, body=row.body[:20]),
        _changed(row, body=b""),
    ):
        with pytest.raises(StoreCorrupt, match="does not open"):
            sealing.open(changed, START)
    assert sealing.open(_changed(row), START)[1] == Position(1, TERM)


def test_a_row_of_an_older_version_is_refused_as_one(sealing: Sealing) -> None:
    row, _ = first(sealing)
    older = _changed(row, body=row.body.removeprefix(b"MNJ2"))
    for keys in (None, Mock(spec=SegmentKeys)):
        with pytest.raises(StoreCorrupt, match=r"row 1 .* another version .* another format"):
            Sealing(SECRET, "shard", Stream.STORE, keys).open(older, START)


def test_a_row_that_was_moved_or_stands_twice_does_not_open(sealing: Sealing) -> None:
    row, at = first(sealing)
    with pytest.raises(StoreCorrupt, match=r"row 2 .* does not open"):
        sealing.open(row, at)
    second = sealing.seal(WRITES, at, TERM, range(1, 2))
    with pytest.raises(StoreCorrupt, match=r"row 1 .* does not open"):
        sealing.open(second, START)


@pytest.mark.parametrize(
    "other",
    [
        Sealing(b"t" * 32, "shard", Stream.STORE),
        Sealing(SECRET, "other", Stream.STORE),
        Sealing(SECRET, "shard", Stream.SESSIONS),
    ],
)
def test_a_row_of_another_store_stream_or_secret_does_not_open(
    sealing: Sealing, other: Sealing
) -> None:
    row, _ = first(other)
    with pytest.raises(StoreCorrupt, match="does not open"):
        sealing.open(row, START)


def test_a_row_of_another_history_with_the_same_number_is_refused(sealing: Sealing) -> None:
    _, at = first(sealing)
    # Two holders that were promoted in two databases continued from the same row.
    here = sealing.seal(WRITES, at, NEXT_TERM, range(1, 2))
    _, here_at = sealing.open(here, at)
    there = sealing.seal(WRITES, Position(2, b"4" * TERM_LEN), b"4" * TERM_LEN, range(2, 3))
    with pytest.raises(StoreCorrupt, match="of another history"):
        sealing.open(there, here_at)
    # The first row of a term names the row before it, so it follows no other.
    taken_over = sealing.seal(WRITES, Position(2, TERM), b"5" * TERM_LEN, range(2, 3))
    with pytest.raises(StoreCorrupt, match="of another history"):
        sealing.open(taken_over, here_at)
    sealing.open(sealing.seal(WRITES, here_at, NEXT_TERM, range(2, 3)), here_at)
