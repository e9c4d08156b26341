"""How many bytes of the store each tenant takes: one that floods must not take the room of all.

Kept beside the rows, in the same transactions. What is counted is what stays: rows and vectors with
their length, and for each verdict, a refusal as well, the leaves, nodes and nonce that it leaves.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import ChangeKind, Tenant
from storage.errors import QuotaReached
from storage.tables.codec import decode_row, encode
from storage.tables.lmdb_store import META, ROWS

if TYPE_CHECKING:
    from policy.facts import BudgetState
    from policy.model import Candidate
    from storage.tables.change import Change
    from storage.tables.keys import KeyedNames
    from storage.tables.lmdb_store import View

VERDICT_BYTES: Final = 1_024
"""Two leaves, their nodes, a nonce and an id, with their share of half-filled pages."""

# Deletes may use this much more than the quota, so that a full store can be emptied. A tenant's
# refusals may leave leaves for this much more than its share.
_OVERDRAFT: Final = 0.1
# Purges have room of their own beyond that: a full store can always be purged. A purge leaves
# leaves of two thirds of the smallest memory's size, because the log keeps them.
_PURGE_RESERVE: Final = 0.8
_REMOVALS: Final = frozenset({ChangeKind.DELETE, ChangeKind.PURGE})
_FLOAT_LEN: Final = 4
_PREFIX: Final = b"\x01"


class _Recorded(msgspec.Struct, frozen=True, array_like=True):
    tenant: Tenant
    bytes_used: int


_DECODE = msgspec.msgpack.Decoder(_Recorded).decode


class Usage:
    """Bytes by tenant, as of the last commit. Writer thread only, except `by_tenant`."""

    def __init__(self, names: KeyedNames, quota_bytes: int, share: float) -> None:
        """A tenant may take that `share` of the quota.

        1 and more mean all of it, without a check.
        """
        self._quota_bytes = quota_bytes
        self.limit_bytes = int(quota_bytes * share) if share < 1 else None
        self._names = names
        self._bytes: Counter[Tenant] = Counter()
        # True while a store that never wrote this down is counted from its rows.
        self._unsaved: set[Tenant] = set()

    def by_tenant(self) -> dict[Tenant, int]:
        """What each tenant takes. Any thread."""
        return dict(self._bytes)

    def load(self, view: View, dimension: int) -> None:
        """The recorded usage, or one counted from the rows where the store has none.

        Raises:
            StoreCorrupt: A value is damaged.
        """
        for key, payload in view.scan(META, _PREFIX):
            if not key.startswith(_PREFIX):
                break
            recorded = _DECODE(payload)
            self._bytes[recorded.tenant] = recorded.bytes_used
        if self._bytes:
            return
        for _, payload in view.scan(ROWS):
            row = decode_row(payload)
            vector_len = _FLOAT_LEN * dimension if row.embedder_id else 0
            self._bytes[row.tenant] += len(payload) + vector_len + VERDICT_BYTES
        self._unsaved.update(self._bytes)

    def used(self, tenant: Tenant, change: Change) -> int:
        """Bytes of a tenant, with what this change adds so far."""
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
        """Whether this is a deletion that must take something away to be allowed.

        A deletion of nothing, or one that is refused or held, adds leaves like any refusal. Where
        its tenant or the store is full, only admitted deletions go on: there are at most as many as
        there are memories. A purge is an operator's command, which no agent's front accepts.
        """
        if candidate.change is not ChangeKind.DELETE:
            return False
        return room < 0 or self._is_beyond(self._bytes[candidate.tenant])

    def no_room(self, candidate: Candidate, room: int, change: Change) -> QuotaReached | None:
        """The error for a write without a leaf, where `room` bytes are left in the store.

        It also meets a tenant far above its share. A refusal by the gate adds leaves, which take
        room for good: without a limit the refusals themselves would be the flood.
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
        """Put the change's bytes into its transaction."""
        for tenant in change.charges.keys() | self._unsaved:
            recorded = _Recorded(tenant, max(0, self.used(tenant, change)))
            change.draft.put(META, self._key(tenant), encode(recorded))

    def adopt(self, change: Change) -> None:
        """Count the change: it is durable."""
        for tenant, moved in change.charges.items():
            self._bytes[tenant] = max(0, self._bytes[tenant] + moved)
        self._unsaved.clear()

    def _key(self, tenant: Tenant) -> bytes:
        return _PREFIX + self._names.tenant(tenant)[1:]
