"""Vouching: a person declares a stored memory to be her own words, which raises its label."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import Basis, MemoryId, MemoryStatus, PrincipalId, SourceKind, Tenant
from storage.audit import OperatorLeaf, vouched_subject
from storage.errors import MemoryMoved, UnknownMemory
from storage.tables.change import Change
from storage.tables.codec import encode, ordinal_key
from storage.tables.lmdb_store import ROWS
from storage.tables.rows import read_id, read_row
from storage.values import VOUCH, Standing
from storage.write.engine import Engine

_STANDING: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.QUARANTINED})


class Vouching:
    """An operator's declarations about stored memories. Writer thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def vouch(self, memory_id: MemoryId, tenant: Tenant, by: PrincipalId, version: int) -> Standing:
        """Give the newest row of a memory the label of a person's own words, with a leaf.

        The row keeps its text, its class and its version: a new label is no change of the memory.

        Raises:
            UnknownMemory: The tenant has no memory of that id, or it was deleted.
            MemoryMoved: The memory's newest version is not the one that the person was shown.
        """
        return self._engine.transact(
            lambda change: self._raised(change, memory_id, tenant, by=by, version=version)
        )

    def _raised(
        self,
        change: Change,
        memory_id: MemoryId,
        tenant: Tenant,
        *,
        by: PrincipalId,
        version: int,
    ) -> Standing:
        known = read_id(change.draft, self._engine.parts.names.memory(tenant, memory_id))
        if known is None or known.status not in _STANDING:
            raise UnknownMemory("there is no such memory")
        row = read_row(change.draft, known.ordinal)
        if row.version != version:
            raise MemoryMoved("the memory is another than the one that was shown")
        standing = Standing(memory_id=memory_id, tenant=tenant, status=known.status)
        if row.source.proven:
            return standing
        label = SourceKind.USER_INPUT
        raised = msgspec.structs.replace(row, source=label, basis=Basis.CONFIRMATION)
        stored = encode(raised)
        change.relabelled = True
        if known.status is MemoryStatus.LIVE:
            change.raised.append((known.ordinal, raised))
        change.charges[row.tenant] += len(stored) - len(encode(row))
        change.draft.put(ROWS, ordinal_key(known.ordinal), stored)
        leaf = OperatorLeaf(
            at_ms=change.now_ms,
            action=VOUCH,
            subject=vouched_subject(row.candidate_id),
            by=by,
            detail=f"{tenant}: was {row.source.value}",
        )
        return msgspec.structs.replace(standing, changed=True, leaf_index=change.log(leaf))
