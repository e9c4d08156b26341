"""Which memories the retention rules no longer keep, found in one pass over all memories."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import PRINCIPAL, MemoryClass, MemoryId, PrincipalId, Scope, Tenant

if TYPE_CHECKING:
    from policy.ruleset import Retention, RetentionRule

_DAY_MS: Final = 86_400_000


class Why(enum.Enum):
    """The retention rule that ended a memory: its age, or a limit on the number kept."""

    EXPIRED = "expired"
    AGE = "age"
    PER_PRINCIPAL = "per_principal"
    PER_SCOPE = "per_scope"


class RetentionItem(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """One stored memory, without content.

    `ordinal` names one version of it, and grows with time.
    """

    ordinal: int
    tenant: Tenant
    memory_id: MemoryId
    principal_id: PrincipalId
    scope: Scope
    memory_class: MemoryClass
    at_ms: int  # Time of the memory's last change.
    expires_at_ms: int | None


class DueMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that the retention rules no longer keep, and why."""

    item: RetentionItem
    why: Why


class Pass:
    """One pass over all memories: `see` takes each memory once, by rising ordinal.

    After the last call of `see`, `due` returns the memories to erase.
    """

    def __init__(self, rules: Retention, now_ms: int) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._due: list[DueMemory] = []
        # For each group (a principal, or a set of ids) its newest memories, oldest first; never
        # more than the rule keeps.
        self._newest: dict[Hashable, list[tuple[int, RetentionItem]]] = {}

    @property
    def idle(self) -> bool:
        """Whether the rules keep every memory for ever, so that no pass is needed."""
        return self._rules.expired_grace_days is None and not self._rules.classes

    def see(self, item: RetentionItem) -> None:
        """Record one memory, so that `due` can report whether it is to be erased."""
        grace = self._rules.expired_grace_days
        expiry = item.expires_at_ms
        if grace is not None and expiry is not None and expiry + grace * _DAY_MS <= self._now_ms:
            self._due.append(DueMemory(item=item, why=Why.EXPIRED))
            return
        keeping = self._rules.classes.get(item.memory_class)
        if keeping is None:
            return
        age = keeping.age_days_max
        if age is not None and item.at_ms + age * _DAY_MS <= self._now_ms:
            self._due.append(DueMemory(item=item, why=Why.AGE))
            return
        self._count(item, keeping)

    def _count(self, item: RetentionItem, keeping: RetentionRule) -> None:
        groups: tuple[tuple[Why, Hashable, int | None], ...] = (
            (Why.PER_PRINCIPAL, item.principal_id, keeping.per_principal_max),
            (Why.PER_SCOPE, item.scope, keeping.per_scope_max),
        )
        for why, member, kept_max in groups:
            if kept_max is None:
                continue
            kept = self._newest.setdefault((why, item.tenant, member, item.memory_class), [])
            heapq.heappush(kept, (item.ordinal, item))
            if len(kept) > kept_max:
                self._due.append(DueMemory(item=heapq.heappop(kept)[1], why=why))

    def due(self) -> tuple[DueMemory, ...]:
        """The memories to be erased, oldest first, each of them once."""
        first: dict[int, DueMemory] = {}
        for due in self._due:
            first.setdefault(due.item.ordinal, due)
        return tuple(first[ordinal] for ordinal in sorted(first))
