"""Implements `Incidents` (isolations and rewinds) on the embedded engine, in batches.

Each batch is one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from policy.model import PrincipalId
from storage.errors import UnknownIncident
from storage.incidents import (
    Caught,
    Contained,
    Incident,
    Kind,
    Past,
    Reach,
    Rewound,
    Stage,
    Touched,
)
from storage.repair.past import Plan, planned, point_at, point_of
from storage.repair.reaching import caught, reached
from storage.tables.codec import decode_hidden_by, decode_incident
from storage.tables.lmdb_store import INCIDENTS, QUARANTINES
from storage.write.engine import Engine
from storage.write.incident_records import IncidentRecords, read_incident
from storage.write.quarantine import Paroled, Quarantine
from storage.write.rewinding import BatchRewound, Rewinding
from storage.write.writer import EmbeddedWriter

_CHANGED: Final = frozenset({"put_back", "hidden", "shown"})
BATCH_LEN: Final = 1_000
"""How many memories one transaction changes: other writes wait for its end."""


class EmbeddedIncidents:
    """Finds the memories of an incident on a separate thread; the writer changes each batch."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter, batch_len: int = BATCH_LEN) -> None:
        self._store = engine.parts.store
        self._names = engine.parts.names
        self._writer = writer
        self._batch_len = batch_len
        self._records = IncidentRecords(engine)
        self._quarantine = Quarantine(engine)
        self._rewinding = Rewinding(engine)
        self._clock = engine.parts.clock

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
        """Hide all that is in reach from every read, with a leaf for each memory."""
        incident = await self._writer.run(
            lambda: self._records.begin(Kind.ISOLATE, reach, by, reason)
        )
        return await self._isolated(incident, by)

    async def undo(self, incident_id: str, by: PrincipalId) -> Contained:
        """Show the memories again that an isolation hid and that nobody else hides."""
        incident = self._found(incident_id)
        if incident.kind is Kind.REWIND:
            return await self._taken_back(incident, by)
        if incident.stage is Stage.UNDONE:
            return Contained(incident=incident, changed=0, kept=0)
        return await self._undone(incident, by)

    def planned(self, reach: Reach, to: Past) -> Rewound:
        """What a rewind would do to each memory in reach, as counts; nothing is changed."""
        return self._plan(reach, to).told

    async def rewind(self, reach: Reach, to: Past, by: PrincipalId, reason: str = "") -> Rewound:
        """Put each memory in reach into the state that it had, by new commits."""
        plan = await asyncio.to_thread(self._plan, reach, to)
        incident = await self._writer.run(
            lambda: self._records.begin(Kind.REWIND, reach, by, reason, plan.point)
        )
        return await self._rewound(incident, by, plan)

    async def resume(self, incident_id: str, by: PrincipalId) -> Contained:
        """Finish an incident that was cut short."""
        incident = self._found(incident_id)
        match incident.stage:
            case Stage.DONE | Stage.UNDONE:
                return Contained(incident=incident, changed=0, kept=0)
            case Stage.UNDOING:
                return await self._undone(incident, by)
            case Stage.OPEN if incident.kind is Kind.REWIND:
                plan = await asyncio.to_thread(self._plan_again, incident)
                done = await self._rewound(incident, by, plan)
                changed = done.put_back + done.hidden + done.shown
                return Contained(incident=done.incident or incident, changed=changed, kept=0)
            case Stage.OPEN:
                return await self._isolated(incident, by)

    def _found(self, incident_id: str) -> Incident:
        with self._store.reading() as view:
            return read_incident(view, incident_id)

    async def _isolated(self, incident: Incident, by: PrincipalId) -> Contained:
        names = await asyncio.to_thread(self._names_in, incident.reach)
        paroled = Paroled(incident)
        changed, kept = await self._batches(
            names, lambda batch: self._quarantine.impose_all(incident, batch, paroled)
        )
        done = await self._moved(incident, Stage.DONE, by, f"{changed} hidden, {kept} were")
        return Contained(incident=done, changed=changed, kept=kept)

    async def _undone(self, incident: Incident, by: PrincipalId) -> Contained:
        # From here on the incident is `UNDOING`: if the process crashes, the next start goes on
        # undoing it.
        incident = await self._moved(incident, Stage.UNDOING, by)
        names = await asyncio.to_thread(self._hidden_by, incident.incident_id)
        changed, kept = await self._batches(
            names, lambda batch: self._quarantine.lift_all(incident, batch, by)
        )
        done = await self._moved(incident, Stage.UNDONE, by, f"{changed} shown, {kept} stay hidden")
        return Contained(incident=done, changed=changed, kept=kept)

    async def _taken_back(self, incident: Incident, by: PrincipalId) -> Contained:
        if incident.stage is not Stage.DONE:
            raise UnknownIncident("this rewind was cut short: resume it before you undo it")
        reason = f"undo of {incident.incident_id}"
        plan = await asyncio.to_thread(self._plan_before, incident)
        begun = await self._writer.run(
            lambda: self._records.begin(Kind.REWIND, incident.reach, by, reason, plan.point)
        )
        done = await self._rewound(begun, by, plan)
        changed = sum(not _CHANGED.isdisjoint(one.became) for one in done.touched)
        kept = len(done.touched) - changed
        return Contained(incident=done.incident or begun, changed=changed, kept=kept)

    async def _rewound(self, incident: Incident, by: PrincipalId, plan: Plan) -> Rewound:
        done, steps = BatchRewound(), plan.steps
        for at in range(0, len(steps), self._batch_len):
            batch = steps[at : at + self._batch_len]
            work = partial(self._rewinding.apply, incident, by, batch)
            done = done.plus(await self._writer.run(work))
        detail = f"{done.put_back} put back, {done.hidden} hidden, {done.shown} shown"
        left = plan.touched | {
            name: Touched(memory_id=plan.touched[name].memory_id, became=("moved",))
            for name in done.moved
            if name in plan.touched
        }
        return msgspec.structs.replace(
            plan.told,
            incident=await self._moved(incident, Stage.DONE, by, detail),
            put_back=done.put_back,
            hidden=done.hidden,
            shown=done.shown,
            moved=len(done.moved),
            touched=tuple(left.values()),
        )

    def _plan(self, reach: Reach, to: Past) -> Plan:
        with self._store.reading() as view:
            return planned(view, self._names, reach, point_of(view, to, self._clock()))

    def _plan_before(self, incident: Incident) -> Plan:
        """The plan that leads to the state right before a rewind began."""
        with self._store.reading() as view:
            point = point_at(view, incident.leaf_count)
            return planned(view, self._names, incident.reach, point)

    def _plan_again(self, incident: Incident) -> Plan:
        with self._store.reading() as view:
            point = point_at(view, incident.point)
            return planned(view, self._names, incident.reach, point, incident.leaf_count)

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
