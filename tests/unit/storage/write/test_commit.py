"""A permit opens exactly what was judged, once; anything else puts nothing into the transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from policy.canonical import canonical_bytes
from policy.facts import TargetState
from policy.gate import GATE
from policy.model import ChangeKind, MemoryClass, MemoryStatus, SourceKind
from policy.ruleset import parse_ruleset
from policy.verdict import Admit, InvariantBroken, Permit
from storage.audit import SALT_LEN, Tree
from storage.ground.errors import StalePermit
from storage.tables.change import Change, ChangeContext, Generation
from storage.tables.codec import StoreHeader
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import IDS, LEAVES, ROWS, VECTORS, LmdbStore
from storage.write.commit import Committer
from storage.write.seam import AdmittedCandidate
from tests.property.gate_cases import Labels, case_of
from tests.unit.storage.opening import EMBEDDER, RULESET_TEXT, vector_of

NOW_MS = 1_750_000_000_000
EPOCH = 4
RULESET = parse_ruleset(RULESET_TEXT, epoch=EPOCH)
HEADER = StoreHeader(
    incarnation="0" * 16,
    restores=0,
    version=7,
    epoch=EPOCH,
    ruleset_digest=RULESET.digest,
    embedder_id=EMBEDDER,
    dimension=8,
    next_ordinal=0,
    leaf_count=0,
    live_count=0,
    held_count=0,
    created_at_ms=NOW_MS,
)


@pytest.fixture
def change(tmp_path: Path) -> Iterator[Change]:
    (tmp_path / "store").mkdir()
    store = LmdbStore(tmp_path / "store", 1 << 26)
    store.open(bootstrapped=False)
    draft = store.begin()
    around = ChangeContext(
        names=KeyedNames(b"secret"),
        ruleset=RULESET,
        room_bytes=1 << 26,
        failpoint=lambda name: None,
    )
    yield Change(draft, Generation(header=HEADER, tree=Tree()), NOW_MS, around)
    draft.abort()
    store.close()


def admitted(labels: Labels) -> tuple[Permit, AdmittedCandidate]:
    candidate, facts = case_of(labels)
    verdict = GATE.decide(candidate, facts, RULESET)
    assert isinstance(verdict, Admit), verdict
    judged = AdmittedCandidate(
        candidate=candidate,
        canonical=canonical_bytes(candidate),
        salt=bytes(SALT_LEN),
        intercepted_index=0,
        trust_level="trusted",
        vector=vector_of("a text"),
        embedder_id=EMBEDDER,
    )
    return verdict.permit, judged


def committer(required: frozenset[int] = GATE.required) -> Committer:
    return Committer(required, ())


def put(change: Change) -> dict[bytes, int]:
    return {table: change.draft.count(table) for table in (ROWS, IDS, VECTORS, LEAVES)}


def untouched(change: Change) -> bool:
    return change.version == HEADER.version and not any(put(change).values())


def test_an_admitted_candidate_becomes_row_id_vector_leaf_and_one_version(change: Change) -> None:
    permit, judged = admitted(Labels())
    landed = committer().commit(change, permit, judged, EPOCH)
    assert put(change) == {ROWS: 1, IDS: 1, VECTORS: 1, LEAVES: 1}
    assert change.version == landed.row.version == HEADER.version + 1
    assert landed.row.canonical == judged.canonical


def test_a_permit_is_spent_by_its_commit(change: Change) -> None:
    permit, judged = admitted(Labels())
    committer().commit(change, permit, judged, EPOCH)
    with pytest.raises(InvariantBroken, match="spent twice"):
        committer().commit(change, permit, judged, EPOCH)
    assert change.version == HEADER.version + 1


def test_a_permit_of_another_epoch_puts_nothing(change: Change) -> None:
    permit, judged = admitted(Labels())
    with pytest.raises(StalePermit, match="ruleset changed"):
        committer().commit(change, permit, judged, EPOCH + 1)
    assert untouched(change)
    committer().commit(change, permit, judged, EPOCH)  # control: it was not spent on that


def test_bytes_that_changed_after_the_verdict_are_not_stored(change: Change) -> None:
    permit, judged = admitted(Labels())
    other = msgspec.structs.replace(judged, canonical=judged.canonical.replace(b"text", b"lies"))
    assert other.canonical != judged.canonical
    with pytest.raises(StalePermit, match="not those that were judged"):
        committer().commit(change, permit, other, EPOCH)
    assert untouched(change)


def test_a_permit_that_skipped_a_step_puts_nothing(change: Change) -> None:
    permit, judged = admitted(Labels())
    with pytest.raises(StalePermit, match="required step"):
        committer(GATE.required | {99}).commit(change, permit, judged, EPOCH)
    assert untouched(change)


def test_a_change_of_a_memory_that_is_gone_puts_nothing(change: Change) -> None:
    stored = TargetState(
        source=SourceKind.UNKNOWN,
        memory_class=MemoryClass.L3,
        status=MemoryStatus.LIVE,
    )
    permit, judged = admitted(Labels(change=ChangeKind.UPDATE, stored=stored))
    with pytest.raises(StalePermit, match="gone"):
        committer().commit(change, permit, judged, EPOCH)
    assert untouched(change)
