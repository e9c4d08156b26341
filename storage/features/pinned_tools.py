"""The pinned tools of servers behind the gate: the approved list, and the list seen last."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from policy.model import PrincipalId, Tenant
from storage.ground.errors import UnknownPins
from storage.tables.change import Change
from storage.tables.lmdb_store import RecordTable
from storage.values import THE_STORE, PinnedTools, Tools
from storage.write.seam import Feature

PINS: Final = RecordTable(b"pins", PinnedTools)
PINNED: Final = "tools.pin"
CHANGED: Final = "tools.change"
APPROVED: Final = "tools.approve"


class SeeTools(msgspec.Struct, frozen=True):
    """The order to record which tools a server has now, sorted by name.

    The very first list of a server is approved as it is.
    """

    tenant: Tenant
    server: str
    seen: Tools

    def carry_out(self, change: Change) -> PinnedTools:
        """That list and the approved one; a leaf is written only where the list differs."""
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
    """The order to approve the tools that a server had last; with a digest, only that list."""

    tenant: Tenant
    server: str
    by: PrincipalId
    digest: str | None = None

    def carry_out(self, change: Change) -> PinnedTools:
        """The approved list, with a leaf where it was not approved before.

        Raises:
            UnknownPins: No such server was ever seen, or its tools have changed meanwhile.
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
    """The tools of servers behind the gate. Coroutines on any loop, reads on any thread."""

    async def see(self, tenant: Tenant, server: str, tools: Tools) -> PinnedTools:
        """Record which tools a server has now (`SeeTools`); nothing is written of those known."""
        seen = tuple(sorted(tools))
        known = self.get(tenant, server)
        if known is not None and known.seen == seen:
            return known
        return await self.order(SeeTools(tenant, server, seen))

    def get(self, tenant: Tenant, server: str) -> PinnedTools | None:
        """The approved tools and the tools seen last, of one server; None if it was never seen."""
        with self._store.reading() as view:
            return view.read(PINS, self._names.pins(tenant, server))

    def all(self, tenant: Tenant | None = None) -> tuple[PinnedTools, ...]:
        """The tools of every server that was seen, by tenant and name."""
        with self._store.reading() as view:
            found = [one for _, one in view.records(PINS) if tenant in {None, one.tenant}]
        return tuple(sorted(found, key=lambda one: (one.tenant, one.server)))


def _put(change: Change, pinned: PinnedTools, action: str, by: PrincipalId) -> PinnedTools:
    change.draft.write(PINS, change.names.pins(pinned.tenant, pinned.server), pinned)
    change.note(action, pinned.server, by, f"{pinned.digest} {pinned.tenant}"[:256])
    return pinned
