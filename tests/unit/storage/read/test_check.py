"""`check()` names every contradiction; head, leaves and proofs of the log are of one generation."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import MemoryClass, MemoryStatus, SourceKind
from storage.audit import (
    BadCheckpoint,
    VerdictLeaf,
    VerifierKey,
    decode_leaf,
    open_checkpoint,
    verify_inclusion,
)
from storage.embedded import EmbeddedStore
from storage.ground.errors import UnknownLeaf
from storage.read.audit import EmbeddedAudit
from storage.read.check import check_store
from storage.tables.codec import (
    IdRecord,
    encode,
    ordinal_key,
)
from storage.tables.lmdb_store import Draft
from storage.tables.names import HELD, IDS, LEAVES, META, NODES, NONCES, ROWS, VECTORS
from tests.unit.storage.opening import VOUCHED, Bench, candidate_of, say, submission_of, write


@pytest.fixture
def filled(bench: Bench) -> Iterator[EmbeddedStore]:
    store = bench.open()
    write(store, *(submission_of(candidate_of(f"fact {number}")) for number in range(150)))
    say(store, "Ada prefers tea", instructions=True)
    yield store
    store.close()


def _only_key(draft: Draft, table: bytes, at: int = 0) -> bytes:
    return list(draft.keys(table))[at]


def _key_of(draft: Draft, ordinal: int) -> bytes:
    keys = (key for key in draft.keys(IDS))
    return next(key for key in keys if IDS.decoded(draft.get(IDS, key) or b"").ordinal == ordinal)


def _edit_row(draft: Draft, **fields: object) -> None:
    row = ROWS.decoded(draft.get(ROWS, ordinal_key(3)) or b"")
    draft.put(ROWS, ordinal_key(3), encode(msgspec.structs.replace(row, **fields)))


def _edit_header(draft: Draft, **fields: object) -> None:
    header = draft.header()
    assert header is not None
    draft.put_header(msgspec.structs.replace(header, **fields))


def _edit_nonce(draft: Draft) -> None:
    key = _only_key(draft, NONCES)
    record = NONCES.decoded(draft.get(NONCES, key) or b"")
    outcome = msgspec.structs.replace(record.outcome, leaf_index=2)
    draft.put(NONCES, key, encode(msgspec.structs.replace(record, outcome=outcome)))


def _swap_leaves(draft: Draft) -> None:
    first, second = (draft.get(LEAVES, ordinal_key(at)) for at in (2, 4))
    draft.put(LEAVES, ordinal_key(2), second or b"")
    draft.put(LEAVES, ordinal_key(4), first or b"")


def _huge_vector(draft: Draft) -> None:
    draft.put(VECTORS, ordinal_key(3), np.full(8, 3e37, dtype="<f4").tobytes())


DAMAGES: dict[str, tuple[Callable[[Draft], object], str]] = {
    "row gone": (lambda draft: draft.delete(ROWS, ordinal_key(3)), "row 3: missing"),
    "row edited": (
        lambda draft: _edit_row(draft, memory_class=MemoryClass.L1),
        "are not those of its verdict leaf",
    ),
    "text edited": (
        lambda draft: _edit_row(
            draft, canonical=submission_of(candidate_of("another fact")).canonical
        ),
        "commitment",
    ),
    "salt edited": (lambda draft: _edit_row(draft, salt=b"s" * 16), "commitment"),
    "row of nobody": (
        lambda draft: _edit_row(draft, leaf_index=0),
        "row 3: no verdict leaf admitted it",
    ),
    "row linked to a later one": (
        lambda draft: _edit_row(draft, prev_ordinal=7),
        "row 3: it follows another step",
    ),
    "leaf gone": (lambda draft: draft.delete(LEAVES, ordinal_key(5)), "leaf 5: missing"),
    "leaves swapped": (_swap_leaves, "not that of the leaves"),
    "node edited": (
        lambda draft: draft.put(NODES, _only_key(draft, NODES), b"n" * 32),
        "node 0: not the hash of leaves 0 to 255",
    ),
    "vector gone": (lambda draft: draft.delete(VECTORS, ordinal_key(3)), "lost its vector"),
    "vector of nothing": (
        lambda draft: draft.put(VECTORS, ordinal_key(999), bytes(32)),
        "has no row",
    ),
    "vector huge": (_huge_vector, "unit vector"),
    "id gone": (lambda draft: draft.delete(IDS, _only_key(draft, IDS)), "no id"),
    "id of another memory": (
        # Of the first memory: the ids have no order, and the last one's newest row is 149.
        lambda draft: draft.put(IDS, _key_of(draft, 0), encode(IdRecord(149, MemoryStatus.LIVE))),
        "an id points at row 149, which is of another memory",
    ),
    "id of a missing row": (
        lambda draft: draft.put(
            IDS, _only_key(draft, IDS), encode(IdRecord(999, MemoryStatus.LIVE))
        ),
        "id 999: this row is not there",
    ),
    "nonce of another leaf": (_edit_nonce, "not its verdict"),
    "held gone": (lambda draft: draft.delete(HELD, _only_key(draft, HELD)), "held, but the header"),
    "held of nobody": (
        lambda draft: draft.put(HELD, b"h" * 16, draft.get(HELD, _only_key(draft, HELD)) or b""),
        "not in staging",
    ),
    "version moved": (
        lambda draft: _edit_header(draft, version=7),
        "header: says version 7, there are 150 changes",
    ),
    "count moved": (lambda draft: _edit_header(draft, live_count=7), "the header says 7"),
    "checkpoint gone": (lambda draft: draft.delete(META, b"checkpoint"), "no signed checkpoint"),
    "checkpoint forged": (lambda draft: draft.put_checkpoint(b"x\n"), "checkpoint: "),
}


def _damage(store: EmbeddedStore, damage: Callable[[Draft], object]) -> None:
    """Store values with right digests, as a bug of ours would."""
    draft = store.lmdb.begin()
    damage(draft)
    draft.commit()


UNCOUNTED = {"version moved", "count moved", "checkpoint gone", "checkpoint forged"}


def test_a_sound_store_has_no_problems(filled: EmbeddedStore) -> None:
    report = filled.reader.check()
    assert (report.problems, report.rows, report.vectors) == ((), 150, 150)
    assert report.version == 150


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(filled: EmbeddedStore, name: str) -> None:
    damage, wanted = DAMAGES[name]
    _damage(filled, damage)
    problems = filled.reader.check().problems
    assert any(wanted in problem for problem in problems), problems
    in_total = any("not those of the last commit" in one for one in _checked(filled))
    assert in_total is (name not in UNCOUNTED)


def _checked(store: EmbeddedStore) -> tuple[str, ...]:
    """What the check finds without the tests' comparison of tables."""
    return check_store(store._engine, None).problems


