"""Memories under quarantine: kept as evidence, and shown to an operator alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.model import MemoryStatus
from storage.tables.codec import decode_id
from storage.tables.lmdb_store import IDS
from storage.tables.rows import chain, history_of, memory_of, read_id, read_row

if TYPE_CHECKING:
    from policy.model import HistoryEntry, Memory, MemoryId, Tenant
    from storage.tables.codec import IdRecord
    from storage.tables.keys import KeyedNames
    from storage.tables.lmdb_store import LmdbStore, View

_HISTORY_BYTES: Final = 8 * 1024 * 1024


class EmbeddedQuarantined:
    """Implements `Quarantined` on the embedded engine."""

    def __init__(self, store: LmdbStore, names: KeyedNames) -> None:
        self._store = store
        self._names = names

    def find(self, tenant: Tenant) -> tuple[Memory, ...]:
        """Every quarantined memory of a tenant, oldest first; walks every id of the store."""
        found: list[Memory] = []
        with self._store.reading() as view:
            for _, payload in view.scan(IDS):
                known = decode_id(payload)
                if known.status is not MemoryStatus.QUARANTINED:
                    continue
                row = read_row(view, known.ordinal)
                if row.tenant == tenant:
                    found.append(memory_of(row, known.status))
        return tuple(sorted(found, key=lambda memory: memory.updated_at_ms))

    def get(self, tenant: Tenant, memory_id: MemoryId) -> Memory | None:
        """One quarantined memory; None where the tenant has none of that id."""
        with self._store.reading() as view:
            known = self._known(view, tenant, memory_id)
            return None if known is None else memory_of(read_row(view, known.ordinal), known.status)

    def history(self, tenant: Tenant, memory_id: MemoryId) -> tuple[HistoryEntry, ...]:
        """The committed steps of a quarantined memory, oldest first; () where there is none."""
        with self._store.reading() as view:
            known = self._known(view, tenant, memory_id)
            return () if known is None else history_of(chain(view, known.ordinal, _HISTORY_BYTES))

    def _known(self, view: View, tenant: Tenant, memory_id: MemoryId) -> IdRecord | None:
        known = read_id(view, self._names.memory(tenant, memory_id))
        return known if known and known.status is MemoryStatus.QUARANTINED else None
