"""Quarantine and parole: a committed memory is kept as evidence and shown to no reader.

A memory under quarantine keeps its row and its history. Its id is marked, and index searches
exclude it. Nothing is erased, so parole is one step, with a leaf as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import MemoryStatus
from storage.audit import OperatorLeaf
from storage.errors import UnknownMemory
from storage.tables.codec import IdRecord, encode
from storage.tables.lmdb_store import IDS
from storage.tables.rows import read_id, read_row
from storage.values import PAROLE, QUARANTINE, QUARANTINE_REASON_LEN_MAX, Standing

if TYPE_CHECKING:
    from policy.model import MemoryId, PrincipalId, Tenant
    from storage.tables.change import Change
    from storage.values import Row
    from storage.write.engine import Engine

_NOT_STANDING: Final = frozenset({MemoryStatus.DELETED, MemoryStatus.FORWARDING})
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Quarantine:
    """An operator's commands on stored memories. Writer thread only.

    Each raises UnknownMemory where the tenant has no such memory or it was deleted, and otherwise
    as `Engine.transact`. The reason stays in the leaf for good.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def impose(self, memory_id: MemoryId, tenant: Tenant, by: PrincipalId, reason: str) -> Standing:
        """Take a memory out of every read, at once; a quarantined one stays so."""
        return self._set(MemoryStatus.QUARANTINED, memory_id, tenant, by, reason)

    def lift(self, memory_id: MemoryId, tenant: Tenant, by: PrincipalId, reason: str) -> Standing:
        """Show a quarantined memory again as it is; one that is shown stays so."""
        return self._set(MemoryStatus.LIVE, memory_id, tenant, by, reason)

    def _set(
        self,
        status: MemoryStatus,
        memory_id: MemoryId,
        tenant: Tenant,
        by: PrincipalId,
        reason: str,
    ) -> Standing:
        name = self._engine.parts.names.memory(tenant, memory_id)

        def work(change: Change) -> Standing:
            known = read_id(change.draft, name)
            # A memory that is still being sent to another server is in no read yet.
            if known is None or known.status in _NOT_STANDING:
                raise UnknownMemory("there is no such memory")
            standing = Standing(memory_id=memory_id, tenant=tenant, status=status)
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
            leaf = OperatorLeaf(
                at_ms=change.now_ms,
                action=QUARANTINE if status is MemoryStatus.QUARANTINED else PAROLE,
                subject=_subject(memory_id, row),
                by=by,
                detail=f"{tenant}: {reason[:QUARANTINE_REASON_LEN_MAX]}" if reason else tenant,
            )
            return msgspec.structs.replace(standing, changed=True, leaf_index=change.log(leaf))

        return self._engine.transact(work)


def _subject(memory_id: MemoryId, row: Row) -> str:
    # A client's own id could be any text, and a leaf outlives a purge: the candidate's id is ours.
    plain = _UUID.fullmatch(memory_id) is not None
    return memory_id if plain else f"candidate {row.candidate_id}"
