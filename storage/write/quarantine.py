"""Quarantine and parole: a committed memory is kept as evidence and shown to no reader.

A memory under quarantine keeps its row and its history. Its id is marked, and index searches
exclude it. Nothing is erased, so parole is one step, with a leaf as well. The store records who
hides the memory: an operator, and each incident that reached it. The memory is shown when nobody
hides it any more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from policy.model import MemoryId, MemoryStatus, PrincipalId, Tenant
from storage.audit import OperatorLeaf
from storage.errors import UnknownMemory
from storage.incidents import Incident, Stage
from storage.tables.change import Change, read_leaf
from storage.tables.codec import OPERATOR, HiddenBy, IdRecord, encode
from storage.tables.lmdb_store import IDS, QUARANTINES
from storage.tables.rows import chain, children_of, read_id, read_row
from storage.values import (
    PAROLE,
    QUARANTINE,
    QUARANTINE_REASON_LEN_MAX,
    THE_STORE,
    Row,
    Standing,
)
from storage.write.engine import Engine
from storage.write.hands import hidden_by
from storage.write.incident_records import read_incident

_STANDING: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.QUARANTINED})
WITHOUT_TRIAL: Final = "without trial"
_SAID_LEN_MAX: Final = QUARANTINE_REASON_LEN_MAX + len(WITHOUT_TRIAL) + 2
_BY_INCIDENT: Final = re.compile(r"incident [0-9a-f]{16}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Quarantine:
    """An operator's commands on stored memories. Writer thread only.

    Each raises UnknownMemory where the tenant has no such memory or the memory was deleted, and
    otherwise as `Engine.transact`. The reason stays in the leaf for good.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def impose(
        self,
        memory_id: MemoryId,
        tenant: Tenant,
        by: PrincipalId,
        reason: str,
        *,
        with_descendants: bool = False,
    ) -> Standing:
        """Take a memory out of every read, at once; a quarantined one stays so.

        With its descendants: the memories derived from it are hidden too, and those derived from
        them, to the end. All of it is one transaction, with a leaf for each memory that was shown
        before.
        """
        return self._set(
            MemoryStatus.QUARANTINED,
            memory_id,
            tenant,
            by,
            reason,
            with_descendants=with_descendants,
        )

    def lift(self, memory_id: MemoryId, tenant: Tenant, by: PrincipalId, reason: str) -> Standing:
        """Show a quarantined memory again, whoever hid it; a memory that is shown stays so.

        No trial is made, and the leaf says so.
        """
        said = f"{WITHOUT_TRIAL}: {reason}" if reason else WITHOUT_TRIAL
        return self._set(MemoryStatus.LIVE, memory_id, tenant, by, said)

    def _set(
        self,
        status: MemoryStatus,
        memory_id: MemoryId,
        tenant: Tenant,
        by: PrincipalId,
        reason: str,
        *,
        with_descendants: bool = False,
    ) -> Standing:
        name = self._engine.parts.names.memory(tenant, memory_id)

        def work(change: Change) -> Standing:
            done = alone(change)
            known = read_id(change.draft, name) if with_descendants else None
            if known is None:
                return done
            root = subject_of(memory_id, read_row(change.draft, known.ordinal).candidate_id)
            detail = f"{tenant}: derived from {root}"
            hidden = sum(
                self._hide(change, tenant, child, by, detail)
                for child in self._descendants(change, tenant, memory_id)
            )
            return msgspec.structs.replace(done, descendants=hidden)

        def alone(change: Change) -> Standing:
            known = read_id(change.draft, name)
            # A memory that is still being sent to another server cannot be hidden: no read shows it
            # yet.
            if known is None or known.status not in _STANDING:
                raise UnknownMemory("there is no such memory")
            standing = Standing(memory_id=memory_id, tenant=tenant, status=status)
            before = hidden_by(change.draft, name, known)
            hide = status is MemoryStatus.QUARANTINED
            after = before | {OPERATOR} if hide else frozenset[str]()
            if before == after:
                return standing
            row = read_row(change.draft, known.ordinal)
            place(change, name, known, row, after)
            detail = f"{tenant}: {reason[:_SAID_LEN_MAX]}" if reason else tenant
            leaf_index = log_standing(change, memory_id, row, by, detail, hidden=hide)
            if hide and by != THE_STORE:
                self._engine.parts.judge.intake.quarantined(
                    change, row, memory_id, self._engine.ruleset, leaf_index
                )
            return msgspec.structs.replace(standing, changed=True, leaf_index=leaf_index)

        return self._engine.transact(work)

    def _descendants(self, change: Change, tenant: Tenant, root: MemoryId) -> list[MemoryId]:
        """All memories that were derived from a memory, to the end.

        Each once, without the memory itself.
        """
        found: dict[MemoryId, None] = {root: None}
        waiting = [root]
        while waiting:
            parent = waiting.pop()
            for _, row in children_of(change.draft, self._engine.parts.names, tenant, parent):
                if row.memory_id not in found:
                    found[row.memory_id] = None
                    waiting.append(row.memory_id)
        del found[root]
        return list(found)

    def _hide(
        self, change: Change, tenant: Tenant, memory_id: MemoryId, by: PrincipalId, detail: str
    ) -> bool:
        """Hide one derived memory on behalf of the operator.

        Returns whether a read showed it before.
        """
        name = self._engine.parts.names.memory(tenant, memory_id)
        known = read_id(change.draft, name)
        if known is None or known.status is MemoryStatus.DELETED:
            return False
        before = hidden_by(change.draft, name, known)
        if OPERATOR in before:
            return False
        row = read_row(change.draft, known.ordinal)
        place(change, name, known, row, before | {OPERATOR})
        log_standing(change, memory_id, row, by, detail, hidden=True)
        return not before

    def impose_all(
        self, incident: Incident, names: Sequence[bytes], paroled: Paroled
    ) -> tuple[int, int]:
        """Hide these memories for an incident, in one transaction, each with a leaf naming it.

        Returns how many became hidden, and how many were hidden by somebody else already. A memory
        that the incident hides, one that is gone, and one that a person paroled since the incident
        began stay as they are and get no leaf. Nothing is hidden for an incident that is being
        undone meanwhile: the undoing might leave some hidden.
        """

        def work(change: Change) -> tuple[int, int]:
            changed = kept = 0
            if read_incident(change.draft, incident.incident_id).stage is not Stage.OPEN:
                return changed, kept
            paroled.look(change)
            for name in names:
                known = read_id(change.draft, name)
                if known is None or known.status is MemoryStatus.DELETED:
                    continue
                before = hidden_by(change.draft, name, known)
                if incident.incident_id in before:
                    continue
                row = read_row(change.draft, known.ordinal)
                if paroled.names(change, row, known.ordinal):
                    continue
                place(change, name, known, row, before | {incident.incident_id})
                log_standing(change, row.memory_id, row, incident.by, _of(incident), hidden=True)
                changed, kept = changed + (not before), kept + bool(before)
            return changed, kept

        return self._engine.transact(work)

    def lift_all(
        self, incident: Incident, names: Sequence[bytes], by: PrincipalId
    ) -> tuple[int, int]:
        """Show the memories of an incident again, except those that somebody else hides.

        One transaction. Returns how many are shown again, each with a leaf, and how many stay
        hidden.
        """

        def work(change: Change) -> tuple[int, int]:
            changed = kept = 0
            for name in names:
                known = read_id(change.draft, name)
                if known is None:
                    continue
                before = hidden_by(change.draft, name, known)
                if incident.incident_id not in before:
                    continue
                after = before - {incident.incident_id}
                row = read_row(change.draft, known.ordinal)
                place(change, name, known, row, after)
                if known.status is not MemoryStatus.QUARANTINED:
                    # The memory was deleted meanwhile, and no command shows a deleted memory again.
                    continue
                if after:
                    kept += 1
                    continue
                log_standing(change, row.memory_id, row, by, _of(incident), hidden=False)
                changed += 1
            return changed, kept

        return self._engine.transact(work)


