"""The orders by which an operator hides one memory or shows it again, and functions for both."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import MemoryId, MemoryStatus, PrincipalId, Tenant
from storage.tables.change import Change
from storage.tables.codec import IdRecord, encode
from storage.tables.lmdb_store import View
from storage.tables.names import IDS, RecordTable
from storage.tables.rows import STANDING, children_of, read_id, read_row, read_standing, subject_of
from storage.values import (
    QUARANTINE,
    QUARANTINE_END,
    QUARANTINE_REASON_LEN_MAX,
    THE_STORE,
    Row,
    Visibility,
)
from storage.write.seam import Follower
from storage.write.trust_intake import TrustIntake

WITHOUT_TRIAL: Final = "without trial"
OPERATOR: Final = "operator"
_SAID_LEN_MAX: Final = QUARANTINE_REASON_LEN_MAX + len(WITHOUT_TRIAL) + 2


class HiddenBy(msgspec.Struct, frozen=True, array_like=True):
    """Who hides one memory: `OPERATOR`, for an order about this memory alone, and incident ids.

    The record exists while the memory is in quarantine, and remains if the memory is deleted.
    """

    by: tuple[str, ...]


QUARANTINES: Final = RecordTable(b"quarantines", HiddenBy)


class Quarantine(msgspec.Struct, frozen=True):
    """An order to the writer: hide a memory from every read. The reason stays in the leaf for good.

    `with_descendants`: the memories that were derived from it, directly or through others, are
    hidden too.
    """

    memory_id: MemoryId
    tenant: Tenant
    by: PrincipalId
    reason: str = ""
    with_descendants: bool = False

    def carry_out(self, change: Change) -> Visibility:
        """Hide the memory, or the memory and its descendants, with a leaf for each change.

        Raises:
            UnknownMemory: The tenant has no such memory, or it was deleted.
        """
        name = change.names.memory(self.tenant, self.memory_id)
        known = read_standing(change.draft, name)
        row = read_row(change.draft, known.ordinal)
        before = hidden_by(change.draft, name, known)
        standing = Visibility(
            memory_id=self.memory_id, tenant=self.tenant, status=MemoryStatus.QUARANTINED
        )
        if OPERATOR not in before:
            place(change, name, known, row, before | {OPERATOR})
            detail = _detail(self.tenant, self.reason)
            leaf_index = log_standing(change, self.memory_id, row, self.by, detail, hidden=True)
            if self.by != THE_STORE:
                intake = TrustIntake(change.names)
                intake.quarantined(change, row, self.memory_id, leaf_index)
            standing = msgspec.structs.replace(standing, changed=True, leaf_index=leaf_index)
        if not self.with_descendants:
            return standing
        detail = f"{self.tenant}: derived from {subject_of(self.memory_id, row.candidate_id)}"
        hidden = sum(self._hide(change, child, detail) for child in self._descendants(change))
        return msgspec.structs.replace(standing, descendants=hidden)

    def _descendants(self, change: Change) -> list[MemoryId]:
        """All memories that were derived from this one, directly or through others, each once."""
        found: dict[MemoryId, None] = {self.memory_id: None}
        waiting = [self.memory_id]
        while waiting:
            parent = waiting.pop()
            for _, row in children_of(change.draft, change.names, self.tenant, parent):
                if row.memory_id not in found:
                    found[row.memory_id] = None
                    waiting.append(row.memory_id)
        del found[self.memory_id]
        return list(found)

    def _hide(self, change: Change, memory_id: MemoryId, detail: str) -> bool:
        """Hide one derived memory; return whether reads showed the memory before."""
        name = change.names.memory(self.tenant, memory_id)
        known = read_id(change.draft, name)
        if known is None or known.status is MemoryStatus.DELETED:
            return False
        before = hidden_by(change.draft, name, known)
        if OPERATOR in before:
            return False
        row = read_row(change.draft, known.ordinal)
        place(change, name, known, row, before | {OPERATOR})
        log_standing(change, memory_id, row, self.by, detail, hidden=True)
        return not before


class EndQuarantine(msgspec.Struct, frozen=True):
    """An order to the writer: show a memory, whoever hides it; the leaf says "without trial"."""

    memory_id: MemoryId
    tenant: Tenant
    by: PrincipalId
    reason: str = ""

    def carry_out(self, change: Change) -> Visibility:
        """Show the memory, with a leaf; a memory that is not hidden is not changed.

        Raises:
            UnknownMemory: The tenant has no such memory, or it was deleted.
        """
        name = change.names.memory(self.tenant, self.memory_id)
        known = read_standing(change.draft, name)
        standing = Visibility(
            memory_id=self.memory_id, tenant=self.tenant, status=MemoryStatus.LIVE
        )
        if not hidden_by(change.draft, name, known):
            return standing
        row = read_row(change.draft, known.ordinal)
        place(change, name, known, row, frozenset())
        said = f"{WITHOUT_TRIAL}: {self.reason}" if self.reason else WITHOUT_TRIAL
        detail = _detail(self.tenant, said)
        leaf_index = log_standing(change, self.memory_id, row, self.by, detail, hidden=False)
        return msgspec.structs.replace(standing, changed=True, leaf_index=leaf_index)


class ForgetsHands(Follower):
    """Forgets who hid a memory when it is purged, or when its id gets a new memory."""

    def begins_anew(self, change: Change, name: bytes) -> None:
        """Delete the record, because those who hid the earlier memory have not seen the new one."""
        if change.draft.delete(QUARANTINES, name):
            change.moved.add(QUARANTINES)


def hidden_by(view: View, name: bytes, known: IdRecord) -> frozenset[str]:
    """Who hides a memory: `OPERATOR`, and the ids of incidents; empty if no one does."""
    record = view.read(QUARANTINES, name)
    if record is not None:
        return frozenset(record.by)
    return frozenset({OPERATOR} if known.status is MemoryStatus.QUARANTINED else ())


def place(change: Change, name: bytes, known: IdRecord, row: Row, hidden: frozenset[str]) -> None:
    """Record who hides a memory; show it in all reads if `hidden` is empty, else in none.

    Every quarantine, and every end of a quarantine, calls `place`. `row` is the memory's newest
    row. A deleted memory stays deleted, and the store continues to record who hides it.
    """
    change.moved.add(QUARANTINES)
    if hidden:
        change.draft.write(QUARANTINES, name, HiddenBy(by=tuple(sorted(hidden))))
    else:
        change.draft.delete(QUARANTINES, name)
    status = MemoryStatus.QUARANTINED if hidden else MemoryStatus.LIVE
    if known.status is status or known.status not in STANDING:
        return
    change.draft.put(IDS, name, encode(IdRecord(known.ordinal, status)))
    if status is MemoryStatus.QUARANTINED:
        change.index.superseded.append((known.ordinal, row))
        change.live_count -= 1
    else:
        change.index.readmitted.append((known.ordinal, row))
        change.live_count += 1


def log_standing(
    change: Change, memory_id: MemoryId, row: Row, by: PrincipalId, detail: str, *, hidden: bool
) -> int:
    """Write the leaf of a memory that was hidden or is shown again; return the leaf's index."""
    action = QUARANTINE if hidden else QUARANTINE_END
    return change.note(action, subject_of(memory_id, row.candidate_id), by, detail)


def _detail(tenant: Tenant, said: str) -> str:
    return f"{tenant}: {said[:_SAID_LEN_MAX]}" if said else tenant
