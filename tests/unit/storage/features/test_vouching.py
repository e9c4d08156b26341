"""A person's word for what is stored raises its label, leaves a leaf, and can be recomputed."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from policy.model import (
    Basis,
    ChangeKind,
    Memory,
    MemoryId,
    Scope,
    SourceKind,
    Tenant,
)
from storage.audit import OperatorLeaf, decode_leaf
from storage.embedded import EmbeddedStore
from storage.features.vouch import Vouch
from storage.ground.errors import MemoryMoved, UnknownMemory
from storage.tables.codec import encode, ordinal_key
from storage.tables.lmdb_store import ROWS
from storage.tables.rows import read_row
from storage.values import Decision
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

HERS = (SourceKind.USER_INPUT, Basis.CONFIRMATION)


def label_of(memory: Memory | None) -> tuple[SourceKind, Basis]:
    assert memory is not None
    return memory.source, memory.basis


def noted(store: EmbeddedStore, text: str = "Ada flies from Lisbon.") -> Memory:
    """A note whose writer nothing proves."""
    outcome = say(store, text)
    assert outcome.memory is not None
    return outcome.memory


def test_row_outcome_history_and_leaf_agree_on_the_label(store: EmbeddedStore) -> None:
    memory = noted(store)
    expected = (SourceKind.UNKNOWN, Basis.UNPROVEN)
    assert label_of(memory) == expected
    assert label_of(store.reader.get(TENANT, memory.memory_id)) == expected
    (step,) = store.reader.history(TENANT, memory.memory_id)
    assert step.source is SourceKind.UNKNOWN
    assert store.reader.check().problems == ()


def test_a_memory_that_a_person_vouched_for_is_hers_and_the_log_says_so(
    store: EmbeddedStore, bench: Bench
) -> None:
    memory = noted(store)
    done = asyncio.run(store.writer.order(Vouch(memory.memory_id, TENANT, BY, memory.version)))
    assert done.changed
    after = store.reader.get(TENANT, memory.memory_id)
    assert label_of(after) == HERS
    assert after is not None
    assert (after.text, after.version, after.memory_class, after.principal_id) == (
        *(memory.text, memory.version, memory.memory_class, memory.principal_id),
    )
    (data,) = store.audit.leaves(done.leaf_index or 0, 1)
    leaf = decode_leaf(data)
    assert isinstance(leaf, OperatorLeaf)
    assert (leaf.action, leaf.subject) == ("memory.vouch", f"candidate {memory.candidate_id}")
    assert leaf.by == BY
    assert memory.text not in str(leaf)
    assert store.reader.check().problems == ()
    store.close()
    again = bench.open()
    assert label_of(again.reader.get(TENANT, memory.memory_id)) == HERS
    assert again.reader.check().problems == ()
    again.close()


def test_to_vouch_again_changes_nothing(store: EmbeddedStore) -> None:
    memory = noted(store)
    for changed in (True, False):
        done = asyncio.run(store.writer.order(Vouch(memory.memory_id, TENANT, BY, memory.version)))
        assert done.changed is changed
    operators = say(store, "Refunds take a day.", OPERATOR).memory
    assert operators is not None
    done = asyncio.run(
        store.writer.order(Vouch(operators.memory_id, TENANT, BY, operators.version))
    )
    assert not done.changed
    assert label_of(store.reader.get(TENANT, operators.memory_id))[0] is SourceKind.OPERATOR


def test_nobody_vouches_for_what_was_not_shown(store: EmbeddedStore) -> None:
    memory = noted(store)
    change = {"change": ChangeKind.UPDATE, "memory_id": memory.memory_id, "scope": Scope()}
    update = candidate_of("Ada flies from Porto.", OPERATOR, **change)
    (outcome,) = write(store, submission_of(update, OPERATOR))
    assert outcome.decision is Decision.ADMIT
    leaves = store.audit.head().size
    with pytest.raises(MemoryMoved):
        asyncio.run(store.writer.order(Vouch(memory.memory_id, TENANT, BY, memory.version)))
    for memory_id, tenant in (
        (MemoryId("0" * 8 + "-0000-4000-8000-" + "0" * 12), TENANT),
        (memory.memory_id, Tenant("other")),
    ):
        with pytest.raises(UnknownMemory):
            asyncio.run(store.writer.order(Vouch(memory_id, tenant, BY, memory.version)))
    assert store.audit.head().size == leaves


def test_what_is_made_of_a_memory_later_is_vouched_for_by_nobody(store: EmbeddedStore) -> None:
    memory = noted(store)
    asyncio.run(store.writer.order(Vouch(memory.memory_id, TENANT, BY, memory.version)))
    change = {"change": ChangeKind.UPDATE, "memory_id": memory.memory_id, "scope": Scope()}
    (held,) = write(store, submission_of(candidate_of("Ada flies from Rome.", **change)))  # type: ignore[arg-type]
    assert held.decision is Decision.HOLD
    part = candidate_of(None, OPERATOR, metadata_json='{"a":1}', **change)
    (outcome,) = write(store, submission_of(part, OPERATOR))
    assert label_of(outcome.memory)[0] is HERS[0]
    purge = {"change": ChangeKind.PURGE, "memory_id": memory.memory_id, "scope": Scope()}
    (gone,) = write(store, submission_of(candidate_of(None, OPERATOR, **purge), OPERATOR))
    assert gone.decision is Decision.ADMIT
    assert store.reader.check().problems == ()


def test_a_row_that_was_raised_without_a_leaf_is_found(store: EmbeddedStore) -> None:
    memory = noted(store)
    engine = store._engine  # pyright: ignore[reportPrivateUsage]
    draft = engine.parts.store.begin()
    row = read_row(draft, 0)
    assert row.candidate_id == memory.candidate_id
    raised = msgspec.structs.replace(row, source=SourceKind.USER_INPUT)
    draft.put(ROWS, ordinal_key(0), encode(raised))
    draft.commit()
    assert store.reader.check().problems == ("row 0 says something else than its leaf",)


def test_a_released_candidate_is_the_persons(store: EmbeddedStore) -> None:
    held = say(store, "Ada prefers the window seat", instructions=True)
    assert held.decision is Decision.HOLD
    (waiting,) = store.reader.held()
    assert waiting.source is SourceKind.UNKNOWN
    outcome = asyncio.run(store.writer.release(held.candidate_id, BY))
    assert label_of(outcome.memory) == HERS
    assert (outcome.source, outcome.basis) == HERS
    assert store.reader.check().problems == ()


def test_what_derives_from_an_unproven_note_is_unproven(store: EmbeddedStore) -> None:
    memory = noted(store)
    derived = candidate_of("Ada travels by air.", OPERATOR, derived_from=(memory.memory_id,))
    (outcome,) = write(store, submission_of(derived, OPERATOR))
    assert label_of(outcome.memory) == (SourceKind.UNKNOWN, Basis.LINEAGE)