class Paroled:
    """The memories that a person paroled since an incident began, as the log says.

    A crash may leave an isolation half done, and a person may then have shown some of its memories
    again: whoever finishes the isolation must not hide these a second time. A memory that was shown
    by an undoing or a rewind does not count as paroled by a person. Writer thread only; it reads
    each leaf once.
    """

    def __init__(self, incident: Incident) -> None:
        self._tenant = incident.reach.tenant
        self._next = incident.leaf_count
        self._subjects: set[str] = set()

    def look(self, change: Change) -> None:
        """Read the leaves that were added since the last call."""
        while self._next < change.leaf_count:
            leaf = read_leaf(change.draft, self._next)
            self._next += 1
            if not isinstance(leaf, OperatorLeaf) or leaf.action not in {QUARANTINE, PAROLE}:
                continue
            tenant, _, said = leaf.detail.partition(": ")
            if tenant != self._tenant or _BY_INCIDENT.fullmatch(said) is not None:
                continue
            if leaf.action == PAROLE:
                self._subjects.add(leaf.subject)
            else:
                self._subjects.discard(leaf.subject)

    def names(self, change: Change, newest: Row, ordinal: int) -> bool:
        """Whether a person paroled this memory; `newest` is its row at `ordinal`."""
        if not self._subjects:
            return False
        if subject_of(newest.memory_id, newest.candidate_id) in self._subjects:
            return True
        # For an id that a client chose, the leaf names the candidate of the row that was newest
        # then.
        return _UUID.fullmatch(newest.memory_id) is None and any(
            subject_of(row.memory_id, row.candidate_id) in self._subjects
            for row in chain(change.draft, ordinal)
        )


