"""The bytes of the store that each tenant uses, so that none can use the room of all others.

The counts are stored beside the rows, in the same transactions. They include what stays in the
store: the length of rows and vectors, and for each verdict, also a refusal, its leaves, nodes and
nonce.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import msgspec

from policy.facts import BudgetState
from policy.model import Candidate, ChangeKind, Tenant
from storage.ground.errors import QuotaReached
from storage.tables.change import Change
from storage.tables.codec import encode
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.names import META

VERDICT_BYTES: Final = 1_024
"""The bytes of a verdict: two leaves, their nodes, a nonce, an id, and half-filled pages."""

# The share of the quota that deletions may use beyond it, so that a full store can be emptied. The
# leaves of a tenant's refusals may use the same share beyond the tenant's own.
_OVERDRAFT: Final = 0.1
# The share that purges may use beyond deletions, so that a full store can always be purged. The
# leaves of a purge need two thirds of the smallest memory's size, because the log keeps them.
_PURGE_RESERVE: Final = 0.8
_REMOVALS: Final = frozenset({ChangeKind.DELETE, ChangeKind.PURGE})
_PREFIX: Final = b"\x01"


class _Recorded(msgspec.Struct, frozen=True, array_like=True):
    tenant: Tenant
    bytes_used: int


_DECODE = msgspec.msgpack.Decoder(_Recorded).decode


class Usage:
    """The bytes that each tenant uses, as of the last commit. Writer thread, except `by_tenant`."""

    def __init__(self, names: KeyedNames, quota_bytes: int, share: float) -> None:
        """A tenant may use that `share` of the quota; 1 or more means all, without a check."""
        self._quota_bytes = quota_bytes
        self.limit_bytes = int(quota_bytes * share) if share < 1 else None
        limit = math.inf if self.limit_bytes is None else self.limit_bytes
        self._refused_at_bytes = limit * (1 + _OVERDRAFT)
        self._names = names
        self._bytes: Counter[Tenant] = Counter()

    def by_tenant(self) -> dict[Tenant, int]:
        """Maps each tenant to the bytes that it uses. Any thread."""
        return dict(self._bytes)

    def load(self, view: View) -> None:
        """Read the usage that the store records.

        Raises:
            StoreCorrupt: A value is damaged.
        """
        self._bytes.update(recorded_usage(view))

    def used(self, tenant: Tenant, change: Change) -> int:
        """The bytes of a tenant, including those that this transaction has added so far."""
        return self._bytes[tenant] + change.charges.get(tenant, 0)

    def measured(
        self, budget: BudgetState | None, candidate: Candidate, change: Change
    ) -> BudgetState | None:
        """The budget facts, with the fact whether the tenant's share of the store is used up."""
        if budget is None or self.limit_bytes is None or candidate.change in _REMOVALS:
            return budget
        if self.used(candidate.tenant, change) < self.limit_bytes:
            return budget
        return msgspec.structs.replace(budget, tenant_full=True)

    def must_free(self, candidate: Candidate, room: int) -> bool:
        """Whether a candidate is a deletion that is allowed only if it frees room.

        A deletion of nothing, or one that is refused or held, adds leaves like any refusal. If its
        tenant or the store is full, only deletions that are admitted are allowed; there are at most
        as many as memories. A purge is an operator's command, which no agent can send.
        """
        if candidate.change is not ChangeKind.DELETE:
            return False
        return room < 0 or self._bytes[candidate.tenant] >= self._refused_at_bytes

    def no_room(self, candidate: Candidate, change: Change) -> QuotaReached | None:
        """The error for a write if the store, or the tenant's share of it, has too little room.

        The earlier candidates of the batch need room as well; otherwise a large batch would use the
        room that is reserved for deletions. Room that a purge frees is available only in the next
        transaction. A tenant far above its share gets this error too. A refusal by the gate adds
        leaves, which stay for good, so that refusals without a limit would fill the store.
        """
        room = change.around.room_bytes - max(0, sum(change.charges.values()))
        removal = candidate.change in _REMOVALS
        overdraft = _OVERDRAFT if removal else 0.0
        if candidate.change is ChangeKind.PURGE:
            overdraft += _PURGE_RESERVE
        if room < -overdraft * self._quota_bytes:
            return QuotaReached("the store has reached its quota")
        if removal or self.used(candidate.tenant, change) < self._refused_at_bytes:
            return None
        return QuotaReached("the tenant has used up its share of the store")

    def record(self, change: Change) -> None:
        """Write the changed byte counts of tenants into the transaction."""
        for tenant in change.charges:
            recorded = _Recorded(tenant, max(0, self.used(tenant, change)))
            change.draft.put(META, _PREFIX + self._names.tenant(tenant)[1:], encode(recorded))

    def adopt(self, change: Change) -> None:
        """Apply the changed byte counts after the transaction became durable."""
        for tenant, moved in change.charges.items():
            self._bytes[tenant] = max(0, self._bytes[tenant] + moved)


def recorded_usage(view: View) -> dict[Tenant, int]:
    """Maps each tenant to the bytes that it uses, as of one view of the store."""
    found: dict[Tenant, int] = {}
    for _, payload in view.under(META, _PREFIX):
        recorded = _DECODE(payload)
        found[recorded.tenant] = recorded.bytes_used
    return found
