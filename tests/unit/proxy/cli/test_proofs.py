from __future__ import annotations

import base64

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import PrincipalId
from proxy.cli.proofs import Proof, check_proof
from storage.audit import (
    OperatorLeaf,
    VerifierKey,
    encode_leaf,
    leaf_hash,
    node_hash,
    sign_checkpoint,
)

SIGNER = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
VKEY = VerifierKey.of("log.example", SIGNER)
LEAVES = [
    encode_leaf(OperatorLeaf(at_ms=at, action="key.put", subject="k", by=PrincipalId("o")))
    for at in (1, 2)
]
ROOT = node_hash(leaf_hash(LEAVES[0]), leaf_hash(LEAVES[1]))
NOTE = sign_checkpoint("log.example", 2, ROOT, SIGNER)
PROOF = Proof(
    leaf_index=1,
    tree_size=2,
    leaf_base64=base64.b64encode(LEAVES[1]).decode(),
    hashes=(leaf_hash(LEAVES[0]).hex(),),
    checkpoint=NOTE.decode(),
    verifier_key=VKEY.text(),
)


def test_a_true_proof_holds_and_says_what_was_proven() -> None:
    proven = check_proof(PROOF, NOTE, VKEY)

    assert proven.sound
    assert proven.vkey_pinned
    assert proven.leaf["at_ms"] == 2


@pytest.mark.parametrize(
    "change",
    [
        {"leaf_index": 0},
        {"tree_size": 3},
        {"leaf_base64": base64.b64encode(LEAVES[0]).decode()},
        {"leaf_base64": "!"},
        {"hashes": ()},
        {"hashes": ("0" * 64,)},
    ],
)
def test_a_changed_proof_does_not_hold(change: dict[str, object]) -> None:
    proven = check_proof(msgspec.structs.replace(PROOF, **change), NOTE, VKEY)

    assert not proven.sound
    assert proven.leaf == {}


def test_a_head_signed_by_another_key_proves_nothing_to_who_pinned_the_logs() -> None:
    forger = Ed25519PrivateKey.generate()
    note = sign_checkpoint("log.example", 2, ROOT, forger)
    forged = msgspec.structs.replace(
        PROOF, verifier_key=VerifierKey.of("log.example", forger).text()
    )

    assert check_proof(forged, note, None).sound, "control: it agrees with itself"
    assert not check_proof(forged, note, None).vkey_pinned
    assert not check_proof(forged, note, VKEY).sound
