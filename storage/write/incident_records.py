"""The record of one isolation or rewind: made before its first batch, updated after its last."""

from __future__ import annotations

import msgspec

from policy.model import PrincipalId
from storage.audit import OperatorLeaf
from storage.errors import UnknownIncident
from storage.ground.randomness import random_bytes
from storage.incidents import Incident, Kind, Reach, Stage
from storage.tables.change import Change
from storage.tables.codec import decode_incident, encode
from storage.tables.lmdb_store import INCIDENTS, View
from storage.values import QUARANTINE_REASON_LEN_MAX
from storage.write.engine import Engine

_ID_LEN = 8


class IncidentRecords:
    """The incident records of one store.

    Writer thread only; each call is a transaction with a leaf.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(
        self, kind: Kind, reach: Reach, by: PrincipalId, reason: str, point: int = 0
    ) -> Incident:
        """Record a new incident, durably, before any memory is changed for it."""
        incident_id = random_bytes(_ID_LEN).hex()

        def work(change: Change) -> Incident:
            incident = Incident(
                incident_id=incident_id,
                kind=kind,
                stage=Stage.OPEN,
                reach=reach,
                by=by,
                at_ms=change.now_ms,
                reason=reason[:QUARANTINE_REASON_LEN_MAX],
                point=point,
                leaf_count=change.leaf_count,
            )
            self._put(change, incident, by, reason)
            return incident

        return self._engine.transact(work)

    def move(self, incident_id: str, stage: Stage, by: PrincipalId, detail: str = "") -> Incident:
        """Set the stage of an incident; one that is being undone is not set to done any more.

        Raises:
            UnknownIncident: No incident has that id.
        """

        def work(change: Change) -> Incident:
            found = read_incident(change.draft, incident_id)
            if stage is Stage.DONE and found.stage is not Stage.OPEN:
                return found
            moved = msgspec.structs.replace(found, stage=stage)
            if moved != found:
                self._put(change, moved, by, detail)
            return moved

        return self._engine.transact(work)

    @staticmethod
    def _put(change: Change, incident: Incident, by: PrincipalId, detail: str) -> None:
        change.draft.put(INCIDENTS, bytes.fromhex(incident.incident_id), encode(incident))
        said = f"{incident.reach.tenant}: {detail}" if detail else incident.reach.tenant
        change.log(
            OperatorLeaf(
                at_ms=change.now_ms,
                action=f"{incident.kind.value}.{incident.stage.value}",
                subject=f"incident {incident.incident_id}",
                by=by,
                detail=said,
            )
        )


def read_incident(view: View, incident_id: str) -> Incident:
    """One incident by its id.

    Raises:
        UnknownIncident: No incident has that id.
    """
    try:
        key = bytes.fromhex(incident_id)
    except ValueError:
        key = b""
    payload = view.get(INCIDENTS, key) if len(key) == _ID_LEN else None
    if payload is None:
        raise UnknownIncident("there is no incident of that id")
    return decode_incident(payload)
