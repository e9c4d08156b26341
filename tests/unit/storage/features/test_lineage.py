"""A lineage names each source and each descendant once, nearest first, without a text."""

from __future__ import annotations

import asyncio

import msgspec

from policy.model import ChangeKind, MemoryId, Scope
from storage.embedded import EmbeddedStore
from storage.features.lineage import Kinship, Lineage, LineageNode
from storage.features.quarantine.hiding import Quarantine
from tests.unit.storage.features.incidents.test_isolation import SMALL, derived, id_of
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)


def nodes(
    store: EmbeddedStore, memory_id: MemoryId, offset: int = 0, limit: int = 500
) -> tuple[LineageNode, ...]:
    return store.of(Lineage).nodes(TENANT, memory_id, offset, limit)


def ended(store: EmbeddedStore, memory_id: MemoryId, change: ChangeKind) -> None:
    gone = candidate_of(None, OPERATOR, change=change, memory_id=memory_id, scope=Scope())
    write(store, submission_of(gone, OPERATOR))


def test_a_lineage_names_what_a_memory_was_made_of_and_what_was_made_of_it(bench: Bench) -> None:
    store = bench.open(options=SMALL)
    first, second = id_of(say(store, "canary one")), id_of(say(store, "canary two"))
    middle = derived(store, "canary three", first, second)
    child = derived(store, "canary four", middle)
    grandchild = derived(store, "canary five", child, first)
    stranger = id_of(say(store, "canary six"))
    asyncio.run(store.writer.order(Quarantine(child, TENANT, BY)))
    ended(store, second, ChangeKind.PURGE)
    found = nodes(store, middle)
    assert [(one.memory, one.kinship, one.through, one.status) for one in found] == [
        (middle, Kinship.ITSELF, None, "live"),
        (first, Kinship.SOURCE, middle, "live"),
        (second, Kinship.SOURCE, middle, "purged"),
        (child, Kinship.DESCENDANT, middle, "quarantined"),
        (grandchild, Kinship.DESCENDANT, child, "live"),
    ]
    memory = store.reader.get(TENANT, grandchild)
    assert memory is not None
    assert found[4].memory_class is memory.memory_class
    assert found[4].leaf_index == store.reader.history(TENANT, grandchild)[-1].leaf_index
    assert b"canary" not in msgspec.json.encode(found)
    assert b"canary" in msgspec.json.encode(memory)
    assert [one.memory for one in nodes(store, stranger)] == [stranger]
    assert nodes(store, MemoryId("00000000-0000-4000-8000-000000000000")) == ()


def test_slices_of_a_lineage_are_the_whole_of_it_in_order(bench: Bench) -> None:
    store = bench.open(options=SMALL)
    root = id_of(say(store, "the root"))
    for number in range(7):
        derived(store, f"made {number}", root)
    whole = nodes(store, root)
    assert len(whole) == 8
    slices = [nodes(store, root, offset, 3) for offset in (0, 3, 6, 9)]
    assert tuple(one for part in slices for one in part) == whole
