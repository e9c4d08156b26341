"""Orders to the writer about isolations and rewinds: their records, and the batches of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from policy.model import MemoryStatus, PrincipalId
from storage.audit import OperatorLeaf
from storage.features.incidents import (
    INCIDENTS,
    Incident,
    IncidentKind,
    IncidentStage,
)
from storage.features.quarantine.hiding import hidden_by, log_standing, place
from storage.ground.errors import UnknownIncident
from storage.ground.randomness import random_bytes
from storage.questions import Selection
from storage.tables.change import Change, read_leaf
from storage.tables.lmdb_store import View
from storage.tables.rows import chain, id_key, is_uuid, read_id, read_row, subject_of
from storage.values import QUARANTINE, QUARANTINE_END, QUARANTINE_REASON_LEN_MAX, Row

_ID_LEN: Final = 8
_BY_INCIDENT: Final = re.compile(r"incident [0-9a-f]{16}")


class BeginIncident(msgspec.Struct, frozen=True):
    """An order to the writer: record a new incident durably, before it changes a memory."""

    kind: IncidentKind
    reach: Selection
    by: PrincipalId
    reason: str
    point: int = 0
    undoes: str = ""

    def carry_out(self, change: Change) -> Incident:
        """Record the new incident with its leaf, and return it."""
        incident = Incident(
            incident_id=random_bytes(_ID_LEN).hex(),
            kind=self.kind,
            stage=IncidentStage.OPEN,
            reach=self.reach,
            by=self.by,
            at_ms=change.now_ms,
            reason=self.reason[:QUARANTINE_REASON_LEN_MAX],
            point=self.point,
            leaf_count=change.leaf_count,
            undoes=self.undoes,
        )
        _put(change, incident, self.by, self.reason)
        return incident


class MoveIncident(msgspec.Struct, frozen=True):
    """An order to the writer: set an incident's stage; `UNDOING` never becomes `DONE`."""

    incident_id: str
    stage: IncidentStage
    by: PrincipalId
    detail: str = ""

    def carry_out(self, change: Change) -> Incident:
        """Set the stage, with a leaf if the stage changed, and return the incident.

        Raises:
            UnknownIncident: No incident has that id.
        """
        found = read_incident(change.draft, self.incident_id)
        if self.stage is IncidentStage.DONE and found.stage is not IncidentStage.OPEN:
            return found
        moved = msgspec.structs.replace(found, stage=self.stage)
        if moved != found:
            _put(change, moved, self.by, self.detail)
        return moved


class HideBatch(msgspec.Struct, frozen=True):
    """An order to the writer: hide memories for an incident, each with a leaf that names it.

    A memory is not changed and gets no leaf if the incident hides it already, if it is deleted, or
    if a person showed it again since the incident began. No memory is hidden once the incident is
    being undone, because the undoing might have passed that memory already.
    """

    incident: Incident
    names: Sequence[bytes]
    shown_again: ReleasedMemories

    def carry_out(self, change: Change) -> tuple[int, int]:
        """Hide the batch; return how many became hidden, and how many were hidden already."""
        changed = kept = 0
        incident = self.incident
        if read_incident(change.draft, incident.incident_id).stage is not IncidentStage.OPEN:
            return changed, kept
        self.shown_again.look(change)
        for name in self.names:
            known = read_id(change.draft, name)
            if known is None or known.status is MemoryStatus.DELETED:
                continue
            before = hidden_by(change.draft, name, known)
            if incident.incident_id in before:
                continue
            row = read_row(change.draft, known.ordinal)
            if self.shown_again.names(change, row, known.ordinal):
                continue
            place(change, name, known, row, before | {incident.incident_id})
            log_standing(change, row.memory_id, row, incident.by, incident.detail, hidden=True)
            changed, kept = changed + (not before), kept + bool(before)
        return changed, kept


class ShowBatch(msgspec.Struct, frozen=True):
    """An order to the writer: show memories of an incident again, unless others hide them too."""

    incident: Incident
    names: Sequence[bytes]
    by: PrincipalId

    def carry_out(self, change: Change) -> tuple[int, int]:
        """Show the batch; return how many are shown, each with a leaf, and how many stay hidden."""
        changed = kept = 0
        incident = self.incident
        for name in self.names:
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
            log_standing(change, row.memory_id, row, self.by, incident.detail, hidden=False)
            changed += 1
        return changed, kept


class ReleasedMemories:
    """The memories that, according to the log, a person showed again since an incident began.

    A crash may leave an isolation half done, and a person may then show some of its memories again.
    The code that finishes the isolation must not hide these memories a second time. A memory that
    was shown by an undoing or a rewind does not count as shown by a person. Writer thread only;
    each leaf is read once.
    """

    def __init__(self, incident: Incident) -> None:
        self._tenant = incident.reach.tenant
        self._next = incident.leaf_count
        self._subjects: set[str] = set()

    def look(self, change: Change) -> None:
        """Read the leaves that were added since the last call of `look`."""
        while self._next < change.leaf_count:
            leaf = read_leaf(change.draft, self._next)
            self._next += 1
            if not isinstance(leaf, OperatorLeaf):
                continue
            tenant, _, said = leaf.detail.partition(": ")
            if tenant != self._tenant or _BY_INCIDENT.fullmatch(said) is not None:
                continue
            if leaf.action == QUARANTINE_END:
                self._subjects.add(leaf.subject)
            elif leaf.action == QUARANTINE:
                self._subjects.discard(leaf.subject)

    def names(self, change: Change, newest: Row, ordinal: int) -> bool:
        """Whether a person showed this memory again; `newest` is its row at `ordinal`."""
        if not self._subjects:
            return False
        if subject_of(newest.memory_id, newest.candidate_id) in self._subjects:
            return True
        # If a client chose the id, the leaf names the candidate of the row that was the newest when
        # the leaf was written.
        return not is_uuid(newest.memory_id) and any(
            subject_of(row.memory_id, row.candidate_id) in self._subjects
            for row in chain(change.draft, ordinal)
        )


def read_incident(view: View, incident_id: str) -> Incident:
    """One incident by its id.

    Raises:
        UnknownIncident: No incident has that id.
    """
    key = id_key(incident_id, _ID_LEN)
    incident = None if key is None else view.read(INCIDENTS, key)
    if incident is None:
        raise UnknownIncident("there is no incident of that id")
    return incident


def _put(change: Change, incident: Incident, by: PrincipalId, detail: str) -> None:
    change.draft.write(INCIDENTS, bytes.fromhex(incident.incident_id), incident)
    tenant = incident.reach.tenant
    change.note(
        f"{incident.kind.value}.{incident.stage.value}",
        f"incident {incident.incident_id}",
        by,
        f"{tenant}: {detail}" if detail else tenant,
    )
