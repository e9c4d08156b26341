"""Vouching: a person's word for a stored memory, the only way to raise its label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from policy.labels.ceiling import ceiling_of
from policy.model import Basis, MemoryStatus, SourceKind
from storage.audit import OperatorLeaf, vouched_subject
from storage.errors import MemoryMoved, UnknownMemory
from storage.tables.codec import encode, ordinal_key
from storage.tables.lmdb_store import ROWS
from storage.tables.rows import read_id, read_row
from storage.values import VOUCH, Standing

if TYPE_CHECKING:
    from policy.model import MemoryId, PrincipalId, Tenant
    from storage.tables.change import Change
    from storage.write.engine import Engine

_STANDING: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.QUARANTINED})


class Vouching:
    """An operator's word for stored memories. Writer thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def vouch(self, memory_id: MemoryId, tenant: Tenant, by: PrincipalId, version: int) -> Standing:
        """Make the newest row of a memory a person's own, in its label and with a leaf.

        The row keeps its text, its class and its version: a word about it is no change of it.

        Raises:
            UnknownMemory: There is none of that id in the tenant, or it was deleted.
            MemoryMoved: Its newest version is not the one that the person was shown.
        """
        name = self._engine.parts.names.memory(tenant, memory_id)

        def work(change: Change) -> Standing:
            known = read_id(change.draft, name)
            if known is None or known.status not in _STANDING:
                raise UnknownMemory("there is no such memory")
            row = read_row(change.draft, known.ordinal)
            if row.version != version:
                raise MemoryMoved("the memory is another than the one that was shown")
            standing = Standing(memory_id=memory_id, tenant=tenant, status=known.status)
            before = ceiling_of(row)
            if before.trust >= SourceKind.USER_INPUT.trust:
                return standing
            raised = msgspec.structs.replace(
                row,
                source=SourceKind.USER_INPUT,
                ceiling=SourceKind.USER_INPUT,
                basis=Basis.CONFIRMATION,
            )
            stored = encode(raised)
            change.relabelled = True
            if known.status is MemoryStatus.LIVE:
                change.vouched.append((known.ordinal, row))
            change.charges[row.tenant] += len(stored) - len(encode(row))
            change.draft.put(ROWS, ordinal_key(known.ordinal), stored)
            leaf = OperatorLeaf(
                at_ms=change.now_ms,
                action=VOUCH,
                subject=vouched_subject(row.candidate_id),
                by=by,
                detail=f"{tenant}: was {row.source.value}, ceiling {before.value}",
            )
            return msgspec.structs.replace(standing, changed=True, leaf_index=change.log(leaf))

        return self._engine.transact(work)
