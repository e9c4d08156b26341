"""What an operator may do about many memories at once: isolate them, or rewind them."""

from __future__ import annotations

import asyncio

import msgspec

from policy.model import PrincipalId, Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.incidents import (
    CAUGHT_NAMED_MAX,
    INCIDENTS,
    ISOLATE,
    RESUME,
    REWIND,
    UNDO,
    IncidentList,
    IsolateRequest,
    RewindRequest,
)
from proxy.admin.wire.route import Empty, NoQuery
from proxy.seams.faults import MalformedRequest
from storage.features.cases.wrong_answers import Cases
from storage.features.incidents import IncidentReach, IsolationReport, PastState, RewindReport
from storage.features.incidents.batches import Incidents


class Repairs(msgspec.Struct, frozen=True, kw_only=True):
    """Isolates and rewinds memories. Event loop only; the store is searched in a thread."""

    incidents: Incidents
    cases: Cases

    @route(INCIDENTS)
    async def all(self, _call: OperatorCall[NoQuery]) -> IncidentList:
        """Every isolation and rewind, oldest first, with the incidents of wrong answers."""
        cases = await asyncio.to_thread(self.cases.all)
        return IncidentList(incidents=self.incidents.all(), wrong_answers=cases)

    @route(ISOLATE)
    async def isolate(self, call: OperatorCall[IsolateRequest]) -> IsolationReport:
        """Hide all memories that fit the request, or with `dry_run` only name them.

        Raises:
            MalformedRequest: The request names only a tenant, so every memory of it would be
                hidden.
        """
        asked, reach = call.asked, _reach_of(call.asked)
        if reach.whole_tenant:
            raise MalformedRequest(
                "name a principal, an origin, a session, a target or a time: without one of them "
                "every memory of the tenant would be hidden"
            )
        if not asked.dry_run:
            return await self.incidents.isolate(reach, call.operator, asked.reason)
        found = await asyncio.to_thread(self.incidents.reached, reach)
        return IsolationReport(caught_count=len(found), caught=found[:CAUGHT_NAMED_MAX])

    @route(REWIND)
    async def rewind(self, call: OperatorCall[RewindRequest]) -> RewindReport:
        """Put memories that fit back into an earlier state, or with `dry_run` only count them.

        Raises:
            MalformedRequest: The request names no earlier state, or two.
        """
        asked = call.asked
        if (asked.to_version is None) is (asked.to_ms is None):
            raise MalformedRequest("name a version or a time to go back to, and not both")
        reach, to = _reach_of(asked), PastState(version=asked.to_version, at_ms=asked.to_ms)
        if asked.dry_run:
            done = await asyncio.to_thread(self.incidents.planned, reach, to)
        else:
            done = await self.incidents.rewind(reach, to, call.operator, asked.reason)
        return msgspec.structs.replace(
            done,
            touched=done.touched[:CAUGHT_NAMED_MAX],
            lost=done.lost[:CAUGHT_NAMED_MAX],
            lost_count=len(done.lost),
        )

    @route(UNDO)
    async def undo(self, call: OperatorCall[Empty]) -> IsolationReport:
        """Undo an isolation or a rewind.

        What an isolation hid is shown again, except memories that are hidden for another reason
        too. The memories of a rewind get back the state that they had right before it.
        """
        return await self.incidents.undo(call.argument, call.operator)

    @route(RESUME)
    async def resume(self, call: OperatorCall[Empty]) -> IsolationReport:
        """Finish an isolation, or the undoing of one, that a crash interrupted."""
        return await self.incidents.resume(call.argument, call.operator)


def _reach_of(asked: IsolateRequest | RewindRequest) -> IncidentReach:
    server, _, tool = (asked.origin or "").partition("/")
    if asked.origin is not None and not server:
        raise MalformedRequest("an origin is SERVER or SERVER/TOOL")
    return IncidentReach(
        tenant=Tenant(asked.tenant),
        principal_id=None if asked.principal is None else PrincipalId(asked.principal),
        server=server or None,
        tool=tool or None,
        session=asked.session,
        under=asked.under,
        since_ms=asked.since_ms if isinstance(asked, IsolateRequest) else None,
        with_descendants=isinstance(asked, IsolateRequest) and asked.with_descendants,
    )
