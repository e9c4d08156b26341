"""What an open store knows of candidates that were decided elsewhere, or before a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.model import CandidateId
from policy.verdict import Reason
from proxy.withholding_state import Told

if TYPE_CHECKING:
    from policy.model import Tenant
    from storage.embedded import EmbeddedStore


class StoreVerdicts:
    """Implements `proxy.withholding.Verdicts`. Any thread."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def leaf_count(self) -> int:
        """Moves with every verdict."""
        return self._store.reader.status().leaf_count

    def held(self, tenant: Tenant) -> frozenset[str]:
        """The candidates of a tenant that wait for a person."""
        return frozenset(one.candidate_id for one in self._store.reader.held(tenant))

    def decided(self, candidate_id: str) -> Told | None:
        """The last verdict on a candidate; None where there is none."""
        found = self._store.followed.decided(CandidateId(candidate_id))
        if found is None:
            return None
        leaf = found.verdict
        reason = leaf.reason or Reason.GATE_UNAVAILABLE
        return Told(leaf.decision.value, reason, leaf.memory_class)
