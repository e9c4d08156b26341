"""The texts of memories under quarantine, as prints, read again when they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.withhold.state import Withdrawn
from proxy.withhold.texts import candidate_prints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policy.model import Candidate, CandidateId, MemoryClass, Tenant
    from policy.withheld.words import Printer


class SaidOnce(Protocol):
    """One version of a memory under quarantine; `storage.values.QuarantinedText` is one."""

    @property
    def candidate_id(self) -> CandidateId:
        """The candidate that brought this version."""
        ...

    @property
    def memory_class(self) -> MemoryClass:
        """The memory's class in this version."""
        ...

    @property
    def candidate(self) -> Candidate:
        """The candidate with the text and the metadata of this version."""
        ...


class WithdrawnTexts:
    """The withdrawn texts of each tenant. Any thread; a call may read the store."""

    def __init__(self, printer: Printer, read: Callable[[Tenant], Iterable[SaidOnce]]) -> None:
        """`read` gives what a tenant's memories under quarantine say, newest first."""
        self._printer = printer
        self._read = read
        # By tenant, the texts with the change that they were read at.
        self._known: dict[Tenant, tuple[int, tuple[Withdrawn, ...]]] = {}

    def of(self, tenant: Tenant, changes: int) -> tuple[Withdrawn, ...]:
        """The withdrawn texts of a tenant, read again if they are older than this count of changes.

        Prints that were made before are not made again.
        """
        at, known = self._known.get(tenant, (0, ()))
        if at >= changes:
            return known
        before = {one.candidate_id: one for one in known}
        found: dict[str, Withdrawn] = {}
        for one in self._read(tenant):
            if one.candidate_id not in found:
                found[one.candidate_id] = before.get(one.candidate_id) or Withdrawn(
                    one.candidate_id,
                    one.memory_class,
                    tuple(candidate_prints(self._printer, one.candidate)),
                )
        texts = tuple(found.values())
        self._known[tenant] = changes, texts
        return texts
