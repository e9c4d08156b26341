"""How many bytes of the store each tenant takes, so that none can take the room of all others.

The counts are kept beside the rows, in the same transactions. Counted is what stays: the length of
rows and vectors, and for each verdict, a refusal as well, its leaves, nodes and nonce.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from policy.facts import BudgetState
from policy.model import Candidate, ChangeKind, Tenant
from storage.ground.errors import QuotaReached
from storage.tables.change import Change
from storage.tables.codec import encode
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import META, View

VERDICT_BYTES: Final = 1_024
"""The bytes of a verdict: two leaves, their nodes, a nonce, an id, and half-filled pages."""

# The share of the quota that deletions may use beyond it, so that a full store can be emptied. The
# leaves of a tenant's refusals may take the same share beyond the tenant's own.
_OVERDRAFT: Final = 0.1
# The share that purges may use beyond deletions: a full store can always be purged. The leaves of
# a purge take two thirds of the smallest memory's size, because the log keeps them.
_PURGE_RESERVE: Final = 0.8
_REMOVALS: Final = frozenset({ChangeKind.DELETE, ChangeKind.PURGE})
_PREFIX: Final = b"\x01"


class _Recorded(msgspec.Struct, frozen=True, array_like=True):
    tenant: Tenant
    bytes_used: int


_DECODE = msgspec.msgpack.Decoder(_Recorded).decode


class Usage:
    """Bytes by tenant, as of the last commit. Writer thread only, except `by_tenant`."""

    def __init__(self, names: KeyedNames, quota_bytes: int, share: float) -> None:
        """A tenant may take that `share` of the quota.

        A share of 1 or more means all of the quota, without a check.
        """
        self._quota_bytes = quota_bytes
        self.limit_bytes = int(quota_bytes * share) if share < 1 else None
        self._names = names
        self._bytes: Counter[Tenant] = Counter()

    def by_tenant(self) -> dict[Tenant, int]:
        """How many bytes each tenant takes. Any thread."""
        return dict(self._bytes)

    def load(self, view: View) -> None:
        """Take over the recorded usage.

        Raises:
            StoreCorrupt: A value is damaged.
        """
        self._bytes.update(recorded_usage(view))

    def used(self, tenant: Tenant, change: Change) -> int:
        """The bytes of a tenant, with what this transaction adds so far."""
        return self._bytes[tenant] + change.charges[tenant]

    def measured(
        self, budget: BudgetState | None, candidate: Candidate, change: Change
    ) -> BudgetState | None:
        """The budget facts, with whether the tenant's share of the store is used up."""
        if budget is None or self.limit_bytes is None or candidate.change in _REMOVALS:
            return budget
        if self.used(candidate.tenant, change) < self.limit_bytes:
            return budget
        return msgspec.structs.replace(budget, tenant_full=True)

    def must_free(self, candidate: Candidate, room: int) -> bool:
        """Whether this is a deletion that is only allowed if it frees room.

        A deletion of nothing, or one that is refused or held, adds leaves like any refusal. Where
        its tenant or the store is full, only admitted deletions are allowed: there are at most as
        many as there are memories. A purge is an operator's command, which no agent can send.
        """
        if candidate.change is not ChangeKind.DELETE:
            return False
        return room < 0 or self._is_beyond(self._bytes[candidate.tenant])

    def no_room(self, candidate: Candidate, room: int, change: Change) -> QuotaReached | None:
        """The error for a write that does not get a leaf, where `room` bytes are left in the store.

        A tenant far above its share gets this error too. A refusal by the gate adds leaves, which
        take room for good: without a limit the refusals themselves would be the flood.
        """
        removal = candidate.change in _REMOVALS
        overdraft = _OVERDRAFT if removal else 0.0
        if candidate.change is ChangeKind.PURGE:
            overdraft += _PURGE_RESERVE
        if room < -overdraft * self._quota_bytes:
            return QuotaReached("the store has reached its quota")
        if removal or not self._is_beyond(self.used(candidate.tenant, change)):
            return None
        return QuotaReached("the tenant has used up its share of the store")

    def _is_beyond(self, used: int) -> bool:
        return self.limit_bytes is not None and used >= self.limit_bytes * (1 + _OVERDRAFT)

    def record(self, change: Change) -> None:
        """Put the changed byte counts of tenants into the transaction."""
        for tenant in change.charges:
            recorded = _Recorded(tenant, max(0, self.used(tenant, change)))
            change.draft.put(META, self._key(tenant), encode(recorded))

    def adopt(self, change: Change) -> None:
        """Take over the changed byte counts after the transaction became durable."""
        for tenant, moved in change.charges.items():
            self._bytes[tenant] = max(0, self._bytes[tenant] + moved)

    def _key(self, tenant: Tenant) -> bytes:
        return _PREFIX + self._names.tenant(tenant)[1:]


def recorded_usage(view: View) -> dict[Tenant, int]:
    """How many bytes each tenant takes, as of one view of the store."""
    found: dict[Tenant, int] = {}
    for key, payload in view.scan(META, _PREFIX):
        if not key.startswith(_PREFIX):
            break
        recorded = _DECODE(payload)
        found[recorded.tenant] = recorded.bytes_used
    return found
