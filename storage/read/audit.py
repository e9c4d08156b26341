"""Reads the audit log of the embedded store: heads, leaves and proofs, and all for an auditor."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import MemoryStatus
from storage.audit import (
    Checkpoint,
    NodeStore,
    VerifierKey,
    consistency_proof,
    inclusion_proof,
    open_checkpoint,
    sign_note,
)
from storage.ground.errors import StoreCorrupt, UnknownLeaf
from storage.tables.change import Nodes, leaf_source
from storage.tables.codec import ordinal_key, refuse_unknown
from storage.tables.lmdb_store import LmdbStore, View
from storage.tables.names import IDS, LEAVES, ROWS, VECTORS
from storage.tables.rows import earlier_rows, read_row
from storage.values import AuditHead, AuditProof, Row


class EmbeddedAudit:
    """Reads the audit log at its last signed head. Any thread; each call reads one snapshot."""

    def __init__(self, store: LmdbStore, origin: str, signer: Ed25519PrivateKey) -> None:
        self._store = store
        self._verifier = VerifierKey.of(origin, signer)
        self._signer = signer

    def signed(self, text: str) -> str:
        """A text, which ends in a newline, as a note that the log's key signed."""
        return sign_note(text, self._verifier.name, self._signer).decode()

    def head(self) -> AuditHead:
        """The signed head of the log at the last commit.

        Raises:
            StoreCorrupt: The stored note is missing, or was not signed by this store's key.
        """
        with self._store.reading() as view:
            return self._head(view)[0]

    def leaves(self, offset: int, limit: int) -> tuple[bytes, ...]:
        """The bytes of up to `limit` leaves from `offset` on; () after the last leaf."""
        with self._store.reading() as view:
            stop = min(self._head(view)[1].size, offset + limit)
            return tuple(map(leaf_source(view), range(offset, stop)))

    def prove(self, index: int) -> AuditProof:
        """The proof that one leaf is in the log that the head signs.

        Raises:
            UnknownLeaf: The log has no leaf with that index yet.
        """
        with self._store.reading() as view:
            head, checkpoint = self._head(view)
            if not 0 <= index < checkpoint.size:
                raise UnknownLeaf("the log has no leaf of that index yet")
            leaf_at = leaf_source(view)
            hashes = inclusion_proof(index, checkpoint.size, leaf_at, Nodes(view))
            return AuditProof(
                leaf_index=index,
                leaf=leaf_at(index),
                root=checkpoint.root,
                hashes=hashes,
                head=head,
            )

    def continues(self, old: int, size: int) -> tuple[bytes, ...]:
        """The consistency proof (RFC 6962) of the heads with `old` and with `size` leaves.

        Raises:
            ValueError, StoreCorrupt: There are no such heads, or a stored node is missing.
        """
        with self._store.reading() as view:
            return consistency_proof(old, size, leaf_source(view), Nodes(view))

    def _head(self, view: View) -> tuple[AuditHead, Checkpoint]:
        note = view.checkpoint()
        if note is None:
            raise StoreCorrupt("the audit log has no checkpoint")
        checkpoint = open_checkpoint(note, self._verifier)
        head = AuditHead(
            size=checkpoint.size, note=note.decode(), verifier_key=self._verifier.text()
        )
        return head, checkpoint


class EmbeddedView:
    """One snapshot of the tables, for an auditor (`AuditedView`)."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.leaf_count = view.count(LEAVES)
        self.row_count = view.count(ROWS)
        self.checkpoint = view.checkpoint
        self.nodes: NodeStore = Nodes(view)
        self.compares_digests = view.digests.key is not None
        self.problems = view.problems

    def head(self) -> tuple[int, int] | None:
        """The leaf count and the version in the header; None before the first commit."""
        try:
            header = self._view.header()
        except msgspec.DecodeError as error:
            raise StoreCorrupt(str(error)) from error
        refuse_unknown(header)
        return None if header is None else (header.leaf_count, header.version)

    def leaf(self, index: int) -> bytes | None:
        """The bytes of one leaf."""
        return self._view.get(LEAVES, ordinal_key(index))

    def vector(self, ordinal: int) -> bytes:
        """The bytes of a row's vector; b"" if it has none."""
        return self._view.get(VECTORS, ordinal_key(ordinal)) or b""

    def named(self) -> dict[int, MemoryStatus]:
        """The ordinals of the rows that ids name, with the status of each memory."""
        try:
            return {known.ordinal: known.status for _, known in self._view.records(IDS)}
        except msgspec.DecodeError as error:
            raise StoreCorrupt(str(error)) from error

    def earlier(self, ordinal: int, row: Row) -> Iterator[Row]:
        """The rows of a memory before the one at `ordinal`, newest first."""
        return earlier_rows(self._view, ordinal, row)

    def rows(self) -> Iterator[tuple[int, Row | StoreCorrupt]]:
        """Every row in order; the error for an unreadable row, after which the rows continue."""
        for key in self._view.keys(ROWS):
            ordinal = int.from_bytes(key, "big")
            yield ordinal, self._row(ordinal)

    def _row(self, ordinal: int) -> Row | StoreCorrupt:
        try:
            return read_row(self._view, ordinal)
        except (StoreCorrupt, msgspec.DecodeError) as error:
            return StoreCorrupt(str(error))
