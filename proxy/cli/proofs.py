"""A proof that one leaf is in the log, checkable by anyone, without the store."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from proxy.admin.wire.store import Proof
from storage.audit import (
    BadCheckpoint,
    Field,
    VerifierKey,
    decode_leaf,
    fields_of,
    leaf_hash,
    open_checkpoint,
    verify_inclusion,
)
from storage.ground.errors import StoreCorrupt

PROOF_LEN_MAX: Final = 262_144


class ProofResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a proof holds, and for which leaf. `leaf` is decoded from the proven bytes."""

    sound: bool
    what: str
    leaf_index: int
    tree_size: int
    vkey: str
    vkey_pinned: bool
    leaf: dict[str, Field]


def check_proof(proof: Proof, note: bytes, pinned: VerifierKey | None) -> ProofResult:
    """Verify an inclusion proof against a signed checkpoint.

    Without a pinned key the proof's own is used, which only shows that proof and checkpoint fit
    each other: both could be forged.
    """
    try:
        key = pinned or VerifierKey.parse(proof.verifier_key)
        head = open_checkpoint(note, key)
        data = base64.b64decode(proof.leaf_base64, validate=True)
        leaf = fields_of(decode_leaf(data))
    except (BadCheckpoint, StoreCorrupt, binascii.Error) as error:
        return _proven(proof, pinned, str(error))
    if head.size != proof.tree_size:
        what = f"the checkpoint signs {head.size} leaves, the proof is for {proof.tree_size}"
        return _proven(proof, pinned, what, key)
    hashes = tuple(bytes.fromhex(node) for node in proof.hashes)
    if (proof.leaf_hash, proof.root_hash) != (leaf_hash(data).hex(), head.root.hex()):
        return _proven(proof, pinned, "it names other hashes than those of leaf and head", key)
    if not verify_inclusion(data, proof.leaf_index, head.size, hashes, head.root):
        return _proven(proof, pinned, "the path does not lead to the signed root", key)
    return msgspec.structs.replace(
        _proven(proof, pinned, "the leaf is in the signed log", key), sound=True, leaf=leaf
    )


def _proven(
    proof: Proof, pinned: VerifierKey | None, what: str, key: VerifierKey | None = None
) -> ProofResult:
    return ProofResult(
        sound=False,
        what=what,
        leaf_index=proof.leaf_index,
        tree_size=proof.tree_size,
        vkey="" if key is None else key.text(),
        vkey_pinned=pinned is not None,
        leaf={},
    )
