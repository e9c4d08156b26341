"""The pinned tools of upstream servers: the approved list, and the list that was seen last."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from policy.model import PrincipalId, Tenant
from storage.ground.errors import UnknownPins
from storage.tables.change import Change
from storage.tables.names import RecordTable
from storage.values import THE_STORE, PinnedTools, Tools
from storage.write.seam import Feature

PINS: Final = RecordTable(b"pins", PinnedTools)
PINNED: Final = "tools.pin"
CHANGED: Final = "tools.change"
APPROVED: Final = "tools.approve"


class SeeTools(msgspec.Struct, frozen=True):
    """An order to the writer: record the tools that a server has now, sorted by name.

    The first list of a server is approved at once.
    """

    tenant: Tenant
    server: str
    seen: Tools

    def carry_out(self, change: Change) -> PinnedTools:
        """Record the list, with a leaf if it differs from the last one; return both lists."""
        known = change.draft.read(PINS, change.names.pins(self.tenant, self.server))
        if known is None:
            first = PinnedTools(
                tenant=self.tenant, server=self.server, approved=self.seen, seen=self.seen
            )
            return _put(change, first, PINNED, THE_STORE)
        if known.seen == self.seen:
            return known
        return _put(change, replace(known, seen=self.seen), CHANGED, THE_STORE)


class ApproveTools(msgspec.Struct, frozen=True):
    """An order to the writer: approve the tools that a server had last, if the digest fits."""

    tenant: Tenant
    server: str
    by: PrincipalId
    digest: str | None = None

    def carry_out(self, change: Change) -> PinnedTools:
        """Approve the list, with a leaf if it was not approved before, and return it.

        Raises:
            UnknownPins: The server was never seen, or its tools do not have the digest any more.
        """
        known = change.draft.read(PINS, change.names.pins(self.tenant, self.server))
        if known is None:
            raise UnknownPins("no server of that name was seen")
        if self.digest is not None and self.digest != known.digest:
            raise UnknownPins("the server's tools are others by now; look again")
        if known.seen == known.approved:
            return known
        return _put(change, replace(known, approved=known.seen), APPROVED, self.by)


class Pins(Feature):
    """The pinned tools of upstream servers. Coroutines run on any loop, reads on any thread."""

    async def see(self, tenant: Tenant, server: str, tools: Tools) -> PinnedTools:
        """Record the tools that a server has now (`SeeTools`), unless the list is the last one."""
        seen = tuple(sorted(tools))
        known = self.get(tenant, server)
        if known is not None and known.seen == seen:
            return known
        return await self.order(SeeTools(tenant, server, seen))

    def get(self, tenant: Tenant, server: str) -> PinnedTools | None:
        """The approved tools and the tools seen last of one server; None if it was never seen."""
        with self._store.reading() as view:
            return view.read(PINS, self._names.pins(tenant, server))

    def all(self, tenant: Tenant | None = None) -> tuple[PinnedTools, ...]:
        """The tools of every server that was seen, sorted by tenant and name."""
        with self._store.reading() as view:
            found = [
                one
                for _, one in view.records(PINS, sound_only=True)
                if tenant in {None, one.tenant}
            ]
        return tuple(sorted(found, key=lambda one: (one.tenant, one.server)))


def _put(change: Change, pinned: PinnedTools, action: str, by: PrincipalId) -> PinnedTools:
    change.draft.write(PINS, change.names.pins(pinned.tenant, pinned.server), pinned)
    change.note(action, pinned.server, by, f"{pinned.digest} {pinned.tenant}"[:256])
    return pinned
