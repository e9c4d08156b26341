"""From rows to what a read shows, and the keyed names that rows have."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.model import CandidateId, ChangeKind, MemoryId, MemoryStatus, PrincipalId, Scope, Tenant
from storage.audit import candidate_of as stored_candidate
from storage.embedded import EmbeddedStore
from storage.ground.errors import StoreCorrupt
from storage.tables.codec import NO_ORDINAL
from storage.tables.keys import KeyedNames, named_incarnation
from storage.tables.rows import chain, expiry_ms, held_key, history_of, memory_of, read_row, text_of
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


NAMES = KeyedNames(b"k" * 32)


@given(secret=st.binary(min_size=1, max_size=64), nonce=st.text(max_size=80))
def test_names_are_keyed_blake2b(secret: bytes, nonce: str) -> None:
    principal = PrincipalId("agent-1")
    parts = msgspec.msgpack.encode([b"nonce", principal, nonce])
    expected = hashlib.blake2b(parts, digest_size=16, key=secret).digest()
    assert KeyedNames(secret).nonce(principal, nonce) == expected


def test_no_two_lists_of_parts_share_a_name() -> None:
    names = {
        NAMES.memory(Tenant("a"), MemoryId("bc")),
        NAMES.memory(Tenant("ab"), MemoryId("c")),
        NAMES.nonce(PrincipalId("a"), "bc"),
        NAMES.anchor(Tenant("a"), "bc"),
        NAMES.api_key("abc"),
        NAMES.principal(PrincipalId("abc")),
        KeyedNames(b"K" * 32).api_key("abc"),
    }
    assert len(names) == 7


def test_the_id_of_a_clients_own_key_is_a_uuid_of_tenant_and_key_that_needs_the_secret() -> None:
    own = NAMES.own(Tenant("a"), "bc")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", own)
    assert own == KeyedNames(b"k" * 32).own(Tenant("a"), "bc")
    others = {
        NAMES.own(Tenant("b"), "bc"),
        NAMES.own(Tenant("ab"), "c"),
        NAMES.own(Tenant("a"), "bd"),
        KeyedNames(b"K" * 32).own(Tenant("a"), "bc"),
        NAMES.own(Tenant("a"), "bc", 1),
        NAMES.own(Tenant("a"), "bc", 2),
    }
    assert len({own, *others}) == 7


@pytest.mark.parametrize("field", ["text", "target", "nonce", "principal_id"])
def test_the_binding_changes_with_digest_principal_target_and_nonce(field: str) -> None:
    first = submission_of(candidate_of("text", nonce="n"))
    values: dict[str, str] = {"text": "text", "nonce": "n"}
    other = submission_of(candidate_of(**(values | {field: "other"})))  # type: ignore[arg-type]
    assert NAMES.binding(first.candidate, first.digest) != NAMES.binding(
        other.candidate, other.digest
    )


@pytest.mark.parametrize("field", ["target", "nonce", "principal_id"])
def test_the_binding_names_each_of_them_beside_the_digest(field: str) -> None:
    """The digest covers them all; the binding does not rest on that alone."""
    first = submission_of(candidate_of("text", nonce="n"))
    other = msgspec.structs.replace(first.candidate, **{field: "other"})
    assert NAMES.binding(first.candidate, first.digest) != NAMES.binding(other, first.digest)


@pytest.mark.parametrize(
    ("nonce", "incarnation"),
    [
        ("0123456789abcdef-0:x", "0123456789abcdef-0"),
        ("0123456789abcdef-12:", "0123456789abcdef-12"),
        ("0123456789abcdef:x", None),
        ("order:77", None),
        ("0123456789ABCDEF-0:x", None),
        (" 0123456789abcdef-0:x", None),
        ("", None),
    ],
)
def test_only_a_whole_incarnation_is_one(nonce: str, incarnation: str | None) -> None:
    assert named_incarnation(nonce) == incarnation
