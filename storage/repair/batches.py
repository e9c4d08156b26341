"""Implements `Incidents` on the embedded engine: batch by batch, each one transaction."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from storage.errors import UnknownIncident
from storage.incidents import Contained, Kind, Stage
from storage.repair.reaching import caught, reached
from storage.tables.codec import decode_hidden_by, decode_incident
from storage.tables.lmdb_store import INCIDENTS, QUARANTINES
from storage.write.incident_records import IncidentRecords, read_incident
from storage.write.quarantine import Quarantine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policy.model import PrincipalId
    from storage.incidents import Caught, Incident, Reach
    from storage.write.engine import Engine
    from storage.write.writer import EmbeddedWriter

BATCH_LEN: Final = 1_000
"""Memories in one transaction: other writes wait for that long, and no longer."""


class EmbeddedIncidents:
    """Looks for what is meant on a thread of its own, and has the writer do each batch."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter, batch_len: int = BATCH_LEN) -> None:
        self._store = engine.parts.store
        self._names = engine.parts.names
        self._writer = writer
        self._batch_len = batch_len
        self._records = IncidentRecords(engine)
        self._quarantine = Quarantine(engine)

    def all(self) -> tuple[Incident, ...]:
        """Every incident, oldest first."""
        with self._store.reading() as view:
            found = [decode_incident(payload) for _, payload in view.scan(INCIDENTS)]
        return tuple(sorted(found, key=lambda one: (one.at_ms, one.leaf_count)))

    def reached(self, reach: Reach) -> tuple[Caught, ...]:
        """The stored memories in reach, quarantined ones too."""
        with self._store.reading() as view:
            return tuple(caught(view, reached(view, self._names, reach)))

    async def isolate(self, reach: Reach, by: PrincipalId, reason: str = "") -> Contained:
        """Take all that is in reach out of every read, a leaf for each memory."""
        incident = await self._writer.run(
            lambda: self._records.begin(Kind.ISOLATE, reach, by, reason)
        )
        return await self._isolated(incident, by)

    async def undo(self, incident_id: str, by: PrincipalId) -> Contained:
        """Show again what an isolation hid and nobody else hides."""
        incident = self._found(incident_id)
        if incident.kind is not Kind.ISOLATE:
            raise UnknownIncident("a rewind is taken back by another one")
        if incident.stage is Stage.UNDONE:
            return Contained(incident=incident, changed=0, kept=0)
        return await self._undone(incident, by)

    async def resume(self, incident_id: str, by: PrincipalId) -> Contained:
        """Finish what was cut short."""
        incident = self._found(incident_id)
        match incident.stage:
            case Stage.DONE | Stage.UNDONE:
                return Contained(incident=incident, changed=0, kept=0)
            case Stage.UNDOING:
                return await self._undone(incident, by)
            case Stage.OPEN:
                return await self._isolated(incident, by)

    def _found(self, incident_id: str) -> Incident:
        with self._store.reading() as view:
            return read_incident(view, incident_id)

    async def _isolated(self, incident: Incident, by: PrincipalId) -> Contained:
        names = await asyncio.to_thread(self._names_in, incident.reach)
        changed, kept = await self._batches(
            names, lambda batch: self._quarantine.impose_all(incident, batch)
        )
        done = await self._moved(incident, Stage.DONE, by, f"{changed} hidden, {kept} were")
        return Contained(incident=done, changed=changed, kept=kept)

    async def _undone(self, incident: Incident, by: PrincipalId) -> Contained:
        # From here on a crash is followed by more undoing, and by nothing else.
        incident = await self._moved(incident, Stage.UNDOING, by)
        names = await asyncio.to_thread(self._hidden_by, incident.incident_id)
        changed, kept = await self._batches(
            names, lambda batch: self._quarantine.lift_all(incident, batch, by)
        )
        done = await self._moved(incident, Stage.UNDONE, by, f"{changed} shown, {kept} stay hidden")
        return Contained(incident=done, changed=changed, kept=kept)

    def _names_in(self, reach: Reach) -> tuple[bytes, ...]:
        with self._store.reading() as view:
            return reached(view, self._names, reach).names

    def _hidden_by(self, incident_id: str) -> tuple[bytes, ...]:
        with self._store.reading() as view:
            return tuple(
                name
                for name, payload in view.scan(QUARANTINES)
                if incident_id in decode_hidden_by(payload).by
            )

    async def _batches(
        self, names: Sequence[bytes], work: Callable[[Sequence[bytes]], tuple[int, int]]
    ) -> tuple[int, int]:
        changed = kept = 0
        for at in range(0, len(names), self._batch_len):
            batch = names[at : at + self._batch_len]
            more = await self._writer.run(partial(work, batch))
            changed, kept = changed + more[0], kept + more[1]
        return changed, kept

    async def _moved(
        self, incident: Incident, stage: Stage, by: PrincipalId, detail: str = ""
    ) -> Incident:
        return await self._writer.run(
            lambda: self._records.move(incident.incident_id, stage, by, detail)
        )
