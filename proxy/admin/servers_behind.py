"""MCP servers behind the gate, for an operator: tools, and changes without a known outcome."""

from __future__ import annotations

from policy.model import CandidateId, Forwarded, Principal, PrincipalId, Tenant
from proxy.admin.views import server_view, unsettled_view
from proxy.admin.wire.upkeep import ServerList, ServerView, UnsettledList
from proxy.seams.faults import NotFound
from storage.interfaces import Forwards, Pins
from storage.values import Behind


class ServersBehind:
    """One method per command; event loop only. `by` names the operator in the leaf."""

    def __init__(self, pins: Pins, forwards: Forwards) -> None:
        self._pins = pins
        self._forwards = forwards

    def servers(self, tenant: Tenant) -> ServerList:
        """Every MCP server of a tenant whose tools were listed at least once."""
        return ServerList(servers=tuple(server_view(one) for one in self._pins.all(tenant)))

    async def approve(
        self, by: Principal, tenant: Tenant, server: str, digest: str | None
    ) -> ServerView:
        """Approve a server's tools as they were listed last; leaves a leaf.

        Raises:
            UnknownPins: There is no such server, or its tools are not those of the digest.
        """
        return server_view(await self._pins.approve(tenant, server, by.principal_id, digest))

    def unsettled(self, tenant: Tenant | None) -> UnsettledList:
        """Admitted changes that may be missing on their servers, oldest first."""
        pending = self._forwards.pending(tenant)
        return UnsettledList(unsettled=tuple(unsettled_view(one) for one in pending))

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
        behind = Behind(tenant=candidate.tenant, target=candidate.target, by=by)
        result = Forwarded.DONE if done else Forwarded.FAILED
        await self._forwards.settle(behind, ((candidate_id, result),))
        return self.unsettled(None)
