"""The files that hosts put into model requests, for an operator: shows them, and lets lines in."""

from __future__ import annotations

import msgspec

from policy.model import Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.injected_places import ACCEPT_LINES, PLACES, AcceptRequest, PlaceList
from proxy.admin.wire.route import TenantQuery
from proxy.seams.faults import MalformedRequest
from storage.features.kept_places import TEXT_LEN_MAX, KeptPlace, KeptPlaces, LetLinesIn


class PlaceActs(msgspec.Struct, frozen=True):
    """Answers operators' calls about files in model requests. Event loop only."""

    kept: KeptPlaces

    @route(PLACES)
    async def places(self, call: OperatorCall[TenantQuery]) -> PlaceList:
        """The files of a tenant, with their lines that wait."""
        tenant = Tenant(call.asked.tenant)
        return PlaceList(places=self.kept.files(tenant), full=self.kept.full(tenant))

    @route(ACCEPT_LINES)
    async def accept(self, call: OperatorCall[AcceptRequest]) -> KeptPlace:
        """Let lines in, with a leaf that names the principals whose requests had them.

        Raises:
            MalformedRequest: A line has as many characters as are kept of a longer one, so no one
                was shown the line that waits; no line was let in.
        """
        asked = call.asked
        if any(len(one) == TEXT_LEN_MAX for one in asked.text.split("\n")):
            raise MalformedRequest(
                f"text: a line of {TEXT_LEN_MAX} or more characters is not shown whole; break the "
                "line, or import the file"
            )
        tenant = Tenant(asked.tenant)
        order = LetLinesIn(tenant=tenant, path=asked.path, text=asked.text, by=call.operator)
        return self.kept.shown(await self.kept.order(order))
