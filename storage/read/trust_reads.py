"""Reads of the trust in principals and origins, with the last changes of each."""

from __future__ import annotations

from policy.model import PrincipalId, Tenant
from policy.trust.score import NEWCOMER, TrustState
from storage.features.trust import OriginTrust
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import LmdbStore
from storage.values import TrustEvent
from storage.write.trust_intake import ORIGINS, RECENT, TRUST, trust_of


class TrustReads:
    """Reads the trust records of the tables. Any thread."""

    def __init__(self, store: LmdbStore, names: KeyedNames) -> None:
        self._store = store
        self._names = names

    def trust(self, principal_id: PrincipalId) -> TrustState:
        """The trust of one principal; a newcomer's if the principal never wrote."""
        with self._store.reading() as view:
            record = view.read(TRUST, self._names.principal(principal_id))
        return NEWCOMER if record is None else trust_of(record)

    def all_trust(self) -> tuple[tuple[PrincipalId, TrustState], ...]:
        """Every principal with a recorded trust."""
        with self._store.reading() as view:
            found = [record for _, record in view.records(TRUST, sound_only=True)]
        found.sort(key=lambda record: record.principal_id)
        return tuple((record.principal_id, trust_of(record)) for record in found)

    def trust_history(self, principal_id: PrincipalId) -> tuple[TrustEvent, ...]:
        """The last changes of a principal's trust, oldest first; at most 64."""
        return self._history(self._names.principal(principal_id))

    def origin_trust(self, tenant: Tenant, server: str, tool: str) -> TrustState:
        """The trust of an origin; a newcomer's if nothing came from it."""
        with self._store.reading() as view:
            record = view.read(ORIGINS, self._names.origin(tenant, server, tool))
        return NEWCOMER if record is None else trust_of(record.trust)

    def all_origins(self) -> tuple[OriginTrust, ...]:
        """Every origin with a recorded trust."""
        with self._store.reading() as view:
            found = [record for _, record in view.records(ORIGINS, sound_only=True)]
        found.sort(key=lambda one: (one.tenant, one.server, one.tool))
        return tuple(
            OriginTrust(
                tenant=one.tenant, server=one.server, tool=one.tool, state=trust_of(one.trust)
            )
            for one in found
        )

    def origin_history(self, tenant: Tenant, server: str, tool: str) -> tuple[TrustEvent, ...]:
        """The last changes of an origin's trust, oldest first; at most 64."""
        return self._history(self._names.origin(tenant, server, tool))

    def _history(self, key: bytes) -> tuple[TrustEvent, ...]:
        with self._store.reading() as view:
            return view.read(RECENT, key) or ()
