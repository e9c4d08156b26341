"""The files that hosts put into model requests, for an operator: shows them, and lets lines in."""

from __future__ import annotations

from policy.model import Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.injected_places import (
    ACCEPT_LINES,
    IMPORT_LINES,
    PLACES,
    AcceptRequest,
    ImportRequest,
    PlaceList,
)
from proxy.admin.wire.route import TenantQuery
from proxy.seams.faults import MalformedRequest, NotFound
from storage.features.kept_places import TEXT_LEN_MAX, KeptPlace, KeptPlaces, kept_key


class PlaceActs:
    """Answers operators' calls about files in model requests. Event loop only."""

    def __init__(self, kept: KeptPlaces) -> None:
        self._kept = kept

    @route(PLACES)
    async def places(self, call: OperatorCall[TenantQuery]) -> PlaceList:
        """The files of a tenant, with their lines that wait."""
        return PlaceList(places=self._kept.files(Tenant(call.asked.tenant)))

    @route(ACCEPT_LINES)
    async def accept(self, call: OperatorCall[AcceptRequest]) -> KeptPlace:
        """Let lines that wait in, with a leaf that names the principals whose requests had them.

        Raises:
            NotFound: A line does not wait in this file; no line was let in.
            MalformedRequest: A line is longer than what is kept of it, so no one was shown it.
        """
        asked, tenant = call.asked, Tenant(call.asked.tenant)
        record = self._kept.of(tenant).get(kept_key(asked.path))
        lines = tuple(map(bytes.fromhex, asked.lines))
        if record is None or not {*lines} <= {one.digest for one in record.waiting}:
            raise NotFound("no such line waits in this file; look again")
        shown = (one for one in self._kept.shown(record).waiting if one.digest in asked.lines)
        if any(len(one.text) >= TEXT_LEN_MAX for one in shown):
            raise MalformedRequest(
                f"lines: one of {TEXT_LEN_MAX} or more characters is not shown whole; break the "
                "line, or import the file"
            )
        return await self._kept.let_in(tenant, asked.path, lines, call.operator, "place.accept")

    @route(IMPORT_LINES)
    async def import_lines(self, call: OperatorCall[ImportRequest]) -> KeptPlace:
        """Let all lines of a file's text in, with a leaf."""
        asked, tenant = call.asked, Tenant(call.asked.tenant)
        texts = filter(str.strip, asked.text.split("\n"))
        lines = [self._kept.digest(tenant, asked.path, one) for one in texts]
        return await self._kept.let_in(tenant, asked.path, lines, call.operator, "place.import")
