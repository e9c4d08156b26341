"""The audit log: RFC 6962 Merkle tree, leaves without content, C2SP checkpoints."""

from storage.audit.checkpoint import (
    BadCheckpoint,
    Checkpoint,
    VerifierKey,
    open_checkpoint,
    open_note,
    sign_checkpoint,
    sign_note,
)
from storage.audit.leaves import (
    InterceptedLeaf,
    Leaf,
    OperatorLeaf,
    VerdictLeaf,
    commitment,
    decode_leaf,
    encode_leaf,
    veiled_target,
)
from storage.audit.merkle import (
    NodeStore,
    Tree,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    range_root,
    verify_consistency,
    verify_inclusion,
)

__all__ = [
    "BadCheckpoint",
    "Checkpoint",
    "InterceptedLeaf",
    "Leaf",
    "NodeStore",
    "OperatorLeaf",
    "Tree",
    "VerdictLeaf",
    "VerifierKey",
    "commitment",
    "consistency_proof",
    "decode_leaf",
    "encode_leaf",
    "inclusion_proof",
    "leaf_hash",
    "node_hash",
    "open_checkpoint",
    "open_note",
    "range_root",
    "sign_checkpoint",
    "sign_note",
    "veiled_target",
    "verify_consistency",
    "verify_inclusion",
]
