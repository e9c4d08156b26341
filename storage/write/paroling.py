"""Paroles after a trial, and probations: each a transaction of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from policy.after.parole import PAROLES_MAX, PROBATION_DAYS, lowered
from policy.model import MemoryStatus, PrincipalId
from storage.audit import OperatorLeaf
from storage.errors import MemoryMoved
from storage.paroles import PAROLE_REFUSED, Hidden, OnProbation, ParoleRecord
from storage.tables.change import Change
from storage.tables.codec import IdRecord, decode_parole, encode
from storage.tables.lmdb_store import PAROLES, View
from storage.tables.rows import read_id, read_row
from storage.values import Standing
from storage.write.engine import Engine
from storage.write.hands import hidden_by
from storage.write.quarantine import log_standing, place, subject_of
from storage.write.rewinding import Rewinding

_PROBATION_MS: Final = PROBATION_DAYS * 86_400_000
_BYTES: Final = 64
"""How many bytes of a tenant's share the first record of a memory's paroles takes."""


def parole_record(view: View, name: bytes) -> ParoleRecord:
    """What is kept of the paroles of a memory; an empty record if it never was tried."""
    payload = view.get(PAROLES, name)
    return ParoleRecord() if payload is None else decode_parole(payload)


class Paroling:
    """Shows hidden memories again after their trials. Writer thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rewinding = Rewinding(engine)

    def grant(self, hidden: Hidden, said: str, by: PrincipalId) -> Standing:
        """Show a memory again, one class lower and on probation (`Paroles.grant`)."""
        memory = hidden.memory
        name = self._engine.parts.names.memory(memory.tenant, memory.memory_id)

        def work(change: Change) -> Standing:
            known = self._as_tried(change, name, hidden)
            if hidden.record.paroles >= PAROLES_MAX:
                raise MemoryMoved("the memory came back as often as it may")
            row = read_row(change.draft, known.ordinal)
            to = lowered(memory.memory_class)
            if memory.ordinal != known.ordinal or to is not memory.memory_class:
                known, row = self._rewinding.put_back(
                    change,
                    by,
                    name,
                    known,
                    earlier=memory.ordinal,
                    status=MemoryStatus.LIVE,
                    memory_class=to,
                )
            place(change, name, known, row, frozenset())
            # The origin of a memory on probation is counted apart, so origins are read anew.
            change.relabelled = True
            self._keep(
                change,
                hidden,
                ParoleRecord(
                    paroles=hidden.record.paroles + 1,
                    since_ms=change.now_ms,
                    until_ms=change.now_ms + _PROBATION_MS,
                ),
            )
            detail = f"{memory.tenant}: {said}, {memory.memory_class.value} to {to.value}"
            leaf_index = log_standing(change, memory.memory_id, row, by, detail, hidden=False)
            return Standing(
                memory_id=memory.memory_id,
                tenant=memory.tenant,
                status=MemoryStatus.LIVE,
                changed=True,
                leaf_index=leaf_index,
            )

        return self._engine.transact(work)

    def refuse(self, hidden: Hidden, said: str, by: PrincipalId) -> Standing:
        """Record that a memory did not pass its trial (`Paroles.refuse`)."""
        memory = hidden.memory

        def work(change: Change) -> Standing:
            leaf = OperatorLeaf(
                at_ms=change.now_ms,
                action=PAROLE_REFUSED,
                subject=subject_of(memory.memory_id, memory.candidate_id),
                by=by,
                detail=f"{memory.tenant}: {said}",
            )
            return Standing(
                memory_id=memory.memory_id,
                tenant=memory.tenant,
                status=memory.status,
                leaf_index=change.log(leaf),
            )

        return self._engine.transact(work)

    def end(self, ended: Sequence[OnProbation]) -> None:
        """End probations (`Paroles.end`)."""

        def work(change: Change) -> None:
            for one in ended:
                name = self._engine.parts.names.memory(one.tenant, one.memory_id)
                record = parole_record(change.draft, name)
                if record.since_ms == one.since_ms:
                    end_probation(change, name, record)

        self._engine.transact(work)

    def _as_tried(self, change: Change, name: bytes, hidden: Hidden) -> IdRecord:
        """The present id record of a memory, if the memory still is as it was during its trial."""
        known = read_id(change.draft, name)
        if (
            known is None
            or known.status is MemoryStatus.DELETED
            or known.ordinal != hidden.newest
            or hidden_by(change.draft, name, known) != hidden.by
            or parole_record(change.draft, name) != hidden.record
        ):
            raise MemoryMoved("the memory was changed during its trial")
        return known

    def _keep(self, change: Change, hidden: Hidden, record: ParoleRecord) -> None:
        memory = hidden.memory
        name = self._engine.parts.names.memory(memory.tenant, memory.memory_id)
        if not change.draft.has(PAROLES, name):
            change.charges[memory.tenant] += _BYTES
        change.draft.put(PAROLES, name, encode(record))


def end_probation(change: Change, name: bytes, record: ParoleRecord) -> None:
    """End a memory's probation: the memory counts to its own origin again."""
    change.relabelled = True
    change.draft.put(PAROLES, name, encode(msgspec.structs.replace(record, until_ms=0)))
