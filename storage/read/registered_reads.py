"""Reads of the keys and statements that operators registered."""

from __future__ import annotations

from policy.model import Tenant
from storage.read.trust_reads import TrustReads
from storage.tables.names import ANCHORS, KEYS
from storage.values import Anchor, KeyRecord
from storage.write.engine import Engine


class RegisteredReads(TrustReads):
    """Reads the keys, anchors and canaries of the tables. Any thread."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.parts.store, engine.parts.names)
        self._engine = engine
        # The count of changes at which the anchors were read, and the anchors, keyed by tenant.
        self._anchors: tuple[int, dict[Tenant, tuple[Anchor, ...]]] = (-1, {})

    def keys(self) -> tuple[KeyRecord, ...]:
        """Every key record, revoked ones too, oldest first."""
        with self._store.reading() as view:
            found = [record for _, record in view.records(KEYS)]
        return tuple(sorted(found, key=lambda record: (record.created_at_ms, record.key_id)))

    def anchors(self, tenant: Tenant) -> tuple[Anchor, ...]:
        """The anchors of a tenant, oldest first.

        Every write asks for them, and operators seldom change them, so they are read once for each
        change.
        """
        # The count is read before the anchors, so that after a change in between this reading
        # counts as outdated.
        changes = self._engine.moves[ANCHORS]
        known, by_tenant = self._anchors
        if known != changes:
            by_tenant = self._anchors_by_tenant()
            self._anchors = (changes, by_tenant)
        return by_tenant.get(tenant, ())

    def has_anchors(self) -> bool:
        """Whether any tenant has an anchor. Any thread; reads the store."""
        return bool(self._anchors_by_tenant())

    def canaries(self) -> tuple[Anchor, ...]:
        """The canaries of all tenants, oldest first. Any thread; reads the store."""
        return tuple(one for one in self._registered() if one.is_canary)

    def _registered(self) -> list[Anchor]:
        with self._store.reading() as view:
            found = [anchor for _, anchor in view.records(ANCHORS)]
        return sorted(found, key=lambda one: (one.created_at_ms, one.anchor_id))

    def _anchors_by_tenant(self) -> dict[Tenant, tuple[Anchor, ...]]:
        by_tenant: dict[Tenant, tuple[Anchor, ...]] = {}
        for anchor in self._registered():
            if anchor.is_canary:
                continue
            by_tenant[anchor.tenant] = (*by_tenant.get(anchor.tenant, ()), anchor)
        return by_tenant
