"""Vouching: a person declares a stored memory to be her own words, which raises its label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from policy.labels.ceiling import ceiling_of
from policy.labels.derive import read_candidate
from policy.model import Basis, MemoryClass, MemoryStatus, SourceKind
from storage.audit import OperatorLeaf, vouched_subject
from storage.errors import MemoryMoved, UnknownMemory
from storage.tables.codec import encode, ordinal_key
from storage.tables.lmdb_store import ROWS
from storage.tables.rows import candidate_of, read_id, read_row
from storage.values import LIFT, VOUCH, Standing

if TYPE_CHECKING:
    from policy.model import MemoryId, PrincipalId, Tenant
    from storage.tables.change import Change
    from storage.values import Row
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

    def lift(
        self, shown: tuple[tuple[MemoryId, int], ...], tenant: Tenant, by: PrincipalId
    ) -> tuple[Standing | None, ...]:
        """Raise the labels of memories to a tool's result where they are lower, in one transaction.

        Each memory gets a leaf. Nobody has read the memories one by one, so there is None for one
        that is gone, is at another version, has a class above knowledge, or reads as an order.
        """

        def one(change: Change, memory_id: MemoryId, version: int) -> Standing | None:
            try:
                return self._raised(change, memory_id, tenant, by=by, version=version, read=False)
            except (UnknownMemory, MemoryMoved):
                return None

        return self._engine.transact(lambda change: tuple(one(change, *each) for each in shown))

    def _raised(
        self,
        change: Change,
        memory_id: MemoryId,
        tenant: Tenant,
        *,
        by: PrincipalId,
        version: int,
        read: bool = True,
    ) -> Standing:
        label = SourceKind.USER_INPUT if read else SourceKind.TOOL_RESULT
        known = read_id(change.draft, self._engine.parts.names.memory(tenant, memory_id))
        if known is None or known.status not in _STANDING:
            raise UnknownMemory("there is no such memory")
        row = read_row(change.draft, known.ordinal)
        if row.version != version:
            raise MemoryMoved("the memory is another than the one that was shown")
        standing = Standing(memory_id=memory_id, tenant=tenant, status=known.status)
        before = ceiling_of(row)
        if before.trust >= label.trust:
            return standing
        if not read and not _may_be_lifted(row):
            raise MemoryMoved("the memory is only raised by a person who read all of it")
        raised = msgspec.structs.replace(row, source=label, ceiling=label, basis=Basis.CONFIRMATION)
        stored = encode(raised)
        change.relabelled = True
        if known.status is MemoryStatus.LIVE:
            change.vouched.append((known.ordinal, row))
        change.charges[row.tenant] += len(stored) - len(encode(row))
        change.draft.put(ROWS, ordinal_key(known.ordinal), stored)
        leaf = OperatorLeaf(
            at_ms=change.now_ms,
            action=VOUCH if read else LIFT,
            subject=vouched_subject(row.candidate_id),
            by=by,
            detail=f"{tenant}: was {row.source.value}, ceiling {before.value}",
        )
        return msgspec.structs.replace(standing, changed=True, leaf_index=change.log(leaf))


def _may_be_lifted(row: Row) -> bool:
    """Whether a label may be raised unread: class at most knowledge, no order in text or names."""
    plain = row.memory_class.power <= MemoryClass.L3.power
    return plain and not read_candidate(candidate_of(row)).flagged
