"""Head, leaves and proofs of the log are of one generation and verify without the store."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
from tests.unit.storage.opening import say


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
    stranger = VerifierKey.of("mnemogate", Ed25519PrivateKey.from_private_bytes(bytes(32)))
    with pytest.raises(BadCheckpoint):
        EmbeddedAudit(store.lmdb, stranger).head()
