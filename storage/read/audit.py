"""Reads the audit log of the embedded store: heads, leaves and proofs of the last commit."""

from __future__ import annotations

from storage.audit import Checkpoint, VerifierKey, inclusion_proof, open_checkpoint
from storage.ground.errors import StoreCorrupt, UnknownLeaf
from storage.tables.change import Nodes
from storage.tables.codec import ordinal_key
from storage.tables.lmdb_store import LEAVES, LmdbStore, View
from storage.values import AuditHead, AuditProof


class EmbeddedAudit:
    """Reads the audit log (`AuditReader`). Each call reads one snapshot of the store."""

    def __init__(self, store: LmdbStore, verifier: VerifierKey) -> None:
        self._store = store
        self._verifier = verifier

    def head(self) -> AuditHead:
        """The signed head of the log at the last commit."""
        with self._store.reading() as view:
            return self._head(view)[0]

    def leaves(self, offset: int, limit: int) -> tuple[bytes, ...]:
        """The bytes of up to `limit` leaves from `offset` on; () after the last leaf."""
        with self._store.reading() as view:
            stop = min(self._head(view)[1].size, offset + limit)
            return tuple(stored_leaf(view, index) for index in range(offset, stop))

    def prove(self, index: int) -> AuditProof:
        """The proof that one leaf is in the log that the head signs."""
        with self._store.reading() as view:
            head, checkpoint = self._head(view)
            if not 0 <= index < checkpoint.size:
                raise UnknownLeaf("the log has no leaf of that index yet")
            hashes = inclusion_proof(
                index, checkpoint.size, lambda at: stored_leaf(view, at), Nodes(view)
            )
            return AuditProof(
                leaf_index=index,
                leaf=stored_leaf(view, index),
                root=checkpoint.root,
                hashes=hashes,
                head=head,
            )

    def _head(self, view: View) -> tuple[AuditHead, Checkpoint]:
        note = view.checkpoint()
        if note is None:
            raise StoreCorrupt("the audit log has no checkpoint")
        checkpoint = open_checkpoint(note, self._verifier)
        head = AuditHead(
            size=checkpoint.size, note=note.decode(), verifier_key=self._verifier.text()
        )
        return head, checkpoint


def stored_leaf(view: View, index: int) -> bytes:
    """The bytes of one leaf.

    Raises:
        StoreCorrupt: The leaf is missing or damaged.
    """
    leaf = view.get(LEAVES, ordinal_key(index))
    if leaf is None:
        raise StoreCorrupt(f"leaf {index} is missing")
    return leaf
