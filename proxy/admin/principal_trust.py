"""The trust of principals and of tools, for an operator: shown, and put back."""

from __future__ import annotations

import msgspec

from policy.model import PrincipalId
from proxy.admin.keys_and_tokens import Credentials
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import origin_view, trust_view
from proxy.admin.wire.route import Empty, NoQuery
from proxy.admin.wire.store import (
    ORIGIN_TRUST,
    RESTORE,
    RESTORE_ORIGIN,
    TRUST,
    TRUST_OF,
    OriginQuery,
    OriginTrustView,
    TrustList,
    TrustView,
)
from proxy.seams.faults import NotFound
from storage.features.trust import RestoreOrigin, RestoreTrust
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import OriginTrust


class PrincipalTrust(msgspec.Struct, frozen=True, kw_only=True):
    """One method for each call about trust. Event loop only."""

    reader: MemoryReader
    writer: MemoryWriter
    credentials: Credentials

    @route(TRUST)
    async def all(self, _call: OperatorCall[NoQuery]) -> TrustList:
        """Every principal and every origin with a recorded trust."""
        known = self.reader.all_trust()
        return TrustList(
            principals=tuple(trust_view(who, state) for who, state in known),
            origins=tuple(map(origin_view, self.reader.all_origins())),
        )

    @route(TRUST_OF)
    async def one(self, call: OperatorCall[NoQuery]) -> TrustView:
        """The trust in one principal; a newcomer's if the principal never wrote.

        Raises:
            NotFound: No principal has that name.
        """
        principal_id = self._known(call.argument)
        history = self.reader.trust_history(principal_id)
        return trust_view(principal_id, self.reader.trust(principal_id), history)

    @route(RESTORE)
    async def restore(self, call: OperatorCall[Empty]) -> TrustView:
        """Put a principal back on the top rung of the trust ladder.

        Raises:
            NotFound: No principal has that name.
        """
        principal_id = self._known(call.argument)
        state = await self.writer.order(RestoreTrust(principal_id, call.operator))
        return trust_view(principal_id, state)

    @route(ORIGIN_TRUST)
    async def origin(self, call: OperatorCall[OriginQuery]) -> OriginTrustView:
        """The trust of one origin, with its last changes.

        Raises:
            NotFound: No outcome is recorded for this origin.
        """
        return self._origin_view(call.asked)

    @route(RESTORE_ORIGIN)
    async def restore_origin(self, call: OperatorCall[OriginQuery]) -> OriginTrustView:
        """Give an origin (a server's tool) the trust of a newcomer again.

        Raises:
            NotFound: No outcome is recorded for this origin.
        """
        one = self._origin(call.asked)
        await self.writer.order(RestoreOrigin(one.tenant, one.server, one.tool, call.operator))
        return self._origin_view(call.asked)

    def _origin_view(self, asked: OriginQuery) -> OriginTrustView:
        one = self._origin(asked)
        return origin_view(one, self.reader.origin_history(one.tenant, one.server, one.tool))

    def _origin(self, asked: OriginQuery) -> OriginTrust:
        named = (asked.tenant, asked.server, asked.tool)
        for one in self.reader.all_origins():
            if (one.tenant, one.server, one.tool) == named:
                return one
        raise NotFound("no outcome of what came from that tool: `mnemogate trust show` lists them")

    def _known(self, name: str) -> PrincipalId:
        principal_id = PrincipalId(name)
        recorded = any(who == principal_id for who, _ in self.reader.all_trust())
        if not recorded and not self.credentials.knows(principal_id):
            raise NotFound("no principal of that name: it has no key, no binding and no trust")
        return principal_id
