"""The interface through which withholding asks how the store decided."""

from __future__ import annotations

from typing import Protocol

from policy.model import Tenant
from proxy.withhold.convictions import ConvictedSentences
from proxy.withhold.state import Ruling


class Verdicts(Protocol):
    """Tells how the store decided on candidates, in another process or before a restart."""

    def leaf_count(self) -> int:
        """A counter that rises with every verdict."""
        ...

    def version(self) -> int:
        """The store's version, which each commit raises by one."""
        ...

    def gone(self, memory_ids: frozenset[str], tenant: Tenant) -> frozenset[str]:
        """Which of the given memories of a tenant no read shows any more. Any thread."""
        ...

    async def convicted(self, tenant: Tenant) -> ConvictedSentences:
        """What a tenant's convicted memories say; the same object while that is the same."""
        ...

    def held(self, tenant: Tenant) -> frozenset[str]:
        """The candidates of a tenant that wait for a person. Any thread."""
        ...

    def decided(self, candidate_id: str) -> Ruling | None:
        """The last verdict on a candidate; None if there is none. Any thread."""
        ...
