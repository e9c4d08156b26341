"""The store's decisions on candidates, as withholding asks for them."""

from __future__ import annotations

from policy.model import CandidateId, MemoryId, Tenant
from policy.verdict import Reason
from proxy.withhold.convictions import Convictions
from proxy.withhold.state import NoticeParts, Ruling
from storage.interfaces import Store
from storage.values import THE_STORE


class Verdicts:
    """Answers questions about candidates, also those of another process or before a restart."""

    def __init__(self, store: Store, convictions: Convictions) -> None:
        self._store = store
        self.convictions = convictions

    def leaf_count(self) -> int:
        """The number of leaves in the audit log; every verdict raises it."""
        return self._store.reader.status().leaf_count

    def version(self) -> int:
        """The store's version, which grows with each commit."""
        return self._store.reader.status().version

    def gone(self, memory_ids: frozenset[str], tenant: Tenant) -> frozenset[str]:
        """The ids of `memory_ids` that no read of the tenant shows any more. Any thread."""
        reader = self._store.reader
        return frozenset(one for one in memory_ids if reader.get(tenant, MemoryId(one)) is None)

    def held(self, tenant: Tenant) -> frozenset[str]:
        """The candidates of a tenant that wait for a person. Any thread."""
        return frozenset(one.candidate_id for one in self._store.reader.held(tenant))

    def decided(self, candidate_id: str) -> Ruling | None:
        """The last verdict on a candidate; None if there is none. Any thread."""
        found = self._store.followed.decided(CandidateId(candidate_id))
        if found is None:
            return None
        leaf = found.verdict
        if leaf.reason is Reason.DENIED_BY_PERSON and leaf.approved_by == THE_STORE:
            # The store itself denies a candidate that its staging area lost: no person decided, so
            # the notice may not report a person's denial.
            lost = NoticeParts("error", Reason.GATE_UNAVAILABLE, leaf.memory_class)
            return Ruling(lost, leaf.version)
        reason = leaf.reason or Reason.GATE_UNAVAILABLE
        return Ruling(NoticeParts(leaf.decision.value, reason, leaf.memory_class), leaf.version)
