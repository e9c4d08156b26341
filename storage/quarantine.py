"""Quarantine and parole: what is committed, kept as evidence, and shown to no reader.

A memory under quarantine keeps its row and its history; its id says that nobody may see it, and the
index is searched without it. Nothing is erased, so the way back is one step, with a leaf as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import MemoryStatus
from storage.audit import OperatorLeaf
from storage.codec import IdRecord, decode_id, encode
from storage.errors import UnknownMemory
from storage.lmdb_store import IDS
from storage.rows import chain, history_of, memory_of, read_id, read_row

if TYPE_CHECKING:
    from policy.model import HistoryEntry, Memory, MemoryId, PrincipalId, Tenant
    from storage.change import Change
    from storage.codec import Row
    from storage.engine import Engine
    from storage.keys import KeyedNames
    from storage.lmdb_store import LmdbStore, View

QUARANTINE: Final = "memory.quarantine"
PAROLE: Final = "memory.parole"
REASON_LEN_MAX: Final = 160
_NOT_STANDING: Final = frozenset({MemoryStatus.DELETED, MemoryStatus.FORWARDING})
_HISTORY_BYTES: Final = 8 * 1024 * 1024
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Whose memory, who says so, and why; the reason is in the leaf for good."""

    memory_id: MemoryId
    tenant: Tenant
    by: PrincipalId
    reason: str = ""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Whether reads may show a memory; `leaf_index` is of the change, where there was one."""

    memory_id: MemoryId
    tenant: Tenant
    status: MemoryStatus
    changed: bool = False
    leaf_index: int | None = None


class Quarantine:
    """An operator's commands on stored memories. Writer thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def impose(self, order: Order) -> Standing:
        """Take a memory out of every read, at once; one that is out already stays so.

        Raises:
            UnknownMemory: There is none of that id in the tenant, or it was deleted.
            StorageError: As for `Engine.transact`.
        """
        return self._set(order, MemoryStatus.QUARANTINED)

    def lift(self, order: Order) -> Standing:
        """Show a quarantined memory again as it is; one that is shown stays so.

        Raises:
            UnknownMemory: There is none of that id in the tenant, or it was deleted.
            StorageError: As for `Engine.transact`.
        """
        return self._set(order, MemoryStatus.LIVE)

    def _set(self, order: Order, status: MemoryStatus) -> Standing:
        name = self._engine.parts.names.memory(order.tenant, order.memory_id)

        def work(change: Change) -> Standing:
            known = read_id(change.draft, name)
            # What is on its way to another server is in no read yet.
            if known is None or known.status in _NOT_STANDING:
                raise UnknownMemory("there is no such memory")
            standing = Standing(memory_id=order.memory_id, tenant=order.tenant, status=status)
            if known.status is status:
                return standing
            row = read_row(change.draft, known.ordinal)
            change.draft.put(IDS, name, encode(IdRecord(known.ordinal, status)))
            if status is MemoryStatus.QUARANTINED:
                change.superseded.append((known.ordinal, row))
                change.live_count -= 1
            else:
                change.readmitted.append((known.ordinal, row))
                change.live_count += 1
            leaf_index = change.log(_leaf(order, status, row, change.now_ms))
            return msgspec.structs.replace(standing, changed=True, leaf_index=leaf_index)

        return self._engine.transact(work)


def _leaf(order: Order, status: MemoryStatus, row: Row, now_ms: int) -> OperatorLeaf:
    # A client's own id could be any text, and a leaf outlives a purge: the candidate's id is ours.
    plain = _UUID.fullmatch(order.memory_id) is not None
    reason = f": {order.reason[:REASON_LEN_MAX]}" if order.reason else ""
    return OperatorLeaf(
        at_ms=now_ms,
        action=QUARANTINE if status is MemoryStatus.QUARANTINED else PAROLE,
        subject=order.memory_id if plain else f"candidate {row.candidate_id}",
        by=order.by,
        detail=f"{order.tenant}{reason}",
    )


class Quarantined:
    """What only an operator may read: memories under quarantine. Any thread."""

    def __init__(self, store: LmdbStore, names: KeyedNames) -> None:
        self._store = store
        self._names = names

    def find(self, tenant: Tenant) -> tuple[Memory, ...]:
        """Every quarantined memory of a tenant, oldest first; walks every id of the store.

        Raises:
            StoreCorrupt: A row is missing or damaged.
        """
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
        """One quarantined memory."""
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
