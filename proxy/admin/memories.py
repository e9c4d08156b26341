"""Shows, hides, confirms and erases single stored memories for an operator.

A purge is a candidate that the gate judges; for each other change, the writer adds a leaf to the
audit log.
"""

from __future__ import annotations

import asyncio

import msgspec

from policy.after.parole import Trial
from policy.model import (
    CandidateId,
    ChangeKind,
    Channel,
    Principal,
    Tenant,
)
from policy.query import EVERYTHING, Compare, Field, Test
from policy.verdict import InvariantBroken
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import extended
from proxy.admin.wire.route import MemoriesQuery, TenantQuery
from proxy.admin.wire.store import (
    DELETE,
    HISTORY,
    MEMORIES,
    MEMORY,
    PURGE,
    HistoryView,
    MemoryPage,
    MemoryView,
    PurgeRequest,
    PurgeView,
)
from proxy.admin.wire.upkeep import (
    CONFIRM_MEMORY,
    OBSERVED,
    QUARANTINE,
    QUARANTINED,
    UNHIDE,
    ConfirmRequest,
    ObservedList,
    QuarantinedList,
    QuarantineRequest,
    TrialView,
    UnhideRequest,
    UnhideView,
)
from proxy.aftermath.parole_trials import ParoleTrials
from proxy.ledger.sessions import Sessions
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.operation import Performs, Proposal, Write, WriteResult
from storage.audit import plain_name
from storage.features.confirm_memory import ConfirmMemory
from storage.features.objections import Objections
from storage.features.quarantine.hiding import EndQuarantine, Quarantine
from storage.features.quarantine.quarantined_memories import QuarantinedMemories
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import Visibility

DIALECT = "admin"


def had_read(
    ledger: Sessions, candidate_id: CandidateId, *said: str | None
) -> tuple[str, ...] | None:
    """The names of the sources that a candidate's session had read before the write.

    None where the session is unknown. A name that repeats a part of the texts `said` is given as
    "other".
    """
    found = ledger.read_before(candidate_id)
    if found is None:
        return None
    names = (" ".join(plain_name(name, *said) for name in one) for one in found)
    return tuple(dict.fromkeys(names))


