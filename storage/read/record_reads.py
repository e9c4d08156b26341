"""Reads of records that are no memories: trust, keys, anchors, held candidates and usage."""

from __future__ import annotations

import msgspec

from policy.canonical import decode_canonical
from policy.model import CandidateId, PrincipalId, Tenant
from policy.trust.score import NEWCOMER, TrustState
from storage.features.trust import OriginTrust
from storage.tables.codec import decode_evidence
from storage.tables.names import ANCHORS, HELD, KEYS
from storage.tables.rows import held_candidate_of, held_key
from storage.values import Anchor, HeldCandidate, KeyRecord, TenantUsage, TrustEvent
from storage.write.engine import Engine
from storage.write.line_decisions import denied_lines
from storage.write.trust_intake import ORIGINS, RECENT, TRUST, trust_of


class RecordReads:
    """Reads of the tables of trust, keys, anchors and held candidates. Any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.parts.store
        self._names = engine.parts.names
        # The count of changes at which the anchors were read, and the anchors, keyed by tenant.
        self._anchors: tuple[int, dict[Tenant, tuple[Anchor, ...]]] = (-1, {})

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

    def held(self, tenant: Tenant | None = None) -> tuple[HeldCandidate, ...]:
        """Held candidates, oldest first, without their content."""
        with self._store.reading() as view:
            found = [
                held_candidate_of(CandidateId(key.hex()), row)
                for key, row in view.records(HELD, sound_only=True)
            ]
        mine = [item for item in found if tenant is None or item.tenant == tenant]
        return tuple(sorted(mine, key=lambda item: (item.held_at_ms, item.candidate_id)))

    def held_candidate(self, candidate_id: CandidateId) -> HeldCandidate | None:
        """One held candidate with its content, for a person to read."""
        key = held_key(candidate_id)
        if key is None:
            return None
        with self._store.reading() as view:
            row = view.read(HELD, key)
        if row is None:
            return None
        contents = self._engine.parts.staging.read_held(candidate_id)
        held = held_candidate_of(CandidateId(key.hex()), row)
        if contents is None:
            return held
        evidence = decode_evidence(contents.evidence)
        probes = evidence.shadow or ()
        return msgspec.structs.replace(
            held,
            candidate=decode_canonical(contents.canonical),
            trace_id=evidence.trace_id,
            session=evidence.provenance.session,
            culprits=evidence.provenance.culprits,
            anchors=tuple(one.anchor_id for one in probes if one.contradicts or one.outranks),
        )

    def denied(self) -> frozenset[CandidateId]:
        """The candidates of which a person denied a line, unless it was forgiven. Any thread."""
        with self._store.reading() as view:
            return frozenset(one.candidate_id for one in denied_lines(view).values())

    def usage(self) -> tuple[TenantUsage, ...]:
        """The bytes of the store that each tenant uses, the largest number first."""
        usage = self._engine.parts.judge.usage
        limit = self._store.quota_bytes if usage.limit_bytes is None else usage.limit_bytes
        found = sorted(usage.by_tenant().items(), key=lambda one: (-one[1], one[0]))
        return tuple(
            TenantUsage(tenant=tenant, bytes_used=used, bytes_quota=limit) for tenant, used in found
        )
