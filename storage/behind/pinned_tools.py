"""The pinned tools of servers behind the gate: the approved list, and the list seen last."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from policy.model import PrincipalId, Tenant
from storage.audit import OperatorLeaf
from storage.errors import UnknownPins
from storage.tables.change import Change
from storage.tables.codec import decode_pins, encode
from storage.tables.lmdb_store import PINS, View
from storage.values import THE_STORE, Pinned, Tools
from storage.write.engine import Engine
from storage.write.writer import EmbeddedWriter

PINNED: Final = "tools.pin"
CHANGED: Final = "tools.change"
APPROVED: Final = "tools.approve"


class EmbeddedPins:
    """Implements `Pins` (the approved tools of servers) on the embedded engine."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter) -> None:
        self._engine = engine
        self._writer = writer

    async def see(self, tenant: Tenant, server: str, tools: Tools) -> Pinned:
        """Record which tools a server has now; returns them, and those that were approved.

        The very first list of a server is approved as it is.

        A leaf is written only where the list differs from the last one.
        """
        seen = tuple(sorted(tools))
        known = self.get(tenant, server)
        if known is not None and known.seen == seen:
            return known
        return await self._writer.run(lambda: self._see(tenant, server, seen))

    async def approve(
        self, tenant: Tenant, server: str, by: PrincipalId, digest: str | None = None
    ) -> Pinned:
        """Approve the tools that a server had last; with a digest, only a list with that digest."""
        return await self._writer.run(lambda: self._approve(tenant, server, by, digest))

    def get(self, tenant: Tenant, server: str) -> Pinned | None:
        """The approved tools and the tools seen last, of one server."""
        with self._engine.parts.store.reading() as view:
            return self._read(view, tenant, server)

    def all(self, tenant: Tenant | None = None) -> tuple[Pinned, ...]:
        """The tools of every server that was seen, by tenant and name."""
        with self._engine.parts.store.reading() as view:
            found = [decode_pins(payload) for _, payload in view.scan(PINS)]
        mine = [one for one in found if tenant in {None, one.tenant}]
        return tuple(sorted(mine, key=lambda one: (one.tenant, one.server)))

    def _read(self, view: View, tenant: Tenant, server: str) -> Pinned | None:
        payload = view.get(PINS, self._engine.parts.names.pins(tenant, server))
        return None if payload is None else decode_pins(payload)

    def _see(self, tenant: Tenant, server: str, seen: Tools) -> Pinned:
        def work(change: Change) -> Pinned:
            known = self._read(change.draft, tenant, server)
            if known is None:
                first = Pinned(tenant=tenant, server=server, approved=seen, seen=seen)
                return self._put(change, first, PINNED, THE_STORE)
            if known.seen == seen:
                return known
            return self._put(change, replace(known, seen=seen), CHANGED, THE_STORE)

        return self._engine.transact(work)

    def _approve(self, tenant: Tenant, server: str, by: PrincipalId, digest: str | None) -> Pinned:
        def work(change: Change) -> Pinned:
            known = self._read(change.draft, tenant, server)
            if known is None:
                raise UnknownPins("no server of that name was seen")
            if digest is not None and digest != known.digest:
                raise UnknownPins("the server's tools are others by now; look again")
            if known.seen == known.approved:
                return known
            return self._put(change, replace(known, approved=known.seen), APPROVED, by)

        return self._engine.transact(work)

    def _put(self, change: Change, pinned: Pinned, action: str, by: PrincipalId) -> Pinned:
        name = self._engine.parts.names.pins(pinned.tenant, pinned.server)
        change.draft.put(PINS, name, encode(pinned))
        change.log(
            OperatorLeaf(
                at_ms=change.now_ms,
                action=action,
                subject=pinned.server,
                by=by,
                detail=f"{pinned.digest} {pinned.tenant}"[:256],
            )
        )
        return pinned