def test_a_damaged_value_is_named_and_hides_no_other(filled: EmbeddedStore) -> None:
    def damage(draft: Draft) -> None:
        for at in (3, 9):
            draft._txn.put(ordinal_key(at), b"\x01" + b"?" * 40, db=draft._tables[ROWS])

    _damage(filled, damage)
    problems = filled.reader.check().problems
    assert sum("does not match its digest" in problem for problem in problems) >= 2


def _always(*_: object) -> bool:
    return True


def test_a_class_that_was_lowered_where_no_gate_may_do_that_is_named(
    monkeypatch: pytest.MonkeyPatch, store: EmbeddedStore
) -> None:
    asked: dict[str, Any] = {"memory_class": MemoryClass.L2, "class_named": True}
    assert say(store, "Ada prefers tea.", **asked).memory_class is MemoryClass.L3
    assert store.reader.check().problems == (), "control: by the rule it is sound"
    monkeypatch.setattr("policy.checks.is_unproven", _always)
    said = {**asked, "claimed_source": SourceKind.TOOL_RESULT}
    assert say(store, "Ada prefers rum.", VOUCHED, **said).memory_class is MemoryClass.L3
    (problem,) = store.reader.check().problems
    assert "below the class that was named" in problem


def test_every_leaf_is_proved_against_the_signed_head(store: EmbeddedStore) -> None:
    for number in range(5):
        say(store, f"Note {number}.")
    audit = store.audit
    head = audit.head()
    checkpoint = open_checkpoint(head.note.encode(), VerifierKey.parse(head.verifier_key))
    leaves = audit.leaves(0, 1_000)
    assert len(leaves) == head.size == checkpoint.size >= 10
    for index, leaf in enumerate(leaves):
        proof = audit.prove(index)
        assert (proof.leaf, proof.root, proof.head) == (leaf, checkpoint.root, head)
        assert verify_inclusion(leaf, index, head.size, proof.hashes, checkpoint.root)
        other = leaf + b"\0"
        assert not verify_inclusion(other, index, head.size, proof.hashes, checkpoint.root)


def test_an_outcome_names_the_leaf_that_holds_its_verdict(store: EmbeddedStore) -> None:
    outcome = say(store, "Tea is at four.")
    leaf = decode_leaf(store.audit.prove(outcome.leaf_index).leaf)
    assert isinstance(leaf, VerdictLeaf)
    assert leaf.candidate_id == outcome.candidate_id


def test_slices_end_where_the_log_does(store: EmbeddedStore) -> None:
    say(store, "Tea is at four.")
    audit = store.audit
    size = audit.head().size
    every = audit.leaves(0, size)
    assert audit.leaves(size - 1, 10) == every[-1:]
    assert audit.leaves(size, 10) == audit.leaves(size + 5, 10) == ()


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_leaf_that_is_not_there_yet_is_unknown(store: EmbeddedStore, beyond: int) -> None:
    say(store, "Tea is at four.")
    audit = store.audit
    index = -1 if beyond < 0 else audit.head().size + beyond
    with pytest.raises(UnknownLeaf):
        audit.prove(index)


def test_a_head_that_another_key_signed_is_not_served(store: EmbeddedStore) -> None:
    say(store, "Tea is at four.")
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
    with pytest.raises(BadCheckpoint):
        EmbeddedAudit(store.lmdb, "mnemogate", stranger).head()
