"""The stored memories that retention examines: in slices, each in a short transaction."""

from __future__ import annotations

from policy.after.retention import RetentionItem
from policy.model import MemoryId, MemoryStatus, Tenant
from storage.tables.codec import ordinal_key
from storage.tables.lmdb_store import View
from storage.tables.names import ROWS
from storage.tables.rows import expiry_ms, read_id
from storage.values import Row
from storage.write.seam import Feature


class RetentionCandidates(Feature):
    """The live memories that retention examines; quarantined ones are left out. Any thread."""

    def slice(self, start: int, length: int) -> tuple[tuple[RetentionItem, ...], int | None]:
        """Memories whose newest row is among the `length` rows from `start` on, expired ones too.

        Returns the memories, and the ordinal at which the next slice starts; None at the end.
        """
        items: list[RetentionItem] = []
        seen = 0
        with self._store.reading() as view:
            for key, row in view.records(ROWS, ordinal_key(start)):
                ordinal = int.from_bytes(key, "big")
                if seen == length:
                    return tuple(items), ordinal
                seen += 1
                if not row.erased and self._is_newest(view, row.tenant, row.memory_id, ordinal):
                    items.append(_item(ordinal, row))
        return tuple(items), None

    def stands(self, item: RetentionItem) -> bool:
        """Whether a memory was neither changed nor deleted since `slice` returned it."""
        with self._store.reading() as view:
            return self._is_newest(view, item.tenant, item.memory_id, item.ordinal)

    def _is_newest(self, view: View, tenant: Tenant, memory_id: MemoryId, ordinal: int) -> bool:
        known = read_id(view, self._names.memory(tenant, memory_id))
        return known is not None and known.ordinal == ordinal and known.status is MemoryStatus.LIVE


def _item(ordinal: int, row: Row) -> RetentionItem:
    return RetentionItem(
        ordinal=ordinal,
        tenant=row.tenant,
        memory_id=row.memory_id,
        principal_id=row.principal_id,
        scope=row.scope,
        memory_class=row.memory_class,
        at_ms=row.at_ms,
        expires_at_ms=None if row.expires_at is None else expiry_ms(row.expires_at),
    )
