"""Isolations and rewinds of many memories, in batches; each batch is one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from policy.model import PrincipalId
from storage.features.incidents import (
    INCIDENTS,
    CaughtMemory,
    Incident,
    IncidentKind,
    IncidentStage,
    IsolationReport,
    PastState,
    RewindEffect,
    RewindReport,
)
from storage.features.incidents.incident_orders import (
    BeginIncident,
    HideBatch,
    MoveIncident,
    ReleasedMemories,
    ShowBatch,
    read_incident,
)
from storage.features.incidents.past import RewindPlan, planned, point_at, point_of
from storage.features.incidents.reached_memories import caught, reached
from storage.features.incidents.rewind_steps import RewindBatch, RewindBatchReport
from storage.features.quarantine.hiding import QUARANTINES
from storage.ground.errors import UnknownIncident
from storage.questions import Selection
from storage.write.seam import Feature, Order, StoreAccess

_CHANGED: Final = frozenset({"put_back", "hidden", "shown"})
BATCH_LEN: Final = 1_000
"""How many memories one transaction changes; other writes wait for the transaction's end."""


class Incidents(Feature):
    """Isolates and rewinds memories. Coroutines run on any loop; other calls block, on any thread.

    Coroutines raise what `MemoryWriter.submit` raises; batches before a failure remain done.
    """

    def __init__(self, access: StoreAccess, batch_len: int = BATCH_LEN) -> None:
        super().__init__(access)
        self._batch_len = batch_len

    def all(self) -> tuple[Incident, ...]:
        """Every incident, oldest first."""
        with self._store.reading() as view:
            found = [incident for _, incident in view.records(INCIDENTS, sound_only=True)]
        return tuple(sorted(found, key=lambda one: (one.at_ms, one.leaf_count)))

    def reached(self, reach: Selection) -> tuple[CaughtMemory, ...]:
        """The stored memories that the filter matches, quarantined ones too. Reads every row."""
        with self._store.reading() as view:
            return tuple(caught(view, reached(view, self._names, reach)))

    async def isolate(self, reach: Selection, by: PrincipalId, reason: str = "") -> IsolationReport:
        """Hide all memories that the filter matches from every read, with a leaf for each."""
        incident = await self.order(BeginIncident(IncidentKind.ISOLATE, reach, by, reason))
        return await self._isolated(incident, by)

    async def undo(self, incident_id: str, by: PrincipalId) -> IsolationReport:
        """Show the memories again that an isolation hid, unless they are hidden for another reason.

        A rewind is undone by another rewind, an incident of its own, which puts the same memories
        back into the state in which they were when the first rewind began. That state has no
        version number of its own, because memories are hidden and shown without a new version.

        Raises:
            UnknownIncident: No incident has that id, or it is a rewind that is not finished.
            NoSuchPast, QuotaReached: As for `rewind`.
        """
        incident = self._found(incident_id)
        if incident.kind is IncidentKind.REWIND:
            return await self._taken_back(incident, by)
        if incident.stage is IncidentStage.UNDONE:
            return IsolationReport(incident=incident, changed=0, kept=0)
        return await self._undone(incident, by)

    def planned(self, reach: Selection, to: PastState) -> RewindReport:
        """The report of what a rewind would do. Reads every row and every leaf.

        Raises:
            NoSuchPast: The store has no such state (see `rewind`).
        """
        return self._plan(reach, to).told

    async def rewind(
        self, reach: Selection, to: PastState, by: PrincipalId, reason: str = ""
    ) -> RewindReport:
        """Put each memory that the filter matches into the state that it had, by new commits.

        Memories that were written later are hidden, and memories that were deleted later exist
        again. Trust, nonces, keys, anchors, held candidates and the log are not changed. A memory
        that a person or an isolation hid since then stays hidden.

        Raises:
            NoSuchPast: The version or the time is in the future or in an earlier incarnation of the
                store, or all memories of that time are purged; the store was not changed.
                QuotaReached: There is no room for the texts; the batches before remain done.
        """
        plan = await asyncio.to_thread(self._plan, reach, to)
        incident = await self.order(
            BeginIncident(IncidentKind.REWIND, reach, by, reason, plan.point)
        )
        return await self._rewound(incident, by, plan)

    async def resume(self, incident_id: str, by: PrincipalId) -> IsolationReport:
        """Finish an incident that was interrupted; one that is done is not changed.

        A memory that a person showed again since an isolation began stays shown.

        Raises:
            UnknownIncident: No incident has that id.
        """
        incident = self._found(incident_id)
        match incident.stage:
            case IncidentStage.DONE | IncidentStage.UNDONE:
                return IsolationReport(incident=incident, changed=0, kept=0)
            case IncidentStage.UNDOING:
                return await self._undone(incident, by)
            case IncidentStage.OPEN if incident.kind is IncidentKind.REWIND:
                point, until, undone = incident.point, incident.leaf_count, incident.undoes
                plan = await asyncio.to_thread(self._plan_from, incident, point, until, undone)
                done = await self._rewound(incident, by, plan)
                changed = done.put_back + done.hidden + done.shown
                return IsolationReport(incident=done.incident or incident, changed=changed, kept=0)
            case IncidentStage.OPEN:
                return await self._isolated(incident, by)

    def _found(self, incident_id: str) -> Incident:
        with self._store.reading() as view:
            return read_incident(view, incident_id)

    async def _isolated(self, incident: Incident, by: PrincipalId) -> IsolationReport:
        names = await asyncio.to_thread(self._names_in, incident.reach)
        shown_again = ReleasedMemories(incident)
        changed, kept = await self._batches(
            names, lambda batch: HideBatch(incident, batch, shown_again)
        )
        done = await self._moved(incident, IncidentStage.DONE, by, f"{changed} hidden, {kept} were")
        return IsolationReport(incident=done, changed=changed, kept=kept)

    async def _undone(self, incident: Incident, by: PrincipalId) -> IsolationReport:
        # From here on the incident is `UNDOING`: if the process crashes, the next start continues
        # undoing it.
        incident = await self._moved(incident, IncidentStage.UNDOING, by)
        names = await asyncio.to_thread(self._hidden_by, incident.incident_id)
        changed, kept = await self._batches(names, lambda batch: ShowBatch(incident, batch, by))
        done = await self._moved(
            incident, IncidentStage.UNDONE, by, f"{changed} shown, {kept} stay hidden"
        )
        return IsolationReport(incident=done, changed=changed, kept=kept)

    async def _taken_back(self, incident: Incident, by: PrincipalId) -> IsolationReport:
        if incident.stage is not IncidentStage.DONE:
            raise UnknownIncident("this rewind was cut short: resume it before you undo it")
        reason = f"undo of {incident.incident_id}"
        undone = incident.incident_id
        # The state right before the rewind began.
        point = incident.leaf_count
        plan = await asyncio.to_thread(self._plan_from, incident, point, None, undone)
        begin = BeginIncident(IncidentKind.REWIND, incident.reach, by, reason, plan.point, undone)
        begun = await self.order(begin)
        done = await self._rewound(begun, by, plan)
        changed = sum(not _CHANGED.isdisjoint(one.became) for one in done.touched)
        kept = len(done.touched) - changed
        return IsolationReport(incident=done.incident or begun, changed=changed, kept=kept)

    async def _rewound(self, incident: Incident, by: PrincipalId, plan: RewindPlan) -> RewindReport:
        done, steps = RewindBatchReport(), plan.steps
        for at in range(0, len(steps), self._batch_len):
            batch = steps[at : at + self._batch_len]
            done = done.plus(await self.order(RewindBatch(incident, by, batch)))
        detail = f"{done.put_back} put back, {done.hidden} hidden, {done.shown} shown"
        left = plan.touched | {
            name: RewindEffect(memory_id=plan.touched[name].memory_id, became=("moved",))
            for name in done.moved
            if name in plan.touched
        }
        return msgspec.structs.replace(
            plan.told,
            incident=await self._moved(incident, IncidentStage.DONE, by, detail),
            put_back=done.put_back,
            hidden=done.hidden,
            shown=done.shown,
            moved=len(done.moved),
            touched=tuple(left.values()),
        )

    def _plan(self, reach: Selection, to: PastState) -> RewindPlan:
        with self._store.reading() as view:
            return planned(view, self._names, reach, point_of(view, to, self._clock()))

    def _plan_from(
        self, incident: Incident, index: int, until: int | None, undone: str
    ) -> RewindPlan:
        with self._store.reading() as view:
            point = point_at(view, index)
            return planned(view, self._names, incident.reach, point, until, undone)

    def _names_in(self, reach: Selection) -> tuple[bytes, ...]:
        with self._store.reading() as view:
            return reached(view, self._names, reach).names

    def _hidden_by(self, incident_id: str) -> tuple[bytes, ...]:
        with self._store.reading() as view:
            return tuple(
                name for name, hidden in view.records(QUARANTINES) if incident_id in hidden.by
            )

    async def _batches(
        self, names: Sequence[bytes], batch_of: Callable[[Sequence[bytes]], Order[tuple[int, int]]]
    ) -> tuple[int, int]:
        changed = kept = 0
        for at in range(0, len(names), self._batch_len):
            batch = names[at : at + self._batch_len]
            more = await self.order(batch_of(batch))
            changed, kept = changed + more[0], kept + more[1]
        return changed, kept

    async def _moved(
        self, incident: Incident, stage: IncidentStage, by: PrincipalId, detail: str = ""
    ) -> Incident:
        return await self.order(MoveIncident(incident.incident_id, stage, by, detail))