class Memories(msgspec.Struct, frozen=True, kw_only=True):
    """Answers operators' calls about stored memories, one method per call. Event loop only."""

    writer: MemoryWriter
    reader: MemoryReader
    objections: Objections
    under_quarantine: QuarantinedMemories
    operations: Performs
    ledger: Sessions
    paroling: ParoleTrials

    @route(MEMORIES)
    async def all(self, call: OperatorCall[MemoriesQuery]) -> MemoryPage:
        """Live memories of a tenant, newest first."""
        asked = call.asked
        where = (
            EVERYTHING
            if asked.user_id is None
            else Test(field=Field.USER_ID, compare=Compare.EQ, values=(asked.user_id,))
        )
        page = await asyncio.to_thread(
            self.reader.page, Tenant(asked.tenant), where, asked.offset, asked.limit
        )
        hidden = await asyncio.to_thread(self.under_quarantine.count, Tenant(asked.tenant))
        return extended(MemoryPage, page, offset=asked.offset, quarantined=hidden)

    @route(OBSERVED)
    async def observed(self, call: OperatorCall[TenantQuery]) -> ObservedList:
        """Memories that observe mode admitted although the gate would have held or refused them."""
        found = await asyncio.to_thread(self.objections.find, Tenant(call.asked.tenant))
        return ObservedList(observed=found)

    @route(MEMORY)
    async def one(self, call: OperatorCall[TenantQuery]) -> MemoryView:
        """One memory, live or under quarantine.

        Raises:
            NotFound: The tenant has no memory with this id.
        """
        tenant, memory_id = Tenant(call.asked.tenant), call.memory_id
        found = self.reader.get(tenant, memory_id)
        found = found or self.under_quarantine.get(tenant, memory_id)
        if found is None:
            raise NotFound("there is no such memory in this tenant")
        hands = await asyncio.to_thread(self.under_quarantine.hands, tenant, memory_id)
        return extended(
            MemoryView,
            found,
            hidden=hands,
            had_read=had_read(self.ledger, found.candidate_id, found.text, found.metadata_json),
        )

    @route(HISTORY)
    async def history(self, call: OperatorCall[TenantQuery]) -> HistoryView:
        """Every committed step of one memory.

        Raises:
            NotFound: The tenant never had a memory with this id.
        """
        tenant, memory_id = Tenant(call.asked.tenant), call.memory_id
        entries = self.reader.history(tenant, memory_id)
        entries = entries or self.under_quarantine.history(tenant, memory_id)
        if not entries:
            raise NotFound("there never was such a memory in this tenant")
        return HistoryView(memory_id=memory_id, steps=entries)

    @route(QUARANTINED)
    async def quarantined(self, call: OperatorCall[TenantQuery]) -> QuarantinedList:
        """Quarantined memories of a tenant."""
        found = await asyncio.to_thread(self.under_quarantine.find, Tenant(call.asked.tenant))
        return QuarantinedList(memories=found)

    @route(QUARANTINE)
    async def quarantine(self, call: OperatorCall[QuarantineRequest]) -> Visibility:
        """Quarantine one memory, and on request its descendants: no read shows them from now on."""
        return await self.writer.order(
            Quarantine(
                call.memory_id,
                Tenant(call.asked.tenant),
                call.operator,
                call.asked.reason,
                with_descendants=call.asked.with_descendants,
            )
        )

    @route(UNHIDE)
    async def unhide(self, call: OperatorCall[UnhideRequest]) -> UnhideView:
        """Show a hidden memory again if it passes a trial, or at once with `without_trial`.

        Raises:
            MalformedRequest: No reason is given for showing it without a trial, or one for a trial;
                one.
            UnknownMemory: The tenant has no such memory, or it was deleted.
            MemoryMoved: The memory was changed during its trial; nothing was done.
        """
        asked, memory_id, tenant = call.asked, call.memory_id, Tenant(call.asked.tenant)
        if asked.without_trial is not bool(asked.reason):
            raise MalformedRequest("without_trial, and no trial, needs a reason")
        if asked.without_trial:
            standing = await self.writer.order(
                EndQuarantine(memory_id, tenant, call.operator, asked.reason)
            )
            return extended(UnhideView, standing)
        done = await self.paroling.parole(tenant, memory_id, call.operator)
        return extended(UnhideView, done.standing, trial=_trial_view(done.trial))

    @route(CONFIRM_MEMORY)
    async def confirm(self, call: OperatorCall[ConfirmRequest]) -> Visibility:
        """Label a memory as a person's own words, at the version that the person has read."""
        tenant, version = Tenant(call.asked.tenant), call.asked.version
        return await self.writer.order(
            ConfirmMemory(call.memory_id, tenant, call.operator, version)
        )

    @route(PURGE)
    async def purge(self, call: OperatorCall[PurgeRequest]) -> PurgeView:
        """Erase one memory for good if the gate, which judges every change, admits the erasure.

        Raises:
            NotFound: The tenant has no memory with this id.
        """
        done = await self._removed(call, ChangeKind.PURGE)
        if not call.asked.compact or done.decision != "admit":
            return done
        return msgspec.structs.replace(done, bytes_saved=await self.writer.compact(call.operator))

    @route(DELETE)
    async def delete(self, call: OperatorCall[TenantQuery]) -> PurgeView:
        """Delete one memory if the gate admits it; its history stays.

        Raises:
            NotFound: The tenant has no memory with this id.
        """
        return await self._removed(call, ChangeKind.DELETE)

    async def _removed(
        self, call: OperatorCall[PurgeRequest] | OperatorCall[TenantQuery], change: ChangeKind
    ) -> PurgeView:
        principal = Principal(
            principal_id=call.operator,
            tenant=Tenant(call.asked.tenant),
            channel=Channel.OPERATOR,
        )
        proposal = Proposal(change=change, memory_id=call.memory_id)
        result = await self.operations.perform(
            principal, Write(proposals=(proposal,)), dialect=DIALECT, trace=call.trace
        )
        if not isinstance(result, WriteResult) or len(result.items) != 1:
            raise InvariantBroken("one proposal gives one item")
        item = result.items[0]
        if item.decision == "missing":
            raise NotFound("there is no such memory in this tenant")
        return PurgeView(
            memory_id=call.memory_id,
            decision=item.decision,
            reason=item.reason.value if item.reason else None,
            version=item.version,
            leaf_index=item.leaf_index,
            bytes_saved=None,
        )


def _trial_view(trial: Trial | None) -> TrialView | None:
    if trial is None:
        return None
    return TrialView(passed=trial.passed, against=trial.against, steps=trial.steps)