def place(change: Change, name: bytes, known: IdRecord, row: Row, hidden: frozenset[str]) -> None:
    """Show a memory in all reads, or in none, depending on whether anybody hides it now.

    Every quarantine and every parole goes through here. `row` is the memory's newest row. A deleted
    memory stays deleted, and the store goes on to record who hides it.
    """
    change.quarantines_moved = True
    if hidden:
        change.draft.put(QUARANTINES, name, encode(HiddenBy(by=tuple(sorted(hidden)))))
    else:
        change.draft.delete(QUARANTINES, name)
    status = MemoryStatus.QUARANTINED if hidden else MemoryStatus.LIVE
    if known.status is status or known.status not in _STANDING:
        return
    change.draft.put(IDS, name, encode(IdRecord(known.ordinal, status)))
    if status is MemoryStatus.QUARANTINED:
        change.superseded.append((known.ordinal, row))
        change.live_count -= 1
    else:
        change.readmitted.append((known.ordinal, row))
        change.live_count += 1


def log_standing(
    change: Change, memory_id: MemoryId, row: Row, by: PrincipalId, detail: str, *, hidden: bool
) -> int:
    """Write the leaf of a memory that was hidden or is shown again; returns the leaf's index."""
    leaf = OperatorLeaf(
        at_ms=change.now_ms,
        action=QUARANTINE if hidden else PAROLE,
        subject=subject_of(memory_id, row.candidate_id),
        by=by,
        detail=detail,
    )
    return change.log(leaf)


def subject_of(memory_id: MemoryId, candidate_id: str) -> str:
    """The name of a memory in leaves: its own id where we made it, else its candidate's id.

    A client's own id could be any text, and a leaf stays after a purge: the candidate's id is ours.
    """
    plain = _UUID.fullmatch(memory_id) is not None
    return memory_id if plain else f"candidate {candidate_id}"


def _of(incident: Incident) -> str:
    return f"{incident.reach.tenant}: incident {incident.incident_id}"
