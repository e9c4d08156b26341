"""The tools of servers behind the gate: which were approved, and which they have now."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from storage.audit import OperatorLeaf
from storage.codec import PinRecord, decode_pins, encode
from storage.errors import UnknownPins
from storage.lmdb_store import PINS
from storage.recovery import THE_STORE

if TYPE_CHECKING:
    from policy.model import PrincipalId, Tenant
    from storage.change import Change
    from storage.engine import Engine
    from storage.lmdb_store import View
    from storage.writer import EmbeddedWriter

PINNED: Final = "tools.pin"
CHANGED: Final = "tools.change"
APPROVED: Final = "tools.approve"

Tools = tuple[tuple[str, str], ...]


class Pinned(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of one server as (name, digest), sorted. Times in the log, not here."""

    tenant: Tenant
    server: str
    approved: Tools
    seen: Tools

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of tools that are new, gone, or another than was approved."""
        return tuple(sorted({name for name, _ in set(self.approved) ^ set(self.seen)}))


def digest_of_tools(tools: Tools) -> str:
    """What a person names when he approves a list: hex, 16 digits, over sorted names and digests.

    A name cannot hold the separator: digests are hex, and come first.
    """
    joined = "\n".join(f"{digest} {name}" for name, digest in sorted(tools))
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Pins:
    """Coroutines on any loop, reads on any thread."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter) -> None:
        self._engine = engine
        self._writer = writer

    async def see(self, tenant: Tenant, server: str, tools: Tools) -> Pinned:
        """Compare a server's tools with those approved; the first list is approved as it is.

        Writes only where something is new, with a leaf.

        Raises:
            StorageError: As `MemoryWriter.submit`.
        """
        seen = tuple(sorted(tools))
        known = self.get(tenant, server)
        if known is not None and known.seen == seen:
            return known
        return await self._writer.run(lambda: self._see(tenant, server, seen))

    async def approve(
        self, tenant: Tenant, server: str, by: PrincipalId, digest: str | None = None
    ) -> Pinned:
        """Approve the list that was seen last; with a digest, only if it is that one.

        Raises:
            UnknownPins: No such server was ever seen, or its tools are others by now.
            StorageError: As `MemoryWriter.submit`.
        """
        return await self._writer.run(lambda: self._approve(tenant, server, by, digest))

    def get(self, tenant: Tenant, server: str) -> Pinned | None:
        """What is known of one server."""
        with self._engine.parts.store.reading() as view:
            return self._read(view, tenant, server)

    def all(self, tenant: Tenant | None = None) -> tuple[Pinned, ...]:
        """Every server that was seen, by tenant and name."""
        with self._engine.parts.store.reading() as view:
            found = [_pinned(decode_pins(payload)) for _, payload in view.scan(PINS)]
        mine = [one for one in found if tenant in {None, one.tenant}]
        return tuple(sorted(mine, key=lambda one: (one.tenant, one.server)))

    def _read(self, view: View, tenant: Tenant, server: str) -> Pinned | None:
        payload = view.get(PINS, self._engine.parts.names.pins(tenant, server))
        return None if payload is None else _pinned(decode_pins(payload))

    def _see(self, tenant: Tenant, server: str, seen: Tools) -> Pinned:
        def work(change: Change) -> Pinned:
            known = self._read(change.draft, tenant, server)
            if known is None:
                return self._put(change, (tenant, server, seen, seen), PINNED, THE_STORE)
            if known.seen == seen:
                return known
            return self._put(change, (tenant, server, known.approved, seen), CHANGED, THE_STORE)

        return self._engine.transact(work)

    def _approve(self, tenant: Tenant, server: str, by: PrincipalId, digest: str | None) -> Pinned:
        def work(change: Change) -> Pinned:
            known = self._read(change.draft, tenant, server)
            if known is None:
                raise UnknownPins("no server of that name was seen")
            if digest is not None and digest != digest_of_tools(known.seen):
                raise UnknownPins("the server's tools are others by now; look again")
            if known.seen == known.approved:
                return known
            return self._put(change, (tenant, server, known.seen, known.seen), APPROVED, by)

        return self._engine.transact(work)

    def _put(
        self, change: Change, pins: tuple[Tenant, str, Tools, Tools], action: str, by: PrincipalId
    ) -> Pinned:
        record = PinRecord(*pins)
        name = self._engine.parts.names.pins(record.tenant, record.server)
        change.draft.put(PINS, name, encode(record))
        change.log(
            OperatorLeaf(
                at_ms=change.now_ms,
                action=action,
                subject=record.server,
                by=by,
                detail=f"{digest_of_tools(record.seen)} {record.tenant}"[:256],
            )
        )
        return _pinned(record)


def _pinned(record: PinRecord) -> Pinned:
    return Pinned(
        tenant=record.tenant, server=record.server, approved=record.approved, seen=record.seen
    )
