"""What is under quarantine is in no read and comes back whole, over restarts and beside readers."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from policy.model import ChangeKind, MemoryId, MemoryStatus, Tenant
from policy.query import EVERYTHING, Compare, Field
from policy.query import Test as Condition
from storage.audit import OperatorLeaf, decode_leaf
from storage.embedded import EmbeddedStore
from storage.features.quarantine.hiding import EndQuarantine, Quarantine
from storage.features.trust import RestoreTrust
from storage.ground.errors import UnknownMemory
from storage.tables.names import LEAVES
from storage.values import Outcome, Visibility
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    vector_of,
    write,
)

ADA = Condition(field=Field.USER_ID, compare=Compare.EQ, values=("ada",))


def _id(outcome: Outcome) -> MemoryId:
    assert outcome.memory is not None
    return outcome.memory.memory_id


def _quarantine(store: EmbeddedStore, memory_id: MemoryId, reason: str = "") -> Visibility:
    return asyncio.run(store.writer.order(Quarantine(memory_id, TENANT, BY, reason)))


def _parole(store: EmbeddedStore, memory_id: MemoryId) -> Visibility:
    return asyncio.run(store.writer.order(EndQuarantine(memory_id, TENANT, BY)))


def _seen(store: EmbeddedStore, memory_id: MemoryId, text: str) -> dict[str, bool]:
    """By which reads the memory can be found."""
    reader = store.reader
    hits = reader.search(TENANT, vector_of(text), EVERYTHING, 1, 0.99)
    filtered = reader.page(TENANT, ADA, 0, 100)
    return {
        "get": reader.get(TENANT, memory_id) is not None,
        "page": memory_id
        in {one.memory_id for one in reader.page(TENANT, EVERYTHING, 0, 9).memories},
        "filtered page": memory_id in {one.memory_id for one in filtered.memories},
        "search": [hit.memory.memory_id for hit in hits] == [memory_id],
        "history": reader.history(TENANT, memory_id) != (),
        "entities": sum(entity.count for entity in reader.entities(TENANT).entities) == 2,
        "counted": reader.status().live_count == 2 == filtered.total,
    }


def test_quarantine_hides_a_memory_from_every_read_and_parole_shows_it_again(bench: Bench) -> None:
    store = bench.open()
    text = "The invoice goes to Acme."
    memory_id = _id(say(store, text))
    say(store, "Ada likes tea.")
    assert all(_seen(store, memory_id, text).values())  # control: each of these reads finds it

    standing = _quarantine(store, memory_id)
    assert (standing.status, standing.changed) == (MemoryStatus.QUARANTINED, True)
    assert not any(_seen(store, memory_id, text).values())
    kept = store.quarantined.get(TENANT, memory_id)
    assert kept is not None
    assert (kept.text, kept.status) == (text, MemoryStatus.QUARANTINED)
    assert [one.memory_id for one in store.quarantined.find(TENANT)] == [memory_id]
    assert len(store.quarantined.history(TENANT, memory_id)) == 1
    assert store.quarantined.find(Tenant("other")) == ()

    store.close()
    store = bench.open()
    assert not any(_seen(store, memory_id, text).values())
    assert store.reader.check().problems == ()
    _parole(store, memory_id)
    assert all(_seen(store, memory_id, text).values())
    assert store.quarantined.find(TENANT) == ()
    store.close()
    store = bench.open()
    assert all(_seen(store, memory_id, text).values())
    assert store.reader.check().problems == ()
    store.close()


def test_a_memory_comes_back_although_its_place_in_the_lists_was_given_up(
    store: EmbeddedStore,
) -> None:
    ids = [_id(say(store, f"note {number}")) for number in range(40)]
    for memory_id in ids[:30]:  # more than half: the lists are sifted
        _quarantine(store, memory_id)
    assert store.reader.page(TENANT, ADA, 0, 100).total == 10
    for memory_id in reversed(ids[:30]):
        _parole(store, memory_id)
    found = [one.memory_id for one in store.reader.page(TENANT, ADA, 0, 100).memories]
    assert found == ids[::-1]
    (writer, state), *_ = store.reader.all_trust()
    assert state.latched, "so many were quarantined by hand"
    asyncio.run(store.writer.order(RestoreTrust(writer, BY)))
    assert all(_id(say(store, "one more")) for _ in range(2))
    assert store.reader.page(TENANT, ADA, 0, 100).total == 42


def test_a_second_command_of_the_same_changes_nothing_and_leaves_no_leaf(
    store: EmbeddedStore,
) -> None:
    memory_id = _id(say(store, "Ada likes tea."))
    assert not _parole(store, memory_id).changed
    first = _quarantine(store, memory_id, "looked wrong")
    leaves = store.reader.status().leaf_count
    again = _quarantine(store, memory_id)
    assert (again.changed, again.leaf_index) == (False, None)
    assert store.reader.status().leaf_count == leaves
    assert store.reader.status().version == 1, "a quarantine admits nothing"
    with store.lmdb.reading() as view:
        data = dict(view.scan(LEAVES))[(first.leaf_index or 0).to_bytes(8, "big")]
    leaf = decode_leaf(data)
    assert isinstance(leaf, OperatorLeaf)
    assert (leaf.action, leaf.subject, leaf.by) == ("memory.quarantine", memory_id, BY)
    assert leaf.detail == "default: looked wrong"


def test_a_clients_own_id_is_not_copied_into_the_log(store: EmbeddedStore) -> None:
    secret = MemoryId("my own words")
    landed = say(store, "Ada likes tea.", memory_id=secret)
    done = _quarantine(store, secret)
    assert done.changed
    with store.lmdb.reading() as view:
        leaves = [data for _, data in view.scan(LEAVES)]
    assert b"my own words" not in b"".join(leaves)
    leaf = decode_leaf(leaves[done.leaf_index or 0])
    assert isinstance(leaf, OperatorLeaf)
    assert leaf.subject == f"candidate {landed.candidate_id}"


def test_what_is_not_there_cannot_be_quarantined(store: EmbeddedStore) -> None:
    memory_id = _id(say(store, "Ada likes tea."))
    with pytest.raises(UnknownMemory):
        _quarantine(store, MemoryId("00000000-0000-4000-8000-000000000000"))
    with pytest.raises(UnknownMemory):
        asyncio.run(store.writer.order(Quarantine(memory_id, Tenant("other"), BY)))
    gone = candidate_of(None, OPERATOR, change=ChangeKind.DELETE, memory_id=memory_id)
    write(store, submission_of(gone, OPERATOR))
    with pytest.raises(UnknownMemory):
        _quarantine(store, memory_id)


def test_for_its_agent_a_quarantined_memory_does_not_exist_and_its_retry_does_not_show_it(
    store: EmbeddedStore,
) -> None:
    candidate = candidate_of("Ada likes tea.")
    submission = submission_of(candidate)
    memory_id = _id(write(store, submission)[0])
    again = msgspec.structs.replace(submission, candidate_id=submission_of(candidate).candidate_id)
    assert write(store, again)[0].memory is not None  # control: the retry shows it while it lives
    change = candidate_of("Ada likes rum.", change=ChangeKind.UPDATE, memory_id=memory_id)
    _quarantine(store, memory_id)
    retried = msgspec.structs.replace(
        submission, candidate_id=submission_of(candidate).candidate_id
    )
    assert write(store, retried)[0].memory is None
    outcome = write(store, submission_of(change))[0]
    assert (outcome.decision.value, outcome.reason and outcome.reason.value) == (
        "reject",
        "target_missing",
    )
    purge = candidate_of(None, OPERATOR, change=ChangeKind.PURGE, memory_id=memory_id)
    assert write(store, submission_of(purge, OPERATOR))[0].decision.value == "admit"
    assert store.quarantined.get(TENANT, memory_id) is None
    assert store.reader.check().problems == ()
