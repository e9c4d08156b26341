"""From rows to what a read shows: what an update left alone is there, a purge or old row is not."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from policy.model import CandidateId, ChangeKind, MemoryId, MemoryStatus, Scope
from storage.embedded import EmbeddedStore
from storage.ground.errors import StoreCorrupt
from storage.tables.codec import NO_ORDINAL
from storage.tables.expiry import expiry_ms
from storage.tables.rows import candidate_of as stored_candidate
from storage.tables.rows import chain, held_key, history_of, memory_of, read_row, text_of
from storage.values import Outcome, Row
from tests.unit.storage.opening import OPERATOR, Bench, candidate_of, submission_of, write


def apply(
    store: EmbeddedStore, change: ChangeKind, memory_id: MemoryId | None, **fields: object
) -> Outcome:
    candidate = candidate_of(
        fields.pop("text", None),  # type: ignore[arg-type]
        OPERATOR,
        change=change,
        memory_id=memory_id,
        **fields,
    )
    return write(store, submission_of(candidate, OPERATOR))[0]


@pytest.fixture
def memory_id(store: EmbeddedStore) -> MemoryId:
    made = apply(
        store,
        ChangeKind.CREATE,
        None,
        text="Tea is at four.",
        metadata_json='{"a":1}',
        role="user",
        actor="ada",
        expires_at="2999-01-01",
    )
    assert made.memory is not None
    return made.memory.memory_id


def rows_of(store: EmbeddedStore) -> list[Row]:
    with store.lmdb.reading() as view:
        header = view.header()
        assert header is not None
        return chain(view, header.next_ordinal - 1)


def test_an_update_of_one_field_keeps_all_the_others(
    store: EmbeddedStore, memory_id: MemoryId
) -> None:
    apply(store, ChangeKind.UPDATE, memory_id, metadata_json='{"b":2}', scope=Scope())
    apply(store, ChangeKind.UPDATE, memory_id, text="Tea is at five.", scope=Scope())
    rows = rows_of(store)
    shown = memory_of(rows[-1], MemoryStatus.LIVE)
    assert (shown.text, shown.metadata_json) == ("Tea is at five.", '{"b":2}')
    assert (shown.role, shown.actor, shown.expires_at) == ("user", "ada", "2999-01-01")
    assert shown.scope == Scope(user_id="ada")
    assert text_of(rows[1])[0] == "Tea is at four."
    assert shown.created_at_ms == memory_of(rows[0], MemoryStatus.LIVE).created_at_ms


def test_history_shows_each_text_beside_the_one_before(
    store: EmbeddedStore, memory_id: MemoryId
) -> None:
    apply(store, ChangeKind.UPDATE, memory_id, text="Tea is at five.", scope=Scope())
    apply(store, ChangeKind.DELETE, memory_id)
    steps = [(one.change, one.old_text, one.new_text) for one in history_of(rows_of(store))]
    assert steps == [
        (ChangeKind.CREATE, None, "Tea is at four."),
        (ChangeKind.UPDATE, "Tea is at four.", "Tea is at five."),
        (ChangeKind.DELETE, "Tea is at five.", None),
    ]


def test_a_purge_leaves_steps_without_a_word(store: EmbeddedStore, memory_id: MemoryId) -> None:
    first = rows_of(store)[0]
    assert stored_candidate(first).text == "Tea is at four.", "control"
    apply(store, ChangeKind.PURGE, memory_id)
    with store.lmdb.reading() as view:
        erased = read_row(view, 0)
    assert erased.erased
    assert [one.new_text for one in history_of([erased, *rows_of(store)])] == [None, None]
    with pytest.raises(StoreCorrupt):
        stored_candidate(erased)


def test_a_row_that_is_missing_or_no_candidate_is_corruption(
    store: EmbeddedStore, memory_id: MemoryId
) -> None:
    row = rows_of(store)[0]
    with store.lmdb.reading() as view, pytest.raises(StoreCorrupt, match="row 99"):
        read_row(view, 99)
    with pytest.raises(StoreCorrupt):
        stored_candidate(msgspec.structs.replace(row, canonical=row.canonical[:-1]))


def test_a_chain_of_nothing_is_empty(bench: Bench) -> None:
    store = bench.open()
    with store.lmdb.reading() as view:
        assert chain(view, NO_ORDINAL) == []
    store.close()


@pytest.mark.parametrize("given", ["", "zz" * 16, "ab" * 15, "ab" * 17, "../" * 11, "é" * 32])
def test_what_cannot_be_a_candidates_id_finds_nothing(given: str) -> None:
    assert held_key(CandidateId("ab" * 16)) == b"\xab" * 16
    assert held_key(CandidateId(given)) is None


def test_a_long_history_is_told_from_its_newest_end(
    store: EmbeddedStore, memory_id: MemoryId
) -> None:
    for hour in range(5):
        apply(store, ChangeKind.UPDATE, memory_id, text=f"Tea is at {hour}.", scope=Scope())
    whole = rows_of(store)
    assert len(whole) == 6
    with store.lmdb.reading() as view:
        newest = whole[-1].version - 1
        assert chain(view, newest, 0) == whole[-1:]
        room = sum(len(row.canonical) + len('{"a":1}') for row in whole[-3:])
        assert chain(view, newest, room) == whole[-3:]
        assert chain(view, newest, 1 << 30) == whole


YEAR_10000_MS = 253_402_300_800_000


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("9999-12-31", YEAR_10000_MS),
        ("9999-12-31T23:59:59-23:59", YEAR_10000_MS + 86_339_000),
        ("0001-01-01T00:00:00+23:59", -62_135_683_140_000 - 14_400_000),
        ("not a date", 0),
    ],
)
def test_the_first_and_last_day_of_the_calendar_have_an_expiry(written: str, expected: int) -> None:
    assert abs(expiry_ms(written) - expected) <= 86_400_000


def test_a_date_lasts_until_its_end_and_a_moment_until_itself() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert expiry_ms(noon.isoformat()) == int(noon.timestamp() * 1_000)
    assert expiry_ms("2026-03-01") == int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1_000)
