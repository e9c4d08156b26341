"""MCP servers behind the gate, for an operator: tools, and changes without a known outcome."""

from __future__ import annotations

from policy.model import CandidateId, ForwardStatus, PrincipalId, Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import server_view, unsettled_view
from proxy.admin.wire.queries import AnyTenantQuery, TenantQuery
from proxy.admin.wire.upkeep import (
    APPROVE_TOOLS,
    SERVERS,
    SETTLE,
    UNSETTLED,
    ApproveRequest,
    ServerList,
    ServerView,
    SettleRequest,
    UnsettledList,
)
from proxy.seams.faults import NotFound
from storage.features.pinned_tools import ApproveTools, Pins
from storage.features.upstream.intents import Forwards
from storage.values import GuardedServer


class UpstreamServers:
    """One method per command; event loop only. `by` names the operator in the leaf."""

    def __init__(self, pins: Pins, forwards: Forwards) -> None:
        self._pins = pins
        self._forwards = forwards

    @route(SERVERS)
    async def servers(self, call: OperatorCall[TenantQuery]) -> ServerList:
        """Every MCP server of a tenant whose tools were listed at least once."""
        pinned = self._pins.all(Tenant(call.asked.tenant))
        return ServerList(servers=tuple(map(server_view, pinned)))

    @route(APPROVE_TOOLS)
    async def approve(self, call: OperatorCall[ApproveRequest]) -> ServerView:
        """Approve a server's tools as they were listed last; leaves a leaf.

        Raises:
            UnknownPins: There is no such server, or its tools are not those of the digest.
        """
        tenant, digest = Tenant(call.asked.tenant), call.asked.digest
        done = await self._pins.order(ApproveTools(tenant, call.argument, call.operator, digest))
        return server_view(done)

    @route(UNSETTLED)
    async def unsettled(self, call: OperatorCall[AnyTenantQuery]) -> UnsettledList:
        """Admitted changes that may be missing on their servers, oldest first."""
        tenant = call.asked.tenant
        return self._unsettled(None if tenant is None else Tenant(tenant))

    def _unsettled(self, tenant: Tenant | None) -> UnsettledList:
        pending = self._forwards.pending(tenant)
        return UnsettledList(unsettled=tuple(map(unsettled_view, pending)))

    @route(SETTLE)
    async def settle_asked(self, call: OperatorCall[SettleRequest]) -> UnsettledList:
        """Record what an operator found out, as `settle` does."""
        return await self.settle(call.operator, call.candidate_id, done=call.asked.done)

    async def settle(
        self, by: PrincipalId, candidate_id: CandidateId, *, done: bool
    ) -> UnsettledList:
        """Record what a person found out: whether the server has a change. Leaves a leaf.

        Returns the changes that are still unsettled.

        Raises:
            NotFound: No unsettled item has that id.
        """
        found = [one for one in self._forwards.pending() if one.candidate_id == candidate_id]
        if not found:
            raise NotFound("no change of that id is on its way")
        candidate = found[0].candidate
        behind = GuardedServer(tenant=candidate.tenant, target=candidate.target, by=by)
        result = ForwardStatus.DONE if done else ForwardStatus.FAILED
        await self._forwards.settle(behind, ((candidate_id, result),))
        return self._unsettled(None)
