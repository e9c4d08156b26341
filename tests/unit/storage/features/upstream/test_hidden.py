"""What is due on servers behind about quarantined memories, and what is kept of what was done."""

from __future__ import annotations

import asyncio
import contextlib

from policy.model import ChangeKind, ForwardStatus, Hiding, MemoryId, Scope
from storage.embedded import EmbeddedStore
from storage.features.quarantine.hiding import EndQuarantine, Quarantine
from storage.features.upstream.upstream_hiding import (
    HIDDEN_THERE,
    HidingDue,
    RecordHiding,
    UpstreamHidingRecord,
)
from storage.ground.errors import UnknownMemory
from storage.values import Decision
from tests.unit.storage.features.upstream.test_closed_keys import take_away
from tests.unit.storage.features.upstream.test_intents import TARGET, intend, listed, settle
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    write,
)

OTHER = "mcp/another"


def put(store: EmbeddedStore, text: str, key: str = "Ada") -> MemoryId:
    """A memory that its server has."""
    outcome = intend(store, text, key)
    assert outcome.memory is not None
    assert settle(store, outcome.candidate_id, ForwardStatus.DONE) == 1
    return outcome.memory.memory_id


def hide(store: EmbeddedStore, memory_id: MemoryId) -> None:
    asyncio.run(store.writer.order(Quarantine(memory_id, TENANT, BY)))


def show(store: EmbeddedStore, memory_id: MemoryId) -> None:
    asyncio.run(store.writer.order(EndQuarantine(memory_id, TENANT, BY)))


def due(store: EmbeddedStore, hiding: Hiding = Hiding.TAG) -> list[tuple[str, Hiding, bool]]:
    found = store.hidden_behind.due(TARGET, hiding)
    return [(one.candidate.text or "", one.hiding, one.hides) for one in found]


def record(
    store: EmbeddedStore,
    one: HidingDue,
    *,
    done: bool = True,
    kept: bytes = b"",
    gone: bool = False,
) -> None:
    said = None if gone else UpstreamHidingRecord(TENANT, TARGET, one.hiding, done, kept)
    asyncio.run(store.hidden_behind.order(RecordHiding(((one.keyed, TENANT, said),))))


def only(store: EmbeddedStore, hiding: Hiding = Hiding.TAG) -> HidingDue:
    (one,) = store.hidden_behind.due(TARGET, hiding)
    return one


def test_what_is_quarantined_is_due_until_the_server_has_done_it_and_its_end_is(
    bench: Bench,
) -> None:
    store = bench.open()
    memory_id = put(store, "Ada sings")
    put(store, "Grace dances", key="Grace")
    assert due(store) == []
    before = store.hidden_behind.changes
    hide(store, memory_id)
    assert store.hidden_behind.changes != before
    assert due(store) == [("Ada sings", Hiding.TAG, True)]
    assert due(store, Hiding.SIFT) == []
    assert store.hidden_behind.due(OTHER, Hiding.TAG) == ()
    one = only(store)
    record(store, one, done=False)
    assert due(store) == [("Ada sings", Hiding.TAG, True)], "asked, and not answered"
    store.close()
    store = bench.open()
    record(store, only(store))
    assert due(store) == []
    show(store, memory_id)
    assert due(store) == [("Ada sings", Hiding.TAG, False)]
    record(store, one, gone=True)
    assert due(store) == []
    assert store.reader.check().problems == ()
    store.close()


def test_what_was_asked_is_undone_though_nobody_knows_whether_it_was_done(
    store: EmbeddedStore,
) -> None:
    memory_id = put(store, "Ada sings")
    hide(store, memory_id)
    record(store, only(store), done=False)
    show(store, memory_id)
    assert due(store) == [("Ada sings", Hiding.TAG, False)]


def test_another_mode_undoes_what_the_one_before_did(store: EmbeddedStore) -> None:
    hide(store, put(store, "Ada sings"))
    one = only(store)
    record(store, one)
    for mode in (Hiding.SIFT, Hiding.REMOVE):
        assert due(store, mode) == [("Ada sings", Hiding.TAG, False)]
    record(store, one, gone=True)
    assert due(store, Hiding.SIFT) == []
    assert due(store, Hiding.REMOVE) == [("Ada sings", Hiding.REMOVE, True)]


def test_the_newest_memory_under_a_key_decides_and_none_while_one_is_on_its_way(
    store: EmbeddedStore,
) -> None:
    first = put(store, "Ada sings")
    hide(store, first)
    one = only(store)
    record(store, one)
    newer = intend(store, "Ada dances")
    assert due(store) == []
    before = store.hidden_behind.changes
    settle(store, newer.candidate_id, ForwardStatus.DONE)
    assert store.hidden_behind.changes != before, "a server may have to show it again"
    assert due(store) == [("Ada dances", Hiding.TAG, False)]
    record(store, one, gone=True)
    assert due(store) == []
    # Control: once the newer one is hidden as well, so is the item.
    assert newer.memory is not None
    hide(store, newer.memory.memory_id)
    assert due(store) == [("Ada dances", Hiding.TAG, True)]


def test_nothing_is_kept_of_a_purged_memory_and_what_hides_it_stays(store: EmbeddedStore) -> None:
    memory_id = put(store, "Ada sings")
    hide(store, memory_id)
    one = only(store, Hiding.REMOVE)
    record(store, one, kept=b"Ada sings, as the server had it")
    purge = candidate_of(
        None, OPERATOR, change=ChangeKind.PURGE, memory_id=memory_id, scope=Scope(), target=TARGET
    )
    (outcome,) = write(store, submission_of(purge, OPERATOR))
    assert outcome.decision is Decision.ADMIT
    for again in (None, b"Ada sings, read a moment before the purge"):
        if again is not None:
            record(store, one, kept=again)
        with store.lmdb.reading() as view:
            (payload,) = [value for _, value in view.scan(b"hidden_there")]
        assert b"sings" not in payload
    assert due(store, Hiding.REMOVE) == []
    assert due(store, Hiding.SIFT) == []
    assert store.reader.check().problems == ()


def test_what_its_server_deleted_is_not_put_back_by_the_end_of_its_quarantine(
    store: EmbeddedStore,
) -> None:
    deleted, hidden = put(store, "Ada sings"), put(store, "Grace sings", "Grace")
    for memory_id in (deleted, hidden):
        hide(store, memory_id)
    for one in store.hidden_behind.due(TARGET, Hiding.REMOVE):
        record(store, one, kept=b"as the server had it")
    take_away(store)
    with store.lmdb.reading() as view:
        assert view.count(HIDDEN_THERE) == 1
    for memory_id in (deleted, hidden):
        with contextlib.suppress(UnknownMemory):
            show(store, memory_id)
    # The control is the second, which nobody deleted.
    assert due(store, Hiding.REMOVE) == [("Grace sings", Hiding.REMOVE, False)]
    assert listed(store) == ["Grace sings"]
    assert store.reader.check().problems == ()
