"""Which memories observe mode let in over an objection: what an enforcing gate would not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from policy.model import Memory, MemoryStatus
from storage.audit import VerdictLeaf, decode_leaf
from storage.codec import decode_id, ordinal_key
from storage.errors import StoreCorrupt
from storage.lmdb_store import IDS, LEAVES
from storage.rows import chain, memory_of, read_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.model import Tenant
    from policy.verdict import Reason
    from storage.codec import Row
    from storage.lmdb_store import LmdbStore, View


class Objection(msgspec.Struct, frozen=True, kw_only=True):
    """A stored memory, and the first step in its life that was objected to."""

    memory: Memory
    decision: str  # "hold" | "reject"
    reason: Reason | None
    step: int | None
    leaf_index: int


class Objections:
    """Reads what is stored now; any thread. Walks every memory of the store, so it takes a while.

    One objected step marks the memory for good: a later change that left the text or the metadata
    alone was judged without them.
    """

    def __init__(self, store: LmdbStore) -> None:
        self._store = store

    def find(self, tenant: Tenant) -> tuple[Objection, ...]:
        """Memories of a tenant that stand over an objection, oldest first.

        Raises:
            StoreCorrupt: A row or a leaf is missing or damaged.
        """
        with self._store.reading() as view:
            found = list(self._found(view, tenant))
        return tuple(sorted(found, key=lambda objection: objection.leaf_index))

    def _found(self, view: View, tenant: Tenant) -> Iterator[Objection]:
        for _, payload in view.scan(IDS):
            known = decode_id(payload)
            if known.status is MemoryStatus.DELETED:
                continue
            newest = read_row(view, known.ordinal)
            if newest.tenant != tenant or newest.erased:
                continue
            for row in chain(view, known.ordinal):
                leaf = _verdict(view, row)
                if leaf.objection is not None:
                    yield Objection(
                        memory=memory_of(newest, known.status),
                        decision=leaf.objection,
                        reason=leaf.reason,
                        step=leaf.step,
                        leaf_index=row.leaf_index,
                    )
                    break


def _verdict(view: View, row: Row) -> VerdictLeaf:
    data = view.get(LEAVES, ordinal_key(row.leaf_index))
    leaf = None if data is None else decode_leaf(data)
    if not isinstance(leaf, VerdictLeaf):
        raise StoreCorrupt(f"leaf {row.leaf_index} is not the verdict of its row")
    return leaf
